# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
r"""What the rounds of a history tell, in sums that outlive the rounds.

Where the acceptance ratio c was too large for exact rejection sampling,
:math:`c\, \pi > p`, a round is accepted less often than it should be. The bias mass
:math:`\epsilon = P_\pi[c\pi > p] - P_\mu[c\pi > p] / c` bounds what that does: the
distribution of accepted rounds is within :math:`2\epsilon/(1-\epsilon)` of the
target's.

The value V of a policy is a mean of ratios of two sums, of x and of y over the rounds
of a trajectory. So a round deviates from it by :math:`f\, (x - V y)`, with a factor f
of its trajectory. V and f are known at the end only. Sums of the powers of x and y by
trajectory, and by whether :math:`x / y` is above or below V, then give the sums of the
powers of the deviations upwards and downwards. Where :math:`x / y` is near to what V is
so far, the round itself is kept. The corners of the convex hull of all points (y, x)
give the largest deviation.
"""

from copy import copy
from functools import cached_property, reduce
from math import inf, nan
from operator import add

import numpy as np

from skope_ope._parallel import dot
from skope_ope.evaluators.core._drowned import huge_weight_finding, is_huge
from skope_ope.evaluators.core._estimate import Estimate
from skope_ope.evaluators.core._overlap import Overlap
from skope_ope.evaluators.core._summary import N_BUCKETS
from skope_ope.evaluators.core._sums import sums_of_rounds
from skope_ope.evaluators.core._tally import both_ranges
from skope_ope.logs._labels import factorise, label_hash

MANY_CLUSTERS = 100_000  # more are summed by hash buckets
NEAR = 1 << 16  # rounds that are kept; of more, half are told apart


class PassResult:
    """What a pass over consecutive rounds found; that of neighbours adds up."""

    # What rounds in memory tell is computed when it is asked.

    def __init__(self, positive, trace, overlap, start):
        self.positive, self._trace, self._start = positive, trace, start
        if overlap is not None:
            self.overlap = overlap

    @property
    def _logs(self):
        return self.positive.all_logs

    @cached_property
    def w(self):
        """Importance weights pi(a|x, h) / p; None: propensities are not known."""
        p = self._logs.propensity
        return None if p is None else self._trace.pi / p

    @cached_property
    def overlap(self):
        """Sums of the weights along the history."""
        # Given its history each has mean one, where the policy wants nothing that the
        # logger never does. What it wants of other actions is not known: it was not
        # recorded.
        if self.w is None:
            return None
        design = self.positive.design
        out = Overlap(design, self.positive.n)
        out.add(design.block(0, len(self.w)), self.w)
        return out

    @cached_property
    def final_ratio(self):
        """The last acceptance ratio."""
        return float(self._trace.c[-1])

    @cached_property
    def ratios(self):
        """`RatioSums` of the acceptance ratios."""
        return RatioSums(self._trace.c)

    @cached_property
    def violations(self):
        """`Violations` of the acceptance ratios."""
        if self.w is None:
            return None
        logs = self._logs
        groups = () if logs.group is None else (logs.groups, logs.group_index)
        return Violations(self._trace.c, self.w, *groups)

    @cached_property
    def gain(self):
        """Sum of the weighted rewards."""
        return None if self.w is None else dot(self.w, self._logs.reward)

    @cached_property
    def huge(self):
        """Findings that a weight is beyond floats: of a value, and of none."""
        if self.w is None or not is_huge(self.w.max()):
            return None
        about = self._logs, self.w
        return [huge_weight_finding(*about, k, self._start) for k in (True, False)]

    @cached_property
    def model_range(self):
        """The least and the largest model value."""
        if self._trace.v is None:
            return None
        values = self._trace.v, self._trace.q
        return (
            min(float(one.min()) for one in values),
            max(float(one.max()) for one in values),
        )

    def __add__(self, other):
        """Return what was found in both, where the other comes after this."""
        out = PassResult.__new__(PassResult)
        for name, both in _BOTH.items():
            one, two = getattr(self, name), getattr(other, name)
            found = one if two is None else two if one is None else both(one, two)
            setattr(out, name, found)
        return out

    def summed(self):
        """Return the same without rounds, and hash buckets in place of many groups."""
        out = PassResult.__new__(PassResult)
        for name in _BOTH:
            setattr(out, name, getattr(self, name))
        if out.overlap is not None:
            out.overlap = shortened(out.overlap)
            out.violations = out.violations.shortened()
        return out


def joined_overlap(overlap, other):
    """Return the overlap of two parts of the same log, which both know its length."""
    out = _with_sums(overlap, overlap.joint + other.joint)
    out.max_w = max(overlap.max_w, other.max_w)
    out.min_w = min(overlap.min_w, other.min_w)
    out.missing = overlap.missing + other.missing
    return out


def in_buckets(joint):
    """Return sums with hash buckets in place of many groups."""
    clusters = joint.frame.clusters
    few = clusters is None or len(clusters) <= MANY_CLUSTERS
    return joint if few else joint.bucketed(N_BUCKETS)


def shortened(overlap):
    """Return the overlap with hash buckets in place of many groups."""
    joint = in_buckets(overlap.joint)
    return overlap if joint is overlap.joint else _with_sums(overlap, joint)


def _with_sums(overlap, joint):
    """Return an overlap with other sums; nothing was read of it so far."""
    out = copy(overlap)
    for name in ("sums", "bounded"):
        vars(out).pop(name, None)
    out.joint = joint
    return out


class Violations:
    """Rounds at which the acceptance ratio was too large; those of parts add up."""

    def __init__(self, c, w, groups=None, group_index=None):
        # 1 + 1e-9: probabilities from two code paths differ in their last digits.
        violated = np.flatnonzero(c * w > 1 + 1e-9)
        held_back = w[violated] - 1 / c[violated]
        self.n_rounds, self.n = len(w), len(violated)
        self.mass = float(held_back.sum())
        self._square = float(held_back @ held_back)
        self._by_group = self._n_buckets = None
        if groups is not None:
            sums = np.bincount(group_index[violated], held_back, len(groups))
            some = np.flatnonzero(sums)
            self._by_group = groups[some], sums[some]

    def shortened(self):
        """Return the same with hash buckets in place of many groups."""
        few = self._by_group is None or len(self._by_group[0]) <= MANY_CLUSTERS
        return self if few else self._bucketed(N_BUCKETS)

    def _bucketed(self, n_buckets):
        if n_buckets in (None, self._n_buckets):
            return self
        out, (labels, sums) = copy(self), self._by_group
        sums = np.bincount(label_hash(labels) % n_buckets, sums, n_buckets)
        out._by_group, out._n_buckets = (np.arange(n_buckets), sums), n_buckets
        return out

    def __add__(self, other):
        """Return the violations of both parts."""
        buckets = self._n_buckets or other._n_buckets
        self, other = self._bucketed(buckets), other._bucketed(buckets)
        out = copy(self)
        out.n_rounds, out.n = self.n_rounds + other.n_rounds, self.n + other.n
        out.mass, out._square = self.mass + other.mass, self._square + other._square
        if self._by_group is not None:
            both = zip(self._by_group, other._by_group, strict=True)
            labels, sums = (np.concatenate(pair) for pair in both)
            labels, code = factorise(labels)
            out._by_group = labels, np.bincount(code, sums, len(labels))
        return out

    @property
    def diagnostics(self):
        """How often the acceptance ratio was too large, the bias mass, its error."""
        n, square = self.n_rounds, self._square
        if self._by_group is not None:
            square = float(self._by_group[1] @ self._by_group[1])
        mass = self.mass / n
        return {
            "n_violations": self.n,
            "violation_share": self.n / n,
            "bias_mass": mass,
            "bias_mass_error": float(np.sqrt(max(square / n - mass * mass, 0.0) / n)),
        }


class RatioSums:
    """Sums of acceptance ratios and of their squares; those of parts add up."""

    def __init__(self, c):
        self.total, self._largest = float(c.sum()), float(c.max())
        share = c / self._largest  # squares of tiny ratios would be zero
        self._shares, self._squares = float(share.sum()), dot(share, share)

    def __add__(self, other):
        """Return the sums of both parts."""
        out = copy(self)
        out.total = self.total + other.total
        out._largest = max(self._largest, other._largest)
        mine, others = (one._largest / out._largest for one in (self, other))
        out._shares = mine * self._shares + others * other._shares
        out._squares = mine**2 * self._squares + others**2 * other._squares
        return out

    @property
    def effective(self):
        """Number of equal ratios with the same information."""
        return self._shares**2 / self._squares


_BOTH = {
    "overlap": joined_overlap,
    "final_ratio": lambda one, other: other,
    "ratios": add,
    "violations": add,
    "gain": add,
    "huge": lambda one, other: max(one, other, key=lambda pair: pair[0].number),
    "model_range": both_ranges,
}


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
        """Add terms of rounds at some rows, and of trajectories by their numbers."""
        # Those from the row `held` on wait until others follow; None: none do.
        at, x, y = terms
        rows = [x]
        if self._limits:
            rows += [x + slope * (end - reward[at]) for end in self._limits]
        terms = np.stack([*rows, y])
        if held is None:
            self._take(design, at, terms, numbers)
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

    def _take(self, design, at, terms, numbers):
        first = numbers == 0
        self._add_clusters(design, at, np.where(first, terms, 0.0))
        self.spread.add(terms[0], terms[-1], numbers)
        terms = terms[:, first]
        self.n_terms += terms.shape[1]
        for k, x in enumerate(terms[:-1]):
            self.hulls[k] = hull(self.hulls[k], np.stack([terms[-1], x]))

    def _add_clusters(self, design, at, terms):
        """Add the terms of the first trajectory by group; those of others are zero."""
        if not (design.clustered and self._alone):
            return
        both = np.zeros((2, design.n_rounds))
        both[:, at] = terms[[0, -1]]
        found = sums_of_rounds(design, both).joint.finished()
        self.joint = found if self.joint is None else in_buckets(self.joint + found)

    def finish(self):
        """End with the last round: what still waits counts nothing."""
        for design, at, terms, _ in self._waiting:
            self._add_clusters(design, at, 0.0 * terms)
        self._waiting = []

    def extremes(self, value, factor, all_rounds):
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
        sorted_out = above | below
        if len(sorted_out) - np.count_nonzero(sorted_out) > NEAR:
            # of those that are not the nearer half stays
            distance = np.where(sorted_out, inf, np.abs(ratios - middle))
            kept = np.argpartition(distance, NEAR // 2)[: NEAR // 2]
            width = float(distance[kept].max())
            self._low = max(self._low, middle - width)
            self._high = min(self._high, middle + width)
            above |= ~sorted_out & (ratios > middle)
            sorted_out = np.ones(len(sorted_out), dtype=bool)
            sorted_out[kept] = False
        for side, rows in enumerate((sorted_out & above, sorted_out & ~above)):
            self._sum(side, *near[:, rows])
        self._near = near[:, ~sorted_out]

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
    return out.with_freedom(freedom)


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
