# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause


import numpy as np
import pytest

from skope_ope import BanditLogs, EpsilonGreedy, RejectionSampling, UniformPolicy
from skope_ope.datasets import make_bandit_logs
from skope_ope.exceptions import (
    BiasWarning,
    LowOverlapWarning,
    SupportWarning,
)
from tests._quiet import quiet


def test_the_constant():
    logs, policy, _ = make_bandit_logs(2000, random_state=0, return_truth=True)
    pi = policy.predict_proba(logs.context)[np.arange(2000), logs.action_index]
    smallest = logs.propensity.min()
    for cmax, c in (
        (None, smallest),
        (0.01, 0.01),
        ("target", (logs.propensity / pi).min()),
    ):
        fitted = RejectionSampling(cmax=cmax, random_state=0).fit(logs)
        result = quiet(fitted, policy)
        np.testing.assert_array_equal(result.acceptance_ratios, c)
        accepted = fitted.uniforms_ <= c * pi / logs.propensity
        np.testing.assert_array_equal(result.accepted, np.flatnonzero(accepted))
        assert result.value == logs.reward[accepted].mean()
        assert result.n_violations == 0
        assert result.bias_mass == 0


def test_the_target_constant_accepts_more():
    """Uniform over 4, pi = (.4, .3, .2, .1): .625 are accepted, by matching .25."""
    n = 40_000
    rng = np.random.RandomState(0)
    logs = BanditLogs(
        np.zeros((n, 1)), rng.randint(0, 4, n), np.ones(n), np.full(n, 0.25)
    )
    pi = np.tile([0.4, 0.3, 0.2, 0.1], (n, 1))
    rates = [
        len(quiet(RejectionSampling(cmax=cmax, random_state=0).fit(logs), pi).accepted)
        / n
        for cmax in ("target", None)
    ]
    assert abs(rates[0] - 0.625) < 4 * np.sqrt(0.625 * 0.375 / n)
    assert abs(rates[1] - 0.25) < 4 * np.sqrt(0.25 * 0.75 / n)


def test_the_target_constant_is_for_stationary_policies():
    fitted = RejectionSampling(cmax="target").fit(make_bandit_logs(100, random_state=0))
    with pytest.raises(ValueError, match=r"cmax='target' needs .* in advance"):
        fitted.evaluate(EpsilonGreedy())


def test_a_target_that_wants_nothing_of_the_log():
    logs = BanditLogs(np.zeros((4, 1)), [0] * 4, np.ones(4), [1.0] * 4, actions=[0, 1])
    fitted = RejectionSampling(cmax="target").fit(logs)
    with (
        pytest.warns(LowOverlapWarning, match="T = 0"),
        pytest.warns(SupportWarning, match=r"100\.00% .* never took"),
    ):
        result = fitted.evaluate(np.tile([0.0, 1.0], (4, 1)))
    assert np.isnan(result.value)
    assert result.diagnostics["unsupported_mass"] == 1


def test_too_large_a_constant_warns():
    logs = make_bandit_logs(500, random_state=0)
    fitted = RejectionSampling(cmax=1.0, random_state=0).fit(logs)
    with pytest.warns(BiasWarning, match=r"no bound on p / pi: lower cmax") as told:
        result = fitted.evaluate(UniformPolicy())
    assert told[0].message.value == result.bias_mass > 0
    assert result.n_violations > 0
    # one violated round is enough to prove it
    least = np.sort(logs.propensity)[1]
    fitted = RejectionSampling(cmax=least, random_state=0).fit(logs)
    result = quiet(fitted, np.eye(logs.n_actions)[logs.action_index])
    assert result.n_violations == 1
    assert BiasWarning in map(type, result.warnings)


def test_unbiased_for_a_stationary_policy(global_random_seed):
    logs, policy, truth = make_bandit_logs(
        20_000, random_state=global_random_seed, return_truth=True
    )
    for cmax in (None, "target"):
        fitted = RejectionSampling(cmax=cmax, random_state=global_random_seed + 100)
        result = quiet(fitted.fit(logs), policy)
        assert abs(result.value - truth.value) < 4 * result.standard_error
        assert result.degrees_of_freedom == len(result.accepted) - 1


def test_bad_input():
    logs = make_bandit_logs(50, random_state=0)
    for cmax in (0, -1.0, "logs"):
        with pytest.raises(ValueError, match="'cmax' parameter of RejectionSampling"):
            RejectionSampling(cmax=cmax).fit(logs)
    with pytest.raises(ValueError, match="RejectionSampling needs the propensities"):
        RejectionSampling().fit(logs.replace(propensity=None, logging_proba=None))
    result = quiet(RejectionSampling(random_state=0).fit(logs), UniformPolicy())
    with pytest.raises(ValueError, match=r"no theorem bounds .* RejectionSampling"):
        result.deviation_bound()
