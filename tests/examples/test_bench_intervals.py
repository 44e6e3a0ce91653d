# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""The benchmark of intervals sees a bootstrap that is slow and keeps its counts."""

import sys
from time import process_time
from types import ModuleType

import numpy as np
import pytest

from skope_ope.evaluators import ValueTable
from tests.examples._assertions import every_assertion_can_fail

intervals = ValueTable.confidence_intervals


def heavy(table, level=0.95, method="auto", **options):
    """Keep 40,000 numbers for every resample."""
    waste = np.ones((options.get("n_resamples") or 1, 40_000))
    found = intervals(table, level, method, **options)
    del waste
    return found


def slow(call, n_repeats):
    """All of our calls take ages."""
    return 1e12


@pytest.fixture
def vw(monkeypatch):
    """Put estimators that take a third of a second in the place of vw-estimators."""

    class Busy:
        def __init__(self, *args, **kwargs):
            pass

        def add_example(self, *args):
            pass

        def get(self):
            start = process_time()
            while process_time() - start < 0.3:
                pass
            return 0.0

    package, bandits = ModuleType("estimators"), ModuleType("estimators.bandits")
    for name in ("clopper_pearson", "cressieread", "cs", "gaussian", "mle"):
        module = ModuleType(f"estimators.bandits.{name}")
        module.Interval = module.Estimator = Busy
        setattr(bandits, name, module)
        monkeypatch.setitem(sys.modules, module.__name__, module)
    package.bandits = bandits
    monkeypatch.setitem(sys.modules, "estimators", package)
    monkeypatch.setitem(sys.modules, "estimators.bandits", bandits)


check = every_assertion_can_fail(
    "5_benchmarks/bench_intervals.py",
    {
        "a bootstrap that keeps what it draws": {
            "skope_ope.evaluators.ValueTable.confidence_intervals": heavy
        },
        "intervals that take ages": {"example:seconds": slow},
    },
    args=["--n-rounds", "2000", "--repeats", "1", "--share", "1e-9"],
)


@pytest.mark.theory
def test_every_assertion_can_fail(vw, request):
    check(request)
