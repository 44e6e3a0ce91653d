# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""How far the value of a round of slates may lie from an estimate from sums."""

from math import isfinite

import numpy as np

from skope_ope.evaluators.core._functions import mean, ratio
from skope_ope.evaluators.core._reach import Reach, range_only, refuse_stated
from skope_ope.evaluators.core._requires import Requires
from skope_ope.evaluators.core._round_ends import RoundEnds
from skope_ope.evaluators.core._summed_reach import SummedReach
from skope_ope.evaluators.core._weight_bound import LOGGED
from skope_ope.logs._known_range import known_range


class _Weighed:
    """The formula of means and ratios of rewards times weights of slates."""

    requires = Requires()

    def __init__(self, combine):
        self.combine = combine
        self.shift_with = 1 if combine is ratio else None

    def terms(self, rounds):
        gain = rounds.w * rounds.r
        return (gain,) if self.combine is mean else (gain, rounds.w)


def reach_of_slates(summary, log, n_rounds):
    """Return what finds how far the value of a round may lie from the estimate."""
    limits = None if log is None else known_range(log)
    if summary.ends is None:
        return range_only(limits)
    combine = getattr(summary.facts["combine"], "combine", None)
    plain = summary.ends.weights and combine in (mean, ratio)
    seen = summary.counts.reward_range
    if plain:
        formula = _Weighed(combine)
        told = {"seen": seen, "group_weights": _of_groups(summary.weights, 0)}
        return SummedReach(formula, limits, summary.ends, n_rounds, **told)
    terms, n_terms = summary.ends.terms, len(summary.estimate().slopes) - 1
    if terms is not None and len(terms) == n_terms + 2:
        return MovedReach(summary, limits, n_rounds, combine is ratio)
    formula = _Weighed(mean)
    formula.requires = Requires(weights=False)  # nothing moves with the reward
    return SummedReach(formula, limits, summary.ends, n_rounds)


class MovedReach(SummedReach):
    """The reach of terms of which the first moves with the reward of its round."""

    def __init__(self, summary, limits, n_rounds, is_ratio):
        formula = _Weighed(mean)
        formula.requires = Requires(weights=False)  # which may be negative
        told = {"group_weights": _of_groups(summary.sums, -1)}  # the last of the terms
        super().__init__(formula, limits, summary.ends, n_rounds, **told)
        tally = summary.tally
        self.largest = tally.most["largest 0"]
        self.of_weights = is_ratio and not tally.told_sums["expected"]

    def __call__(self, value, max_weight=None, error=None):
        """Return the `Reach` of a `SummedValue`, or None where no range is known."""
        refuse_stated(max_weight)
        if self.limits is None:
            return None
        low, high = self.limits
        found = zip(self.ends.terms[-2:], self.limits, strict=True)
        worst, best = (self._moved(value._estimate, *one) for one in found)
        of_group = self._of_group(value, high - low)
        return Reach(low, high, best, worst, self.largest, LOGGED, of_group)

    def _moved(self, estimate, first, end):
        """Return bounds of the deviations where all rewards are at an end."""
        terms = self.ends.terms
        if not self.of_weights:
            return self.observed(estimate, [first, *terms[1:]])
        found = [self.observed(estimate, [(w * end,) * 2, (w, w)]) for w in terms[1]]
        lows, highs = zip(*found, strict=True)
        return min(lows), max(highs)


def _of_groups(sums, term):
    """Return the sums of one of the terms over the clusters, or None."""
    if sums is None or sums.totals is None:
        return None
    *totals, mass = sums.totals
    cells = totals[term] + sums.origin[: len(totals)][term] * mass
    return np.bincount(sums.frame.cell_cluster, cells, len(sums.frame.clusters))


def ends_of_slates(found, terms, logs, part):
    """Return the `RoundEnds` of the terms of slates."""
    ends = RoundEnds()
    if not part.n:
        return ends
    entering = [part.of(term) for term in terms]
    more = ()
    if found.follows_reward and not found.plain:
        more = _at_the_ends(entering[0], found, logs, part)
    ends.add_terms(entering, True, more)
    omega = None if part.omega is None else part.of(part.omega)
    if found.plain:
        ends.add_weights(part.of(found.weight), part.of(logs.reward), omega)
    elif omega is not None:
        ends.omega = float(omega.min()), float(omega.max())
    else:
        ends.omega = 1.0, 1.0
    return ends


def _at_the_ends(first, found, logs, part):
    """Return the first term with the worst and with the best reward."""
    stated = logs.reward_range
    known = stated is not None and isfinite(stated[1] - stated[0])
    w, reward = part.of(found.weight), part.of(logs.reward)
    # where no range is stated, it may come to be that of yes and no
    return [first + w * (end - reward) for end in (stated if known else (0.0, 1.0))]
