# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""The benchmark of slates sees an estimator that is slow and fills the memory."""

import numpy as np

from skope_ope import PseudoInverse
from tests.examples._assertions import every_assertion_can_fail

evaluate = PseudoInverse.evaluate


def heavy(evaluator, *args, **kwargs):
    """Evaluate, beside 72 MiB that nobody needs."""
    waste = np.ones(9 * 2**20)
    value = evaluate(evaluator, *args, **kwargs)
    del waste
    return value


def slow(call, repeats=3):
    """The pseudoinverse takes two seconds, everything else a tenth of one."""
    ours = call.__qualname__.startswith("value_and_interval")
    return 2.0 if ours else 0.1


test_every_assertion_can_fail = every_assertion_can_fail(
    "5_benchmarks/bench_slates.py",
    {
        "slow and heavy": {
            "skope_ope.PseudoInverse.evaluate": heavy,
            "example:seconds": slow,
        }
    },
    args=["--rounds", "20000"],
)
