# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from skope_ope import BanditLogs, FunctionPolicy, action_probabilities

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


def test_labels_come_with_fit():
    with pytest.raises(ValueError, match="does not know the labels of its columns"):
        FunctionPolicy(by_feature).predict(X)


def test_pickle():
    other = pickle.loads(pickle.dumps(FunctionPolicy(np.ones_like)))
    assert_array_equal(other.predict_proba(np.zeros((2, 1))), [[1], [1]])
