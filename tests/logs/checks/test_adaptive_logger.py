# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Loggers that learn are found, and what resembles them is not."""

import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.special import expit, softmax

from skope_ope import (
    IPS,
    AdaptiveDR,
    BanditLogs,
    ConstantPolicy,
    DirectMethod,
    audit,
    evaluate,
)
from skope_ope.datasets import make_adaptive_logs, make_bandit_logs
from skope_ope.datasets._synthetic import draw_actions
from skope_ope.exceptions import AdaptiveLoggerWarning, OPEWarning
from skope_ope.logs.checks._adaptive_logger import (
    LEARNING_EFFECT,
    WINDOW_CHANCE,
    Sequences,
    learning_findings,
)


def logs_of(proba, mean, rng, binary=True, context=None, **fields):
    """Draw actions and rewards; the logger of the fields says nothing of rewards."""
    n, n_actions = proba.shape
    action, p = draw_actions(proba, rng)
    mean = mean[np.arange(n), action]
    reward = mean + rng.normal(size=n)
    if binary:
        reward = (rng.random_sample(n) < expit(mean)).astype(float)
    context = np.zeros((n, 1)) if context is None else context
    actions = np.arange(n_actions)
    given = {"actions": actions, "logging_proba": proba, **fields}
    return BanditLogs(context, action, reward, p, **given)


def greedy(best, epsilon):
    n_actions = best.max() + 1
    floor = np.broadcast_to(epsilon, best.shape)[:, None]
    return floor / n_actions + (1 - floor) * np.eye(n_actions)[best]


def clean_world(kind, n, n_actions, seed):
    """Return logs of a logger that knows nothing of the rewards of these rounds."""
    rng = np.random.RandomState(seed)
    x = rng.normal(size=(n, 4))
    good, taste = rng.normal(size=(2, 4, n_actions))
    score, mean = 0.7 * x @ taste, 0.3 * x @ good + 0.5 * rng.normal(size=n_actions)
    t, first = np.arange(n), np.eye(n_actions)[0]
    if kind == "static":
        proba = softmax(score, axis=1)
    elif kind == "knows the best":
        proba = softmax(1.5 * x @ good, axis=1)
    elif kind == "rates are noise":
        proba = np.full((n, n_actions), 1 / n_actions)
    elif kind == "epsilon decays":
        proba = greedy(np.where(t < 0, 0, n_actions - 1), (1.0 + t) ** -0.4)
    elif kind == "epsilon decays by context":
        proba = greedy((x @ good).argmax(axis=1), (1.0 + t) ** -0.3)
        mean = x @ good
    elif kind == "epsilon grows by the day":
        day = t // max(n // 40, 1)
        proba = greedy((x @ good).argmax(axis=1), 0.1 + 0.02 * day)
        mean = x @ good
    elif kind == "rewards drift":
        proba, mean = softmax(score, axis=1), mean + 3 * t[:, None] / n
    elif kind == "both drift":
        proba = softmax(score + 4 * t[:, None] / n * first, axis=1)
        mean = mean + 3 * t[:, None] / n
    elif kind == "novelty":
        proba, mean = greedy(0 * t + n_actions - 1, (1.0 + t) ** -0.4), mean + 0
        mean = mean - 3 * t[:, None] / n
    elif kind == "loggers in turn":
        turn = (t // max(n // 8, 1) % 2)[:, None]
        proba = softmax(np.where(turn, score, first - score), axis=1)
        mean = mean + turn
    elif kind == "season":
        wave = np.sin(2 * np.pi * t / 200)[:, None]
        proba, mean = softmax(score + 1.5 * wave * first, axis=1), mean + wave
    elif kind == "season of rewards first":
        wave, lead = (np.sin(2 * np.pi * (t + s) / 200)[:, None] for s in (0, 25))
        proba, mean = softmax(score + 1.5 * wave * first, axis=1), mean + lead
    elif kind == "sessions":
        user = t // 10
        x = x[user]
        proba = softmax(1.5 * x @ good, axis=1)
        mean = 0.3 * x @ good + rng.normal(size=n)[user][:, None]
    elif kind == "retrained":
        taste = rng.normal(size=(21, 4, n_actions))[t // max(n // 20, 1)]
        proba = softmax(np.einsum("ij,ijk->ik", x, taste), axis=1)
    elif kind == "segments":
        segment = rng.randint(3, size=n)
        x, wave = segment[:, None], np.sin(2 * np.pi * t / 300)[:, None]
        proba = softmax(taste[segment] + wave * first, axis=1)
        mean = good[segment] + wave + t[:, None] / n
    elif kind == "sorted":
        order = np.argsort(x[:, 0])
        proba, mean = softmax(score, axis=1)[order], mean[order]
    return logs_of(proba, mean, rng, seed % 2 == 0, x)


CLEAN = [
    "static",
    "knows the best",
    "rates are noise",
    "epsilon decays",
    "epsilon decays by context",
    "epsilon grows by the day",
    "rewards drift",
    "both drift",
    "novelty",
    "loggers in turn",
    "season",
    "season of rewards first",
    "sessions",
    "retrained",
    "segments",
    "sorted",
]


@pytest.mark.parametrize("kind", CLEAN)
def test_no_alarm_where_nobody_learned(kind):
    for seed, n in enumerate([400, 3000]):
        assert learning_findings(clean_world(kind, n, 2 + seed, seed)) == []


@pytest.mark.theory
@pytest.mark.parametrize("kind", CLEAN)
def test_no_alarm_in_many_logs(kind, global_random_seed):
    for log in range(40):
        n, n_actions = [500, 2000, 10_000][log % 3], [2, 3, 8][log // 3 % 3]
        logs = clean_world(kind, n, n_actions, 1000 * global_random_seed + log)
        assert learning_findings(logs) == []


@pytest.mark.parametrize("known", [False, True])
def test_thompson_sampling_is_found(known):
    logs = make_adaptive_logs(3000, means=[0.5, 0.45], random_state=0)
    logs = logs if known else logs.replace(logging_proba=None)
    [found] = learning_findings(logs)
    assert found.number < WINDOW_CHANCE and found.effect > 2 * LEARNING_EFFECT
    assert found.category is AdaptiveLoggerWarning
    assert "AdaptiveDR" in found.text
    assert [f.name for f in audit(logs).findings].count("adaptive_logger") == 1


def test_learning_by_segment_is_found():
    logs = make_adaptive_logs(2000, means=[[0.5, 0.4], [0.4, 0.5]], random_state=0)
    assert len(learning_findings(logs)) == 1
    assert len(learning_findings(logs.replace(logging_proba=None))) == 1


@pytest.mark.thorough
def test_updates_now_and_then_are_found_by_the_sum_of_their_rounds():
    given = {"update_every": 10, "floor_decay": 9.0, "reward": "continuous"}
    logs = make_adaptive_logs(8000, random_state=3, **given)
    assert len(learning_findings(logs)) == 1


@pytest.mark.theory
def test_how_often_thompson_sampling_is_found(global_random_seed):
    found = [
        len(learning_findings(make_adaptive_logs(2000, random_state=seed)))
        for seed in 100 * global_random_seed + np.arange(40)
    ]
    assert np.mean(found) > 0.85


def test_values_warn_and_name_the_evaluator():
    logs = make_adaptive_logs(3000, random_state=0)
    with pytest.warns(AdaptiveLoggerWarning, match="AdaptiveDR") as caught:
        table = evaluate(ConstantPolicy(0), logs)
    told = [w for w in caught if isinstance(w.message, AdaptiveLoggerWarning)]
    assert len(told) == 1 and told[0].message.value < WINDOW_CHANCE
    assert table.recommended == "DoublyRobust"  # the mark is no silent one
    for evaluator in (AdaptiveDR(), DirectMethod()):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", OPEWarning)
            warnings.simplefilter("error", AdaptiveLoggerWarning)
            evaluator.fit(logs).evaluate(ConstantPolicy(0))


@pytest.mark.thorough
def test_it_is_silent_where_the_logs_cannot_tell():
    learned = make_adaptive_logs(3000, random_state=0)
    estimated = learned._with_estimates(propensity=learned.propensity)
    assert learning_findings(estimated) == []
    assert learning_findings(learned.replace(propensity=None, logging_proba=None)) == []
    assert learning_findings(learned[:100]) == []
    once = make_adaptive_logs(3000, update_every=1500, floor_decay=2, random_state=0)
    assert learning_findings(once) == []
    flat = learned.replace(reward=np.zeros(3000))
    assert learning_findings(flat) == []


def test_the_order_is_that_of_the_log():
    logs = make_adaptive_logs(3000, random_state=0)
    order = np.random.RandomState(0).permutation(3000)
    [expected], [found] = learning_findings(logs), learning_findings(logs[order])
    assert_allclose(found.number, expected.number)
    with pytest.warns(AdaptiveLoggerWarning):
        IPS().fit(logs[order]).evaluate(ConstantPolicy(0))
    half = logs[np.sort(order[:1500])]  # of a split: every other round is missing
    assert len(learning_findings(half)) == 1


def test_loggers_in_turn_are_followed_one_by_one():
    logs = make_adaptive_logs(3000, random_state=0)
    other = make_bandit_logs(3000, n_actions=2, random_state=0)
    turn = np.arange(6000) % 2

    def mixed(name):
        both = np.empty(6000)
        both[turn == 0], both[turn == 1] = getattr(logs, name), getattr(other, name)
        return both

    names = ("action", "reward", "propensity")
    action, reward, p = (mixed(name) for name in names)
    found = learning_findings(
        BanditLogs(np.zeros((6000, 1)), action.astype(int), reward, p, logger=turn)
    )
    assert len(found) == 1


def test_the_sum_by_hand():
    """One action: c_j = p_{j+1} - p_{j-1}, e_j = r_j - (r_{j-1} + r_{j+1}) / 2."""
    rng = np.random.RandomState(0)
    n = 600
    p, r = rng.uniform(0.2, 0.8, size=n), rng.normal(size=n)
    p[1:] += 0.1 * np.tanh(r[:-1])
    chance, correlation = Sequences(np.zeros(n, int), p, r).follow(1)
    c = np.array([p[j + 1] - p[j - 1] for j in range(1, n - 1)])
    e = np.array([r[j] - (r[j - 1] + r[j + 1]) / 2 for j in range(1, n - 1)])
    unit = [np.sqrt(np.mean(c[max(j - 16, 0) : j + 17] ** 2)) for j in range(len(c))]
    expected = np.corrcoef(c / unit, e)[0, 1]
    assert_allclose(correlation, expected, atol=0.01)
    assert chance < 1e-4
