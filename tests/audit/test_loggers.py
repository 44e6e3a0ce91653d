# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""What an audit tells about loggers: their propensities, contexts, exploration."""

import re

import numpy as np
import pytest
from numpy.testing import assert_allclose

from skope_ope import BanditLogs, audit, report
from tests.audit._told import told

K = 4


def softmax(X, slopes):
    mu = np.exp(X @ slopes)
    return mu / mu.sum(axis=1, keepdims=True)


def two_loggers(seed, fault=None, n=3000, share=0.2, known=False, **fields):
    """`old` has four rounds in five; a fault is in the propensities of `young`."""
    rng = np.random.RandomState(seed)
    X, young = rng.randn(n, 4), (rng.random_sample(n) < share).astype(int)
    slopes, rows = rng.randn(2, 4, K) / 2, np.arange(n)
    mu = np.stack([softmax(X, one) for one in slopes])
    draw = rng.random_sample((n, 1))
    action = np.minimum((mu[young, rows].cumsum(axis=1) < draw).sum(axis=1), K - 1)
    proba = mu[:, rows, action].T.copy()
    if fault is not None:
        proba[:, 1] = np.where(young, FAULTS[fault](mu[1], action, rng), proba[:, 1])
    if known:
        fields["logger_proba"] = proba
    logger = np.array(["old", "young"])[young]
    reward = (rng.random_sample(n) < 0.3).astype(float)
    p = proba[rows, young]
    return BanditLogs(X, action, reward, p, logger=logger, **fields)


FAULTS = {
    "another action": lambda mu, a, rng: mu[range(len(a)), rng.randint(K, size=len(a))],
    "other rounds": lambda mu, a, rng: rng.permutation(mu[np.arange(len(a)), a]),
    "uniform": lambda mu, a, rng: np.full(len(a), 1 / K),
    "argmax": lambda mu, a, rng: mu.max(axis=1),
}


def found(logs, seed=0):
    """Return what an audit finds about single loggers."""
    told = re.compile("[^:]*(loggers_|_logger|:Rounds of logger)")
    every = audit(logs, random_state=seed).findings
    return [one for one in every if told.match(f"{one.name}:{one.found}")]


def alarms(logs, seed=0):
    return [one for one in found(logs, seed) if one.is_alarm]


@pytest.mark.few_cases(1)
@pytest.mark.parametrize("known", [True, False])
def test_right_loggers_are_quiet(known):
    for seed in range(3):
        logs = two_loggers(seed, known=known)
        assert found(logs, seed) == []
        table = audit(logs, random_state=seed).facts["loggers"]
        assert table["logger"] == ["old", "young"]
        assert sum(table["rounds"]) == 3000
        assert table["actions taken"] == [K, K]
        assert table["looks at the context"] == ["yes", "yes"]
        own = logs.logger == "young"
        assert_allclose(table["lowest propensity"][1], logs.propensity[own].min())
        assert_allclose(table["mean reward"][1], logs.reward[own].mean())


@pytest.mark.few_cases(2)
@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_of_the_smaller_logger_is_its_own(fault):
    for seed in range(3):
        logs = two_loggers(seed, fault)
        told = alarms(logs, seed)
        assert told and {one.name[:10] for one in told} == {"propensity"}
        assert all(one.found.startswith("Rounds of logger 'young': ") for one in told)
        for one in told:
            assert (logs.logger[list(one.rows)] == "young").all()
            assert "with LoggerPropensityEstimator" in one.text


def test_a_fault_of_all_is_told_once():
    logs = two_loggers(0)
    wrong = logs.replace(propensity=np.full(3000, 0.9))
    told = alarms(wrong)
    assert len({one.name for one in told}) == len(told)
    both = "Rounds of logger 'old' (and of 1 more: 'young'): "
    assert any(one.found.startswith(both) for one in told)


@pytest.mark.thorough
def test_the_rounds_of_the_other_hide_it():
    """Two rounds in a hundred: tests of all rounds together see nothing."""
    pooled = alone = 0
    for seed in range(3):
        logs = two_loggers(seed, "uniform", n=12_000, share=0.05)
        told = alarms(logs, seed)
        every = audit(logs, random_state=seed).alarms
        pooled += len(every) > len(told)
        alone += bool(told)
    assert alone == 3 and pooled == 0


def test_propensities_that_contradict_the_column_of_the_logger():
    logs = two_loggers(0, known=True)
    p = logs.propensity.copy()
    p[[5, 17]] /= 2
    (one,) = [f for f in alarms(logs.replace(propensity=p)) if "contra" in f.name]
    assert one.name == "propensity_contradicts_logger" and one.rows == (5, 17)
    assert one.number == 2
    assert_allclose(one.effect, 1.0)
    assert f"{p[5]:.4g} and {2 * p[5]:.4g} in row 5" in one.found
    clipped = logs.replace(propensity=np.maximum(logs.propensity, 0.05))
    [note] = [one for one in found(clipped) if "contra" in one.name]
    assert note.severity == "note" and "raised to 0.05" in note.found


def test_loggers_of_other_contexts():
    """Pooled by a mixture, rounds of other contexts weigh as if they were the same."""
    logs = two_loggers(0, known=True)
    X = logs.context.copy()
    X[logs.logger == "young", 0] += 0.7
    loggers = {"logger": logs.logger, "logger_proba": np.full((3000, 2), 0.25)}
    moved = BanditLogs(X, logs.action, logs.reward, **loggers)
    [one] = [one for one in found(moved) if one.name == "loggers_of_other_contexts"]
    assert one.severity == "warning" and one.number > 4
    assert "pooling='naive'" in one.text
    blind = moved.replace(logger_proba=None)
    [one] = [one for one in found(blind) if one.name == "loggers_of_other_contexts"]
    assert one.severity == "note"


def test_weights_bring_the_contexts_back():
    """Of rounds of `young` with x > 0 one in three was kept, and weighs three times."""
    logs = two_loggers(0, known=True, n=6000, share=0.5)
    rng = np.random.RandomState(0)
    rare = (logs.logger == "young") & (logs.context[:, 0] > 0)
    kept = np.flatnonzero(~rare | (rng.random_sample(6000) < 1 / 3))
    some = logs[kept]
    assert "loggers_of_other_contexts" in {one.name for one in alarms(some)}
    assert not alarms(some.replace(sample_weight=np.where(rare, 3.0, 1.0)[kept]))


def gains(seed, turned=None, contexts=0.0, curved=False, names="abc", n=3000):
    """One action pays better, or where columns agree; `turned` writes losses."""
    rng = np.random.default_rng(seed)
    logger = rng.choice(list(names), n)
    X, action = rng.normal(size=(n, 2)), rng.integers(0, 2, n)
    X[:, 0] += contexts * np.where(logger == "a", 1, -1)
    effect = np.sign(X[:, 0] * X[:, 1]) if curved else np.ones(n)
    reward = 2.0 * (rng.random(n) < 0.4 + 0.1 * effect * (2 * action - 1)) - 1
    reward[logger == turned] *= -1
    return BanditLogs(X, action, reward, 0.5, logger=logger)


@pytest.mark.parametrize("names, turned", [("ab", "a"), ("ab", "b"), ("abc", "c")])
def test_rewards_of_the_opposite_sign(names, turned):
    logs = gains(0, turned, names=names)
    [one] = audit(logs).alarms
    assert (one.name, one.severity) == ("opposite_rewards", "error")
    assert turned in one.actions
    assert "go against those of the others" in one.found
    told = report(np.eye(2)[np.ones(len(logs), dtype=int)], logs)
    assert told.decision == "undecided"
    mended = np.where(logs.logger == turned, -logs.reward, logs.reward)
    assert audit(logs.replace(reward=mended)).ok


@pytest.mark.parametrize("contexts", [0.0, 2.0])
@pytest.mark.parametrize("curved", [False, True])
def test_rewards_of_one_sign(contexts, curved):
    for seed in range(5):
        logs = gains(
            seed, contexts=contexts, curved=curved, names="abc"[: 2 + seed % 2]
        )
        assert audit(logs).ok


def test_actions_that_one_of_them_lacks():
    n = 600
    logger, action = np.arange(n) % 2, np.arange(n) // 2 % 3
    action[(logger == 1) & (action == 2)] = 0
    mu = np.array([[1 / 3, 1 / 3, 1 / 3], [2 / 3, 1 / 3, 0.0]])
    loggers = {"logger": logger, "logger_proba": mu[:, action].T}
    logs = BanditLogs(np.zeros((n, 1)), action, np.ones(n), **loggers)
    [one] = found(logs)
    assert one.name == "loggers_without_overlap" and one.severity == "note"
    assert "logger 1 cannot take action 2" in one.found and one.actions == (2,)
    blind = logs.replace(logger_proba=None)
    [one] = found(blind)
    assert "logger 1 never took action 2" in one.found
    assert not found(blind[:100])  # it may have been chance


def test_a_logger_with_a_few_rounds():
    logs = two_loggers(0, n=300, share=0.05)
    [one] = found(logs)
    count = int((logs.logger == "young").sum())
    assert one.name == "few_rounds_of_a_logger" and one.severity == "note"
    assert one.number == count and one.actions == ("young",)


def test_logs_of_every_kind():
    logs = two_loggers(0, n=200)
    alone = BanditLogs(logs.context, logs.action, logs.reward)
    assert "loggers" not in audit(alone).facts and found(alone) == []
    assert audit(logs[:1]).facts["loggers"]["rounds"] == [1]
    assert found(logs[logs.logger == "old"]) == []  # the tests of all are its own
    blind = logs.replace(propensity=None)
    assert "lowest propensity" not in audit(blind).facts["loggers"]
    rounds = np.zeros((100, 1)), np.arange(100), np.ones(100)
    many = BanditLogs(*rounds, logger=np.arange(100) % 50)
    facts = audit(many).facts
    assert len(facts["loggers"]["logger"]) == 20 and facts["loggers not shown"] == 30
    assert [one.name for one in found(many)] == ["few_rounds_of_a_logger"]


# -- whether a logger looks at the context --------------------------------------------
def of_slope(slope, n=2000, seed=0, **fields):
    rng = np.random.RandomState(seed)
    X = rng.randn(n, 2)
    action = (rng.random_sample(n) < 1 / (1 + np.exp(-slope * X[:, 0]))).astype(int)
    return BanditLogs(X, action, rng.random_sample(n), **fields)


def explored(logs):
    facts, found = told("context_tells_actions", logs)
    kept = {name: facts[name] for name in facts if name.startswith("actions against")}
    return kept, found


def test_a_logger_that_looks_at_the_context_is_noted():
    facts, (one,) = explored(of_slope(1.0))
    assert one.severity == "note"
    assert one.number > 4 and one.effect > 0.05
    assert "with PropensityEstimator" in one.text
    told = facts["actions against the context"]
    assert "the context predicts the actions (z = " in told


def test_a_weak_dependence_is_told_as_such():
    for seed in range(20):
        _, found = explored(of_slope(0.22, seed=seed))
        if found and found[0].number < 4:
            assert "The context seems to predict the logged actions" in found[0].found
            return
    raise AssertionError("no log of a weak dependence")


def test_a_logger_that_does_not_look():
    for seed in range(4):
        facts, found = explored(of_slope(0.0, seed=seed))
        assert not found
        assert "no classifier" in facts["actions against the context"]


def test_loggers_are_asked_one_by_one():
    one, two = of_slope(1.0), of_slope(0.0, seed=1)
    X, action = np.vstack([one.context, two.context]), np.r_[one.action, two.action]
    who = np.repeat(["looks", "blind"], 2000)
    facts, (found,) = explored(BanditLogs(X, action, np.zeros(4000), logger=who))
    assert "of logger 'looks'" in found.found
    assert "LoggerPropensityEstimator" in found.text
    asked = {f"actions against the context of logger {w!r}" for w in ("looks", "blind")}
    assert set(facts) == asked


@pytest.mark.parametrize("n", [1, 5])
def test_nothing_to_ask(n):
    facts, found = explored(of_slope(1.0, n=n))
    assert not found and "nothing to test" in facts["actions against the context"]
    known = of_slope(0.0, n=n, propensity=np.full(n, 0.5))
    assert explored(known) == ({}, [])
