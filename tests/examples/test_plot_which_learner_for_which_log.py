# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import numpy as np

from tests.examples._assertions import every_assertion_can_fail


class FirstAction:
    """A policy that learns nothing."""

    def __init__(self, *args, **kwargs):
        pass

    def fit(self, logs):
        return self

    def predict(self, X):
        return np.zeros(X.shape[0], dtype=int)


LEARNERS = ["Classifier", "RewardModel", "DR", "Softmax", "IPS"]
NAMES = [f"skope_ope.{name}Policy" for name in LEARNERS]

test_every_assertion_can_fail = every_assertion_can_fail(
    "3_families/plot_which_learner_for_which_log.py",
    {
        "all learn nothing": dict.fromkeys(NAMES, FirstAction),
        "all but one learn nothing": dict.fromkeys(NAMES[1:], FirstAction),
    },
    args=[
        *("--sets", "digits", "--loggers", "confounded"),
        *("--repetitions", "3", "--n-rounds", "700"),
    ],
)
