# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

from itertools import permutations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from skope_ope.datasets import dcg, err, ndcg, reciprocal_rank
from skope_ope.datasets._slate_rewards import slot_discounts

GRADES = [0, 2, 1, 4]
SLATES = np.array([[3, 1, 2], [0, 2, 3], [1, -1, 3]])
LOG3 = np.log2(3)


def test_discounts_of_both_conventions():
    assert_allclose(slot_discounts(4), [1, 1 / LOG3, 0.5, 1 / np.log2(5)])
    assert_allclose(
        slot_discounts(5, "jarvelin"), [1, 1, 1 / LOG3, 0.5, 1 / np.log2(5)]
    )
    with pytest.raises(ValueError, match=r"discount must be one of .* got 'log'"):
        dcg(GRADES, SLATES, discount="log")


def test_dcg_by_hand():
    want = [15 + 3 / LOG3 + 1 / 2, 0 + 1 / LOG3 + 15 / 2, 3 + 15 / 2]
    assert_allclose(dcg(GRADES, SLATES), want)
    want = [15 + 3 + 1 / LOG3, 1 + 15 / LOG3, 3 + 15 / LOG3]
    assert_allclose(dcg(GRADES, SLATES, discount="jarvelin"), want)


def test_ndcg_by_hand():
    best = 15 + 3 / LOG3 + 1 / 2
    want = [1, (1 / LOG3 + 7.5) / best, 10.5 / best]
    assert_allclose(ndcg(GRADES, SLATES), want)
    assert_array_equal(ndcg([0, 0, 0], [[0, 1]]), [0])
    offered = np.array([[True, True, True, False]])
    assert_allclose(ndcg(GRADES, [[1, 2]], offered=offered), 1)
    rows = ndcg([[0, 2, 1, 4], [4, 0, 0, 0], [0, 0, 0, 0]], SLATES)
    assert_allclose(rows, [1, 1, 0])


@pytest.mark.parametrize("discount", ["paper", "jarvelin"])
def test_the_best_ranking_has_ndcg_one(discount, global_random_seed):
    grades = np.random.default_rng(global_random_seed).integers(0, 5, 5)
    slates = np.array(list(permutations(range(5), 3)))
    values = ndcg(grades, slates, discount=discount)
    assert values.max() == pytest.approx(1.0 if grades.any() else 0.0)
    assert values.min() >= 0


def test_err_by_hand():
    R = (2.0 ** np.array(GRADES) - 1) / 16
    want = [
        R[3] + (1 - R[3]) * R[1] / 2 + (1 - R[3]) * (1 - R[1]) * R[2] / 3,
        R[2] / 2 + (1 - R[2]) * R[3] / 3,
        R[1] + (1 - R[1]) * R[3] / 3,
    ]
    assert_allclose(err(GRADES, SLATES), want)
    with pytest.raises(ValueError, match="a grade is 4, more than max_grade=3"):
        err(GRADES, SLATES, max_grade=3)


def test_reciprocal_rank_by_hand():
    assert_array_equal(reciprocal_rank(GRADES, SLATES), [1, 1 / 2, 1])
    assert_array_equal(reciprocal_rank([0, 0, 1], [[0, 1], [-1, 2]]), [0, 1 / 2])


@pytest.mark.parametrize(
    ("grades", "slates", "error", "message"),
    [
        ([-1, 0], [[0, 1]], ValueError, "grades must be at least 0, got -1"),
        ([1, 0], [[0, 2]], ValueError, "candidates 0 to 1 or -1, got 0 to 2"),
        ([1, 0], [[-2, 1]], ValueError, "got -2 to 1"),
        ([1, 0], [[0.0, 1.0]], TypeError, "slates must hold integers"),
        ([1, 0], [0, 1], TypeError, r"shape \(2,\)"),
        ([[1, 0]] * 3, [[0, 1]] * 2, ValueError, "grades has 3 rows, slates has 2"),
        ([np.nan, 0], [[0, 1]], ValueError, "grades must be finite"),
    ],
)
def test_bad_grades_and_slates(grades, slates, error, message):
    for reward in (dcg, ndcg, err, reciprocal_rank):
        with pytest.raises(error, match=message):
            reward(grades, np.array(slates))
