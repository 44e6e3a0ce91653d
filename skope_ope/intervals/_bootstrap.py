# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Bootstrap intervals: what other samples of the same rounds would have said."""

from __future__ import annotations

from functools import partial
from math import ceil, sqrt
from numbers import Integral
from typing import NamedTuple

import numpy as np
from joblib import effective_n_jobs
from sklearn.utils import check_random_state

from skope_ope._parallel import check_n_jobs, run_tasks
from skope_ope._types import ArrayLike, RandomSeed
from skope_ope.intervals._confidence_interval import check_level
from skope_ope.logs._labels import factorise
from skope_ope.logs._validation import as_numbers, check_labels

USUAL_RESAMPLES = 2000  # resamples
USUAL_BEYOND_LIMIT = 25  # resamples beyond each limit, where their number is not given
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
    units = DrawnUnits(
        len(columns[0]), "groups" if group is not None else "rounds", length
    )
    mass = below.sum()
    if not mass > 0:
        raise ValueError(f"divisor must have a positive sum, got {mass:.6g}.")
    n_resamples = number_of_resamples(n_resamples, level)
    draws = units.draws(n_resamples, seed_of(seed))
    pairs = [(0, 0), (1, 0), (1, 1)] if studentized else []
    sums = Resampling(2, pairs, draws, units.length, n_jobs)
    sums.add(columns)
    mean = Statistic(lambda m: (m[0], (1.0,)), [0.0], [1 / mass], [mass])
    found = resampled_sums(sums.finish(), [(1, mean)], pairs, units)
    return found.limits(columns[0].sum() / mass, level, studentized)


class DrawnUnits:
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
        return max(USUAL_RESAMPLES, ceil(USUAL_BEYOND_LIMIT / tail))
    if not isinstance(n_resamples, Integral) or n_resamples < 1:
        raise ValueError(f"n_resamples must be a positive int, got {n_resamples!r}.")
    if n_resamples * tail < 1:
        raise ValueError(
            f"n_resamples={n_resamples} are too few for level={level:.6g}. Use at "
            f"least {1 / tail:.0f}, which put one beyond each limit; "
            f"{USUAL_BEYOND_LIMIT / tail:.0f} are enough to estimate the limits well."
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
        drawn = self._by_centre(self.weight * x[:, :, k])
        # strata that are left out have no mass to keep
        weight = self.weight * np.where(kept == 0, 0.0, kept / drawn)
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
        centre = np.where(kept == 0, 0.0, centre)
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
        noise = 1e-7 * self.error  # the root of what rounding leaves of a square
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
            if not len(known):
                return np.nan, np.nan
            high, low = np.quantile(known, tails, method="weibull")
            return float(value + low), float(value + high)
        usable = self.usable
        if not self.error > 0:
            return float(value), float(value)
        if not usable.any():
            return np.nan, np.nan
        distance = (self.values[usable] - self.value) / self.errors[usable]
        low, high = value - self.error * np.quantile(distance, tails, method="weibull")
        return float(low), float(high)


def resampled_sums(sums, parts, pairs, units):
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


# -- sums over resamples: a matrix of counts times columns of terms --------------------
# A resample holds unit u (a round, a group, a block of rounds) :math:`c_u` times, and
# the sums of everything that is wanted of it are :math:`\sum_u c_u x_u`. Units come in
# tiles: the counts of all resamples in a tile are one matrix, whose product with the
# columns of the tile adds to the sums. Neither the counts nor the columns are ever
# there as a whole.

TILE = 8192  # units whose counts are drawn together
POISSON_CHUNK = 32  # resamples whose Poisson counts are at hand: 2 MiB
DRAWN = 16  # of those that are drawn one by one, with all that this needs
MOST_WAITING = 64  # tiles that wait for workers
LARGEST_COUNT = 9  # of a Poisson variable of mean one in 65,536 draws


class Draws:
    """How often every resample holds every unit."""

    # Up to `TILE` units are drawn with replacement, as many as there are; so are
    # blocks. Of more units the counts are independent Poisson variables of mean one,
    # which takes a fifth of the time: the resamples then differ in their size, by one
    # percent. A tile has random numbers of its own, so that counts depend on nothing
    # but the seed.

    def __init__(self, n_units, n_resamples, seed, sample=None, n_drawn=None):
        self.n_resamples, self.seed, self.sample = n_resamples, seed, sample
        self.units = np.array([n_units]) if sample is None else np.bincount(sample)
        drawn = self.units if n_drawn is None else np.array([n_drawn])
        self.poisson = n_drawn is None and drawn[drawn > 0].min() > TILE
        self.left = np.repeat(drawn[:, None], n_resamples, axis=1)

    def of_tile(self, number, n):
        """Yield places of some resamples and their counts of the units of a tile."""
        # Tiles are asked in order, and counts are to be used before the next ones.
        source = np.random.SFC64([self.seed, number])
        if self.poisson:
            counts = np.empty((POISSON_CHUNK, n))
            for chunk in self._chunks(POISSON_CHUNK):
                some = counts[: chunk.stop - chunk.start]
                yield chunk, _poisson_counts(source, some)
            return
        rng, places = np.random.Generator(source), self._places(number * TILE, n)
        for chunk in self._chunks(DRAWN):
            yield chunk, self._drawn_counts(rng, chunk, n, places)
        for sample, at in places:
            self.units[sample] -= len(at)

    def _chunks(self, size):
        for start in range(0, self.n_resamples, size):
            yield slice(start, min(start + size, self.n_resamples))

    def _places(self, start, n):
        """Return the samples that units of a tile belong to, and where these are."""
        if self.sample is None:
            return [(0, np.arange(n))]
        codes = self.sample[start : start + n]
        return [(code, np.flatnonzero(codes == code)) for code in np.unique(codes)]

    def _drawn_counts(self, rng, chunk, n, places):
        """Draw the units of a tile: its share of what a sample has left."""
        # Its number is binomial, given the tiles before.
        first = n * np.arange(chunk.stop - chunk.start)
        drawn = []
        for sample, at in places:
            left = self.left[sample, chunk]
            some = rng.binomial(left, len(at) / self.units[sample])
            left -= some
            which = rng.integers(0, len(at), some.sum())
            drawn.append(np.repeat(first, some) + at[which])
        counts = np.bincount(np.concatenate(drawn), minlength=n * len(first))
        return counts.reshape(len(first), n).astype(float)


def _poisson_counts(source, out):
    """Look counts up by random numbers of 16 bits, four from each of 64."""
    # They are put into memory that exists: fresh pages take longer.
    n_resamples, n = out.shape
    fours = -(-n // 4)
    bits = source.random_raw(n_resamples * fours).view(np.uint16)
    bits = bits.reshape(n_resamples, 4 * fours)[:, :n]
    # there are as many entries as numbers, so that nothing wraps
    return np.take(POISSON, bits, mode="wrap", out=out)


def _poisson_table():
    """Return 65,536 counts, each as likely: Poisson of mean one but for 1e-5."""
    probability = np.exp(-1) / np.cumprod([1.0, *range(1, LARGEST_COUNT)])
    below = np.rint(65_536 * probability.cumsum())
    return np.searchsorted(below, np.arange(65_536), side="right").astype(float)


POISSON = _poisson_table()


class Resampling:
    """Sums of columns, and of products of two of them, over all resamples."""

    # Columns that are equal in a tile, as those that several estimators share, take
    # part in one product.

    def __init__(self, n_columns, pairs, draws, block_length=1, n_jobs=None):
        self.n_columns, self.pairs, self.draws = n_columns, list(pairs), draws
        self.length, self._filled, self._n_tiles = block_length, 0, 0
        self.n_jobs, self._waiting = n_jobs, []
        check_n_jobs(n_jobs)
        workers = effective_n_jobs(n_jobs)
        self._at_once = 1
        if workers > 1 and draws.poisson:
            self._at_once = min(4 * workers, MOST_WAITING)
        self._buffer = np.empty((n_columns, TILE + block_length - 1))
        self.sums = np.zeros((draws.n_resamples + 1, n_columns + len(self.pairs)))

    def add(self, columns):
        """Add rounds in their order: an array per column."""
        done, n, room = 0, len(columns[0]), self._buffer.shape[1]
        while done < n:
            some = min(room - self._filled, n - done)
            for row, column in zip(self._buffer, columns, strict=True):
                row[self._filled : self._filled + some] = column[done : done + some]
            self._filled, done = self._filled + some, done + some
            if self._filled == room:
                self._take_tile()

    def finish(self):
        """Add what is left, and return the sums."""
        if self._filled >= self.length:
            self._take_tile()
        self._work()
        return self.sums

    def _work(self):
        """Add the sums of the tiles that wait, in their order."""
        tasks, self._waiting = self._waiting, []
        for found in run_tasks(tasks, self.n_jobs, prefer="threads"):
            self.sums += found

    def _take_tile(self):
        x, overlap = self._buffer[:, : self._filled], self.length - 1
        if overlap:
            total = np.cumsum(x, axis=1)
            units = total[:, overlap:].copy()
            units[:, 1:] -= total[:, : -overlap - 1]
            x, rest = units, x[:, -overlap:].copy()
        columns, place = _distinct_products(x, self.pairs)
        task = partial(_sums_of_tile, self.draws, self._n_tiles, columns, place)
        self._waiting.append(task)
        if len(self._waiting) == self._at_once:
            self._work()
        if overlap:
            self._buffer[:, :overlap] = rest
        self._filled, self._n_tiles = overlap, self._n_tiles + 1


def _sums_of_tile(draws, number, columns, place):
    """Return the sums of a tile, first those over every unit once."""
    out = np.empty((draws.n_resamples + 1, len(place)))
    out[0] = columns.sum(axis=1)[place]
    for chunk, counts in draws.of_tile(number, columns.shape[1]):
        out[1 + chunk.start : 1 + chunk.stop] = (counts @ columns.T)[:, place]
    return out


def _distinct_products(x, pairs):
    """Return distinct columns and products, and where each that is wanted is."""
    kept, place = [], []  # of the columns
    for column in x:
        same = (k for k, one in enumerate(kept) if _are_same_arrays(one, column))
        place.append(next(same, len(kept)))
        if place[-1] == len(kept):
            kept.append(column)
    # a product with ones is the other factor
    ones = {k for k, column in enumerate(kept) if (column == 1).all()}
    products, where = [], {}
    for i, j in pairs:
        a, b = sorted((place[i], place[j]))
        if (a, b) not in where:
            if a in ones or b in ones:
                where[a, b] = b if a in ones else a
            else:
                where[a, b] = len(kept) + len(products)
                products.append(kept[a] * kept[b])
        place.append(where[a, b])
    return np.array([*kept, *products]), place


def _are_same_arrays(a, b):
    return a[0] == b[0] and np.array_equal(a, b)
