# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Asymptotic confidence sequences: for many rounds, without bounds of any kind."""

from __future__ import annotations

import math
from numbers import Integral

import numpy as np

from skope_ope._dot import dot
from skope_ope._types import Array, ArrayLike
from skope_ope.intervals._sequences import after_rounds, running_sums
from skope_ope.intervals._weighted_rewards import check_level
from skope_ope.logs._validation import as_numbers

FROM_ROUND = 1000
NO_SPREAD = 1e-12  # of squares: less spread than that is none


def asymptotic_sequence(
    z: ArrayLike,
    level: float = 0.95,
    *,
    start: int = FROM_ROUND,
    after: ArrayLike | None = None,
) -> tuple[Array, Array]:
    r"""Return the asymptotic confidence sequence of the mean of terms [1]_.

    .. math:: \bar z_t \pm s_t \sqrt{ \frac{2 (t \rho^2 + 1)}{t^2 \rho^2}
        \ln \frac{\sqrt{t \rho^2 + 1}}{\alpha} }, \qquad \alpha = 1 - level,

    with the mean and the standard deviation (with divisor t) of the first t terms. It
    needs no bounds, only a finite variance, like Student's interval. All its intervals
    from `start` on hold together. The coverage is approximate, and better for a larger
    `start`. Before `start` there is no interval. :math:`\rho` makes it narrowest at
    about :math:`t_0 = start\, \ln(start)` rounds:
    :math:`\rho^2 = (2 \ln(1/\alpha) + \ln(1 + 2 \ln(1/\alpha))) / t_0`.

    The means of the terms may change. The sequence is for their average so far.

    Parameters
    ----------
    z : array-like of shape (n_rounds,)
        Terms in the order of time: those of IPS, or of doubly robust estimates with
        predictions from earlier rounds.
    level : float, default=0.95
        Probability that all intervals from `start` on cover, for a large `start`.
    start : int, default=1000
        Number of rounds after which the sequence begins. Choose it before you look at
        the terms.
    after : array-like of int of shape (n_times,), default=None
        Increasing numbers of rounds after which to compute the interval. `None`: after
        every round.

    Returns
    -------
    low, high : ndarray of shape (n_times,)
        NaN before `start`.

    Raises
    ------
    ValueError
        If there is no term, or `level`, `start` or `after` is not valid.

    References
    ----------
    .. [1] Waudby-Smith, I., Arbour, D., Sinha, R., Kennedy, E. H., & Ramdas, A. (2024).
       Time-uniform central limit theory and asymptotic confidence sequences. Annals of
       Statistics, 52(6).

    Examples
    --------
    >>> import numpy as np
    >>> from skope_ope.intervals import asymptotic_sequence
    >>> z = np.tile([0.0, 0.0, 2.0, 0.0], 1000)
    >>> low, high = asymptotic_sequence(z, start=1000, after=[500, 1000, 4000])
    >>> low.round(3), high.round(3)
    (array([  nan, 0.403, 0.458]), array([  nan, 0.597, 0.542]))
    """
    check_level(level)
    terms = as_numbers("z", z)
    if not len(terms):
        raise ValueError("z needs at least one term, got none.")
    after = after_rounds(after, len(terms))
    return AsymptoticBounds(level, start).take(terms, after)


class AsymptoticBounds:
    """Limits of the mean of terms, as rounds come in."""

    def __init__(self, level, start=FROM_ROUND):
        if not isinstance(start, Integral) or start < 2:
            raise ValueError(
                f"start must be a whole number of 2 or more, got {start!r}."
            )
        self.level, self.start = level, start
        self.n, self.shift = 0, None
        self.total = self.square = self.cube = 0.0  # of terms less the shift

    def take(self, z, after):
        """Take the terms of further rounds."""
        if self.shift is None:
            self.shift = float(z[0])  # squares about it keep their digits
        apart = z - self.shift
        totals = running_sums(self.total, apart)
        squares = running_sums(self.square, apart * apart)
        t = self.n + after
        self.n += len(z)
        self.total, self.square = float(totals[-1]), float(squares[-1])
        self.cube += dot(apart * apart, apart)
        mean = totals[after] / t
        variance = np.maximum(squares[after] / t - mean * mean, 0.0)
        half = np.where(t < self.start, math.nan, np.sqrt(variance) * self._width(t))
        return self.shift + mean - half, self.shift + mean + half

    @property
    def skewness(self):
        """Skewness of the mean of the terms so far; NaN where they are all alike."""
        mean = self.total / self.n
        spread = self.square - self.n * mean * mean
        if not spread > NO_SPREAD * self.square:
            return math.nan
        third = self.cube - 3 * mean * self.square + 2 * self.n * mean**3
        return third / spread**1.5

    def _width(self, t):
        """Return half the width of the interval after t rounds, for variance 1."""
        alpha = 1 - self.level
        best = self.start * math.log(max(self.start, math.e))
        rho2 = (-2 * math.log(alpha) + math.log1p(-2 * math.log(alpha))) / best
        grown = t * rho2 + 1
        return np.sqrt(grown * np.log(grown / alpha**2) / (t * t * rho2))
