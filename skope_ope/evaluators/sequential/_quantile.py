# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
r"""The running quantile of DR-ns: an order statistic, never a sort per step.

The q-th quantile of n values is the inverted distribution function, the smallest
value v with #{values <= v} / n >= q: the value of index
max(ceil(q n (1 - 1e-12)), 1) - 1 in sorted order, so that fewer than q n values lie
below it. Infinite values are values.
"""

from heapq import heappop, heappush
from math import ceil

import numpy as np

FIRST_BLOCK, LARGEST_BLOCK = 1 << 8, 1 << 14  # rows turned into numbers at once
SPARE = 1 << 19  # numbers above the quantile that may be kept in vain
BELOW = 1 - 1e-12  # what q n is lowered by, so that rounding does not raise it


def quantile_index(q, n):
    """Index of the q-th quantile among n sorted values."""
    return max(ceil(q * n * BELOW), 1) - 1


def quantile_indices(q, n):
    """Return `quantile_index` for an array of sizes."""
    return np.maximum(np.ceil(q * n * BELOW), 1).astype(np.intp) - 1


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
            wanted = ceil(q * n * BELOW) or 1  # `quantile_index`, without a call
            if len(low) > wanted:
                heappush(high, -heappop(low))
            elif len(low) < wanted:
                heappush(low, -heappop(high))
        self.n += len(values)
        if self._needed is not None and len(high) > 1.25 * self._needed + SPARE:
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
        q, cmax = self.q, self.cmax
        with np.errstate(divide="ignore"):
            # c is at most cmax, and many ties are ranked in half the time
            new = np.minimum(p / pi, cmax)
        ratios, ranks = _ranked(new, self._kept)
        # `below` marks lie below the pointer; -1 is the place before the first.
        seen, pointer, below = bytearray(len(ratios)), -1, -1
        marks = np.frombuffer(seen, dtype=np.uint8)
        if n_kept:
            marks[ranks[:n_kept]] = 1
            below = min(quantile_index(q, before), n_kept - 1)
            pointer = int(ranks[below])  # what was kept is sorted, and first of ties
            ranks = ranks[n_kept:]
        c = self.c
        accepted, values = [], [c]
        ratio_at, start, size = ratios.item, 0, FIRST_BLOCK
        while start < n_rounds:
            stop = min(start + size, n_rounds)
            block = slice(start, stop)
            # New ratios only lower an order statistic: in this block the quantile is at
            # most what it would be at its end without them.
            steps = quantile_index(q, before + stop) - below
            highest = _mark_after(seen, pointer, steps)
            low = np.flatnonzero(ranks[block] <= highest)
            low_ranks = ranks[block][low].tolist()
            largest_c = max(c, ratio_at(highest))
            possible = (pi[block] > 0) & (u[block] <= largest_c * pi[block] / p[block])
            rows = np.flatnonzero(possible)
            at = start + rows
            columns = (
                at,
                pi[at],
                p[at],
                u[at],
                np.searchsorted(low, rows, side="right"),
                quantile_indices(q, before + at + 1),
            )
            inserted = 0
            for row, pi_k, p_k, u_k, up_to, wanted in zip(
                *(column.tolist() for column in columns), strict=True
            ):
                if u_k > c * pi_k / p_k:
                    continue
                for rank in low_ranks[inserted:up_to]:
                    seen[rank] = 1
                    if rank < pointer:
                        below += 1
                inserted = up_to
                while below > wanted:
                    pointer = seen.rfind(1, 0, pointer)
                    below -= 1
                while below < wanted:
                    pointer = seen.find(1, pointer + 1)
                    below += 1
                c = ratio_at(pointer)
                accepted.append(row)
                values.append(c)
            below += sum(rank < pointer for rank in low_ranks[inserted:])
            marks[ranks[block]] = 1
            start, size = stop, min(2 * size, LARGEST_BLOCK)
        self.c, self._n = c, before + n_rounds
        if self._more is None or self._n < self._more:  # another part may follow
            self._kept = ratios[: self._needed].copy()
        accepted = np.array(accepted, dtype=np.intp)
        return accepted, in_force(values, accepted, n_rounds)


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


def _mark_after(seen, rank, steps):
    """Return the rank that many marks further, the last one where they end."""
    for _ in range(steps):
        rank = seen.find(1, rank + 1)
        if rank < 0:
            return len(seen) - 1
    return rank


def in_force(values, changes, n_rounds):
    """Spread values over rows: `values[i + 1]` holds after row `changes[i]`."""
    bounds = np.concatenate([[-1], changes, [n_rounds - 1]])
    return np.repeat(np.asarray(values, dtype=float), np.diff(bounds))
