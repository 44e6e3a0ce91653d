# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
from itertools import count

from tests.examples._assertions import every_assertion_can_fail

peaks = count(100, -50)  # the first call of a pair needs more than the second


def heavy(call):
    return next(peaks)


test_every_assertion_can_fail = every_assertion_can_fail(
    "5_benchmarks/bench_waits.py",
    {"tables that are copied": {"example:peak_mib": heavy}},
    args=["--only", "tables", "--n-rounds", "5000"],
)
