# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
import numpy as np

from tests.examples._assertions import every_assertion_can_fail


def with_a_table(self, policy):
    return np.empty((1_000, 50_000))  # never touched, but counted


test_every_assertion_can_fail = every_assertion_can_fail(
    "5_benchmarks/bench_memory.py",
    {
        "a table of rounds and actions": {
            "skope_ope.IPS.score": with_a_table,
            "example:evaluation": lambda n_rounds, n_actions: 1e4 * n_rounds,
        }
    },
    args=["--n-rounds", "500", "9000", "--n-actions", "3", "--many", "1000", "50000"],
)
