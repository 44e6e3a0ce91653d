# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""The empirical Bernstein interval: from the spread of the terms and their range."""

from __future__ import annotations

from math import log, sqrt
from typing import TYPE_CHECKING

from skope_ope.intervals._weighted_rewards import check_bounded_terms, check_level

if TYPE_CHECKING:
    from skope_ope._types import ArrayLike


def empirical_bernstein_interval(
    z: ArrayLike, upper: float, level: float = 0.95, *, lower: float = 0.0
) -> tuple[float, float]:
    r"""Return the empirical Bernstein interval for the mean of bounded terms [1]_.

    .. math:: \bar z \pm \left( \sqrt{\frac{2 s^2 \ln(4 / \alpha)}{n}}
        + \frac{7 (upper - lower) \ln(4 / \alpha)}{3 (n - 1)} \right),
        \qquad \alpha = 1 - level,

    with the sample variance :math:`s^2` (ddof 1). It covers with at least `level`, for
    every n and every distribution within the bounds. With many terms the first part
    dominates, which uses their variance. With few terms the second part dominates, and
    the interval is wider than Hoeffding's. The limits are not cut at the bounds.

    Parameters
    ----------
    z : array-like of shape (n_rounds,)
        Independent terms with the same mean, at least two.
    upper : float
        Greatest possible value of a term: for IPS, `max_weight` times the greatest
        possible reward. It is not the greatest value in the log.
    level : float, default=0.95
        Coverage, two-sided.
    lower : float, default=0.0
        Least possible value of a term.

    Returns
    -------
    low, high : float

    Raises
    ------
    ValueError
        If a term is outside its bounds (the message names the row). If there are fewer
        than two terms, or `level` is not in (0, 1).

    See Also
    --------
    hoeffding_interval : Uses the range alone; also for a single term.
    betting_interval : The same guarantee, and nearly always narrower.

    References
    ----------
    .. [1] Maurer, A., & Pontil, M. (2009). Empirical Bernstein bounds and sample
       variance penalization. COLT, Theorem 4.

    Examples
    --------
    >>> import numpy as np
    >>> from skope_ope.intervals import empirical_bernstein_interval
    >>> z = np.tile([0.0, 0.0, 2.0, 0.0, 1.0], 100)
    >>> low, high = empirical_bernstein_interval(z, 4)
    >>> round(low, 3), round(high, 3)
    (0.412, 0.788)
    """
    check_level(level)
    terms, lower, upper = check_bounded_terms(z, lower, upper)
    n = len(terms)
    if n < 2:
        raise ValueError(
            "the empirical Bernstein interval needs at least two terms, got one. Use "
            "hoeffding_interval."
        )
    value, spread, needed = terms.mean(), terms.std(ddof=1), log(4 / (1 - level))
    half = spread * sqrt(2 * needed / n) + 7 * (upper - lower) * needed / (3 * (n - 1))
    return float(value - half), float(value + half)
