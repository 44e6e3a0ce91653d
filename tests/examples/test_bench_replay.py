# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""A competitor that is quicker than it should be fails the benchmark of replay."""

import sys
from types import ModuleType, SimpleNamespace

import pytest

from tests.examples._assertions import every_assertion_can_fail


@pytest.fixture
def mabwiser(monkeypatch):
    """Put a learner that takes long in the place of mabwiser's."""

    class MAB:
        def __init__(self, *args):
            pass

        def fit(self, **arrays):
            pass

        def predict(self):
            return sum(range(5_000)) % 20

        def partial_fit(self, *arrays):
            pass

    package, module = ModuleType("mabwiser"), ModuleType("mabwiser.mab")
    module.MAB = MAB
    module.LearningPolicy = SimpleNamespace(UCB1=lambda alpha: None)
    monkeypatch.setitem(sys.modules, "mabwiser", package)
    monkeypatch.setitem(sys.modules, "mabwiser.mab", module)


def even(calls, n_repeats):
    return {name: [1.0] for name in calls}


check = every_assertion_can_fail(
    "5_benchmarks/bench_replay.py",
    {"as slow as the others": {"example:alternate": even}},
    args=["--n-rounds", "2000", "--repeats", "1", "--settled", "1000"],
)


@pytest.mark.theory
def test_every_assertion_can_fail(mabwiser, request):
    check(request)
