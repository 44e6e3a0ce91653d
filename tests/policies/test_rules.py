# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Policies without a model: uniform, constant, and functions of the contexts."""

import pickle
import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from skope_ope import (
    IPS,
    BanditLogs,
    ConstantPolicy,
    FunctionPolicy,
    UniformPolicy,
    compare_policies,
    evaluate,
)
from skope_ope.exceptions import OPEWarning
from skope_ope.policies import action_probabilities

# Uniform
LABELLED = BanditLogs(np.zeros((3, 2)), ["a", "b", "c"], [1, 1, 1], actions=[*"cbaz"])
OFFERED = np.array([[0, 0, 1, 0], [1, 1, 0, 1], [1, 1, 1, 1]], dtype=bool)
SHARES = [[0, 0, 1, 0], [1 / 3, 1 / 3, 0, 1 / 3], [1 / 4] * 4]


def test_offered_actions_have_equal_shares():
    check_is_fitted(UniformPolicy())
    assert_array_equal(action_probabilities(UniformPolicy(), LABELLED), 0.25)
    logs = LABELLED.replace(available=OFFERED)
    assert_allclose(action_probabilities(UniformPolicy(), logs), SHARES)
    policy = UniformPolicy().fit(logs)
    assert_allclose(policy.predict_proba(logs.context, OFFERED), SHARES)
    assert_allclose(action_probabilities(policy, logs), SHARES)
    with pytest.raises(ValueError, match="none of the policy's actions is offered"):
        policy.predict_proba(np.zeros((3, 1)), ~OFFERED & OFFERED)


@pytest.mark.parametrize("X", [np.zeros((2, 1)), sparse.eye(2), [[0], [1]]], ids=type)
def test_contexts_of_any_kind(X):
    policy = UniformPolicy().fit(X, ["b", "a"])
    assert policy.classes_.tolist() == ["a", "b"]
    assert_array_equal(policy.predict_proba(X), np.full((2, 2), 0.5))
    assert policy.predict(X).tolist() == ["a", "a"]


def test_without_logs_the_actions_are_needed():
    unfitted = clone(UniformPolicy().fit(LABELLED))
    for call in (UniformPolicy().predict_proba, unfitted.predict):
        with pytest.raises(ValueError, match="does not know the actions yet"):
            call(np.zeros((2, 1)))


# Constant


@pytest.mark.parametrize(
    "policy", [ConstantPolicy("b"), ConstantPolicy("b").fit(LABELLED)]
)
def test_it_always_takes_its_action(policy):
    check_is_fitted(policy)
    assert policy.predict(LABELLED.context).tolist() == ["b"] * 3
    offered = np.ones((3, 4), dtype=bool)
    for logs in (LABELLED, LABELLED.replace(available=offered)):
        assert_array_equal(action_probabilities(policy, logs), [[0, 1, 0, 0]] * 3)
    offered[2, 1] = False  # it has nothing else to say
    with pytest.raises(ValueError, match=r"offered .*at row 2 \(1 such rows\)"):
        action_probabilities(policy, LABELLED.replace(available=offered))


def test_classes_are_those_of_fit():
    assert ConstantPolicy("b").classes_.tolist() == ["b"]
    assert ConstantPolicy("b").fit(LABELLED).classes_.tolist() == [*"cbaz"]
    policy = ConstantPolicy(7).fit(np.zeros((2, 1)), [7, -1])
    assert policy.classes_.tolist() == [-1, 7]
    assert_array_equal(policy.predict_proba([[0.0]]), [[0, 1]])
    assert clone(policy).classes_.tolist() == [7]


def test_actions_that_were_never_logged():
    proba = action_probabilities(ConstantPolicy("z"), LABELLED)
    assert_array_equal(proba, [[0, 0, 0, 1]] * 3)
    with pytest.raises(ValueError, match=r"actions that the logs do not know: \['q'\]"):
        action_probabilities(ConstantPolicy("q"), LABELLED)
    with pytest.raises(ValueError, match="'q' is not among the actions"):
        ConstantPolicy("q").fit(LABELLED)


def test_with_many_actions_it_is_asked_once(monkeypatch):
    """No table of probabilities is made: there is nothing to cut into small blocks."""
    n_rounds, n_actions = 300, 100_000
    action = np.arange(n_rounds) * 300
    logs = BanditLogs(
        np.zeros((n_rounds, 1)),
        action,
        np.ones(n_rounds),
        np.full(n_rounds, 1 / n_actions),
        actions=np.arange(n_actions),
    )
    asked, answer = [], ConstantPolicy.logged_proba
    monkeypatch.setattr(
        ConstantPolicy,
        "logged_proba",
        lambda self, rounds: asked.append(len(rounds)) or answer(self, rounds),
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", OPEWarning)
        value = IPS().fit(logs).evaluate(ConstantPolicy(600))
    assert value.value == pytest.approx(n_actions / n_rounds)
    assert asked == [n_rounds]


# Functions
X = np.array([[0.2], [0.9], [0.5]])
LOGS = BanditLogs(X, ["a", "b", "b"], [1, 1, 1])


def by_feature(X):
    return np.column_stack([X[:, 0], 1 - X[:, 0]])


def test_columns_are_the_actions_of_the_logs():
    proba = action_probabilities(FunctionPolicy(by_feature), LOGS)
    assert_array_equal(proba, by_feature(X))


def test_after_fit_columns_are_the_classes():
    policy = FunctionPolicy(by_feature).fit(LOGS)
    other = BanditLogs(X, ["a", "b", "b"], [1, 1, 1], actions=["c", "b", "a"])
    proba = action_probabilities(policy, other)
    assert_array_equal(proba[:, [2, 1]], by_feature(X))
    assert policy.predict(X).tolist() == ["b", "a", "a"]


def test_over_varying_offers_it_is_renormalised():
    offered = np.array([[True, False], [True, True], [False, True]])
    logs = LOGS.replace(available=offered | (LOGS.action_index[:, None] == [0, 1]))
    proba = action_probabilities(FunctionPolicy(by_feature), logs)
    assert_allclose(proba, [[1, 0], [0.9, 0.1], [0, 1]])


def test_lists_will_do():
    policy = FunctionPolicy(lambda X: [[1, 0]] * len(X))
    assert_array_equal(action_probabilities(policy, LOGS), [[1.0, 0.0]] * 3)


@pytest.mark.parametrize(
    ("func", "error", "message"),
    [
        (lambda X: np.ones((3, 3)) / 3, ValueError, r"\(3, 3\), expected \(3, 2\)"),
        (lambda X: np.ones(3), ValueError, r"shape \(3,\), expected \(3, 2\)"),
        (lambda X: np.ones((3, 2)), ValueError, "sum to 1 over the actions, got 2"),
        (lambda X: np.full((3, 2), np.nan), ValueError, "sum to 1.*got nan"),
        ("by_feature", TypeError, "not callable"),
    ],
)
def test_what_the_function_gives_is_checked(func, error, message):
    with pytest.raises(error, match=message):
        action_probabilities(FunctionPolicy(func), LOGS)


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
@pytest.mark.parametrize("fitted", [False, True])
def test_frames_are_matched_by_name(library, fitted):
    module = pytest.importorskip(library)
    make = module.table if library == "pyarrow" else module.DataFrame
    policy = FunctionPolicy(lambda X: make({"b": 1 - X[:, 0], "a": X[:, 0]}))
    policy = policy.fit(LOGS) if fitted else policy
    proba = action_probabilities(policy, LOGS)
    assert_array_equal(proba, by_feature(X))
    assert_array_equal(policy.predict_proba(LOGS), by_feature(X))
    foreign = FunctionPolicy(lambda X: make({"b": 1 - X[:, 0], "q": X[:, 0]}))
    foreign = foreign.fit(LOGS) if fitted else foreign
    with pytest.raises(ValueError, match=r"output of func are \['b', 'q'\], the act"):
        action_probabilities(foreign, LOGS)


def test_the_discount_is_not_taken_for_none():
    pd = pytest.importorskip("pandas")
    pytest.importorskip("narwhals")
    frame = pd.DataFrame({"x": [1, 2, 3, 4], "a": ["none", "discount"] * 2})
    frame["r"] = (frame["a"] == "none").astype(float)
    columns = {"action": "a", "reward": "r", "propensity": 0.5, "context": ["x"]}
    logs = BanditLogs.from_frame(frame, **columns)

    def never(X):
        return pd.DataFrame({"none": np.ones(len(X)), "discount": np.zeros(len(X))})

    for policy in (
        FunctionPolicy(never),
        FunctionPolicy(never).fit(logs),
        never(frame),
    ):
        assert IPS().fit(logs).score(policy) == 1.0


def test_a_rule_names_actions_from_a_frame():
    pd = pytest.importorskip("pandas")
    pytest.importorskip("narwhals")
    frame = pd.DataFrame({"basket": [20, 60, 50], "a": ["none", "none", "ship"]})
    frame["r"] = [1.0, 0.0, 1.0]
    columns = {"action": "a", "reward": "r", "context": ["basket"]}
    logs = BanditLogs.from_frame(frame, **columns)
    policy = FunctionPolicy(lambda X: np.where(X["basket"] > 40, "ship", "none"))
    expected = [[1, 0], [0, 1], [0, 1]]
    assert_array_equal(action_probabilities(policy, logs), expected)
    assert_array_equal(policy.predict_proba(logs), expected)
    assert policy.predict(logs).tolist() == ["none", "ship", "ship"]
    assert not hasattr(policy, "classes_")
    assert policy.fit(logs).predict(frame).tolist() == ["none", "ship", "ship"]
    series = FunctionPolicy(lambda X: pd.Series(["ship"] * len(X), dtype="category"))
    assert_array_equal(action_probabilities(series, logs), [[0, 1]] * 3)


@pytest.mark.parametrize("actions", [[3, 1], [0.5, 1.5], [True, False]])
def test_labels_of_the_kind_of_the_actions(actions):
    logs = BanditLogs(X[:2], actions, [1, 1])
    proba = action_probabilities(FunctionPolicy(lambda X: actions), logs)
    assert_array_equal(
        proba, [[0, 1], [1, 0]] if actions[0] > actions[1] else np.eye(2)
    )


def test_labels_that_are_not_offered():
    rule = FunctionPolicy(lambda X: np.where(X[:, 0] > 0.3, "b", "a"))
    offered = np.array([[True, True], [True, True], [False, True]])
    assert_array_equal(
        action_probabilities(rule, LOGS.replace(available=offered)),
        [[1, 0], [0, 1], [0, 1]],
    )
    offered[0, 0] = False
    late = BanditLogs(
        X, ["b", "b", "b"], [1, 1, 1], actions=["a", "b"], available=offered
    )
    with pytest.raises(ValueError, match="0 to every offered action at row 0"):
        action_probabilities(rule, late)


def test_the_row_of_a_wrong_label_is_that_of_the_logs():
    """Also where evaluators ask for some rounds at a time."""
    context = np.arange(100_000.0)[:, None]
    logs = BanditLogs(context, [*"ab"] * 50_000, context[:, 0], np.full(100_000, 0.5))
    rule = FunctionPolicy(lambda X: np.where(X[:, 0] == 99_998, "B", "a"))
    with pytest.raises(ValueError, match=r"'B' at row 99998 .*Did you mean 'b'"):
        IPS().fit(logs).evaluate(rule)


@pytest.mark.parametrize(
    ("func", "message"),
    [
        (lambda X: X[:, 0] > 0.5, r"dtype is bool.*np\.where\(condition, 'b', 'a'\)"),
        (lambda X: (X[:, 0] > 0.5) * 1, r"int64.*or one probability per action"),
        (lambda X: X[:, 0], r"np\.column_stack\(\[1 - p, p\]\)"),
        (lambda X: "a", r"single label 'a'.*np\.full.*ConstantPolicy\('a'\)"),
        (lambda X: [["a"]] * len(X), r"shape \(3, 1\).*np\.ravel"),
        (lambda X: ["a"], r"shape \(1,\), expected \(3, 2\)"),
        (lambda X: [None] * 3, r"names None at row 0 \(3 such rows\)"),
    ],
)
def test_vectors_that_are_no_labels_show_the_two_ways(func, message):
    with pytest.raises(ValueError, match=message):
        action_probabilities(FunctionPolicy(func), LOGS)


def test_zeros_and_ones_where_actions_are_other_numbers():
    logs = BanditLogs(X, [1, 2, 3], [1, 1, 1])
    with pytest.raises(ValueError, match=r"names 0 at row 0 .*label per row.* 3 col"):
        action_probabilities(FunctionPolicy(lambda X: (X[:, 0] > 0.5) * 1), logs)


@pytest.mark.parametrize("func", [lambda X: ["a"] * len(X), "frame"])
def test_labels_without_actions_need_a_fit(func):
    if func == "frame":
        func = pytest.importorskip("pandas").DataFrame
    with pytest.raises(ValueError, match="does not know the actions yet: call fit"):
        FunctionPolicy(func).predict_proba(X)


def test_labels_come_with_fit_and_a_pickle_with_its_function():
    with pytest.raises(ValueError, match="does not know the labels of its columns"):
        FunctionPolicy(by_feature).predict(X)
    other = pickle.loads(pickle.dumps(FunctionPolicy(np.ones_like)))
    assert_array_equal(other.predict_proba(np.zeros((2, 1))), [[1], [1]])


# What functions and rules may give
RNG = np.random.RandomState(0)
N = 400
MANY_X = RNG.normal(size=(N, 2))
MANY_ACTIONS = np.where(RNG.random_sample(N) < 0.5, "none", "ship")
MANY_LOGS = BanditLogs(MANY_X, MANY_ACTIONS, RNG.random_sample(N), np.full(N, 0.5))


def rule(MANY_X):
    return np.where(MANY_X[:, 0] > 0, "ship", "none")


class Rule:
    def predict(self, MANY_X):
        return rule(MANY_X)


@pytest.mark.parametrize("policy", [FunctionPolicy(rule), Rule(), rule(MANY_X)])
def test_a_rule_has_the_value_of_its_table(policy):
    table = (rule(MANY_X)[:, None] == MANY_LOGS.actions).astype(float)
    expected = evaluate(table, MANY_LOGS, random_state=0)
    found = evaluate(policy, MANY_LOGS, random_state=0)
    assert [float(one) for one in found.values()] == [
        float(one) for one in expected.values()
    ]
    decided = compare_policies({"rule": policy}, MANY_LOGS)
    assert str(decided) == str(compare_policies({"rule": table}, MANY_LOGS))


@pytest.mark.parametrize(
    ("vector", "classes", "found"),
    [
        (["a", "b"], ["a", "b"], [0, 1]),
        ([1, 2], ["a", "b"], "or one probability per action"),
        ([1, 2], [1, 2], [0, 1]),
        ([1.0, 2.0], [1, 2], "one probability per action"),
        ([1.0, 2.5], [1.0, 2.5], [0, 1]),
        ([True, True], [1, 2], r"dtype is bool.*np\.where"),
        ([1, 0], [True, False], "one probability per action"),
        ([True, False], [True, False], [1, 0]),
        (["1", "2"], [1, 2], "names '1' at row 0"),
    ],
)
def test_which_vectors_hold_labels(vector, classes, found):
    logs = BanditLogs(np.zeros((2, 1)), classes, [0, 1], actions=np.unique(classes))
    policy = FunctionPolicy(lambda MANY_X: np.array(vector))
    if isinstance(found, str):
        with pytest.raises(ValueError, match=found):
            action_probabilities(policy, logs)
    else:
        assert_array_equal(action_probabilities(policy, logs).argmax(axis=1), found)


def test_no_rounds():
    policy = FunctionPolicy(lambda MANY_X: np.array([], dtype=str))
    assert action_probabilities(policy, MANY_LOGS[:0]).shape == (0, 2)


@pytest.mark.parametrize(
    ("actions", "texts"),
    [
        ([*"ab"] * 2, [r"np\.where\(condition, 'b', 'a'\)"]),
        (range(3), ["an array with 3 columns"]),
        ([7, 7], [r"np\.where\(condition, 7, 7\)"]),
    ],
)
def test_the_two_ways_name_the_actions(actions, texts):
    logs = BanditLogs(np.zeros((len(actions), 1)), actions, np.zeros(len(actions)))
    for text in texts:
        with pytest.raises(ValueError, match=text):
            action_probabilities(
                FunctionPolicy(lambda MANY_X: MANY_X[:, 0] > 0.5), logs
            )


@pytest.mark.frames
def test_a_comparison_of_a_pyarrow_column_gives_one_value():
    pyarrow = pytest.importorskip("pyarrow")
    logs = BanditLogs(
        pyarrow.table({"phone": MANY_X[:, 0] > 0}), MANY_ACTIONS, np.zeros(N), 0.5
    )
    once = FunctionPolicy(lambda MANY_X: np.where(MANY_X["phone"] == 1, "ship", "none"))
    with pytest.raises(ValueError, match=r"single value 'none', .* np\.asarray\(X"):
        evaluate(once, logs)
    by_row = FunctionPolicy(
        lambda MANY_X: np.where(np.asarray(MANY_X["phone"]) == 1, "ship", "none")
    )
    assert evaluate(by_row, logs)["IPS"].value == 0


# A misspelt column
DATA = {"req.kind": ["x", "y", "x"], "age": [1.0, 2.0, 3.0]}


def logs_of(library):
    module = pytest.importorskip(library)
    frame = module.table(DATA) if library == "pyarrow" else module.DataFrame(DATA)
    return BanditLogs(frame, ["a", "b", "a"], np.ones(3), 0.5)


def notes_of(func, logs):
    with pytest.raises(Exception, match=r".") as error:
        action_probabilities(FunctionPolicy(func), logs)
    return type(error.value).__name__, getattr(error.value, "__notes__", [])


@pytest.mark.frames
@pytest.mark.parametrize(
    ("library", "kind"),
    [
        ("pandas", "KeyError"),
        ("polars", "ColumnNotFoundError"),
        ("pyarrow", "KeyError"),
    ],
)
def test_a_misspelt_column_is_told(library, kind):
    found, notes = notes_of(lambda X: X["kind"], logs_of(library))
    assert found == kind
    assert len(notes) == 1
    assert "the contexts have 'req.kind', 'age'. Did you mean 'req.kind'?" in notes[0]


@pytest.mark.frames
def test_attributes_and_several_columns_are_told():
    logs = logs_of("pandas")
    found, notes = notes_of(lambda X: X.Age, logs)
    assert found == "AttributeError"
    assert "Did you mean 'age'?" in notes[0]
    found, notes = notes_of(lambda X: X[["kind", "age"]], logs)
    assert found == "KeyError"
    assert "'req.kind', 'age'" in notes[0]


@pytest.mark.frames
def test_a_rule_of_ones_own_is_told():
    class Rule:
        def predict(self, X):
            return X["kind"]

    with pytest.raises(KeyError) as error:
        action_probabilities(Rule(), logs_of("pandas"))
    assert "'req.kind', 'age'" in error.value.__notes__[0]


@pytest.mark.frames
def test_other_errors_are_as_they_were():
    logs = logs_of("pandas")
    assert notes_of(lambda X: 1 / 0, logs) == ("ZeroDivisionError", [])
    assert notes_of(lambda X: X["age"].nothing, logs) == ("AttributeError", [])
    assert notes_of(lambda X: X["age"]["age"], logs) == ("KeyError", [])


def test_arrays_have_no_names():
    def misspelt(X):
        raise KeyError("kind")

    logs = BanditLogs(np.zeros((2, 2)), ["a", "b"], np.ones(2), 0.5)
    assert notes_of(misspelt, logs) == ("KeyError", [])


@pytest.mark.frames
def test_many_columns_are_counted():
    pandas = pytest.importorskip("pandas")
    wide = pandas.DataFrame(np.zeros((2, 50)), columns=[f"c{j}" for j in range(50)])
    logs = BanditLogs(wide, ["a", "b"], np.ones(2), 0.5)
    _, notes = notes_of(lambda X: X["zz"], logs)
    assert "'c29' and 20 more. A function" in notes[0]
