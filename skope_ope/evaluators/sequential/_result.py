# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""The value of a policy from simulated histories."""

from dataclasses import dataclass

import numpy as np

from skope_ope.evaluators.core._functions import ratio
from skope_ope.evaluators.core._policy_value import PolicyValue
from skope_ope.evaluators.sequential._progressive_policy import relive

OWN = "the policy's own value"
PROGRESSIVE = "the progressive-validation policy"


@dataclass
class Trajectory:
    """A complete history: its rows, value, share in the mean, and weight."""

    rows: slice
    value: float
    share: float
    weight: float


class SequentialValue(PolicyValue):
    """Value of a policy from simulated histories.

    Attributes
    ----------
    accepted : ndarray of int
        Rows that entered the histories, in order.
    acceptance_ratios : ndarray of shape (n_rounds,)
        Acceptance ratio c in force at every row.
    n_trajectories : int
        Complete trajectories.
    trajectory_values : ndarray of shape (n_trajectories,)
        Their values, in order.
    trajectory_shares : ndarray of shape (n_trajectories,)
        What each of them counts in the value, of one in all.
    trajectory_stops : ndarray of int of shape (n_trajectories,)
        For each of them the row after its last one.
    part_values : ndarray of shape (n_splits,)
        Values of the parts of the logs, NaN where a part gave none.
    learned_policy : policy
        The policy after its last complete trajectory, see `AdaptivePolicy.frozen`; a
        stationary policy as it came.
    n_violations : int
        Rows at which the acceptance ratio was too large.
    bias_mass : float
        Estimate of what these rows do to the history.
    """

    def __init__(
        self,
        *args,
        runs,
        trajectories,
        part_values,
        part_weights,
        horizon,
        logs,
        adaptive,
        below,
        **kwargs,
    ):
        super().__init__(*args, logs=logs, **kwargs)
        self.adaptive = adaptive
        self.horizon = horizon
        self.accepted = np.concatenate(
            [run.rows.start + run.trace.accepted for run in runs]
        )
        self.acceptance_ratios = np.concatenate([run.trace.c for run in runs])
        self.n_trajectories = len(trajectories)
        self.trajectory_values = np.array([t.value for t in trajectories])
        self.trajectory_shares = np.array([t.share for t in trajectories])
        self.trajectory_stops = np.array([t.rows.stop for t in trajectories], dtype=int)
        self.part_values = part_values
        self._part_terms = linearised(part_values, part_weights, self.value)
        self.n_violations = int(self.diagnostics.get("n_violations", 0))
        self.bias_mass = float(self.diagnostics.get("bias_mass", 0.0))
        self.reward_bounds = float(logs.reward.min()), float(logs.reward.max())
        # Rows of a history depend on each other. Those of a single trace of DR-ns are
        # differences of a martingale, but then the error is about another policy.
        about = self.diagnostics["standard_error_of"]
        self.independent_rounds = not adaptive or about == PROGRESSIVE
        self._of_another_policy = about == PROGRESSIVE
        self._learned_policy = None
        self._last_history = _last_history(runs, horizon)
        self._trajectories = trajectories
        self._below = below
        self._terms, self._combine = self._ratio_terms, ratio

    def __repr__(self):
        about = self.diagnostics["standard_error_of"]
        if about == OWN:
            return super().__repr__()
        return f"{super().__repr__()[:-1]}, standard_error_of={about!r})"

    def _ratio_terms(self):
        """Return the terms of a ratio, so that groups of rows have ratios, too."""
        above = (self.round_values - self.value) / self.n_rounds
        return np.stack([above + self._below * self.value, self._below])

    def _group(self, rows, label):
        group = super()._group(rows, label)
        if self.successes is not None:
            above, below = self.terms[:, rows]
            rewards = above[below > 0] / below[below > 0]
            group.degrees_of_freedom = max(len(rewards) - 1, 1)
            if len(rewards):
                group.successes = (round(rewards.sum()), len(rewards))
        return group

    def _paired_error(self, other, differences):
        independent = self._independent_of_history(other)
        own, others = self._part_terms, getattr(other, "_part_terms", ())
        if not independent and len(own) == len(others) > 1:
            gaps = own - others
            gaps = gaps[np.isfinite(gaps)]
            if len(gaps) > 1:
                return float(gaps.std(ddof=1) / np.sqrt(len(gaps))), len(gaps) - 1
        return super()._paired_error(other, differences)

    @property
    def learned_policy(self):
        """The policy after its last complete trajectory."""
        if self._learned_policy is None:
            policy, number, rows, pi = self._last_history
            if number is not None:  # it has started anew since then
                policy = policy.at(number)
                for _ in relive(policy, self._logs, rows, pi):
                    pass
            self._learned_policy = policy
        return self._learned_policy

    def __getstate__(self):
        learned = self.learned_policy  # it may need the logs, which stay behind
        state = super().__getstate__()
        state["_learned_policy"], state["_last_history"] = learned, None
        return state


def _last_history(runs, horizon):
    """Return the policy; or its lives, the last complete one, and the rows of it."""
    for run in reversed(runs):
        trace = run.trace
        complete = 0 if horizon is None else len(trace.accepted) // horizon
        if complete and trace.lives is not None:
            rows = trace.accepted[(complete - 1) * horizon : complete * horizon]
            return trace.lives, complete - 1, run.rows.start + rows, trace.pi[rows]
    return runs[-1].trace.policy, None, None, None


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


def check_unit_interval(name, bounds):
    """Raise unless all values lie in [0, 1], as a theorem assumes."""
    if bounds[0] < 0 or bounds[1] > 1:
        raise ValueError(
            f"the bound assumes {name} in [0, 1], got {bounds[0]:.6g} to "
            f"{bounds[1]:.6g}. Rescale the rewards."
        )
