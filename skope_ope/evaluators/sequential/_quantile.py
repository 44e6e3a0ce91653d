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

BLOCK = 1 << 16  # rows turned into Python numbers at once


def quantile_index(q, n):
    """Index of the q-th quantile among n sorted values."""
    return max(ceil(q * n * (1 - 1e-12)), 1) - 1


def quantile_indices(q, n):
    """Return `quantile_index` for an array of sizes."""
    return np.maximum(np.ceil(q * n * (1 - 1e-12)), 1).astype(np.intp) - 1


class RunningQuantile:
    """Quantile of a growing set, in two heaps: those up to it, and those above.

    Parameters
    ----------
    q : float
        Level in [0, 1].
    """

    def __init__(self, q):
        self.q = q
        self._low = []  # negated: its first entry is the quantile
        self._high = []

    def extend(self, values):
        """Insert numbers."""
        low, high, q = self._low, self._high, self.q
        n = len(low) + len(high)
        for value in values:
            n += 1
            if low and value < -low[0]:
                heappush(low, -value)
            else:
                heappush(high, value)
            wanted = quantile_index(q, n) + 1
            if len(low) > wanted:
                heappush(high, -heappop(low))
            elif len(low) < wanted:
                heappush(low, -heappop(high))

    def value(self):
        """Return the quantile of the numbers inserted so far."""
        return -self._low[0]


def trace_known_ratios(pi, p, u, q, cmax):
    """Run DR-ns' acceptance where all probabilities are known beforehand.

    The ratios p / pi are ranked once; seen ranks are marks in a bytearray, in which
    the quantile is a pointer that moves to the next or the previous mark.

    Parameters
    ----------
    pi, p, u : ndarray of shape (n_rounds,)
        Target's and logger's probability of the logged action, uniform numbers.
    q, cmax : float
        Quantile level and largest acceptance ratio.

    Returns
    -------
    accepted : ndarray of int
        Rows in the simulated history.
    c : ndarray of shape (n_rounds,)
        Acceptance ratio in force at every row.
    """
    n_rounds = len(p)
    with np.errstate(divide="ignore"):
        ratios = p / pi
    order = np.argsort(ratios, kind="stable")
    ratios = ratios[order]
    ranks = np.empty(n_rounds, dtype=np.intp)
    ranks[order] = np.arange(n_rounds)
    del order
    # c never exceeds cmax: only these rows can be accepted at all.
    possible = (pi > 0) & (u <= cmax * pi / p)
    seen, pointer, below = bytearray(n_rounds), -1, 0
    c, accepted, values = cmax, [], [cmax]
    ratio_at = ratios.item
    for start in range(0, n_rounds, BLOCK):
        block_ranks = ranks[start : start + BLOCK].tolist()
        rows = np.flatnonzero(possible[start : start + BLOCK])
        at = start + rows
        columns = (rows, pi[at], p[at], u[at], quantile_indices(q, at + 1))
        inserted = 0
        for row, pi_k, p_k, u_k, wanted in zip(
            *(column.tolist() for column in columns), strict=True
        ):
            if u_k > c * pi_k / p_k:
                continue
            for rank in block_ranks[inserted : row + 1]:
                seen[rank] = 1
                if rank < pointer:
                    below += 1
            inserted = row + 1
            if pointer < 0:
                pointer = seen.find(1)
            while below > wanted:
                pointer = seen.rfind(1, 0, pointer)
                below -= 1
            while below < wanted:
                pointer = seen.find(1, pointer + 1)
                below += 1
            c = ratio_at(pointer)
            if c > cmax:
                c = cmax
            accepted.append(start + row)
            values.append(c)
        for rank in block_ranks[inserted:]:
            seen[rank] = 1
            if rank < pointer:
                below += 1
    accepted = np.array(accepted, dtype=np.intp)
    return accepted, in_force(values, accepted, n_rounds)


def in_force(values, changes, n_rounds):
    """Spread values over rows: `values[i + 1]` holds after row `changes[i]`."""
    bounds = np.concatenate([[-1], changes, [n_rounds - 1]])
    return np.repeat(np.asarray(values, dtype=float), np.diff(bounds))
