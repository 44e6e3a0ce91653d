# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""The template of evaluators that know which logger acted."""

from collections.abc import Mapping
from functools import partial
from math import isnan
from numbers import Integral

from skope_ope._sklearn import Interval, StrOptions
from skope_ope.evaluators.core._divergence_sums import PooledDivergences
from skope_ope.evaluators.core._engine import Job
from skope_ope.evaluators.core._logger_mixture import LoggerMixture
from skope_ope.evaluators.core._loggers import label_list
from skope_ope.evaluators.core._part_weights import LOGGERS
from skope_ope.evaluators.core._proposal import Sampling
from skope_ope.evaluators.core._requires import Requires
from skope_ope.evaluators.core._summary import Summary
from skope_ope.evaluators.core._sums import weights_of
from skope_ope.evaluators.multi_logger._facts import MultiLoggerFacts
from skope_ope.evaluators.multi_logger._jobs import (
    LoggerStrata,
    PooledJob,
    with_roots,
)
from skope_ope.evaluators.multi_logger._poolings import (
    Balanced,
    LoggersOfSums,
    Naive,
    Weighted,
    WeightedAsGiven,
    divergences_of,
    roots_of,
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
        return Weighted(self.divergences, self.cross_fit)

    def _check_logs(self, logs):
        super()._check_logs(logs)
        if not self.requires.mixture or logs.logger_proba is not None:
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

    def _weighing(self, summary):
        """Return the `Weighing` of the loggers."""
        if summary.weighing is None:
            folds = self._strategy.cross_fit is not None
            loggers = LoggersOfSums(summary, folds)
            if summary.whole is None:
                summary.weighing = self._strategy.weigh(loggers)
            else:
                summary.weighing = self._weighing(summary.whole).of_some(loggers)
        return summary.weighing

    def _pooling(self, summary):
        return self._weighing(summary).pooling

    def _overlap_of_sums(self, summary):
        return self._strategy.overlap(summary, self._weighing(summary))

    def _facts(self, summary, logs):
        return MultiLoggerFacts(self, summary, logs)

    def _own_warnings(self, summary, estimate):
        folds = self._strategy.cross_fit
        known = summary.facts["logger_proba"] or estimate.frame.n_strata == 1
        alone = _alone_warnings(estimate, known, folds is not None)
        return [*self._weighing(summary).warnings, *alone]

    def _summary_in(self, whole, job):
        out = super()._summary_in(whole, job)
        by_logger = weights_of("own_logger", job.key[1])
        out.of_loggers = Summary(
            None,
            out.sums,
            out.counts,
            whole.sums.of(by_logger),
            whole.tallies[by_logger],
        )
        return out

    def _policy_value(self, job, whole):
        result, loggers = super()._policy_value(job, whole), whole.loggers
        if self.pooling != "balanced" or len(loggers) == 1:
            return result
        mixture = LoggerMixture(loggers.index, loggers.proba, loggers.shares)
        return result._with_mixture(mixture)

    def _unstated(self, logs):
        if self.pooling == "weighted" and self.cross_fit is not None:
            return "cross_fit splits all rounds. Pass cross_fit=None."
        return super()._unstated(logs)

    def _enter_frame(self, whole, name):
        if self._strategy.estimates is not None:
            raise ValueError(
                f"{type(self).__name__} cannot be summed inside a lazy frame: "
                f"divergences={self.divergences!r} are estimated from all rounds. Pass "
                "one number per logger."
            )
        super()._enter_frame(whole, name)

    @property
    def requires(self):
        """Whether the probabilities of all loggers enter, and a model."""
        estimated = self.pooling == "weighted" and self._strategy.estimates == "pooled"
        mixture = self.pooling == "balanced" or estimated
        return Requires(model=hasattr(self, "reward_model"), mixture=mixture)

    @property
    def proposal(self):
        """Against which probability the weights are."""
        return "mixture" if self.pooling == "balanced" else "own_logger"

    @property
    def sampling(self):
        """The samples: loggers, or what each of them has in a fold."""
        return Sampling("loggers", self._strategy.cross_fit)

    def _add_to(self, whole, key, target, source):
        strategy, policy = self._strategy, key[1]
        whole.add_weights(self.proposal, policy, target)
        if self.proposal == "mixture" and whole.keeps_rounds:
            whole.add_weights("own_logger", policy, target)  # diagnostics of each
        if strategy.estimates is None:
            return whole.add(key, self, whole.sums_by(LOGGERS), target, source)
        name, folds = LOGGERS, strategy.cross_fit
        strata, make = LoggerStrata(whole.loggers, folds), Job
        if folds is not None:
            name = f"{LOGGERS} in {folds} folds"
        sums = whole.sums_by(name, strata.design)
        if strategy.estimates == "pooled":
            labels = whole.loggers.stated_labels
            pooled = PooledDivergences(labels, strata.fold, strata.n_folds)
            whole.ends[divergences_of(key)] = pooled
            make = partial(PooledJob, pooled=pooled)
        elif strata.design.omega is not None:
            roots = whole.sums_by(f"{name}, roots", with_roots(strata.design))
            whole.add_job(Job(self, target, source, roots_of(key), roots))
        return whole.add(key, self, sums, target, source, make)

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
