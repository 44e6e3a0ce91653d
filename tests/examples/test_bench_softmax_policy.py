# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""The benchmark of SoftmaxPolicy tells a fit that is slow and holds a whole table."""

import numpy as np

from tests.examples._assertions import every_assertion_can_fail


def with_a_table(logs):
    """Return seconds and steps of a fit."""
    np.empty((1_000, 100_000))  # never touched, but counted
    return 1e12, 1


test_every_assertion_can_fail = every_assertion_can_fail(
    "5_benchmarks/bench_softmax_policy.py",
    {"a table of rounds and actions": {"example:fit": with_a_table}},
    args=["--n-rounds", "500", "--n-actions", "3", "5", "--most", "1e9"],
)
