# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""The value of a policy from simulated histories."""

from functools import cached_property

import numpy as np

from skope_ope.evaluators.core._design import Frame
from skope_ope.evaluators.core._estimate import GivenEstimate
from skope_ope.evaluators.core._policy_value import PolicyValue
from skope_ope.evaluators.core._rows import DroppedRows
from skope_ope.evaluators.sequential._history import linearised

OWN = "the policy's own value"
PROGRESSIVE = "the progressive-validation policy"


class SequentialValue(PolicyValue):
    """Value of a policy from simulated histories."""

    # Of a log that was read in parts the rounds were dropped: what needs all of them
    # raises, and says what to do.

    _of_sequence = True

    def __init__(
        self, estimate, history, *, policy, bound_terms, counted=None, **about
    ):
        rows, log = history.rows(estimate, counted), history.log
        super().__init__(estimate, rows, origin=log, **about)
        self.adaptive, self.horizon = history.adaptive, history.horizon
        self.accepted, found = history.accepted, history.trajectories
        self._acceptance_ratios = history.acceptance_ratios
        self.n_trajectories = len(found.values)
        self.trajectory_values, self.trajectory_shares = found.values, found.shares
        self.trajectory_stops, self.part_values = found.stops, found.part_values
        self._part_terms = linearised(found.part_values, found.part_weights, self.value)
        self.n_violations = int(self.diagnostics.get("n_violations", 0))
        self.bias_mass = float(self.diagnostics.get("bias_mass", 0.0))
        self.reward_bounds, self.bound_terms = history.log._reward_extremes, bound_terms
        # Rows of a history depend on each other. Those of a single trace of DR-ns are
        # differences of a martingale, but then the error is about another policy.
        self._of_another_policy = self.diagnostics["standard_error_of"] == PROGRESSIVE
        self._independent_rounds = not self.adaptive or self._of_another_policy
        self._progressive_policy = history.progressive_policy
        self._policy, self._last_trajectory = policy, history.last_trajectory

    def __repr__(self):
        about = self.diagnostics["standard_error_of"]
        if about == OWN:
            return super().__repr__()
        return f"{super().__repr__()[:-1]}, standard_error_of={about!r})"

    @property
    def acceptance_ratios(self):
        """Acceptance ratio c in use at every row."""
        if self._acceptance_ratios is None:
            instead = "diagnostics has their sum and the last one"
            raise ValueError(_rounds_dropped("acceptance_ratios", instead))
        return self._acceptance_ratios

    @property
    def progressive_policy_(self):
        """The policy that a single trace of a policy that learns values."""
        if self._progressive_policy is None:  # hasattr tells that there is none
            instead = "accepted has the rows of its histories"
            why = "this value is not about a progressive-validation policy."
            if self._acceptance_ratios is None:
                why = _rounds_dropped("progressive_policy_", instead)
            raise AttributeError(why)
        return self._progressive_policy

    @cached_property
    def learned_policy(self):
        """The policy after its last complete trajectory."""
        last = self._last_trajectory
        return self._policy if last is None else last.learned()

    def running_values(self):
        """Return the value so far, along the log."""
        rows = self.trajectory_stops - 1
        if self.n_trajectories != 1:
            shares = self.trajectory_shares
            return rows, np.cumsum(shares * self.trajectory_values) / np.cumsum(shares)
        if self._acceptance_ratios is None:
            what = "running_values of a single history"
            raise ValueError(_rounds_dropped(what, "set a horizon"))
        # rounds after the last one of a horizon are in no complete history
        rows = self.accepted[self.accepted <= rows[0]]
        above, below = np.cumsum(self._rows.terms, axis=1)[:, rows]
        return rows, above / below

    def _group_estimate(self, places):
        estimate, rows = super()._group_estimate(places)
        if self.successes is not None:
            _, n_accepted = self._group_successes(rows) or (0, 0)
            estimate = estimate.with_freedom(max(n_accepted - 1, 1))
        return estimate, rows

    def _group_successes(self, rows):
        if self.successes is None:
            return None
        above, below = rows.terms
        rewards = above[below > 0] / below[below > 0]
        return (round(rewards.sum()), len(rewards)) if len(rewards) else None

    def _paired_parts(self, other):
        """Return mean, error and freedom of the gaps between parts, or None."""
        # Where rounds of one of both depend on each other, its parts do not.
        independent = self._independent_rounds and other._independent_rounds
        own, others = self._part_terms, getattr(other, "_part_terms", ())
        if independent or not len(own) == len(others) > 1:
            return None
        gaps = own - others
        gaps = gaps[np.isfinite(gaps)]
        if len(gaps) < 2:
            return None
        return float(gaps.std(ddof=1) / np.sqrt(len(gaps))), len(gaps) - 1

    def _paired_estimate(self, other, value, change):
        """Return the estimate of a difference, from pairs of parts where it must."""
        gaps = self._paired_parts(other)
        if gaps is None:
            return super()._paired_estimate(other, value, change)
        error, freedom = gaps
        if change is not None and not change.any():
            error = 0.0
        frame = Frame(np.array([self.n_rounds]))  # parts, not groups, are pairs
        return GivenEstimate(value, error, freedom, change, frame), []

    def _paired_of_sums(self, other):
        mine, others = self._rows.counted, other._rows.counted
        known = isinstance(other, SequentialValue) and mine is not None
        if not known or mine != others or self._paired_parts(other) is None:
            return super()._paired_of_sums(other)
        value = self.value - other.value
        estimate, _ = self._paired_estimate(other, value, None)
        rows = DroppedRows(self.n_rounds, estimate.frame, mine)
        out = self._difference_from(other, estimate, rows)
        return self, other, out._resting_on(self, other), ()

    def __getstate__(self):
        if self._rows.dropped:
            return super().__getstate__()
        learned = self.learned_policy  # it may need the rounds, which stay behind
        given = {"learned_policy": learned, "_last_trajectory": None, "_policy": None}
        return super().__getstate__() | given


def _rounds_dropped(name, instead):
    return (
        f"{name} needs the rounds, which a lazy log does not keep; {instead}. To "
        "have it, evaluate rounds in memory, evaluate(policy, lazy.sample(n)), or "
        "one partition, partitions[0].read()."
    )


def check_unit_interval(name, bounds):
    """Raise unless all values lie in [0, 1], as a theorem assumes."""
    if bounds[0] < 0 or bounds[1] > 1:
        raise ValueError(
            f"the bound assumes {name} in [0, 1], got {bounds[0]:.6g} to "
            f"{bounds[1]:.6g}. Rescale the rewards."
        )
