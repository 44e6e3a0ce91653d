# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Sums over the rounds for an estimate from several loggers."""

from dataclasses import dataclass

import numpy as np

from skope_ope.evaluators.core._design import Design
from skope_ope.evaluators.core._engine import Job
from skope_ope.evaluators.core._sums import JointSums
from skope_ope.evaluators.multi_logger._divergences import PooledDivergences
from skope_ope.logs._folds import HeldOut

ROUNDING = 1e-13  # of the squares: a smaller spread is none


class LoggerStrata:
    """The strata of an estimate: the loggers, or what each of them has in a fold."""

    def __init__(self, loggers, cross_fit=None):
        self.loggers, self.fold, self.n_folds = loggers, None, 1
        self.design = loggers.design  # one for all jobs without folds
        if cross_fit is not None:
            self.fold = _folds(loggers, cross_fit)
            self.n_folds = int(self.fold.max()) + 1
            labels = [(g, k) for g in loggers.labels for k in range(self.n_folds)]
            codes = loggers.index * self.n_folds + self.fold
            self.design = loggers.positive.design.with_strata(codes, labels)

    def by_fold(self, values):
        """Return an array with a row per stratum by logger and fold."""
        return values.reshape(len(self.loggers), self.n_folds, *values.shape[1:])


def _folds(loggers, cross_fit):
    """Return the fold of every round: blocks of the rounds of a logger, or groups."""
    positive = loggers.positive
    if positive.all_logs.group is not None:
        found = HeldOut(positive.logs, cross_fit).fold
    else:
        index, count = positive.of(loggers.index), loggers.count
        order = np.argsort(index, kind="stable")
        rank = np.empty(len(index), dtype=np.intp)
        before = np.repeat(count.cumsum() - count, count)
        rank[order] = np.arange(len(index)) - before
        found = rank * cross_fit // count[index]
    folds = np.zeros(len(loggers.index), dtype=np.intp)
    folds[... if positive.mask is None else positive.mask] = found
    return folds


@dataclass(eq=False)
class PerLoggerJob(Job):
    """A job that takes the divergence of a logger from its own rounds alone."""

    strata: LoggerStrata = None
    # Sums of the terms with the roots of the sample weights: its squares have the
    # weights themselves; None: those of the job
    spread: JointSums | None = None

    def take(self, block, rounds):
        """Put the terms of a block."""
        super().take(block, rounds)
        if self.design.omega is None or not isinstance(self.sums, JointSums):
            return
        if self.spread is None:
            d, root = self.design, np.sqrt(self.design.omega)
            rooted = Design(d.n_rounds, root, d.stratum, d.strata)
            self.spread = JointSums(rooted, self.sums.offset, halves=False)
        terms = self.evaluator._terms(rounds)
        self.spread.put(self.key, terms, self.evaluator._moves)
        self.spread.add_rounds(block)

    def variances(self, without=None):
        """Sample variances of the terms, from all folds or all but one."""
        # Those of the rewards themselves, whatever was subtracted from them: the
        # weights of self-normalised estimates are proportional to what is subtracted.
        joint, strata = self.sums if self.spread is None else self.spread, self.strata
        sums = joint.of(self.key)
        first, _ = sums.about(np.zeros(sums.n_terms), 0.0)
        total = first.sum(axis=0)
        _, second = sums.about(total[:-1] / total[-1], 0.0)  # near: digits stay
        keep = np.arange(strata.n_folds) != without
        _, kept = sums.about(np.array(sums.origin), sums.offset)  # as it was summed
        second, kept = (strata.by_fold(q)[:, keep].sum(axis=1) for q in (second, kept))
        count = strata.by_fold(sums.frame.count)[:, keep].sum(axis=1)
        plain = np.ones(sums.n_terms + 1)
        plain[-1] = 0.0
        if self.evaluator.self_normalized:
            plain[-2] = 0.0  # the weights, by which the sum of the others is divided
        parts = plain[:, None] * second * plain
        square, noise = parts.sum(axis=(1, 2)), np.abs(parts).sum(axis=(1, 2))
        line, size = second[:, -1] @ plain, second[:, -1, -1]
        with np.errstate(divide="ignore", invalid="ignore"):
            spread = square - line * line / size
            moved = 2e-15 * np.abs(plain[:, None] * kept * plain).sum(axis=(1, 2))
            spread[spread <= np.maximum(ROUNDING * noise, moved)] = 0.0
            return np.where(count > 1, spread / size * count / (count - 1), np.nan)


@dataclass(eq=False)
class PooledJob(Job):
    """A job that takes the divergences of all loggers from all their rounds."""

    strata: LoggerStrata = None
    pooled: PooledDivergences | None = None  # what the divergences need

    def take(self, block, rounds):
        """Put the terms of a block, and add what the divergences need."""
        super().take(block, rounds)
        if self.pooled is None:
            strata = self.strata
            about = len(strata.loggers), strata.fold, strata.n_folds
            self.pooled = PooledDivergences(*about)
        self.pooled.add(block, rounds)

    def variances(self, without=None):
        """Divergences from all folds or all but one, NaN where no round tells any."""
        return self.pooled.variances(without)
