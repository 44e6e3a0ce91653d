# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Diagnostics of an estimate from several loggers."""

from functools import cached_property

import numpy as np
from sklearn.base import clone

from skope_ope.evaluators.core._engine import Extract, terms_of
from skope_ope.evaluators.core._loggers import Loggers
from skope_ope.evaluators.multi_logger._divergences import pooling_variance_ratio
from skope_ope.evaluators.static._base import rerun
from skope_ope.evaluators.static._facts import StaticFacts


class MultiLoggerFacts(StaticFacts):
    """Facts with the weights as they enter, and entries by logger."""

    # `logger_rounds`, `logger_divergences` (s_i^2), `logger_weights` (lambda_i),
    # `logger_shares` (n_i lambda_i), `logger_effective_sample_size` and
    # `logger_unsupported_mass` are dicts by logger; `predicted_variance_ratio` is the
    # variance of the best weighting over that of the naive estimate.

    def entries(self):
        """Return numbers and functions by name, for `Diagnostics`."""
        job, by_logger = self.job, self.by_logger
        return super().entries() | {
            "logger_rounds": lambda: by_logger(job.loggers.count),
            "logger_divergences": lambda: by_logger(self.divergences),
            "logger_weights": lambda: by_logger(
                job.effective_shares / job.loggers.sizes
            ),
            "logger_shares": lambda: by_logger(job.effective_shares),
            "logger_effective_sample_size": lambda: by_logger(
                job.overlap.effective_sample_size
            ),
            "logger_unsupported_mass": lambda: by_logger(job.overlap.missing_mass),
            "predicted_variance_ratio": self.predicted_variance_ratio,
        }

    def by_logger(self, values):
        """Return an entry per logger, those that are left out, too."""
        return dict(zip(self.job.loggers.labels, values.tolist(), strict=True))

    @cached_property
    def parts(self):
        """Weights as they enter, and model values of the logged actions."""
        job, positive = self.job, self.positive
        strategy = self.evaluator._strategy

        def pick(rounds):
            weights = strategy.weight(rounds)
            return (weights,) if rounds.q is None else (weights, rounds.q)

        parts = terms_of(
            Extract(pick),
            positive.all_logs,
            job.target,
            job.source,
            positive,
            [Loggers(positive)],
        )
        if job.weighing.divergences is not None:
            weights, stratum = job.weighing.weights, job.design.stratum
            factor = weights.ravel() * (positive.n / (weights * job.strata.sizes).sum())
            parts[0] *= factor[0] if stratum is None else factor[stratum]
        return positive.of(parts)

    @cached_property
    def divergences(self):
        """Those in use; where none are, what a weighted estimate would use."""
        job = self.job
        if job.weighing.divergences is not None:
            return job.weighing.divergences
        known = job.loggers.proba is not None
        weighted = clone(self.evaluator).set_params(
            pooling="weighted",
            divergences="pooled" if known else "per_logger",
            cross_fit=None,
        )
        again = weighted._job(job.target, job.source)
        return rerun(again, self.positive, job.offset).weighing.divergences

    def predicted_variance_ratio(self):
        """Variance of the best weighting over that of the naive estimate."""
        if np.isinf(self.divergences).all():
            return float("nan")
        return pooling_variance_ratio(self.divergences, self.job.loggers.sizes)
