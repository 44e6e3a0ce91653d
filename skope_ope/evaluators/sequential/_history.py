# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Simulated histories of a policy, their trajectories and their values."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from skope_ope.evaluators.core._drowned import huge_weight_finding
from skope_ope.evaluators.sequential._acceptance import n_offered
from skope_ope.evaluators.sequential._drns_model import rounds_seen_ahead
from skope_ope.evaluators.sequential._history_overlap import RatioSums, Violations


@dataclass
class LogSegment:
    """A part of the logs with separate histories."""

    rows: slice  # the rows
    trace: object  # what happened to them

    def trajectories(self, horizon):
        """Return the rows of every complete trajectory, and those accepted in it."""
        # Rows are counted from the start of the segment.
        accepted = self.trace.accepted
        if horizon is None:
            return [(slice(0, len(self.trace.pi)), accepted)]
        pairs, start = [], 0
        for last in range(horizon, len(accepted) + 1, horizon):
            stop = int(accepted[last - 1]) + 1
            pairs.append((slice(start, stop), accepted[last - horizon : last]))
            start = stop
        return pairs


@dataclass
class History:
    """The simulated histories of one policy in some logs."""

    positive: object  # the rounds
    segments: list  # parts of the logs, in order
    adaptive: bool  # whether the policy learns
    # Sums of the importance weights; None where the propensities of a log are not known
    # and the policy learns
    overlap: object
    told_weights: bool = False  # whether the policy learned from rounds with weights

    @property
    def logs(self):
        """The logs."""
        return self.positive.all_logs

    @property
    def n_rounds(self):
        """Number of rounds."""
        return len(self.logs)

    @property
    def n_accepted(self):
        """Number of accepted rounds."""
        return len(self.accepted)

    @property
    def restarts(self):
        """The policy at the start of its histories, where it learns."""
        return self.segments[0].trace.restarts

    @cached_property
    def accepted(self):
        """Rows that entered the histories, in order."""
        return np.concatenate([s.rows.start + s.trace.accepted for s in self.segments])

    @cached_property
    def acceptance_ratios(self):
        """Acceptance ratio c in use at every row."""
        return np.concatenate([segment.trace.c for segment in self.segments])

    @cached_property
    def w(self):
        """Importance weights pi(a|x, h) / p of all rows."""
        pi = np.concatenate([segment.trace.pi for segment in self.segments])
        return pi / self.logs.propensity

    @cached_property
    def replayed_weights(self):
        """How often an accepted round counts in what the policy learned, or None."""
        if not self.told_weights:
            return None
        return np.maximum(1.0, self.acceptance_ratios * self.w)

    @property
    def longest(self):
        """Accepted rounds of the segment that gave the most."""
        return max(len(segment.trace.accepted) for segment in self.segments)

    @property
    def final_ratio(self):
        """The last acceptance ratio."""
        return float(self.acceptance_ratios[-1])

    @cached_property
    def ratios(self):
        """`RatioSums` of the acceptance ratios."""
        return RatioSums(self.acceptance_ratios)

    @cached_property
    def violations(self):
        """`Violations` of the acceptance ratios."""
        logs = self.logs
        groups = () if logs.group is None else (logs.groups, logs.group_index)
        return Violations(self.acceptance_ratios, self.w, *groups)

    @property
    def reward_bounds(self):
        """The least and the largest reward."""
        reward = self.logs.reward
        return float(reward.min()), float(reward.max())

    @property
    def model_range(self):
        """The least and the largest model value."""
        values = [part for one in self.segments for part in one.trace.model_values]
        return (
            min(float(part.min()) for part in values),
            max(float(part.max()) for part in values),
        )

    @property
    def has_groups(self):
        """Whether rounds depend on each other in groups."""
        return self.logs.group is not None

    @property
    def first_reversal(self):
        """The first row whose time is before that of the row above, or None."""
        return first_reversal(self.logs.timestamp)

    @property
    def most_offered(self):
        """The most actions that were ever offered."""
        return int(np.max(n_offered(self.logs)))

    def huge_weight_finding(self):
        """Return the finding that a weight leaves the range of floating point."""
        formed = np.isfinite(self.w @ self.logs.reward)
        return huge_weight_finding(self.logs, self.w, formed)

    def seen_ahead(self, source):
        """Count rounds predicted by what came later, see `rounds_seen_ahead`."""
        return rounds_seen_ahead(source, self.logs)

    def successes(self, n_used):
        """Return the sum of the first accepted rewards, None unless all are 0 or 1."""
        rewards = self.logs.reward[self.accepted[:n_used]]
        return int(rewards.sum()) if np.isin(rewards, (0.0, 1.0)).all() else None


@dataclass
class TrajectoryEstimate:
    """Value of a trajectory, a ratio of sums over its rows."""

    value: float  # the ratio
    # Contribution of each row to the numerator, less the value times that to the
    # denominator
    influence: np.ndarray
    # Contribution of each row to the denominator, which is one in all
    below: np.ndarray
    # The denominator before it was made one, where trajectories are pooled
    weight: float = 1.0
    rows: slice | None = None  # the rows of the logs


class Trajectories:
    """The value of a policy from those of its trajectories."""

    # The value is the mean over the trajectories of a single segment, and over segments
    # where there are several; one that gave no value (NaN) is left out.

    def __init__(self, by_segment, pooled):
        self.by_segment, self.pooled = by_segment, pooled
        parts = [self._numbers(found) for found in by_segment]
        self.part_values = np.array([mean_of(*numbers) for numbers in parts])
        self.part_weights = np.array([w.sum() for _, w in parts]) if pooled else None
        values, weights = parts[0]
        if len(parts) > 1:
            values, weights = self.part_values, self.part_weights
        formed = np.isfinite(values)
        self._weights = weights[formed] if pooled else None
        self.value = mean_of(values[formed], self._weights)
        self.terms = linearised(values[formed], self._weights, self.value)
        self.n_lost = len(values) - len(self.terms)

    def _numbers(self, found):
        """Return values and weights of the trajectories of a segment."""
        values = np.array([one.value for one in found])
        return values, np.array([one.weight for one in found]) if self.pooled else None

    @cached_property
    def formed(self):
        """Pairs of every trajectory that has a value and its share in the mean."""
        pairs, several = [], len(self.by_segment) > 1
        for found in self.by_segment:
            of_part = len(found) if several else 1
            total = self._weights.sum() if self.pooled else len(self.terms) * of_part
            for one in found:
                if not np.isnan(one.value):
                    weight = one.weight if self.pooled else 1
                    pairs.append((one, weight / total))
        return pairs

    def round_values(self, n_rounds):
        """Return round values, and what every row adds to the denominator."""
        round_values, below = np.zeros((2, n_rounds))
        for one, share in self.formed:
            # around the value of all: rows tell how trajectories differ, too
            change = one.influence + one.below * (one.value - self.value)
            round_values[one.rows] = n_rounds * share * change
            below[one.rows] = share * one.below
        round_values += self.value
        return round_values, below


def first_reversal(time):
    """Return the first row whose time is before that of the row above, or None."""
    if time is None or len(time) < 2 or (time[1:] >= time[:-1]).all():
        return None
    return int(np.flatnonzero(time[1:] < time[:-1])[0]) + 1


def mean_of(values, weights=None):
    """Return the (weighted) mean, NaN of none."""
    if not len(values):
        return float("nan")
    if weights is None:
        return float(values.mean())
    return float((weights * values).sum() / weights.sum())


def linearised(values, weights, mean):
    """Return terms whose mean and spread are those of a (weighted) mean."""
    if weights is None or not weights.any():
        return values
    return mean + weights / weights.mean() * (values - mean)
