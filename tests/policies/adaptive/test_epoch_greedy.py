# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression, LogisticRegression, SGDRegressor
from sklearn.naive_bayes import GaussianNB
from sklearn.svm import LinearSVC

from skope_ope import BanditLogs
from skope_ope.policies import EpochGreedy
from skope_ope.utils.estimator_checks import check_adaptive_policy
from tests.policies._histories import live, make_logs

ZERO = np.zeros((1, 1))


def reset(policy, n_actions=2):
    return policy.fit(BanditLogs(ZERO, [0], [0.0], actions=np.arange(n_actions)))


def explores(policy):
    return (policy.predict_proba(ZERO) == 1 / len(policy.classes_)).all()


def test_epochs_of_a_function():
    """One explored round, then 2, 0 and 1 rounds of exploitation."""
    policy = reset(EpochGreedy(exploit=lambda epoch: [2, 0, 1][epoch - 1]))
    seen = []
    for _ in range(6):
        seen.append((bool(explores(policy)), policy.update(ZERO, 1, 1.0, 0.5)))
    assert seen == [
        (True, True),
        (False, False),
        (False, True),
        (True, False),  # an epoch without exploitation: it explores again
        (True, True),
        (False, True),
    ]
    assert policy.n_epochs_ == 3


def test_length_of_the_default_epochs():
    """floor(c sqrt(l / K)) rounds of exploitation in epoch l."""
    for c, n_actions in [(1.0, 4), (3.0, 2)]:
        policy = reset(EpochGreedy(exploit=c), n_actions)
        lengths = []
        while len(lengths) < 40:
            assert explores(policy)
            policy.update(ZERO, 0, 1.0, 0.25)
            lengths.append(0)
            while not explores(policy):
                policy.update(ZERO, 0, 1.0, 0.25)
                lengths[-1] += 1
        expected = np.floor(c * np.sqrt(np.arange(1, 41) / n_actions))
        np.testing.assert_array_equal(lengths, expected)


def test_learns_from_explored_rounds_only():
    policy = reset(EpochGreedy(LinearRegression(), exploit=lambda epoch: 2))
    X = np.arange(9.0)[:, None]
    # rounds 0, 3 and 6 explore; what the others say contradicts them
    live(policy, [0, 1, 1, 1, 0, 0, 0], [0.0, 9, 9, 3.0, 9, 9, 6.0], X[:7])
    estimates = policy._models.estimates(np.array([[1.0], [10.0]]))
    np.testing.assert_allclose(estimates, [[1, 3], [10, 3]], atol=1e-12)
    proba = policy.predict_proba(np.array([[1.0], [10.0]]))
    assert proba.tolist() == [[0, 1], [1, 0]]


def test_an_action_not_explored_yet_gets_the_mean_of_all():
    policy = reset(EpochGreedy(exploit=lambda epoch: 1 if epoch == 3 else 0), 3)
    live(policy, [1, 1, 2], [-3.0, -1.0, 1.0], np.zeros((3, 1)))
    np.testing.assert_allclose(policy._models.estimates(ZERO), [[-1, -2, 1]])
    assert policy.predict_proba(ZERO).tolist() == [[0, 0, 1]]
    offered = np.array([[True, True, False]])
    assert policy.predict_proba(ZERO, offered).tolist() == [[1, 0, 0]]


def test_exploration_runs_over_the_offered_actions():
    policy = reset(EpochGreedy(), 3)
    offered = np.array([[True, False, True], [False, True, False]])
    proba = policy.predict_proba(np.zeros((2, 1)), offered)
    assert proba.tolist() == [[0.5, 0, 0.5], [0, 1, 0]]
    with pytest.raises(ValueError, match="offered at row 0"):
        policy.predict_proba(ZERO, np.zeros((1, 3), dtype=bool))


def test_frozen_exploits_what_was_learned():
    policy = reset(EpochGreedy(exploit=lambda epoch: 1))
    live(policy, [1, 1], [1.0, 1.0], np.zeros((2, 1)))
    live(policy, [0, 0], [0.0, 0.0], np.zeros((2, 1)))
    assert explores(policy)
    assert policy.frozen().predict_proba(ZERO).tolist() == [[0, 1]]
    assert policy.frozen(explore=True).predict_proba(ZERO).tolist() == [[0.5, 0.5]]


def test_classifier_for_0_1_rewards():
    policy = reset(EpochGreedy(GaussianNB(), exploit=lambda epoch: int(epoch == 5)))
    X = np.array([[0.0], [0.2], [1.0], [1.2], [0.5]])
    live(policy, [0, 0, 0, 0, 1], [1.0, 1.0, 0.0, 0.0, 1.0], X)
    # action 1 has seen one reward: (1 + 1) / (1 + 2)
    assert policy.predict_proba([[0.1], [1.1]]).tolist() == [[1, 0], [0, 1]]
    with pytest.raises(ValueError, match="EpochGreedy learns 0/1 rewards"):
        reset(EpochGreedy(GaussianNB())).update(ZERO, 0, 0.5, 0.5)


def test_bad_parameters():
    with pytest.raises(TypeError, match="LinearSVC has no predict_proba"):
        reset(EpochGreedy(LinearSVC()))
    with pytest.raises(ValueError, match="'exploit' parameter of EpochGreedy"):
        reset(EpochGreedy(exploit=-1))
    for wrong in (1.5, -1):
        policy = reset(EpochGreedy(exploit=lambda epoch, wrong=wrong: wrong))
        with pytest.raises(ValueError, match=rf"exploit\(1\) is {wrong}; it must be"):
            policy.update(ZERO, 0, 1.0, 0.5)


@pytest.mark.thorough
@pytest.mark.parametrize("available", [False, True])
def test_keeps_the_contract(available):
    logs = make_logs(60, n_actions=3, available=available)
    check_adaptive_policy(EpochGreedy(), logs)
    growing = EpochGreedy(SGDRegressor(), exploit=lambda epoch: epoch)
    check_adaptive_policy(growing, logs)
    check_adaptive_policy(EpochGreedy(LogisticRegression(), exploit=5), logs)
