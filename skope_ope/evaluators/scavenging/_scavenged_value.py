# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""The value of a policy from arms, whose counts are those of the rounds it is of."""

from dataclasses import replace

import numpy as np

from skope_ope.evaluators.core._policy_value import PolicyValue
from skope_ope.evaluators.core._rows import Rows


class ScavengedValue(PolicyValue):
    """Value of a policy from arms."""

    def __init__(self, *args, arms, bound_facts, **kwargs):
        super().__init__(*args, **kwargs)
        self.arms, self.bound_facts = arms, bound_facts
        self.arm_counts = np.bincount(arms.code, minlength=arms.n_arms)

    def _group_estimate(self, places):
        # the counts of the arms, and the mixture of the loggers, are the group's own
        found = self.arms.take(places).estimate()
        return found, Rows(found.design, found.terms)

    def _estimate_without(self, left_out):
        arms, rows = self.arms, self._rows
        found = replace(arms, design=arms.design.without(left_out)).estimate()
        facts = rows.row_id, rows.logs, left_out
        return found, Rows(found.design, found.terms, *facts)

    def _overlap_without(self, design):
        found = replace(self.arms, design=design).estimate()
        return found.effective_sample_size, {"mean_weight": found.mean_weight}
