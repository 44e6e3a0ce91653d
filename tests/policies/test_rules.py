# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Policies without a model: uniform, constant, and functions of the contexts."""

import pickle

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
from skope_ope.policies import action_probabilities
from tests._frames import every_library, frame_of
from tests._quiet import quiet

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


def test_it_always_takes_its_action():
    offered = np.ones((3, 4), dtype=bool)
    offered[2, 1] = False  # it has nothing else to say
    for policy in (ConstantPolicy("b"), ConstantPolicy("b").fit(LABELLED)):
        check_is_fitted(policy)
        assert policy.predict(LABELLED.context).tolist() == ["b"] * 3
        for logs in (LABELLED, LABELLED.replace(available=np.ones((3, 4), dtype=bool))):
            assert_array_equal(action_probabilities(policy, logs), [[0, 1, 0, 0]] * 3)
        with pytest.raises(ValueError, match=r"offered .*at row 2 \(1 such rows\)"):
            action_probabilities(policy, LABELLED.replace(available=offered))
    # classes are those of fit
    assert ConstantPolicy("b").classes_.tolist() == ["b"]
    assert ConstantPolicy("b").fit(LABELLED).classes_.tolist() == [*"cbaz"]
    policy = ConstantPolicy(7).fit(np.zeros((2, 1)), [7, -1])
    assert policy.classes_.tolist() == [-1, 7]
    assert_array_equal(policy.predict_proba([[0.0]]), [[0, 1]])
    assert clone(policy).classes_.tolist() == [7]
    # actions that were never logged
    proba = action_probabilities(ConstantPolicy("z"), LABELLED)
    assert_array_equal(proba, [[0, 0, 0, 1]] * 3)
    with pytest.raises(ValueError, match=r"actions that the logs do not know: \['q'\]"):
        action_probabilities(ConstantPolicy("q"), LABELLED)
    with pytest.raises(ValueError, match="'q' is not among the actions"):
        ConstantPolicy("q").fit(LABELLED)


def test_with_many_actions_it_is_asked_once(monkeypatch):
    """No table of probabilities is made: there is nothing to cut into small blocks."""
    n, k = 300, 100_000
    given = np.zeros((n, 1)), np.arange(n) * 300, np.ones(n), 1 / k
    logs = BanditLogs(*given, actions=np.arange(k))
    asked, answer = [], ConstantPolicy.logged_proba

    def logged_proba(self, rounds):
        asked.append(len(rounds))
        return answer(self, rounds)

    monkeypatch.setattr(ConstantPolicy, "logged_proba", logged_proba)
    assert quiet(IPS().fit(logs), ConstantPolicy(600)).value == pytest.approx(k / n)
    assert asked == [n]


# Functions
X = np.array([[0.2], [0.9], [0.5]])
LOGS = BanditLogs(X, ["a", "b", "b"], [1, 1, 1])


def by_feature(X):
    return np.column_stack([X[:, 0], 1 - X[:, 0]])


def test_columns_are_the_actions_of_the_logs():
    proba = action_probabilities(FunctionPolicy(by_feature), LOGS)
    assert_array_equal(proba, by_feature(X))
    lists = FunctionPolicy(lambda X: [[1, 0]] * len(X))
    assert_array_equal(action_probabilities(lists, LOGS), [[1.0, 0.0]] * 3)
    # after fit, columns are the classes
    policy = FunctionPolicy(by_feature).fit(LOGS)
    other = BanditLogs(X, ["a", "b", "b"], [1, 1, 1], actions=["c", "b", "a"])
    proba = action_probabilities(policy, other)
    assert_array_equal(proba[:, [2, 1]], by_feature(X))
    assert policy.predict(X).tolist() == ["b", "a", "a"]
    # over varying offers it is renormalised
    offered = np.array([[True, False], [True, True], [False, True]])
    logs = LOGS.replace(available=offered | (LOGS.action_index[:, None] == [0, 1]))
    proba = action_probabilities(FunctionPolicy(by_feature), logs)
    assert_allclose(proba, [[1, 0], [0.9, 0.1], [0, 1]])


@pytest.mark.parametrize(
    ("func", "error", "message"),
    [
        (lambda X: np.ones((3, 3)) / 3, ValueError, r"\(3, 3\), expected \(3, 2\)"),
        (lambda X: np.ones(3), ValueError, r"shape \(3,\), expected \(3, 2\)"),
        (lambda X: np.ones((3, 2)), ValueError, "sum to 1 over the actions, got 2"),
        (lambda X: np.full((3, 2), np.nan), ValueError, "sum to 1.*got nan"),
        ("by_feature", TypeError, "not callable"),
        # vectors that are no labels
        (
            lambda X: X[:, 0] > 0.5,
            ValueError,
            r"bool.*np\.where\(condition, 'b', 'a'\)",
        ),
        (
            lambda X: (X[:, 0] > 0.5) * 1,
            ValueError,
            r"int64.*or one probability per act",
        ),
        (lambda X: X[:, 0], ValueError, r"np\.column_stack\(\[1 - p, p\]\)"),
        (
            lambda X: "a",
            ValueError,
            r"single label 'a'.*np\.full.*ConstantPolicy\('a'\)",
        ),
        (lambda X: [["a"]] * len(X), ValueError, r"shape \(3, 1\).*np\.ravel"),
        (lambda X: ["a"], ValueError, r"shape \(1,\), expected \(3, 2\)"),
        (lambda X: [None] * 3, ValueError, r"names None at row 0 \(3 such rows\)"),
    ],
)
def test_what_the_function_gives_is_checked(func, error, message):
    with pytest.raises(error, match=message):
        action_probabilities(FunctionPolicy(func), LOGS)


@every_library
@pytest.mark.parametrize("fitted", [False, True])
def test_frames_are_matched_by_name(library, fitted):
    policy, foreign = (
        FunctionPolicy(lambda X, a=a: frame_of(library, {"b": 1 - X[:, 0], a: X[:, 0]}))
        for a in "aq"
    )
    if fitted:
        policy, foreign = policy.fit(LOGS), foreign.fit(LOGS)
    assert_array_equal(action_probabilities(policy, LOGS), by_feature(X))
    assert_array_equal(policy.predict_proba(LOGS), by_feature(X))

    with pytest.raises(ValueError, match=r"output of func are \['b', 'q'\], the act"):
        action_probabilities(foreign, LOGS)


def test_the_discount_is_not_taken_for_none():
    pd = pytest.importorskip("pandas")
    pytest.importorskip("narwhals")
    frame = pd.DataFrame({"x": [1, 2, 3, 4], "a": ["none", "discount"] * 2})
    frame["r"] = (frame["a"] == "none").astype(float)
    roles = {"action": "a", "reward": "r"}
    logs = BanditLogs.from_frame(frame, propensity=0.5, context=["x"], **roles)

    def never(X):
        return pd.DataFrame({"none": np.ones(len(X)), "discount": np.zeros(len(X))})

    function = FunctionPolicy(never)
    for policy in (never(frame), function, clone(function).fit(logs)):
        assert IPS().fit(logs).score(policy) == 1.0
    # a rule names actions from a frame
    frame = pd.DataFrame({"basket": [20, 60, 50], "a": ["none", "none", "ship"]})
    frame["r"] = [1.0, 0.0, 1.0]
    logs = BanditLogs.from_frame(frame, context=["basket"], **roles)
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
    assert_array_equal(proba, np.eye(2)[:: -1 if actions[0] > actions[1] else 1])


def test_labels_that_are_not_offered():
    rule = FunctionPolicy(lambda X: np.where(X[:, 0] > 0.3, "b", "a"))
    offered = np.array([[True, True], [True, True], [False, True]])
    proba = action_probabilities(rule, LOGS.replace(available=offered))
    assert_array_equal(proba, [[1, 0], [0, 1], [0, 1]])
    offered[0, 0] = False
    given = X, ["b", "b", "b"], [1, 1, 1]
    late = BanditLogs(*given, actions=["a", "b"], available=offered)
    with pytest.raises(ValueError, match="0 to every offered action at row 0"):
        action_probabilities(rule, late)
    # zeros and ones where actions are other numbers
    logs = BanditLogs(X, [1, 2, 3], [1, 1, 1])
    with pytest.raises(ValueError, match=r"names 0 at row 0 .*label per row.* 3 col"):
        action_probabilities(FunctionPolicy(lambda X: (X[:, 0] > 0.5) * 1), logs)
    # also where evaluators ask for some rounds at a time
    context = np.arange(100_000.0)[:, None]
    logs = BanditLogs(context, [*"ab"] * 50_000, context[:, 0], np.full(100_000, 0.5))
    rule = FunctionPolicy(lambda X: np.where(X[:, 0] == 99_998, "B", "a"))
    with pytest.raises(ValueError, match=r"'B' at row 99998 .*Did you mean 'b'"):
        IPS().fit(logs).evaluate(rule)


def test_labels_come_with_fit_and_a_pickle_with_its_function():
    with pytest.raises(ValueError, match="does not know the labels of its columns"):
        FunctionPolicy(by_feature).predict(X)
    other = pickle.loads(pickle.dumps(FunctionPolicy(np.ones_like)))
    assert_array_equal(other.predict_proba(np.zeros((2, 1))), [[1], [1]])
    for func in (lambda X: ["a"] * len(X), pytest.importorskip("pandas").DataFrame):
        with pytest.raises(ValueError, match="does not know the actions yet: call fit"):
            FunctionPolicy(func).predict_proba(X)


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
    found, expected = (evaluate(p, MANY_LOGS, random_state=0) for p in (policy, table))
    assert [*map(float, found.values())] == [*map(float, expected.values())]
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


def test_the_two_ways_name_the_actions():
    for actions, text in (
        ([*"ab"] * 2, r"np\.where\(condition, 'b', 'a'\)"),
        (range(3), "an array with 3 columns"),
        ([7, 7], r"np\.where\(condition, 7, 7\)"),
    ):
        logs = BanditLogs(np.zeros((len(actions), 1)), actions, np.zeros(len(actions)))
        with pytest.raises(ValueError, match=text):
            action_probabilities(FunctionPolicy(lambda X: X[:, 0] > 0.5), logs)
    empty = FunctionPolicy(lambda X: np.array([], dtype=str))
    assert action_probabilities(empty, MANY_LOGS[:0]).shape == (0, 2)


@pytest.mark.frames
def test_a_comparison_of_a_pyarrow_column_gives_one_value():
    phone = frame_of("pyarrow", {"phone": MANY_X[:, 0] > 0})
    logs = BanditLogs(phone, MANY_ACTIONS, np.zeros(N), 0.5)
    once = FunctionPolicy(lambda X: np.where(X["phone"] == 1, "ship", "none"))
    with pytest.raises(ValueError, match=r"single value 'none', .* np\.asarray\(X"):
        evaluate(once, logs)
    by_row = FunctionPolicy(
        lambda X: np.where(np.asarray(X["phone"]) == 1, "ship", "none")
    )
    assert evaluate(by_row, logs)["IPS"].value == 0


# A misspelt column
DATA = {"req.kind": ["x", "y", "x"], "age": [1.0, 2.0, 3.0]}


def logs_of(library):
    return BanditLogs(frame_of(library, DATA), ["a", "b", "a"], np.ones(3), 0.5)


def notes_of(func, logs):
    with pytest.raises(Exception, match=r".") as error:
        action_probabilities(FunctionPolicy(func), logs)
    return type(error.value).__name__, getattr(error.value, "__notes__", [])


@pytest.mark.frames
@every_library
def test_a_misspelt_column_is_told(library):
    found, notes = notes_of(lambda X: X["kind"], logs_of(library))
    assert found == ("ColumnNotFoundError" if library == "polars" else "KeyError")
    assert len(notes) == 1
    assert "the contexts have 'req.kind', 'age'. Did you mean 'req.kind'?" in notes[0]


@pytest.mark.frames
def test_attributes_and_several_columns_are_told():
    logs = logs_of("pandas")
    for func, kind, text in (
        (lambda X: X.Age, "AttributeError", "Did you mean 'age'?"),
        (lambda X: X[["kind", "age"]], "KeyError", "'req.kind', 'age'"),
    ):
        found, notes = notes_of(func, logs)
        assert found == kind and text in notes[0]

    class Rule:
        def predict(self, X):
            return X["kind"]

    with pytest.raises(KeyError) as error:
        action_probabilities(Rule(), logs)
    assert "'req.kind', 'age'" in error.value.__notes__[0]
    # other errors are as they were
    assert notes_of(lambda X: 1 / 0, logs) == ("ZeroDivisionError", [])
    assert notes_of(lambda X: X["age"].nothing, logs) == ("AttributeError", [])
    assert notes_of(lambda X: X["age"]["age"], logs) == ("KeyError", [])

    def misspelt(X):
        raise KeyError("kind")

    arrays = BanditLogs(np.zeros((2, 2)), ["a", "b"], np.ones(2), 0.5)  # have no names
    assert notes_of(misspelt, arrays) == ("KeyError", [])
    # many columns are counted
    pandas = pytest.importorskip("pandas")
    wide = pandas.DataFrame(np.zeros((2, 50)), columns=[f"c{j}" for j in range(50)])
    logs = BanditLogs(wide, ["a", "b"], np.ones(2), 0.5)
    _, notes = notes_of(lambda X: X["zz"], logs)
    assert "'c29' and 20 more. A function" in notes[0]
