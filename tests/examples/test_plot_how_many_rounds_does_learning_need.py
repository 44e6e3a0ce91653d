# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""The example on learning sees a policy that earns nothing."""

import numpy as np

from tests.examples._assertions import every_assertion_can_fail


def nothing(policy, X):
    """Take no action at all."""
    return np.zeros((len(X), 3))


test_every_assertion_can_fail = every_assertion_can_fail(
    "3_families/plot_how_many_rounds_does_learning_need.py",
    {"nothing": {"skope_ope.RewardModelPolicy.predict_proba": nothing}},
)
