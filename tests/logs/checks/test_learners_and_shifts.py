# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Loggers that learn and contexts that slid are found, and what resembles them not."""

import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.signal import lfilter
from scipy.special import expit, softmax

from skope_ope import (
    IPS,
    AdaptiveDR,
    BanditLogs,
    ConstantPolicy,
    DirectMethod,
    PropensityEstimator,
    evaluate,
)
from skope_ope.datasets import make_adaptive_logs, make_bandit_logs
from skope_ope.exceptions import AdaptiveLoggerWarning, OPEWarning
from tests.logs.checks._found import draw, findings, softmax_logs

CHANCE = 1e-6  # below which a correlation is told


def learning(logs):
    return findings(logs, "adaptive_logger")


def logs_of(proba, mean, rng, binary, context):
    """Draw actions and rewards; the logger says nothing of the rewards."""
    n, n_actions = proba.shape
    cumulative = proba.cumsum(axis=1)
    drawn = rng.random_sample((n, 1)) * cumulative[:, -1:]
    action = (cumulative <= drawn).sum(axis=1)
    p, mean = (table[np.arange(n), action] for table in (proba, mean))
    reward = mean + rng.normal(size=n)
    if binary:
        reward = (rng.random_sample(n) < expit(mean)).astype(float)
    fields = {"actions": np.arange(n_actions), "logging_proba": proba}
    return BanditLogs(context, action, reward, p, **fields)


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


CLEAN = ["static", "knows the best", "rates are noise", "rewards drift", "both drift"]
CLEAN += ["epsilon decays", "epsilon decays by context", "epsilon grows by the day"]
CLEAN += ["novelty", "loggers in turn", "season", "season of rewards first"]
CLEAN += ["sessions", "retrained", "segments", "sorted"]


@pytest.mark.parametrize("kind", CLEAN)
def test_no_alarm_where_nobody_learned(kind):
    for seed, n in enumerate([400, 3000]):
        assert clean_world(kind, n, 2 + seed, seed)._learning_findings == []


@pytest.mark.theory
@pytest.mark.parametrize("kind", CLEAN)
def test_no_alarm_in_many_logs(kind, global_random_seed):
    for log in range(40):
        n, n_actions = [500, 2000, 10_000][log % 3], [2, 3, 8][log // 3 % 3]
        logs = clean_world(kind, n, n_actions, 1000 * global_random_seed + log)
        assert logs._learning_findings == []


def test_thompson_sampling_is_found():
    known = make_adaptive_logs(3000, means=[0.5, 0.45], random_state=0)
    for logs in (known, known.replace(logging_proba=None)):
        [found] = learning(logs)
        assert found.number < CHANCE and found.effect > 0.06
        assert found.category is AdaptiveLoggerWarning
        assert "AdaptiveDR" in found.text
    means = [[0.5, 0.4], [0.4, 0.5]]
    by_segment = make_adaptive_logs(2000, means=means, random_state=0)
    for logs in (by_segment, by_segment.replace(logging_proba=None)):
        assert len(learning(logs)) == 1


@pytest.mark.thorough
def test_updates_now_and_then_are_found_by_the_sum_of_their_rounds():
    given = {"update_every": 10, "floor_decay": 9.0, "reward": "continuous"}
    logs = make_adaptive_logs(8000, random_state=3, **given)
    assert len(learning(logs)) == 1


@pytest.mark.theory
def test_how_often_thompson_sampling_is_found(global_random_seed):
    seeds = 100 * global_random_seed + np.arange(40)
    logs = (make_adaptive_logs(2000, random_state=seed) for seed in seeds)
    assert np.mean([len(one._learning_findings) for one in logs]) > 0.85


def test_values_warn_in_the_order_of_the_log():
    logs = make_adaptive_logs(3000, random_state=0)
    with pytest.warns(AdaptiveLoggerWarning, match="AdaptiveDR") as caught:
        table = evaluate(ConstantPolicy(0), logs)
    told = [w for w in caught if isinstance(w.message, AdaptiveLoggerWarning)]
    assert len(told) == 1 and told[0].message.value < CHANCE
    assert table.recommended == "DoublyRobust"  # the mark is no silent one
    for evaluator in (AdaptiveDR(), DirectMethod()):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", OPEWarning)
            warnings.simplefilter("error", AdaptiveLoggerWarning)
            evaluator.fit(logs).evaluate(ConstantPolicy(0))
    # the order is that of the log
    order = np.random.RandomState(0).permutation(3000)
    [expected], [found] = learning(logs), learning(logs[order])
    assert_allclose(found.number, expected.number)
    with pytest.warns(AdaptiveLoggerWarning):
        IPS().fit(logs[order]).evaluate(ConstantPolicy(0))
    half = logs[np.sort(order[:1500])]  # of a split: every other round is missing
    assert len(learning(half)) == 1
    # loggers in turn are followed one by one
    other = make_bandit_logs(3000, n_actions=2, random_state=0)
    action, reward, p = (
        np.ravel([getattr(logs, name), getattr(other, name)], order="F")
        for name in ("action", "reward", "propensity")
    )
    turn = np.arange(6000) % 2
    mixed = BanditLogs(np.zeros((6000, 1)), action.astype(int), reward, p, logger=turn)
    assert len(learning(mixed)) == 1


@pytest.mark.thorough
def test_it_is_silent_where_the_logs_cannot_tell():
    learned = make_adaptive_logs(3000, random_state=0)
    unknown = learned.replace(propensity=None, logging_proba=None)
    estimated = PropensityEstimator().fit_transform(unknown)
    once = make_adaptive_logs(3000, update_every=1500, floor_decay=2, random_state=0)
    flat = learned.replace(reward=np.zeros(3000))
    for logs in (estimated, unknown, learned[:100], once, flat):
        assert learning(logs) == []


# -- contexts that slid by a row -------------------------------------------------------


def rebuilt(logs, context=None, propensity=None):
    context = logs.context if context is None else context
    propensity = logs.propensity if propensity is None else propensity
    return BanditLogs(context, logs.action, logs.reward, propensity)


def shifts(logs, seed=0):
    return findings(logs, "shifted_context", random_state=seed)


def names(logs, seed=0):
    return [one.name for one in shifts(logs, seed)]


@pytest.mark.parametrize("temperature", [0.3, 1.0])
@pytest.mark.parametrize(("step", "side"), [(1, "after"), (-1, "before")])
def test_contexts_that_slid_are_found(temperature, step, side):
    logs = softmax_logs(logging_temperature=temperature)
    slid = rebuilt(logs, np.roll(logs.context, step, axis=0))
    (found,) = shifts(slid)
    assert (found.name, found.severity) == ("shifted_context", "error")
    assert f"the row {side}" in found.found
    assert "contexts are shifted by a row" in found.advice[0]
    assert found.number > 6
    assert found.effect > 0.02
    # rows out of order are compared as they were stored
    [found] = shifts(slid[np.random.default_rng(0).permutation(3000)])
    assert found.name == "shifted_context"
    # of every other row no neighbour is there
    assert names(slid[::2]) == []


@pytest.mark.parametrize("temperature", [0.3, 1.0, np.inf])
def test_contexts_that_did_not_slide_are_quiet(temperature):
    for seed in range(2):
        assert names(softmax_logs(seed, logging_temperature=temperature), seed) == []


def test_propensities_that_slid_are_told_apart():
    logs = softmax_logs(logging_temperature=0.3)
    slid = np.roll(logs.logging_proba, 1, axis=0)[np.arange(len(logs)), logs.action]
    (found,) = shifts(rebuilt(logs, propensity=slid))
    assert "propensities are shifted by a row" in found.advice[0]
    # without propensities
    forward, backward = (np.roll(logs.context, k, axis=0) for k in (1, -1))
    action, reward = logs.action, logs.reward
    (found,) = shifts(BanditLogs(forward, action, reward))
    # contexts that record the last action look the same: no alarm
    assert found.severity == "note"
    assert "no fault" in found.text
    (found,) = shifts(BanditLogs(backward, action, reward))
    assert found.severity == "warning"
    assert names(BanditLogs(logs.context, action, reward)) == []


def test_what_is_no_shift():
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
    # loggers one after the other are no shift
    rng = np.random.default_rng(0)
    x = rng.normal(size=(3000, 4))
    logits = x @ rng.normal(size=(4, 4))
    logits[1800:] = -logits[1800:]
    mu = softmax(logits, axis=1)
    action = draw(mu, rng)
    logs = BanditLogs(x, action, rng.random(3000), mu[np.arange(3000), action])
    assert names(logs) == []
    # what cannot be compared is quiet
    ones, rng = np.ones(200), np.random.default_rng(0)
    action = rng.integers(0, 2, 200)
    many = rng.permutation(100_000)[:200]  # each action once
    assert names(BanditLogs([[1.0]], [0], [1.0], [0.5])) == []
    assert names(BanditLogs(np.empty((200, 0)), action, ones, ones / 2)) == []
    assert names(BanditLogs(np.full((200, 2), np.nan), action, ones, ones / 2)) == []
    x = rng.normal(size=(200, 2))
    assert names(BanditLogs(x, many, ones, ones / 1e5)) == []


@pytest.mark.parametrize("known", [True, False])
def test_contexts_that_depend_on_each_other_are_no_shift(known):
    for seed in range(2):
        rng = np.random.default_rng(seed)
        x = lfilter([0.3], [1, -0.95], rng.normal(size=(2000, 3)), axis=0)
        users = rng.normal(size=(100, 3)).repeat(20, axis=0)
        for context, logits in ((x, x @ rng.normal(size=(3, 3))), (users, users)):
            mu = softmax(logits, axis=1)
            action = draw(mu, rng)
            p = mu[np.arange(2000), action] if known else None
            assert names(BanditLogs(context, action, rng.random(2000), p)) == []


def test_many_rounds_and_text():
    pd = pytest.importorskip("pandas")
    logs = softmax_logs(n_rounds=22_000, logging_temperature=0.3)
    texts = np.array(["low", "mid", "high"])[np.digitize(logs.context, [-0.5, 0.5])]
    frame = pd.DataFrame(np.roll(texts, 1, axis=0), columns=list("abcd"))
    assert names(rebuilt(logs, frame)) == ["shifted_context"]
    assert names(rebuilt(logs, pd.DataFrame(texts, columns=list("abcd")))) == []
