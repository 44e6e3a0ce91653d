# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
from tests.examples._assertions import every_assertion_can_fail


def even(call, *arguments):
    seconds = 1.0 if call.__name__ == "naive" else 1000.0
    return (seconds,) * 4, []


test_every_assertion_can_fail = every_assertion_can_fail(
    "5_benchmarks/bench_adaptive_classifier.py",
    {"as slow as the naive loop": {"example:measured": even}},
    args=["--n-rounds", "1000", "--repeats", "1", "--share", "0.01"],
)
