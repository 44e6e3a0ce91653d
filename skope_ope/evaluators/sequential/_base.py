# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""The template of evaluators that walk through the logs in order."""

from dataclasses import dataclass

import numpy as np
from sklearn.utils import check_random_state

from skope_ope.evaluators.core import _engine as static_engine
from skope_ope.evaluators.core._base import BaseEvaluator
from skope_ope.evaluators.core._engine import Extract, Job, TermStore
from skope_ope.evaluators.core._sample_weights import combined_weights
from skope_ope.evaluators.core._target import Target
from skope_ope.evaluators.core._warnings import support_warnings
from skope_ope.evaluators.sequential._engine import trace_adaptive, trace_stationary
from skope_ope.evaluators.sequential._result import (
    OWN,
    PROGRESSIVE,
    SequentialValue,
    Trajectory,
    linearised,
    mean_of,
)
from skope_ope.evaluators.sequential._walked_overlap import walked_overlap
from skope_ope.exceptions import (
    HorizonWarning,
    LogsWarning,
    LowOverlapWarning,
    SingleTrajectoryWarning,
)
from skope_ope.policies._adaptive import AdaptivePolicy

FEW = 30  # accepted rounds
_NO_WEIGHTS = (
    "{} builds a history of rounds; it cannot weight them by sample_weight. Use a "
    "static evaluator, or logs without weights."
)
_PI = Extract(lambda rounds: (rounds.pi,))
_PI_V_Q = Extract(lambda rounds: (rounds.pi, rounds.v, rounds.q))


@dataclass
class Run:
    """One part of the logs: its rows, and what happened to them."""

    rows: slice
    trace: object


class SequentialEvaluator(BaseEvaluator):
    """Base class of evaluators that accept logged rounds into a simulated history.

    A subclass implements `_rule(logs, rows, u, pi)`, the acceptance rule for the rows
    of a part, and `_unit(run, logs, rows, accepted)`, the value of a trajectory.
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
        return super().fit(logs, reward_model)

    def _fitted(self, logs, reward_model):
        found = super()._fitted(logs, reward_model)
        rng = check_random_state(self.random_state)
        found["uniforms_"] = rng.random_sample(len(logs))
        found["seed_"] = rng.randint(2**31 - 1)
        return found

    def _uniforms(self, logs):
        if logs is self.logs_:
            return self.uniforms_
        return check_random_state(self.seed_).random_sample(len(logs))

    def _check_logs(self, logs):
        super()._check_logs(logs)
        if combined_weights(logs, None) is not None:
            raise ValueError(_NO_WEIGHTS.format(type(self).__name__))

    def _evaluate(self, policy, logs, sample_weight):
        if combined_weights(logs, sample_weight) is not None:
            raise ValueError(_NO_WEIGHTS.format(type(self).__name__))
        target = Target(policy, logs)
        adaptive = isinstance(target.policy, AdaptivePolicy)
        self._check_settings(adaptive, target, logs)
        known = overlap = None
        if not adaptive:
            known, overlap = self._known(target, logs)
        runs = self._runs(target, logs, known)
        if adaptive and logs.propensity is not None:
            overlap = walked_overlap(runs, logs)
        return self._policy_value(runs, logs, adaptive, overlap)

    def _check_settings(self, adaptive, target, logs):
        if self.n_splits > len(logs):
            raise ValueError(
                f"n_splits={self.n_splits} parts need as many rounds, the logs have "
                f"{len(logs)}."
            )
        if adaptive and self.n_splits > 1 and self.horizon is None:
            raise ValueError(
                "n_splits > 1 with a policy that learns needs a horizon: otherwise "
                "every part would value a history of another length."
            )

    def _runs(self, target, logs, known):
        policy = target.array if target.policy is None else target.policy
        u = self._uniforms(logs)
        bounds = np.linspace(0, len(logs), self.n_splits + 1).astype(int)
        runs = []
        for number in range(self.n_splits):
            start, stop = bounds[number : number + 2].tolist()
            rows = slice(start, stop)
            rule = self._rule(logs, rows, u[rows], None if known is None else known[0])
            if known is not None:
                terms = (term[rows] for term in known)
                trace = trace_stationary(rule, policy, *terms)
            else:
                part = logs if stop - start == len(logs) else logs[rows]
                predict = self._predictor(logs, start)
                settings = (self.horizon, predict, number)
                trace = trace_adaptive(policy, part, rule, *settings)
            runs.append(Run(rows, trace))
        return runs

    def _known(self, target, logs):
        """Return what is known of a stationary policy, and its overlap with the logs.

        Probabilities of the logged actions, and model values where there is one.
        """
        source = self.reward_source_ if self._uses_model else None
        terms = _PI if source is None else _PI_V_Q
        job = Job(terms, target, source, TermStore(len(logs)))
        overlap = static_engine.run(logs, [job])[id(target)]
        return job.sink.terms, overlap

    def _predictor(self, logs, start):
        return None

    def _policy_value(self, runs, logs, adaptive, overlap):
        warned = self._order_warnings(logs)
        warned += self._weight_warnings(logs, overlap, adaptive)
        units = [self._units(run, logs) for run in runs]
        several = len(runs) > 1
        parts = [self._part_of(of_run) for of_run in units]
        numbers = np.array([part.value for part in (parts if several else units[0])])
        weights = np.array([part.weight for part in (parts if several else units[0])])
        known = np.isfinite(numbers)
        formed, weights = numbers[known], weights[known] if self._pooled else None
        value = mean_of(formed, weights)
        if np.isnan(value):
            warned.append(self._unformed(runs))
        elif formed.size < numbers.size:
            warned.append(
                HorizonWarning(
                    f"{numbers.size - formed.size} of {numbers.size} parts gave no "
                    "value and are left out; use fewer parts or a shorter horizon.",
                    numbers.size - formed.size,
                )
            )
        round_values, below = np.zeros((2, len(logs)))
        trajectories = []
        for run, of_run in zip(runs, units, strict=True):
            in_mean = max(formed.size, 1) * (max(len(of_run), 1) if several else 1)
            for unit in of_run:
                if np.isnan(unit.value):
                    continue
                share = unit.weight / weights.sum() if self._pooled else 1 / in_mean
                start = run.rows.start
                rows = slice(start + unit.rows.start, start + unit.rows.stop)
                # around the value of all: rows tell how trajectories differ, too
                change = unit.influence + unit.below * (unit.value - value)
                round_values[rows] = len(logs) * share * change
                below[rows] = share * unit.below
                trajectory = Trajectory(rows, unit.value, share, unit.weight)
                trajectories.append(trajectory)
        round_values += value
        diagnostics = self._diagnostics(runs, logs, overlap)
        diagnostics["n_trajectories"] = len(trajectories)
        if overlap is not None and not adaptive:
            diagnostics["unsupported_mass"] = overlap.missing_mass
        terms = linearised(formed, weights, value)
        error, freedom, what = self._standard_error(
            terms, round_values, adaptive, diagnostics["n_accepted"]
        )
        diagnostics["standard_error_of"] = what
        if adaptive and formed.size == 1:
            warned.append(_single_trajectory(error, self.horizon, what))
        warned += self._alarms(diagnostics, adaptive)
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
            bound=self._deviation_bound,
            runs=runs,
            trajectories=trajectories,
            part_values=np.array([part.value for part in parts]),
            part_weights=np.array([p.weight for p in parts]) if self._pooled else None,
            horizon=self.horizon,
            logs=logs,
            adaptive=adaptive,
            below=below,
        )

    def _part_of(self, units):
        """Return the value of a part, from those of its trajectories."""
        values = np.array([unit.value for unit in units])
        if not self._pooled:
            return Unit(None, mean_of(values), None, None)
        weights = np.array([unit.weight for unit in units])
        return Unit(None, mean_of(values, weights), None, None, weights.sum())

    _pooled = False  # whether trajectories count by their weights
    _deviation_bound = None

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

    def _standard_error(self, formed, round_values, adaptive, n_accepted):
        """Return the standard error, its degrees of freedom, and what it is about."""
        n = len(round_values)
        if formed.size > 1:
            error = float(formed.std(ddof=1) / np.sqrt(formed.size))
            return error, formed.size - 1, OWN
        if not formed.size or not self._has_spread(n, n_accepted):
            return float("nan"), None, OWN
        if not adaptive or self._values_the_progressive_policy():
            error = float(round_values.std(ddof=1) / np.sqrt(n))
            return error, None, PROGRESSIVE if adaptive else OWN
        return float("nan"), None, OWN

    def _has_spread(self, n_rounds, n_accepted):
        """Tell whether a single trace has terms enough for a standard error."""
        return n_rounds > 1

    def _values_the_progressive_policy(self):
        return False

    def _unformed(self, runs):
        most = max(len(run.trace.accepted) for run in runs)
        if self.horizon is not None and most:
            return HorizonWarning(
                f"no trajectory of horizon={self.horizon} was completed: the logs gave "
                f"T = {most} accepted rounds. The value is NaN; shorten the horizon or "
                "use more logs.",
                most,
            )
        return LowOverlapWarning(
            "no logged round was accepted (T = 0): the value is NaN. The logger hardly "
            "takes the actions that the policy takes, or the rounds are too few for "
            "their acceptance ratio.",
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

    def _weight_warnings(self, logs, overlap, adaptive):
        """Return what the weights of the policy say of its overlap with the logs."""
        return [] if adaptive else support_warnings(overlap)

    def _diagnostics(self, runs, logs, overlap):
        accepted = sum(len(run.trace.accepted) for run in runs)
        return {
            "n_rounds": len(logs),
            "n_accepted": accepted,
            "acceptance_rate": accepted / len(logs),
            "rounds_reached": max(len(run.trace.accepted) for run in runs),
            "final_c": float(runs[-1].trace.c[-1]),
            "effective_sample_size": float(accepted),
        }

    def _alarms(self, diagnostics, adaptive):
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


def _single_trajectory(error, horizon, what):
    setting = "Set horizon" if horizon is None else "Set a smaller horizon"
    remedy = (
        f"{setting} so that the logs give several trajectories, or evaluate parts of "
        "the logs with repeated_runs."
    )
    if np.isnan(error):
        told = "one trajectory of a policy that learns has no standard error: it is NaN"
    else:
        told = (
            f"the standard error and the interval of a single trace are about {what}, "
            "a mixture of all that was learned on the way, not about the value of the "
            "learning itself at some horizon, which varies more"
        )
    return SingleTrajectoryWarning(f"{told}. {remedy}", 1)


@dataclass
class Unit:
    """Value of a trajectory, a ratio of sums over the rows of its slice.

    Attributes
    ----------
    rows : slice
        The rows.
    value : float
        The ratio.
    influence : ndarray
        What each row adds above the line, less the value times what it adds below.
    below : ndarray
        What each row adds below the line, of one in all.
    weight : float
        What is below the line, where trajectories are pooled.
    """

    rows: slice
    value: float
    influence: np.ndarray
    below: np.ndarray
    weight: float = 1.0
