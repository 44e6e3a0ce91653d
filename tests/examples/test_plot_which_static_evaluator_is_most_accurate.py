# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""The experiment of the doubly robust paper: its assertions fail on broken values."""

from types import SimpleNamespace

import numpy as np

from tests.examples._assertions import every_assertion_can_fail

RNG = np.random.RandomState(0)


def evaluations(value):
    """Return an `evaluate` whose table has such values."""

    def evaluate(policy, logs, *, evaluators, **kwargs):
        return {name: SimpleNamespace(value=value()) for name in evaluators}

    return {"skope_ope.evaluate": evaluate}


test_every_assertion_can_fail = every_assertion_can_fail(
    "4_papers/plot_which_static_evaluator_is_most_accurate.py",
    {
        "nearly a constant": evaluations(lambda: 5 + 0.01 * RNG.standard_normal()),
        "noise": evaluations(lambda: 100 * RNG.standard_normal()),
    },
    args=["--sets", "wine", "--repetitions", "12", "--n-jobs", "1"],
)
