# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Sums of estimates over parts of a log: parts add up to the whole.

The sums of an estimate merge where every term depends on its round and on parameters
that were stated beforehand. Shares of a mixture, a smoothing of 1/sqrt(n), parameters
that are "auto" and models that are fitted to the rounds depend on the whole log: where
it is not there, an evaluator refuses to be summed until they are stated.
"""

from collections.abc import Mapping
from functools import cached_property
from math import isfinite, nan, sqrt
from numbers import Real

import joblib
import numpy as np

from skope_ope._pairs import WithPairs
from skope_ope.evaluators.core._arms import Arms
from skope_ope.evaluators.core._design import tallied_as
from skope_ope.evaluators.core._estimate import (
    ROUNDING_OF_VARIANCE,
    Estimate,
    GivenEstimate,
    difference,
    freedom_of_difference,
)
from skope_ope.evaluators.core._functions import mean, pooled, stratified
from skope_ope.evaluators.core._loggers import label_list
from skope_ope.evaluators.core._overlap import overlap_of
from skope_ope.evaluators.core._products import quadratic, total
from skope_ope.evaluators.core._slates import overlaps_of_slates
from skope_ope.evaluators.core._sums import REWARD, weights_of
from skope_ope.logs._validation import plain

N_BUCKETS = 1000  # hash buckets that stand for too many groups
N_GROUPS = 100_000  # groups that are told apart
LOGGER_JOB = "(logger)"  # stands for the policy that made the logs: their mean reward


class SumsByDesign(WithPairs):
    """The `JointSums` of all designs, by name."""

    def __init__(self, joints):
        self.joints = joints

    def joint_of(self, job):
        """Return the sums that those of a job are among, or None."""
        for one in self.joints.values():
            if job in one.places:
                return one
        return None

    def of(self, job):
        """Return the `Sums` of the terms of a job, or None."""
        joint = self.joint_of(job)
        return None if joint is None else joint.of(job)

    def difference(self, jobs, estimates, least=ROUNDING_OF_VARIANCE):
        """Return the estimate of the difference of the values of two jobs.

        Parameters
        ----------
        jobs : pair
            Whose values they are.
        estimates : pair of Estimate
            The estimates of both.
        least : float, default=1e-13
            Share of what cancels in the variance that it has at the least; the error of
            a smaller one is NaN, or zero where the values are alike.
        """
        jobs = [REWARD if job[1] == LOGGER_JOB else job for job in jobs]
        joint, parts = self.joint_of(jobs[jobs[0] == REWARD]), list(estimates)
        if not all(job in joint.places for job in jobs):
            return difference(*estimates)  # they are not about the same rounds
        for k, job in enumerate(jobs):
            if job == REWARD:  # those of any design
                parts[k] = Estimate(joint.of(REWARD), mean)
        return joint_difference(joint, *parts, *jobs, least)


def summary_of(found, evaluator, job):
    """Return the `Summary` of an evaluator on a policy, from what a pass found."""
    kind = tallied_as(evaluator) or job[0]
    weights, counts = weights_of(kind, job[1]), found.counts
    if evaluator.sampling.arms == "logger":
        counts = counts.of_loggers()
    out = Summary(
        evaluator,
        found.sums.of(job),
        counts,
        tally=found.tallies.get(weights),
        ends=found.ends.get(job),
        facts=found.facts.get(None, {}) | found.facts.get(job, {}),
    )
    out.bound, out.found, out.key = found.ends.get(weights), found, job
    out._key_of_weights = weights
    return out


class Summary:
    """Sums of one evaluator on one policy over parts of a log."""

    weighted = None  # what has sums of weighted rewards, where they were summed
    bound = None  # what is known of weights that were not logged
    job = None  # in memory what was done, which knows the rounds
    rows = None  # the rounds, where they can be asked
    whole = None  # the `Summary` of all rounds, of which these are some
    found = key = None  # what a pass found, and whose the sums are
    weighing = None  # of several loggers, see `Weighing`
    of_loggers = None  # the same with the weights of each of them

    def __init__(
        self, evaluator, sums, counts, weights=None, tally=None, ends=None, facts=None
    ):
        self.evaluator, self.sums, self.counts = evaluator, sums, counts
        self.tally, self.ends = tally, ends
        self.facts = {} if facts is None else facts
        if weights is not None:
            self.weights = weights

    @cached_property
    def weights(self):
        """Sums of the weights, or None."""
        return None if self.found is None else self.found.sums.of(self._key_of_weights)

    def estimate(self):
        """Return the `Estimate` of all parts."""
        if self.evaluator is None:
            return Estimate(self.sums, mean)
        combine = self.facts.get("combine", self.evaluator.combine)  # of slates its own
        return Estimate(self.sums, combine, self.pooling)

    @property
    def is_of_slates(self):
        """Whether the policy shows slates."""
        return "combine" in self.facts

    @cached_property
    def pooling(self):
        """What strata count, from their sums."""
        if self.evaluator.sampling.arms is not None:
            return Arms.of_sums(self.evaluator, self).pooling
        weights = self.evaluator.stratum_weights(self)
        return pooled if weights is None else stratified(weights)

    @property
    def n(self):
        """Number of rounds that enter."""
        return int(self.sums.frame.count.sum())

    @property
    def mass(self):
        """Sum of their sample weights."""
        return total(self.sums.mass)

    @cached_property
    def overlap(self):
        """Sums of the importance weights, an `Overlap`; None where none are used."""
        if self.evaluator is None or self.tally is None:
            return None
        if self.is_of_slates:
            return overlaps_of_slates(self)[0]
        return overlap_of(self.evaluator, self)

    @property
    def missing_mass(self):
        """Mean probability of what no logger could do, or ever did; NaN: unknown."""
        if self.tally is None or not self.tally.table:
            return nan
        return self.tally.missing_mass(self.counts)


def joint_difference(joint, a, b, job, other, least=ROUNDING_OF_VARIANCE):
    r"""Return the difference of two estimates from the sums of the terms of both."""
    # With :math:`d_s = b_s - b'_s`, the difference of the slopes in the terms of both,
    # :math:`SE^2 = \sum_s d_s^T Q_s d_s`, or the sum of squares of :math:`\sum_s d_s^T
    # X_{sg}` over the clusters g.
    sums, frame = joint.whole, joint.frame
    value, k = a.value - b.value, sums.n_terms
    single = frame.n_strata == 1
    slopes = [0.0 if single else np.zeros(frame.n_strata) for _ in range(k + 1)]
    for owner, estimate, sign in ((job, a, 1), (other, b, -1)):
        numbers = *joint.places[owner], k
        for number, slope in zip(numbers, estimate.slopes, strict=True):
            slopes[number] = slopes[number] + sign * slope
    independent, noise = quadratic(slopes, sums)
    variance = independent
    if frame.clustered:
        changes = a.cluster_sums - b.cluster_sums
        variance = float(changes @ changes)
        noise = float(a.cluster_sums @ a.cluster_sums + b.cluster_sums @ b.cluster_sums)
    error, size = sqrt(max(variance, 0.0)), max(abs(a.value), abs(b.value))
    # what is left is rounding: nothing, where the two policies act alike
    no_values = error * sqrt(float(frame.count.sum())) <= SAME_VALUE * size
    if noise > 0 and (no_values or not variance > least * noise):
        alike = abs(value) <= SAME_VALUE * size
        value, error = (0.0, 0.0) if alike else (value, nan)
    if not (isfinite(a.standard_error) and isfinite(b.standard_error)):
        error = nan
    freedom = min(
        a.degrees_of_freedom, b.degrees_of_freedom, freedom_of_difference(frame)
    )
    independent = sqrt(max(independent, 0.0))
    return GivenEstimate(value, error, freedom, None, frame, independent)


SAME_VALUE = 1e-12  # of the values: a smaller difference of two is rounding


def refuse_unstated_model(evaluator):
    """Raise where a reward model cannot serve parts of a log."""
    reason = evaluator._unstated_model()
    if reason:
        raise ValueError(f"{_no_parts(evaluator)}: {reason}")


def resolved_for_parts(evaluator, facts):
    """Return an evaluator that needs no more of the whole log, or raise."""
    try:
        return evaluator.resolved(facts)
    except ValueError as error:
        raise ValueError(f"{_no_parts(evaluator)}: {error}") from error


def _no_parts(evaluator):
    return f"{type(evaluator).__name__} cannot be summed over parts of a log"


def unstated_model(source):
    """Return what of a reward model depends on the whole log, or None."""
    if source is None or hasattr(source, "held_out_"):
        return (
            "the reward model is fitted to the rounds of fit, out of fold. Fit it "
            "beforehand and pass FrozenEstimator(model), a number, or the name of a "
            "column of predictions."
        )
    if hasattr(source, "q_hat"):
        return (
            "the reward model is an array for the rounds of fit. Carry it as a column "
            "of the logs and pass the column's name."
        )
    return None


def evaluator_text(evaluator):
    """Return the name of an evaluator with all its parameters."""
    given = evaluator.get_params(deep=False)
    if evaluator._model_of_fit is not None:
        given["reward_model"] = evaluator._model_of_fit
    text = ", ".join(
        f"{name}={text_of_model(one)}" for name, one in sorted(given.items())
    )
    return f"{type(evaluator).__name__}({text})"


def policy_text(policy, name=None):
    """Return what tells a policy from others: a name, or the hash of what it holds."""
    if name is not None:
        return repr(name)
    if isinstance(policy, str):
        return repr(policy)
    if isinstance(policy, (list, tuple)) or hasattr(policy, "__array__"):
        raise ValueError(
            "an array has other entries in every part of a log and does not identify "
            "its policy. Pass policy_name=..., or add it as a column of the logs and "
            "pass the column's name."
        )
    return text_of_model(policy)


def text_of_model(value):
    """Return what tells a parameter from others: itself, or the hash of an object."""
    if value is None or isinstance(value, (str, bool, Real)):
        return repr(plain(value))
    try:
        return f"{type(value).__name__}({joblib.hash(value)})"
    except Exception as error:  # whatever its pickling raises
        raise ValueError(
            f"{type(value).__name__} has no hash that identifies it in other parts "
            f"({error}). For a policy, pass policy_name=...; for a model, define its "
            "class in a module."
        ) from error


def stated_shares(shares, logs):
    """Return the shares of all loggers of a log, as stated."""
    labels = label_list(logs)
    if shares is None:
        if len(labels) > 1:
            raise ValueError(
                "the mixture of the loggers depends on their shares in the whole log. "
                f"Pass shares={{logger: share}} for the loggers {labels}."
            )
        return {labels[0]: 1.0}
    if not isinstance(shares, Mapping):
        raise TypeError(
            f"shares must be a dict of a share per logger, got {type(shares).__name__}."
        )
    values = np.array(list(shares.values()), dtype=float)
    if not (values.min(initial=0) >= 0 and abs(values.sum() - 1) < 1e-9):
        raise ValueError(f"shares must be non-negative and sum to 1, got {shares}.")
    unknown = [label for label in shares if label not in labels and shares[label]]
    if unknown:
        raise ValueError(
            f"shares has logger {unknown[0]!r}, of whose probabilities the logs know "
            f"nothing (their loggers: {labels}). Build all parts with the columns of "
            "all loggers, as logs[rows] of one log have them."
        )
    met = labels
    if logs.loggers is not None:
        met = logs.loggers[np.flatnonzero(logs._logger_counts)].tolist()
    lacking = [label for label in met if not shares.get(label)]
    if lacking:
        raise ValueError(
            f"logger {lacking[0]!r} has rounds in this part and no share in shares."
        )
    return {label: float(shares.get(label, 0.0)) for label in labels}
