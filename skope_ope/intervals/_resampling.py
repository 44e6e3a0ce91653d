# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
r"""Sums over resamples: a matrix of counts times columns of terms.

A resample holds unit u (a round, a group, a block of rounds) :math:`c_u` times, and the
sums of everything that is wanted of it are :math:`\sum_u c_u x_u`. Units come in tiles:
the counts of all resamples in a tile are one matrix, whose product with the columns of
the tile adds to the sums. Neither the counts nor the columns are ever there as a whole.
"""

from functools import partial

import numpy as np
from joblib import effective_n_jobs

from skope_ope._parallel import check_n_jobs, run_tasks

TILE = 8192  # units whose counts are drawn together
CHUNK = 32  # resamples whose Poisson counts are at hand: 2 MiB
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
            counts = np.empty((CHUNK, n))
            for chunk in self._chunks(CHUNK):
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
        same = (k for k, one in enumerate(kept) if _equal(one, column))
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


def _equal(a, b):
    return a[0] == b[0] and np.array_equal(a, b)
