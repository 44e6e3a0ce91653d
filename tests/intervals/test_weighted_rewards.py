# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Bounds of weights and rewards, as the intervals that rest on them state them."""

import numpy as np
import pytest

from skope_ope.intervals import (
    betting_ratio_interval,
    cressie_read_interval,
    cressie_read_value,
    empirical_likelihood_interval,
    empirical_likelihood_value,
)
from skope_ope.intervals._weighted_rewards import check_weighted_rewards

SIGNED = [
    cressie_read_interval,
    cressie_read_value,
    empirical_likelihood_interval,
    empirical_likelihood_value,
]
ALL = [*SIGNED, betting_ratio_interval]
KNOWN = {"max_weight": 4.0, "reward_range": (0, 1)}
W, R = np.array([0.0, 2.0, 1.0]), np.array([0.0, 1.0, 0.5])


@pytest.mark.parametrize("function", ALL)
def test_bad_input(function):
    for w, r, message in (
        (W, [0, 1, 2], r"r has 1 entries outside \[0, 1\], the first 2\.0 in row 2"),
        ([0, 5, 1], R, r"w has 1 entries outside .* the first 5\.0 in row 1"),
        ([0, -1, 1], R, r"w has 1 entries outside .* the first -1\.0 in row 1"),
        ([0, np.nan, 1], R, "w must be finite, got nan at row 1"),
        (W, [0, np.nan, 1], "r must be finite, got nan at row 1"),
        ([], [], "at least one round"),
        (W, R[:2], "one entry per round"),
    ):
        with pytest.raises(ValueError, match=message):
            function(w, r, **KNOWN)
    for bounds in ((1, 0), (0, 0), (0, np.inf), (np.nan, 1)):
        with pytest.raises(ValueError, match="reward_range must be two finite numbers"):
            function(W, R, max_weight=4, reward_range=bounds)
    for bounds in (1, (0, 1, 2), ("a", "b")):
        with pytest.raises(TypeError, match="reward_range must be a pair"):
            function(W, R, max_weight=4, reward_range=bounds)
    for largest in (np.inf, np.nan):
        with pytest.raises(ValueError, match="max_weight must be finite"):
            function(W, R, max_weight=largest, reward_range=(0, 1))
    with pytest.raises(ValueError, match="max_weight at least 1"):
        function(W * 0, R, max_weight=0.5, reward_range=(0, 1))


@pytest.mark.parametrize("function", SIGNED)
def test_smallest_weights(function):
    with pytest.raises(ValueError, match="min_weight must be at most 1"):
        function(W + 2, R, min_weight=2, **KNOWN)
    with pytest.raises(ValueError, match=r"the first 0\.0 in row 0"):
        function(W, R, min_weight=0.5, **KNOWN)
    function([-1.0, 2.0, 1.0], R, min_weight=-1, **KNOWN)


@pytest.mark.parametrize(
    "function", [f for f in ALL if f.__name__.endswith("interval")]
)
@pytest.mark.parametrize("level", [0, 1, 95, -0.1])
def test_levels(function, level):
    with pytest.raises(ValueError, match="level must lie in"):
        function(W, R, level=level, **KNOWN)


def test_a_bound_of_one_says_that_all_weights_are_one():
    for bounds in ((0.0, 1.0), (1.0, 3.0)):
        rounds = check_weighted_rewards([1, 1], [0, 1], bounds[1], bounds[0], (0, 1))
        assert (rounds.min_weight, rounds.max_weight) == (1, 1)
    with pytest.raises(ValueError, match=r"the first 0\.5 in row 1"):
        check_weighted_rewards([1, 0.5], [0, 1], 1, 0, (0, 1))


def test_rounding_of_a_weight_at_its_bound_is_no_fault():
    rounds = check_weighted_rewards([4 * (1 + 1e-12), 1], [0, 1], 4, 0, (0, 1))
    assert rounds.weight.max() == 4


@pytest.mark.parametrize("function", ALL)
def test_what_is_given_stays_as_it_is(function):
    w, r = W.copy(), R.copy()
    function(w, r, **KNOWN)
    np.testing.assert_array_equal(w, W)
    np.testing.assert_array_equal(r, R)
