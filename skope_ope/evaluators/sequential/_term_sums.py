# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
r"""Sums over the terms of rounds that are dropped, from which their spread is known.

The value V of a policy is a mean of ratios of two sums, of x and of y over the rounds
of a trajectory. So a round deviates from it by :math:`f\, (x - V y)`, with a factor f
of its trajectory. V and f are known at the end only. Sums of the powers of x and y by
trajectory, and by whether :math:`x / y` is above or below V, then give the sums of the
powers of the deviations upwards and downwards. Where :math:`x / y` is near to what V is
so far, the round itself is kept. The corners of the convex hull of all points (y, x)
give the largest deviation.
"""

from copy import copy
from functools import reduce
from math import inf, nan
from operator import add

import numpy as np

from skope_ope._parallel import dot
from skope_ope.evaluators.core._estimate import Estimate
from skope_ope.evaluators.core._sums import sums_of_rounds
from skope_ope.evaluators.sequential._found import in_buckets

NEAR = 1 << 16  # rounds that are kept; of more, half are told apart


class TermSums:
    """Sums of the terms of the rounds of a part."""

    def __init__(self, limits, alone):
        # `alone`: whether a trajectory by itself has a standard error. Then `limits`,
        # the range of the rewards or None, say how far a round may lie.
        self._limits, self._alone = limits if alone else None, alone
        self._waiting, self.joint = [], None
        self.spread, self.n_terms = Spread(), 0  # rounds of the first trajectory
        self.hulls = [np.empty((2, 0))] * (3 if self._limits else 1)

    def add(self, design, terms, numbers, reward, slope, held):
        """Add terms of rounds at some places, and of trajectories by their numbers."""
        # Those from the row `held` on wait until others follow; None: none do.
        places, x, y = terms
        rows = [x]
        if self._limits:
            rows += [x + slope * (end - reward[places]) for end in self._limits]
        terms = np.stack([*rows, y])
        if held is None:
            self._take(design, places, terms, numbers)
            return
        rows = np.arange(design.n_rounds)
        before, after = (
            (design.take(some), slice(None), terms[:, some], numbers[some])
            for some in (rows[:held], rows[held:])
        )
        if held:
            for piece in (*self._waiting, before):
                self._take(*piece)
            self._waiting = []
        if held < len(rows):
            self._waiting.append(after)

    def _take(self, design, places, terms, numbers):
        first = numbers == 0
        self._add_clusters(design, places, np.where(first, terms, 0.0))
        self.spread.add(terms[0], terms[-1], numbers)
        terms = terms[:, first]
        self.n_terms += terms.shape[1]
        for k, x in enumerate(terms[:-1]):
            self.hulls[k] = hull(self.hulls[k], np.stack([terms[-1], x]))

    def _add_clusters(self, design, places, terms):
        """Add the terms of the first trajectory by group; those of others are zero."""
        if not (design.clustered and self._alone):
            return
        both = np.zeros((2, design.n_rounds))
        both[:, places] = terms[[0, -1]]
        found = sums_of_rounds(design, both).joint.finished()
        self.joint = found if self.joint is None else in_buckets(self.joint + found)

    def finish(self):
        """End with the last round: what still waits counts nothing."""
        for design, places, terms, _ in self._waiting:
            self._add_clusters(design, places, 0.0 * terms)
        self._waiting = []

    def ends(self, value, factor, all_rounds):
        """Return (lowest, highest) deviations, as logged and with extreme rewards."""
        found = []
        for y, x in self.hulls:
            change = factor * (x - value * y)
            low, high = float(change.min()), float(change.max())
            found.append((low, high) if all_rounds else (min(low, 0.0), max(high, 0.0)))
        return found


class Spread:
    """Sums of the powers of what lies above and below a value that is not yet known."""

    def __init__(self):
        self._origin, self._totals = None, np.zeros(2)  # a first value; sums of x and y
        self._low, self._high = -inf, inf  # x / y beyond is below or above for sure
        self._near = np.empty((3, 0))  # x, y and trajectory of the other rounds
        self._sums = np.zeros((2, 9, 0))  # of those above and below, by trajectory

    def add(self, x, y, numbers):
        """Add the terms of some rounds."""
        some = np.flatnonzero((x != 0) | (y != 0))  # others do not deviate
        if not len(some):
            return
        x, y = x[some], y[some]
        if self._origin is None:
            total = float(y.sum())
            self._origin = float(x.sum()) / total if total else 0.0
        x = x - self._origin * y
        self._totals += float(x.sum()), float(y.sum())
        near = np.stack([x, y, numbers[some]])
        near = np.concatenate([self._near, near], axis=1)
        with np.errstate(divide="ignore", invalid="ignore"):
            ratios, middle = near[0] / near[1], self._totals[0] / self._totals[1]
        above, below = ratios > self._high, ratios < self._low
        told = above | below
        if len(told) - np.count_nonzero(told) > NEAR:
            # of those that are not told apart the nearer half stays
            distance = np.where(told, inf, np.abs(ratios - middle))
            kept = np.argpartition(distance, NEAR // 2)[: NEAR // 2]
            width = float(distance[kept].max())
            self._low = max(self._low, middle - width)
            self._high = min(self._high, middle + width)
            above |= ~told & (ratios > middle)
            told = np.ones(len(told), dtype=bool)
            told[kept] = False
        for side, rows in enumerate((told & above, told & ~above)):
            self._sum(side, *near[:, rows])
        self._near = near[:, ~told]

    def _sum(self, side, x, y, numbers):
        if not len(x):
            return
        numbers, known = numbers.astype(np.intp), self._sums.shape[2]
        more = max(int(numbers.max()) + 1 - known, 0)
        self._sums = np.pad(self._sums, ((0, 0), (0, 0), (0, more)))
        xx, xy, yy = x * x, x * y, y * y
        powers = x, y, xx, xy, yy, xx * x, xx * y, x * yy, yy * y
        for total, power in zip(self._sums[side], powers, strict=True):
            total += np.bincount(numbers, power, len(total))

    def sides(self, value, factors):
        """Return sums of the first three powers of the sizes, of either side."""
        # `factors` are those of the trajectories; what comes after them counts nothing.
        found = np.zeros((2, 3))
        if self._origin is None:
            return found
        v, n = value - self._origin, min(len(factors), self._sums.shape[2])
        x, y, xx, xy, yy, xxx, xxy, xyy, yyy = self._sums[:, :, :n].swapaxes(0, 1)
        f = factors[:n]
        found[:, 0] = (x - v * y) @ f
        found[:, 1] = (xx - 2 * v * xy + v * v * yy) @ f**2
        found[:, 2] = (xxx - 3 * v * xxy + 3 * v * v * xyy - v**3 * yyy) @ f**3
        found[1] *= -1, 1, -1  # sizes of what lies below
        x, y, numbers = self._near
        x, y, numbers = (one[numbers < len(factors)] for one in self._near)
        change = factors[numbers.astype(np.intp)] * (x - v * y)
        for row, sign in zip(found, (1, -1), strict=True):
            size = np.maximum(sign * change, 0.0)
            row += size.sum(), dot(size, size), dot(size * size, size)
        return found


def hull(known, more):
    """Return the points (y, x) that may have the least or the largest x - V y."""
    y, x = more
    if not len(x):
        return known
    starts = np.flatnonzero(np.diff(y, prepend=nan) != 0)  # of runs of the same y
    parts = []
    for sign, end in ((1, np.minimum), (-1, np.maximum)):
        some = np.stack([y[starts], sign * end.reduceat(x, starts)])
        old = known * np.array([[1.0], [sign]])
        parts.append(_lower_hull(*np.concatenate([old, some], axis=1)))
        parts[-1][1] *= sign
    return np.concatenate(parts, axis=1)


def _lower_hull(y, x):
    order = np.lexsort((x, y))
    y, x = y[order], x[order]
    kept = np.diff(y, prepend=-inf) > 0  # the least x of every y
    while not kept.all():
        y, x = y[kept], x[kept]
        # what lies above the line between its neighbours is never the least
        kept = np.ones(len(y), dtype=bool)
        left, right = (x[1:-1] - x[:-2]) * (y[2:] - y[:-2]), (x[2:] - x[:-2])
        kept[1:-1] = left < right * (y[1:-1] - y[:-2])
    return np.stack([y, x])


def estimate_of_clusters(parts, value, freedom):
    """Return the estimate of the only trajectory from its sums by group."""
    # Groups of parts without a value count, and add nothing.
    formed = [np.isfinite(part.values).any() for part in parts]
    several = len(parts) > 1
    sums = [
        emptied(part.sums.joint) if several and not has else part.sums.joint
        for part, has in zip(parts, formed, strict=True)
    ]
    out = Estimate(reduce(add, sums).of(None), _plain_ratio)
    out.value = value
    return out if freedom is None else out.with_freedom(freedom)


def _plain_ratio(m):
    """Return f = m_0 / m_1 and its gradient."""
    # Other than `ratio` it names no divisor: a history may rest on one round.
    value = m[0] / m[1]
    return value, (1 / m[1], -value / m[1])


def emptied(sums):
    """Return the sums of the same rounds, where all terms are zero."""
    out = copy(sums)
    out.origin = np.zeros(len(sums.origin))
    out.first, out.second = np.zeros_like(sums.first), np.zeros_like(sums.second)
    out.first[..., -1] = sums.first[..., -1]
    out.second[..., -1, -1] = sums.second[..., -1, -1]
    out.totals = np.zeros_like(sums.totals)
    out.totals[-1] = sums.totals[-1]
    return out.finished()
