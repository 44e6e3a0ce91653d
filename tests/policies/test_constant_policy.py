# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import warnings

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from skope_ope import IPS, BanditLogs, ConstantPolicy
from skope_ope.exceptions import OPEWarning
from skope_ope.policies import action_probabilities

LOGS = BanditLogs(np.zeros((3, 2)), ["a", "b", "c"], [1, 1, 1], actions=[*"cbaz"])


@pytest.mark.parametrize("policy", [ConstantPolicy("b"), ConstantPolicy("b").fit(LOGS)])
def test_it_always_takes_its_action(policy):
    check_is_fitted(policy)
    assert_array_equal(action_probabilities(policy, LOGS), [[0, 1, 0, 0]] * 3)
    assert policy.predict(LOGS.context).tolist() == ["b"] * 3


def test_classes_are_those_of_fit():
    assert ConstantPolicy("b").classes_.tolist() == ["b"]
    assert ConstantPolicy("b").fit(LOGS).classes_.tolist() == [*"cbaz"]
    policy = ConstantPolicy(7).fit(np.zeros((2, 1)), [7, -1])
    assert policy.classes_.tolist() == [-1, 7]
    assert_array_equal(policy.predict_proba([[0.0]]), [[0, 1]])
    assert clone(policy).classes_.tolist() == [7]


def test_an_action_the_logs_do_not_know():
    with pytest.raises(ValueError, match=r"actions that the logs do not know: \['q'\]"):
        action_probabilities(ConstantPolicy("q"), LOGS)
    with pytest.raises(ValueError, match="'q' is not among the actions"):
        ConstantPolicy("q").fit(LOGS)


def test_an_action_that_was_logged_never_is_known_all_the_same():
    assert_array_equal(
        action_probabilities(ConstantPolicy("z"), LOGS), [[0, 0, 0, 1]] * 3
    )


@pytest.mark.parametrize("policy", [ConstantPolicy("b"), ConstantPolicy("b").fit(LOGS)])
def test_where_the_action_is_not_offered_it_has_nothing_to_say(policy):
    offered = np.ones((3, 4), dtype=bool)
    assert_array_equal(
        action_probabilities(policy, LOGS.replace(available=offered)),
        [[0, 1, 0, 0]] * 3,
    )
    offered[2, 1] = False
    with pytest.raises(ValueError, match=r"offered .*at row 2 \(1 such rows\)"):
        action_probabilities(policy, LOGS.replace(available=offered))


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
