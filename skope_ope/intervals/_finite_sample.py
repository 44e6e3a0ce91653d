# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Intervals that hold for every number of rounds."""

from __future__ import annotations

import math
from math import expm1, isfinite, log, sqrt
from numbers import Integral

import numpy as np
from scipy.optimize import brentq
from scipy.special import betaincinv

from skope_ope._types import ArrayLike
from skope_ope.intervals._weighted_rewards import (
    check_bounded_terms,
    check_inside,
    check_level,
    check_pair,
    check_terms,
    check_weighted_rewards,
)


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


# -- the empirical Bernstein interval: from the spread of the terms and their range


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


# -- the exact interval for a probability ----------------------------------------------


def clopper_pearson_interval(
    successes: int, n: int, level: float = 0.95
) -> tuple[float, float]:
    r"""Return the Clopper-Pearson interval for a probability [1]_.

    .. math:: \left[ B_{\alpha/2}(k, n - k + 1),\;
        B_{1 - \alpha/2}(k + 1, n - k) \right], \qquad \alpha = 1 - level,

    with quantiles :math:`B` of the beta distribution; 0 and 1 at the ends. It covers
    the probability with at least `level`, for every n.

    Parameters
    ----------
    successes : int
        Number k of successes.
    n : int
        Number of independent trials.
    level : float, default=0.95
        Coverage, two-sided.

    Returns
    -------
    low, high : float

    References
    ----------
    .. [1] Clopper, C. J., & Pearson, E. S. (1934). The use of confidence or fiducial
       limits illustrated in the case of the binomial. Biometrika, 26(4).

    Examples
    --------
    >>> from skope_ope.intervals import clopper_pearson_interval
    >>> low, high = clopper_pearson_interval(7, 20)
    >>> round(low, 6), round(high, 6)
    (0.153909, 0.592189)
    """
    for name, count in (("successes", successes), ("n", n)):
        if not isinstance(count, Integral):
            raise TypeError(f"{name} must be a count, got {count!r}.")
    if n < 1 or not 0 <= successes <= n:
        raise ValueError(
            f"successes must lie in 0..n with n at least 1, got {successes} of {n}."
        )
    check_level(level)
    tail = (1 - level) / 2
    low = betaincinv(successes, n - successes + 1, tail) if successes else 0.0
    high = betaincinv(successes + 1, n - successes, 1 - tail) if successes < n else 1.0
    return float(low), float(high)


# -- the log smoothing interval: limits that need no bound on the weights --------------


def log_smoothing_interval(
    w: ArrayLike,
    r: ArrayLike,
    *,
    reward_range: tuple[float, float],
    level: float = 0.95,
    lam: float | None = None,
) -> tuple[float, float]:
    r"""Return the log smoothing interval for a policy's value [1]_.

    For the terms :math:`z_i = w_i (r_i - r_{min}) \ge 0` and any :math:`\lambda > 0`
    that was fixed before the rounds were seen, each of

    .. math:: V \ge r_{min} + \frac1\lambda \left( \exp \Big(
        \frac1n \sum_i \ln(1 + \lambda z_i) - \frac{\ln(2 / \alpha)}{n} \Big)
        - 1 \right), \qquad \alpha = 1 - level,

    and the same from above, with :math:`w_i (r_{max} - r_i)`, fails with probability
    :math:`\alpha / 2` at most: the product of :math:`1 + \lambda z_i` has a mean of at
    most :math:`(1 + \lambda (V - r_{min}))^n`, and Markov's inequality does the rest.
    The interval covers with at least `level`, for every n and weights of any size. The
    policy may also take actions that the logger never takes: these can only add to the
    terms' mean. It is about the value of the policy; an estimate may lie outside.

    With a known range :math:`\lambda` belongs to rewards measured by its length, so
    that the interval moves with the unit of the rewards.

    Parameters
    ----------
    w : array-like of shape (n_rounds,)
        Importance weights of independent rounds, none of them negative.
    r : array-like of shape (n_rounds,)
        Rewards.
    reward_range : tuple (low, high)
        Range of the rewards. An end that is not known, -inf or inf, has an infinite
        limit.
    level : float, default=0.95
        Coverage, two-sided.
    lam : float, default=None
        Smoothing, above 0. It must not be chosen by the rounds. `None`:
        :math:`1 / \sqrt n`.

    Returns
    -------
    low, high : float

    Raises
    ------
    ValueError
        If a weight is negative, or a reward is outside its range (the message names the
        row). If there is no round, or `level` is not in (0, 1). If no value is
        possible, because the weights are wrong.

    References
    ----------
    .. [1] Sakhi, O., Aouali, I., Alquier, P., & Chopin, N. (2024). Logarithmic
       smoothing for pessimistic off-policy evaluation, selection and learning.
       NeurIPS.

    Examples
    --------
    >>> import numpy as np
    >>> from skope_ope.intervals import log_smoothing_interval
    >>> w = np.tile([0.0, 2.0], 200)
    >>> r = np.tile([0.0, 1.0, 0.0, 0.0], 100)
    >>> low, high = log_smoothing_interval(w, r, reward_range=(0, 1))
    >>> round(low, 3), round(high, 3)
    (0.294, 0.706)
    """
    check_level(level)
    weight, reward, low, high = _checked_half_bounded(w, r, reward_range)
    n = len(weight)
    if lam is None:
        lam = 1 / sqrt(n)
    elif not 0 < lam < float("inf"):
        raise ValueError(f"lam must be a positive number, got {lam!r}.")
    unit = high - low if isfinite(high - low) else 1.0
    price = log(2 / (1 - level)) / n

    def least(excess):
        """Return the lower limit of the mean of terms that are not negative."""
        smoothed = np.log1p(lam * (weight * excess) / unit).mean()
        return float(unit * expm1(smoothed - price) / lam)

    below = low + least(reward - low) if isfinite(low) else low
    above = high - least(high - reward) if isfinite(high) else high
    if below > above:
        raise ValueError(
            "no value agrees with the rounds: they exclude all values below "
            f"{below:.6g} and all above {above:.6g}. Importance weights should average "
            f"one, but these average {weight.mean():.6g}. Check the propensities."
        )
    return max(below, low), min(above, high)


def _checked_half_bounded(w, r, reward_range):
    """Get weights, rewards and the ends of their range; raise where they are none."""
    # At least one end of the range is finite.
    weight, reward = check_terms(w, r)
    low, high = check_pair("reward_range", reward_range)
    if not low < high or not (isfinite(low) or isfinite(high)):
        raise ValueError(
            "reward_range must be two numbers, the first less than the second and at "
            f"least one of them finite, got ({low}, {high})."
        )
    check_inside("r", reward, low, high, "State the range that rewards can have.")
    remedy = "Importance weights are not negative; those of the pseudoinverse may be."
    check_inside("w", weight, 0.0, float("inf"), remedy)
    return weight, reward, low, high


# -- betting intervals: a coverage that holds for every number of rounds ---------------

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
