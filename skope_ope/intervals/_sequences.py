# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Confidence sequences: by betting, by empirical Bernstein bounds, and asymptotic."""

from __future__ import annotations

import math
from numbers import Integral
from typing import NamedTuple

import numpy as np
from scipy.special import gammainc, gammaln, xlogy

from skope_ope._parallel import dot
from skope_ope._types import Array, ArrayLike
from skope_ope.intervals._confidence_interval import check_level
from skope_ope.intervals._finite_sample import (
    AT_BOUND,
    check_inside,
    check_rewards,
)
from skope_ope.logs._validation import as_numbers


class SequenceRounds(NamedTuple):
    """Rounds in the order of time, checked."""

    weight: np.ndarray
    reward: np.ndarray
    after: np.ndarray


def sequence_rounds(w, r, reward_range, level, after, max_weight=None):
    """Return `SequenceRounds`; raise where weights or rewards leave their bounds."""
    check_level(level)
    weight, reward, _ = check_rewards(w, r, reward_range)
    largest = math.inf
    if max_weight is not None:
        if not 1 <= max_weight < math.inf:
            raise ValueError(
                "max_weight must be a number of 1 or more, because weights average 1; "
                f"got {max_weight!r}."
            )
        largest = max_weight * (1 + AT_BOUND)
    remedy = (
        "Importance weights are not negative, and max_weight is the largest that any "
        "round can have, logged or not."
    )
    check_inside("w", weight, 0.0, largest, remedy)
    return SequenceRounds(weight, reward, after_rounds(after, len(weight)))


def after_rounds(after, n_rounds):
    """Return numbers of rounds after which an interval is wanted, checked."""
    if after is None:
        return np.arange(1, n_rounds + 1)
    after = np.asarray(after)
    rising = after.ndim == 1 and len(after) > 0 and bool((np.diff(after) > 0).all())
    if not rising or after.dtype.kind not in "iu":
        raise ValueError(
            "after must be rising numbers of rounds, such as [100, 200], got "
            f"{after.tolist()!r}."
        )
    if after[0] < 1 or after[-1] > n_rounds:
        raise ValueError(
            f"after must lie between 1 and {n_rounds}, the number of rounds, got "
            f"{after[0]} to {after[-1]}."
        )
    return after


def running_sums(before, values):
    """Return `before`, and the sums of it and the first values, one after the other."""
    sums = np.empty(len(values) + 1)
    sums[0], sums[1:] = before, values
    return np.cumsum(sums, out=sums)


# -- the boundary of a gamma-exponential mixture, which sums cross with small chance

STIRLING_FROM = 10.0  # from there four terms of the series give twelve digits
MIXTURE_STEPS = 60
NEWTON_TOLERANCE = 1e-13  # relative, of a step of Newton's method


def gamma_mixture_boundary(variation, needed, rho):
    r"""Return how far a centred sum must rise for its mixture to reach exp(needed)."""
    # If :math:`\exp(\lambda S_t - \psi(\lambda) V_t)`, with :math:`\psi(\lambda) =
    # -\ln(1 - \lambda) - \lambda`, is a supermartingale for every :math:`\lambda` in
    # [0, 1), so is its average over a gamma distribution of :math:`1 - \lambda` that is
    # cut at 1 [1]_:
    #
    # .. math:: \ln W(s, v) = s + v + \rho \ln \rho - a \ln(s + a)
    #     + \ln\gamma(a, s + a) - \ln\gamma(\rho, \rho), \qquad a = v + \rho,
    #
    # with the lower incomplete gamma function. It rises in s and is convex, so that
    # Newton's method finds the s with :math:`\ln W(s, v) = needed`.
    a = np.asarray(variation, dtype=np.float64) + rho
    rest = _stirling_rest(a)
    known = rest - _stirling_rest(np.asarray(rho)) - np.log(gammainc(rho, rho))
    # about the boundary of normal sums
    s = np.sqrt(a * (2 * needed + np.log(a / rho))) + needed
    for _ in range(MIXTURE_STEPS):
        share = gammainc(a, s + a)
        fall = s - a * np.log1p(s / a)
        density = np.exp(-rest - fall) / (s + a)  # of the gamma law, at s + a
        slope = s / (s + a) + density / share
        step = (fall + np.log(share) + known - needed) / slope
        s = np.maximum(s - step, 0.0)
        if np.all(np.abs(step) <= NEWTON_TOLERANCE * (1 + s)):
            break
    return s


def _stirling_rest(a):
    """Return ln Gamma(a) + a - a ln a, without the cancellation of large terms."""
    inverse = 1 / np.maximum(a, STIRLING_FROM)
    square = inverse * inverse
    series = 1 / 12 - square * (1 / 360 - square * (1 / 1260 - square / 1680))
    small = np.minimum(a, STIRLING_FROM)
    return np.where(
        a < STIRLING_FROM,
        gammaln(small) + small - xlogy(small, small),
        0.5 * np.log(2 * np.pi * inverse) + inverse * series,
    )


# -- the lower limit of a mean from the deviations of terms that are not negative ------

RHO = 10.0  # narrowest where squared deviations sum to about 100
PRIOR_TERM = 0.5  # a round of this term is counted with those that were seen


class EmpiricalBernsteinBound:
    """Lower limit of the mean of terms that are not negative, as rounds come in."""

    # It keeps three numbers, so that the result does not depend on how the rounds are
    # cut into parts.

    def __init__(self, needed, rho=RHO):
        self.needed, self.rho = needed, rho
        self.n, self.total, self.variation = 0, 0.0, 0.0

    def take(self, z, after):
        """Take the terms of further rounds."""
        totals = running_sums(self.total, z)
        rounds = np.arange(self.n + 1, self.n + len(z) + 1)
        known = (totals[:-1] + PRIOR_TERM) / rounds
        np.minimum(known, 1.0, out=known)  # or the process is no supermartingale
        variations = running_sums(self.variation, np.square(z - known, out=known))
        self.n += len(z)
        self.total, self.variation = float(totals[-1]), float(variations[-1])
        far = gamma_mixture_boundary(variations[after], self.needed, self.rho)
        return (totals[after] - far) / rounds[after - 1]


# -- the lower limit of a mean from fixed bets on terms that are not negative ----------

# Bets by factors of two: for terms about one that are seen 10 to 1e8 times. Those that
# suit thousands of rounds have the greatest shares of the capital.
POWERS = np.arange(-14, 7)
BETS = 2.0**POWERS
BET_SHARES = 1 / (1 + ((POWERS + 4) / 3) ** 2)
BET_SHARES /= BET_SHARES.sum()
BETTING_BLOCK = 1 << 12  # rounds: their bets fit the cache
BETTING_STEPS = 200


class BettingBound:
    """Lower limit of a mean from terms that are not negative, as rounds come in."""

    # There may be several terms a round: the mean of those of a kind is the one that is
    # sought, which is not negative, plus a known offset. Each kind gets the same share
    # of the capital.

    def __init__(self, needed, offsets=(0.0,)):
        self.needed = needed
        self.offsets = np.repeat(np.asarray(offsets, dtype=np.float64), len(BETS))
        self.bets = np.tile(BETS, len(offsets))
        shares = np.tile(BET_SHARES / len(offsets), len(offsets))
        self.growth = np.log(shares)  # of the capital, so far
        self.n, self.total = 0, 0.0

    def take(self, terms, after):
        """Take the terms of further rounds."""
        n_rounds, limits = len(terms[0]), []
        for start in range(0, n_rounds, BETTING_BLOCK):
            stop = min(start + BETTING_BLOCK, n_rounds)
            inside = after[(after > start) & (after <= stop)] - start
            block = [one[start:stop] for one in terms]
            limits.append(self._take_block(block, inside))
        return np.concatenate(limits)

    def _take_block(self, terms, after):
        """Take the terms of a few rounds."""
        size = len(terms[0])
        starts = np.unique([0, *after[after < size]])
        logs = np.concatenate([np.log(1 + np.outer(BETS, one)) for one in terms])
        pieces = np.add.reduceat(logs, starts, axis=1)
        growth = self.growth[:, None] + np.cumsum(pieces, axis=1)
        totals = self.total + np.cumsum(np.add.reduceat(terms[0], starts))
        self.growth, self.total = growth[:, -1], float(totals[-1])
        n, self.n = self.n, self.n + size
        if not len(after):
            return np.empty(0)
        places = np.arange(len(after))  # the piece that ends there
        return self._roots(growth[:, places], totals[places], n + after)

    def _roots(self, growth, totals, n):
        """Return the least means that the capital does not exclude."""
        # The logarithm of the capital falls with the mean and is convex. Steps of
        # Newton's method that leave the bracket are replaced by bisection.
        bets, offsets = self.bets[:, None], self.offsets[:, None]

        def surplus(mean):
            grown = 1 + bets * (offsets + mean)
            logs = growth - n * np.log(grown)
            most = logs.max(axis=0)
            parts = np.exp(logs - most)
            capital = parts.sum(axis=0)
            slope = -n * (parts * (bets / grown)).sum(axis=0) / capital
            return most + np.log(capital) - self.needed, slope

        low = np.zeros(len(n))
        high = np.maximum(totals / n - self.offsets[0], 0.0)  # there it is at most one
        at_zero, _ = surplus(low)
        mean = np.where(at_zero > 0, high, 0.0)
        high = mean.copy()
        for _ in range(BETTING_STEPS):
            value, slope = surplus(mean)
            low, high = np.where(value > 0, mean, low), np.where(value > 0, high, mean)
            step = mean - value / slope
            step = np.where((step >= low) & (step <= high), step, (low + high) / 2)
            moved, mean = np.abs(step - mean), step
            if np.all(moved <= NEWTON_TOLERANCE * (mean + self.offsets[0])):
                break
        return np.where(at_zero > 0, mean, 0.0)


# -- both limits of a value, or of a difference of two, from sequences of lower limits


class WeightedLimits:
    r"""Limits of the mean of weighted rewards, as rounds come in."""

    # With rewards scaled to [0, 1], :math:`w r` has the value V as its mean, and
    # :math:`w (1 - r)` has :math:`1 - V`: a lower limit of the second mean is an upper
    # one of the value. For the gain over a baseline with weights :math:`w_0 \le b` the
    # terms :math:`(w - w_0) r + b` and :math:`(w - w_0) (1 - r) + b` are not negative,
    # and have the means :math:`b + \Delta` and :math:`b - \Delta`.

    def __init__(
        self, method, level, reward_range, max_weight=None, baseline_bound=None, rho=RHO
    ):
        self.low, self.high = map(float, reward_range)
        self.max_weight = max_weight if method == "betting" else None
        # what is sought is the mean plus this, which is not negative
        self.raised = 0.0 if baseline_bound is None else 1.0
        self.floor = 0.0 if baseline_bound is None else float(baseline_bound)
        needed = math.log(2 / (1 - level))
        if method == "betting":
            offsets = [self.floor - self.raised]
            if max_weight is not None:
                offsets.append(max_weight - 1.0)
            self.bounds = [BettingBound(needed, offsets) for _ in range(2)]
        else:
            self.bounds = [EmpiricalBernsteinBound(needed, rho) for _ in range(2)]

    @property
    def ends(self):
        """Least and greatest value that there can be."""
        if self.raised:
            return self.low - self.high, self.high - self.low
        return self.low, self.high

    def take(self, weight, reward, after):
        """Take further rounds."""
        scale = self.high - self.low
        up = weight * ((reward - self.low) / scale)
        down = weight - up
        above = self._lower(self.bounds[0], up, down, after) - self.raised
        below = self._lower(self.bounds[1], down, up, after) - self.raised
        least, greatest = self.ends
        if self.raised:
            low, high = scale * above, -scale * below
        else:
            low, high = self.low + scale * above, self.high - scale * below
        crossed = low > high
        low, high = (np.clip(end, least, greatest) for end in (low, high))
        low[crossed] = high[crossed] = np.nan
        return low, high

    def _lower(self, bound, own, other, after):
        """Return the lower limit of the mean of terms, plus `raised`."""
        if isinstance(bound, BettingBound):
            terms = [own + self.floor]
            if self.max_weight is not None:
                terms.append(self.max_weight - other)
            return bound.take(terms, after)
        size = 1 + self.floor  # with it the mean of the terms is at most 1
        found = size * bound.take((own + self.floor) / size, after)
        return found - self.floor + self.raised


# -- betting confidence sequences: valid after every round, from fixed bets ------------


def betting_sequence(
    w: ArrayLike,
    r: ArrayLike,
    *,
    reward_range: tuple[float, float],
    level: float = 0.95,
    max_weight: float | None = None,
    after: ArrayLike | None = None,
) -> tuple[Array, Array]:
    r"""Return the betting confidence sequence of a policy's value.

    The bets are on terms :math:`y_i \ge 0` with conditional means :math:`x_i`. A bet
    that they are greater than m on average has the capital

    .. math:: W_t(m) = \sum_{k=-14}^{6} c_k \prod_{i \le t}
        \frac{1 + 2^k y_i}{1 + 2^k m}, \qquad
        c_k \propto \frac{1}{1 + (k + 4)^2 / 9}, \quad \sum_k c_k = 1,

    after t rounds [1]_. With :math:`m = (x_1 + \ldots + x_t) / t` it is at most a
    martingale that starts at one, because the logarithm is concave. With
    :math:`\alpha = 1 - level`, it reaches :math:`2 / \alpha` at any time with
    probability at most :math:`\alpha / 2` (Ville's inequality). So the least m for
    which it does not is a lower limit of that mean. The lower limit of the value uses
    :math:`y_i = w_i (r_i - r_{min}) / (r_{max} - r_{min})`, and the upper limit uses
    :math:`w_i (r_{max} - r_i) / (r_{max} - r_{min})`. With `max_weight`, half the
    capital bets on `max_weight` minus the terms of the other limit. These terms are not
    negative either.

    Both limits hold together after all rounds with probability `level`. This is true
    for every distribution of the rewards in their range, and for adaptive loggers with
    their propensities. The limits are for the mean of the values in the rounds so far:
    the value may change. If the logger never takes some action of the policy, the
    weights average less than 1. Without `max_weight` the limits then still hold, but
    are wider.

    The bets are fixed: 21 sums are all that is kept of the rounds, and each limit is
    one root. With uneven weights, the limits are narrower than those of
    :func:`empirical_bernstein_sequence`, whose capital is a lower bound of such
    products.

    Parameters
    ----------
    w : array-like of shape (n_rounds,)
        Importance weights in the order of time, not negative.
    r : array-like of shape (n_rounds,)
        Rewards. With weights of one, any terms in `reward_range`.
    reward_range : tuple (low, high)
        Range of the rewards.
    level : float, default=0.95
        Probability that all intervals cover, two-sided.
    max_weight : float, default=None
        Largest possible weight of any round, logged or not. `None`: unknown. It makes
        the limit far from the value narrower. It requires that the logger supports
        the policy: every action of the policy has a positive probability.
    after : array-like of int of shape (n_times,), default=None
        Increasing numbers of rounds after which to compute the interval. `None`: after
        every round.

    Returns
    -------
    low, high : ndarray of shape (n_times,)
        Within the range of the rewards. NaN if no value agrees with the rounds. Then
        the weights are wrong: they should average at most 1.

    Raises
    ------
    ValueError
        If a weight or a reward is outside its bounds (the message names the row). If
        there is no round, or `level` or `after` is not valid.

    References
    ----------
    .. [1] Waudby-Smith, I., & Ramdas, A. (2024). Estimating means of bounded random
       variables by betting. Journal of the Royal Statistical Society B, 86(1).

    Examples
    --------
    >>> import numpy as np
    >>> from skope_ope.intervals import betting_sequence
    >>> w = np.tile([0.0, 2.0], 1000)
    >>> r = np.tile([0.0, 1.0, 0.0, 0.0], 500)
    >>> low, high = betting_sequence(w, r, reward_range=(0, 1), after=[100, 2000])
    >>> low.round(3), high.round(3)
    (array([0.246, 0.438]), array([0.754, 0.562]))
    """
    rounds = sequence_rounds(w, r, reward_range, level, after, max_weight)
    limits = WeightedLimits("betting", level, reward_range, max_weight)
    return limits.take(*rounds)


# -- empirical Bernstein confidence sequences: valid after every round -----------------


def empirical_bernstein_sequence(
    w: ArrayLike,
    r: ArrayLike,
    *,
    reward_range: tuple[float, float],
    level: float = 0.95,
    after: ArrayLike | None = None,
    rho: float = RHO,
) -> tuple[Array, Array]:
    r"""Return the empirical Bernstein confidence sequence of a policy's value [1]_.

    The terms :math:`z_i = w_i (r_i - r_{min}) / (r_{max} - r_{min})` are not negative
    and need no upper bound. Let :math:`m_{i-1} \le 1` be any prediction of the next
    term from those before. With :math:`\psi(\lambda) = -\ln(1 - \lambda) - \lambda`,

    .. math:: \exp\Big( \lambda \sum_{i \le t} (z_i - \mu_i) - \psi(\lambda)
        \sum_{i \le t} (z_i - m_{i-1})^2 \Big), \qquad 0 \le \lambda < 1,

    is a supermartingale for the conditional means :math:`\mu_i`. So is its average over
    :math:`\lambda`, here a gamma-exponential mixture [2]_. With
    :math:`\alpha = 1 - level`, it reaches :math:`2 / \alpha` at any time with
    probability at most :math:`\alpha / 2`. That gives the lower limit. The terms
    :math:`w_i (r_{max} - r_i)` give the upper limit. The prediction is the mean of the
    terms before and of one term 1/2, cut at 1: above 1 the process is not a
    supermartingale.

    Both limits hold together after all rounds with probability `level`. This is true
    for every distribution of the rewards in their range, and for adaptive loggers with
    their propensities. The limits are for the mean of :math:`\mu_1, \ldots, \mu_t`: the
    value may change along the rounds. If the logger never takes some action of the
    policy, the weights average less than 1. The limits then still hold, but are wider.

    Parameters
    ----------
    w : array-like of shape (n_rounds,)
        Importance weights in the order of time, not negative.
    r : array-like of shape (n_rounds,)
        Rewards.
    reward_range : tuple (low, high)
        Range of the rewards.
    level : float, default=0.95
        Probability that all intervals cover, two-sided.
    after : array-like of int of shape (n_times,), default=None
        Increasing numbers of rounds after which to compute the interval. `None`: after
        every round.
    rho : float, default=10.0
        The sequence is narrowest when :math:`\sum (z_i - m_{i-1})^2` is about ten
        times `rho`.

    Returns
    -------
    low, high : ndarray of shape (n_times,)
        Within the range of the rewards. NaN if no value agrees with the rounds. Then
        the weights are wrong: they should average at most 1.

    Raises
    ------
    ValueError
        If a weight or a reward is outside its bounds (the message names the row). If
        there is no round, or `level`, `rho` or `after` is not valid.

    References
    ----------
    .. [1] Waudby-Smith, I., Wu, L., Ramdas, A., Karampatziakis, N., & Mineiro, P.
       (2024). Anytime-valid off-policy inference for contextual bandits. ACM/IMS
       Journal of Data Science, 1(3).
    .. [2] Howard, S. R., Ramdas, A., McAuliffe, J., & Sekhon, J. (2021). Time-uniform,
       nonparametric, nonasymptotic confidence sequences. Annals of Statistics, 49(2).

    Examples
    --------
    >>> import numpy as np
    >>> from skope_ope.intervals import empirical_bernstein_sequence
    >>> w = np.tile([0.0, 2.0], 1000)
    >>> r = np.tile([0.0, 1.0, 0.0, 0.0], 500)
    >>> low, high = empirical_bernstein_sequence(
    ...     w, r, reward_range=(0, 1), after=[100, 2000]
    ... )
    >>> low.round(3), high.round(3)
    (array([0.199, 0.433]), array([0.8  , 0.567]))
    """
    if not 0 < rho < math.inf:
        raise ValueError(f"rho must be a positive number, got {rho!r}.")
    rounds = sequence_rounds(w, r, reward_range, level, after)
    limits = WeightedLimits("empirical_bernstein", level, reward_range, rho=rho)
    return limits.take(*rounds)


# -- asymptotic sequences: for many rounds, without bounds of any kind -----------------

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
