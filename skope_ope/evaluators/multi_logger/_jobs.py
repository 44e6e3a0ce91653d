# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Sums over the rounds for an estimate from several loggers."""

from dataclasses import dataclass

import numpy as np

from skope_ope.evaluators.core._design import Design
from skope_ope.evaluators.core._divergence_sums import PooledDivergences
from skope_ope.evaluators.core._engine import Job
from skope_ope.logs._folds import HeldOut

ROUNDING = 1e-13  # of the squares: a smaller spread is none


class LoggerStrata:
    """The strata of an estimate: the loggers, or what each of them has in a fold."""

    def __init__(self, loggers, cross_fit=None):
        self.fold, self.n_folds = None, 1
        self.design = loggers.design  # one for all jobs without folds
        if cross_fit is not None:
            self.fold = _folds(loggers, cross_fit)
            self.n_folds = int(self.fold.max()) + 1
            labels = [(g, k) for g in loggers.labels for k in range(self.n_folds)]
            codes = loggers.index * self.n_folds + self.fold
            self.design = loggers.positive.design.with_strata(codes, labels)


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


def with_roots(design):
    """Return a design of the roots of sample weights: its squares are the weights."""
    root = np.sqrt(design.omega)
    return Design(design.n_rounds, root, design.stratum, design.strata)


def sample_variances(sums, self_normalized, n_folds=1, without=None):
    """Sample variances of the terms by logger, from all folds or all but one.

    Parameters
    ----------
    sums : Sums
        Of the terms by logger and fold, over a design `with_roots` where rounds weigh
        differently.
    self_normalized : bool
        Whether the last term is what the others are divided by.
    n_folds : int, default=1
        Number of folds.
    without : int, default=None
        The fold that does not count.
    """
    # Those of the rewards themselves, whatever was subtracted from them: the weights
    # of self-normalised estimates are proportional to what is subtracted.
    first, _ = sums.about(np.zeros(sums.n_terms), 0.0)
    total = first.sum(axis=0)
    _, second = sums.about(total[:-1] / total[-1], 0.0)  # near: digits stay
    keep = np.arange(n_folds) != without
    _, kept = sums.about(np.array(sums.origin), sums.offset)  # as it was summed
    second, kept, count = (
        values.reshape(-1, n_folds, *values.shape[1:])[:, keep].sum(axis=1)
        for values in (second, kept, sums.frame.count)
    )
    plain = np.ones(sums.n_terms + 1)
    plain[-1] = 0.0
    if self_normalized:
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

    pooled: PooledDivergences | None = None  # what the divergences need

    def take(self, block, rounds):
        """Put the terms of a block, and add what the divergences need."""
        super().take(block, rounds)
        self.pooled.add(block, rounds)
