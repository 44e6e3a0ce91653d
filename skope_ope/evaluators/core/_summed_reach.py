# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""How far the value of a round may lie from an estimate from sums: from extremes."""

from math import isfinite, sqrt

import numpy as np

from skope_ope.evaluators.core._largest_deviation import influence, slopes_in
from skope_ope.evaluators.core._reach import Reach, typical
from skope_ope.evaluators.core._rounds import Rounds
from skope_ope.evaluators.core._weight_bound import LOGGED, stated_weight


class SummedReach:
    """The reach of an estimate from sums, as `CornerReach` is that from rounds."""

    of_halves = False

    def __init__(
        self, evaluator, limits, ends, n_rounds, seen=None, group_weights=None
    ):
        self.evaluator, self.limits, self.ends = evaluator, limits, ends
        self.n_rounds, self.seen, self.group_weights = n_rounds, seen, group_weights

    def __call__(self, value, max_weight=None, error=None):
        """Return the `Reach` of a `SummedValue`, or None where no range is known."""
        if self.limits is None:
            return None
        if not self.evaluator.requires.weights:  # model values are what they are
            return Reach(*self.limits)
        return self._within(self.limits, value, max_weight)

    def of_seen_rewards(self, value):
        """Return the `Reach` if no reward were beyond those of the log, or None."""
        known = self.seen is not None and isfinite(self.seen[0])
        if not (known and self.evaluator.requires.weights):
            return None
        return self._within(self.seen, value)

    def without_model(self, value):
        """Return None: no evaluator has another value without a model."""
        return None

    def _within(self, limits, value, max_weight=None):
        low, high = limits
        largest, source = (
            self.ends.largest_weights(value._estimate.frame.strata),
            LOGGED,
        )
        if max_weight is not None:
            largest = np.full(len(largest), stated_weight(max_weight, largest))
            source = "stated"
        worst, best = (self._extremes(value, largest, end) for end in limits)
        bound = float(largest.max()), source, self._of_group(value, high - low)
        return Reach(low, high, best, worst, *bound)

    def _extremes(self, value, largest, end):
        """Return the lowest and the highest deviation with some reward."""
        estimate, found = value._estimate, []
        offset = 0.0 if self.evaluator.shift_with is None else estimate.offset
        for stratum in range(estimate.frame.n_strata):
            w = np.array([0.0, largest[stratum]])
            rounds = Rounds(w=w, r=np.full(2, end - offset))
            terms = self.evaluator.terms(rounds)
            found.append(self._changes(estimate, terms, stratum))
        return float(np.min(found)), float(np.max(found))  # NaN stays

    def _changes(self, estimate, terms, stratum):
        """Return the deviations of rounds with some terms, with all sample weights."""
        psi = influence(estimate, terms, stratum)
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
        return typical(scale * (change + moved)), typical(scale * (moved - change))

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
            slopes = slopes_in(estimate, stratum)
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
        line = self._line(estimate)
        return None if line is None else self.ends.yes_no.deviations(line)

    def _line(self, estimate):
        """Return (a, b, d) of deviations a + b w + d w r; None: they are no line."""
        offset = estimate.offset if self.evaluator.shift_with is not None else 0.0
        top = max(self.ends.weights.values(), default=0.0)
        w, r = (
            np.array([0.0, 1.0, 1.0, 2.0, 2.0, top, top]),
            np.array([0, 0, 1, 0, 1, 0, 1]),
        )
        rounds = Rounds(w=w, r=r - offset)
        with np.errstate(all="ignore"):
            found = influence(estimate, self.evaluator.terms(rounds), 0)
        n = self.n_rounds
        found = found * sqrt(n * max(n - 1, 1))
        a = found[0]
        b, d = found[1] - a, found[2] - found[1]
        line = a + b * w + d * w * r
        size = np.abs(line).max()
        if not np.allclose(found, line, rtol=0, atol=1e-10 * size):
            return None
        return float(a), float(b), float(d)
