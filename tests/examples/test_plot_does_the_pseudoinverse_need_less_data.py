# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""The example on figure 2 sees weights and models that learn from nothing."""

from types import SimpleNamespace

import numpy as np

from skope_ope import SlateIPS
from tests.examples._assertions import every_assertion_can_fail


def all_match(evaluator, slates):
    """Every slate is taken for the policy's own."""
    return SimpleNamespace(
        round_values=np.ones(len(slates)), diagnostics={"sigma2": 1.0}
    )


def ever_better(evaluator, slates):
    """A model without the bias that stays."""
    return SimpleNamespace(round_values=np.full(len(slates), 0.736 + 99 / len(slates)))


def constant(evaluator, slates):
    return 0.3


MODELS = {
    "skope_ope.SlateDirectMethod.fit": lambda evaluator, logs: evaluator,
    "skope_ope.SlateDirectMethod.evaluate": ever_better,
}
test_every_assertion_can_fail = every_assertion_can_fail(
    "4_papers/plot_does_the_pseudoinverse_need_less_data.py",
    {
        "weights of one": MODELS
        | {
            "skope_ope.PseudoInverse.evaluate": all_match,
            "skope_ope.PseudoInverse.score": constant,
            "skope_ope.SlateIPS.evaluate": all_match,
        },
        "whole slates alone, which have no bias": MODELS
        | {
            "skope_ope.PseudoInverse.fit": lambda evaluator, logs: SlateIPS().fit(logs),
        },
    },
    args=["--largest", "60000", "--runs", "4", "--model-runs", "2", "--data", ""],
)
