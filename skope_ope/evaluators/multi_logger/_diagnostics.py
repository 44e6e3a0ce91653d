# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""What an estimate from several loggers rests on."""

from functools import cached_property

import numpy as np
from sklearn.base import clone

from skope_ope.evaluators.core._diagnostics import StaticDiagnostics
from skope_ope.evaluators.core._engine import Extract, run, terms_of
from skope_ope.evaluators.multi_logger._divergences import pooling_variance_ratio

BY_LOGGER = (
    "logger_rounds",
    "logger_divergences",
    "logger_weights",
    "logger_shares",
    "logger_effective_sample_size",
    "logger_unsupported_mass",
    "predicted_variance_ratio",
)


class MultiLoggerDiagnostics(StaticDiagnostics):
    """Diagnostics with the weights as they enter, and entries by logger.

    `logger_rounds`, `logger_divergences` (s_i^2), `logger_weights` (lambda_i),
    `logger_shares` (n_i lambda_i), `logger_effective_sample_size` and
    `logger_unsupported_mass` are dicts by logger; `predicted_variance_ratio` is the
    variance of the best weighting over that of the naive estimate.
    """

    def __init__(self, evaluator, entering, job, overlap):
        super().__init__(evaluator, entering, job.target, job.source, overlap)
        self._job = job

    @cached_property
    def _names(self):
        return [*super()._names, *BY_LOGGER]

    @cached_property
    def _parts(self):
        # The weights as they enter, and model values of the logged actions.
        evaluator, sink = self._evaluator, self._job.sink

        def pick(rounds):
            weights = evaluator._pooled_weights(rounds)
            return (weights,) if rounds.q is None else (weights, rounds.q)

        ask = Extract(pick, by_logger=True, pools_loggers=evaluator._pools_loggers)
        whole, weight = self._entering.all_logs, self._entering.sample_weight
        parts = terms_of(ask, whole, self._target, self._source, weight)
        if sink.weights is not None:
            total = sink.weights @ sink.sizes
            parts[0] *= (len(whole) / total * sink.weights)[sink.cells]
        return self._entering.of(parts)

    def _by_logger(self, values):
        return dict(zip(self._job.loggers.labels, values.tolist(), strict=True))

    def _logger_rounds(self):
        return self._by_logger(self._job.loggers.count)

    @cached_property
    def _divergences(self):
        """Those in use; where none are, what a weighted estimate would use."""
        if self._job.divergences is not None:
            return self._job.divergences
        known = self._job.loggers.proba is not None
        evaluator = clone(self._evaluator).set_params(
            pooling="weighted",
            divergences="pooled" if known else "per_logger",
            cross_fit=None,
        )
        logs = self._entering.all_logs
        job = evaluator._job(self._target, self._source, logs)
        run(logs, [job], self._entering.sample_weight)
        evaluator._set_weights(job)
        return job.divergences

    def _logger_divergences(self):
        return self._by_logger(self._divergences)

    def _logger_weights(self):
        job = self._job
        return self._by_logger(job.effective_shares / job.loggers.sizes)

    def _logger_shares(self):
        return self._by_logger(self._job.effective_shares)

    def _logger_effective_sample_size(self):
        return self._by_logger(self._overlap.loggers.effective_sample_size)

    def _logger_unsupported_mass(self):
        return self._by_logger(self._overlap.loggers.missing_mass)

    def _predicted_variance_ratio(self):
        if np.isinf(self._divergences).all():
            return float("nan")
        return pooling_variance_ratio(self._divergences, self._job.loggers.sizes)
