# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Sums over the rounds for an estimate from several loggers."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from skope_ope.evaluators.core._design import Design
from skope_ope.evaluators.core._engine import Job
from skope_ope.evaluators.core._sums import Sums
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

    @property
    def sizes(self):
        """(Weighted) number of rounds, ndarray of shape (n_loggers, n_folds)."""
        return self.by_fold(self.design.mass)

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


@dataclass
class LoggerJob(Job):
    """A job whose terms are summed logger by logger, and fold by fold."""

    strata: object = None  # set by `begin`

    def begin(self, block, design):
        """Make what the terms are added to; the loggers are the strata."""
        cross_fit = self.evaluator._strategy.cross_fit
        self.strata = LoggerStrata(block.loggers.whole, cross_fit)
        super().begin(block, self.strata.design)

    @property
    def loggers(self):
        """Who acted."""
        return self.strata.loggers

    @property
    def overlap(self):
        """How each logger covers the policy."""
        return self.loggers.overlaps[id(self.target)]

    @cached_property
    def weighing(self):
        """Weight of a round of every logger and fold."""
        return self.evaluator._strategy.weigh(self)

    @property
    def effective_shares(self):
        """Weights of all rounds of every logger, n_i lambda_i."""
        total = (self.weighing.weights * self.strata.sizes).sum(axis=1)
        return total / total.sum()


@dataclass
class PerLoggerJob(LoggerJob):
    """A job that takes the divergence of a logger from its own rounds alone."""

    # Sums of the terms with the roots of the sample weights: its squares have the
    # weights themselves
    spread: object = None

    def begin(self, block, design):
        """Make what the terms are added to."""
        super().begin(block, design)
        self.spread = self.sums
        if self.design.omega is not None:
            d, root = self.design, np.sqrt(self.design.omega)
            rooted = Design(d.n_rounds, root, d.stratum, d.strata)
            self.spread = Sums(rooted, self.offset, self.evaluator._moves)

    def take(self, block, rounds):
        """Add the terms of a block."""
        terms = self.evaluator._terms(rounds)
        self.sums.add(block.of(self.design), terms)
        self._take_extremes(block, rounds)
        if self.spread is not self.sums:
            self.spread.add(block.of(self.spread.frame), terms)

    def variances(self, without=None):
        """Sample variances of the terms, from all folds or all but one."""
        # Those of the rewards themselves, whatever was subtracted from them: the
        # weights of self-normalised estimates are proportional to what is subtracted.
        sums, strata = self.spread, self.strata
        first, *_ = sums.about(np.zeros(sums.n_terms), 0.0)
        total = first.sum(axis=0)
        _, second, _ = sums.about(total[:-1] / total[-1], 0.0)  # near: digits stay
        keep = np.arange(strata.n_folds) != without
        _, kept, _ = sums.about(np.array(sums.origin), sums.offset)  # as it was summed
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


@dataclass
class PooledJob(LoggerJob):
    """A job that takes the divergences of all loggers from all their rounds."""

    pooled: object = None  # set by `begin`

    def begin(self, block, design):
        """Make what the terms are added to."""
        super().begin(block, design)
        strata = self.strata
        self.pooled = PooledDivergences(
            len(strata.loggers), strata.fold, strata.n_folds
        )

    def take(self, block, rounds):
        """Add the terms of a block, and what its divergences need."""
        super().take(block, rounds)
        if isinstance(self.sums, Sums):  # not where the terms alone are wanted
            self.pooled.add(block, rounds)

    def variances(self, without=None):
        """Divergences from all folds or all but one, NaN where no round tells any."""
        return self.pooled.variances(without)
