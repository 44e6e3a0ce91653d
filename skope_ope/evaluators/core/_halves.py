# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
r"""How an estimate spreads upwards and downwards, from sums in two halves.

Rounds rewarded above the middle of the range of the rewards are the upper half. With
the slopes b of an estimate, what rewards bring to it is :math:`c_i = b^T x_i`, without
the terms that no reward enters, such as values of a model. A half brings

.. math:: y = \sum_i c_i, \qquad v = \sum_i c_i^2,

about the mean of these terms, or about zero where y is larger: rounds of weight zero
must not hide the others. Were all c of a half alike but for the weights w of the
rounds, they would be :math:`m = (\sum w)^2 / \sum w^2` events, with the squares
:math:`y^2 / m`. What v has beyond that are differences within the half, of either sign.
They spread, as the terms do that no reward enters, and have a normal limit; the latter
tell nothing of how many events there are. The events, upwards or downwards by the sign
of y, have the gamma limits that `skope_ope.intervals.gamma_interval` combines.

A difference of two values has the events of both, those of the subtrahend turned; all
squares are scaled to its variance.
"""

from math import nan, sqrt

import numpy as np

from skope_ope.evaluators.core._products import quadratic, total
from skope_ope.evaluators.core._sums import WEIGHT
from skope_ope.intervals._gamma import Deviations, deviations_of_blocks


def middle_of_range(reward_range):
    """Return the middle of a stated range of the rewards, otherwise .5."""
    return 0.5 if reward_range is None else float(np.mean(reward_range))


def in_upper_half(logs):
    """Return which rounds are in the upper half, a mask."""
    return logs.reward > middle_of_range(logs.reward_range)


def rounds_of_halves(reward, upper, all_rewarded=False):
    """Return the rounds of both halves, and those of these with a reward but zero."""
    # `upper`: rows of the upper half; `all_rewarded`: whether all of these have one
    n, some, m = len(reward), np.count_nonzero(reward), len(upper)
    above = m if all_rewarded else np.count_nonzero(reward[upper])
    return np.array([[n - m, some - above], [m, above]], dtype=float)


def deviations_of_sums(value, parts):
    """Return the `Deviations` of a value, or of a difference; None: not in halves.

    Parameters
    ----------
    value : PolicyValue
        What is to be spread.
    parts : list of one or two PolicyValue
        The value, or the minuend and the subtrahend.
    """
    n = value.n_rounds
    scale = sqrt(n * max(n - 1, 1))
    if any(one._find_reach.smooth is None for one in parts):
        return None
    of_halves = [one._estimate_of_halves for one in parts]
    if any(one.sums is None or not one.sums.joint.has_halves for one in of_halves):
        return None
    if parts[0]._estimate.frame.clustered:
        change = parts[0]._estimate.cluster_sums
        for other in parts[1:]:
            change = change - other._estimate.cluster_sums
        return deviations_of_blocks([scale * change], n)
    sides, noise, skew = ([0.0] * 3, [0.0] * 3), 0.0, 0.0
    for one, estimate, turn in zip(parts, of_halves, (1, -1), strict=False):
        for y, v, rest, rounds in _halves(estimate, one._find_reach, one):
            side = sides[turn * y < 0]
            y, v, rest = scale * abs(y), scale**2 * v, scale**2 * rest
            for k, more in enumerate((y, v, v * v / y if v else 0.0)):
                side[k] += more
            noise, skew = noise + rest, skew + _skew_of_noise(rest, rounds)
    square = (scale * value.standard_error) ** 2
    events = sides[0][1] + sides[1][1]
    whole = events + noise
    common = square / whole if len(parts) > 1 and whole > square else 1.0
    others = max(square - common * whole, 0.0)  # of terms that no reward enters
    (up, up_square, up_skew), (down, down_square, down_skew) = (
        [found * sqrt(common) ** (k + 1) for k, found in enumerate(side)]
        for side in sides
    )
    skew, noise = skew * common**1.5, common * noise
    squares = up, up_square, down, down_square
    skews = up_skew + skew, down_skew + skew
    return Deviations(n, *squares, nan, 0.0, 0.0, noise + others, noise, skews)


def _skew_of_noise(square, rounds):
    """Return v^2 / y of the deviations to one side that noise of some rounds has."""
    # Of normal deviations half of the squares is above, and their sum is .4 sd each.
    return (square / 2) ** 2 / (0.4 * sqrt(square * rounds)) if square > 0 else 0.0


def _halves(estimate, find, value):
    """Return y, the squares of the events and the others, and how many rounds vary."""
    sums = estimate.sums
    moves = dict(enumerate(sums.moves or ()))
    moved = [j for j in range(sums.n_terms) if j not in find.smooth]
    slopes = estimate.slopes_of(moved)
    over = float if sums.frame.n_strata == 1 else total
    about_zero = slopes[-1] * 0.0
    for j in moved:
        # what moves with all rewards has no zero of its own
        near = estimate.means[j] if moves.get(j) == WEIGHT else 0.0
        about_zero = about_zero + slopes[j] * (sums.origin[j] - near)
    plain = [*slopes[:-1], about_zero]
    whole, upper = (
        (
            _linear(slopes, one, over),
            _linear(plain, one, over),
            quadratic(slopes, one)[0],
        )
        for one in (sums, sums.upper)
    )
    found, lower = [], [a - b for a, b in zip(whole, upper, strict=True)]
    rounds = find.effective_rounds(value)
    for half, (m, varying) in zip((lower, upper), rounds, strict=True):
        y, v = max(half[:2], key=abs), max(half[2], 0.0)
        alike = y * y / m if m > 0 else v * bool(y)
        events = min(v, alike)
        found.append((y, events, v - events, max(varying, 1.0)))
    return found


def _linear(slopes, sums, over):
    """Return the sum of b'x over all strata."""
    entries = zip(slopes, (*sums.first, sums.mass), strict=True)
    return sum(over(b * x) for b, x in entries)
