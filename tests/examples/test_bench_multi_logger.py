# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""The benchmark of several loggers sees values that are wrong."""

from tests.examples._assertions import every_assertion_can_fail
from tests.examples._constants import says

test_every_assertion_can_fail = every_assertion_can_fail(
    "5_benchmarks/bench_multi_logger.py",
    {"a constant": {"skope_ope.evaluate": says(value=0.0)}},
    args=["--n-rounds", "1000", "--repeats", "1"],
)
