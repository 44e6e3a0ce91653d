# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import numpy as np
import pytest
from numpy.testing import assert_allclose

from skope_ope import BanditLogs, audit
from skope_ope.audit._logger_findings import logger_findings
from skope_ope.logs.checks._propensity_findings import quick_propensity_findings
from skope_ope.logs.checks._propensity_fit import fitted_propensity_findings

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
    "another action": lambda mu, a, rng: mu[
        np.arange(len(a)), rng.randint(K, size=len(a))
    ],
    "other rounds": lambda mu, a, rng: rng.permutation(mu[np.arange(len(a)), a]),
    "uniform": lambda mu, a, rng: np.full(len(a), 1 / K),
    "argmax": lambda mu, a, rng: mu.max(axis=1),
}


def alarms(logs, seed=0):
    return [one for one in logger_findings(logs, seed)[1] if one.is_alarm]


@pytest.mark.few_cases(1)
@pytest.mark.parametrize("known", [True, False])
def test_right_loggers_are_quiet(known):
    for seed in range(3):
        logs = two_loggers(seed, known=known)
        facts, found = logger_findings(logs, seed)
        assert not found
        table = facts["loggers"]
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
        found = alarms(logs, seed)
        assert found and {one.name[:10] for one in found} == {"propensity"}
        assert all(one.found.startswith("Rounds of logger 'young': ") for one in found)
        for one in found:
            assert (logs.logger[list(one.rows)] == "young").all()
            assert "with LoggerPropensityEstimator" in one.text


def test_a_fault_of_all_is_told_once():
    logs = two_loggers(0)
    wrong = logs.replace(propensity=np.full(3000, 0.9))
    found = alarms(wrong)
    assert len({one.name for one in found}) == len(found)
    assert any(
        one.found.startswith("Rounds of logger 'old' (and of 1 more: 'young'): ")
        for one in found
    )


@pytest.mark.thorough
def test_the_rounds_of_the_other_hide_it():
    """Two rounds in a hundred: tests of all rounds together see nothing."""
    pooled = alone = 0
    for seed in range(3):
        logs = two_loggers(seed, "uniform", n=12_000, share=0.05)
        quick, fitted = (
            quick_propensity_findings(logs),
            fitted_propensity_findings(logs),
        )
        pooled += any(one.is_alarm for one in (*quick[1], *fitted[1]))
        alone += bool(alarms(logs, seed))
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
    notes = [f for f in logger_findings(clipped)[1] if "contra" in f.name]
    assert [note.severity for note in notes] == ["note"]
    assert "raised to 0.05" in notes[0].found


def test_loggers_of_other_contexts():
    """Pooled by a mixture, rounds of other contexts weigh as if they were the same."""
    logs = two_loggers(0, known=True)
    X = logs.context.copy()
    X[logs.logger == "young", 0] += 0.7
    moved = BanditLogs(
        X,
        logs.action,
        logs.reward,
        logger=logs.logger,
        logger_proba=np.full((3000, 2), 0.25),
    )
    found = {one.name: one for one in logger_findings(moved)[1]}
    one = found["loggers_of_other_contexts"]
    assert one.severity == "warning" and one.number > 4
    assert "pooling='naive'" in one.text
    blind = moved.replace(logger_proba=None)
    found = {one.name: one for one in logger_findings(blind)[1]}
    assert found["loggers_of_other_contexts"].severity == "note"


def test_weights_bring_the_contexts_back():
    """Of rounds of `young` with x > 0 one in three was kept, and weighs three times."""
    logs = two_loggers(0, known=True, n=6000, share=0.5)
    rng = np.random.RandomState(0)
    rare = (logs.logger == "young") & (logs.context[:, 0] > 0)
    kept = np.flatnonzero(~rare | (rng.random_sample(6000) < 1 / 3))
    some = logs[kept]
    assert "loggers_of_other_contexts" in {one.name for one in alarms(some)}
    assert not alarms(some.replace(sample_weight=np.where(rare, 3.0, 1.0)[kept]))


def test_actions_that_one_of_them_lacks():
    n = 600
    logger, action = np.arange(n) % 2, np.arange(n) // 2 % 3
    action[(logger == 1) & (action == 2)] = 0
    mu = np.array([[1 / 3, 1 / 3, 1 / 3], [2 / 3, 1 / 3, 0.0]])
    logs = BanditLogs(
        np.zeros((n, 1)),
        action,
        np.ones(n),
        logger=logger,
        logger_proba=mu[:, action].T,
    )
    (one,) = logger_findings(logs)[1]
    assert one.name == "loggers_without_overlap" and one.severity == "note"
    assert "logger 1 cannot take action 2" in one.found and one.actions == (2,)
    blind = logs.replace(logger_proba=None)
    (one,) = logger_findings(blind)[1]
    assert "logger 1 never took action 2" in one.found
    few = blind[:100]  # it may have been chance
    assert not logger_findings(few)[1]


def test_a_logger_with_a_few_rounds():
    logs = two_loggers(0, n=300, share=0.05)
    (one,) = logger_findings(logs)[1]
    count = int((logs.logger == "young").sum())
    assert one.name == "few_rounds_of_a_logger" and one.severity == "note"
    assert one.number == count and one.actions == ("young",)


def test_logs_of_every_kind():
    logs = two_loggers(0, n=200)
    assert logger_findings(BanditLogs(logs.context, logs.action, logs.reward)) == (
        {},
        [],
    )
    assert logger_findings(logs[:1])[0]["loggers"]["rounds"] == [1]
    one = logs[logs.logger == "old"]
    assert list(logger_findings(one)[0]) == ["loggers"]  # the tests of all are its own
    blind = logs.replace(propensity=None)
    assert "lowest propensity" not in logger_findings(blind)[0]["loggers"]
    many = BanditLogs(
        np.zeros((100, 1)), np.arange(100), np.ones(100), logger=np.arange(100) % 50
    )
    facts, found = logger_findings(many)
    assert len(facts["loggers"]["logger"]) == 20 and facts["loggers not shown"] == 30
    assert [f.name for f in found] == ["few_rounds_of_a_logger"]


def test_the_audit_asks():
    logs = two_loggers(0, "another action")
    assert any("logger 'young'" in one.found for one in audit(logs).alarms)
    assert "loggers" in audit(two_loggers(0)).facts
