# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""The competitor's values would tell if ours were wrong, and ratios if we were slow."""

import sys
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest

from tests.examples._assertions import every_assertion_can_fail


def term(weight):
    """Return a stand-in for an estimator of obp, of doubly robust form."""

    class Estimator:
        def __init__(self, *, estimator_name, lambda_=None):
            self.name, self.lam = estimator_name, lambda_

        def estimate_policy_value(
            self,
            *,
            reward,
            action,
            pscore,
            action_dist,
            estimated_rewards_by_reg_model,
        ):
            rows = np.arange(len(action))
            pi, q_hat = action_dist[:, :, 0], estimated_rewards_by_reg_model[:, :, 0]
            if self.name in ("IPS", "SNIPS"):
                q_hat = np.zeros_like(q_hat)
            w = weight(pi[rows, action] / pscore, self.lam)
            direct = (pi * q_hat).sum(axis=1)
            return (direct + w * (reward - q_hat[rows, action])).mean()

    return Estimator


class OffPolicyEvaluation:
    """Stands for the class of obp."""

    def __init__(self, *, bandit_feedback, ope_estimators):
        self.arrays = {k: bandit_feedback[k] for k in ("reward", "action", "pscore")}
        self.estimators = ope_estimators

    def estimate_policy_values(self, **arrays):
        arrays |= self.arrays
        return {
            one.name: one.estimate_policy_value(**arrays) for one in self.estimators
        }


@pytest.fixture
def obp(monkeypatch):
    """Put a module with the formulas of the six values in the place of obp."""
    module, ope = ModuleType("obp"), ModuleType("obp.ope")
    module.ope = ope
    ope.OffPolicyEvaluation = OffPolicyEvaluation
    ope.InverseProbabilityWeighting = term(lambda w, _: w)
    ope.SelfNormalizedInverseProbabilityWeighting = term(lambda w, _: w / w.mean())
    ope.DirectMethod = term(lambda w, _: 0 * w)
    ope.DoublyRobust = term(lambda w, _: w)
    ope.SwitchDoublyRobust = term(lambda w, lam: w * (w <= lam))
    ope.DoublyRobustWithShrinkage = term(lambda w, lam: lam * w / (w**2 + lam))
    monkeypatch.setitem(sys.modules, "obp", module)
    monkeypatch.setitem(sys.modules, "obp.ope", ope)


def constant(policy, logs, *, evaluators, **kwargs):
    return {name: SimpleNamespace(value=0.0) for name in evaluators}


check = every_assertion_can_fail(
    "5_benchmarks/bench_static.py",
    {
        "constants": {"skope_ope.evaluate": constant},
        "slower than all": {"example:ratio": lambda *_: 1e12},
        "as if obp took no time": {"example:ratio": lambda *_: 0.0},
        "a table that is copied": {"example:peak_mib": lambda _: 100.0},
    },
    args=["--n-rounds", "2000", "--repeats", "1", "--settled", "1", "--share", "1e-6"],
)


@pytest.mark.theory
def test_every_assertion_can_fail(obp, request):
    check(request)
