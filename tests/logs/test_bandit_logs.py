# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause


import numpy as np
import pytest
from numpy.testing import assert_array_equal

from skope_ope import BanditLogs

X = np.array([[0.0, 1.0], [2.0, 3.0], [4.0, 5.0], [6.0, 7.0]])
ACTION = np.array(["b", "a", "b", "c"])
AVAILABLE = np.array([[1, 1, 0], [1, 0, 1], [1, 1, 1], [0, 1, 1]], dtype=bool)
PROBA = np.array([[0.5, 0.5, 0], [0.25, 0, 0.75], [0.2, 0.3, 0.5], [0, 0.9, 0.1]])
BY_ROUND = np.arange(24.0).reshape(4, 3, 2)
FIELDS = {
    "propensity": [0.5, 0.25, 0.3, 0.1],
    "logging_proba": PROBA,
    "logger": ["new", "old", "old", "new"],
    "logger_proba": [[0.5, 0.1], [0.9, 0.25], [0.2, 0.3], [0.1, 0.4]],
    "available": AVAILABLE,
    "action_context": BY_ROUND,
    "timestamp": np.array(["2020-01-01", "2020-01-02", "2020-01-03"] * 2, "M8[D]")[:4],
    "group": ["u", "u", "v", "w"],
    "sample_weight": [1.0, 2.0, 0.0, 1.0],
    "reward_range": (0, 5),
}


def logs_of(**fields):
    given = {"context": X, "action": ACTION, "reward": [1, 0, 3, 5]}
    return BanditLogs(**given | fields)


def full_logs():
    return logs_of(**FIELDS)


ONE_COLUMN = {"logger": FIELDS["logger"], "logger_proba": np.ones((4, 1))}


def test_one_propensity_for_all_rounds():
    for number in (1 / 4, np.float32(0.25), 1):
        logs = BanditLogs(np.zeros((3, 1)), [0, 1, 0], [1.0, 0, 1], number)
        assert_array_equal(logs.propensity, np.full(3, float(number)))
        assert_array_equal(logs.replace(propensity=0.5).propensity, [0.5] * 3)
    for number in (2.0, 0, -1, float("nan")):
        with pytest.raises(ValueError, match=r"is not in \(0, 1\]. As a number"):
            logs.replace(propensity=number)
    for given in (True, np.True_, [True] * 4, np.array([True, False, True, True])):
        with pytest.raises(TypeError, match="booleans, but it is the probability"):
            logs_of(propensity=given)


def test_every_field_is_kept():
    logs = full_logs()
    assert_array_equal(logs.context, X)
    assert_array_equal(logs.action, ACTION)
    assert_array_equal(logs.reward, [1.0, 0.0, 3.0, 5.0])
    assert logs.actions.tolist() == ["a", "b", "c"]
    assert logs.action_index.tolist() == [1, 0, 1, 2]
    assert logs.loggers.tolist() == ["new", "old"]
    assert logs.logger_index.tolist() == [0, 1, 1, 0]
    assert logs.reward_range == (0.0, 5.0)
    assert logs.n_actions == 3
    assert logs._action_counts.tolist() == [1, 2, 1]
    assert logs.shape == (4, 2)
    assert logs.n_rounds == len(logs) == 4
    assert logs.columns == {}
    for name, value in FIELDS.items():
        assert_array_equal(getattr(logs, name), value)


def test_only_three_fields_are_needed():
    logs = logs_of()
    assert all(getattr(logs, name) is None for name in FIELDS)
    assert logs.loggers is None
    told = "BanditLogs(n_rounds=4, n_features=2, n_actions=3, propensity=None)"
    assert repr(logs) == told
    logs = logs_of(actions=["z", "c", "b", "a"])
    assert logs.actions.tolist() == ["z", "c", "b", "a"]
    assert logs.action_index.tolist() == [2, 3, 2, 1]
    assert logs._action_counts.tolist() == [0, 1, 2, 1]


@pytest.mark.parametrize("source", ["logging_proba", "logger_proba"])
def test_propensity_agrees_with_what_is_known_of_the_loggers(source):
    fields = {"logger": FIELDS["logger"], source: FIELDS[source]}
    assert_array_equal(logs_of(**fields).propensity, FIELDS["propensity"])
    close = np.array(FIELDS["propensity"]) + 5e-7
    assert_array_equal(logs_of(propensity=close, **fields).propensity, close)
    off = close + np.array([0, 0, 0.2, 0])
    message = rf"propensity 0\.5\d* at row 2 contradicts {source}, .*0\.3 \(1 such row"
    with pytest.raises(ValueError, match=message):
        logs_of(propensity=off, **fields)


@pytest.mark.parametrize(
    ("fields", "error", "message"),
    [
        ({"reward": ["x"] * 4}, TypeError, "must hold numbers.*first entry 'x'"),
        ({"available": ~AVAILABLE}, ValueError, "'b' was logged at row 0.*4 such"),
        ({"logger_proba": np.ones((4, 1))}, ValueError, "needs `logger`"),
        (ONE_COLUMN, ValueError, r"one column per logger \(2: \['new', 'old'\]"),
        ({"action_context": [1, 2, 3]}, ValueError, r"got 1 dimension\(s\)"),
        ({"action_context": BY_ROUND[0, :2]}, ValueError, r"shape \(3,\) \+ "),
        ({"action_context": BY_ROUND[:2]}, ValueError, r"\(4, 3\) \+ .*\(2, 3, 2\)"),
        ({"sample_weight": [1, -1, 1, 1]}, ValueError, ">= 0, got -1 at row 1"),
        ({"sample_weight": [0] * 4}, ValueError, "zero everywhere"),
    ],
)
def test_bad_fields_are_refused(fields, error, message):
    with pytest.raises(error, match=message):
        logs_of(**fields)


def test_an_empty_slice_knows_the_actions():
    empty = full_logs()[:0]
    told = "BanditLogs(n_rounds=0, n_features=2, n_actions=3, n_loggers=2)"
    assert repr(empty) == told
    assert empty.actions.tolist() == ["a", "b", "c"]
    assert empty.summary() == {"rounds": "0", "actions": "3"}
    assert "0 rounds" in empty._repr_html_()
    assert len(empty.row_id) == 0
    assert len(empty.replace(sample_weight=[], propensity=[])) == 0
    logs = logs_of(action_context=BY_ROUND[0])  # which do not vary
    assert logs[[1]].action_context is logs.action_context


def test_replace_keeps_the_rows_and_the_rest():
    logs = full_logs().with_columns(pi=PROBA)[1:]
    replaced = logs.replace(propensity=[0.5, 0.5, 0.5], logging_proba=None)
    assert_array_equal(replaced.propensity, [0.5] * 3)
    assert replaced.logging_proba is None
    assert replaced.row_id == logs.row_id
    assert replaced.context is logs.context
    assert replaced.columns == logs.columns
    assert replaced.logger_proba is logs.logger_proba
    assert_array_equal(logs.propensity, FIELDS["propensity"][1:])


def test_replace_takes_every_field_but_those_of_the_past():
    logs = full_logs()
    for name in ("logger_proba", "sample_weight", "timestamp", "group", "available"):
        assert getattr(logs.replace(**{name: None}), name) is None
        again = logs.replace(**{name: None}).replace(**{name: FIELDS[name]})
        assert_array_equal(getattr(again, name), FIELDS[name])
    for name in ("context", "action", "actions", "logger", "reward_range", "colour"):
        with pytest.raises(ValueError, match=f"{name!r} cannot be replaced, only"):
            logs.replace(**{name: None})


@pytest.mark.parametrize(
    ("fields", "error", "message"),
    [
        ({"reward": None}, TypeError, "reward must hold numbers"),
        ({"reward": [6, 0, 0, 0]}, ValueError, "reward 6 at row 0 lies outside"),
        ({"reward": [0, 0]}, ValueError, "reward has 2 rows"),
        ({"propensity": [0] * 4}, ValueError, "got 0 at row 0"),
        ({"logging_proba": PROBA[:2]}, ValueError, r"shape \(4, 3\)"),
        ({"sample_weight": [-1] * 4}, ValueError, "must be a finite number >= 0"),
        ({"timestamp": ["x"] * 4}, TypeError, "numbers or datetimes"),
        ({"group": [1]}, ValueError, "group has 1 rows"),
        ({"available": AVAILABLE & (PROBA != 0.75)}, ValueError, r"gives .* 0\.75 to"),
    ],
)
def test_replace_checks(fields, error, message):
    with pytest.raises(error, match=message):
        full_logs().replace(**fields)


def test_replace_checks_the_new_distribution_with_the_new_offers():
    offered = np.eye(3, dtype=bool)[[1, 0, 1, 2]]
    for fields in (
        {"available": offered, "logging_proba": offered.astype(float)},
        {"logging_proba": offered.astype(float), "available": offered},
    ):
        assert_array_equal(full_logs().replace(**fields).logging_proba, offered)


def test_summary_names_what_there_is():
    assert full_logs().with_columns(pi=PROBA).summary() == {
        "rounds": "4",
        "actions": "3 (logged 1 to 2 times)",
        "features": "2 (ndarray)",
        "reward": "0 to 5, mean 2.25",
        "propensity": "0.1 to 0.5",
        "reward range": "0 to 5",
        "loggers": "new: 2, old: 2",
        "groups": "3",
        "offered actions": "2 to 3",
        "time": "2020-01-01 to 2020-01-03",
        "sample weight": "0 to 2",
        "columns": "pi",
    }
    assert logs_of().summary()["propensity"] == "unknown"


def test_repr_is_short():
    logs = BanditLogs(np.zeros((10_000, 3)), np.arange(10_000), np.zeros(10_000))
    assert len(repr(logs)) < 100
    assert len(logs._repr_html_().split("</style>")[1]) < 3_000
