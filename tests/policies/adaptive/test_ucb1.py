# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

from math import log, sqrt

import numpy as np
import pytest

from skope_ope import UCB1, BanditLogs
from skope_ope.utils.estimator_checks import check_adaptive_policy
from tests.policies._histories import live, make_logs, row_by_row


def reset(policy, n_actions):
    X = np.empty((1, 0))
    return policy.fit(BanditLogs(X, [0], [0.0], actions=np.arange(n_actions)))


def test_untried_actions_first_in_their_order():
    policy = reset(UCB1(), 3)
    best = []
    for reward in (0.0, 1.0, 0.0):
        best.append(policy.action_row().index(1.0))
        assert policy.update(None, best[-1], reward, 1.0) is True
    assert best == [0, 1, 2]
    assert policy.action_row() == [0.0, 1.0, 0.0]


@pytest.mark.parametrize("width", ["log", "constant"])
def test_bounds_by_hand(width):
    policy = reset(UCB1(alpha=0.8, width=width), 2)
    live(policy, [0, 1, 0, 0], [1.0, 0.0, 1.0, 0.0])
    growth = sqrt(log(4)) if width == "log" else 1.0
    expected = [2 / 3 + 0.8 * growth / sqrt(3), 0.8 * growth]
    assert policy._scores() == pytest.approx(expected, rel=1e-15)
    assert policy.action_row() == [float(expected[0] > expected[1]), float(
        expected[0] < expected[1]
    )]  # fmt: skip


def test_the_default_is_that_of_the_paper():
    policy = reset(UCB1(), 2)
    live(policy, [0, 1], [1.0, 0.0])
    assert policy._scores() == pytest.approx([1 + sqrt(2 * log(2)), sqrt(2 * log(2))])


def test_alpha_zero_is_greedy():
    policy = reset(UCB1(alpha=0), 2)
    live(policy, [0, 1, 1], [0.2, 0.0, 0.3])
    assert policy.action_row() == [1.0, 0.0]


def test_equal_arms_take_turns_from_the_lowest_index():
    policy = reset(UCB1(), 3)
    taken = []
    for _ in range(9):
        taken.append(policy.action_row().index(1.0))
        policy.update(None, taken[-1], 0.1, 1.0)
    assert taken == [0, 1, 2] * 3


@pytest.mark.parametrize("width", ["log", "constant"])
@pytest.mark.parametrize("available", [False, True])
def test_is_the_textbook_loop(width, available, global_random_seed):
    logs = make_logs(500, seed=global_random_seed, available=available)
    accepted, proba, _ = row_by_row(UCB1(0.7, width=width), logs)
    counts, totals = np.zeros(4), np.zeros(4)
    for row in range(len(logs)):
        growth = np.log(max(counts.sum(), 1)) if width == "log" else 1.0
        with np.errstate(divide="ignore", invalid="ignore"):
            score = totals / counts + 0.7 * np.sqrt(growth / counts)
        score[counts == 0] = np.inf
        if available:
            score[~logs.available[row]] = -np.inf
        top = score.max()
        best = int(np.argmax(score == top if np.isinf(top) else score >= top - 1e-9))
        assert proba[row].tolist() == np.eye(4)[best].tolist()
        if best == logs.action_index[row]:
            assert row in accepted
            counts[best] += 1
            totals[best] += logs.reward[row]


def test_frozen_takes_the_best_mean_not_the_best_bound():
    policy = reset(UCB1(), 2)
    live(policy, [0, 1, *[0] * 50], [1.0, 0.0, *[1.0] * 50])
    while policy.action_row() == [1.0, 0.0]:  # until it looks at the other again
        policy.update(None, 0, 1.0, 1.0)
    assert policy.frozen().predict_proba(np.empty((1, 0))).tolist() == [[1, 0]]


def test_bad_parameters():
    with pytest.raises(ValueError, match="'alpha' parameter of UCB1"):
        reset(UCB1(alpha=-1), 2)
    with pytest.raises(ValueError, match="'width' parameter of UCB1"):
        reset(UCB1(width="sqrt"), 2)


@pytest.mark.thorough
def test_keeps_the_contract():
    check_adaptive_policy(UCB1())
    check_adaptive_policy(UCB1(alpha=0.1, width="constant"))
