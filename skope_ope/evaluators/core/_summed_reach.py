# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""How far the value of a round may lie from an estimate from sums: from extremes."""

from math import inf, isfinite, sqrt

import numpy as np

from skope_ope._dot import dot
from skope_ope.evaluators.core._reach import SPARE, Reach
from skope_ope.evaluators.core._rounds import StoredRounds
from skope_ope.evaluators.core._weight_bound import LOGGED, stated_weight

SMALLEST = "smallest propensity"
MANY = 65  # weights that are tried where the largest may not be the worst


class SummedReach:
    """The reach of an estimate from sums, as `CornerReach` is that from rounds."""

    def __init__(
        self,
        evaluator,
        limits,
        ends,
        n_rounds,
        shift=0.0,
        seen=None,
        lost=0.0,
        group_weights=None,
        plain=None,
        weighted=True,
        plain_owner=None,
    ):
        self.evaluator, self.limits, self.ends = evaluator, limits, ends
        self.n_rounds, self.shift, self.seen = n_rounds, shift, seen
        self.lost, self.group_weights, self.plain = lost, group_weights, plain
        self.weighted, self.plain_owner = weighted, plain_owner

    def __call__(self, value, max_weight=None, error=None):
        """Return the `Reach` of a `SummedValue`, or None where no range is known."""
        if self.limits is None:
            return None
        if not self.evaluator._uses_weights:  # model values are what they are
            return Reach(*self.limits)
        return self._within(self.limits, value, max_weight, error)

    def of_seen_rewards(self, value):
        """Return the `Reach` if no reward were beyond those of the log, or None."""
        known = self.seen is not None and isfinite(self.seen[0])
        if not (known and self.evaluator._uses_weights):
            return None
        return self._within(self.seen, value, error=inf)  # of seen weights, too

    def without_model(self, value):
        """Return the value of the same rounds without a reward model, or None."""
        return None if self.plain is None else self.plain()

    def _within(self, limits, value, max_weight=None, error=None):
        low, high = limits
        error = value.standard_error if error is None else error
        spare = SPARE * error / (high - low) if error > 0 and high > low else 0.0
        strata = value._estimate.frame.strata
        largest, source = self._largest(strata, max_weight, spare)
        worst, best = (self._extremes(value, largest, end) for end in limits)
        of_group = self._of_group(value, high - low)
        bound = (float(largest.max()), source) if self.weighted else (None, None)
        return Reach(low, high, best, worst, *bound, of_group, self.lost)

    def _largest(self, strata, max_weight, spare):
        """Return the largest weight of every stratum, and where it comes from."""
        largest, limits = self.ends.largest_weights(strata), self.ends.limits
        known = 0.0
        if limits is not None and len(strata) == 1:
            known = limits.largest(spare)
        if not self.weighted:
            return largest, None
        if max_weight is not None:
            return np.full(len(largest), stated_weight(max_weight, largest)), "stated"
        if known > 0:
            return np.maximum(largest, known), limits.source
        if not largest.max() > 0:
            return np.full(len(largest), 1 / self.ends.propensity), SMALLEST
        return largest, LOGGED

    def _extremes(self, value, largest, end):
        """Return the lowest and the highest deviation with some reward."""
        estimate, lows, highs = value._estimate, [], []
        evaluator, offset = self.evaluator, 0.0
        if evaluator._moves is not None:
            offset = estimate.offset
        v = q = None
        m, fronts = 1, self.ends.fronts
        if evaluator._uses_model:
            points = np.concatenate(fronts) - offset
            (v, q), m = points.T, len(points)
        for stratum in range(estimate.frame.n_strata):
            for weight in self._weights_up_to(largest[stratum]):
                w, r = np.full(m, weight), np.full(m, end - offset)
                about = {"n_rounds": self.n_rounds, "shift": self.shift}
                for p in (1.0, self.ends.propensity):
                    rounds = StoredRounds(w=w, b=w, r=r, q=q, v=v, p=p, **about)
                    change = self._changes(estimate, evaluator._terms(rounds), stratum)
                    lows.append(change.min())
                    highs.append(change.max())
                    if "pi" not in vars(rounds):
                        break
        return float(np.min(lows)), float(np.max(highs))  # NaN stays

    def _weights_up_to(self, largest):
        """Return the weights of which one takes a round furthest from the estimate."""
        limits = self.ends.limits
        known = limits is None or limits.source is None or limits.n_binned == limits.n
        if known or self.is_monotone:
            return largest, 0.0
        return np.linspace(0, largest, MANY)  # a bound of the largest is no bound then

    @property
    def is_monotone(self):
        """Whether a reward moves a round the more, the larger its weight is."""
        top = max(self.ends.weights.values(), default=0.0)
        w = np.linspace(0, top, MANY)
        zeros = np.zeros(MANY)
        about = {"n_rounds": self.n_rounds, "shift": self.shift, "q": zeros, "v": zeros}
        low, high = (
            self.evaluator._terms(StoredRounds(w=w, b=w, r=zeros + r, **about))
            for r in (0.0, 1.0)
        )
        moves = np.array([more - less for less, more in zip(low, high, strict=True)])
        return bool((np.diff(np.abs(moves)) >= 0).all())

    def _changes(self, estimate, terms, stratum):
        """Return the deviations of rounds with some terms, with all sample weights."""
        psi = _influence(estimate, terms, stratum)
        n, ends = self.n_rounds, self.ends.omega
        scale = sqrt(n * max(n - 1, 1))
        return np.concatenate([scale * omega * psi for omega in dict.fromkeys(ends)])

    def _of_group(self, value, width):
        """Return what a typical group may add upwards and downwards, at most."""
        estimate = value._estimate
        if not estimate.frame.clustered or self.group_weights is None:
            return 0.0, 0.0
        n = self.n_rounds
        slope = float(np.max(np.abs(estimate.plain_slopes[0])))
        change = estimate.cluster_sums
        moved = slope * width * self.group_weights
        scale = sqrt(n * max(n - 1, 1))
        return _typical(scale * (change + moved)), _typical(scale * (moved - change))

    def is_exact(self, estimate):
        """Whether `observed` gives the extremes themselves: those of a single term."""
        used = [b for b in estimate.plain_slopes[:-1] if np.any(b)]
        same = self.ends.omega[0] == self.ends.omega[1]
        return len(used) < 2 and same and estimate.frame.n_strata == 1

    def observed(self, estimate, terms=None):
        """Return bounds of the deviations that were seen, (lowest, highest)."""
        # Or of those of rounds with other `terms`: the smallest and largest of each.
        terms = self.ends.terms if terms is None else terms
        n = self.n_rounds
        scale, low, high = sqrt(n * max(n - 1, 1)), np.inf, -np.inf
        if terms is None:
            return -np.inf, np.inf
        for stratum in range(estimate.frame.n_strata):
            slopes = [_of_stratum(b, stratum) for b in estimate.plain_slopes]
            parts = [
                sorted((b * (one[0] - near), b * (one[1] - near)))
                for b, one, near in zip(slopes, terms, estimate.origin, strict=False)
                if b  # others may be unknown
            ]
            ends = (sum(part[side] for part in parts) + slopes[-1] for side in (0, 1))
            found = [scale * w * end for end in ends for w in self.ends.omega]
            low, high = min(low, *found), max(high, *found)
        return float(low), float(high)

    def fourth_root(self, estimate):
        """Return a bound of the fourth root of the sum of c^4 over the deviations c."""
        if self.ends.omega != (1.0, 1.0) or estimate.frame.n_strata > 1:
            return np.inf
        n = self.n_rounds
        root = self.ends.fourth_root(np.array(estimate.plain_slopes[:-1], dtype=float))
        return sqrt(n * max(n - 1, 1)) * root

    def exact(self, estimate):
        """Get the `Deviations` of the rounds where sums tell them, otherwise None."""
        # They do so of terms that are linear in w and w r, with 0/1 rewards.
        if estimate.frame.n_strata > 1 or self.ends.omega != (1.0, 1.0):
            return None
        if self.evaluator._uses_model or self.evaluator._uses_range:
            return None
        line = self._line(estimate)
        return None if line is None else self.ends.yes_no.deviations(line)

    def _line(self, estimate):
        """Return (a, b, d) of deviations a + b w + d w r; None: they are no line."""
        offset = estimate.offset if self.evaluator._moves is not None else 0.0
        top = max(self.ends.weights.values(), default=0.0)
        w, r = (
            np.array([0.0, 1.0, 1.0, 2.0, 2.0, top, top]),
            np.array([0, 0, 1, 0, 1, 0, 1]),
        )
        about = {"n_rounds": self.n_rounds, "shift": self.shift, "q": None, "v": None}
        rounds = StoredRounds(w=w, b=w, r=r - offset, **about)
        with np.errstate(all="ignore"):
            found = _influence(estimate, self.evaluator._terms(rounds), 0)
        if "pi" in vars(rounds):
            return None
        n = self.n_rounds
        found = found * sqrt(n * max(n - 1, 1))
        a = found[0]
        b, d = found[1] - a, found[2] - found[1]
        line = a + b * w + d * w * r
        size = np.abs(line).max()
        if not np.allclose(found, line, rtol=0, atol=1e-10 * size):
            return None
        return float(a), float(b), float(d)


def _influence(estimate, terms, stratum):
    """Return psi of rounds of a stratum with some terms, and sample weight one."""
    *slopes, last = (_of_stratum(b, stratum) for b in estimate.plain_slopes)
    psi = np.full(np.shape(terms[0]), last, dtype=float)
    for b, term, near in zip(slopes, terms, estimate.origin, strict=False):
        psi += b * (term - near)
    return psi


def _of_stratum(slope, stratum):
    return float(slope) if np.ndim(slope) == 0 else float(slope[stratum])


def _typical(size):
    """Return the mean size, each counted by its size, of those above zero."""
    size = np.maximum(size, 0.0)
    total = float(size.sum())
    return dot(size, size) / total if total else 0.0
