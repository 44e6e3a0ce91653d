# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import numpy as np
from numpy.testing import assert_allclose, assert_array_equal

from skope_ope.learning._tournament import Match, TrainingRounds
from tests.learning._worlds import ByHeart


def leaves(match):
    if not match.sides:
        return match.codes.tolist()
    return [leaves(side) for side in match.sides]


def test_the_tree_is_balanced_and_in_order():
    assert leaves(Match(np.arange(1))) == [0]
    assert leaves(Match(np.arange(5))) == [[[[0], [1]], [2]], [[3], [4]]]
    assert leaves(Match(np.array([1, 4, 6]))) == [[[1], [4]], [6]]
    depth, match = 0, Match(np.arange(1000))
    while match.sides:
        depth, match = depth + 1, match.sides[0]
    assert depth == 10


def trained(action, gain, available=None, n_actions=4):
    context = np.zeros((len(action), 1))
    rounds = TrainingRounds(context, np.array(action), np.array(gain), available)
    match = Match(np.arange(n_actions))
    winners = match.train(ByHeart(), rounds, np.arange(len(action)))
    return match, winners


def test_only_winners_play_on(monkeypatch):
    monkeypatch.setattr(ByHeart, "fits", ())
    match, winners = trained([0, 1, 2, 2, 3, 3], [1, 2, -3, 1, 0.5, 0.25])
    # 0 against 1; 2 against 3, where a failure of 2 speaks for 3; 1 against 3
    assert ByHeart.fits == (
        [(0.0, 0, 1.0), (0.0, 1, 2.0)],
        [(0.0, 0, 1.0), (0.0, 1, 0.25), (0.0, 1, 0.5), (0.0, 1, 3.0)],
        [(0.0, 0, 2.0), (0.0, 1, 0.25), (0.0, 1, 0.5)],
    )
    assert winners.tolist() == [1]
    proba = np.zeros((2, 4))
    match.descend(np.zeros((2, 1)), np.arange(2), np.ones(2), None, None, proba)
    assert_array_equal(proba, np.eye(4)[[1, 1]])


def test_draws_at_random_multiply_along_the_path():
    match, _ = trained([0, 1, 2, 3], [1.0, 3.0, 1.0, 1.0])
    soft = np.zeros((1, 4))
    # 1/4 against 3/4; 1/2 each (the first wins); 3/4 for the first side (1 against 2)
    match.descend(np.zeros((1, 1)), np.arange(1), np.ones(1), None, 1.0, soft)
    assert_allclose(soft, [[3 / 16, 9 / 16, 1 / 8, 1 / 8]])
    match.descend(np.zeros((1, 1)), np.arange(1), np.ones(1), None, 0.5, soft)
    assert_allclose(soft, [[0.9 * 0.1, 0.9 * 0.9, 0.1 / 2, 0.1 / 2]])


def test_who_has_no_opponent_wins_without_a_match(monkeypatch):
    monkeypatch.setattr(ByHeart, "fits", ())
    available = np.array([[1, 0, 1, 0], [0, 1, 1, 1], [0, 0, 1, 0]], dtype=bool)
    match, _ = trained([0, 1, 2], [1.0, -2.0, 5.0], available)
    # 0 and 1 never meet; 2 meets 3 in no round of theirs; round 2 has one offer only
    assert ByHeart.fits == ([(0.0, 0, 1.0), (0.0, 1, 2.0)],)
    assert [side.classifier for side in match.sides] == [None, None]
    assert match.trained
    proba = np.zeros((3, 4))
    match.descend(np.zeros((3, 1)), np.arange(3), np.ones(3), available, None, proba)
    assert_array_equal(proba.argmax(axis=1), [2, 2, 2])
    assert not trained([2], [5.0], available[2:])[0].trained
