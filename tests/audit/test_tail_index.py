# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""What is said of a tail: silent without one, an alarm beyond doubt."""

from math import isnan, nan

import numpy as np
import pytest

from skope_ope.audit._policy_checks import tail_findings, weighted_tail


def test_an_alarm_needs_certainty():
    assert tail_findings(nan, nan) == []  # no tail
    assert tail_findings(0.69, 0.01) == []
    assert tail_findings(0.8, 0.1)[0].severity == "note"
    [sure] = tail_findings(0.95, 0.1)
    assert (sure.name, sure.severity) == ("heavy_tail", "warning")
    assert (sure.number, sure.effect) == (0.95, 0.95)
    assert "tail index 1.05" in sure.text


# -- right logs, whose weights have a few sizes ---------------------------------------
def drawn(mu, rng):
    return (rng.random(len(mu))[:, None] > mu.cumsum(axis=1)).sum(axis=1)


def of_a_router(n, rng):
    """Right answers are worth 2, minus a cost that depends on the length."""
    mu = np.array([[0.5, 0.35, 0.15], [0.25, 0.5, 0.25], [0.1, 0.3, 0.6]])
    kind = rng.integers(3, size=n)
    action = drawn(mu[kind], rng)
    cost = np.array([0.01, 0.07, 0.5])[action] * rng.lognormal(0, 0.6, n)
    return kind, mu, action, 2 * (rng.random(n) < 0.5 + 0.1 * action) - cost


def of_a_shop(n, rng):
    mu = np.array([[0.1, 0.3, 0.3, 0.3], [0.4, 0.4, 0.1, 0.1], [0.55] + [0.15] * 3])
    kind = rng.choice(3, size=n, p=[0.15, 0.25, 0.6])
    action = drawn(mu[kind], rng)
    return kind, mu, action, (rng.random(n) < 0.14) * rng.gamma(9, 1.1, n)


def of_two_levels(n, rng):
    mu = np.array([[0.98, 0.02], [0.8, 0.2]])
    kind = rng.integers(2, size=n)
    action = drawn(mu[kind], rng)
    return kind, mu, action, rng.normal(1, 0.05, n) + action


def of_epsilon_greed(n, rng):
    mu = np.full((10, 10), 0.01) + 0.9 * np.eye(10)
    kind = rng.integers(10, size=n)
    action = drawn(mu[kind], rng)
    return kind, mu, action, rng.random(n) + 0.1 * action


def of_a_softmax(n, rng):
    mu = np.exp(rng.normal(size=(n, 4)))
    mu /= mu.sum(axis=1, keepdims=True)
    return np.arange(n), mu, drawn(mu, rng), (rng.random(n) < 0.3).astype(float)


WORLDS = [of_a_router, of_a_shop, of_two_levels, of_epsilon_greed, of_a_softmax]


@pytest.mark.parametrize("world", WORLDS)
def test_right_logs_have_no_heavy_tail(world):
    alarms = 0
    for seed in range(30):
        rng = np.random.default_rng(seed)
        kind, mu, action, reward = world(2000 if seed % 2 else 8000, rng)
        wanted = rng.integers(mu.shape[1], size=len(mu))[kind]
        weight = (action == wanted) / mu[kind, action]
        found = tail_findings(*weighted_tail(weight, reward))
        alarms += any(one.is_alarm for one in found)
    assert alarms == 0


def test_rewards_and_weights_with_heavy_tails():
    rng = np.random.default_rng(0)
    levels = rng.choice([1.67, 2.86, 6.67, 0], 20_000)
    rewards, flat = rng.pareto(0.6, 20_000), rng.normal(1, 0.1, 20_000)
    for weight, reward in (
        (levels, rewards),  # bounded weights do not hide them
        (1 + rng.pareto(0.6, 20_000), flat),
        (rewards, -rewards),
    ):
        [found] = tail_findings(*weighted_tail(weight, reward))
        assert found.is_alarm
    assert isnan(weighted_tail(np.zeros(50), flat[:50])[0])
