# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Context columns that were written after the reward, or after the action."""

import re

import numpy as np
import pytest
from sklearn.datasets import load_digits, load_iris, load_wine

from skope_ope import BanditLogs, SlateLogs, UniformPolicy, audit
from skope_ope.datasets import make_bandit_logs, make_logs_from_classification
from tests._faults import faulty, right
from tests.audit._told import told


def logs_with(column, seed=0, reward=None, **fields):
    """Return logs of four columns of noise and those given."""
    n_rounds = len(column)
    rng = np.random.default_rng([seed, 1])
    context = np.column_stack([rng.normal(size=(n_rounds, 4)), column])
    action = rng.integers(0, 3, n_rounds)
    p = np.full(n_rounds, 1 / 3)
    return BanditLogs(context, action, reward, p, **fields)


def found(logs, seed=0):
    return told("reward_leak", logs, random_state=seed)[1]


REWARDS = {
    "clicks": lambda rng: (rng.random(2000) < 0.3) * 1.0,
    "rare": lambda rng: (rng.random(2000) < 0.02) * 1.0,
    "normal": lambda rng: rng.normal(size=2000),
    "heavy": lambda rng: rng.pareto(1.0, 2000),
    "lognormal": lambda rng: rng.lognormal(sigma=1.5, size=2000),
    "spend": lambda rng: (rng.random(2000) < 0.05) * rng.gamma(2, 50, 2000),
    "stars": lambda rng: rng.integers(1, 6, 2000) * 1.0,
}
FUNCTIONS = {
    "itself": lambda r, rng: r,
    "minus, scaled": lambda r, rng: 7 - 0.001 * r,
    "a cube": lambda r, rng: (r - 1) ** 3,
    "a little noise": lambda r, rng: r + 0.02 * r.std() * rng.normal(size=len(r)),
}


@pytest.mark.few_cases(7)
@pytest.mark.parametrize("name", REWARDS)
@pytest.mark.parametrize("function", FUNCTIONS)
def test_a_function_of_the_reward_is_found(name, function):
    rng = np.random.default_rng(0)
    reward = REWARDS[name](rng)
    [one] = found(logs_with(FUNCTIONS[function](reward, rng), reward=reward))
    assert (one.name, one.severity, one.columns) == ("reward_leak", "error", (4,))
    assert one.found.startswith("Context column 4 predicts the reward")
    assert one.number > 0.99


def test_any_smooth_function_is_found_by_what_the_neighbours_of_a_round_explain():
    x = np.random.default_rng(0).normal(size=2000)
    for function in (np.exp, np.abs, np.sin):
        [one] = found(logs_with(x, reward=function(3 * x)))
        assert one.columns == (4,) and one.number > 0.99
    rng = np.random.default_rng(0)
    reward = rng.normal(size=400)
    x = reward + 0.02 * rng.normal(size=400)
    [one] = found(logs_with(x, reward=reward))
    order = np.argsort(x)
    x, y = x[order], reward[order]
    inner = range(1, 399)
    predicted = [np.interp(x[i], x[[i - 1, i + 1]], y[[i - 1, i + 1]]) for i in inner]
    y = y[1:-1]
    r2 = 1 - ((y - predicted) ** 2).sum() / ((y - y.mean()) ** 2).sum()
    assert one.number == pytest.approx(r2)


@pytest.mark.few_cases(1)
@pytest.mark.parametrize("name", REWARDS)
def test_noise_tells_nothing(name):
    for seed in range(5):
        rng = np.random.default_rng(seed)
        reward = REWARDS[name](rng)
        other = rng.permutation(reward)
        assert found(logs_with(other, seed, reward), seed) == []
        half = np.where(rng.random(2000) < 0.5, reward, other)
        assert found(logs_with(half, seed, reward), seed) == []


@pytest.mark.parametrize("scale", [1e-200, 1.0, 1e200])
def test_scales_do_not_matter_and_whether_there_was_a_reward(scale):
    reward = scale * REWARDS["normal"](np.random.default_rng(0))
    assert len(found(logs_with(reward, reward=reward))) == 1
    if scale == 1:
        reward = REWARDS["spend"](np.random.default_rng(0))
        [one] = found(logs_with(reward > 0, reward=reward))
        assert "whether there is a reward" in one.found
        # and the amount where the reward is whether there was one
        [one] = found(logs_with(reward, reward=(reward > 0) * 1.0))
        assert one.columns == (4,)


def test_right_logs_without_much_noise_are_quiet():
    for seed in range(3):
        for params in ({}, {"reward": "continuous", "noise": 0.3}):
            logs = make_bandit_logs(2000, n_features=4, random_state=seed, **params)
            assert found(logs, seed) == []
    # 1 if the action is the label: no chance in the rewards, yet no single formula
    for load in (load_digits, load_iris, load_wine):
        X, y = load(return_X_y=True)
        logs, _ = make_logs_from_classification(X, y, random_state=0)
        assert found(logs) == []


def test_rounds_that_are_there_twice_do_not_tell_each_other():
    rng = np.random.default_rng(0)
    reward = REWARDS["normal"](rng)
    logs = logs_with(rng.normal(size=2000), reward=reward)
    rows = np.arange(2000).repeat(3)
    twice = BanditLogs(logs.context[rows], logs.action[rows], reward[rows])
    assert found(twice) == []


def test_groups_do_not_tell_their_own_reward():
    rng = np.random.default_rng(0)
    user = np.arange(200).repeat(20)
    reward, age = rng.normal(size=200)[user], rng.normal(size=200)[user]
    assert len(found(logs_with(age, reward=reward))) == 1
    assert found(logs_with(age, reward=reward, group=user)) == []
    assert len(found(logs_with(reward, reward=reward, group=user))) == 1


def test_texts_and_missing_values():
    pd = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    reward = REWARDS["clicks"](rng)
    text = pd.Series(np.where(reward > 0, "paid", "left"))
    frame = pd.DataFrame({"x": rng.normal(size=2000)})
    action = rng.integers(0, 3, 2000)
    for column in (text, text.where(reward > 0)):  # missing where there is none
        [one] = found(BanditLogs(frame.assign(outcome=column), action, reward))
        assert one.columns == ("outcome",)
        assert "column 'outcome'" in one.advice[0].lower()
    frame = frame.assign(outcome=[f"order {i}" for i in range(2000)])
    assert found(BanditLogs(frame, action, reward)) == []


def test_slates():
    rng = np.random.default_rng(0)
    reward = REWARDS["normal"](rng)
    slate = rng.integers(0, 5, (2000, 1))
    context = np.column_stack([rng.normal(size=2000), reward])
    assert found(SlateLogs(context, slate, reward))[0].columns == (1,)
    assert found(SlateLogs(context[:, :1], slate, reward)) == []
    _, action, visit, bought = visits()
    logs = SlateLogs(bought[:, None] * 1.0, action[:, None], visit * 1.0)
    assert len(found(logs)) == 1


def test_what_cannot_be_tested_is_quiet():
    for n in (7, 8):  # a reward must differ in eight rounds
        reward = np.arange(2000) < n
        assert len(found(logs_with(reward, reward=reward * 1.0))) == (n == 8)
    assert found(BanditLogs([[1.0]], [0], [1.0])) == []
    ones = np.ones(200)
    action = np.arange(200) % 2
    assert found(BanditLogs(action[:, None] * 1.0, action, ones)) == []
    reward = np.arange(200.0)
    assert found(BanditLogs(np.empty((200, 0)), action, reward)) == []
    assert found(BanditLogs(np.full((200, 2), np.nan), action, reward)) == []
    once = np.zeros(200)
    once[7] = 1
    assert found(BanditLogs(once[:, None], action, once)) == []


# -- two columns, or a column and the action -------------------------------------------
def beside_noise(columns, reward, action=None):
    """Return the findings of a log of four columns of noise and those given."""
    rng = np.random.default_rng(1)
    context = np.column_stack([rng.normal(size=(len(reward), 4)), columns])
    action = rng.integers(0, 3, len(reward)) if action is None else action
    return found(BanditLogs(context, action, reward))


@pytest.mark.parametrize("name", ["normal", "lognormal", "stars"])
def test_a_difference_of_two_columns(name):
    rng = np.random.default_rng(0)
    reward = REWARDS[name](rng)
    before = 10 * rng.normal(size=2000)
    columns = np.column_stack([before + reward, before])
    [one] = beside_noise(columns, reward)
    assert (one.severity, set(one.columns)) == ("warning", {4, 5})
    assert "written after the reward" in one.advice[0]
    assert "determine the reward" in one.advice[1]


def test_a_product_of_two_columns_or_a_column_and_the_action():
    columns = np.random.default_rng(0).normal(size=(2000, 2))
    [one] = beside_noise(columns, columns.prod(axis=1))
    assert set(one.columns) == {4, 5}
    rng = np.random.default_rng(0)
    revenue, action = rng.normal(size=2000), rng.integers(0, 3, 2000)
    [one] = beside_noise(revenue, revenue - np.array([0.0, 1.0, 3.0])[action], action)
    assert (one.severity, one.columns) == ("warning", (4,))
    assert "and the action" in one.found


# -- rounds that are rewarded for sure -------------------------------------------------
def visits(seed=0, n_rounds=5000):
    """Return actions, who visited, and who of them bought."""
    rng = np.random.default_rng(seed)
    action = rng.integers(0, 3, n_rounds)
    visit = rng.random(n_rounds) < 0.1 + 0.03 * action
    return rng, action, visit, visit & (rng.random(n_rounds) < 0.1)


def of_visits(column, action, reward):
    noise = np.random.default_rng(1).normal(size=len(reward))
    logs = BanditLogs(np.column_stack([noise, column]), action, reward * 1.0)
    return found(logs)


def test_who_bought_has_visited():
    rng, action, visit, bought = visits()
    [one] = of_visits(bought, action, visit)
    assert (one.name, one.severity, one.columns) == ("reward_leak", "warning", (1,))
    count = int(bought.sum())
    told = f"All {count} rounds in which context column 1 is 1 are rewarded"
    assert one.found.startswith(told)
    assert one.number == count
    [one] = of_visits(bought * rng.gamma(2, 50, len(bought)), action, visit)
    assert "is not 0" in one.found


def test_all_columns_and_the_rounds_drawn_are_told():
    rng, action, visit, bought = visits(n_rounds=24_000)
    spend = bought * rng.gamma(2, 50, len(bought))
    context = np.column_stack([bought, spend])
    logs = BanditLogs(context * 1.0, action, visit * 1.0)
    [one] = found(logs)
    assert one.columns == (0, 1)
    assert "The same is true of values of context column 1." in one.found
    assert re.search(r" Of all \d,\d{3} rounds drawn from 24,000 1\d\.\d% ", one.found)
    [one] = found(logs[:8000])
    assert re.search(r"Of all 8,000 rounds 1\d\.\d% are\.", one.found)


def test_names_and_missing_values():
    pd = pytest.importorskip("pandas")
    _, action, visit, bought = visits()
    pages = np.where(bought, "checkout", np.where(action == 0, "start", "other"))
    column = pd.Series(pages)
    for page, text in (
        (column, "'checkout'"),
        (column.where(bought), "'checkout'"),
        (column.where(~bought), "missing"),
    ):
        frame = pd.DataFrame({"page": page})
        [one] = found(BanditLogs(frame, action, visit * 1.0))
        assert f"column 'page' is {text}" in one.found


def test_an_exception_a_chance_or_one_action_is_no_outcome():
    _, action, visit, bought = visits()
    once = bought.copy()
    once[np.flatnonzero(~visit)[0]] = True
    assert of_visits(once, action, visit) == []
    few = np.zeros(len(visit), dtype=bool)
    few[np.flatnonzero(visit)[:11]] = True  # 1e-10 of one column, but few
    assert of_visits(few, action, visit) == []
    # whoever is in the segment and gets action 2 comes, and gets nothing else
    segment = bought & (action == 2)
    assert of_visits(segment, action, visit) == []
    # most rounds are rewarded: a segment that always is, is no wonder
    assert of_visits(bought, action, ~visit | bought) == []


def test_rewards_that_follow_from_context_and_action_are_quiet():
    for seed in range(5):
        rng = np.random.default_rng(seed)
        label = rng.integers(0, 3, 3000)
        action = np.where(rng.random(3000) < 0.9, label, rng.integers(0, 3, 3000))
        reward = (action == label) & (label > 0)
        noisy = np.where(rng.random(3000) < 0.8, label, 0)
        assert of_visits(noisy, action, reward) == []


# -- findings that another one explains ------------------------------------------------
def test_a_column_that_holds_the_reward_is_told_once():
    found = audit(faulty("reward in the context", 3000, seed=0)[0])
    names = [one.name for one in found.alarms]
    assert names[0] == "reward_leak"
    assert "action_leak" not in names
    for one in found.alarms[1:]:
        assert "Leave it out and audit again" in one.advice[0]


def test_a_column_that_holds_the_action_comes_before_the_propensities():
    found = audit(faulty("action in the context", 3000, seed=0)[0])
    leak, misfit = (one for one in found.alarms if one.severity == "error")
    assert (leak.name, misfit.name) == ("action_leak", "propensity_misfit")
    assert f"column {leak.columns[0]!r}" in misfit.advice[0]
    assert "see the finding action_leak" in misfit.advice[0]


def test_a_placeholder_is_told_once():
    logs = right("softmax", 500, seed=0)[0]
    p = np.array(logs.propensity)
    p[7] = 1e-80
    found = audit(UniformPolicy(), logs.replace(propensity=p, logging_proba=None))
    assert [one.name for one in found.alarms].count("impossible_propensity") == 1
    assert "action_leak" not in {one.name for one in found.findings}
