# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from skope_ope import BanditLogs, UniformPolicy
from skope_ope.policies import action_probabilities

LOGS = BanditLogs(np.zeros((3, 2)), ["a", "b", "c"], [1, 1, 1], actions=[*"cbaz"])
OFFERED = np.array([[0, 0, 1, 0], [1, 1, 0, 1], [1, 1, 1, 1]], dtype=bool)
SHARES = [[0, 0, 1, 0], [1 / 3, 1 / 3, 0, 1 / 3], [1 / 4] * 4]


def test_it_needs_no_fit_where_logs_know_the_actions():
    check_is_fitted(UniformPolicy())
    assert_array_equal(
        action_probabilities(UniformPolicy(), LOGS), np.full((3, 4), 0.25)
    )


def test_offered_actions_have_equal_shares():
    logs = LOGS.replace(available=OFFERED)
    assert_allclose(action_probabilities(UniformPolicy(), logs), SHARES)
    policy = UniformPolicy().fit(logs)
    assert_allclose(policy.predict_proba(logs.context, OFFERED), SHARES)
    assert_allclose(action_probabilities(policy, logs), SHARES)


@pytest.mark.parametrize("X", [np.zeros((2, 1)), sparse.eye(2), [[0], [1]]], ids=type)
def test_contexts_of_any_kind(X):
    policy = UniformPolicy().fit(X, ["b", "a"])
    assert policy.classes_.tolist() == ["a", "b"]
    assert_array_equal(policy.predict_proba(X), np.full((2, 2), 0.5))
    assert policy.predict(X).tolist() == ["a", "a"]


def test_without_logs_the_actions_are_needed():
    for call in (UniformPolicy().predict_proba, UniformPolicy().predict):
        with pytest.raises(ValueError, match="does not know the actions yet"):
            call(np.zeros((2, 1)))
    with pytest.raises(ValueError, match="does not know the actions yet"):
        clone(UniformPolicy().fit(LOGS)).predict_proba(np.zeros((2, 1)))


def test_nothing_offered_is_refused():
    policy = UniformPolicy().fit(LOGS)
    with pytest.raises(ValueError, match="none of the policy's actions is offered"):
        policy.predict_proba(np.zeros((3, 1)), np.zeros((3, 4), dtype=bool))
