# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Arms whose rounds were summed in parts of a log."""

from copy import copy
from dataclasses import dataclass, field
from functools import cached_property, partial
from math import nan, sqrt

import numpy as np

from skope_ope.evaluators.core._engine import Job
from skope_ope.evaluators.core._estimate import Estimate
from skope_ope.evaluators.core._functions import mean, ratio
from skope_ope.evaluators.core._mean_weight import (
    deviations,
    log_evidence,
    squares_about,
)
from skope_ope.evaluators.core._origins import total
from skope_ope.evaluators.core._reach import range_only, refuse_stated
from skope_ope.evaluators.core._requires import Requires
from skope_ope.evaluators.core._round_ends import RoundEnds
from skope_ope.evaluators.core._summed_reach import SummedReach
from skope_ope.evaluators.scavenging._arms import WEIGHTS, _shares, arm_terms

DROWNED = 1e-3  # of the size of rewards: squares of smaller differences may be lost


def estimate_of_sums(self_normalized, mixes, on_missing, summary):
    """Return the estimate of the arms of all parts of a log."""
    sums, tally = summary.sums, summary.tally
    frame, sought = sums.frame, None
    if not mixes:
        wanted = dict(zip(tally.actions, tally.wanted[0].tolist(), strict=True))
        sought = np.array([wanted[label] > 0 for label in frame.strata])
    share = partial(_shares, np.zeros(frame.n_strata, dtype=int), mixes, sought)
    found = Estimate(sums, ratio if self_normalized else mean, share)
    if (found.shares.needed & (frame.count == 1)).any() or _is_lost(found, summary):
        found = found.without_error()
    missing = tally.missing_mass(summary.counts)
    nothing = not tally.largest[0] or missing > 1 - 1e-9
    if nothing or (missing > 1e-9 and on_missing == "nan"):
        found = found.without_value()
    return found


def _is_lost(estimate, summary):
    """Whether sums of squares have lost how far the rounds of an arm differ."""
    low, high = summary.counts.reward_range
    # rewards that differ as much as they are large do not drown: they are alike by arm
    return estimate.lost and 0 < high - low < DROWNED * max(abs(low), abs(high))


class SummedArms:
    """What the sums of arms tell beside their estimate, as `Arms` does of rounds."""

    def __init__(self, summary, estimate):
        self.summary, self.estimate = summary, estimate
        self._weights = summary.sums.some([WEIGHTS])

    @property
    def lost(self):
        """Whether sums of squares have lost how far the rounds of an arm differ."""
        return _is_lost(self.estimate, self.summary)

    @property
    def missing_mass(self):
        """Mean of the policy's probability of arms that were never logged."""
        return self.summary.missing_mass

    @property
    def mean_weight(self):
        """One in expectation."""
        return self.estimate.means[WEIGHTS]

    @property
    def largest(self):
        """Largest probability of an arm that was logged, times its sample weight."""
        return self.summary.tally.largest[0]

    @property
    def mean_gain(self):
        """Mean of the weighted rewards."""
        return float(self.summary.sums.plain(0.0)[0]) / self.summary.mass

    @property
    def n_alone(self):
        """Number of arms of one round, where the policy may go."""
        shares, frame = self.estimate.shares, self.estimate.frame
        return int((shares.needed & (frame.units == 1)).sum())

    @cached_property
    def effective_sample_size(self):
        """(sum w)^2 / sum w^2 of the weights as they count."""
        share = np.atleast_1d(self.estimate.shares.weight)
        square = total(share * share * np.atleast_1d(squares_about(self._weights, 0.0)))
        return self.mean_weight**2 / square if square else nan

    def fewest_rounds(self, n_rounds):
        """Return the fewest rounds of an arm that was logged, and is wanted."""
        counts, tally = self.summary.counts, self.summary.tally
        rounds = dict(
            zip(counts.actions, counts.counts.sum(axis=0).tolist(), strict=True)
        )
        wanted = zip(tally.actions, tally.wanted[0].tolist(), strict=True)
        found = [rounds[arm] for arm, mass in wanted if mass > 0 and rounds[arm]]
        return int(min(found, default=n_rounds))

    def mean_weight_z(self, expected=1.0):
        """Return how far the mean weight is from what it should be, in errors."""
        gap, square, _ = deviations(self._weights, 1.0, expected)
        error = sqrt(square)
        return gap / error if error > 1e-9 else 0.0

    def evidence_above(self, expected=1.0):
        """Return ln E of a mean weight above what it should be, see `_mean_weight`."""
        gap, square, unit = deviations(self._weights, 1.0, expected)
        unit *= expected
        return log_evidence(gap / unit, square / unit / unit)


def reach_of_sums(summary, self_normalized, limits, n_rounds):
    """Return what finds how far the value of a round may lie from the estimate."""
    if summary.ends is None or summary.ends.terms is None:
        return range_only(limits)
    sums, ends = summary.sums, copy(summary.ends)
    ends.weights = {None: float(ends.terms[WEIGHTS, 1])}  # of any arm
    ends.omega = (sums.frame.heaviest,) * 2
    of_groups = None
    if sums.totals is not None:
        frame, near = sums.frame, sums.origin[WEIGHTS]
        cells = sums.totals[WEIGHTS] + near * sums.totals[-1]
        of_groups = np.bincount(frame.cell_cluster, cells, len(frame.clusters))
    return ArmsReach(
        ArmOfRound(self_normalized),
        limits,
        ends,
        n_rounds,
        seen=summary.counts.reward_range,
        group_weights=of_groups,
    )


@dataclass(eq=False)
class ArmsJob(Job):
    """A job on arms, with the extremes and the powers of its terms."""

    ends: object = field(default_factory=RoundEnds)

    def take(self, block, rounds):
        """Put the terms of a block."""
        terms, enter = self.evaluator.terms(rounds), block.entering
        self.sums.put(self.key, terms, self.evaluator.shift_with)
        some = terms if enter is None else [term[enter] for term in terms]
        if len(some[0]):
            self.ends.add_terms(some, True)


class ArmsReach(SummedReach):
    """The reach of an estimate from arms: a round may be as heavy as the heaviest."""

    def __call__(self, value, max_weight=None, error=None):
        """Return the `Reach` of a `SummedValue`, or None where no range is known."""
        refuse_stated(max_weight)
        return super().__call__(value)


class ArmOfRound:
    """The formula of the terms of a round, of its weight and its reward."""

    requires = Requires()

    def __init__(self, self_normalized):
        self.shift_with = WEIGHTS if self_normalized else None

    def terms(self, rounds):
        return arm_terms(rounds.w, rounds.r)
