# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""How well the rounds of a log cover a policy: sums of its importance weights."""

from math import sqrt

from skope_ope.evaluators.core._moments import dot


class Overlap:
    """Sums of the importance weights of one policy, and its unsupported mass."""

    loggers = None  # the same of every logger, where an evaluator asks for them
    missing_by_logger = None  # {label: mass}, where it counts logger by logger

    def __init__(self):
        self.n = 0
        self.sum_w = self.sum_w2 = self.max_w = self.missing = self.sum_gap2 = 0.0

    def add(self, w, missing, omega=None):
        """Add the weights of a block, times sample weights of mean one."""
        self.add_mass(len(w), missing)
        if omega is not None:
            gap = omega * (w - 1)
            w = omega * w
            self.sum_gap2 += dot(gap, gap)
        total, square = float(w.sum()), dot(w, w)
        if omega is None:
            self.sum_gap2 += square - 2 * total + len(w)
        self.sum_w += total
        self.sum_w2 += square
        self.max_w = max(self.max_w, float(w.max()))

    def add_up(self):
        """Take over the sums of all loggers."""
        found = self.loggers
        self.sum_w, self.sum_w2, self.sum_gap2 = (
            float(sums.sum()) for sums in (found.sum_w, found.sum_w2, found.sum_gap2)
        )
        self.max_w = float(found.max_w.max())

    def add_mass(self, n, missing):
        """Add the unsupported mass of n rounds; their weights may be unknown."""
        self.n += n
        self.missing += missing

    @property
    def effective_sample_size(self):
        """(sum w)^2 / sum w^2, NaN where all weights are zero."""
        return self.sum_w * self.sum_w / self.sum_w2 if self.sum_w2 else float("nan")

    @property
    def missing_mass(self):
        """Mean probability of actions that the logger could not take."""
        return self.missing / self.n

    @property
    def mean_weight(self):
        """Mean of w; its expectation is one where the policy is supported."""
        return self.sum_w / self.n

    @property
    def mean_weight_z(self):
        """(mean w - 1) in standard errors."""
        if self.n < 2:
            return float("nan")
        gap = self.mean_weight - 1
        variance = (self.sum_gap2 - self.n * gap * gap) / (self.n - 1)
        if variance <= 1e-14 * self.sum_w2 / self.n:
            return 0.0 if abs(gap) < 1e-9 else float("nan")
        return gap / sqrt(variance / self.n)
