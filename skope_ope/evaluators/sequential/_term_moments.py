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

# Of x - V_0 y: sums of squares, of products with y, of squares of y, of fourth powers
# of both; then the least and the largest: of these, of y, with the least reward that
# there may be, and with the largest.
N_SUMS, N_PAIRS = 5, 4


class TermMoments:
    """Moments of the terms of the rounds of a trajectory; those of parts add up."""

    def __init__(self, origin):
        self.origin = origin
        self.numbers = np.array([0.0] * N_SUMS + [inf, -inf] * N_PAIRS)

    def add(self, above, below, corners=()):
        """Add the terms of some rounds."""
        if not len(above):
            return
        x = above - self.origin * below
        xx, yy = x * x, below * below
        sums = [xx.sum(), x @ below, yy.sum(), xx @ xx, yy @ yy]
        self.numbers[:N_SUMS] += sums
        ends = [x, below] + [corner - self.origin * below for corner in corners]
        for place, one in enumerate(ends):
            pair = self.numbers[N_SUMS + 2 * place :][:2]
            pair[:] = min(pair[0], one.min()), max(pair[1], one.max())


def deviations_of_moments(n, value, moments, factors, square=None):
    """Return `DeviationBounds` of the round values of all trajectories."""
    table = np.array([one.numbers for one in moments]).T
    xx, xy, yy, x4, y4, low, high, *of_below = table[: N_SUMS + 4]
    move = value - np.array([one.origin for one in moments])
    if square is None:
        square = float(factors**2 @ (xx - 2 * move * xy + move**2 * yy))
    slack = move * np.stack(of_below)
    least = (factors * (low - slack.max(axis=0))).min()
    largest = (factors * (high - slack.min(axis=0))).max()
    fourth = (x4**0.25 + np.abs(move) * y4**0.25) ** 4 @ factors**4
    return DeviationBounds.of(
        n, square, min(float(least), 0.0), max(float(largest), 0.0), float(fourth)
    )


def deviations_of_yes_no(n, value, n_used, ones, factor):
    """Return the `Deviations` of means of accepted rewards that are all 0 or 1."""
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
    """Return how far a round value may lie from the estimate, as `LinearReach` does."""
    pairs = moments.numbers[N_SUMS:].reshape(N_PAIRS, 2)
    if limits is None or not np.isfinite(pairs).all():
        return range_only(limits)
    slack = (value - moments.origin) * pairs[1]
    ends = []
    for low, high in pairs[2:]:
        least, most = low - slack.max(), high - slack.min()
        if not all_rounds:
            least, most = min(least, 0.0), max(most, 0.0)
        ends.append((float(factor * least), float(factor * most)))
    worst, best = ends
    return StatedReach(limits, Reach(*limits, best, worst))
