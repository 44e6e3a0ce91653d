# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""How well the rounds of several loggers, each with its weight, cover a policy."""

from functools import cached_property

import numpy as np

from skope_ope.evaluators.core._mean_weight import SURE as EVIDENT
from skope_ope.evaluators.core._mean_weight import UNSEEN
from skope_ope.evaluators.core._overlap import Overlap
from skope_ope.evaluators.core._pooling import pooled, stratified
from skope_ope.evaluators.core._tally import places_in

LEAST_LOST = 0.01  # of the policy's probability: what mean weights are asked for


class OverlapByLogger(Overlap):
    """Sums of the importance weights of one policy, logger by logger."""

    @property
    def effective_sample_size(self):
        """(sum w)^2 / sum w^2 of every logger, 0 where its weights are zero."""
        first, second = map(np.atleast_1d, self._totals)
        return np.divide(first**2, second, out=np.zeros_like(first), where=second > 0)


def by_logger(summary):
    """Return the `OverlapByLogger` of a `Summary`."""
    out, tally = OverlapByLogger.of_sums(summary), summary.tally
    mass, out.labels = out.sums.mass, out.sums.frame.strata
    out.sizes, rows = np.atleast_1d(mass), places_in(tally.loggers, out.labels)
    scale = out.sizes.sum() / summary.mass
    sizes = out.sizes / scale
    out.missing = tally.missing_by_logger(summary.counts, sizes, rows)
    out.max_w = scale * tally.largest[rows]
    return out


class WeighedOverlap(Overlap):
    r"""Sums of the weights as they enter, :math:`n \lambda_i w`."""

    @classmethod
    def of_loggers(cls, summary):
        """Return the overlap from a `Summary`."""
        out, found, evaluator = cls.__new__(cls), by_logger(summary), summary.evaluator
        weights = evaluator.stratum_weights(summary)
        mass = weights * np.atleast_1d(summary.sums.mass)  # by logger, and fold
        shares = mass.reshape(len(found.labels), -1).sum(axis=1) / mass.sum()
        out.n, out.sums, out.bounded = found.n, found.sums, found.bounded
        alike = evaluator.requires.divergences is None and np.ptp(weights) == 0
        out.pooling = pooled if alike else stratified(shares / found.sizes)
        out.factor = shares * out.n / found.sizes  # n lambda_i
        out.max_w, out.min_w = float((out.factor * found.max_w).max()), found.min_w
        out.missing = float(shares @ found.missing) * out.n
        if len(found.labels) > 1:
            pairs = zip(found.labels, found.missing.tolist(), shares, strict=True)
            out.missing_by_logger = {label: lost for label, lost, use in pairs if use}
        return out

    @cached_property
    def sum_w(self):
        """Sum of the weights."""
        return float(self.factor @ np.atleast_1d(self._totals[0]))

    @cached_property
    def sum_w2(self):
        """Sum of the squared weights."""
        return float(self.factor**2 @ np.atleast_1d(self._totals[1]))


class MixtureOverlap(Overlap):
    """Sums of the weights pi / (mixture of the loggers) of one policy."""

    # What a logger could not do in the round of another, it may do elsewhere, and what
    # is left to none of them in a context no single round shows. Where some logger had
    # probability 0 or 1 somewhere, a mean weight below one tells it: by how much it is
    # below is the mass on what no logger could do.

    gaps = False
    several = False

    @property
    def lacking(self):
        """What is said of the actions that are missing."""
        return "no logger could take" if self.several else Overlap.lacking

    @cached_property
    def missing_mass(self):
        """Mean probability of what no logger could do."""
        known = self.missing / self.n
        lost = 1 - known - self.mean_weight
        if not (self.gaps and lost > LEAST_LOST):
            return known
        found = self.evidence_below(UNSEEN * self.max_w, 1 - known)
        return known + lost if found > EVIDENT else known

    @classmethod
    def of_sums(cls, summary):
        """Return the overlap from a `Summary` of all parts of a log."""
        out = super().of_sums(summary)
        out.gaps = summary.tally.gaps
        out.several = summary.sums.frame.n_strata > 1
        return out


def overlap_of(evaluator, summary):
    """Return the `Overlap` of the weights as they enter, from a `Summary`."""
    if evaluator.sampling.arms is not None:  # there are no propensities
        return None
    if evaluator.proposal == "mixture":
        return MixtureOverlap.of_sums(summary)
    if evaluator.sampling.by == "rounds":
        return Overlap.of_sums(summary)
    return WeighedOverlap.of_loggers(summary)
