# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Intervals that hold for every number of rounds, and checks of known bounds."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from math import expm1, isfinite, log, sqrt
from numbers import Integral

import numpy as np
from scipy.optimize import brentq
from scipy.special import betaincinv

from skope_ope._types import ArrayLike
from skope_ope.intervals._confidence_interval import check_level
from skope_ope.logs._validation import as_numbers

AT_BOUND = 1e-9  # relative: a weight beyond its bound by less is at the bound


@dataclass(frozen=True)
class WeightedRewards:
    """Rounds with importance weights and rewards, and what is known of both."""

    weight: np.ndarray
    reward: np.ndarray
    # Bounds of the weights, ``min_weight <= 1 <= max_weight``; both are 1 where one of
    # them is, for weights that average 1 are then all 1
    min_weight: float
    # Bounds of the weights, ``min_weight <= 1 <= max_weight``; both are 1 where one of
    # them is, for weights that average 1 are then all 1
    max_weight: float
    low: float  # range of the rewards
    high: float  # range of the rewards

    @property
    def reversed(self):
        """The same rounds with the sign of the rewards turned."""
        return replace(self, reward=-self.reward, low=-self.high, high=-self.low)

    def smallest_term(self, weight):
        """Smallest product of `weight` and a reward in the range."""
        return np.minimum(weight * self.low, weight * self.high)

    def inside(self, value):
        """Return `value`, moved into the range of the rewards."""
        return float(min(max(value, self.low), self.high))


def check_weighted_rewards(w, r, max_weight, min_weight, reward_range):
    """Return `WeightedRewards`; raise where the bounds are none."""
    weight, reward, (low, high) = check_rewards(w, r, reward_range)
    smallest, largest = _check_weight_bounds(min_weight, max_weight)
    remedy = (
        "max_weight and min_weight are the largest and the smallest possible weight of "
        "any round, logged or not. Weights average 1, so if one bound is 1, all "
        "weights are 1; otherwise the logger never takes some actions of the policy."
    )
    slack = AT_BOUND * max(largest, 1.0)
    check_inside("w", weight, smallest - slack, largest + slack, remedy)
    weight = np.clip(weight, smallest, largest)
    return WeightedRewards(weight, reward, smallest, largest, low, high)


def check_rewards(w, r, reward_range):
    """Return weights, rewards and their finite range; raise where they leave it."""
    weight, reward = check_terms(w, r)
    low, high = check_range("reward_range", reward_range)
    check_inside("r", reward, low, high, "State the range that rewards can have.")
    return weight, reward, (low, high)


def check_terms(w, r):
    """Return weights and rewards as arrays; raise where they are not of rounds."""
    weight, reward = as_numbers("w", w), as_numbers("r", r)
    if not len(weight) or len(weight) != len(reward):
        raise ValueError(
            "w and r need one entry per round and at least one round, got "
            f"{len(weight)} and {len(reward)}."
        )
    return weight, reward


def check_pair(name, bounds):
    """Return two numbers."""
    try:
        low, high = (float(bound) for bound in bounds)
    except (TypeError, ValueError):
        raise TypeError(f"{name} must be a pair (low, high), got {bounds!r}.") from None
    return low, high


def check_range(name, bounds):
    """Return two finite numbers, the first of which is less."""
    low, high = check_pair(name, bounds)
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise ValueError(
            f"{name} must be two finite numbers, the first less than the second, got "
            f"({low}, {high})."
        )
    return low, high


def check_bounded_terms(z, lower, upper):
    """Return terms and their bounds as numbers; raise where the bounds are none."""
    terms = as_numbers("z", z)
    if not len(terms):
        raise ValueError("z needs at least one term, got none.")
    lower, upper = check_range("(lower, upper)", (lower, upper))
    check_inside("z", terms, lower, upper, "The bounds are those of every round.")
    return terms, lower, upper


def check_inside(name, values, low, high, remedy):
    """Raise, naming the row, if an entry leaves [low, high]."""
    outside = (values < low) | (values > high)
    if outside.any():
        row = int(np.argmax(outside))
        raise ValueError(
            f"{name} has {outside.sum()} entries outside [{low:.6g}, {high:.6g}], the "
            f"first {float(values[row])!r} in row {row}. {remedy}"
        )


def _check_weight_bounds(min_weight, max_weight):
    smallest, largest = float(min_weight), float(max_weight)
    if not (math.isfinite(smallest) and math.isfinite(largest)):
        raise ValueError(
            "min_weight and max_weight must be finite, got "
            f"{min_weight!r} and {max_weight!r}."
        )
    if not smallest <= 1 <= largest * (1 + AT_BOUND):
        raise ValueError(
            "min_weight must be at most 1 and max_weight at least 1, as weights "
            f"average 1; got {smallest} and {largest}."
        )
    if smallest < 1 - AT_BOUND and largest > 1 + AT_BOUND:
        return smallest, largest
    return 1.0, 1.0


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
