# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""The interval for few events: gamma limits of the deviations up and down."""

from __future__ import annotations

from math import sqrt
from typing import NamedTuple

import numpy as np
from scipy.optimize import brentq
from scipy.special import gammaincc, gammaincinv, ndtri, stdtrit

from skope_ope._parallel import dot
from skope_ope._types import ArrayLike

BLOCK_OF_SUMS = 20_000  # rounds that are summed at once: they stay in the cache


class Deviations(NamedTuple):
    """Sums of the deviations of round values from their mean."""

    n: int  # number of rounds
    # Sum and sum of squares of those above, and of the sizes of those below; of the
    # sums of groups, where there are groups
    up: float
    up_square: float
    down: float
    down_square: float
    # Sum of the third powers of the sizes of those above, or of those below where it is
    # larger. They are kept apart, for heavy weights below may hide heavy rewards above
    third: float
    largest: float  # of all
    least: float  # of all
    noise: float = 0.0  # sum of squares of what has a normal limit beside the events
    varying: float = 0.0  # what of it comes from rewards, and so counts as events
    # Sums of v^2 / y over all kinds upwards and downwards; None: they are of one kind
    skews: tuple | None = None

    @property
    def events(self):
        """(sum c)^2 / sum c^2 of the deviations up, and of those down."""
        # Of several kinds: as many as would be so skewed.
        sides = (self.up, self.up_square), (self.down, self.down_square)
        if self.skews is None:
            return [y * y / square if square else 0.0 for y, square in sides]
        pairs = zip(sides, self.skews, strict=True)
        squares = [(square + self.varying / 2, skew) for (_, square), skew in pairs]
        return [v**3 / skew**2 if skew else 0.0 for v, skew in squares]

    @property
    def effective_events(self):
        """The smaller of both."""
        return min(self.events)

    @property
    def skewness(self):
        """Sum of third powers / (sum c^2)^1.5 of one side, NaN where all are zero."""
        square = self.up_square + self.down_square
        return self.third / square**1.5 if square else float("nan")


def deviations_of(round_values, value, group=None):
    """Return the `Deviations` of round values."""
    n = len(round_values)
    if group is not None:
        return deviations_of_blocks([np.bincount(group, round_values - value)], n)
    starts = range(0, n, BLOCK_OF_SUMS)
    return deviations_of_blocks(
        (round_values[start : start + BLOCK_OF_SUMS] - value for start in starts), n
    )


def deviations_of_blocks(changes, n):
    """Return the `Deviations` of n rounds, from arrays of those of some rounds each."""
    sums, largest, least = np.zeros(6), [], []
    for change in changes:
        up = np.maximum(change, 0.0)
        down, square = up - change, change * change
        sums[:4] += up.sum(), dot(up, up), down.sum(), dot(down, down)
        sums[4:] += dot(square, up), dot(square, down)
        largest.append(change.max())
        least.append(change.min())
    *four, third_up, third_down = sums.tolist()
    third = max(third_up, third_down)
    ends = float(np.max(largest)), float(np.min(least))  # NaN stays
    return Deviations(n, *four, third, *ends)


def gamma_interval(
    round_values: ArrayLike,
    up: float,
    down: float,
    level: float = 0.95,
    *,
    group: ArrayLike | None = None,
) -> tuple[float, float]:
    r"""Return the paired gamma interval of a mean of round values.

    The deviations :math:`c_i = z_i - \hat V` above and below the mean are treated as
    two weighted Poisson counts. With :math:`y = \sum c`, :math:`v = \sum c^2` of the
    one kind and the largest deviation b that a round may have, their gamma limits [1]_
    are, for gamma variables :math:`\Gamma(y, v)` of mean y and variance v,

    .. math:: P(\Gamma(y, v) < L) = \tfrac{\alpha}{2}, \qquad
        \tfrac12 P(\Gamma(y, v) > U) + \tfrac12 P(\Gamma(y + b, v + b^2) > U)
        = \tfrac{\alpha}{2}

    (half a jump more, as the mid-p limits of a binomial have it [2]_), and the limits
    of the mean combine both kinds,

    .. math:: \hat V + \frac1n \sqrt{(U_+ - y_+)^2 + (y_- - L_-)^2}, \qquad
        \hat V - \frac1n \sqrt{(y_+ - L_+)^2 + (U_- - y_-)^2},

    widened by the ratio of Student's to normal limits. With many events it tends to
    Student's interval. With none it still has the width that an unseen event of size b
    gives.

    Parameters
    ----------
    round_values : array-like of shape (n_rounds,)
        Terms whose mean is the value.
    up, down : float
        The largest possible deviations of a round from the mean, upwards and downwards,
        logged or not.
    level : float, default=0.95
        Coverage, two-sided.
    group : array-like of int of shape (n_rounds,), default=None
        Group of every round, 0, 1, ...: the deviations are summed by group. `None`:
        rounds are independent.

    Returns
    -------
    low, high : float

    References
    ----------
    .. [1] Fay, M. P., & Feuer, E. J. (1997). Confidence intervals for directly
       standardized rates. Statistics in Medicine 16(7).
    .. [2] Fay, M. P., & Kim, S. (2017). Confidence intervals for directly
       standardized rates using mid-p gamma intervals. Biometrical Journal 59(2).

    Examples
    --------
    No event in 100 rounds, each of which may bring 1:

    >>> import numpy as np
    >>> from skope_ope.intervals import gamma_interval
    >>> low, high = gamma_interval(np.zeros(100), up=1.0, down=0.0)
    >>> low, round(high, 4)
    (0.0, 0.0305)
    """
    round_values = np.asarray(round_values, dtype=float)
    value = float(round_values.mean())
    found = deviations_of(round_values, value, group)
    units = len(round_values) if group is None else len(np.unique(group))
    return gamma_limits(value, found, up, down, level, units - 1)


def gamma_limits(value, deviations, up, down, level, degrees_of_freedom):
    """Return the limits of `gamma_interval` from sums of the deviations."""
    d, tail = deviations, (1 - level) / 2
    # what a group brought may be more than what a round can
    up, down = max(up, d.largest), max(down, -d.least)
    more_up = _distance_up(d.up, d.up_square, up, tail)
    more_down = _distance_up(d.down, d.down_square, down, tail)
    less_up = _distance_down(d.up, d.up_square, tail)
    less_down = _distance_down(d.down, d.down_square, tail)
    # the round values hold n / (n - 1), and Student's quantile what a spread that is
    # estimated costs: with many events these are Student's limits
    normal = ndtri(1 - tail)
    scale = stdtrit(degrees_of_freedom, 1 - tail) / normal
    scale /= sqrt(d.n * max(d.n - 1, 1))
    beside = normal**2 * d.noise
    high = value + scale * sqrt(more_up**2 + less_down**2 + beside)
    low = value - scale * sqrt(less_up**2 + more_down**2 + beside)
    return float(low), float(high)


def _distance_down(total, square, tail):
    """Return y - L, by how much the expected sum may lie below the observed one."""
    if square <= 0:
        return 0.0
    return total - square / total * gammaincinv(total * total / square, tail)


def _distance_up(total, square, largest, tail):
    """Return U - y, by how much the expected sum may lie above the observed one."""
    largest = max(largest, 0.0)
    if largest == 0 and square <= 0:
        return 0.0

    def chance(limit):  # of more than the limit, with and without one more jump
        more = _gamma_tail(total + largest, square + largest * largest, limit)
        return (more + _gamma_tail(total, square, limit)) / 2 - tail

    top = total + largest + 4 * sqrt(square + largest * largest)
    while chance(top) > 0:
        top *= 2
    # at low levels the limit may lie below what was seen
    limit = brentq(chance, 0.0, top, xtol=1e-12 * top, rtol=1e-12)
    return max(limit - total, 0.0)


def _gamma_tail(mean, variance, limit):
    """Return the probability of more than a limit; all mass at 0 for mean 0."""
    if variance <= 0:
        return 0.0
    return gammaincc(mean * mean / variance, limit * mean / variance)
