# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
r"""What a walk finds in the rounds of a log: weights, acceptance ratios, violations.

Where the acceptance ratio c was too large for exact rejection sampling,
:math:`c\, \pi > p`, a round is accepted less often than it should be. The bias mass
:math:`\epsilon = P_\pi[c\pi > p] - P_\mu[c\pi > p] / c` bounds what that does: the
distribution of accepted rounds is within :math:`2\epsilon/(1-\epsilon)` of the
target's.
"""

from copy import copy
from functools import cached_property
from operator import add

import numpy as np

from skope_ope._parallel import dot
from skope_ope.evaluators.core._drowned import huge_weight_finding, is_huge
from skope_ope.evaluators.core._overlap import Overlap
from skope_ope.evaluators.core._summary import N_BUCKETS
from skope_ope.evaluators.core._tally import both_ranges
from skope_ope.logs._labels import factorise, label_hash

MANY_CLUSTERS = 100_000  # more are summed by hash buckets


class Found:
    """What a walk found in consecutive rounds; that of neighbours adds up."""

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
        out = Found.__new__(Found)
        for name, both in _BOTH.items():
            one, two = getattr(self, name), getattr(other, name)
            found = one if two is None else two if one is None else both(one, two)
            setattr(out, name, found)
        return out

    def summed(self):
        """Return the same without rounds, and hash buckets in place of many groups."""
        out = Found.__new__(Found)
        for name in _BOTH:
            setattr(out, name, getattr(self, name))
        if out.overlap is not None:
            out.overlap = shortened(out.overlap)
            out.violations = out.violations.shortened()
        return out


def joined(overlap, other):
    """Return the overlap of two parts of the same log, which both know its length."""
    out = _of(overlap, overlap.joint + other.joint)
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
    return overlap if joint is overlap.joint else _of(overlap, joint)


def _of(overlap, joint):
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
    "overlap": joined,
    "final_ratio": lambda one, other: other,
    "ratios": add,
    "violations": add,
    "gain": add,
    "huge": lambda one, other: max(one, other, key=lambda pair: pair[0].number),
    "model_range": both_ranges,
}
