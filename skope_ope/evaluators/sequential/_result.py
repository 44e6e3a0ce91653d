# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""The value of a policy from simulated histories."""

from functools import cached_property

import numpy as np

from skope_ope.evaluators.core._design import Frame
from skope_ope.evaluators.core._estimate import GivenEstimate
from skope_ope.evaluators.core._policy_value import PolicyValue
from skope_ope.evaluators.sequential._history import linearised
from skope_ope.evaluators.sequential._progressive_policy import replay_history

OWN = "the policy's own value"
PROGRESSIVE = "the progressive-validation policy"


class HistoryFacts:
    """What a value says of the simulated histories that it comes from."""

    def _tell(self, history, trajectories, horizon, bound_terms):
        """Take the facts, once there is a value."""
        self.adaptive = history.adaptive
        self.horizon = horizon
        self.accepted = history.accepted
        formed = [one for one, _ in trajectories.formed]
        self.n_trajectories = len(formed)
        self.trajectory_values = np.array([one.value for one in formed])
        self.trajectory_shares = np.array([share for _, share in trajectories.formed])
        self.trajectory_stops = np.array([one.rows.stop for one in formed], dtype=int)
        self.part_values = trajectories.part_values
        self._part_terms = linearised(
            self.part_values, trajectories.part_weights, self.value
        )
        self.n_violations = int(self.diagnostics.get("n_violations", 0))
        self.bias_mass = float(self.diagnostics.get("bias_mass", 0.0))
        self.reward_bounds = history.reward_bounds
        self.bound_terms = bound_terms
        # Rows of a history depend on each other. Those of a single trace of DR-ns are
        # differences of a martingale, but then the error is about another policy.
        self._of_another_policy = self.diagnostics["standard_error_of"] == PROGRESSIVE
        self._independent_rounds = not self.adaptive or self._of_another_policy

    def __repr__(self):
        about = self.diagnostics["standard_error_of"]
        if about == OWN:
            return super().__repr__()
        return f"{super().__repr__()[:-1]}, standard_error_of={about!r})"

    def _values_by_then(self):
        """Return the mean over the trajectories so far, at the end of each."""
        shares = self.trajectory_shares
        return np.cumsum(shares * self.trajectory_values) / np.cumsum(shares)

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
        return gaps.std(ddof=1) / np.sqrt(len(gaps)), len(gaps) - 1


class SequentialValue(HistoryFacts, PolicyValue):
    """Value of a policy from simulated histories."""

    # See `HistoryFacts` for what it says of these.

    def __init__(
        self,
        estimate,
        rows,
        *,
        history,
        trajectories,
        horizon,
        bound_terms,
        progressive_policy=None,
        **kwargs,
    ):
        super().__init__(estimate, rows, **kwargs)
        self._tell(history, trajectories, horizon, bound_terms)
        self.acceptance_ratios = history.acceptance_ratios
        if progressive_policy is not None:
            self.progressive_policy_ = progressive_policy
        self._last_history = _last_history(history, horizon)

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

    def _paired_estimate(self, other, value, change):
        """Return the estimate of a difference, from pairs of parts where it must."""
        gaps = self._paired_parts(other)
        if gaps is None:
            return super()._paired_estimate(other, value, change)
        error, freedom = gaps if change.any() else (0.0, gaps[1])
        frame = Frame(np.array([len(change)]))  # parts, not groups, are pairs
        return GivenEstimate(value, float(error), freedom, change, frame), []

    def running_values(self):
        """Return the value so far, along the log."""
        rows = self.trajectory_stops - 1
        if self.n_trajectories == 1:
            # rounds after the last one of a horizon are in no complete history
            rows = self.accepted[self.accepted <= rows[0]]
            above, below = np.cumsum(self._rows.terms, axis=1)[:, rows]
            return rows, above / below
        return rows, self._values_by_then()

    @cached_property
    def learned_policy(self):
        """The policy after its last complete trajectory."""
        policy, number, rows, pi, weight = self._last_history
        if number is not None:  # it has started anew since then
            policy = policy.at(number)
            for _ in replay_history(policy, self._rows.logs, rows, pi, weight):
                pass
        return policy

    def __getstate__(self):
        learned = self.learned_policy  # it may need the logs, which stay behind
        state = super().__getstate__()
        return state | {"learned_policy": learned, "_last_history": None}


def ratio_terms(round_values, below, value):
    """Return the terms of a ratio, so that groups of rows have ratios, too."""
    above = (round_values - value) / len(round_values)
    return np.stack([above + below * value, below])


def _last_history(history, horizon):
    """Return the policy; or its restarts, the last complete one, and the rows of it."""
    for segment in reversed(history.segments):
        trace = segment.trace
        complete = 0 if horizon is None else len(trace.accepted) // horizon
        if complete and trace.restarts is not None:
            rows = trace.accepted[(complete - 1) * horizon : complete * horizon]
            own, weight = segment.rows.start + rows, history.replayed_weights
            told = None if weight is None else weight[own]
            return trace.restarts, complete - 1, own, trace.pi[rows], told
    return history.segments[-1].trace.policy, None, None, None, None


def check_unit_interval(name, bounds):
    """Raise unless all values lie in [0, 1], as a theorem assumes."""
    if bounds[0] < 0 or bounds[1] > 1:
        raise ValueError(
            f"the bound assumes {name} in [0, 1], got {bounds[0]:.6g} to "
            f"{bounds[1]:.6g}. Rescale the rewards."
        )
