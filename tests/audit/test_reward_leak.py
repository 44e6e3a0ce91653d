# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import numpy as np
import pytest
from sklearn.datasets import load_digits, load_iris, load_wine

from skope_ope import BanditLogs, SlateLogs
from skope_ope.audit._reward_leak import reward_leak_findings
from skope_ope.datasets import make_bandit_logs, make_logs_from_classification


def logs_with(column, seed=0, reward=None, **fields):
    """Return logs of four columns of noise and those given."""
    n_rounds = len(column)
    rng = np.random.default_rng([seed, 1])
    context = np.column_stack([rng.normal(size=(n_rounds, 4)), column])
    action = rng.integers(0, 3, n_rounds)
    p = np.full(n_rounds, 1 / 3)
    return BanditLogs(context, action, reward, p, **fields)


def found(logs, seed=0):
    return reward_leak_findings(logs, seed)[1]


REWARDS = {
    "clicks": lambda rng: (rng.random(2000) < 0.3) * 1.0,
    "rare": lambda rng: (rng.random(2000) < 0.02) * 1.0,
    "normal": lambda rng: rng.normal(size=2000),
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


@pytest.mark.parametrize("name", REWARDS)
@pytest.mark.parametrize("function", FUNCTIONS)
def test_a_function_of_the_reward_is_found(name, function):
    rng = np.random.default_rng(0)
    reward = REWARDS[name](rng)
    (one,) = found(logs_with(FUNCTIONS[function](reward, rng), reward=reward))
    assert (one.name, one.severity, one.columns) == ("reward_leak", "error", (4,))
    assert one.found.startswith("Context column 4 predicts the reward")
    assert one.number > 0.99


@pytest.mark.few_cases(2)
@pytest.mark.parametrize("name", REWARDS)
def test_noise_tells_nothing(name):
    for seed in range(5):
        rng = np.random.default_rng(seed)
        reward = REWARDS[name](rng)
        other = rng.permutation(reward)
        assert found(logs_with(other, seed, reward), seed) == []
        half = np.where(rng.random(2000) < 0.5, reward, other)
        assert found(logs_with(half, seed, reward), seed) == []


def test_whether_there_was_a_reward():
    reward = REWARDS["spend"](np.random.default_rng(0))
    (one,) = found(logs_with(reward > 0, reward=reward))
    assert "whether there is a reward" in one.found
    # and the amount where the reward is whether there was one
    (one,) = found(logs_with(reward, reward=(reward > 0) * 1.0))
    assert one.columns == (4,)


def test_right_logs_without_much_noise_are_quiet():
    for seed in range(3):
        for params in ({}, {"reward": "continuous", "noise": 0.3}):
            logs = make_bandit_logs(2000, n_features=4, random_state=seed, **params)
            assert found(logs, seed) == []


@pytest.mark.parametrize("load", [load_digits, load_iris, load_wine])
def test_labels_as_rewards_are_quiet(load):
    # 1 if the action is the label: no chance in the rewards, yet no single formula
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
    text = np.where(reward > 0, "paid", "left")
    frame = pd.DataFrame({"x": rng.normal(size=2000), "outcome": text})
    action = rng.integers(0, 3, 2000)
    (one,) = found(BanditLogs(frame, action, reward))
    assert one.columns == ("outcome",)
    assert "column 'outcome'" in one.advice[0].lower()
    frame["outcome"] = pd.Series(text).where(reward > 0)  # missing where there is none
    (one,) = found(BanditLogs(frame, action, reward))
    assert one.columns == ("outcome",)
    frame["outcome"] = [f"order {i}" for i in range(2000)]
    assert found(BanditLogs(frame, action, reward)) == []


def test_slates():
    rng = np.random.default_rng(0)
    reward = REWARDS["normal"](rng)
    slate = rng.integers(0, 5, (2000, 1))
    context = np.column_stack([rng.normal(size=2000), reward])
    assert found(SlateLogs(context, slate, reward))[0].columns == (1,)
    assert found(SlateLogs(context[:, :1], slate, reward)) == []


@pytest.mark.parametrize("scale", [1e-200, 1e200])
def test_scales_do_not_matter(scale):
    reward = scale * REWARDS["normal"](np.random.default_rng(0))
    assert len(found(logs_with(reward, reward=reward))) == 1


def test_what_cannot_be_tested_is_quiet():
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
