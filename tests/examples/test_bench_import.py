# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
from tests.examples._assertions import every_assertion_can_fail


def slow(n_repeats):
    return {"pass": [0, 0], "import sklearn.base": [1, 1], "import skope_ope": [99, 99]}


def quick(n_repeats):
    return {name: [int(name != "pass")] * 2 for name in slow(1)}


def loads_pandas(statement):
    return {"numpy", "pandas"} if "skope" in statement else {"numpy"}


heavy = {"example:modules_after": loads_pandas, "example:wheel_bytes": lambda: None}
test_every_assertion_can_fail = every_assertion_can_fail(
    "5_benchmarks/bench_import.py",
    {
        "slow": heavy | {"example:start_times": slow},
        "heavy": heavy | {"example:start_times": quick},
    },
    args=["--repeats", "1", "--most", "9"],
)
