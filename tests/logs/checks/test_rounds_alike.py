# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Rounds that resemble those before them change what chance does."""

import numpy as np
import pytest
from scipy.signal import lfilter

from skope_ope.logs.checks._order_findings import (
    chance_of_gap,
    long_run_spread,
    order_findings,
)
from tests.logs.checks.test_order_findings import clicks, logs_of


def names(logs):
    return [one.name for one in order_findings(logs)[1] if one.severity != "note"]


def sessions(length, seed, n_rounds=6000):
    """Rewards of sessions of consecutive rounds, each with a rate of its own."""
    rng = np.random.default_rng(seed)
    session = np.arange(n_rounds) // length
    taste = rng.normal(scale=2.2, size=session[-1] + 1)
    rate = 1 / (1 + np.exp(5 - taste[session]))
    return (rng.random(n_rounds) < rate).astype(float)


# The spread of a sum


def test_a_spread_by_hand():
    # 200 steps: 40 blocks of 5, which alternate between +5 and -5
    steps = np.tile(np.repeat([1.0, -1.0], 5), 20)
    # (40 / 78) times 39 changes of 10; blocks of 10 sum up to zero
    assert long_run_spread(steps) == pytest.approx(np.sqrt(40 / 78 * 39 * 100))
    assert long_run_spread(steps[:90]) == pytest.approx(np.sqrt(90))  # too few
    steps = np.tile([1.0, -1.0], 100)
    assert long_run_spread(steps) == pytest.approx(np.sqrt(200))  # blocks of 0, 1


@pytest.mark.parametrize("phi", [0.0, 0.9, 0.95])
def test_it_is_the_spread_of_the_sum(phi):
    # an autoregression's sum has the variance n / (1 - phi)^2 in the long run
    rng = np.random.default_rng(0)
    found = []
    for _ in range(200):
        steps = lfilter([1.0], [1.0, -phi], rng.normal(size=8000))
        found.append(long_run_spread(steps) ** 2 / 8000 * (1 - phi) ** 2)
    # the larger of two estimates is a little too large, never too small
    assert 0.97 < np.mean(found) < 1.25


def test_a_drift_does_not_enter():
    rng = np.random.default_rng(0)
    noise = rng.normal(size=4000)
    drift = noise + np.linspace(-0.5, 0.5, 4000)
    assert long_run_spread(drift) < 1.1 * long_run_spread(noise)
    assert abs(np.cumsum(drift)).max() > 4 * long_run_spread(drift)


# Drift


@pytest.mark.parametrize("length", [12, 60, 200])
def test_sessions_without_a_group_are_no_drift(length):
    rung = sum("reward_drift" in names(logs_of(sessions(length, s))) for s in range(30))
    assert rung <= 1


def test_contexts_that_resemble_the_ones_before_are_no_drift():
    for seed in range(20):
        rng = np.random.default_rng([seed, 7])
        x = lfilter([0.2], [1, -0.98], rng.normal(size=5000))
        rate = 1 / (1 + np.exp(2 - 0.7 * x))
        assert "reward_drift" not in names(logs_of(clicks(rate, 5000, seed)))


def test_a_week_is_no_drift():
    day = np.linspace(0, 10, 10_000)
    rate = np.where(day.astype(int) % 7 >= 5, 0.15, 0.1)
    rate = rate * (1 + np.sin(2 * np.pi * day) / 2)
    for seed in range(20):
        assert "reward_drift" not in names(logs_of(clicks(rate, 10_000, seed)))


def test_a_drift_of_sessions_is_found_and_groups_are_advised():
    n_found = 0
    for seed in range(20):
        rng = np.random.default_rng(seed)
        session = rng.uniform(0.5, 1.5, size=200).repeat(30)
        rate = 0.3 * session * np.linspace(0.5, 1.5, 6000)
        logs = logs_of(clicks(rate, 6000, seed))
        found = {one.name: one for one in order_findings(logs)[1]}
        n_found += "reward_drift" in found
    assert n_found >= 19
    assert any("pass group=..." in text for text in found["reward_drift"].advice)


# Trailing zeros


def with_gaps(gaps):
    reward = np.zeros(1 + sum(gaps))
    reward[np.cumsum([0, *gaps])] = 1
    return reward


def chance_at_end(reward, length):
    gaps = np.diff(np.flatnonzero(reward))
    return chance_of_gap(*np.unique(gaps, return_counts=True), length)


def test_a_tail_by_hand():
    # 90 gaps of 1 and ten of 31: d = 4, u = 1, e = 30, m / N = .1
    gaps = np.random.default_rng(0).permutation(np.repeat([1, 31], [90, 10]))
    reward = with_gaps(gaps)
    expected = 0.1 * 30 / 4 * np.exp(-99 / 30)
    assert chance_at_end(reward, 100) == pytest.approx(expected)
    assert chance_at_end(reward, 1) == pytest.approx(0.75)  # lies in a long gap
    assert chance_at_end(with_gaps(gaps[:99]), 100) == 0  # too few gaps
    assert chance_at_end(with_gaps([2] * 200), 100) == 0
    # one standard error above the mean gap is chance
    near = np.repeat([6, 1, 10], [90, 0, 10])
    assert chance_at_end(with_gaps(near), 100) == 0
    assert chance_at_end(np.zeros(1000), 100) == 0


def test_the_chance_is_that_of_logs_that_end_anywhere():
    # bursts: of the gaps between rewards one in ten is geometric with a mean of 200
    rng = np.random.default_rng(0)
    gaps = np.where(rng.random(30_000) < 0.9, 1, rng.geometric(1 / 200, 30_000))
    last = np.cumsum(gaps)
    ends = rng.integers(last[0], last[-1], 20_000)
    since = ends - last[np.searchsorted(last, ends, "right") - 1]
    reward = with_gaps(gaps[:2000])
    for length in (200, 600):
        share = (since >= length).mean()
        assert chance_at_end(reward, length) == pytest.approx(share, rel=0.25)


def test_independent_rewards_have_no_heavy_tail():
    heavy = sum(chance_at_end(clicks(0.1, 5000, seed), 90) > 0 for seed in range(200))
    assert heavy <= 6


@pytest.mark.parametrize("length", [60, 200])
def test_sessions_that_end_without_reward(length):
    rung = sum(
        "trailing_zeros" in names(logs_of(sessions(length, s))) for s in range(40)
    )
    assert rung <= 1
    for seed in range(10):
        reward = sessions(60, seed)
        reward[-2500:] = 0
        assert "trailing_zeros" in names(logs_of(reward))


def test_groups_in_a_row_that_are_alike():
    # groups of one round, in another order of their labels than of their time
    rung = 0
    for seed in range(20):
        user = np.random.default_rng(seed).permutation(6000)
        logs = logs_of(sessions(200, seed), group=user)
        rung += "trailing_zeros" in names(logs)
    assert rung <= 1
