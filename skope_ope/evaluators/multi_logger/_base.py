# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""The template of evaluators that know which logger acted."""

from collections.abc import Mapping
from math import isnan
from numbers import Integral

from skope_ope._sklearn import Interval, StrOptions
from skope_ope.evaluators.core._design import Sampling
from skope_ope.evaluators.core._loggers import label_list
from skope_ope.evaluators.core._requires import Requires
from skope_ope.evaluators.multi_logger._facts import EntriesByLogger
from skope_ope.evaluators.multi_logger._poolings import (
    Balanced,
    LoggersOfSums,
    Naive,
    Weighted,
    WeightedAsGiven,
)
from skope_ope.evaluators.static._base import StaticEvaluator
from skope_ope.exceptions import LoggerWarning


class MultiLoggerEvaluator(StaticEvaluator):
    """Base class of the evaluators of logs that several loggers made."""

    # A subclass forms its terms with the weights that `weight_of` gives a round. Where
    # it is self-normalised its last term is the weights, and the sum of the others is
    # what a round says of the value without.

    _parameter_constraints: dict = {
        "pooling": [StrOptions({"naive", "balanced", "weighted"})],
        "self_normalized": ["boolean"],
        "divergences": [StrOptions({"pooled", "per_logger"}), Mapping, "array-like"],
        "cross_fit": [Interval(Integral, 2, None, closed="left"), None],
    }

    @property
    def requires(self):
        """A model, where it has one, and what its pooling takes of the loggers."""
        estimates = self._strategy.estimates
        return Requires(
            model="reward_model" in vars(self),
            mixture=self.pooling == "balanced" or estimates == "pooled",
            divergences=estimates,
        )

    @property
    def proposal(self):
        """Against which probability the weights are."""
        return "mixture" if self.pooling == "balanced" else "own_logger"

    @property
    def sampling(self):
        """The samples: loggers, or what each of them has in a fold."""
        return Sampling("loggers", self._strategy.cross_fit)

    def check_logs(self, logs):
        super().check_logs(logs)
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

    def resolved(self, facts, rows=None):
        """Return the evaluator, which cuts no log that is read in parts into folds."""
        if facts.in_parts and self.pooling == "weighted" and self.cross_fit is not None:
            raise ValueError("cross_fit splits all rounds. Pass cross_fit=None.")
        return super().resolved(facts, rows)

    def stratum_weights(self, summary):
        """Return what a round of every logger counts, and of every fold."""
        return self._weighing(summary).weights.ravel()

    def diagnostics_of(self, summary, estimate):
        """Return entries by logger, and what is said of weights and single rounds."""
        weighing, folds = self._weighing(summary), self._strategy.cross_fit
        known = summary.facts["logger_proba"] or estimate.frame.n_strata == 1
        alone = _alone_warnings(estimate, known, folds is not None)
        entries = EntriesByLogger(self, summary, weighing).by_name()
        return entries, [*weighing.warnings, *alone]

    @property
    def _strategy(self):
        """How the loggers are pooled."""
        if self.pooling == "naive":
            return Naive()
        if self.pooling == "balanced":
            return Balanced()
        if not isinstance(self.divergences, str):
            logs = vars(self).get("logs_")  # None: not fitted
            known = None if logs is None else label_list(logs)
            return WeightedAsGiven(self.divergences, known)
        return Weighted(self.divergences, self.cross_fit)

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
