# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""The benchmark of several loggers sees values that are wrong, and slow ones."""

import sys
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest

from tests.examples._assertions import every_assertion_can_fail
from tests.examples._constants import says


class Estimator:
    """Stands for the three classes of obp that are measured."""

    def estimate_policy_value(
        self, *, reward, action, action_dist, pscore=None, pscore_avg=None, **strata
    ):
        proba = pscore_avg if pscore is None else pscore
        return (action_dist[np.arange(len(action)), action, 0] / proba * reward).mean()


@pytest.fixture
def obp(monkeypatch):
    """Put a module with the formula of the values in the place of obp."""
    module, ope = ModuleType("obp"), ModuleType("obp.ope")
    module.ope = ope
    name = "MultiLoggers{}InverseProbabilityWeighting"
    kinds = "Naive", "Balanced", "Weighted"
    ope.estimators_multi = SimpleNamespace(**{name.format(k): Estimator for k in kinds})
    monkeypatch.setitem(sys.modules, "obp", module)
    monkeypatch.setitem(sys.modules, "obp.ope", ope)


check = every_assertion_can_fail(
    "5_benchmarks/bench_multi_logger.py",
    {
        "a constant": {"skope_ope.evaluate": says(value=0.0)},
        "slower than all": {"example:ratio": lambda *_: 1e12},
        "as if obp took no time": {"example:ratio": lambda *_: 0.0},
    },
    args=["--n-rounds", "1000", "--repeats", "1", "--settled", "1", "--share", "1e-6"],
)


@pytest.mark.theory
def test_every_assertion_can_fail(obp, request):
    check(request)
