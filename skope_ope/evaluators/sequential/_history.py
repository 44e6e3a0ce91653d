# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Simulated histories of a policy, stretch by stretch.

The state of a pass over a part of a log is a `PartHistory`: its trajectories so far,
and the `PassResult` of its rounds. A log in memory is one stretch, which is kept, and
files are many, of which sums are kept. A `History` is about all parts.
"""

from copy import copy
from dataclasses import replace
from functools import cached_property, reduce
from math import inf, isfinite, nan, sqrt
from operator import add

import numpy as np

from skope_ope.evaluators.core._design import Frame, design_of
from skope_ope.evaluators.core._engine import FAR_REWARDS, Extract, terms_of
from skope_ope.evaluators.core._estimate import GivenEstimate, spread_estimate
from skope_ope.evaluators.core._functions import ratio
from skope_ope.evaluators.core._overlap import Support
from skope_ope.evaluators.core._reach import (
    LinearReach,
    Reach,
    StatedReach,
    at_ends,
    range_only,
)
from skope_ope.evaluators.core._rounds import PositiveRounds
from skope_ope.evaluators.core._rows import DroppedRows, Rows
from skope_ope.evaluators.sequential._history_sums import (
    PassResult,
    TermSums,
    estimate_of_clusters,
)
from skope_ope.evaluators.sequential._progressive_policy import (
    LastTrajectory,
    ProgressivePolicy,
)
from skope_ope.evaluators.sequential._simulator import takes_weight
from skope_ope.intervals._gamma import deviations_of_blocks
from skope_ope.logs._row_container import known_range

JUST_PI = Extract(lambda rounds: (rounds.pi,))
_PI_V_Q = Extract(lambda rounds: (rounds.pi, rounds.v, rounds.q))


class RoundsOfPart(PositiveRounds):
    """The rounds of a part of a log that is known as a whole."""

    def __init__(self, logs, facts):
        super().__init__(logs)
        self.n, self._whole = facts.n_rounds, facts.log

    @property
    def unseen(self):
        """Codes of the actions that no round of the log took."""
        return self._whole._unseen


class Stretch:
    """Consecutive rounds of a log, and what is known of them."""

    def __init__(self, logs, facts, target, u, source=None):
        self.logs, self.target, self.u = logs, target, u
        self.source = source  # what predicts their rewards, or None
        self.positive = RoundsOfPart(logs, facts)

    @classmethod
    def of_rows(cls, rows, logs, facts, target, u, source):
        """Return consecutive rounds of logs that target and source know as a whole."""
        if target.array is not None:
            target = copy(target)
            target.array = target.array[rows]
        if source is not None:
            source = _SourceOfRows(source, logs, rows.start)
        return cls(logs[rows], facts, target, u, source)

    @cached_property
    def known(self):
        """Terms of a policy that does not learn, and its overlap with the rounds."""
        # Probabilities of the logged actions, and model values where there is one.
        support, extract = Support(self.positive), _PI_V_Q if self.source else JUST_PI
        about = self.logs, self.target, self.source, self.positive
        terms = terms_of(extract, *about, [support])
        return list(terms), support.overlaps[id(self.target)]

    @property
    def predict(self):
        """What predicts the rewards of chunks of these rounds, or None."""
        return None if self.source is None else self.source.bind(self.logs)


class _SourceOfRows:
    """What predicts rewards of consecutive rounds of some logs."""

    def __init__(self, source, logs, start):
        self._source, self._logs, self._start = source, logs, start
        self.asks_models = getattr(source, "asks_models", True)

    def bind(self, logs):
        """Return a chunk predictor; `logs` are the rounds."""
        predict = self._source.bind(self._logs)
        return lambda rounds, start: predict(rounds, self._start + start)


class PartHistory:
    """The simulated history in a part of a log, as far as a pass has come."""

    # Of a log in memory all terms are kept, of files their sums.

    def __init__(self, evaluator, simulator, rows, facts, keeps_rounds):
        self.rows, self.simulator, self.restarts = rows, simulator, simulator.restarts
        self._evaluator, self._horizon = evaluator, evaluator.horizon
        self.offset = far_offset(*facts.log._reward_extremes)
        if self.offset and not evaluator.__sklearn_tags__().shift_equivariant:
            self.offset = 0.0  # what is added to all rewards is not to the value
        self.values, self.weights, self.stops = [], [], []  # of its trajectories
        self.n_accepted, self._accepted, self._at = 0, [], rows.start
        self._first_odd = inf
        self.found = self.trace = self.terms = self.replayed = self.sums = None
        self._open, self._held = np.zeros(2), np.zeros(2)
        self.last = None if self.restarts is None else LastTrajectory(simulator)
        if not keeps_rounds:
            alone = self.restarts is None or evaluator._is_progressive
            limits = known_range(facts.log) if evaluator._is_linear else None
            self.sums = TermSums(limits, alone)

    def add(self, positive, trace, overlap):
        """Take the next rounds, what happened to them, and their overlap if known."""
        logs, evaluator = positive.all_logs, self._evaluator
        found = PassResult(positive, trace, overlap, self._at)
        if self.last is not None:
            if evaluator._weighs and takes_weight(trace.policy):
                self.replayed = np.maximum(1.0, trace.c * found.w)
            self.last.take(logs, trace, self.replayed)
        self._add_terms(positive, trace, found.w)
        if self.sums is None:
            self.found, self.trace = found, trace
        else:
            found = found.summed()
            self.found = found if self.found is None else (self.found + found).summed()
        self._see_accepted(trace.accepted, logs.reward)
        self._at += len(trace.pi)

    def _add_terms(self, positive, trace, w):
        """Add the terms of the rounds to the trajectories to which they belong."""
        evaluator, logs, own = self._evaluator, positive.all_logs, trace
        reward = logs.reward
        if self.offset:
            reward = reward - self.offset
            if trace.v is not None:
                own = replace(trace, v=trace.v - self.offset, q=trace.q - self.offset)
        at, x, y = evaluator._terms(own, reward, w)
        ends, held = self._stops(trace.accepted), None
        cuts = ends if isinstance(at, slice) else trace.accepted.searchsorted(ends)
        if evaluator._counts_blocks and self._horizon is None:
            # rounds after the last accepted one count when another one is accepted
            held = int(trace.accepted[-1]) + 1 if len(trace.accepted) else 0
        if self.sums is not None:
            numbers = len(self.values) + cuts.searchsorted(np.arange(len(x)), "right")
            slope = evaluator._slope(trace, w) if evaluator._is_linear else None
            about = (at, x, y), numbers, logs.reward, slope, held
            self.sums.add(positive.design, *about)
        elif held is not None:
            x[held:] = 0.0
        first, *others = zip(np.split(x, cuts), np.split(y, cuts), strict=True)
        self._open_with(*first, held)
        for end, pieces in zip(ends.tolist(), others, strict=True):
            self._close(self._at + end)
            self._open_with(*pieces)
        if self.sums is None:
            self.terms = at, x, y, cuts

    def _stops(self, accepted):
        """Return the rows after the last ones of trajectories that end here."""
        if self._horizon is None:
            return accepted[:0]
        first = self._horizon - self.n_accepted % self._horizon - 1
        return accepted[first :: self._horizon] + 1

    def _open_with(self, x, y, held=None):
        """Add terms to the open trajectory, those from `held` on if it goes on."""
        self._held += float(x[:held].sum()), float(y[:held].sum())
        if held != 0:
            self._open += self._held
            self._held[:] = 0.0
        if held is not None:
            self._held += float(x[held:].sum()), float(y[held:].sum())

    def _close(self, stop):
        """End the open trajectory before a row."""
        above, below = self._open.tolist()
        self.values.append(above / below + self.offset if below else nan)
        self.weights.append(below)
        self.stops.append(stop)
        self._open[:] = 0.0

    def _see_accepted(self, accepted, reward):
        some = reward[accepted]
        odd = np.flatnonzero((some != 0) & (some != 1))
        if len(odd):
            self._first_odd = min(self._first_odd, self.n_accepted + int(odd[0]))
        self._accepted.append(self._at + accepted)
        self.n_accepted += len(accepted)

    def finish(self):
        """End the pass after the last round; return self, ready to travel."""
        if self._horizon is None:
            self._close(self.rows.stop)
        self.accepted = _of_all(self._accepted)
        self.simulator = self._evaluator = self._accepted = None
        if self.sums is not None:
            self.sums.finish()
            self.replayed = None
        return self

    def successes(self, n_used):
        """Return the ones among the first accepted rewards; None: others are there."""
        if self._first_odd < n_used:
            return None
        pairs = zip(self.values, self.weights, strict=True)
        return round(sum(value * weight for value, weight in pairs))


class History:
    """The simulated histories of one policy in the parts of a log."""

    def __init__(self, evaluator, parts, facts):
        self._evaluator, self.parts, self.facts = evaluator, parts, facts
        self.restarts = parts[0].restarts  # the policy at the start of its histories
        self.adaptive = self.restarts is not None  # whether the policy learns
        self.dropped = parts[0].sums is not None  # whether its rounds were dropped
        # The logs, or `LogSums` that answer what findings ask of logs
        self.log, self.n_rounds = facts.log, facts.n_rounds
        self.horizon = evaluator.horizon  # accepted rounds of a trajectory; None: all

    @cached_property
    def accepted(self):
        """Rows that entered the histories, in order."""
        return _of_all([part.accepted for part in self.parts])

    @property
    def n_accepted(self):
        """Number of accepted rounds."""
        return sum(part.n_accepted for part in self.parts)

    @property
    def longest(self):
        """Accepted rounds of the part that gave the most."""
        return max(part.n_accepted for part in self.parts)

    @cached_property
    def found(self):
        """The `PassResult` of all rounds."""
        return reduce(add, [part.found for part in self.parts])

    @property
    def overlap(self):
        """`Overlap` of the policy with the log; None without propensities."""
        return self.found.overlap

    @property
    def last_trajectory(self):
        """The last complete `LastTrajectory` of a part; None: nothing is learned."""
        if not self.adaptive:
            return None
        found = [part.last for part in self.parts]
        return ([one for one in found if one.complete] or found)[-1]

    @property
    def progressive_policy(self):
        """The policy that a single trace of a policy that learns values, or None."""
        if self.dropped or not (self.adaptive and self._evaluator._is_progressive):
            return None
        (part,) = self.parts
        trace = part.trace
        about = trace.policy, self.log, trace.accepted, trace.pi, trace.c
        return ProgressivePolicy(*about, part.replayed)

    def huge_weight_finding(self):
        """Return the finding that a weight leaves the range of floating point."""
        return self.found.huge[0 if isfinite(self.found.gain) else 1]

    @cached_property
    def acceptance_ratios(self):
        """Acceptance ratio c in use at every row; None where the rounds are gone."""
        if self.dropped:
            return None
        return _of_all([part.trace.c for part in self.parts])

    @cached_property
    def trajectories(self):
        """The `Trajectories` of all parts."""
        return Trajectories(self.parts, self._evaluator._pooled)

    @cached_property
    def _design(self):
        if len(self.parts) == 1:
            return self.parts[0].found.positive.design
        return design_of(self.log)

    @cached_property
    def _round_terms(self):
        """What every round of a log in memory adds to value and denominator."""
        change, below = np.zeros((2, self.n_rounds))
        for part, f, (at, x, y, _) in self._parts_of_rounds():
            value = self.trajectories.value - part.offset
            # around the value of all: rows tell how trajectories differ, too
            moved = x - value * y
            moved *= self.n_rounds * f
            change[part.rows][at] = moved
            below[part.rows][at] = f * y
        return change, below

    def _parts_of_rounds(self):
        """Yield the parts, and what terms of their rounds are multiplied by."""
        for part, factors in zip(self.parts, self.trajectories.factors, strict=True):
            _, x, _, cuts = part.terms
            if len(cuts):
                bounds = np.diff([0, *cuts, len(x)])
                factors = np.repeat(np.append(factors, 0.0)[: len(bounds)], bounds)
            yield part, factors if len(factors) else 0.0, part.terms

    def round_values(self):
        """Return a value for every round; their mean is that of the policy."""
        return self.trajectories.value + self._round_terms[0]

    def rows(self, estimate, counted=None):
        """Return the rounds behind an estimate."""
        if self.dropped:
            return DroppedRows(self.n_rounds, estimate.frame, counted)
        return Rows(self._design, self._ratio_terms, logs=self.log)

    def _ratio_terms(self):
        """Return the terms of a ratio, so that groups of rows have ratios, too."""
        change, below = self._round_terms
        above = change / self.n_rounds
        return np.stack([above + below * self.trajectories.value, below])

    def given(self, error, freedom):
        """Return the estimate whose standard error is known from elsewhere."""
        frame, values = Frame(np.array([self.n_rounds])), None
        if not self.dropped:
            values = self.round_values()
        numbers = self.trajectories.value, error, freedom, values, frame
        return GivenEstimate(*numbers, combine=ratio)

    def spread(self, freedom):
        """Return the estimate whose error is the spread of the only trajectory."""
        value, n = self.trajectories.value, self.n_rounds
        if not self.dropped:
            about = value, self.round_values(), self._design, freedom
            return spread_estimate(*about, combine=ratio)
        if self.parts[0].sums.joint is not None:
            return estimate_of_clusters(self.parts, value, freedom)
        square = float(self._sides[:, 1].sum())
        error = sqrt(square / n / (n - 1)) if n > 1 else nan
        return self.given(error, min(freedom, n - 1))

    @cached_property
    def _sides(self):
        """Sums of the powers of the deviations upwards and downwards."""
        found, n = self.trajectories, self.n_rounds
        pairs = zip(self.parts, found.factors, strict=True)
        return sum(
            part.sums.spread.sides(found.value - part.offset, n * factors)
            for part, factors in pairs
        )

    def reach(self, estimate):
        """Return what finds how far the value of a round may lie from the estimate."""
        found, limits = self.trajectories, known_range(self.log)
        alone = not self.adaptive and len(found.terms) == 1
        alone = alone and self._evaluator._is_linear
        if self.dropped:
            return self._stated_reach(estimate, limits, alone)
        if not alone:
            return range_only(limits)  # trajectories and parts are few, and alike
        slopes = None if limits is None else self._slopes()
        return LinearReach(limits, slopes, self.log.reward)

    def _slopes(self):
        """Return what a unit of reward adds to the round values."""
        slopes = np.zeros(self.n_rounds)
        for part, f, (at, *_) in self._parts_of_rounds():
            slope = self._evaluator._slope(part.trace, part.found.w)
            slopes[part.rows][at] = self.n_rounds * f * slope
        return slopes

    def _stated_reach(self, estimate, limits, alone):
        """Return the reach, and the deviations, of rounds that were dropped."""
        found, n, numbers = self.trajectories, self.n_rounds, [nan] * 7
        out = range_only(limits)
        if isfinite(found.value):
            (up, up2, up3), (down, down2, down3) = self._sides.tolist()
            far = sqrt(up2), -sqrt(down2)  # none is further out
            if len(found.values) == 1:
                (low, high), *corners = self._extremes()
                if alone and limits is not None and corners:
                    ends = at_ends(limits, *corners)
                    out = StatedReach(limits, Reach(*limits, ends))
                far = high, low
            numbers = [up, up2, down, down2, max(up3, down3), *far]
        if estimate.frame.clustered:
            scale = sqrt(n * max(n - 1, 1))
            numbers = list(deviations_of_blocks([scale * estimate.cluster_sums], n))[1:]
        out.deviations = [n, *numbers]
        return out

    def _extremes(self):
        """Return the least and the largest deviation of the only trajectory."""
        found, n = self.trajectories, self.n_rounds
        for part, factors in zip(self.parts, found.factors, strict=True):
            if factors.any():
                about = found.value - part.offset, n * factors.max()
                return part.sums.extremes(*about, part.sums.n_terms == n)


class Trajectories:
    """The value of a policy from those of its trajectories."""

    # The value is the mean over the trajectories of a single part, and over parts where
    # there are several; one that gave no value (NaN) is left out.

    def __init__(self, parts, pooled):
        every = [np.array(one.values) for one in parts]
        weights = [np.array(one.weights) for one in parts]
        counts = weights if pooled else [None] * len(parts)
        several = len(parts) > 1
        self.part_values = np.array(list(map(mean_of, every, counts)))
        self.part_weights = np.array([w.sum() for w in weights]) if pooled else None
        values, counts = every[0], counts[0]
        if several:
            values, counts = self.part_values, self.part_weights
        formed = np.isfinite(values)
        counts = counts[formed] if pooled else None
        self.value = mean_of(values[formed], counts)
        self.terms = linearised(values[formed], counts, self.value)
        self.n_lost = len(values) - len(self.terms)
        total = counts.sum() if pooled else max(len(self.terms), 1)
        # Share of every trajectory in the mean, and what its terms are multiplied by;
        # zero where it has no value.
        shares, self.factors = [], []
        for values, weight in zip(every, weights, strict=True):
            share = np.where(np.isnan(values), 0.0, weight if pooled else 1.0)
            share = share / (total if pooled or not several else total * len(share))
            nothing = np.zeros(len(share))
            shares.append(share)
            self.factors.append(np.divide(share, weight, out=nothing, where=share > 0))
        # of those that have a value, in all parts
        known = ~np.isnan(np.concatenate(every))
        numbers = every, weights, shares, [np.array(one.stops, int) for one in parts]
        self.values, self.weights, self.shares, self.stops = (
            np.concatenate(one)[known] for one in numbers
        )


def _of_all(parts):
    """Return the arrays of all parts as one; they may be long."""
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def far_offset(low, high):
    """Return the middle of rewards that lie far from zero for their spread, or 0."""
    middle = low + (high - low) / 2
    return middle if abs(middle) > FAR_REWARDS * (high - low) else 0.0


def mean_of(values, weights=None):
    """Return the (weighted) mean, NaN of none."""
    if not len(values):
        return nan
    if weights is None:
        return float(values.mean())
    return float((weights * values).sum() / weights.sum())


def linearised(values, weights, mean):
    """Return terms whose mean and spread are those of a (weighted) mean."""
    if weights is None or not weights.any():
        return values
    return mean + weights / weights.mean() * (values - mean)
