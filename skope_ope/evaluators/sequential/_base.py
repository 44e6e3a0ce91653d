# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""The template of evaluators that walk through the logs in order."""

from dataclasses import dataclass

import numpy as np
from sklearn.utils import check_random_state

from skope_ope.evaluators._base import BaseEvaluator
from skope_ope.evaluators._result import PolicyValue
from skope_ope.evaluators._target import Target
from skope_ope.evaluators.sequential._engine import trace_adaptive, trace_stationary
from skope_ope.evaluators.static._engine import terms_of
from skope_ope.exceptions import HorizonWarning, LogsWarning, LowOverlapWarning
from skope_ope.policies._adaptive import AdaptivePolicy

FEW = 30  # accepted rounds


@dataclass
class Run:
    """One part of the logs: its rows, and what happened to them."""

    rows: slice
    trace: object


class SequentialEvaluator(BaseEvaluator):
    """Base class of evaluators that accept logged rounds into a simulated history.

    A subclass implements `_rule(logs, rows, u, target)`, the acceptance rule, and
    `_unit(run, rows)`, the value of a trajectory.
    """

    n_splits = 1

    def fit(self, logs, reward_model=None):
        """Keep the logs, draw one uniform number per row, fit the reward model.

        Parameters
        ----------
        logs : BanditLogs
            The logged rounds, in the order in which they happened.
        reward_model : model, default=None
            Used where the constructor's is None; ignored where there is none.

        Returns
        -------
        self : evaluator
        """
        super().fit(logs, reward_model)
        rng = check_random_state(self.random_state)
        self.uniforms_ = rng.random_sample(len(logs))
        self.seed_ = rng.randint(2**31 - 1)
        return self

    def _uniforms(self, logs):
        if logs is self.logs_:
            return self.uniforms_
        return check_random_state(self.seed_).random_sample(len(logs))

    def _check_logs(self, logs):
        super()._check_logs(logs)
        weight = logs.sample_weight
        if weight is not None and (weight != weight[0]).any():
            raise ValueError(
                f"{type(self).__name__} builds a history of rounds; it cannot weight "
                "them. Use a static evaluator, or logs without sample_weight."
            )

    def _evaluate(self, policy, logs, sample_weight):
        if sample_weight is not None:
            raise ValueError(
                f"{type(self).__name__} builds a history of rounds; it takes no "
                "sample_weight."
            )
        adaptive = isinstance(policy, AdaptivePolicy)
        target = None if adaptive else Target(policy, logs)
        self._check_settings(adaptive, target)
        runs = self._runs(policy, target, logs)
        return self._policy_value(runs, logs, adaptive)

    def _check_settings(self, adaptive, target):
        if adaptive and self.n_splits > 1 and self.horizon is None:
            raise ValueError(
                "n_splits > 1 with a policy that learns needs a horizon: otherwise "
                "every part would value a history of another length."
            )

    def _runs(self, policy, target, logs):
        u = self._uniforms(logs)
        known = None if target is None else self._known(target, logs)
        bounds = np.linspace(0, len(logs), self.n_splits + 1).astype(int)
        runs = []
        for start, stop in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
            rows = slice(start, stop)
            rule = self._rule(logs, rows, u[rows], None if known is None else known[0])
            if known is not None:
                terms = (term[rows] for term in known)
                trace = trace_stationary(rule, policy, *terms)
            else:
                part = logs if stop - start == len(logs) else logs[rows]
                predict = self._predictor(logs, start)
                trace = trace_adaptive(policy, part, rule, self.horizon, predict)
            runs.append(Run(rows, trace))
        return runs

    def _known(self, target, logs):
        """Probability of the logged actions, and model values where there is one."""
        return terms_of(_LoggedProbability, logs, target, None)

    def _predictor(self, logs, start):
        return None

    def _policy_value(self, runs, logs, adaptive):
        warned = self._order_warnings(logs)
        values, round_values, reached = [], np.zeros(len(logs)), []
        per_run = []
        for run in runs:
            units = self._units(run, logs)
            reached.append(len(run.trace.accepted))
            per_run.append(units)
            values.append(np.mean([unit.value for unit in units]) if units else np.nan)
        n_trajectories = sum(len(units) for units in per_run)
        several = len(runs) > 1
        numbers = np.array(
            values if several else [unit.value for unit in per_run[0]], dtype=float
        )
        formed = numbers[np.isfinite(numbers)]
        value = float(formed.mean()) if formed.size else float("nan")
        if np.isnan(value):
            warned.append(self._unformed(runs, reached))
        elif formed.size < numbers.size:
            warned.append(
                HorizonWarning(
                    f"{numbers.size - formed.size} of {numbers.size} parts gave no "
                    "value and are left out; use fewer parts or a shorter horizon.",
                    numbers.size - formed.size,
                )
            )
        n_formed = max(formed.size, 1)
        for run, units in zip(runs, per_run, strict=True):
            share = len(logs) / n_formed / (len(units) if several else 1)
            for unit in units:
                if np.isfinite(unit.value):
                    round_values[run.rows][unit.rows] += share * unit.influence
        round_values += value
        error, freedom, what = self._standard_error(
            formed, round_values, adaptive, warned, value
        )
        diagnostics = self._diagnostics(runs, per_run, logs, value)
        diagnostics["standard_error_of"] = what
        warned += self._alarms(diagnostics)
        return SequentialValue(
            value,
            error,
            len(logs),
            estimator=type(self).__name__,
            round_values=round_values,
            effective_sample_size=diagnostics["effective_sample_size"],
            diagnostics=diagnostics,
            warnings=warned,
            degrees_of_freedom=freedom,
            bound=getattr(self, "_deviation_bound", None),
            runs=runs,
            n_trajectories=n_trajectories,
            logs=logs,
            adaptive=adaptive,
        )

    def _units(self, run, logs):
        """Return the complete trajectories of a part, as values with influences."""
        accepted = run.trace.accepted
        if self.horizon is None:
            return [self._unit(run, logs, slice(0, len(run.trace.pi)), accepted)]
        units, start = [], 0
        for last in range(self.horizon, len(accepted) + 1, self.horizon):
            stop = int(accepted[last - 1]) + 1
            taken = accepted[last - self.horizon : last]
            units.append(self._unit(run, logs, slice(start, stop), taken))
            start = stop
        return units

    def _standard_error(self, formed, round_values, adaptive, warned, value):
        n = len(round_values)
        if formed.size > 1:
            error = float(formed.std(ddof=1) / np.sqrt(formed.size))
            return error, formed.size - 1, "the policy's own value"
        if np.isnan(value) or n < 2:
            return float("nan"), None, "the policy's own value"
        if not adaptive or self._single_trace_error():
            error = float(round_values.std(ddof=1) / np.sqrt(n))
            what = "progressive-validation policy" if adaptive else "policy's own value"
            return error, None, f"the {what}"
        warned.append(
            LowOverlapWarning(
                "one trajectory of a policy that learns has no standard error. Set "
                "horizon so that the logs give several trajectories, or evaluate "
                "several parts of the logs.",
                1,
            )
        )
        return float("nan"), None, "the policy's own value"

    def _single_trace_error(self):
        return False

    def _unformed(self, runs, reached):
        most = max(reached)
        if self.horizon is not None and most:
            return HorizonWarning(
                f"no trajectory of horizon={self.horizon} was completed: the logs gave "
                f"T = {most} accepted rounds. The value is NaN; shorten the horizon or "
                "use more logs.",
                most,
            )
        return LowOverlapWarning(
            "no logged round was accepted (T = 0): the value is NaN. The logger never "
            "took the actions that the policy takes.",
            0,
        )

    def _order_warnings(self, logs):
        time = logs.timestamp
        if time is None or len(time) < 2 or (time[1:] >= time[:-1]).all():
            return []
        row = int(np.flatnonzero(time[1:] < time[:-1])[0]) + 1
        return [
            LogsWarning(
                f"timestamp decreases at row {row}: rounds are taken in the order in "
                "which they are stored. Sort the logs by time.",
                row,
            )
        ]

    def _diagnostics(self, runs, per_run, logs, value):
        accepted = sum(len(run.trace.accepted) for run in runs)
        c = np.concatenate([run.trace.c for run in runs])
        return {
            "n_rounds": len(logs),
            "n_accepted": accepted,
            "acceptance_rate": accepted / len(logs),
            "n_trajectories": sum(len(units) for units in per_run),
            "rounds_reached": max(len(run.trace.accepted) for run in runs),
            "final_c": float(c[-1]),
            "effective_sample_size": float(accepted),
        }

    def _alarms(self, diagnostics):
        if not 0 < diagnostics["n_accepted"] < min(FEW, diagnostics["n_rounds"] / 2):
            return []
        return [
            LowOverlapWarning(
                f"only {diagnostics['n_accepted']} of {diagnostics['n_rounds']} rounds "
                "were accepted into the history.",
                diagnostics["n_accepted"],
            )
        ]

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.order_dependent = True
        return tags


@dataclass
class Unit:
    """Value of a trajectory, and the influence of every row of its slice on it."""

    rows: slice
    value: float
    influence: np.ndarray


class _LoggedProbability:
    """The policy's probability of the logged action as the only term."""

    @staticmethod
    def _terms(rounds):
        return (rounds.pi,)


def check_unit_interval(name, bounds):
    """Raise unless all values lie in [0, 1], as a theorem assumes."""
    if bounds[0] < 0 or bounds[1] > 1:
        raise ValueError(
            f"the bound assumes {name} in [0, 1], got {bounds[0]:.6g} to "
            f"{bounds[1]:.6g}. Rescale the rewards."
        )


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
    learned_policy : policy
        The policy after the last accepted round, see `AdaptivePolicy.frozen`.
    """

    def __init__(self, *args, runs, n_trajectories, logs, adaptive, **kwargs):
        super().__init__(*args, logs=logs, **kwargs)
        self.n_trajectories = n_trajectories
        self.adaptive = adaptive
        self.reward_bounds = float(logs.reward.min()), float(logs.reward.max())
        self.accepted = np.concatenate(
            [run.rows.start + run.trace.accepted for run in runs]
        )
        self.acceptance_ratios = np.concatenate([run.trace.c for run in runs])
        self.learned_policy = runs[-1].trace.policy
        self.n_violations = int(self.diagnostics.get("n_violations", 0))
        self.bias_mass = float(self.diagnostics.get("bias_mass", 0.0))
