# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""The alarm on the bias mass: it rings where the history is biased, and only there."""

import numpy as np
import pytest

from skope_ope import BanditLogs, DRns, EpsilonGreedy, RejectionSampling, UniformPolicy
from skope_ope.datasets import make_bandit_logs
from skope_ope.exceptions import (
    BiasWarning,
    LowOverlapWarning,
    OPEWarning,
    PropensityWarning,
)
from tests._quiet import quiet


def two_armed_log(n=5000, seed=0):
    """Two arms of a lopsided logger; the better one is taken seldom."""
    rng = np.random.default_rng(seed)
    action = rng.choice(2, n, p=[0.9, 0.1])
    reward = rng.random(n) < np.array([0.2, 0.8])[action]
    return BanditLogs(np.zeros((n, 1)), action, reward, np.take([0.9, 0.1], action))


def alarms(result):
    return [w for w in result.warnings if isinstance(w, BiasWarning)]


def test_a_large_quantile_no_longer_gives_1_78_in_silence():
    """Rewards of 0 and 1, truth .61; a share of violations below q rang nothing."""
    logs, policy = two_armed_log(), EpsilonGreedy(0.5)
    setting = {"q": 0.2, "horizon": 20, "random_state": 0}
    evaluator = DRns(normalize=False, **setting).fit(logs)
    match = r"So 0\.6\d* ± .* missing .*Lower q or cmax, or pass normalize='pooled'"
    with (
        pytest.warns(LowOverlapWarning, match="outside the range of the rewards"),
        pytest.warns(BiasWarning, match=match) as told,
    ):
        result = evaluator.evaluate(policy)
    assert result.value > 1.4
    assert told[0].filename == __file__
    assert told[0].message.value == result.bias_mass > 0.5
    assert result.diagnostics["violation_share"] < 0.2
    # the ratio of sums is not inflated, but its history is as biased
    pooled = quiet(DRns(**setting).fit(logs), policy)
    assert pooled.value == pytest.approx(0.62, abs=0.08)
    (alarm,) = alarms(pooled)
    assert isinstance(alarm, PropensityWarning)  # what it was before
    assert isinstance(alarm, OPEWarning)
    assert "normalize" not in str(alarm)
    # a smaller quantile keeps nothing out
    setting["q"] = 0.01
    for normalize in (False, True, "pooled"):
        fitted = DRns(normalize=normalize, **setting).fit(logs)
        assert not alarms(quiet(fitted, policy))


def test_values_that_no_acceptance_biases_ring_nothing():
    """E[R] = V E[C] for a policy that does not learn, whatever c is."""
    logs, pi = two_armed_log(), np.tile([0.25, 0.75], (5000, 1))
    for setting in ({}, {"normalize": True}, {"excess": "weight", "normalize": False}):
        result = quiet(DRns(q=0.5, random_state=0, **setting).fit(logs), pi)
        assert result.bias_mass > 0.5
        assert not alarms(result)
        assert abs(result.value - 0.65) < 4 * result.standard_error
    by_length = quiet(DRns(q=0.5, normalize=False, random_state=0).fit(logs), pi)
    assert alarms(by_length)
    assert by_length.value > 1


def test_noise_rings_nothing(global_random_seed):
    """q = 0 keeps out a few rounds at the start: no bias mass, a large estimate."""
    large = rung = 0
    for k in range(60):
        rng = np.random.default_rng([global_random_seed, k])
        p = rng.dirichlet(np.full(4, 2.0)) * 0.9 + 0.025
        action = rng.choice(4, 100, p=p)
        logs = BanditLogs(
            np.zeros((100, 1)),
            action,
            rng.random(100) < 0.5,
            p[action],
            actions=range(4),
        )
        evaluator = DRns(q=0, horizon=10, reward_model=0.5, random_state=k).fit(logs)
        result = quiet(evaluator, EpsilonGreedy(0.3))
        large += result.bias_mass > 0.1
        rung += bool(alarms(result))
    assert large > 5
    assert rung <= 1


def test_a_logger_evaluated_on_its_own_log_rings_nothing():
    logs = make_bandit_logs(500, logging_temperature=np.inf, random_state=0)
    for q in (0, 0.05, 0.5):
        result = quiet(DRns(q=q, random_state=0).fit(logs), UniformPolicy())
        assert result.bias_mass == result.diagnostics["bias_mass_error"] == 0
        assert not result.warnings


def test_the_worst_case_and_a_true_bound_ring_nothing():
    logs = two_armed_log()
    for evaluator in (
        DRns(acceptance="worst_case", random_state=0),
        RejectionSampling(cmax=0.1, random_state=0),
    ):
        result = quiet(evaluator.fit(logs), EpsilonGreedy(0.5))
        assert result.bias_mass == 0
        assert not alarms(result)
