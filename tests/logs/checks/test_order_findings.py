# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Rewards that drift, end early or are sorted, and what only looks like it."""

from itertools import combinations
from math import comb

import numpy as np
import pytest
from scipy.signal import lfilter

from skope_ope import BanditLogs, SlateLogs
from skope_ope.logs.checks._order import order_findings
from tests.logs.checks._found import findings

NAMES = "trailing_zeros", "reward_drift", "sorted_rounds", "time_disorder"


def logs_of(reward, action=None, **fields):
    reward = np.asarray(reward, dtype=float)
    rng = np.random.default_rng(0)
    action = rng.integers(0, 3, len(reward)) if action is None else action
    return BanditLogs(np.empty((len(reward), 0)), action, reward, **fields)


def found(logs):
    return {one.name: one for one in findings(logs, *NAMES)}


def clicks(rate, n_rounds=3000, seed=0):
    rng = np.random.default_rng(seed)
    return (rng.random(n_rounds) < rate).astype(float)


# -- trailing zeros -------------------------------------------------------------------


def test_trailing_zeros():
    # 12 rounds, 6 of them rewarded, the last 4 are not
    reward = np.array([1, 0, 1, 1, 0, 1, 1, 1, 0, 0, 0, 0.0])
    orders = list(combinations(range(12), 6))
    chance = sum(max(rows) < 8 for rows in orders) / len(orders)
    assert chance == pytest.approx(comb(8, 6) / comb(12, 6))
    assert "trailing_zeros" not in found(logs_of(reward))  # 3% is no wonder
    reward = np.repeat(reward, 10)
    one = found(logs_of(reward))["trailing_zeros"]
    assert one.number == pytest.approx(comb(80, 60) / comb(120, 60), rel=1e-9)
    assert one.effect == pytest.approx(1 / 3)
    assert one.rows[0] == 80
    assert "last 40 of 120" in one.found
    # one zero at the end is no wonder
    for reward in (np.append(np.ones(99), 0.0), [1.0], [0.0, 0.0]):
        assert found(logs_of(reward)) == {}
    # groups count with their last round
    # of 100 users of 30 rounds the last has no reward: 30 rounds, but one draw
    reward = clicks(0.3)
    reward[-30:] = 0
    user = np.repeat(np.arange(100), 30)
    logs = logs_of(reward)
    for some in (logs, logs[np.random.default_rng(1).permutation(3000)]):
        assert "trailing_zeros" in found(some)  # in the order in which it was stored
    assert found(logs_of(reward, group=user)) == {}
    reward[-900:] = 0  # of thirty users
    assert "trailing_zeros" in found(logs_of(reward, group=user))


@pytest.mark.parametrize(("rate", "n_rounds"), [(0.3, 3000), (0.02, 15_000)])
def test_nine_missing_rewards_are_found(rate, n_rounds):
    n_found = 0
    for seed in range(20):
        reward = clicks(rate, n_rounds, seed)
        reward[-int(np.ceil(9 / rate)) :] = 0
        n_found += "trailing_zeros" in found(logs_of(reward))
    assert n_found >= 19


@pytest.mark.parametrize("share", [0.1, 0.5])
def test_missing_rewards_are_no_drift(share):
    reward = clicks(0.3)
    drifted = clicks(np.linspace(0.1, 0.5, 3000))
    both = {"trailing_zeros", "reward_drift"}
    for values, names in ((reward, {"trailing_zeros"}), (drifted, both)):
        values[-int(share * 3000) :] = 0
        user = np.arange(3000) // 2
        for logs in (logs_of(values), logs_of(values, group=user)):
            alarms = {name for name, one in found(logs).items() if one.is_alarm}
            assert alarms == names


def test_rare_rewards_end_as_chance_has_it():
    # the chance told is one: at most its level of all logs are accused
    chances = []
    for seed in range(100):
        reward = clicks(0.02, 300, seed)
        if not reward.any():
            continue
        last = np.flatnonzero(reward)[-1]
        n, k, length = 300, int(reward.sum()), 299 - last
        chances.append(comb(n - length, k) / comb(n, k))
        assert "trailing_zeros" not in found(logs_of(reward))
    share = np.mean(np.array(chances) <= 0.1)
    assert share <= 0.1 + 4 * np.sqrt(0.09 / len(chances))


# -- drift ----------------------------------------------------------------------------


def test_what_is_a_drift():
    rate = 0.3 * np.linspace(2 / 3, 4 / 3, 3000)
    told = [found(logs_of(clicks(rate, seed=s))).get("reward_drift") for s in range(20)]
    assert sum(one is not None and one.severity == "warning" for one in told) >= 19
    # heavy tails are no drift
    for seed in range(20):
        rng = np.random.default_rng(seed)
        assert found(logs_of(rng.pareto(1.05, 2000))) == {}
        assert found(logs_of(np.append(np.zeros(1000), 1e9), np.zeros(1001))) == {}
    # a small drift is a note
    rate = 0.5 * np.linspace(0.9, 1.1, 60_000)
    one = found(logs_of(clicks(rate, 60_000)))["reward_drift"]
    assert one.severity == "note"
    assert one.effect < 0.2
    assert "average over the log's time" in one.text
    # users sorted are no drift
    for seed in range(10):
        rng = np.random.default_rng(seed)
        user = np.arange(60).repeat(50)
        rate = np.clip(rng.normal(0.3, 0.2, 60), 0, 1)[user]
        assert found(logs_of(clicks(rate, seed=seed), group=user)) == {}


@pytest.mark.theory
def test_drift_of_right_logs_is_as_rare_as_kolmogorov_has_it():
    # at its level of 1e-4, 2,000 logs have .2 alarms
    logs = (logs_of(clicks(0.3, 1000, seed)) for seed in range(2000))
    told = [[found.name for found in order_findings(one)[1]] for one in logs]
    assert sum("reward_drift" in names for names in told) <= 2
    drifted = logs_of(clicks(0.3 * np.linspace(0.4, 1.6, 3000)))
    assert "reward_drift" in [found.name for found in order_findings(drifted)[1]]


@pytest.mark.parametrize("field", ["action", "logger"])
def test_drift_of_choices_is_a_note(field):
    # rewards of 10% and 60%; the better choice is made ever more often
    rng = np.random.default_rng(1)
    code = (rng.random(3000) < np.linspace(0.1, 0.9, 3000)).astype(int)
    reward = clicks(np.where(code == 1, 0.6, 0.1))
    one = found(logs_of(reward, **{field: code}))["reward_drift"]
    assert one.severity == "note"
    assert "the choices changed" in one.text


def test_drift_is_found_by_groups_at_any_scale_and_of_any_actions():
    reward = clicks(0.3 * np.linspace(0.4, 1.6, 3000))
    user = np.arange(300).repeat(10)
    one = found(logs_of(reward, group=user))["reward_drift"]
    assert one.severity == "warning"
    tiny, huge = (found(logs_of(s * reward))["reward_drift"] for s in (1e-200, 1e200))
    assert tiny.number == pytest.approx(huge.number)
    assert tiny.effect == pytest.approx(huge.effect)
    one = found(logs_of(reward, np.arange(3000)))["reward_drift"]  # few rounds each
    assert one.severity == "warning"


# -- sorted rounds and time -----------------------------------------------------------


def test_sorted_rounds():
    reward = clicks(0.3)
    order = np.argsort(reward, kind="stable")
    for rows in (order, order[::-1]):
        only = found(logs_of(reward[rows]))
        assert list(only) == ["sorted_rounds"]
        assert "sorted by reward" in only["sorted_rounds"].found
    action = np.random.default_rng(1).integers(0, 3, 3000)
    only = found(logs_of(reward, np.sort(action)))
    assert list(only) == ["sorted_rounds"]
    assert "sorted by action" in only["sorted_rounds"].found
    # what only looks sorted
    user = np.arange(3).repeat(1000)
    assert "sorted_rounds" not in found(logs_of(reward, user, group=user))
    weekly = np.arange(3000) // 300 % 2  # takes turns
    assert found(logs_of(reward, weekly)) == {}
    time = np.arange(3000)
    assert found(logs_of(reward, np.sort(weekly), timestamp=time)) == {}
    assert found(logs_of(np.append(np.zeros(200), 1.0))) == {}
    assert found(logs_of(reward, np.zeros(3000))) == {}
    # time that runs back is a note
    assert found(logs_of(clicks(0.3), timestamp=time)) == {}
    time[[5, 6, 40, 41]] = time[[6, 5, 41, 40]]
    one = found(logs_of(clicks(0.3), timestamp=time))["time_disorder"]
    assert (one.severity, one.rows, one.number) == ("note", (6, 41), 2)
    dates = np.datetime64("2026-01-01") + np.arange(3000)[::-1]
    assert list(found(logs_of(clicks(0.3), timestamp=dates))) == ["time_disorder"]
    # slates end and are sorted like rounds
    reward[-100:] = 0
    logs = SlateLogs(np.zeros((3000, 1)), np.zeros((3000, 1), int), reward)
    assert "trailing_zeros" in found(logs)
    assert "sorted_rounds" in found(
        SlateLogs(np.zeros((3000, 1)), np.zeros((3000, 1), int), np.sort(reward))
    )


# -- rounds that resemble those before them -------------------------------------------
def names(logs):
    return [name for name, one in found(logs).items() if one.is_alarm]


def sessions(length, seed, n_rounds=6000):
    """Rewards of sessions of consecutive rounds, each with a rate of its own."""
    rng = np.random.default_rng(seed)
    session = np.arange(n_rounds) // length
    taste = rng.normal(scale=2.2, size=session[-1] + 1)
    rate = 1 / (1 + np.exp(5 - taste[session]))
    return (rng.random(n_rounds) < rate).astype(float)


def test_seasons_and_sessions_are_no_drift():
    for seed in range(8):
        rng = np.random.default_rng([seed, 7])
        x = lfilter([0.2], [1, -0.98], rng.normal(size=5000))
        rate = 1 / (1 + np.exp(2 - 0.7 * x))
        assert "reward_drift" not in names(logs_of(clicks(rate, 5000, seed)))
    # a week is no drift
    day = np.linspace(0, 10, 10_000)
    rate = np.where(day.astype(int) % 7 >= 5, 0.15, 0.1)
    rate = rate * (1 + np.sin(2 * np.pi * day) / 2)
    for seed in range(8):
        assert "reward_drift" not in names(logs_of(clicks(rate, 10_000, seed)))
    # groups in a row that are alike
    # groups of one round, in another order of their labels than of their time
    users = (np.random.default_rng(seed).permutation(6000) for seed in range(20))
    told = [names(logs_of(sessions(200, s), group=one)) for s, one in enumerate(users)]
    assert sum("trailing_zeros" in one for one in told) <= 1


def test_a_drift_of_sessions_is_found_and_groups_are_advised():
    told = []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        session = rng.uniform(0.5, 1.5, size=200).repeat(30)
        rate = 0.3 * session * np.linspace(0.5, 1.5, 6000)
        told.append(found(logs_of(clicks(rate, 6000, seed))).get("reward_drift"))
    told = [one for one in told if one is not None]
    assert len(told) >= 19
    assert any("pass group=..." in text for text in told[-1].advice)


@pytest.mark.parametrize("length", [12, 60, 200])
def test_sessions_without_a_group_are_no_drift_and_no_end(length):
    told = [names(logs_of(sessions(length, seed))) for seed in range(20)]
    assert sum("reward_drift" in one for one in told) <= 1
    if length > 12:
        assert sum("trailing_zeros" in one for one in told) <= 1
    for seed in range(5):
        reward = sessions(60, seed)
        reward[-2500:] = 0
        assert "trailing_zeros" in names(logs_of(reward))
