# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Simulated histories of a policy of which the rounds were dropped."""

from copy import copy
from dataclasses import dataclass
from functools import cached_property, reduce

import numpy as np

from skope_ope.evaluators.core._design import Frame
from skope_ope.evaluators.core._estimate import Estimate, GivenEstimate
from skope_ope.evaluators.core._positive_rounds import PositiveRounds
from skope_ope.evaluators.core._reach import range_only
from skope_ope.evaluators.sequential._history import Trajectories, TrajectoryEstimate
from skope_ope.evaluators.sequential._history_overlap import joined
from skope_ope.evaluators.sequential._term_moments import (
    deviations_of_moments,
    deviations_of_yes_no,
    reach_of_moments,
)
from skope_ope.evaluators.sequential._walk_sums import emptied
from skope_ope.logs._known_range import known_range


class _Unweighted:
    """Stands for a history where only whether there are slopes is asked."""

    w = 1.0


class RoundsOfPart(PositiveRounds):
    """The rounds of a part of a log that is known as a whole."""

    def __init__(self, logs, log):
        super().__init__(logs)
        self.n, self._unseen = len(log), log._unseen

    @property
    def unseen(self):
        """Codes of the actions that no round of the log took."""
        return self._unseen


@dataclass
class SummedHistory:
    """The simulated histories of one policy, from sums over their rounds."""

    # It tells what a `History` tells.

    walks: list  # one for every part with a history of its own, in order
    facts: object  # what is known of the whole log
    adaptive: bool  # whether the policy learns
    restarts: object = None  # the policy at the start of its histories, where it learns
    horizon: int | None = None  # accepted rounds of a trajectory

    @property
    def logs(self):
        """What is known of the log: `LogSums` answer what findings ask of logs."""
        return self.facts.log

    @property
    def n_rounds(self):
        """Number of rounds."""
        return self.facts.n_rounds

    @cached_property
    def accepted(self):
        """Rows that entered the histories, in order."""
        parts = [walk.accepted for walk in self.walks]
        return parts[0] if len(parts) == 1 else np.concatenate(parts)  # they are long

    @property
    def n_accepted(self):
        """Number of accepted rounds."""
        return sum(walk.n_accepted for walk in self.walks)

    @property
    def longest(self):
        """Accepted rounds of the part that gave the most."""
        return max(walk.n_accepted for walk in self.walks)

    @property
    def final_ratio(self):
        """The last acceptance ratio."""
        return self.walks[-1].final_ratio

    @cached_property
    def ratios(self):
        """`RatioSums` of the acceptance ratios."""
        return _total(walk.ratios for walk in self.walks)

    @cached_property
    def violations(self):
        """`Violations` of the acceptance ratios."""
        return _total(walk.violations for walk in self.walks)

    @cached_property
    def overlap(self):
        """`Overlap` of the policy with the log; None without propensities."""
        found = [walk.overlap for walk in self.walks]
        return None if None in found else reduce(joined, found)

    @property
    def has_groups(self):
        """Whether rounds depend on each other in groups."""
        return self.logs.groups is not None

    @property
    def first_reversal(self):
        """The first row whose time is before that of the row above, or None."""
        return self.facts.reversal

    @property
    def most_offered(self):
        """The most actions that were ever offered."""
        return self.facts.most_offered

    @property
    def reward_bounds(self):
        """The least and the largest reward."""
        return self.logs.reward_low, self.logs.reward_high

    @property
    def model_range(self):
        """The least and the largest model value."""
        lows, highs = zip(*(walk.model_range for walk in self.walks), strict=True)
        return min(lows), max(highs)

    def successes(self, n_used):
        """Return the sum of the first accepted rewards, None unless all are 0 or 1."""
        # All complete trajectories of a single part count.
        return self.walks[0].ones

    def huge_weight_finding(self):
        """Return the finding that a weight leaves the range of floating point."""
        finding = max(
            (walk.huge for walk in self.walks if walk.huge is not None),
            key=lambda found: found.number,
        )
        if all(walk.forms_sums for walk in self.walks):
            return finding
        out = copy(finding)
        told = finding.found.replace("standard error is NaN", "value is NaN")
        object.__setattr__(out, "found", told)
        return out

    def seen_ahead(self, source):
        """Count rounds that are predicted by what came later; None: any number."""
        if getattr(source, "held_out_", None) is not None or hasattr(source, "models_"):
            return None
        return int(getattr(source, "n_uncovered_", 0))

    @cached_property
    def frame(self):
        """The clusters of the rounds."""
        sums = self.spread
        return Frame(np.array([self.n_rounds])) if sums is None else sums.frame

    @cached_property
    def spread(self):
        """Sums of the terms of the only trajectory that has a value, or None."""
        known = [walk.spread for walk in self.walks]
        if None in known:
            return None
        formed = [bool(np.isfinite(walk.values).any()) for walk in self.walks]
        several = len(known) > 1
        return _total(
            emptied(sums) if several and not has else sums
            for sums, has in zip(known, formed, strict=True)
        )

    def trajectories(self, pooled):
        """Return the `Trajectories`, whose rounds are gone."""
        return Trajectories([_estimates(walk) for walk in self.walks], pooled)

    @cached_property
    def moments(self):
        """`TermMoments` of the trajectories that have a value."""
        return [
            one
            for walk in self.walks
            for one, value in zip(walk.moments, walk.values, strict=True)
            if not np.isnan(value)
        ]

    def factors(self, trajectories):
        """Return what deviations x - V y are multiplied by, of every trajectory."""
        pairs = trajectories.formed
        return np.array([self.n_rounds * share / one.weight for one, share in pairs])

    def deviations(self, trajectories, error, of_rewards):
        """Return the `Deviations` of the round values, or bounds of them."""
        n, value = self.n_rounds, trajectories.value
        factors, ones = self.factors(trajectories), self.walks[0].ones
        if of_rewards and ones is not None:
            n_used = self.n_accepted
            if self.horizon is not None:
                n_used = len(factors) * self.horizon
            return deviations_of_yes_no(n, value, n_used, ones, float(factors[0]))
        known = len(factors) == 1 and np.isfinite(error)
        square = n * (n - 1) * error**2 if known else None
        offset = self.walks[0].offset
        about = n, value - offset, self.moments, factors
        return deviations_of_moments(*about, square)

    def reach(self, evaluator, trajectories):
        """Return what finds how far the value of a round may lie from the estimate."""
        limits = known_range(self.logs)
        slopes = evaluator._slopes(_Unweighted, 1.0)
        if self.adaptive or len(trajectories.terms) != 1 or slopes is None:
            return range_only(limits)
        (factor,) = self.factors(trajectories)
        value = trajectories.value - self.walks[0].offset
        all_rounds = self.horizon is None and evaluator.requires.model
        about = value, self.moments[0], factor, all_rounds
        return reach_of_moments(limits, *about)


class SummedSpread:
    """The spread of the terms of a trajectory, from their sums."""

    def __init__(self, history):
        self.history = history

    def given(self, value, error, freedom):
        """Return an estimate whose standard error is known from elsewhere."""
        frame = Frame(np.array([self.history.n_rounds]))
        return GivenEstimate(value, error, freedom, None, frame)

    def estimate(self, value, freedom):
        """Return the estimate whose error is the spread, with at most a freedom."""
        out = Estimate(self.history.spread.of(None), _plain_ratio)
        out.value = value
        return out if freedom is None else out.with_freedom(freedom)


def _plain_ratio(m):
    """Return f = m_0 / m_1 and its gradient."""
    # Other than `ratio` it names no divisor: a history may rest on one round.
    value = m[0] / m[1]
    return value, (1 / m[1], -value / m[1])


def _estimates(walk):
    starts = [walk.rows.start, *walk.stops][: len(walk.stops)]
    found = zip(walk.values, walk.weights, starts, walk.stops, strict=True)
    return [
        TrajectoryEstimate(value, None, None, weight, slice(start, stop))
        for value, weight, start, stop in found
    ]


def _total(parts):
    """Return the sum of all parts; None where there are none."""
    found = [part for part in parts if part is not None]
    return reduce(lambda one, other: one + other, found) if found else None
