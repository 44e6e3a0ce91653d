# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Bootstrap intervals: what other samples of the same rounds would have said."""

from __future__ import annotations

from math import ceil, sqrt
from numbers import Integral
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from sklearn.utils import check_random_state

from skope_ope.intervals._resampling import Draws, Resampling
from skope_ope.intervals._weighted_rewards import check_level
from skope_ope.logs._factorise import factorise
from skope_ope.logs._validation import as_numbers, check_labels

if TYPE_CHECKING:
    from skope_ope._types import ArrayLike, RandomSeed

USUAL = 2000  # resamples
BEYOND = 25  # resamples beyond each limit, where their number is not given
LARGEST_SEED = 2**31 - 1


def bootstrap_interval(
    z: ArrayLike,
    level: float = 0.95,
    *,
    divisor: ArrayLike | None = None,
    group: ArrayLike | None = None,
    block_length: int | None = None,
    n_resamples: int | None = None,
    random_state: RandomSeed = 0,
    n_jobs: int | None = None,
) -> tuple[float, float]:
    r"""Return the studentised bootstrap interval of a mean or of a ratio [1]_.

    Each resample is drawn from the rounds with replacement. It gives a value
    :math:`\hat V^*` with its own standard error :math:`se^*`. The quantiles of
    :math:`t^* = (\hat V^* - \hat V) / se^*` replace Student's:

    .. math:: \left[ \hat V - t^*_{1 - \alpha/2}\, se,\;
        \hat V - t^*_{\alpha/2}\, se \right], \qquad \alpha = 1 - level,

    so that the limits follow the skewness of the rounds. The value is
    :math:`\hat V = \sum_i z_i / \sum_i d_i`, with numerator and denominator from the
    same resample. Resamples without a standard error are left out.

    Up to 8,192 units are drawn with replacement. With more, every unit gets an
    independent Poisson count of mean one. The size of a resample then varies by about
    one percent.

    Parameters
    ----------
    z : array-like of shape (n_rounds,)
        Terms.
    level : float, default=0.95
        Coverage, two-sided. It holds for many rounds.
    divisor : array-like of shape (n_rounds,), default=None
        Terms d of the denominator: the importance weights, for SNIPS. `None`: ones.
    group : array-like of shape (n_rounds,), default=None
        Labels of groups whose rounds depend on each other: whole groups are drawn.
    block_length : int, default=None
        Draw blocks of this many consecutive rounds (moving blocks [2]_). Use it if
        rounds depend on the rounds shortly before.
    n_resamples : int, default=None
        Number of resamples. `None`: 2,000, or enough for 25 beyond each limit.
    random_state : int, RandomState instance or None, default=0
        Seed of the draws.
    n_jobs : int, default=None
        Number of threads, used for more than 8,192 units. The limits do not depend on
        it.

    Returns
    -------
    low, high : float

    Raises
    ------
    ValueError
        If there are fewer than two rounds, groups or blocks. If the denominator is not
        positive. If the resamples are too few for the level.

    See Also
    --------
    percentile_interval : The quantiles of the values of the resamples.

    References
    ----------
    .. [1] Efron, B., & Tibshirani, R. (1993). An introduction to the bootstrap,
       chapter 12. Chapman & Hall.
    .. [2] Kuensch, H. R. (1989). The jackknife and the bootstrap for general
       stationary observations. Annals of Statistics 17(3).

    Examples
    --------
    >>> import numpy as np
    >>> from skope_ope.intervals import bootstrap_interval
    >>> z = np.tile([0.0, 0.0, 2.0, 0.0, 1.0], 100)
    >>> low, high = bootstrap_interval(z)
    >>> bool(0.52 < low < 0.54 and 0.66 < high < 0.68)
    True
    """
    given = divisor, group, block_length, n_resamples, random_state, n_jobs
    return _interval(z, level, True, *given)


def percentile_interval(
    z: ArrayLike,
    level: float = 0.95,
    *,
    divisor: ArrayLike | None = None,
    group: ArrayLike | None = None,
    block_length: int | None = None,
    n_resamples: int | None = None,
    random_state: RandomSeed = 0,
    n_jobs: int | None = None,
) -> tuple[float, float]:
    r"""Return the percentile bootstrap interval of a mean or of a ratio.

    .. math:: \left[ \hat V^*_{\alpha/2},\; \hat V^*_{1 - \alpha/2} \right],
        \qquad \alpha = 1 - level,

    the quantiles of the values of the resamples of :func:`bootstrap_interval`. It is
    simpler, but covers less often if rounds are few or skewed. The long tail of the
    resamples is on the wrong side.

    Parameters
    ----------
    z : array-like of shape (n_rounds,)
        Terms.
    level : float, default=0.95
        Coverage, two-sided. It holds for many rounds.
    divisor : array-like of shape (n_rounds,), default=None
        Terms of the denominator. `None`: ones.
    group : array-like of shape (n_rounds,), default=None
        Labels of groups whose rounds depend on each other: groups are drawn.
    block_length : int, default=None
        Draw blocks of this many consecutive rounds.
    n_resamples : int, default=None
        Number of resamples. `None`: 2,000, or enough for 25 beyond each limit.
    random_state : int, RandomState instance or None, default=0
        Seed of the draws.
    n_jobs : int, default=None
        Number of threads, used for more than 8,192 units. The limits do not depend on
        it.

    Returns
    -------
    low, high : float

    Raises
    ------
    ValueError
        As `bootstrap_interval`.

    Examples
    --------
    >>> import numpy as np
    >>> from skope_ope.intervals import percentile_interval
    >>> z = np.tile([0.0, 0.0, 2.0, 0.0, 1.0], 100)
    >>> low, high = percentile_interval(z)
    >>> bool(0.52 < low < 0.54 and 0.66 < high < 0.68)
    True
    """
    given = divisor, group, block_length, n_resamples, random_state, n_jobs
    return _interval(z, level, False, *given)


def _interval(z, level, studentized, divisor, group, length, n_resamples, seed, n_jobs):
    check_level(level)
    terms = as_numbers("z", z)
    below = np.ones(len(terms)) if divisor is None else as_numbers("divisor", divisor)
    if len(below) != len(terms):
        raise ValueError(
            f"divisor must have one entry per term ({len(terms)}), got {len(below)}."
        )
    columns = [terms, below]
    if group is not None:
        if length is not None:
            raise ValueError("give group or block_length, not both.")
        _, codes = factorise(check_labels("group", group))
        columns = [np.bincount(codes, column) for column in columns]
    units = Units(len(columns[0]), "groups" if group is not None else "rounds", length)
    mass = below.sum()
    if not mass > 0:
        raise ValueError(f"divisor must have a positive sum, got {mass:.6g}.")
    n_resamples = number_of_resamples(n_resamples, level)
    draws = units.draws(n_resamples, seed_of(seed))
    pairs = [(0, 0), (1, 0), (1, 1)] if studentized else []
    sums = Resampling(2, pairs, draws, units.length, n_jobs)
    sums.add(columns)
    mean = Statistic(lambda m: (m[0], (1.0,)), [0.0], [1 / mass], [mass])
    found = resampled(sums.finish(), [(1, mean)], pairs, units)
    return found.limits(columns[0].sum() / mass, level, studentized)


class Units:
    """What a resample is drawn from."""

    def __init__(self, n, name, block_length=None, sample=None):
        self.length, self.sample, self.n_drawn = 1, sample, None
        self.n, self.spread = n, 1.0
        if n < 2:
            raise ValueError(
                f"a bootstrap needs two {name} at least, got {n}: every resample would "
                "be the same."
            )
        if block_length is None:
            return
        if not isinstance(block_length, Integral) or block_length < 1:
            raise ValueError(
                f"block_length must be a number of rounds, 1 or more, got "
                f"{block_length!r}."
            )
        self.length = int(block_length)
        if 2 * self.length > n:
            raise ValueError(
                f"block_length={block_length} is too long for {n} rounds: a resample "
                "needs two blocks at least."
            )
        self.n, self.n_drawn = n - self.length + 1, round(n / self.length)
        # the sums over all blocks once are those of so many logs
        self.spread = sqrt(self.n * self.length / n)

    def draws(self, n_resamples, seed):
        """Return the `Draws` of the units."""
        return Draws(self.n, n_resamples, seed, self.sample, self.n_drawn)


def number_of_resamples(n_resamples, level):
    """Return how many resamples there are; raise where the level needs more."""
    tail = (1 - level) / 2
    if n_resamples is None:
        return max(USUAL, ceil(BEYOND / tail))
    if not isinstance(n_resamples, Integral) or n_resamples < 1:
        raise ValueError(f"n_resamples must be a positive int, got {n_resamples!r}.")
    if n_resamples * tail < 1:
        raise ValueError(
            f"n_resamples={n_resamples} are too few for level={level:.6g}. Use at "
            f"least {1 / tail:.0f}, which put one beyond each limit; "
            f"{BEYOND / tail:.0f} are enough to estimate the limits well."
        )
    return int(n_resamples)


def seed_of(random_state):
    """Return a seed, for draws that are the same whenever it is."""
    return int(check_random_state(random_state).randint(LARGEST_SEED))


class Statistic:
    r"""A function of means as one of sums of columns over strata, with its slopes."""

    # The columns of stratum s are the sums of k terms about their origin, and the mass.
    # A round counts :math:`\lambda_s`; strata that share a centre keep their mass in a
    # resample, whatever it draws from them:
    #
    # .. math:: \hat V^* = f\Big( \sum_s \lambda^*_s X^*_s \Big), \qquad
    #     \lambda^*_s = \lambda_s \frac{\sum_c \lambda M}{\sum_c \lambda M^*}, \qquad
    #     b^*_s = \lambda^*_s (\nabla f, -\nabla f^T c^*_s).

    def __init__(
        self, combine, origin, weight, mass, centre=None, kappa=None, offset=0.0
    ):
        self.combine, self.offset = combine, offset
        self.origin = np.asarray(origin, dtype=float)
        self.weight, self.mass = np.asarray(weight, float), np.asarray(mass, float)
        n = self.n_strata = len(self.weight)
        self.centre = np.zeros(n, dtype=int) if centre is None else np.asarray(centre)
        self.kappa = np.ones(n) if kappa is None else np.asarray(kappa, dtype=float)

    @property
    def n_columns(self):
        """Number of columns, k + 1 for every stratum."""
        return self.n_strata * (len(self.origin) + 1)

    def of(self, sums):
        """Return f and its slopes."""
        k = len(self.origin)
        x = sums.reshape(len(sums), self.n_strata, k + 1)
        kept = self._by_centre(self.weight * self.mass)
        weight = self.weight * kept / self._by_centre(self.weight * x[:, :, k])
        x = weight[:, :, None] * x
        means = x[:, :, :k].sum(axis=1)
        means += self.origin * x[:, :, k].sum(axis=1, keepdims=True)
        values, gradient = np.empty(len(sums)), np.empty((len(sums), k))
        for i, m in enumerate(means.tolist()):
            try:
                values[i], gradient[i] = self.combine(m)
            except ZeroDivisionError:
                values[i] = gradient[i] = np.nan
        line = np.einsum("bsk,bk->bs", x[:, :, :k], gradient)
        centre = self._by_centre(line) / self._by_centre(x[:, :, k])
        slopes = np.empty_like(x)
        slopes[:, :, :k], slopes[:, :, k] = gradient[:, None], -centre
        slopes *= (self.kappa * weight)[:, :, None]
        return values + self.offset, slopes.reshape(sums.shape)

    def _by_centre(self, values):
        """Sum over the strata that share a centre, for each of them."""
        if self.n_strata == 1:
            return values
        return values @ (self.centre[:, None] == self.centre).astype(float)


class Resampled(NamedTuple):
    """A value, its standard error, and those of the resamples."""

    value: float
    error: float
    values: np.ndarray
    errors: np.ndarray

    @property
    def usable(self):
        """Resamples that have a value and a standard error."""
        noise = 1e-10 * self.error  # rounding
        return np.isfinite(self.values) & (self.errors > noise)

    @property
    def n_dropped(self):
        """Number of the resamples that have none."""
        return int(np.count_nonzero(~self.usable))

    def limits(self, value, level, studentized):
        """Return the limits about a value."""
        # Its own, but for blocks, which the rounds at the ends of a log are rarely in.
        tails = [(1 + level) / 2, (1 - level) / 2]
        if not studentized:
            known = self.values[np.isfinite(self.values)] - self.value
            high, low = np.quantile(known, tails, method="weibull")
            return float(value + low), float(value + high)
        usable = self.usable
        if not self.error > 0 or not usable.any():
            return float(value), float(value)
        distance = (self.values[usable] - self.value) / self.errors[usable]
        low, high = value - self.error * np.quantile(distance, tails, method="weibull")
        return float(low), float(high)


def resampled(sums, parts, pairs, units):
    """Return the `Resampled` of a sum of statistics of the same units."""
    total, slopes, start = 0.0, [], 0
    with np.errstate(divide="ignore", invalid="ignore"):
        for sign, statistic in parts:
            stop = start + statistic.n_columns
            values, some = statistic.of(sums[:, start:stop])
            total, start = total + sign * values, stop
            slopes.append(sign * some)
        slopes = np.concatenate(slopes, axis=1)
        square = np.zeros(len(sums))
        for place, (i, j) in enumerate(pairs):
            part = slopes[:, i] * slopes[:, j] * sums[:, start + place]
            square += part if i == j else 2 * part
        errors = np.sqrt(np.maximum(square, 0.0))
    error = units.spread * errors[0]
    return Resampled(float(total[0]), float(error), total[1:], errors[1:])
