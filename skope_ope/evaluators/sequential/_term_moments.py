# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""How the round values of trajectories spread, from sums and extremes of their terms.

The value of a trajectory is the ratio of two sums over its rounds, of x and of y; the
deviation of a round value is proportional to x - V y. V is known at the end only: the
moments are those of x - V_0 y, with V_0 the value of the first rounds.
"""

from math import inf

import numpy as np

from skope_ope.evaluators.core._reach import Reach, StatedReach, range_only
from skope_ope.intervals._gamma import DeviationBounds, Deviations

# of x - V_0 y: squares, cross products, squares of y; fourth powers of both; extremes;
# the largest y; extremes with the least and with the largest reward
FIELDS = "xx", "xy", "yy", "x4", "y4", "low", "high", "top", "l0", "l1", "h0", "h1"
ADDED, N_ENDS = 5, 4


class TermMoments:
    """Moments of the terms of the rounds of a trajectory; those of parts add up.

    Parameters
    ----------
    origin : float
        V_0.
    numbers : ndarray of shape (12,)
        See `FIELDS`.
    """

    def __init__(self, origin, numbers=None):
        self.origin = origin
        if numbers is None:
            ends = [inf, -inf] * (N_ENDS // 2)
            numbers = np.array([0.0] * ADDED + [inf, -inf, 0.0] + ends)
        self.numbers = numbers

    def add(self, above, below, corners=()):
        """Add the terms of some rounds.

        Parameters
        ----------
        above, below : ndarray of shape (n,)
            x and y.
        corners : sequence of two ndarray of shape (n,), default=()
            x with the least and with the largest reward that there may be.
        """
        if not len(above):
            return
        x = above - self.origin * below
        xx, yy = x * x, below * below
        sums = [xx.sum(), x @ below, yy.sum(), xx @ xx, yy @ yy]
        self.numbers[:ADDED] += sums
        ends = [x] + [corner - self.origin * below for corner in corners]
        places = (5, 6), (8, 9), (10, 11)
        for one, (low, high) in zip(ends, places, strict=False):
            self.numbers[low] = min(self.numbers[low], one.min())
            self.numbers[high] = max(self.numbers[high], one.max())
        self.numbers[7] = max(self.numbers[7], below.max())


def deviations_of_moments(n, value, moments, factors, square=None):
    """Return `DeviationBounds` of the round values of all trajectories.

    Parameters
    ----------
    n : int
        Number of rounds.
    value : float
        The value.
    moments : list of TermMoments
        Of the complete trajectories.
    factors : ndarray of shape (n_trajectories,)
        What a deviation x - V y of each is multiplied by.
    square : float, default=None
        Sum of squares of the deviations, where it is known better.
    """
    table = np.array([one.numbers for one in moments]).T
    xx, xy, yy, x4, y4, low, high, top = table[:8]
    move = value - np.array([one.origin for one in moments])
    if square is None:
        square = float(factors**2 @ (xx - 2 * move * xy + move**2 * yy))
    slack = np.abs(move) * top
    least, largest = (factors * (low - slack)).min(), (factors * (high + slack)).max()
    fourth = (x4**0.25 + np.abs(move) * y4**0.25) ** 4 @ factors**4
    return DeviationBounds.of(
        n, square, min(float(least), 0.0), max(float(largest), 0.0), float(fourth)
    )


def deviations_of_yes_no(n, value, n_used, ones, factor):
    """Return the `Deviations` of means of accepted rewards that are all 0 or 1.

    Parameters
    ----------
    n : int
        Number of rounds.
    value : float
        The value.
    n_used, ones : int
        Accepted rounds that count, and the sum of their rewards.
    factor : float
        What r - V is multiplied by.
    """
    up, down, zeros = (1 - value) * factor, value * factor, n_used - ones
    some = [up] * bool(ones) + [-down] * bool(zeros) + [0.0] * (n_used < n)
    return Deviations(
        n,
        ones * up,
        ones * up * up,
        zeros * down,
        zeros * down * down,
        max(ones * up**3, zeros * down**3),
        max(some),
        min(some),
    )


def reach_of_moments(limits, value, moments, factor, all_rounds):
    """Return how far a round value may lie from the estimate, as `LinearReach` does.

    Parameters
    ----------
    limits : tuple (float, float) or None
        The known range of the rewards.
    value : float
        The value.
    moments : TermMoments
        Of the only trajectory.
    factor : float
        What a deviation x - V y is multiplied by.
    all_rounds : bool
        Whether all rounds have terms; the deviation of others is zero.
    """
    numbers = moments.numbers
    if limits is None or not np.isfinite(numbers[8:]).all():
        return range_only(limits)
    slack = abs(value - moments.origin) * numbers[7]
    ends = []
    for low, high in ((8, 9), (10, 11)):
        least, most = numbers[low] - slack, numbers[high] + slack
        if not all_rounds:
            least, most = min(least, 0.0), max(most, 0.0)
        ends.append((float(factor * least), float(factor * most)))
    worst, best = ends
    return StatedReach(limits, Reach(*limits, best, worst))
