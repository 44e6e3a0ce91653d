# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""How far the value of a round of slates may lie from the estimate.

Weights of slates may be negative, and a reward then takes the value down: rounds are in
the upper half where the reward is above the middle of its range and the weight is
positive, or neither. So every policy has halves of its own.
"""

from math import inf, sqrt

import numpy as np

from skope_ope._pairs import WithPairs
from skope_ope.evaluators.core._blocks import blocks
from skope_ope.evaluators.core._estimate import Estimate
from skope_ope.evaluators.core._functions import mean, ratio, sum_of_two
from skope_ope.evaluators.core._largest_deviation import (
    NONE,
    LargestDeviation,
    influence,
)
from skope_ope.evaluators.core._reach import at_ends, refuse_stated
from skope_ope.evaluators.core._requires import Requires
from skope_ope.evaluators.core._tally import both_ranges
from skope_ope.evaluators.core._weight_bound import LOGGED, POSSIBLE

SIZE = 2  # the number of the term |w| beside w r and w


class SlateExtremes(WithPairs):
    """Extremes of what some rounds of slates bring to an estimate; they merge.

    Attributes
    ----------
    weights : tuple (float, float)
        Smallest and largest weight.
    rest : tuple (float, float)
        The same of what the estimate is divided by, less the weight.
    terms : ndarray of shape (k + 1, 2) or None
        The same of the first term with the worst and with the best reward, and of the
        others.
    rounds : ndarray of shape (2, 2)
        Rounds of the lower and of the upper half, and those with a reward but zero.
    possible : float
        The largest weight that a logged slate may have.
    """

    def __init__(self, weights=NONE, rest=NONE, terms=None, rounds=None, possible=0.0):
        self.weights, self.rest, self.terms = weights, rest, terms
        self.possible = possible
        self.rounds = np.zeros((2, 2)) if rounds is None else rounds

    @property
    def rewarded_share(self):
        """Share of the rounds of either half whose reward is not zero; of none, one."""
        pairs = self.rounds.tolist()
        return [some / every if some else 1.0 for every, some in pairs]

    @property
    def largest_weight(self):
        """The largest weight; the largest possible one where all are zero."""
        return max(self.weights[1], 0.0) if any(self.weights) else self.possible

    def __add__(self, other):
        """Return the extremes of both parts."""
        if not isinstance(other, SlateExtremes):
            return NotImplemented
        terms = [one.terms for one in (self, other) if one.terms is not None]
        if len(terms) == 2:
            (low, high), (least, most) = (one.T for one in terms)
            terms = [np.stack([np.minimum(low, least), np.maximum(high, most)], axis=1)]
        return SlateExtremes(
            both_ranges(self.weights, other.weights),
            both_ranges(self.rest, other.rest),
            terms[0] if terms else None,
            self.rounds + other.rounds,
            max(self.possible, other.possible),
        )

    def to_table(self):
        """Return the extremes as a dict of arrays."""
        return {
            "slates_weights": np.array([self.weights, self.rest]),
            "slates_terms": np.zeros((0, 2)) if self.terms is None else self.terms,
            "slates_rounds": self.rounds,
            "slates_possible": np.array(self.possible),
        }

    @classmethod
    def from_table(cls, table, labels):
        """Return the extremes that `to_table` wrote."""
        weights, terms = map(tuple, table["slates_weights"].tolist()), None
        if len(table["slates_terms"]):
            terms = table["slates_terms"]
        possible = float(table["slates_possible"])
        return cls(*weights, terms, table["slates_rounds"], possible)


class SlateFormula:
    """Means and ratios of rewards times weights, or terms that move by the weight."""

    requires, shift_with = Requires(), None

    def __init__(self, combine, smooth=()):
        self.combine, self.smooth = combine, smooth

    @property
    def is_of_weights(self):
        """Whether the terms are w r, and what the estimate is divided by."""
        return self.combine in (mean, ratio)


class SlateDeviation(LargestDeviation):
    """Finds the `Reach` of a value of slates: a round is as heavy as the heaviest."""

    regional = None
    has_rows_of_files = False
    size = SIZE  # of weights that may be negative

    # `halves`: sums of the terms in two halves, where others are among the sums of the
    # estimate; `rounds`: terms, weights and rewards in memory

    def __init__(
        self, formula, limits, extremes, seen, weighted, halves=None, rounds=None
    ):
        super().__init__(formula, limits, extremes, seen=seen, weighted=weighted)
        self.halves, self.rounds = halves, rounds

    def of_seen_rewards(self, value):
        """Return the `Reach` if no reward were beyond those of the log, or None."""
        known = self.evaluator.is_of_weights or self.rounds is not None
        return super().of_seen_rewards(value) if known else None

    def estimate_of_halves(self, value):
        """Return the estimate whose sums are in two halves."""
        if self.halves is None:
            return super().estimate_of_halves(value)
        return Estimate(self.halves, value._estimate.combine)

    def within(self, whole):
        """Return the same within the bounds of all rounds, of which these are some."""
        out = super().within(whole)
        out.halves = self.halves
        return out

    def _largest(self, strata, max_weight, spare):
        refuse_stated(max_weight)
        source = LOGGED if any(self.extremes.weights) else POSSIBLE
        return np.array([self.extremes.largest_weight]), source

    def _corners(self, value, largest, limits):
        """Return how far a round may lie, with either end of a range."""
        estimate, n = value._estimate, value.n_rounds
        omega = estimate.frame.heaviest
        scale = sqrt(n * max(n - 1, 1)) * omega
        find = self._of_terms
        if self.evaluator.is_of_weights:
            find = self._of_weights
        elif self.rounds is not None:
            find = self._of_rounds
        found = [find(estimate, k, end) for k, end in enumerate(limits)]
        pairs = [(scale * low, scale * high) for low, high in found]
        return at_ends(limits, *pairs, omega)

    def _of_weights(self, estimate, _, end):
        """Return the ends of psi of rounds of the extreme weights."""
        low, rest = min(self.extremes.weights[0], 0.0), self.extremes.rest
        w = np.repeat([low, self.extremes.largest_weight], 2)
        psi = influence(estimate, (w * end, w + np.tile(rest, 2)), [0])
        return psi.min(), psi.max()

    def _of_rounds(self, estimate, _, end):
        """Return the ends of psi of all rounds, with another reward."""
        terms, w, reward = self.rounds
        low, high = inf, -inf
        for block in blocks(len(w)):
            first, *others = (term[block.rows] for term in terms)
            first = first + w[block.rows] * (end - reward[block.rows])
            psi = influence(estimate, (first, *others), [0])
            low, high = min(low, psi.min()), max(high, psi.max())
        return low, high

    def _of_terms(self, estimate, k, _):
        """Return bounds of psi where every term is at an end of its own."""
        ends, near = self.extremes.terms, list(estimate.origin)
        if self.evaluator.combine is sum_of_two:  # of both together
            near = [sum(near[:2])]
        *slopes, last = estimate.plain_slopes
        parts = [
            sorted((b * (low - near), b * (high - near)))
            for b, (low, high), near in zip(
                slopes, [ends[k], *ends[2:]], near, strict=False
            )
            if b  # others may be unknown
        ]
        lows, highs = zip(*parts, strict=True) if parts else ((), ())
        return sum(lows) + last, sum(highs) + last
