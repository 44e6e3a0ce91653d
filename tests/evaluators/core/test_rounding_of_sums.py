# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""What the rounding of joint sums would hide is asked of the rounds, or left out."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from skope_ope import (
    IPS,
    SNDR,
    SNIPS,
    BanditLogs,
    DoublyRobust,
    DRos,
    MultiLoggerDR,
    MultiLoggerIPS,
    SubGaussianDR,
    SwitchDR,
    UniformPolicy,
    evaluate,
)

pytestmark = pytest.mark.filterwarnings("ignore::skope_ope.exceptions.OPEWarning")


def logs_with(reward, n_actions=4, seed=0, **given):
    """Rounds of a known logger, and two policies."""
    rng, n = np.random.default_rng(seed), len(reward)
    proba = rng.dirichlet(np.ones(n_actions), n)
    action = (proba.cumsum(axis=1) < rng.random((n, 1))).sum(axis=1)
    rounds = np.zeros((n, 1)), action, reward, proba[np.arange(n), action]
    policies = rng.dirichlet(np.ones(n_actions), (2, n))
    return BanditLogs(*rounds, **given), policies


@pytest.mark.parametrize("share", [1e-3, 1e-5, 1e-7])
@pytest.mark.parametrize("far", [0.0, 1e6])
def test_policies_that_are_nearly_alike(share, far):
    reward = far + np.random.default_rng(1).normal(size=2000)
    logs, (pi, other) = logs_with(reward)
    policies = {"a": pi, "b": (1 - share) * pi + share * other}
    table = evaluate(policies, logs, evaluators=["SNIPS", "SNDR"], reward_model=far)
    for name in ("SNIPS", "SNDR"):
        found = table["b", name] - table["a", name]
        values = [table[one, name].round_values for one in "ba"]
        change = values[0] - values[1]
        error = np.sqrt(((change - found.value) ** 2).mean() / (len(logs) - 1))
        assert_allclose(found.standard_error, error, rtol=1e-5)
        assert found.standard_error > 0


def test_rewards_that_are_all_equal():
    logs, (pi, other) = logs_with(np.full(1000, 0.37), reward_range=(0.3696, 0.3704))
    names = ["SNIPS", "SNDR", "DoublyRobust"]
    table = evaluate({"a": pi, "b": other}, logs, evaluators=names)
    for name in names[:2]:
        found = table["a", name] - table["b", "SNIPS"]
        assert (found.value, found.standard_error) == (0.0, 0.0)
        limits = found.confidence_interval()
        assert any("0.0 effective events" in str(one) for one in limits.warnings)
        assert found.verdict.answer != "trustworthy"


@pytest.mark.parametrize("kind", [SwitchDR, DRos, SubGaussianDR])
@pytest.mark.parametrize("grouped", [False, True])
def test_a_weight_that_no_float_squares_is_no_part_of_resamples(kind, grouped):
    rng, n = np.random.default_rng(0), 60
    p = np.full(n, 0.5)
    p[3] = 1e-160
    reward = (rng.random(n) < 0.4).astype(float)
    group = np.arange(n) // 2 if grouped else None
    action = rng.integers(2, size=n)
    logs = BanditLogs(np.zeros((n, 1)), action, reward, p, group=group)
    value = kind(reward_model=0.3).fit(logs).evaluate(UniformPolicy())
    low, high = value.confidence_interval(method="bootstrap", n_resamples=200)
    error = value.standard_error
    assert low < value.value - error / 2 and value.value + error / 2 < high


@pytest.mark.parametrize(
    "evaluator",
    [
        SNDR(reward_model=0.3),
        SNIPS(),
        MultiLoggerIPS(pooling="weighted", self_normalized=True, cross_fit=2),
    ],
)
def test_groups_of_rounds_with_such_weights_have_errors(evaluator):
    rng, n = np.random.default_rng(0), 80
    p = np.where(rng.random(n) < 0.2, 1e-160, 0.5)
    rounds = np.zeros((n, 1)), rng.integers(2, size=n), rng.random(n), p
    given = {"logger": ["A"] * n, "group": np.arange(n) // 8}
    value = evaluator.fit(BanditLogs(*rounds, **given)).evaluate(UniformPolicy())
    found = value.by(np.arange(n) % 2)
    assert all(one.standard_error > 0.01 for one in found.values())


def test_loggers_that_do_not_take_part_are_none():
    n = 60
    logger, action = np.arange(n) % 2, np.arange(n) // 2 % 2
    given = {
        "logger": np.array(["A", "B"])[logger],
        "logger_proba": np.full((n, 2), 0.5),
    }
    logs = BanditLogs(
        np.zeros((n, 1)),
        action,
        np.ones(n),
        0.5,
        actions=np.arange(4),
        sample_weight=1.0 * logger,
        **given,
    )
    balanced = MultiLoggerIPS(pooling="balanced").fit(logs)
    assert "the logger never took" in str(
        balanced.evaluate(UniformPolicy()).warnings[0]
    )
    one = BanditLogs(np.zeros((1, 1)), [0], [1.0], [0.5], actions=[0, 1])
    value = MultiLoggerDR(reward_model=0.3).fit(one).evaluate(np.array([[0.5, 0.5]]))
    assert any("pooling='balanced'" in str(warning) for warning in value.warnings)


def test_an_estimate_about_its_value_is_subtracted_by_rounds():
    """Sums about the value are no part of those of the other value."""
    reward = 1e9 + np.random.default_rng(1).normal(size=300)
    logs, (pi, other) = logs_with(reward)
    table = evaluate({"a": pi, "b": other}, logs, evaluators={"it": DoublyRobust()})
    found = table["a", "it"] - table["b", "it"]
    change = table["a", "it"].round_values - table["b", "it"].round_values
    error = np.sqrt(((change - change.mean()) ** 2).mean() / (len(logs) - 1))
    assert_allclose(found.standard_error, error, rtol=1e-4)


def test_weights_whose_squares_overflow_have_a_value():
    logs = BanditLogs(np.zeros((4, 1)), [0, 1, 0, 1], [0.0, 1.0, 1.0, 0.0], 1e-200)
    assert IPS().fit(logs).evaluate(UniformPolicy()).value == 2.5e199
