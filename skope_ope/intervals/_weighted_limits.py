# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Both limits of a value, or of a difference of two, from sequences of lower limits."""

import math

import numpy as np

from skope_ope.intervals._betting_bound import BettingBound
from skope_ope.intervals._empirical_bernstein_bound import (
    RHO,
    EmpiricalBernsteinBound,
)


class WeightedLimits:
    r"""Limits of the mean of weighted rewards, as rounds come in."""

    # With rewards scaled to [0, 1], :math:`w r` has the value V as its mean, and
    # :math:`w (1 - r)` has :math:`1 - V`: a lower limit of the second mean is an upper
    # one of the value. For the gain over a baseline with weights :math:`w_0 \le b` the
    # terms :math:`(w - w_0) r + b` and :math:`(w - w_0) (1 - r) + b` are not negative,
    # and have the means :math:`b + \Delta` and :math:`b - \Delta`.

    def __init__(
        self,
        method,
        level,
        reward_range,
        max_weight=None,
        baseline_bound=None,
        rho=RHO,
    ):
        self.low, self.high = map(float, reward_range)
        self.max_weight = max_weight if method == "betting" else None
        # what is sought is the mean plus this, which is not negative
        self.raised = 0.0 if baseline_bound is None else 1.0
        self.floor = 0.0 if baseline_bound is None else float(baseline_bound)
        needed = math.log(2 / (1 - level))
        if method == "betting":
            offsets = [self.floor - self.raised]
            if max_weight is not None:
                offsets.append(max_weight - 1.0)
            self.bounds = [BettingBound(needed, offsets) for _ in range(2)]
        else:
            self.bounds = [EmpiricalBernsteinBound(needed, rho) for _ in range(2)]

    @property
    def ends(self):
        """Least and greatest value that there can be."""
        if self.raised:
            return self.low - self.high, self.high - self.low
        return self.low, self.high

    def take(self, weight, reward, after):
        """Take further rounds."""
        scale = self.high - self.low
        up = weight * ((reward - self.low) / scale)
        down = weight - up
        above = self._lower(self.bounds[0], up, down, after) - self.raised
        below = self._lower(self.bounds[1], down, up, after) - self.raised
        least, greatest = self.ends
        if self.raised:
            low, high = scale * above, -scale * below
        else:
            low, high = self.low + scale * above, self.high - scale * below
        crossed = low > high
        low, high = (np.clip(end, least, greatest) for end in (low, high))
        low[crossed] = high[crossed] = np.nan
        return low, high

    def _lower(self, bound, own, other, after):
        """Return the lower limit of the mean of terms, plus `raised`."""
        if isinstance(bound, BettingBound):
            terms = [own + self.floor]
            if self.max_weight is not None:
                terms.append(self.max_weight - other)
            return bound.take(terms, after)
        size = 1 + self.floor  # with it the mean of the terms is at most 1
        found = size * bound.take((own + self.floor) / size, after)
        return found - self.floor + self.raised
