# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""The example on figure 1 sees weights of one, whole slates, bad models."""

from types import SimpleNamespace

import numpy as np

from skope_ope import SlateIPS
from tests.examples._assertions import every_assertion_can_fail


def of_one(evaluator, policy):
    """The mean reward of the logs, whatever the policy; far off as a model."""
    return SimpleNamespace(round_values=np.ones(len(policy)))


MODEL = {
    "skope_ope.SlateDirectMethod.fit": lambda evaluator, logs: evaluator,
    "skope_ope.SlateDirectMethod.evaluate": of_one,
}
test_every_assertion_can_fail = every_assertion_can_fail(
    "4_papers/plot_does_the_pseudoinverse_stand_rewards_that_are_no_sums.py",
    {
        "weights of one": MODEL | {"skope_ope.SlateIPS.evaluate": of_one},
        "whole slates alone": MODEL
        | {
            "skope_ope.PseudoInverse.fit": lambda evaluator, logs: SlateIPS().fit(logs),
        },
    },
    args=["--model-runs", "4"],
)
