# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from skope_ope import PlackettLuceSlatePolicy, UniformSlatePolicy
from tests.policies._slate_worlds import rounds


def test_by_hand():
    policy = PlackettLuceSlatePolicy([1, 2, 3], 2)
    logs = rounds(1, 2, 3)
    assert_allclose(policy.slate_proba(logs, np.array([[2, 0]])), 3 / 6 * 1 / 3)
    second = [2 / 6 / 4 + 3 / 6 / 3, 1 / 6 * 2 / 5 + 3 / 6 * 2 / 3, 0]
    second[2] = 1 - sum(second)
    assert_allclose(policy.slot_marginals(logs)[0], [[1 / 6, 2 / 6, 3 / 6], second])


def test_equal_weights_are_uniform():
    logs = rounds(2, 3, 5)
    slates = np.array([[0, 1, 2], [4, 2, 0]])
    one, two = PlackettLuceSlatePolicy([2.5] * 5, 3), UniformSlatePolicy(3)
    assert_allclose(one.slate_proba(logs, slates), two.slate_proba(logs, slates))
    assert_allclose(one.slot_marginals(logs), two.slot_marginals(logs))


def test_weights_by_array_function_and_column():
    logs = rounds(3, 2, 4).with_columns(w=np.arange(1, 13).reshape(3, 4))
    by_column = PlackettLuceSlatePolicy("w", 2).slot_marginals(logs)
    by_function = PlackettLuceSlatePolicy(lambda logs: logs.columns["w"], 2)
    assert_array_equal(by_function.slot_marginals(logs), by_column)
    first = PlackettLuceSlatePolicy([1, 2, 3, 4], 2).slot_marginals(logs)
    assert_allclose(first[0], by_column[0])
    folds = logs[[2, 0]]
    again = PlackettLuceSlatePolicy("w", 2).slot_marginals(folds)
    assert_allclose(again, by_column[[2, 0]], rtol=1e-14)


@pytest.mark.parametrize(
    ("weights", "error", "message"),
    [
        ([1, 0, 1], ValueError, "positive, got 0 for candidate 1 at row 0"),
        ([1, -2, 1], ValueError, "positive, got -2 for candidate 1 at row 0"),
        ([1, np.nan, 1], ValueError, "positive, got nan for candidate 1"),
        ([1, np.inf, 1], ValueError, "positive, got nan for candidate 1"),
        ([1, 2], ValueError, r"\(n_candidates,\) = \(3,\) or .*got \(2,\)"),
        ([[1, 2, 3]] * 3, ValueError, r"= \(2, 3\), got \(3, 3\)"),
        ("absent", ValueError, "'absent' is not a column of the logs"),
        (["a", "b", "c"], TypeError, "weights must hold numbers"),
    ],
)
def test_bad_weights(weights, error, message):
    with pytest.raises(error, match=message):
        PlackettLuceSlatePolicy(weights, 2).slot_marginals(rounds(2, 2, 3))


def test_weights_of_what_is_not_offered_are_not_looked_at():
    mask = np.array([[True, True, False]])
    logs = rounds(1, 2, 3, candidates=mask)
    marginals = PlackettLuceSlatePolicy([1, 3, np.nan], 2).slot_marginals(logs)
    assert_allclose(marginals, [[[0.25, 0.75, 0], [0.75, 0.25, 0]]])


def rank_weights(ranks, alpha):
    return PlackettLuceSlatePolicy.from_ranks(ranks, 1, alpha=alpha).weights


def test_rank_weights():
    rank = np.arange(1, 129)
    assert_array_equal(rank_weights(rank, 0), 1)
    want = 2.0 ** (-1.5 * np.array([int(np.log2(r) + 1e-12) for r in rank]))
    assert_allclose(rank_weights(rank, 1.5), want, rtol=1e-15)
    # exact at every power of two, where a logarithm may be rounded down
    powers = 2.0 ** np.arange(50)
    assert_array_equal(rank_weights(powers, 1), 1 / powers)
    with pytest.raises(ValueError, match="ranks must have 1 dim"):
        rank_weights([[1, 2]], 1)
    with pytest.raises(ValueError, match="ranks must be at least 1, the best, got 0"):
        rank_weights([0, 1], 1)
    with pytest.raises(ValueError, match="alpha must be at least 0, got -1"):
        rank_weights([1], -1)
