# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Betting intervals: a coverage that holds for every number of rounds."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from scipy.optimize import brentq

from skope_ope.intervals._weighted_rewards import (
    check_bounded_terms,
    check_level,
    check_weighted_rewards,
)

if TYPE_CHECKING:
    from skope_ope._types import ArrayLike

SHARE = 0.5  # of the capital that one round may take at most


def betting_interval(
    z: ArrayLike, upper: float, level: float = 0.95, *, lower: float = 0.0
) -> tuple[float, float]:
    r"""Return the betting interval for the mean of bounded terms [1]_.

    The interval holds every value m against which neither of two bets multiplies its
    capital by :math:`2 / \alpha` at any round t:

    .. math:: \max_t \prod_{i \le t} (1 \pm \lambda_i^\pm(m)\, (z_i - m))
        < \frac{2}{\alpha}, \qquad \alpha = 1 - level,

    .. math:: \lambda_i^+ = \min\Big( \lambda_i, \frac{1}{2 (m - lower)} \Big), \quad
        \lambda_i^- = \min\Big( \lambda_i, \frac{1}{2 (upper - m)} \Big), \quad
        \lambda_i = \sqrt{\frac{2 \ln(2 / \alpha)}{n\, \hat\sigma^2_{i - 1}}},

    with the variance :math:`\hat\sigma^2_{i - 1}` of the terms before round i about
    their running means. One term in the middle of the bounds is counted with them; its
    standard deviation is half the range. If m is the mean, no bet wins on average. The
    capital then gets that large with probability at most :math:`\alpha / 2` (Ville's
    inequality). So the interval covers with at least `level`, for every n and every
    distribution within the bounds. The capital of the first bet decreases in m and that
    of the second increases, so each end is one root.

    The result depends on the order of the terms, because bets use earlier rounds. Use
    the logged order, or shuffle the terms. An order that depends on the terms is not
    valid, such as a log that is sorted by its rewards.

    Parameters
    ----------
    z : array-like of shape (n_rounds,)
        Terms, each with the same mean given the terms before. They can come from
        independent rounds, or from an adaptive logger with its propensities.
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
        term, or `level` is not in (0, 1). Also if the interval is empty, because the
        mean changed along the rounds.

    References
    ----------
    .. [1] Waudby-Smith, I., & Ramdas, A. (2024). Estimating means of bounded random
       variables by betting. Journal of the Royal Statistical Society B, 86(1).

    Examples
    --------
    >>> import numpy as np
    >>> from skope_ope.intervals import betting_interval
    >>> z = np.tile([0.0, 0.0, 2.0, 0.0, 1.0], 100)
    >>> low, high = betting_interval(z, 4)
    >>> round(low, 3), round(high, 3)
    (0.507, 0.7)
    """
    check_level(level)
    terms, lower, upper = check_bounded_terms(z, lower, upper)
    return _limits(terms, np.ones(len(terms)), 1.0, (lower, upper), level)


def betting_ratio_interval(
    w: ArrayLike,
    r: ArrayLike,
    *,
    max_weight: float,
    reward_range: tuple[float, float],
    level: float = 0.95,
) -> tuple[float, float]:
    r"""Return the betting interval for a self-normalised value.

    If v is the policy's value, :math:`w_i (r_i - v)` has mean zero and lies between
    :math:`-w_{max} (v - r_{min})` and :math:`w_{max} (r_{max} - v)`. The interval holds
    every v for which neither bet on the sign of these terms multiplies its capital by
    :math:`2 / \alpha`. The bets are those of :func:`betting_interval`, about running
    ratios :math:`\sum w r / \sum w`. Its notes on coverage and order hold here, too.
    The interval lies in the range of the rewards. Adding a constant to all rewards and
    their range adds it to both ends.

    Parameters
    ----------
    w : array-like of shape (n_rounds,)
        Importance weights, not negative.
    r : array-like of shape (n_rounds,)
        Rewards.
    max_weight : float
        Largest possible weight of any round, logged or not. At least 1.
    reward_range : tuple (low, high)
        Range of the rewards.
    level : float, default=0.95
        Coverage, two-sided.

    Returns
    -------
    low, high : float

    Raises
    ------
    ValueError
        If a weight or a reward is outside its bounds (the message names the row). If
        there is no round, or `level` is not in (0, 1). Also if the interval is empty,
        because the mean changed along the rounds.

    Examples
    --------
    >>> import numpy as np
    >>> from skope_ope.intervals import betting_ratio_interval
    >>> w = np.tile([0.0, 2.0], 200)
    >>> r = np.tile([0.0, 1.0, 0.0, 0.0], 100)
    >>> low, high = betting_ratio_interval(w, r, max_weight=2, reward_range=(0, 1))
    >>> round(low, 3), round(high, 3)
    (0.406, 0.594)
    """
    check_level(level)
    rounds = check_weighted_rewards(w, r, max_weight, 0.0, reward_range)
    value_range = (rounds.low, rounds.high)
    product = rounds.weight * rounds.reward
    return _limits(product, rounds.weight, rounds.max_weight, value_range, level)


def _limits(product, weight, max_weight, value_range, level):
    """Interval for v where product - v weight has mean 0; weights in [0, max]."""
    # In a round the terms lie between -max_weight (v - low) and max_weight (high - v).
    low, high = value_range
    needed = math.log(2 / (1 - level))
    bets = _bets(product, weight, max_weight, value_range, needed)

    def surplus(value, sign):
        """Log of the greatest capital of a bet on terms of this sign."""
        # What a round can lose at most has the other sign.
        loss = max_weight * (value - low if sign > 0 else high - value)
        bet = np.minimum(bets, SHARE / loss) if loss > 0 else bets
        gains = np.log1p(sign * bet * (product - value * weight))
        return max(np.cumsum(gains).max(), 0.0) - needed

    width = 1e-13 * max(high - low, abs(low), abs(high))
    ends = [
        brentq(surplus, low, high, args=(sign,), xtol=width)
        if surplus(end, sign) > 0
        else end
        for end, sign in ((low, 1), (high, -1))
    ]
    if ends[0] > ends[1] + 4 * width:
        raise ValueError(
            "no value agrees with the rounds: they exclude all values below "
            f"{ends[0]:.6g} and all above {ends[1]:.6g}. The mean changed along the "
            "rounds, or the rounds are sorted by their rewards. Use the order in which "
            "they were logged, or shuffle them."
        )
    return float(ends[0]), float(ends[1])


def _bets(product, weight, max_weight, value_range, needed):
    """Bet of every round on the size of its term, made from the rounds before it."""
    low, high = value_range
    largest = max_weight * (high - low)
    rounds = np.arange(1, len(product) + 1)
    value = ((low + high) / 2 + np.cumsum(product)) / (1 + np.cumsum(weight))
    square = np.cumsum((product - value * weight) ** 2)
    variance = (largest**2 / 4 + square) / (rounds + 1)
    known = np.append(largest**2 / 4, variance[:-1])
    return np.sqrt(2 * needed / (len(product) * known))
