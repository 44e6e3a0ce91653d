# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
r"""Acceptance rules: which logged rounds enter the simulated history.

DR-ns asks for a running quantile, an order statistic and never a sort per step. The
q-th quantile of n values is the inverted distribution function, the smallest value v
with #{values <= v} / n >= q: the value of index max(ceil(q n (1 - 1e-12)), 1) - 1 in
sorted order, so that fewer than q n values lie below it. Infinite values are values.
"""

from copy import deepcopy
from heapq import heappop, heappush
from math import ceil

import numpy as np
from sklearn.utils import check_random_state

# What q n is lowered by, so that rounding does not raise it, and what allows for
# rounding where a row is sorted out beforehand.
ROUNDED_DOWN = 1 - 1e-12
FIRST_BLOCK, LARGEST_BLOCK = 1 << 8, 1 << 14  # rows turned into numbers at once
SPARE_NUMBERS = 1 << 19  # numbers above the quantile that may be kept in vain
CHUNK = 1 << 20  # uniform numbers drawn at once where they are passed over


class AcceptanceRule:
    """Which rounds of a part of a log are accepted, by what earlier parts taught."""

    observes = False  # whether c depends on the probabilities of earlier rows

    def known(self, pi):
        """Return accepted rows and c where all probabilities are known."""
        accepted = np.flatnonzero(self.accepts(pi, slice(None)))
        return accepted, np.full(len(pi), self.c)


class UniformRule(AcceptanceRule):
    """Replay: accept when u < pi(a|x, h) K(x) / K_max, for uniform loggers."""

    c = 1.0

    def __init__(self, most):
        self.most = most

    def begin(self, logs, u):
        """Take the next part of the rounds, and its uniform numbers."""
        offered, self.u = n_offered(logs), u
        self.scale = offered / self.most if np.ndim(offered) else np.ones(len(u))

    def accepts(self, pi, rows):
        """Tell which of `rows` (a slice) are accepted at probabilities `pi`."""
        return self.u[rows] < pi * self.scale[rows]

    def least_proba(self, rows):
        """Return probabilities below which `rows` (a slice) are never accepted."""
        return self.u[rows] / self.scale[rows] * ROUNDED_DOWN

    def accepts_one(self, pi, row):
        """Tell whether one row is accepted at probability `pi`."""
        return self.u.item(row) < pi * self.scale.item(row)


class ConstantRule(AcceptanceRule):
    """Rejection sampling: accept when pi > 0 and u <= c pi / p, c fixed."""

    def __init__(self, c):
        self.c = self.cmax = c

    def begin(self, logs, u):
        """Take the next part of the rounds, and its uniform numbers."""
        self.p, self.u = logs.propensity, u

    def accepts(self, pi, rows):
        """Tell which of `rows` (a slice) are accepted at probabilities `pi`."""
        return (pi > 0) & (self.u[rows] <= self.c * pi / self.p[rows])

    def weight(self, pi, row):
        """Return how often an accepted row should have been, at least once."""
        return max(1.0, self.c * pi / self.p.item(row))

    def least_proba(self, rows):
        """Return probabilities below which `rows` (a slice) are never accepted."""
        return self.u[rows] * self.p[rows] / self.cmax * ROUNDED_DOWN

    def accepts_one(self, pi, row):
        """Tell whether one row is accepted at probability `pi`."""
        return pi > 0 and self.u.item(row) <= self.c * pi / self.p.item(row)


class QuantileRule(ConstantRule):
    """DR-ns: rejection sampling whose c follows a quantile of the ratios p / pi."""

    # c starts at c_init (None: cmax) and becomes min(cmax, quantile_q) after every
    # acceptance, over all rows so far, the accepted one included.

    observes = True

    def __init__(self, q, cmax, c_init=None, n_rounds=None):
        super().__init__(cmax)
        self.c = cmax if c_init is None else c_init
        self._ratios = RunningQuantile(q, n_rounds)
        self._known = KnownRatios(q, cmax, self.c, n_rounds)
        self._unseen = None  # ratios at the end of the part before

    def begin(self, logs, u):
        """Take the next part of the rounds, and its uniform numbers."""
        super().begin(logs, u)
        if self._unseen is not None:
            self._ratios.extend(self._unseen.tolist())
            self._unseen = None

    def observe(self, pi, rows):
        """Insert the ratios p / pi of `rows`."""
        with np.errstate(divide="ignore"):
            self._ratios.extend((self.p[rows] / pi).tolist())

    def observe_later(self, pi, rows):
        """Insert the ratios of `rows` where another part follows."""
        with np.errstate(divide="ignore"):
            self._unseen = self.p[rows] / pi

    def renew(self):
        """Set c after an acceptance."""
        self.c = min(self.cmax, self._ratios.value())

    def known(self, pi):
        """Return accepted rows and c where all probabilities are known."""
        return self._known.take(pi, self.p, self.u)


def n_offered(logs):
    """Return the number of offered actions, by round where it varies."""
    return logs.n_actions if logs.available is None else logs.available.sum(axis=1)


def quantile_index(q, n):
    """Index of the q-th quantile among n sorted values; n may be an array."""
    return np.maximum(np.ceil(q * n * ROUNDED_DOWN), 1).astype(np.intp) - 1


class RunningQuantile:
    """Quantile of a growing set, in two heaps: those up to it, and those above."""

    def __init__(self, q, n_most=None):
        self.q, self.n = q, 0
        self._low = []  # negated: its first entry is the quantile
        self._high = []
        self._needed = _needed(q, n_most)

    def extend(self, values):
        """Insert numbers."""
        low, high, q = self._low, self._high, self.q
        for n, value in enumerate(values, self.n + 1):
            if low and value < -low[0]:
                heappush(low, -value)
            else:
                heappush(high, value)
            wanted = ceil(q * n * ROUNDED_DOWN) or 1  # `quantile_index`, without a call
            if len(low) > wanted:
                heappush(high, -heappop(low))
            elif len(low) < wanted:
                heappush(low, -heappop(high))
        self.n += len(values)
        if self._needed is not None and len(high) > 1.25 * self._needed + SPARE_NUMBERS:
            high.sort()  # a sorted list is a heap
            del high[self._needed :]

    def value(self):
        """Return the quantile of the numbers inserted so far."""
        return -self._low[0]


def _needed(q, n):
    """Return how many of the smallest of n numbers may ever be their quantile."""
    return None if n is None else quantile_index(q, n) + 1


class KnownRatios:
    """DR-ns' acceptance where the probabilities of a part are known beforehand."""

    # The ratios p / pi, at most cmax, are ranked once; seen ranks are marks in a
    # bytearray, in which the quantile is a pointer that moves to the next or the
    # previous mark. Ratios that the quantile cannot reach within a block are marked at
    # its end, all at once.

    def __init__(self, q, cmax, c_init=None, n_most=None):
        self.q, self.cmax = q, cmax
        self.c = cmax if c_init is None else c_init
        self._n, self._kept = 0, np.empty(0)  # rounds so far, their smallest ratios
        self._needed, self._more = _needed(q, n_most), n_most

    def take(self, pi, p, u):
        """Accept rounds of the next part."""
        n_rounds, n_kept, before = len(p), len(self._kept), self._n
        if not n_rounds:
            return np.empty(0, dtype=np.intp), np.empty(0)
        with np.errstate(divide="ignore"):
            # c is at most cmax, and many ties are ranked in half the time
            new = np.minimum(p / pi, self.cmax)
        ratios, ranks = _ranked(new, self._kept)
        seen = _SeenRanks(len(ratios), ranks[:n_kept], quantile_index(self.q, before))
        ranks = ranks[n_kept:]
        accepted, values = [], [self.c]
        start, size = 0, FIRST_BLOCK
        while start < n_rounds:
            stop = min(start + size, n_rounds)
            block = slice(start, stop)
            # New ratios only lower an order statistic: in this block the quantile is at
            # most what it would be at its end without them.
            highest = seen.mark_at(quantile_index(self.q, before + stop))
            low = np.flatnonzero(ranks[block] <= highest)
            largest_c = max(self.c, ratios.item(highest))
            possible = (pi[block] > 0) & (u[block] <= largest_c * pi[block] / p[block])
            rows = np.flatnonzero(possible)
            at = start + rows
            columns = (
                at,
                pi[at],
                p[at],
                u[at],
                np.searchsorted(low, rows, side="right"),
                quantile_index(self.q, before + at + 1),
            )
            about = columns, ranks[block][low].tolist(), seen, ratios.item
            self._take_possible(*about, accepted, values)
            seen.marks[ranks[block]] = 1
            start, size = stop, min(2 * size, LARGEST_BLOCK)
        self._n = before + n_rounds
        if self._more is None or self._n < self._more:  # another part may follow
            self._kept = ratios[: self._needed].copy()
        accepted = np.array(accepted, dtype=np.intp)
        return accepted, in_force(values, accepted, n_rounds)

    def _take_possible(self, columns, low_ranks, seen, ratio_at, accepted, values):
        """Append the rows of a block that are accepted, of those that may be, and c."""
        c, flags, pointer, below = self.c, seen.flags, seen.pointer, seen.below
        inserted = 0
        for row, pi_k, p_k, u_k, up_to, wanted in zip(
            *(column.tolist() for column in columns), strict=True
        ):
            if u_k > c * pi_k / p_k:
                continue
            for rank in low_ranks[inserted:up_to]:
                flags[rank] = 1
                if rank < pointer:
                    below += 1
            inserted = up_to
            while below > wanted:
                pointer = flags.rfind(1, 0, pointer)
                below -= 1
            while below < wanted:
                pointer = flags.find(1, pointer + 1)
                below += 1
            c = ratio_at(pointer)
            accepted.append(row)
            values.append(c)
        seen.below = below + sum(rank < pointer for rank in low_ranks[inserted:])
        seen.pointer, self.c = pointer, c


class _SeenRanks:
    """Marks at the ranks that were seen, and a pointer to that of the quantile."""

    def __init__(self, n, kept, wanted):
        self.flags = bytearray(n)
        self.marks = np.frombuffer(self.flags, dtype=np.uint8)
        # `below` marks lie below the pointer; -1 is the place before the first.
        self.pointer = self.below = -1
        if len(kept):  # they are sorted, and first of ties
            self.marks[kept] = 1
            self.below = min(wanted, len(kept) - 1)
            self.pointer = int(kept[self.below])

    def mark_at(self, wanted):
        """Return the rank below which so many marks lie, the last where they end."""
        rank, flags = self.pointer, self.flags
        for _ in range(wanted - self.below):
            rank = flags.find(1, rank + 1)
            if rank < 0:
                return len(flags) - 1
        return rank


def _ranked(values, before):
    """Return all values sorted, and the rank of each."""
    if len(before):
        values = np.concatenate([before, values])
        order = np.argsort(values, kind="stable")  # seven times as fast on a long run
    else:
        order = np.argsort(values)
    ranks = np.empty(len(values), dtype=np.intp)
    ranks[order] = np.arange(len(values))
    return values[order], ranks


def in_force(values, changes, n_rounds):
    """Spread values over rows: `values[i + 1]` holds after row `changes[i]`."""
    bounds = np.concatenate([[-1], changes, [n_rounds - 1]])
    return np.repeat(np.asarray(values, dtype=float), np.diff(bounds))


class UniformStream:
    """Draw one uniform number per round, in the order of the rounds."""

    def __init__(self, random_state, own=False):
        rng = check_random_state(random_state)
        self._rng = rng if own else deepcopy(rng)

    def take(self, n):
        """Return the numbers of the next rounds."""
        return self._rng.random_sample(n)

    def skip(self, n):
        """Pass over the numbers of some rounds."""
        while n > 0:
            self._rng.random_sample(min(n, CHUNK))
            n -= CHUNK
        return self

    def seed(self):
        """Return the seed that a fit draws after the numbers of all rounds."""
        return self._rng.randint(2**31 - 1)


def stream_state(random_state, n_rounds):
    """Return a random state for streams, and move the given one as a `fit` moves it."""
    rng = check_random_state(random_state)
    if rng is not random_state and random_state is not None:
        return random_state  # an integer starts anew every time
    state = deepcopy(rng)
    UniformStream(rng, own=True).skip(n_rounds).seed()
    return state
