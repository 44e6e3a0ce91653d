# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import numpy as np
import pytest
from sklearn.base import clone

from skope_ope import BanditLogs, EpsilonGreedy
from skope_ope.policies._adaptive import fresh
from skope_ope.utils.estimator_checks import check_adaptive_policy
from tests.policies._histories import live, make_logs, row_by_row

NO_CONTEXT = np.empty((4, 0))


def logs_of(n_actions, n_rounds=4):
    return BanditLogs(
        np.empty((n_rounds, 0)), np.zeros(n_rounds, int), np.ones(n_rounds),
        actions=np.arange(n_actions),
    )  # fmt: skip


def test_trace_by_hand():
    policy = EpsilonGreedy(epsilon=0.3).fit(logs_of(3))
    best = []
    for action, reward in [(0, 1.0), (1, 0.0), (2, 0.5), (0, 0.0), (0, 0.0), (2, 0.0)]:
        best.append(int(np.argmax(policy.action_row())))
        assert policy.update(None, action, reward, 0.8) is True
    # untried 0, 1, 2; then means (1, 0, .5), (.5, 0, .5): a tie, (1/3, 0, .5)
    assert best == [0, 1, 2, 0, 0, 2]
    assert policy.action_row() == pytest.approx([0.8, 0.1, 0.1])  # (1/3, 0, .25)
    np.testing.assert_array_equal(policy.counts_, [3, 1, 2])
    np.testing.assert_allclose(policy.means_, [1 / 3, 0, 0.25])


def test_an_untried_action_precedes_any_reward():
    policy = EpsilonGreedy(0).fit(logs_of(3))
    live(policy, [0, 1], [1e300, -5.0])
    assert policy.action_row() == [0.0, 0.0, 1.0]
    np.testing.assert_array_equal(policy.means_, [1e300, -5.0, np.nan])


def test_negative_rewards():
    policy = EpsilonGreedy(0).fit(logs_of(2))
    live(policy, [0, 1], [-3.0, -2.0])
    assert policy.action_row() == [0.0, 1.0]


def test_means_that_differ_by_rounding_are_tied():
    policy = EpsilonGreedy(0).fit(logs_of(2))
    # 0.1 three times sums to .30000000000000004, once .3 does not
    live(policy, [0, 0, 0, 1], [0.1, 0.1, 0.1, 0.1])
    assert policy._means[0] != policy._means[1]
    assert policy.action_row() == [1.0, 0.0]
    live(policy, [1], [0.1 * (1 + 1e-11)])  # a difference, however small
    assert policy.action_row() == [0.0, 1.0]


def test_epsilon_may_be_a_function_of_the_coming_round():
    asked = []

    def epsilon(t):
        asked.append(t)
        return min(1.0, 1.5 / t)

    policy = EpsilonGreedy(epsilon).fit(logs_of(2))
    rows = [policy.action_row()]
    for _ in range(2):
        policy.update(None, 0, 1.0, 1.0)
        rows.append(policy.action_row())
    assert asked == [1, 2, 3]
    np.testing.assert_allclose(rows, [[0.5, 0.5], [0.375, 0.625], [0.25, 0.75]])


def test_epsilon_out_of_range():
    with pytest.raises(ValueError, match=r"epsilon\(1\) is 2; it must lie in \[0, 1\]"):
        EpsilonGreedy(lambda t: 2 / t).fit(logs_of(2))
    with pytest.raises(ValueError, match="'epsilon' parameter of EpsilonGreedy"):
        EpsilonGreedy(1.5).fit(logs_of(2))


def test_choice_and_exploration_run_over_the_offered_actions():
    policy = EpsilonGreedy(epsilon=0.3).fit(logs_of(3))
    live(policy, [0, 1, 2], [1.0, 0.5, 0.0])
    offered = np.array([[1, 1, 1], [0, 1, 1], [0, 0, 1], [1, 0, 1]], dtype=bool)
    proba = policy.predict_proba(NO_CONTEXT, offered)
    expected = [[0.8, 0.1, 0.1], [0, 0.85, 0.15], [0, 0, 1], [0.85, 0, 0.15]]
    np.testing.assert_allclose(proba, expected)


def test_untried_actions_come_first_among_the_offered():
    policy = EpsilonGreedy(0).fit(logs_of(3))
    live(policy, [0], [1.0])
    offered = np.array([[1, 1, 1], [1, 0, 1], [1, 0, 0]], dtype=bool)
    assert policy.predict_proba(NO_CONTEXT[:3], offered).argmax(axis=1).tolist() == [
        1,
        2,
        0,
    ]


@pytest.mark.parametrize("available", [False, True])
def test_is_the_textbook_loop(available, global_random_seed):
    logs = make_logs(seed=global_random_seed, available=available)
    draws = np.random.RandomState(global_random_seed).random_sample(len(logs))
    accepted, proba, _ = row_by_row(EpsilonGreedy(epsilon=0.2), logs, draws)
    counts, totals, seen = np.zeros(4), np.zeros(4), []
    for row in range(len(logs)):
        offered = np.ones(4, bool) if not available else logs.available[row]
        with np.errstate(divide="ignore", invalid="ignore"):
            score = np.where(counts > 0, totals / counts, np.inf)
        score = np.where(offered, score, -np.inf)
        expected = 0.2 * offered / offered.sum()
        expected[np.argmax(score)] += 0.8
        np.testing.assert_allclose(proba[row], expected)
        action = logs.action_index[row]
        if draws[row] < expected[action]:
            counts[action] += 1
            totals[action] += logs.reward[row]
            seen.append(row)
    assert accepted == seen


def test_frozen_takes_what_was_tried():
    policy = EpsilonGreedy(epsilon=0.4).fit(logs_of(3))
    assert policy.frozen().predict_proba(NO_CONTEXT[:1]).tolist() == [[1, 0, 0]]
    live(policy, [1], [-2.0])
    assert policy.frozen().predict_proba(NO_CONTEXT[:1]).tolist() == [[0, 1, 0]]
    offered = np.array([[True, False, True], [True, True, False]])
    proba = policy.frozen().predict_proba(NO_CONTEXT[:2], offered)
    assert proba.tolist() == [[1, 0, 0], [0, 1, 0]]
    explored = policy.frozen(explore=True).predict_proba(NO_CONTEXT[:1])
    np.testing.assert_allclose(explored, [policy.action_row()])


@pytest.mark.thorough
def test_keeps_the_contract():
    check_adaptive_policy(EpsilonGreedy())
    check_adaptive_policy(EpsilonGreedy(0))
    check_adaptive_policy(EpsilonGreedy(lambda t: min(1, 5 / t)))


def test_clone_and_fit_start_anew():
    logs = logs_of(2)
    policy = EpsilonGreedy(0).fit(logs)
    live(policy, [0, 1], [0.0, 1.0])
    assert not hasattr(clone(policy), "classes_")
    assert fresh(policy, logs).action_row() == [1.0, 0.0]
    assert policy.action_row() == [0.0, 1.0]
    assert policy.fit(logs).action_row() == [1.0, 0.0]
