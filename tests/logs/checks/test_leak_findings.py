# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

from decimal import Decimal

import numpy as np
import pytest
from scipy import sparse

from skope_ope import (
    BanditLogs,
    ConstantPolicy,
    PropensityEstimator,
    audit,
    compare_policies,
)
from skope_ope.exceptions import PropensityWarning
from tests.logs.checks._found import findings, quick, softmax_logs, urn


def with_column(logs, column, propensity="given", **fields):
    context = np.column_stack([logs.context, column])
    propensity = logs.propensity if isinstance(propensity, str) else propensity
    return BanditLogs(context, logs.action, logs.reward, propensity, **fields)


def found(logs, seed=0):
    names = "action_leak", "propensity_ignores_context"
    return findings(logs, *names, random_state=seed)


@pytest.mark.parametrize("temperature", [0.3, 1.0, np.inf])
def test_the_action_as_a_column(temperature):
    logs = softmax_logs(logging_temperature=temperature)
    (one,) = found(with_column(logs, logs.action))
    assert (one.name, one.severity, one.columns) == ("action_leak", "error", (4,))
    assert one.found.startswith("Context column 4 tells the logged action")
    assert "written after" in one.advice[0]
    assert one.number > np.log(1000)
    assert one.effect > 0.05
    for seed in range(3):
        logs = softmax_logs(seed, 1000, logging_temperature=temperature)
        assert found(logs, seed) == []


def test_noisy_copies_and_other_loggers():
    for seed in range(2):
        logs = softmax_logs(seed)
        noise = np.random.default_rng(seed).normal(size=3000)
        (one,) = found(with_column(logs, logs.action + noise), seed)
        assert one.columns == (4,)
    # a logger that learns in every segment
    # an urn each: what was drawn early is drawn ever more often
    logs = urn(2000, 10, 0, n_segments=4)
    assert found(logs) == []
    assert found(logs.replace(propensity=logs.propensity * 0.7))
    # propensities of another logger accuse no column
    logs = softmax_logs(logging_temperature=0.5)
    p = np.where(logs.context[:, 0] > 0, 0.25, 0.2)
    (one,) = found(BanditLogs(logs.context, logs.action, logs.reward, p))
    assert len(one.columns) > 1
    assert not one.is_alarm  # what is about propensities is one
    assert "the propensities are wrong" in one.found
    assert "So do" in one.found
    assert "written after" not in one.text


@pytest.mark.theory
def test_e_value_of_columns_accuses_fewer_than_its_level():
    # the level is 1 in 1,000 for a log; logs as small as can be tested have most
    logs = (softmax_logs(seed, 100, logging_temperature=0.2) for seed in range(2000))
    alarms = sum(len(found(one, seed)) for seed, one in enumerate(logs))
    assert alarms <= 2 + 4 * np.sqrt(2)


def shares_as_propensities(seed=0, n_rounds=8000):
    """Actions that follow a column, whose shares in the log stand for propensities."""
    rng = np.random.default_rng(seed)
    context = rng.integers(0, 2, (n_rounds, 2))
    likely = np.where(context[:, 0] == 1, 0.75, 0.4)
    action = (rng.random(n_rounds) < likely).astype(int)
    reward = (rng.random(n_rounds) < 0.3 + 0.2 * context[:, 0]).astype(int)
    p = np.where(action == 1, likely, 1 - likely)
    right = BanditLogs(context, action, reward, p)
    return right.replace(propensity=(np.bincount(action) / n_rounds)[action]), right


def test_propensities_that_ignore_what_the_logger_looked_at():
    wrong, right = shares_as_propensities()
    (one,) = found(wrong)
    assert (one.name, one.severity) == ("propensity_ignores_context", "error")
    assert one.columns == (0,)
    assert "Keep the column" in one.advice[0]
    assert "PropensityEstimator" in one.advice[0]
    assert "written after" in one.advice[1]
    assert found(right) == []
    (one,) = quick(wrong)  # it is seen at a glance
    assert one.name == "propensity_ignores_context"
    assert not any(one.is_alarm for one in quick(right))
    told = [one.name for one in audit(wrong).alarms]
    assert told == ["propensity_ignores_context", "propensity_misfit"]
    # and no decision rests on it
    assert compare_policies({"one": ConstantPolicy(0)}, right).decision == "undecided"
    with pytest.warns(PropensityWarning, match="the same in every context"):
        compared = compare_policies({"one": ConstantPolicy(0)}, wrong)
    assert compared.decision == "undecided"
    assert "propensities or acceptance ratios in doubt" in compared.sentence


@pytest.mark.parametrize("seed", range(10))
def test_propensities_of_a_logger_that_looks_at_nothing_are_quiet(seed):
    rng = np.random.default_rng(seed)
    action = rng.choice(3, 4000, p=[0.6, 0.3, 0.1])
    p = np.array([0.6, 0.3, 0.1])[action]
    logs = BanditLogs(rng.normal(size=(4000, 8)), action, rng.random(4000), p)
    assert not any(one.is_alarm for one in quick(logs))


def test_weak_leaks_and_unknown_propensities():
    logs = softmax_logs()
    weak = logs.action + np.random.default_rng(0).normal(scale=2.5, size=3000)
    (one,) = found(with_column(logs, weak))
    assert (one.severity, one.columns) == ("error", (4,))
    assert "was written after" in one.advice[0]
    shuffled = np.random.default_rng(0).permutation(logs.propensity)
    (one,) = found(with_column(logs, weak, shuffled))
    assert not one.is_alarm
    assert "the propensities are wrong" in one.found
    # without propensities or with estimated ones
    assert found(BanditLogs(logs.context, logs.action, logs.reward)) == []
    leaked = with_column(logs, logs.action, None)
    (one,) = found(leaked)
    assert (one.severity, one.columns) == ("warning", (4,))
    assert "without exploring" in one.text
    assert one.effect > 0.9
    estimated = PropensityEstimator().fit_transform(leaked)
    (one,) = found(estimated)
    assert (one.severity, one.columns) == ("warning", (4,))


def test_choices_groups_and_weights_that_leak_nothing():
    rng = np.random.default_rng(0)
    segment = rng.integers(0, 3, 500)
    x = segment[:, None].astype(float)
    assert found(BanditLogs(x, segment, rng.random(500), np.ones(500))) == []
    # without propensities nobody knows whether it had one
    assert len(found(BanditLogs(x, segment, rng.random(500)))) == 1
    # choices that a group repeats
    # one action per user, and columns that tell the user
    for seed in range(2):
        user = np.arange(400).repeat(10)
        rows = softmax_logs(seed, 400)[user]
        assert found(with_column(rows, np.ones(4000), group=user), seed) == []
        leaked = with_column(rows, rows.action, group=user)
        assert len(found(leaked, seed)) == 1
    # subsampling by reward is undone by the weights
    rng = np.random.default_rng(0)
    logs = softmax_logs(n_rounds=8000, effect=2.0)
    kept = (logs.reward > 0) | (rng.random(8000) < 0.1)
    weight = np.where(logs.reward > 0, 1.0, 10.0)[kept]
    some = logs[kept]
    assert len(found(some)) == 1  # nothing says that rounds are missing
    assert found(some.replace(sample_weight=weight)) == []


@pytest.mark.frames
@pytest.mark.parametrize(
    "kind", ["text", "category", "Int64", "Decimal", "day", "flag", "huge", "tiny"]
)
def test_columns_of_any_kind(kind):
    """Missing values and users, of whom each has one round, are in the frame, too."""
    pd = pytest.importorskip("pandas")
    logs = softmax_logs(n_rounds=1000)
    frame = pd.DataFrame(logs.context, columns=list("abcd"))
    frame["user"] = [f"user {i}" for i in range(1000)]
    action = pd.Series(logs.action)
    frame["mail"] = {
        "text": action.map({0: "men", 1: "women", 2: "none", 3: None}),
        "category": pd.Categorical(action),
        "Int64": action.astype("Int64").mask(action == 2),
        "Decimal": action.map(Decimal),
        "day": pd.Timestamp("2026-01-01") + pd.to_timedelta(action, "D"),
        "flag": action == 1,
        "huge": 1e300 * action,
        "tiny": 5e-324 * action,
    }[kind]
    (one,) = found(BanditLogs(frame, logs.action, logs.reward, logs.propensity))
    assert one.columns == ("mail",)
    assert one.found.startswith("Column 'mail' tells")


def test_wide_logs_and_those_that_cannot_be_tested():
    rng = np.random.default_rng(0)
    action = rng.integers(0, 100_000, 2000)
    p, reward = np.full(2000, 1e-5), rng.random(2000)
    actions = np.arange(100_000)
    x = rng.normal(size=(2000, 3))
    assert found(BanditLogs(x, action, reward, p, actions=actions)) == []
    few, rows = rng.integers(0, 3, 2000), np.arange(2000)
    wide = sparse.coo_matrix((reward, (rows, action)), shape=(2000, 100_000))
    wide = sparse.hstack([wide, (few == 1)[:, None]], format="csr")[:, 1:]
    logs = BanditLogs(wide, few, reward, np.full(2000, 1 / 3))
    (one,) = found(logs)
    assert one.columns == (99_999,)
    # what cannot be tested is quiet
    ones, action = np.ones(500), np.arange(500) % 2
    x = action[:, None] * 1.0
    for context, actions, fields in (
        (np.ones((500, 1)), ones, {}),
        (np.empty((500, 0)), action, {}),
        (np.full((500, 2), np.nan), action, {}),
        (x, action, {"group": np.zeros(500)}),
    ):
        assert found(BanditLogs(context, actions, ones, ones / 2, **fields)) == []
    assert found(BanditLogs([[1.0]], [0], [1.0], [0.5])) == []
    logs = softmax_logs(n_rounds=12_000)
    leaked = with_column(logs, logs.action)  # same rows, same answer
    assert found(leaked, 3)[0].number == found(leaked, 3)[0].number


def test_propensities_of_another_rule_come_before_the_column():
    # the hours are those of another time zone: the logger's rule looks at the column
    rng = np.random.default_rng(0)
    hour, other = rng.integers(24, size=12_000), rng.normal(size=12_000)
    rule = np.array([[0.7, 0.1, 0.2], [0.3, 0.5, 0.2]])
    mu = rule[(hour >= 18).astype(int)]
    action = (rng.random(12_000)[:, None] > mu.cumsum(axis=1)).sum(axis=1)
    p = rule[(hour >= 23).astype(int), action]
    logs = BanditLogs(np.column_stack([hour, other]), action, rng.random(12_000), p)
    (one,) = found(logs)
    assert (one.name, one.severity, one.columns) == ("action_leak", "error", (0,))
    assert "come from another rule" in one.advice[0]
    assert "was written after" in one.advice[1]
