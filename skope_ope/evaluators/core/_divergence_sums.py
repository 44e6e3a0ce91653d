# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Sums that tell how far each of several loggers is from a policy."""

import numpy as np

from skope_ope._pairs import WithPairs
from skope_ope.evaluators.core._design import Design, indicators
from skope_ope.logs._folds import HeldOut
from skope_ope.logs._labels import texts_of_labels
from skope_ope.logs.sums._log_sums import merged_labels, places_in


def roots_of(key):
    """Return what sums with the roots of sample weights are found by."""
    return ("roots", key[0]), *key[1:]


def divergences_of(key):
    """Return what `PooledDivergences` are found by."""
    return ("divergences", key[0]), *key[1:]


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


class PooledDivergences(WithPairs):
    r"""Sums for the divergences of all loggers, from the rounds of all of them."""

    # With :math:`u = \pi_i / \bar\pi` and the term :math:`z = v + (\pi / \pi_i)\, e`
    # that logger i would have given in a round of any logger,
    #
    # .. math:: s_i^2 = \frac{\sum u (z - \bar z_i)^2}{\sum u}, \qquad
    #     \bar z_i = \frac{\sum u z}{\sum u},
    #
    # which is not negative, and uses the large terms that logger i happened to miss.
    # Sums of parts of a log add up.

    def __init__(self, labels, folds=None, n_folds=1):
        self.labels, self.folds, self.n_folds = list(labels), folds, n_folds
        self.offset = 0.0  # what was subtracted from z
        self.mass, self.first, self.second = np.zeros((3, n_folds, len(self.labels)))

    def add(self, block, rounds):
        """Add the rounds of a block."""
        loggers = block.loggers
        proba, y = loggers.stated_proba, 1 / loggers.mixture
        if block.omega is not None:
            y = block.omega * y
        # weighted rewards less a constant have other divergences; about a model value
        # that is less by it, too, they have the same
        self.offset = 0.0 if rounds.q is None else rounds.offset
        reward = rounds.r + rounds.offset
        x = rounds.pi * (reward if rounds.q is None else rounds.residual)
        by_fold = self._by_fold(block.rows)
        xy = by_fold(x * y)
        self.mass += by_fold(y) @ proba.T
        self.first += xy.sum(axis=1, keepdims=True)
        self.second += _tails(x * xy, proba)
        if rounds.v is not None:  # the square of pi_i v + x
            v, vy = rounds.v, by_fold(rounds.v * y)
            self.first += vy @ proba.T
            self.second += (v * vy) @ proba.T
            self.second += 2 * (v * xy).sum(axis=1, keepdims=True)

    def _by_fold(self, rows):
        """Return a function that gives an array a row per fold, zero elsewhere."""
        if self.folds is None:
            return lambda values: values[None, :]
        own = indicators(self.folds[rows], self.n_folds)
        return lambda values: own * values

    def variances(self, labels, without=None):
        """Divergences of some loggers, from all folds or all but one."""
        # Infinite where a logger lacks support, NaN where no round tells of it.
        keep = np.arange(self.n_folds) != (-1 if without is None else without)
        places = places_in(self.labels, labels)
        mass, first, second = (
            sums[keep].sum(axis=0)[places]
            for sums in (self.mass, self.first, self.second)
        )
        with np.errstate(divide="ignore", invalid="ignore"):
            mean, square = first / mass, second / mass
            variance = square - mean * mean
            rounding = np.isfinite(square) & (variance <= 1e-13 * square)
            variance[rounding] = 0.0
        return variance

    def __add__(self, other):
        """Return the sums of both parts; loggers meet by their labels."""
        if not isinstance(other, PooledDivergences):
            return NotImplemented
        out = PooledDivergences(merged_labels(self.labels, other.labels))
        out.offset = min(self.offset, other.offset, key=abs)
        for one in (self, other):
            places, step = places_in(out.labels, one.labels), one.offset - out.offset
            moved = one.second + 2 * step * one.first + step * step * one.mass
            out.mass[:, places] += one.mass
            out.first[:, places] += one.first + step * one.mass
            out.second[:, places] += moved if step else one.second
        return out

    def to_table(self):
        """Return the sums as a dict of arrays."""
        sums = {f"divergences_{name}": getattr(self, name) for name in SUMS}
        sums["divergences_offset"] = np.array(self.offset)
        return {"divergences_labels": texts_of_labels(self.labels)} | sums

    @classmethod
    def from_table(cls, table, labels):
        """Return the sums that `to_table` wrote."""
        out = cls(map(labels, table["divergences_labels"].tolist()))
        for name in SUMS:
            setattr(out, name, table[f"divergences_{name}"])
        out.offset = float(table["divergences_offset"])
        return out


SUMS = "mass", "first", "second"


def _tails(square, proba):
    """Return sums of square / proba, infinite where a square has no support."""
    if proba.min() > 0:
        return square @ (1 / proba).T
    inverse = np.divide(1.0, proba, out=np.zeros_like(proba), where=proba > 0)
    lost = (square > 0).astype(float) @ (proba == 0).T.astype(float)
    return np.where(lost > 0, np.inf, square @ inverse.T)
