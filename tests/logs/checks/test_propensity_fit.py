# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""A model of the logger beats propensities that are wrong, and no others."""

from itertools import product

import numpy as np
import pytest
from scipy import sparse

from skope_ope import PropensityEstimator
from skope_ope.logs.checks._e_value import (
    SURE,
    crosswise,
    log_e_value,
    log_mean_exp,
    probability_ratio,
)
from skope_ope.logs.checks._logger_model import held_out_proba
from skope_ope.logs.checks._propensity_fit import fitted_propensity_findings
from tests.logs.checks.test_propensity_findings import draw, logs_of, softmax, world


def alarms(logs, random_state=0):
    return fitted_propensity_findings(logs, random_state)[1]


# -- that it is an e-value ------------------------------------------------------------
def mean_e_value(mu, n_rounds, actions=None):
    """Exact mean of E over all logs of a few rounds, in equally frequent contexts."""
    half = np.arange(n_rounds) % 2
    total = 0.0
    for context in product(range(len(mu)), repeat=n_rounds):
        for log in product(range(mu.shape[1]), repeat=n_rounds):
            x, log = np.array(context), np.array(log)
            p = mu[x, log]
            logs = logs_of(x[:, None], log, p, actions=actions)
            predicted = held_out_proba(logs, np.arange(n_rounds), crosswise(half))
            f = probability_ratio(predicted, p, logs.n_actions)
            e = log_mean_exp([log_e_value(f[half == k]) for k in (0, 1)])
            total += p.prod() * np.exp(e) / len(mu) ** n_rounds
    return total


def test_its_mean_is_at_most_one():
    mu = np.array([[0.8, 0.2], [0.1, 0.9]])
    assert mean_e_value(mu, 3) < 1 + 1e-12
    # whether the log names the actions or leaves those out that it never saw
    skewed = np.array([[0.98, 0.01, 0.01]])
    assert mean_e_value(skewed, 4, actions=[0, 1, 2]) < 1 + 1e-12
    assert mean_e_value(skewed, 4) < 1 + 1e-12


# -- right logs -----------------------------------------------------------------------
@pytest.mark.parametrize("scale", [1, 3])
def test_right_propensities_are_not_beaten(scale):
    for seed in range(3):
        x, _, action, p = world(2000, seed, scale)
        assert alarms(logs_of(x, action, p)) == []
        rounded = np.maximum(p.round(2), 0.01)
        assert alarms(logs_of(x, action, rounded)) == []


def test_many_actions_that_the_log_does_not_name():
    for seed in range(3):
        rng = np.random.default_rng(seed)
        action = np.where(rng.random(2000) < 0.98, 0, rng.integers(1, 300, size=2000))
        p = np.where(action == 0, 0.98, 0.02 / 299)
        assert alarms(logs_of(np.zeros((2000, 1)), action, p)) == []
        action = rng.integers(300, size=1100)
        assert (
            alarms(logs_of(np.zeros((1100, 1)), action, np.full(1100, 1 / 300))) == []
        )


def test_a_logger_that_learns():
    for seed in range(3):
        rng = np.random.default_rng(seed)
        sums, counts, q = np.ones(4), np.full(4, 2.0), rng.random(4) * 0.3
        action, p = np.zeros(1500, dtype=int), np.zeros(1500)
        for t in range(1500):
            mu = np.full(4, 0.2 / 4)
            mu[(sums / counts).argmax()] += 0.8
            action[t] = rng.choice(4, p=mu)
            p[t] = mu[action[t]]
            counts[action[t]] += 1
            sums[action[t]] += rng.random() < q[action[t]]
        assert alarms(logs_of(np.zeros((1500, 0)), action, p)) == []


def urn(n_rounds, n_actions, seed, n_segments=1):
    """A logger that draws an action as often as it was in the segment, plus a half."""
    rng = np.random.default_rng(seed)
    drawn = np.full((n_segments, n_actions), 0.5)
    segment = rng.integers(n_segments, size=n_rounds)
    action, p = np.zeros(n_rounds, dtype=int), np.zeros(n_rounds)
    for t, mine in enumerate(segment):
        below = drawn[mine].cumsum() < rng.random() * drawn[mine].sum()
        action[t] = min(below.sum(), n_actions - 1)
        p[t] = drawn[mine, action[t]] / drawn[mine].sum()
        drawn[mine, action[t]] += 1
    return logs_of(segment[:, None], action, p, actions=np.arange(n_actions))


def test_a_logger_whose_future_tells_its_past():
    # right propensities, but what was drawn early is drawn ever more often
    for seed in range(4):
        logs = urn(2000, 20, seed)
        assert alarms(logs) == []
        mixed = np.random.default_rng(seed).permutation(2000)
        assert alarms(logs[mixed]) == []  # the order is the one in which they stood
        assert alarms(logs.replace(group=np.arange(2000) // 2)) == []
        wrong = logs.replace(propensity=logs.propensity * 0.8)
        assert [one.name for one in alarms(wrong)] == ["propensity_misfit"]


def test_rounds_that_repeat_the_choice_of_their_group():
    for seed in range(3):
        x, _, action, p = world(150, seed, scale=2)
        rows = np.repeat(np.arange(150), 20)
        logs = logs_of(x[rows], action[rows], p[rows], group=rows)
        assert alarms(logs) == []
    x, _, action, p = world(400, 0)
    rows = np.repeat(np.arange(400), 20)
    [alarm] = alarms(logs_of(x[rows], action[rows], p[rows] / 2, group=rows))
    assert alarm.effect > 0.5
    assert alarms(logs_of(x, action, p / 2, group=np.arange(400) // 20)) == []  # few


def test_rounds_that_were_subsampled():
    x, _, action, p = world(8000)
    kept = np.where(action == 0, 1.0, 0.25)
    rows = np.random.default_rng(0).random(8000) < kept
    x, action, p, weight = x[rows], action[rows], p[rows], 1 / kept[rows]
    assert alarms(logs_of(x, action, p, sample_weight=weight)) == []
    [alarm] = alarms(logs_of(x, action, p))
    assert alarm.actions == (0,)
    assert alarms(logs_of(x, action, np.roll(p, 1), sample_weight=weight))


def test_loggers_and_offers():
    rng = np.random.default_rng(0)
    x, mu, _, _ = world(2000)
    logger = np.arange(2000) % 2
    offered = rng.random((2000, 4)) < 0.5
    offered[np.arange(2000), rng.integers(4, size=2000)] = True
    mu = np.where(logger[:, None], mu**3, mu) * offered
    mu /= mu.sum(axis=1, keepdims=True)
    action = draw(mu, rng)
    p = mu[np.arange(2000), action]
    fields = {"logger": logger, "available": offered}
    assert alarms(logs_of(x, action, p, **fields)) == []
    assert alarms(logs_of(x, action, np.roll(p, 1), **fields))
    # the propensities of the other logger: only who knows the loggers can tell
    swapped = np.where(logger, 0.2, 0.8)
    action = (rng.random(2000) < np.where(logger, 0.8, 0.2)).astype(int)
    p = np.where(action == 1, swapped, 1 - swapped)
    assert alarms(logs_of(np.zeros((2000, 0)), action, p, logger=logger))


# -- faults ---------------------------------------------------------------------------
FAULTS = {
    "of another row": lambda mu, action: np.roll(mu[np.arange(len(mu)), action], 1),
    "of another action": lambda mu, action: mu[np.arange(len(mu)), (action + 1) % 4],
    "times .9": lambda mu, action: 0.9 * mu[np.arange(len(mu)), action],
    "uniform": lambda mu, action: np.full(len(mu), 0.25),
    "half the temperature": lambda mu, action: (
        mu**2 / (mu**2).sum(axis=1, keepdims=True)
    )[np.arange(len(mu)), action],
}


@pytest.mark.few_cases
@pytest.mark.parametrize("scale", [1, 3])
@pytest.mark.parametrize("fault", FAULTS)
def test_wrong_propensities_are_beaten(fault, scale):
    x, mu, action, _ = world(2000, 1, scale)
    [alarm] = alarms(logs_of(x, action, FAULTS[fault](mu, action)))
    assert alarm.name == "propensity_misfit"
    assert alarm.severity == "error"
    assert alarm.number > SURE
    assert alarm.effect > 0.035
    [worst] = alarm.actions
    assert len(alarm.rows) == 10
    assert (action[list(alarm.rows)] == worst).all()
    assert "estimate them with PropensityEstimator." in alarm.advice[-1]


def test_a_huge_effect_is_said_in_words():
    x, _, action, p = world(2000)
    [alarm] = alarms(logs_of(x, action, p * 1e-4))
    assert alarm.effect > 1000
    assert "many times over" in alarm.found and "%" not in alarm.found


def test_the_same_rounds_are_drawn_for_the_same_seed():
    x, _, action, p = world(12_000)
    logs = logs_of(x, action, 0.8 * p)
    one, same, other = (alarms(logs, seed)[0].number for seed in (0, 0, 1))
    assert one == same != other


def test_what_is_not_tested():
    x, _, action, p = world(300)
    for logs in (
        logs_of(x, action, None),
        logs_of(x, action, np.ones(300)),
        PropensityEstimator().fit_transform(logs_of(x, action, None)),
    ):
        assert fitted_propensity_findings(logs, 0) == ({}, [])
    for n in (1, 5):
        facts, found = fitted_propensity_findings(logs_of(x[:n], action[:n], p[:n]), 0)
        assert found == []
        assert "fewer than 30 rounds" in next(iter(facts.values()))
    one = logs_of(x, np.zeros(300), np.full(300, 0.5))  # of a single action
    assert alarms(one)
    assert alarms(one.replace(propensity=np.full(300, 1 - 1e-6))) == []


# -- contexts of any kind -------------------------------------------------------------
def contexts(x):
    """The sign of the first column tells the action, in all kinds of contexts."""
    pd = pytest.importorskip("pandas")
    side = x[:, 0] > 0
    wide = sparse.csr_matrix(
        (np.ones(len(x)), (np.arange(len(x)), side + 5)), shape=(len(x), 50_000)
    )
    names = np.where(side, "yes", "no")
    noise = [f"user {i}" for i in range(len(x))]
    holes = np.where(x[:, 1] > 0, np.nan, x[:, 1])
    return {
        "array": x,
        "holes": np.column_stack([holes, x[:, 0]]),
        "sparse": wide,
        "frame": pd.DataFrame({"id": noise, "side": names, "day": x[:, 1]}),
        "category": pd.DataFrame({"side": pd.Categorical(names)}),
        "bool": pd.DataFrame({"side": side, "gap": pd.array(side, dtype="boolean")}),
    }


KINDS = ["array", "holes", "sparse", "frame", "category", "bool"]


@pytest.mark.few_cases(3)
@pytest.mark.parametrize("kind", KINDS)
def test_contexts_of_any_kind(kind):
    x = np.random.default_rng(0).normal(size=(1500, 2))
    mu = softmax(np.column_stack([np.where(x[:, 0] > 0, 2.0, -2.0), np.zeros(1500)]))
    action = draw(mu, np.random.default_rng(1))
    p = mu[np.arange(1500), action]
    context = contexts(x)[kind]
    assert alarms(logs_of(context, action, p)) == []
    assert alarms(logs_of(context, action, np.roll(p, 1)))


@pytest.mark.parametrize("wrong", [slice(0, 2000), slice(2000, 4000)])
def test_a_fault_of_half_a_log_is_seen(wrong):
    x, _, action, p = world(4000, 1)
    p = p.copy()
    p[wrong] = np.random.default_rng(0).permutation(p[wrong])
    assert [one.name for one in alarms(logs_of(x, action, p))] == ["propensity_misfit"]
