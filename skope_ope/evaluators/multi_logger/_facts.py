# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Diagnostics of an estimate from several loggers."""

from functools import cached_property

import numpy as np
from sklearn.base import clone

from skope_ope.evaluators.core._jobs import passed
from skope_ope.evaluators.core._overlap import by_logger
from skope_ope.evaluators.core._summary import summary_of
from skope_ope.evaluators.multi_logger._divergences import pooling_variance_ratio


class EntriesByLogger:
    """Diagnostics of an estimate from several loggers, by logger."""

    # `logger_rounds`, `logger_divergences` (s_i^2), `logger_weights` (lambda_i),
    # `logger_shares` (n_i lambda_i), `logger_effective_sample_size` and
    # `logger_unsupported_mass` are dicts by logger; `predicted_variance_ratio` is the
    # variance of the best weighting over that of the naive estimate.

    def __init__(self, evaluator, summary, weighing):
        self.evaluator, self.summary, self.weighing = evaluator, summary, weighing
        self.loggers, self.job = weighing.loggers, summary.job

    def by_name(self):
        """Return numbers and functions by name, for `Diagnostics`."""
        loggers, weighing = self.loggers, self.weighing
        found = {
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

    @property
    def sizes(self):
        """Number of rounds of every logger, each counted by its sample weight."""
        return self.loggers.shares * self.summary.n

    @cached_property
    def of_each(self):
        """How each logger covers the policy."""
        return by_logger(self.summary.of_loggers)

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
        whole = passed([again], self.job.kept.positive)
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
