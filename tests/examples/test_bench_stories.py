# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
from collections import Counter
from types import SimpleNamespace

from tests.examples._assertions import every_assertion_can_fail


def all_ours(make, n_rounds):
    return SimpleNamespace(shares=Counter(ours=1.0), functions=Counter())


test_every_assertion_can_fail = every_assertion_can_fail(
    "5_benchmarks/bench_stories.py",
    {"all of the time is ours": {"example:looked_at": all_ours}},
    args=["--only", "csv to report", "--scale", "0.05"],
)
