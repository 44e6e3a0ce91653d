# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""What an audit says of the columns of a log before it tests anything."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse

from skope_ope import (
    BanditLogs,
    SlateLogs,
    UniformPolicy,
    audit,
    evaluate,
    report,
    suggest,
)
from skope_ope.exceptions import LogsWarning
from tests.logs.checks._found import findings

OF_COLUMNS = "missing_values", "constant_column", "duplicate_column"
OF_FACTS = "unseen_actions", "few_rewards", "few_groups"


def facts_of(logs):
    return audit(logs).facts


def found(logs, *names):
    return {one.name: one for one in findings(logs, *names)}


# -- facts ----------------------------------------------------------------------------
def test_facts():
    logs = BanditLogs(
        np.zeros((4, 2)),
        ["b", "a", "b", "b"],
        [1.0, 0.0, -2.0, 3.0],
        [0.5, 0.25, 0.5, 0.8],
        actions=["a", "b", "c"],
        logger=["x", "y", "y", "y"],
        group=[1, 1, 1, 2],
        sample_weight=[1.0, 2, 3, 4],
        timestamp=[10.0, 20, 30, 40],
    )
    facts = facts_of(logs)
    assert facts["rounds"] == 4
    assert facts["features"] == 2
    assert (facts["number of actions"], facts["actions logged"]) == (3, 2)
    table = facts["actions"]
    assert table["action"] == ["a", "b", "c"]
    assert table["rounds"] == [1, 3, 0]
    assert_allclose(table["mean reward"], [0, 2 / 3, np.nan])
    assert_allclose(table["mean propensity"], [0.25, 0.6, np.nan])
    assert facts["loggers"]["logger"] == ["y", "x"]
    assert facts["loggers"]["rounds"] == [3, 1]
    told = [facts[f"reward, {name}"] for name in ("lowest", "highest", "mean")]
    assert told == [-2, 3, 0.5]
    assert facts["reward, share not zero"] == 0.75
    assert facts["reward, distinct values"] == 4
    assert facts["propensity, lowest"] == 0.25
    assert facts["sample weight, mean"] == 2.5
    assert facts["groups"] == 2
    assert facts["rounds of a group, median"] == 2
    assert facts["rounds of a group, most"] == 3
    assert facts["effective groups"] == pytest.approx(16 / 10)
    assert (facts["first time"], facts["last time"]) == (10, 40)
    # facts of many actions and rewards and of dates
    action = np.append(np.arange(20_000), np.full(7, 1234))
    reward = np.random.default_rng(0).random(len(action))
    time = np.datetime64("2026-01-01T00:00:00") + np.arange(len(action))
    x = np.zeros((len(action), 1))
    facts = facts_of(BanditLogs(x, action, reward, timestamp=time))
    assert facts["number of actions"] == 20_000
    table = facts["actions, most and least"]
    assert len(table["action"]) == 100
    assert (table["action"][0], table["rounds"][0]) == (1234, 8)
    assert table["rounds"][-1] == 1
    assert "mean propensity" not in table
    assert "actions" not in facts
    assert facts["reward, distinct values"] == "more than 1,000"
    assert facts["first time"] == "2026-01-01T00:00:00"
    # facts of slates
    slate, offered = [[0, 1], [2, -1], [1, 0], [0, -1]], [[1, 1, 0], [1, 1, 1]]
    offered = np.array([*offered, [1, 1, 0], [1, 0, 0]], dtype=bool)
    logs = SlateLogs(np.zeros((4, 1)), slate, [1.0, 0, 2, 0])
    logs = logs.with_columns(sample_weight=[1.0, 1, 2, 2])
    facts = facts_of(logs)
    assert facts["empty slots, share"] == 0.25
    table = {"slot": [0, 1], "share filled": [1, 0.5], "distinct candidates": [3, 2]}
    assert facts["slots"] == table
    assert "candidates of a page, highest" not in facts
    assert facts["sample weight, mean"] == 1.5
    assert list(found(logs, *OF_FACTS)) == ["few_rewards"]
    told = facts_of(SlateLogs(logs.context, slate, logs.reward, candidates=offered))
    assert told["candidates, most"] == 3
    ends = [told[f"candidates of a page, {end}"] for end in ("lowest", "highest")]
    assert ends == [1, 3]


def test_few_actions_rewards_and_groups():
    logs = BanditLogs(np.zeros((2, 1)), [0, 1], [1.0, 0], actions=range(10))
    one = found(logs, *OF_FACTS)["unseen_actions"]
    assert (one.severity, one.number, one.effect) == ("note", 8, 0.8)
    assert "8 (2, 3, 4, 5, 6 and 3 more)" in one.found
    assert one.actions == (2, 3, 4, 5, 6, 7, 8, 9)

    # few rewards
    def of(reward):
        reward = np.asarray(reward, dtype=float)
        logs = BanditLogs(np.zeros((len(reward), 1)), np.zeros(len(reward)), reward)
        return found(logs, *OF_FACTS).get("few_rewards")

    assert of(np.arange(100) < 10) is None
    assert of(np.arange(100) < 9).severity == "note"
    assert "Only 1 of 100 rounds has a reward" in of(np.arange(100) < 1).found
    none = of(np.zeros(100))
    assert none.severity == "warning"
    assert "No round has a reward" in none.found
    assert "All rewards are 3" in of(np.full(100, 3.0)).found
    assert "Rounds without a reward may be missing" in of(np.ones(100)).advice[0]
    assert "Check the column" in of(np.zeros(100)).advice[0]
    assert of([1.0]).severity == "note"  # of one round nobody expects more

    # few groups
    def of(group):
        zeros = np.zeros(len(group))
        reward = np.arange(len(group)) % 2.0
        logs = BanditLogs(zeros[:, None], zeros, reward, group=group)
        return found(logs, *OF_FACTS).get("few_groups")

    assert of(np.arange(200) % 40) is None
    one = of(np.arange(200) % 39)
    assert (one.severity, round(one.number)) == ("warning", 39)
    unequal = np.append(np.zeros(1000, int), np.arange(1, 100))
    assert "100 groups, which count as 1.2" in of(unequal).found
    assert "1 group." in of(np.zeros(9)).found


# -- columns of the context -----------------------------------------------------------
def logs_of(context):
    n_rounds = context.shape[0]
    return BanditLogs(context, np.arange(n_rounds) % 3, np.arange(n_rounds) % 2.0)


def odd(context):
    by_name = found(logs_of(context), *OF_COLUMNS)
    assert all(one.severity == "note" for one in by_name.values())
    return by_name


def noise(n_rounds=3000, n_columns=4):
    return np.random.default_rng(0).normal(size=(n_rounds, n_columns))


def test_arrays():
    X = noise(n_columns=7)
    X[5, 0], X[7:9, 1] = np.inf, np.nan
    X[:, 3], X[:, 4] = 2.0, np.nan
    X[:, 5] = X[:, 1]  # missing values included
    missing, by_name = facts_of(logs_of(X))["missing values"], odd(X)
    assert missing == {"column": [0, 1, 4, 5], "rounds": [1, 2, 3000, 2]}
    assert by_name["missing_values"].columns == (0, 1, 4, 5)
    assert by_name["missing_values"].effect == 1
    assert by_name["constant_column"].columns == (3, 4)
    one = by_name["duplicate_column"]
    assert one.columns == (5,)
    assert one.found == "Context column 5 is context column 1 again."


def test_one_round_says_it_all():
    # what the sample of rounds shows is looked at in all of them
    X = noise(20_000, 3)
    X[:, 1], X[:, 2] = 1.0, X[:, 0]
    assert set(odd(X)) == {"constant_column", "duplicate_column"}
    X[12_345, 1:] = 7.0
    assert odd(X) == odd(noise()) == odd(np.empty((5, 0))) == odd(np.ones((1, 3))) == {}
    X = np.full((10, 2), 1e308)  # large numbers are not infinite
    X[::2] /= 2
    assert "missing_values" not in odd(X)


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
def test_frames(library):
    pd = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    text = rng.choice(["a", "b", None], 500)
    columns = {"age": rng.normal(size=500), "city": text, "town": text, "country": "x"}
    columns["visits"] = pd.array(rng.integers(0, 9, 500), dtype="Int64")
    columns["since"] = pd.date_range("2026-01-01", periods=500)
    frame = pd.DataFrame(columns | {"empty": np.full(500, np.nan)})
    frame.loc[3, "visits"] = pd.NA
    frame.loc[[4, 5], "since"] = pd.NaT
    if library == "polars":
        frame = pytest.importorskip("polars").from_pandas(frame)
    elif library == "pyarrow":
        frame = pytest.importorskip("pyarrow").Table.from_pandas(frame)
    facts, by_name = facts_of(logs_of(frame)), odd(frame)
    counts = dict(zip(*facts["missing values"].values(), strict=True))
    gone = sum(one is None for one in text)
    expected = {"city": gone, "town": gone, "visits": 1, "since": 2, "empty": 500}
    assert counts == expected
    assert by_name["constant_column"].columns == ("country", "empty")
    assert by_name["duplicate_column"].found == "Column 'town' is column 'city' again."


def test_sparse_and_wide():
    rows = np.arange(1000)
    X = sparse.csr_matrix((rows + 1.0, (rows, 19 * rows)), shape=(1000, 20_000))
    X.data[0] = np.nan
    logs = SlateLogs(X, np.zeros((1000, 1), int), rows % 2.0)
    facts, by_name = facts_of(logs), found(logs, *OF_COLUMNS)
    assert facts["missing values"]["rounds"] == [1]
    assert facts["columns tested"] == "200 of 20,000 (those with the most entries)"
    assert by_name["constant_column"].number == 19_000
    assert "and 18,995 more" in by_name["constant_column"].found
    both = sparse.csr_matrix(np.column_stack([noise(50, 2), noise(50, 2)[:, :1]]))
    assert odd(both)["duplicate_column"].columns == (2,)
    facts = facts_of(logs_of(noise(50, 300)))
    assert facts["columns tested"] == "200 of 300 (the first)"


def frame_logs(column="visitor_id", n_values=200, group=None):
    pd = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    values = {"price": rng.integers(0, 900, 500)}
    values[column] = rng.integers(0, n_values, 500)
    group = None if group is None else values.pop(group)
    action = rng.integers(0, 2, 500)
    return BanditLogs(pd.DataFrame(values), action, rng.random(500), 0.5, group=group)


@pytest.mark.frames
def test_a_user_in_the_context_is_asked_about():
    (one,) = findings(frame_logs(), "group_in_context")
    assert (one.name, one.severity) == ("group_in_context", "note")
    assert one.columns == ("visitor_id",)
    assert "group='visitor_id'" in one.advice[0]
    assert "group_in_context" in str(audit(frame_logs()))
    for name in ("user", "customer id", "Session", "id", "client_nr"):
        assert "group_in_context" in found(frame_logs(name), "group_in_context")
    for logs in (
        frame_logs("identity"),  # no name of a group
        frame_logs(n_values=5),  # categories
        frame_logs(n_values=10**9),  # every round another one
        frame_logs(group="visitor_id"),
    ):
        assert findings(logs, "group_in_context") == []


# -- rounds that were dropped ---------------------------------------------------------
def orders(n=12_000, seed=0):
    """Arrays of a log from which rounds without an order were dropped."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 3))
    action = rng.integers(4, size=n)
    bought = rng.random(n) < 0.1 + 0.12 * action
    x, action = x[bought], action[bought]
    return x, action, rng.gamma(9, 1.0, len(x)), np.full(len(x), 0.25)


@pytest.mark.parametrize("policy", [None, [0.0, 0.0, 0.0, 1.0], [1.0, 0.0, 0.0, 0.0]])
def test_dropped_rounds_are_named_first(policy):
    logs = BanditLogs(*orders())
    words = (logs,) if policy is None else (np.tile(policy, (len(logs), 1)), logs)
    alarms = audit(*words).alarms
    assert alarms
    for one in alarms:
        assert one.advice[0].startswith("No reward of the log is 0. Rounds were drop")


@pytest.mark.parametrize("sign", [-1, 0, 1])
def test_rewards_of_both_signs_are_no_export_of_orders(sign):
    x, action, reward, p = orders()
    # of sign 0: some cost more than they bring
    reward = sign * reward if sign else reward - np.median(reward)
    for rewards in (reward, np.arange(len(x))):
        logs = BanditLogs(x, action, rewards, p)
        (one,) = findings(logs, "action_too_frequent", "action_too_rare")
        is_first = one.advice[0].startswith("No reward of the log is 0.")
        assert is_first == (sign != 0 and rewards[0] != 0)
        assert any("Rounds were dropped" in text for text in one.advice)


# -- how a finding reads --------------------------------------------------------------
def test_a_finding_prints_as_what_to_do():
    (one,) = findings(logs_of(np.ones((9, 1))), "constant_column")
    assert str(one).startswith("[note] constant_column: Context column 0 has the same")
    assert one.text == f"{one.found} {one.advice[0]}"
    (one,) = findings(BanditLogs(*orders()), "action_too_frequent", "action_too_rare")
    steps = [f"({i}) {text}" for i, text in enumerate(one.advice, 1)]
    assert len(steps) > 1
    assert one.text.endswith(f"most likely first: {' '.join(steps)}")
    lines = str(one).splitlines()
    assert max(map(len, lines)) <= 100
    assert [line for line in lines if line.startswith("(1)")]
    assert "rows=(" in repr(one)


def numeric(action):
    """Logs with these actions."""
    rng, n = np.random.default_rng(0), len(action)
    p = np.full(n, 1 / len(np.unique(action)))
    return BanditLogs(rng.normal(size=(n, 2)), action, rng.random(n), p)


AMOUNTS = np.random.default_rng(0).uniform(0, 30, 1000).round(4)
CENTS = np.random.default_rng(1).choice(100_000, 1000)


@pytest.mark.parametrize(
    "action, severity",
    [
        (AMOUNTS, "warning"),
        (AMOUNTS.astype(str), "warning"),
        (CENTS, "note"),
        (CENTS.astype(str), "note"),
        (CENTS * 1.0, "note"),
        (np.repeat(np.arange(0, 15_000, 10), 3), "note"),  # 1,500 of them
    ],
)
@pytest.mark.filterwarnings("always")
def test_actions_that_are_numbers(action, severity, recwarn):
    logs = numeric(action)
    [one] = findings(logs, "numeric_action")
    assert one.severity == severity
    assert f"{logs.n_actions:,} distinct values" in one.found
    assert "ranges" in one.text
    assert ("If the action is an amount and no label" in one.found) == (
        severity == "note"
    )
    told = "numeric_action"
    assert suggest(None, logs).doubts[told] == one.text
    value = evaluate(UniformPolicy(), logs, evaluators=["IPS", "SNIPS"])["IPS"]
    warned = [str(w.message) for w in recwarn if w.category is LogsWarning]
    assert warned == [one.text] * (severity == "warning")
    assert (told in [r.name for r in value.verdict.reasons]) == (severity == "warning")
    assert one.found[:60] in " ".join(str(report(UniformPolicy(), logs)).split())


@pytest.mark.parametrize(
    "action",
    [
        np.random.default_rng(0).integers(0, 900, 1000),  # identifiers
        np.random.default_rng(0).integers(0, 900, 1000) * 1.0,
        np.random.default_rng(0).choice([0.5, 1.5, 2.5], 1000),
        np.random.default_rng(0).integers(0, 900, 1000).astype(str),
        np.arange(1500),  # counted through
        [f"item {k}" for k in range(1500)],
    ],
)
def test_actions_that_are_labels(action):
    assert not findings(numeric(action), "numeric_action")


def filled_in(n=2000, share=0.1, seed=0, **fields):
    """Rounds that draw from two actions, and rows of a third one with p = 1."""
    rng = np.random.default_rng(seed)
    action = np.where(rng.random(n) < share, "none", rng.choice(["a", "b"], n))
    p = np.where(action == "none", 1.0, 0.5)
    return BanditLogs(rng.normal(size=(n, 2)), action, rng.random(n) < 0.3, p, **fields)


def test_an_action_that_is_never_drawn_beside_drawn_ones():
    logs = filled_in()
    [one] = findings(logs, "certain_action")
    assert (one.severity, one.actions) == ("warning", ("none",))
    assert one.number == (logs.action == "none").sum()
    # both remedies end it
    assert audit(logs[logs.action != "none"]).ok
    offered = np.where((logs.action == "none")[:, None], [0, 0, 1], [1, 1, 0])
    assert not findings(filled_in(available=offered == 1), "certain_action")


def test_certain_actions_of_right_logs():
    rng = np.random.default_rng(0)
    for logs in (
        filled_in(share=0.005),  # a few
        filled_in(logger=np.where(filled_in().action == "none", "rule", "draw")),
        filled_in(share=1.0),
    ):
        assert not findings(logs, "certain_action")
    held = rng.random(2000) < 0.2  # a holdout gets the control, drawn elsewhere
    action = np.where(held, 0, rng.integers(0, 3, 2000))
    p = np.where(held, 1.0, 1 / 3)
    logs = BanditLogs(held[:, None] * 1.0, action, rng.random(2000) < 0.3, p)
    assert not findings(logs, "certain_action")
