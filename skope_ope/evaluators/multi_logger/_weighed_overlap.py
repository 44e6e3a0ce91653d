# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""How well the rounds of several loggers, each with its weight, cover a policy."""

from functools import cached_property

import numpy as np

from skope_ope.evaluators.core._overlap import Overlap, sums_of_weights


class WeighedOverlap(Overlap):
    r"""Sums of the weights as they enter, :math:`n \lambda_i w`.

    Parameters
    ----------
    job : LoggerJob
        The weights of the loggers, and their overlaps with the policy.
    pooling : callable
        The same, as the mean weight has it.
    """

    def __init__(self, job, pooling):
        by_logger, loggers, shares = job.overlap, job.loggers, job.effective_shares
        self.n, self.pooling = loggers.positive.n, pooling
        self.sums, self.bounded = by_logger.sums, by_logger.bounded
        self.factor = shares * self.n / loggers.sizes  # n lambda_i
        self.max_w = float((self.factor * by_logger.max_w).max())
        missing = by_logger.missing_mass
        self.missing = float(shares @ missing) * self.n
        if len(loggers) > 1:
            pairs = zip(loggers.labels, missing.tolist(), shares, strict=True)
            self.missing_by_logger = {label: lost for label, lost, use in pairs if use}

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
