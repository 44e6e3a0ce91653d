# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""How well the rounds of several loggers, each with its weight, cover a policy."""

from functools import cached_property

import numpy as np

from skope_ope.evaluators.core._overlap import Overlap
from skope_ope.evaluators.core._pooling import stratified
from skope_ope.evaluators.core._tally import places_in


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
    def of_loggers(cls, summary, shares, pooling=None):
        """Return the overlap from a `Summary`, and the shares of the loggers."""
        out, found = cls.__new__(cls), by_logger(summary)
        out.n, out.sums, out.bounded = found.n, found.sums, found.bounded
        out.pooling = stratified(shares / found.sizes) if pooling is None else pooling
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
