# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""The rounds that enter an estimate: a round of sample weight 0 does not."""

from functools import cached_property

import numpy as np

from skope_ope.evaluators.core._design import design_of


class PositiveRounds:
    """The rounds of some logs whose sample weight is positive."""

    shares = None  # stated for the loggers; else those of the rounds themselves

    def __init__(self, all_logs, sample_weight=None):
        self.all_logs, self.sample_weight = all_logs, sample_weight
        self.mask, self.n, self.omega = None, len(all_logs), sample_weight
        if sample_weight is not None and not sample_weight.all():
            self.mask = sample_weight > 0
            self.n = int(np.count_nonzero(self.mask))
            scale = self.n / sample_weight.sum() if self.n else 0.0
            self.omega = sample_weight * scale

    @cached_property
    def design(self):
        """Weight and cluster of every round."""
        return design_of(self.all_logs, self.omega)

    def of(self, values):
        """Return the last axis of an array without the rounds that do not enter."""
        return values if self.mask is None else values[..., self.mask]

    def counts(self, codes, n_codes):
        """Return how many rounds that enter have each code."""
        return np.bincount(self.of(codes), minlength=n_codes)

    @cached_property
    def logs(self):
        """Logs of the rounds that enter."""
        return self.all_logs if self.mask is None else self.all_logs[self.mask]

    @cached_property
    def unseen(self):
        """Codes of the actions that none of them took."""
        logs = self.all_logs
        if self.mask is None:
            return logs._unseen
        return np.flatnonzero(self.counts(logs.action_index, logs.n_actions) == 0)


class Part(PositiveRounds):
    """The rounds of a part of a log: they weigh what they weigh in the whole."""

    def __init__(self, logs, sample_weight=None, shares=None):
        super().__init__(logs, sample_weight)
        self.omega, self.shares = sample_weight, shares
