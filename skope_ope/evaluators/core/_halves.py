# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
r"""How an estimate spreads upwards and downwards, from sums in two halves.

Rounds rewarded above the middle of the range of the rewards are the upper half. With
the slopes b of an estimate, what rewards bring to it is :math:`c_i = b^T x_i`, without
the terms that no reward enters, such as values of a model. A half brings

.. math:: y = \Big|\sum_i c_i\Big|, \qquad v = \sum_i c_i^2,

about the mean of these terms, or about zero where y is larger: rounds of weight zero
must not hide the others. These are the events upwards and downwards whose gamma limits
`skope_ope.intervals.gamma_interval` combines. What other terms spread beside them has a
normal limit. In a difference of two values the upper half of the one and the lower half
of the other go up; each keeps its own number of events, and their squares are scaled to
the variance of the difference.
"""

from math import nan, sqrt

import numpy as np

from skope_ope.evaluators.core._origins import total
from skope_ope.evaluators.core._products import quadratic
from skope_ope.intervals._gamma import Deviations, deviations_of_blocks

TINY = 1e-6  # events: a half whose terms cancel is no count, but a spread
WEIGHT = -1  # a term moves with the rewards by the weight of its round


def middle_of_range(reward_range):
    """Return the middle of a stated range of the rewards, otherwise .5."""
    return 0.5 if reward_range is None else float(np.mean(reward_range))


def deviations_of_sums(value, estimates, smooth):
    """Return the `Deviations` of a value, or of a difference of two.

    Parameters
    ----------
    value : PolicyValue
        What is to be spread.
    estimates : list of one or two Estimate
        The value, or the minuend and the subtrahend.
    smooth : list of tuple
        Of each the numbers of the terms that no reward enters.
    """
    n = value.n_rounds
    scale = sqrt(n * max(n - 1, 1))
    if estimates[0].frame.clustered:
        change = estimates[0].cluster_sums
        for other in estimates[1:]:
            change = change - other.cluster_sums
        return deviations_of_blocks([scale * change], n)
    y, v = np.zeros(2), np.zeros(2)  # down, up
    for estimate, some, turn in zip(estimates, smooth, (1, -1), strict=False):
        sums, squares = _halves(estimate, some)
        y += scale * sums[::turn]
        v += scale * scale * squares[::turn]
    square, noise = (scale * value.standard_error) ** 2, 0.0
    if len(estimates) > 1 and v.sum() > square:
        common = square / float(v.sum())
        y, v = y * sqrt(common), v * common
    else:
        noise = max(square - float(v.sum()), 0.0)
    (down, up), (down_square, up_square) = y.tolist(), v.tolist()
    return Deviations(n, up, up_square, down, down_square, nan, 0.0, 0.0, noise)


def _halves(estimate, smooth):
    """Return y and v of the lower and of the upper half, arrays of two."""
    sums = estimate.sums
    moves = dict(enumerate(sums.moves or ()))
    moved = [j for j in range(sums.n_terms) if j not in smooth]
    slopes = estimate.slopes_of(moved)
    over = float if sums.frame.n_strata == 1 else total
    whole, upper = (
        (_linear(slopes, one, over), quadratic(slopes, one.product, over)[0])
        for one in (sums, sums.upper)
    )
    about_zero = slopes[-1] * 0.0
    for j in moved:
        # what moves with all rewards has no zero of its own
        near = estimate.means[j] if moves.get(j) == WEIGHT else 0.0
        about_zero = about_zero + slopes[j] * (sums.origin[j] - near)
    plain = [*slopes[:-1], about_zero]
    of_zero = [_linear(plain, one, over) for one in (sums, sums.upper)]
    y = np.array([whole[0] - upper[0], upper[0]])
    z = np.array([of_zero[0] - of_zero[1], of_zero[1]])
    v = np.maximum([whole[1] - upper[1], upper[1]], 0.0)
    y = np.maximum(abs(y), abs(z))
    return y, np.where(y * y > TINY * v, v, 0.0)


def _linear(slopes, sums, over):
    """Return the sum of b'x over all strata."""
    entries = zip(slopes, (*sums.first, sums.mass), strict=True)
    return sum(over(b * x) for b, x in entries)
