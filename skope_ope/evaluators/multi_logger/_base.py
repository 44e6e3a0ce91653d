# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""The template of evaluators that know which logger acted."""

from collections.abc import Mapping
from math import isnan
from numbers import Integral

from skope_ope._sklearn import Interval, StrOptions
from skope_ope.evaluators.core._logger_mixture import LoggerMixture
from skope_ope.evaluators.core._loggers import label_list
from skope_ope.evaluators.multi_logger._facts import MultiLoggerFacts
from skope_ope.evaluators.multi_logger._jobs import (
    LoggerJob,
    PerLoggerJob,
    PooledJob,
)
from skope_ope.evaluators.multi_logger._poolings import (
    Balanced,
    Naive,
    Weighted,
    WeightedAsGiven,
)
from skope_ope.evaluators.static._base import StaticEvaluator
from skope_ope.exceptions import LoggerWarning


class MultiLoggerEvaluator(StaticEvaluator):
    """Base class of the evaluators of logs that several loggers made."""

    # A subclass forms its terms with the weights that `_strategy` gives a round. Where
    # it is self-normalised its last term is the weights, and the sum of the others is
    # what a round says of the value without.

    _parameter_constraints: dict = {
        "pooling": [StrOptions({"naive", "balanced", "weighted"})],
        "self_normalized": ["boolean"],
        "divergences": [StrOptions({"pooled", "per_logger"}), Mapping, "array-like"],
        "cross_fit": [Interval(Integral, 2, None, closed="left"), None],
    }

    _no_scores = "its weights depend on all loggers"

    @property
    def _strategy(self):
        """How the loggers are pooled."""
        if self.pooling == "naive":
            return Naive()
        if self.pooling == "balanced":
            return Balanced()
        if not isinstance(self.divergences, str):
            known = label_list(self.logs_) if hasattr(self, "logs_") else None
            return WeightedAsGiven(self.divergences, known)
        if self.divergences == "pooled":
            return Weighted(PooledJob, self.cross_fit, needs_logger_proba=True)
        return Weighted(PerLoggerJob, self.cross_fit, needs_logger_proba=False)

    @property
    def _observers(self):
        return self._strategy.observers

    def _check_logs(self, logs):
        super()._check_logs(logs)
        if not self._strategy.needs_logger_proba or logs.logger_proba is not None:
            return
        if logs.loggers is None or (logs.logger_index == logs.logger_index[0]).all():
            return
        what = f"pooling={self.pooling!r}"
        if self.pooling == "weighted":
            what += " with divergences='pooled'"
        raise ValueError(
            f"{what} needs the probability of every logged action under all "
            "loggers, which these logs do not have. Pass logger_proba=..., compute "
            "it with logs.with_logger_policies({name: policy}), or estimate it "
            "with LoggerPropensityEstimator. Or use pooling='naive' or "
            "divergences='per_logger', which do not need it."
        )

    def _job(self, target, source):
        return self._strategy.job(self, target, source)

    @property
    def _strata_key(self):
        return self._strategy.cross_fit or "loggers"

    def _job_like(self, job, formula):
        return LoggerJob(formula, job.target, None)

    def _pooling(self, job):
        return job.weighing.pooling

    def _overlap_of(self, job, observed):
        return self._strategy.overlap(job, observed)

    def _facts(self, job, positive, overlap):
        return MultiLoggerFacts(self, job, positive, overlap)

    def _own_warnings(self, job, estimate, positive):
        known, folds = job.loggers.proba is not None, job.strata.fold is not None
        return [*job.weighing.warnings, *_alone_warnings(estimate, known, folds)]

    def _own_warnings_of_sums(self, summary, estimate):
        return _alone_warnings(estimate, summary.facts.get("logger_proba", False))

    def _policy_value(self, job, positive, observed):
        result, loggers = super()._policy_value(job, positive, observed), job.loggers
        if self.pooling != "balanced" or len(loggers) == 1:
            return result
        mixture = LoggerMixture(loggers.index, loggers.proba, loggers.shares)
        return result._with_mixture(mixture)

    def _mixes_in_sums(self, summary):
        return self.pooling == "balanced"

    def _unstated(self, logs):
        if self.pooling == "weighted":
            if isinstance(self.divergences, str):
                return (
                    f"divergences={self.divergences!r} are estimated from all "
                    "rounds. Pass one number per logger."
                )
            if self.cross_fit is not None:
                return "cross_fit splits all rounds. Pass cross_fit=None."
        return super()._unstated(logs)

    def _mixes_loggers(self, logs):
        return self.pooling == "balanced"

    @property
    def _tallied_weight(self):
        return self._strategy.weight

    @property
    def _weight_kind(self):
        return "mixture" if self.pooling == "balanced" else "loggers"

    def _stack_of(self, whole):
        return whole.stack_of_loggers()

    def _pooling_of_parts(self, frame):
        return self._strategy.pooling_of_parts(frame)

    def _overlap_of_sums(self, summary):
        return self._strategy.overlap_of_sums(summary)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        # Weighted rounds do not average to the mean reward.
        tags.on_policy_mean = self.pooling != "weighted"
        # Of a fold by itself the cells are incomplete.
        tags.consistent = self.pooling != "weighted" or self.cross_fit is None
        return tags


def _alone_warnings(estimate, known, folds=False):
    """Return a warning where nothing tells how the rounds of a logger spread."""
    alone = estimate.shares.alone
    if not alone or isnan(estimate.value) or estimate.frame.clustered:
        return []  # groups have a warning of their own
    part, label = "", estimate.frame.strata[alone[0]]
    if folds:
        part, label = " in one of the folds", label[0]
    pooling = "balanced" if known else "naive"
    return [
        LoggerWarning(
            f"logger {label!r} has a single round{part}, so its variance is "
            "unknown, and it weighs more than all rounds of any other logger. The "
            "standard error is NaN. Leave the logger out, or use "
            f"pooling={pooling!r}, which weighs all rounds the same.",
            len(alone),
        )
    ]
