# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from skope_ope import IPS, BanditLogs, FunctionPolicy
from skope_ope.evaluators.core._target import Target
from skope_ope.policies import action_probabilities

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
        (
            lambda X: np.ones((3, 2)),
            ValueError,
            "must sum to 1 over the actions, got 2",
        ),
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
    rule = FunctionPolicy(lambda X: np.where(X[:, 0] > 0.7, "B", "a"))
    with pytest.raises(ValueError, match=r"'B' at row 1 .*Did you mean 'b'"):
        Target(rule, LOGS).chunk(LOGS[1:], 1)


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


def test_labels_come_with_fit():
    with pytest.raises(ValueError, match="does not know the labels of its columns"):
        FunctionPolicy(by_feature).predict(X)


def test_pickle():
    other = pickle.loads(pickle.dumps(FunctionPolicy(np.ones_like)))
    assert_array_equal(other.predict_proba(np.zeros((2, 1))), [[1], [1]])
