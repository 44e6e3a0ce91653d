# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""The template of static evaluators: one formula of per-round arrays."""

from math import isnan

from skope_ope.evaluators.core import _moments
from skope_ope.evaluators.core._alarms import (
    overlap_warnings,
    propensity_warnings,
    support_warnings,
    unformed_warning,
)
from skope_ope.evaluators.core._base import BaseEvaluator
from skope_ope.evaluators.core._diagnostics import StaticDiagnostics
from skope_ope.evaluators.core._engine import Job, run, terms_of
from skope_ope.evaluators.core._entering import Entering
from skope_ope.evaluators.core._result import PolicyValue
from skope_ope.evaluators.core._target import Target
from skope_ope.evaluators.static._auto import AUTO
from skope_ope.evaluators.static._clipping_curve import clipping_curve
from skope_ope.evaluators.static._weights_of import weights_of
from skope_ope.logs._slate_logs import SlateLogs, column_weights
from skope_ope.logs._validation import as_numbers, check_length
from skope_ope.policies._adaptive import AdaptivePolicy


class StaticEvaluator(BaseEvaluator):
    """Base class of evaluators of stationary policies.

    A subclass implements `_terms(rounds)`, a tuple of per-round arrays, and names in
    `_combine` the function of their means that is the estimate.
    """

    _combine = staticmethod(_moments.mean)
    _uses_weights = True
    _shifts = False  # whether all rewards plus c give the value plus c
    _by_logger = False  # whether it asks which logger acted
    _pools_loggers = False  # and how probable the action was under the others
    _auto = None  # the AutoParameter, where one may be "auto"
    _was_auto = False  # whether its number was chosen for the policy

    def _terms(self, rounds):
        """Per-round terms of a block of rounds."""
        raise TypeError(f"{type(self).__name__} does not define _terms(rounds).")

    def _weights(self, w):
        """Transform of the importance weights."""
        return w

    def _evaluate(self, policy, logs, sample_weight):
        target, weight, source = self._start(policy, logs, sample_weight)
        chosen = self._chosen(target, logs, source, weight)
        if chosen is not self:
            name = self._auto.name
            setattr(self, f"{name}_", getattr(chosen, name))
        job = chosen._job(target, source, logs)
        overlap = run(logs, [job], weight)[id(target)]
        return chosen._policy_value(job, overlap, logs, weight)

    def _start(self, policy, logs, sample_weight=None):
        """Return the target, the weights of the rounds, and whence predictions come."""
        target = Target(policy, logs)
        self._check_target(target)
        weight = combined_weights(logs, sample_weight)
        return target, weight, self._source_for(target, logs, weight)

    def _weights_on(self, policy, logs=None):
        """Return the importance weights of the rounds, and what they become."""
        return weights_of(self, policy, self.logs_ if logs is None else logs)

    def _clipping_curve(self, policy, logs=None, bounds=None):
        """Return the values with many bounds on the weights."""
        logs = self.logs_ if logs is None else logs
        return clipping_curve(self, policy, logs, bounds)

    def _chosen(self, target, logs, source, weight):
        """Return self, or a copy with the number that "auto" is for this policy."""
        auto = self._auto
        if auto is None or getattr(self, auto.name) != AUTO:
            return self
        return auto.fixed(self, auto.choose(self, target, logs, source, weight))

    def _job(self, target, source, logs):
        """Return what the engine does for one policy."""
        return Job(self, target, source, _moments.Moments())

    def _check_target(self, target):
        refuse_learning(type(self).__name__, target)
        if self._uses_model:
            check_all_actions(self, target)

    def _source_for(self, target, logs, sample_weight):
        return self.reward_source_ if self._uses_model else None

    def _policy_value(self, job, overlap, logs, weight):
        target, source = job.target, job.source
        entering = Entering(logs, weight)
        value, error, linearise = self._estimate(job)
        value += job.offset
        if self._uses_weights:
            overlap = self._overlap_of(job, overlap)
            warned = overlap_warnings(self, overlap, entering.logs)
            warned += self._propensity_warnings(entering.logs, overlap)
        else:  # a model extrapolates to what was never logged
            warned, overlap = support_warnings(overlap), None
        unsupported = overlap is not None and overlap.missing_mass > 1 - 1e-9
        if unsupported and not self._uses_model:
            value = error = float("nan")  # the logs say nothing about this policy
        if isnan(value):
            warned.append(unformed_warning(self))
        warned.extend(self._own_warnings(job, error))
        return PolicyValue(
            value,
            error,
            len(logs),
            estimator=type(self).__name__,
            logs=logs,
            terms=lambda: terms_of(self, logs, target, source, weight),
            linearise=linearise,
            combine=self._combine,
            sample_weight=weight,
            offset=job.offset,
            effective_sample_size=(
                float("nan") if overlap is None else overlap.effective_sample_size
            ),
            diagnostics=self._diagnostics(job, entering, overlap),
            warnings=warned,
            degrees_of_freedom=linearise.degrees_of_freedom,
            bound=self._deviation_bound,
        )

    def _estimate(self, job):
        """Value, standard error and what linearises it, from the sums of a job."""
        return job.sink.estimate(self._combine)

    def _overlap_of(self, job, overlap):
        """Return sums of the weights that enter the estimate."""
        return overlap

    def _diagnostics(self, job, entering, overlap):
        return StaticDiagnostics(self, entering, job.target, job.source, overlap)

    def _propensity_warnings(self, logs, overlap):
        return propensity_warnings(logs)

    def _own_warnings(self, job, error):
        return []

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.shift_equivariant = self._shifts
        return tags

    _deviation_bound = None


def refuse_learning(name, target):
    """Raise where the policy learns: its probabilities depend on its history."""
    if isinstance(target.policy, AdaptivePolicy):
        raise TypeError(
            f"{type(target.policy).__name__} learns while it acts; {name} evaluates "
            "stationary policies. Use DRns, RejectionSampling or Replay, or evaluate "
            "the policy as it is now: policy.frozen()."
        )


def check_all_actions(evaluator, target):
    """Raise where only the probability of the logged action is known."""
    if target.logged_only:
        raise ValueError(
            f"{type(evaluator).__name__} needs the policy's probabilities of all "
            "actions, an array of shape (n_rounds, n_actions); the probability of the "
            "logged action alone serves IPS, SNIPS, MultiLoggerIPS, Replay and "
            "RejectionSampling."
        )


def combined_weights(logs, sample_weight):
    """Product of the weights of the logs and those given, with mean one, or None."""
    slates = isinstance(logs, SlateLogs)
    weight = column_weights(logs) if slates else getattr(logs, "sample_weight", None)
    if sample_weight is not None:
        given = as_numbers("sample_weight", sample_weight)
        check_length("sample_weight", given, len(logs), "the log")
        if given.min() < 0 or not given.any():
            raise ValueError(
                "sample_weight must be non-negative and positive somewhere, got a "
                f"minimum of {given.min():.6g}, a maximum of {given.max():.6g}."
            )
        weight = given if weight is None else weight * given
        if not weight.any():
            raise ValueError(
                "sample_weight times the weights of the logs is zero in every round: "
                "no round counts."
            )
    if weight is None or (weight == weight[0]).all():
        return None
    return weight / weight.mean()
