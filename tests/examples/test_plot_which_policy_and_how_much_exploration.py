# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Which policy, and how much exploration? The script can be proved wrong."""

from types import SimpleNamespace

import numpy as np
from sklearn.pipeline import Pipeline

from skope_ope import RewardModelPolicy
from tests.examples._assertions import every_assertion_can_fail


def explorers_first(self, estimator):
    """Stand for the score: the more exploration, the better, and reward models most."""
    policy = estimator[-1] if isinstance(estimator, Pipeline) else estimator
    return policy.epsilon + isinstance(policy, RewardModelPolicy), []


class Comparison(dict):
    """A comparison that has seen no log."""

    decision, sentence = "keep", ""

    def to_records(self):
        return [dict.fromkeys(("difference", "difference_low", "difference_high"), 0.0)]


def compare(*_, **__):
    return Comparison(chosen=SimpleNamespace(value=5.0, standard_error=0.01))


def at_random(self, X, available=None):
    """Stand for a policy that has learned nothing."""
    return np.full((len(X), len(self.classes_)), 1 / len(self.classes_))


BLIND = {
    "skope_ope.selection._policy_scorer.HeldOutValue.judged": explorers_first,
    "skope_ope.compare_policies": compare,
}
test_every_assertion_can_fail = every_assertion_can_fail(
    "2_tuning/plot_which_policy_and_how_much_exploration.py",
    {
        "blind": BLIND,
        "unlearned": BLIND | {"skope_ope.RewardModelPolicy.predict_proba": at_random},
    },
    args=["--repetitions", "2"],
)
