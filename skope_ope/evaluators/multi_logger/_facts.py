# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Diagnostics of an estimate from several loggers."""

from functools import cached_property

import numpy as np
from sklearn.base import clone

from skope_ope.evaluators.core._jobs import passed
from skope_ope.evaluators.core._summary import summary_of
from skope_ope.evaluators.multi_logger._divergences import pooling_variance_ratio
from skope_ope.evaluators.multi_logger._poolings import LoggersOfSums
from skope_ope.evaluators.multi_logger._weighed_overlap import by_logger
from skope_ope.evaluators.static._facts import StaticFacts


class MultiLoggerFacts(StaticFacts):
    """Facts with the weights as they enter, and entries by logger."""

    # `logger_rounds`, `logger_divergences` (s_i^2), `logger_weights` (lambda_i),
    # `logger_shares` (n_i lambda_i), `logger_effective_sample_size` and
    # `logger_unsupported_mass` are dicts by logger; `predicted_variance_ratio` is the
    # variance of the best weighting over that of the naive estimate.

    def entries(self):
        """Return numbers and functions by name, for `Diagnostics`."""
        loggers, weighing = self.loggers, self.weighing
        found = super().entries() | {
            "logger_rounds": lambda: self.by_logger(loggers.count),
            "logger_weights": lambda: self.by_logger(weighing.shares / self.sizes),
            "logger_shares": lambda: self.by_logger(weighing.shares),
        }
        if self.job is not None or weighing.divergences is not None:
            found |= {
                "logger_divergences": lambda: self.by_logger(self.divergences),
                "predicted_variance_ratio": self.predicted_variance_ratio,
            }
        if self.job is not None:
            found |= {
                "logger_effective_sample_size": lambda: self.by_logger(
                    self.of_each.effective_sample_size
                ),
                "logger_unsupported_mass": lambda: self.by_logger(self.of_each.missing),
            }
        return found

    def by_logger(self, values):
        """Return an entry per logger, those that are left out, too."""
        return dict(zip(self.loggers.labels, values.tolist(), strict=True))

    @cached_property
    def loggers(self):
        """The `LoggersOfSums`."""
        folds = self.evaluator._strategy.cross_fit is not None
        return LoggersOfSums(self.summary, folds)

    @property
    def weighing(self):
        """The `Weighing` of the loggers."""
        return self.evaluator._weighing(self.summary)

    @property
    def sizes(self):
        """Number of rounds of every logger, each counted by its sample weight."""
        return self.loggers.shares * self.summary.n

    @cached_property
    def of_each(self):
        """How each logger covers the policy."""
        return by_logger(self.summary.of_loggers)

    @cached_property
    def parts(self):
        """Weights as they enter, and model values of the logged actions."""
        parts, weighing = super().parts, self.weighing
        if weighing.divergences is not None:
            weights, stratum = weighing.weights, self.job.design.stratum
            factor = weights.ravel() * (
                self.positive.n / (weights * weighing.loggers.sizes).sum()
            )
            stratum = None if stratum is None else self.positive.of(stratum)
            factor = factor[0] if stratum is None else factor[stratum]
            parts = [parts[0] * factor, *parts[1:]]
        return parts

    @cached_property
    def divergences(self):
        """Those in use; where none are, what a weighted estimate would use."""
        if self.weighing.divergences is not None:
            return self.weighing.divergences
        known = self.summary.facts["logger_proba"] or len(self.loggers) == 1
        weighted = clone(self.evaluator).set_params(
            pooling="weighted",
            divergences="pooled" if known else "per_logger",
            cross_fit=None,
        )
        again = weighted, self.job.target, self.job.source
        whole = passed([again], self.positive)
        [job] = whole.jobs
        summary = summary_of(whole, weighted, job.key)
        summary.job = job
        found = weighted._weighing(summary).divergences
        whole.release()
        return found

    def predicted_variance_ratio(self):
        """Variance of the best weighting over that of the naive estimate."""
        if np.isinf(self.divergences).all():
            return float("nan")
        return pooling_variance_ratio(self.divergences, self.sizes)
