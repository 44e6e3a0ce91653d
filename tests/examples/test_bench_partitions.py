# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
from itertools import cycle

import pytest

from tests.examples._assertions import every_assertion_can_fail

pytest.importorskip("pyarrow")
PEAKS = cycle([1.0, 1e9])


def grows(folder, n_files, groups=False):
    return next(PEAKS)


test_every_assertion_can_fail = every_assertion_can_fail(
    "5_benchmarks/bench_partitions.py",
    {
        "slow, and larger with every file": {
            "example:beside_its_parts": lambda *about: 1e9,
            "example:two_jobs": lambda *about: 0.0,
            "example:peak": grows,
            "example:pushed_down": lambda *about: {("duckdb", "sums"): 1e9},
        }
    },
    args=["--files", "1", "--repeats", "1", "--slack", "30"],
)
