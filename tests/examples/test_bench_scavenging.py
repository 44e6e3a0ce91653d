# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
from tests.examples._assertions import every_assertion_can_fail


def grown(times, name, base):
    return 1000.0 if base == "short" else 1.0


test_every_assertion_can_fail = every_assertion_can_fail(
    "5_benchmarks/bench_scavenging.py",
    {
        "slow": {"example:ratio": lambda *_: 1000.0},
        "growing": {"example:ratio": grown},
        "heavy": {"example:ratio": lambda *_: 1.0, "example:peak_mib": lambda _: 1e4},
    },
    args=["--n-impressions", "1000000"],
)
