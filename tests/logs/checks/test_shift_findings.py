# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import numpy as np
import pytest

from skope_ope import BanditLogs
from skope_ope.datasets import make_bandit_logs
from skope_ope.logs.checks._shift_findings import shift_findings


def softmax_logs(seed=0, n_rounds=3000, **params):
    return make_bandit_logs(
        n_rounds, n_features=4, n_actions=4, random_state=seed, **params
    )


def rebuilt(logs, context=None, propensity=None, **fields):
    return BanditLogs(
        logs.context if context is None else context,
        logs.action,
        logs.reward,
        logs.propensity if propensity is None else propensity,
        **fields,
    )


def names(logs, seed=0):
    return [one.name for one in shift_findings(logs, seed)[1]]


@pytest.mark.parametrize("temperature", [0.3, 1.0])
@pytest.mark.parametrize(("step", "side"), [(1, "after"), (-1, "before")])
def test_contexts_that_slid_are_found(temperature, step, side):
    logs = softmax_logs(logging_temperature=temperature)
    slid = rebuilt(logs, np.roll(logs.context, step, axis=0))
    (found,) = shift_findings(slid)[1]
    assert (found.name, found.severity) == ("shifted_context", "error")
    assert f"the row {side}" in found.found
    assert "contexts are shifted by a row" in found.advice[0]
    assert found.number > 6
    assert found.effect > 0.02


@pytest.mark.parametrize("temperature", [0.3, 1.0, np.inf])
def test_right_logs_are_quiet(temperature):
    for seed in range(5):
        assert names(softmax_logs(seed, logging_temperature=temperature), seed) == []


def test_propensities_that_slid_are_told_apart():
    logs = softmax_logs(logging_temperature=0.3)
    slid = np.roll(logs.logging_proba, 1, axis=0)[np.arange(len(logs)), logs.action]
    (found,) = shift_findings(rebuilt(logs, propensity=slid))[1]
    assert "propensities are shifted by a row" in found.advice[0]


def test_shift_without_propensities():
    logs = softmax_logs(logging_temperature=0.3)
    forward = np.roll(logs.context, 1, axis=0)
    backward = np.roll(logs.context, -1, axis=0)
    action, reward = logs.action, logs.reward
    (found,) = shift_findings(BanditLogs(forward, action, reward))[1]
    # contexts that record the last action look the same: no alarm
    assert found.severity == "note"
    assert "no fault" in found.text
    (found,) = shift_findings(BanditLogs(backward, action, reward))[1]
    assert found.severity == "warning"
    assert names(BanditLogs(logs.context, action, reward)) == []


def test_last_action_in_the_context_is_no_shift():
    rng = np.random.default_rng(0)
    weight = rng.normal(size=(3, 3))
    context, action, p = np.zeros((2000, 3)), np.zeros(2000, int), np.zeros(2000)
    for i in range(2000):
        context[i] = [rng.normal(), rng.normal(), action[i - 1]]
        mu = np.exp(context[i] @ weight)
        mu /= mu.sum()
        action[i] = rng.choice(3, p=mu)
        p[i] = mu[action[i]]
    assert names(BanditLogs(context, action, rng.random(2000), p)) == []


@pytest.mark.parametrize("known", [True, False])
def test_contexts_that_depend_on_each_other_are_no_shift(known):
    for seed in range(3):
        rng = np.random.default_rng(seed)
        x = rng.normal(size=(2000, 3))
        for i in range(1, len(x)):
            x[i] = 0.95 * x[i - 1] + 0.3 * x[i]
        mu = np.exp(x @ rng.normal(size=(3, 3)))
        mu /= mu.sum(axis=1, keepdims=True)
        action = (mu.cumsum(axis=1) < rng.random((2000, 1))).sum(axis=1)
        p = mu[np.arange(2000), action] if known else None
        assert names(BanditLogs(x, action, rng.random(2000), p)) == []
        users = rng.normal(size=(100, 3)).repeat(20, axis=0)
        mu = np.exp(users) / np.exp(users).sum(axis=1, keepdims=True)
        action = (mu.cumsum(axis=1) < rng.random((2000, 1))).sum(axis=1)
        p = mu[np.arange(2000), action] if known else None
        assert names(BanditLogs(users, action, rng.random(2000), p)) == []


def test_loggers_one_after_the_other_are_no_shift():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(3000, 4))
    logits = x @ rng.normal(size=(4, 4))
    logits[1800:] = -logits[1800:]
    mu = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    action = (mu.cumsum(axis=1) < rng.random((3000, 1))).sum(axis=1)
    logs = BanditLogs(x, action, rng.random(3000), mu[np.arange(3000), action])
    assert names(logs) == []


def test_rows_out_of_order_are_compared_as_they_were_stored():
    logs = softmax_logs(logging_temperature=0.3)
    slid = rebuilt(logs, np.roll(logs.context, 1, axis=0))
    shuffled = slid[np.random.default_rng(0).permutation(3000)]
    assert names(shuffled) == ["shifted_context"]
    # of every other row no neighbour is there
    assert names(slid[::2]) == []


def test_many_rounds_and_text():
    pd = pytest.importorskip("pandas")
    logs = softmax_logs(n_rounds=25_000, logging_temperature=0.3)
    texts = np.array(["low", "mid", "high"])[np.digitize(logs.context, [-0.5, 0.5])]
    frame = pd.DataFrame(np.roll(texts, 1, axis=0), columns=list("abcd"))
    assert names(rebuilt(logs, frame)) == ["shifted_context"]
    assert names(rebuilt(logs, pd.DataFrame(texts, columns=list("abcd")))) == []


def test_what_cannot_be_compared_is_quiet():
    ones = np.ones(200)
    rng = np.random.default_rng(0)
    action = rng.integers(0, 2, 200)
    assert names(BanditLogs([[1.0]], [0], [1.0], [0.5])) == []
    assert names(BanditLogs(np.empty((200, 0)), action, ones, ones / 2)) == []
    assert names(BanditLogs(np.full((200, 2), np.nan), action, ones, ones / 2)) == []
    many = rng.permutation(100_000)[:200]  # each action once
    x = rng.normal(size=(200, 2))
    assert names(BanditLogs(x, many, ones, ones / 1e5)) == []
