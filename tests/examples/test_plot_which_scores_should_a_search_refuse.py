# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Which scores should a search refuse? The script sees a scorer with another rule."""

import numpy as np

from tests.examples._assertions import every_assertion_can_fail


def refuse_all(rule, value, mean_weight):
    """The rule of a quarter refuses everything, the others nothing."""
    return np.full_like(value, np.nan) if rule == "quarter" else value


test_every_assertion_can_fail = every_assertion_can_fail(
    "2_tuning/plot_which_scores_should_a_search_refuse.py",
    {
        "another scorer": {"skope_ope.PolicyScorer.__call__": lambda *_: 0.5},
        "no score": {"example:scores_of": refuse_all},
    },
    args=["--n-worlds", "60"],
)
