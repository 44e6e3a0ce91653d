# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""The literal form of DR-ns beside it would tell if DR-ns were another estimator."""

from types import SimpleNamespace

from tests.examples._assertions import every_assertion_can_fail


def evaluate(self, policy):
    """Return another value and history than those of DR-ns."""
    return SimpleNamespace(value=0.0, accepted=())


test_every_assertion_can_fail = every_assertion_can_fail(
    "5_benchmarks/bench_drns.py",
    {
        "DR-ns is a constant": {"skope_ope.DRns.evaluate": evaluate},
        "a round that costs ever more": {"example:ratio": lambda *_: 1e12},
        "as slow as the literal form": {"example:ratio": lambda *_: 0.0},
        "tables that are copied": {"example:peak_mib": lambda _: 1e6},
    },
    args=[
        *["--n-rounds", "2000", "--peer-rounds", "1000", "--repeats", "1"],
        *["--share", "1e-3"],
    ],
)
