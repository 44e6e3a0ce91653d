# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Hoeffding's interval: from the range of the terms alone."""

from __future__ import annotations

from math import log, sqrt
from typing import TYPE_CHECKING

from skope_ope.intervals._weighted_rewards import check_bounded_terms, check_level

if TYPE_CHECKING:
    from skope_ope._types import ArrayLike


def hoeffding_interval(
    z: ArrayLike, upper: float, level: float = 0.95, *, lower: float = 0.0
) -> tuple[float, float]:
    r"""Return Hoeffding's interval for the mean of bounded terms [1]_.

    .. math:: \bar z \pm (upper - lower) \sqrt{\frac{\ln(2 / \alpha)}{2 n}},
        \qquad \alpha = 1 - level.

    It covers with at least `level`, for every n and every distribution within the
    bounds. Its width does not depend on the variance of the terms. The limits are not
    cut at the bounds.

    Parameters
    ----------
    z : array-like of shape (n_rounds,)
        Independent terms with the same mean.
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
        If a term is outside its bounds (the message names the row). If there is no
        term, or `level` is not in (0, 1).

    See Also
    --------
    empirical_bernstein_interval : Narrower if the variance is small for the range.
    betting_interval : The same guarantee, and nearly always narrower.

    References
    ----------
    .. [1] Hoeffding, W. (1963). Probability inequalities for sums of bounded random
       variables. Journal of the American Statistical Association, 58(301).

    Examples
    --------
    >>> import numpy as np
    >>> from skope_ope.intervals import hoeffding_interval
    >>> z = np.tile([0.0, 0.0, 2.0, 0.0, 1.0], 100)
    >>> low, high = hoeffding_interval(z, 4)
    >>> round(low, 3), round(high, 3)
    (0.357, 0.843)
    """
    check_level(level)
    terms, lower, upper = check_bounded_terms(z, lower, upper)
    value = float(terms.mean())
    half = (upper - lower) * sqrt(log(2 / (1 - level)) / (2 * len(terms)))
    return value - half, value + half
