# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""The template of evaluators that know which logger acted."""

from collections.abc import Mapping
from copy import copy
from dataclasses import dataclass
from numbers import Integral

import numpy as np

from skope_ope._sklearn import Interval, StrOptions
from skope_ope.evaluators.core._engine import Job
from skope_ope.evaluators.core._loggers import label_list
from skope_ope.evaluators.core._overlap import Overlap
from skope_ope.evaluators.multi_logger._diagnostics import MultiLoggerDiagnostics
from skope_ope.evaluators.multi_logger._divergences import (
    PooledDivergences,
    completed,
    floored,
    given_divergences,
    optimal_weights,
)
from skope_ope.evaluators.multi_logger._stratified import StratifiedMoments
from skope_ope.evaluators.static._base import StaticEvaluator
from skope_ope.exceptions import LoggerWarning
from skope_ope.logs._folds import HeldOut


class MultiLoggerEvaluator(StaticEvaluator):
    """Base class of the evaluators of logs that several loggers made.

    A subclass names in `_plain` how a round's term follows from `_terms`.
    """

    _parameter_constraints: dict = {
        "pooling": [StrOptions({"naive", "balanced", "weighted"})],
        "self_normalized": ["boolean"],
        "divergences": [StrOptions({"pooled", "per_logger"}), Mapping, "array-like"],
        "cross_fit": [Interval(Integral, 2, None, closed="left"), None],
    }
    _by_logger = True

    @property
    def _estimates(self):
        """How divergences are estimated: "pooled", "per_logger" or None."""
        estimated = self.pooling == "weighted" and isinstance(self.divergences, str)
        return self.divergences if estimated else None

    @property
    def _pools_loggers(self):
        return self.pooling == "balanced" or self._estimates == "pooled"

    def _check_logs(self, logs):
        super()._check_logs(logs)
        if not self._pools_loggers or logs.logger_proba is not None:
            return
        if logs.loggers is None or (logs.logger_index == logs.logger_index[0]).all():
            return
        what = f"pooling={self.pooling!r}"
        if self.pooling == "weighted":
            what += " with divergences='pooled'"
        raise ValueError(
            f"{what} needs the probability of every logged action under all loggers, "
            "which these logs do not have: pass logger_proba=..., build it by "
            "with_logger_policies(logs, {name: policy}), estimate it with "
            "LoggerPropensityEstimator, or use pooling='naive' or "
            "divergences='per_logger', which need none."
        )

    def _pooled_weights(self, rounds):
        return rounds.b if self.pooling == "balanced" else rounds.w

    def _job(self, target, source, logs):
        return LoggerJob(self, target, source, None)

    def _folds_of(self, loggers):
        """Fold of every round, in its logger a block of rounds each, or None."""
        if self._estimates is None or self.cross_fit is None:
            return None
        entering = loggers.entering
        if entering.all_logs.group is not None:
            found = HeldOut(entering.logs, self.cross_fit).fold
        else:
            index, count = entering.of(loggers.index), loggers.count
            order = np.argsort(index, kind="stable")
            rank = np.empty(len(index), dtype=np.intp)
            before = np.repeat(count.cumsum() - count, count)
            rank[order] = np.arange(len(index)) - before
            found = rank * self.cross_fit // count[index]
        folds = np.zeros(len(loggers.index), dtype=np.intp)
        folds[... if entering.mask is None else entering.mask] = found
        return folds

    def _estimate(self, job):
        self._set_weights(job)
        return job.sink.estimate(self._combine)

    @property
    def _kind(self):
        """What sums of a job depend on, beside policy and model."""
        return type(self), self.pooling == "balanced", self.self_normalized

    def _set_weights(self, job):
        """Decide what a round of every stratum weighs, from the sums of the job."""
        if job.twin is not None:
            job.sink = copy(job.twin.sink)
            job.sink.weights = None
        sink, m = job.sink, len(job.loggers)
        job.sizes = sink.sizes.reshape(m, job.n_folds)
        job.floored, job.unknown = np.zeros((2, m), dtype=bool)
        if self.pooling != "weighted":
            return
        if self._estimates is None:
            known = label_list(self.logs_) if hasattr(self, "logs_") else None
            labels = label_list(job.loggers.logs)
            given = given_divergences(self.divergences, labels, known)
            job.divergences, job.floored = floored(given[job.loggers.present])
            weights = optimal_weights(job.divergences, job.sizes[:, 0])
        elif job.folds is None:
            found = job.variances(self._plain)
            job.unknown = np.isnan(found)
            if job.unknown.all():  # no logger is known to be better than another
                found = np.ones(m)
            # one round: nothing says that the logger is near
            found = np.where(np.isnan(found), np.inf, found)
            job.divergences, job.floored = floored(found)
            weights = optimal_weights(job.divergences, job.sizes[:, 0])
        else:
            weights = self._weights_by_fold(job)
        if m == 1 and not np.isfinite(job.divergences).all():
            weights = np.ones(job.sizes.shape)  # nothing to choose from
        if not weights.any():  # all are left out
            weights = np.full(m, np.nan)
        sink.weights = np.broadcast_to(weights.reshape(m, -1), job.sizes.shape).ravel()

    def _weights_by_fold(self, job):
        """Return weights of the rounds of every fold that the other folds tell."""
        found, _ = completed(job.variances(self._plain))
        job.divergences, job.floored = floored(found)
        weights = np.zeros(job.sizes.shape)
        for k, size in enumerate(job.sizes.T):
            # A logger of which the other folds tell nothing is no reason to drop its
            # rounds. What all folds tell of it would bring the bias back.
            others, unknown = completed(job.variances(self._plain, without=k))
            others, low = floored(others)
            job.unknown |= unknown & (size > 0)
            job.floored |= low
            weights[:, k] = optimal_weights(others, size) * size.sum()
        return weights

    def _overlap_of(self, job, overlap):
        """Return sums of the weights as they enter: n lambda_i w, or pi / mixture."""
        by_logger = overlap.loggers
        if self.pooling == "balanced":
            by_logger.mixture.loggers = by_logger
            return by_logger.mixture
        out = Overlap()
        out.n, out.loggers = overlap.n, by_logger
        shares = job.effective_shares
        factor = shares * out.n / job.loggers.sizes  # n lambda_i
        used = shares > 0
        out.sum_w = float(factor @ by_logger.sum_w)
        out.sum_w2 = float(factor**2 @ by_logger.sum_w2)
        out.sum_gap2 = float(factor**2 @ by_logger.sum_gap2)
        out.max_w = float((factor * by_logger.max_w).max())
        missing = by_logger.missing_mass
        out.missing = float(shares @ missing) * out.n
        if len(job.loggers) > 1:
            pairs = zip(job.loggers.labels, missing.tolist(), used, strict=True)
            out.missing_by_logger = {label: mass for label, mass, use in pairs if use}
        return out

    def _diagnostics(self, job, entering, overlap):
        return MultiLoggerDiagnostics(self, entering, job, overlap)

    def _propensity_warnings(self, logs, overlap):
        # The mean of 1/p tells of propensities where each logger may take all actions.
        several = len(overlap.loggers.loggers) > 1
        lost = overlap.loggers.missing_mass.any()
        if several and (self.pooling == "balanced" or lost):
            return []
        return super()._propensity_warnings(logs, overlap)

    def _own_warnings(self, job, error):
        return self._unknown_warnings(job) + self._floor_warnings(job)

    def _unknown_warnings(self, job):
        if len(job.loggers) == 1:
            return []
        if job.folds is not None:
            why = (
                "the rounds of logger {!r} in the other folds do not tell its "
                "divergence: the mean of the other loggers' stands for it. Choose "
                "groups that do not hold whole loggers, or"
            )
        elif job.unknown.all():
            why = (
                "logger {!r} has a single round, as all have, which tells no "
                "divergence: all rounds weigh the same. Compare with"
            )
        else:
            why = (
                "logger {!r} has a single round, which tells no divergence: it is "
                "left out. Compare with"
            )
        return [
            LoggerWarning(f"{why.format(label)} divergences='pooled'.", size)
            for label, size, unknown in zip(
                job.loggers.labels, job.loggers.count.tolist(), job.unknown, strict=True
            )
            if unknown
        ]

    def _floor_warnings(self, job):
        why = "the terms of logger {!r} are all equal: its estimated divergence"
        if self._estimates is None:
            why = "the divergence given for logger {!r}"
        return [
            LoggerWarning(
                f"{why.format(label)} is 0 and was raised to {floor:.3g}, 1e-12 "
                "times the largest, so that it carries nearly all weight. Too few of "
                "its rounds may bear on the policy; compare with pooling='balanced'.",
                0.0,
            )
            for label, floor, low in zip(
                job.loggers.labels,
                np.zeros(len(job.floored))
                if job.divergences is None
                else job.divergences,
                job.floored,
                strict=True,
            )
            if low
        ]

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        # Weighted rounds do not average to the mean reward.
        tags.on_policy_mean = self.pooling != "weighted"
        # Of a fold by itself the cells are incomplete.
        tags.consistent = self.pooling != "weighted" or self.cross_fit is None
        return tags


@dataclass
class LoggerJob(Job):
    """A job whose terms are summed logger by logger, and fold by fold."""

    folds: object = None
    twin: object = None
    loggers: object = None
    pooled: object = None
    divergences: object = None
    floored: object = None
    unknown: object = None
    sizes: object = None

    @property
    def n_folds(self):
        """Number of folds."""
        return 1 if self.folds is None else int(self.folds.max()) + 1

    def take(self, start, rounds, omega=None):
        """Add the terms of a block, and what its divergences need."""
        if self.loggers is None:
            self._start(rounds.loggers.whole)
        if self.twin is None:
            self.sink.add(start, self.evaluator._terms(rounds), omega)
        if self.pooled is not None:
            self.pooled.add(start, rounds, omega)

    def _start(self, loggers):
        self.loggers = loggers
        m, cells, count = len(loggers), loggers.index, loggers.count
        self.folds = self.evaluator._folds_of(loggers)
        if self.folds is not None:
            cells, count = cells * self.n_folds + self.folds, None
        else:  # naive and weighted estimates have the same sums: one job adds them up
            about = (id(self.target), id(self.source), self.offset)
            key = (*about, self.evaluator._kind)
            self.twin = loggers.jobs.setdefault(key, self)
            self.twin = None if self.twin is self else self.twin
        sums = loggers.sums if self.folds is None else None
        self.sink = StratifiedMoments(cells, m * self.n_folds, count=count, sums=sums)
        if self.evaluator._estimates == "pooled":
            self.pooled = PooledDivergences(m, self.folds, self.n_folds)

    def variances(self, plain, without=None):
        """Estimated divergences, from all folds or all but one, NaN where none is."""
        if self.pooled is not None:
            return self.pooled.variances(without)
        m = len(self.loggers)
        keep = np.arange(self.n_folds) != (-1 if without is None else without)
        join = np.kron(np.eye(m), keep.astype(float))
        return self.sink.variances(plain, join)

    @property
    def effective_shares(self):
        """What all rounds of every logger weigh, n_i lambda_i."""
        weights = self.sink.weights
        weights = np.ones(self.sizes.size) if weights is None else weights
        total = (weights.reshape(self.sizes.shape) * self.sizes).sum(axis=1)
        return total / total.sum()
