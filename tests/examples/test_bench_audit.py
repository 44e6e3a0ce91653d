# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
from time import process_time
from types import SimpleNamespace

from skope_ope import evaluate
from tests.examples._assertions import every_assertion_can_fail

LONG = 1000.0  # seconds
lost = [0.0]


def clock():
    return process_time() + sum(lost)


def slow_audit(*args):
    lost.append(LONG)
    return SimpleNamespace(alarms=[])


names = {"lose": lambda: lost.append(LONG)}
exec(
    compile("def check(): lose()", "slow_findings.py", "exec"), names
)  # a check's file


def slowly_checked(*args, **options):
    names["check"]()
    return evaluate(*args, **options)


test_every_assertion_can_fail = every_assertion_can_fail(
    "5_benchmarks/bench_audit.py",
    {
        "slow audit": {"time.process_time": clock, "skope_ope.audit": slow_audit},
        "slow checks": {
            "time.process_time": clock,
            "skope_ope.evaluate": slowly_checked,
        },
    },
    args=[
        "--n-rounds",
        "5000",
        "--repeats",
        "1",
        "--most",
        "1e6",
        "--most-share",
        "100",
    ],
)
