# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""How well the rounds of several loggers, each with its weight, cover a policy."""

from functools import cached_property

import numpy as np

from skope_ope.evaluators.core._overlap import Overlap, sums_of_weights
from skope_ope.evaluators.core._pooling import stratified
from skope_ope.evaluators.core._tally import places_in


class WeighedOverlap(Overlap):
    r"""Sums of the weights as they enter, :math:`n \lambda_i w`."""

    def __init__(self, job, pooling):
        by_logger, loggers = job.overlap, job.loggers
        self.n, self.pooling = loggers.positive.n, pooling
        self.sums, self.bounded = by_logger.sums, by_logger.bounded
        about = loggers.labels, by_logger.max_w, by_logger.missing_mass
        self._weigh(job.effective_shares, loggers.sizes, *about)

    def _weigh(self, shares, sizes, labels, max_w, missing):
        """Set what the shares of the loggers make of what is known of each."""
        self.factor = shares * self.n / sizes  # n lambda_i
        self.max_w = float((self.factor * max_w).max())
        self.missing = float(shares @ missing) * self.n
        if len(labels) > 1:
            pairs = zip(labels, missing.tolist(), shares, strict=True)
            self.missing_by_logger = {label: lost for label, lost, use in pairs if use}

    @classmethod
    def of_loggers(cls, summary, pooling, pooling_of):
        """Return the overlap from a `Summary` of all parts of a log."""
        out, tally = cls.of_sums(summary), summary.tally
        frame, mass = out.sums.frame, out.sums.mass
        sizes = np.atleast_1d(mass)
        shares = np.atleast_1d(pooling_of(frame)(mass, frame.units).weight) * sizes
        out.pooling = stratified(shares / sizes) if pooling is None else pooling
        rows = places_in(tally.loggers, frame.strata)
        scale = summary.n / summary.mass
        missing = tally.missing_by_logger(summary.counts, sizes / scale, rows)
        out._weigh(shares, sizes, frame.strata, scale * tally.largest[rows], missing)
        return out

    @cached_property
    def _totals(self):
        return [np.atleast_1d(total) for total in sums_of_weights(self.sums)]

    @cached_property
    def sum_w(self):
        """Sum of the weights."""
        return float(self.factor @ self._totals[0])

    @cached_property
    def sum_w2(self):
        """Sum of the squared weights."""
        return float(self.factor**2 @ self._totals[1])
