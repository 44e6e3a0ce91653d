# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Power sums of the weights of rewarded rounds and of the others, which merge.

Where rewards are 0 or 1 they tell on which side of the value a round lies. These sums
then give the deviations on both sides exactly, and with them the gamma limits, without
any round.
"""

from copy import copy
from math import comb, inf

import numpy as np

from skope_ope._dot import dot
from skope_ope.intervals._gamma import Deviations

SLACK = 1e-9  # of the largest deviation: what lies as near to zero is on both sides


class YesNoSums:
    """Power sums of importance weights, by whether the reward is 1 or 0."""

    def __init__(self):
        self.sums = np.zeros((2, 4))
        self.least, self.largest = np.full(2, inf), np.zeros(2)

    def add(self, w, reward):
        """Add rounds."""
        if np.isnan(self.sums[0, 0]) or not len(w):
            return
        if not (reward * reward == reward).all():
            self.sums[:] = np.nan
            return
        whole = _powers(w)
        some, least, largest = w[np.flatnonzero(reward)], w.min(), w.max()
        if least <= 0:
            some = some[some > 0]
        self.largest[1] = max(self.largest[1], float(largest))
        self.least[1] = min(self.least[1], float(least))
        if len(some):
            powers = _powers(some)
            self.sums[0] += powers
            whole -= powers
            self.largest[0] = max(self.largest[0], float(some.max()))
            self.least[0] = min(self.least[0], float(some.min()))
        self.sums[1] += whole

    def __add__(self, other):
        """Return the sums of both parts."""
        if not isinstance(other, YesNoSums):
            return NotImplemented
        out = copy(self)
        out.sums = self.sums + other.sums
        out.least = np.minimum(self.least, other.least)
        out.largest = np.maximum(self.largest, other.largest)
        return out

    def deviations(self, slopes):
        """Return the `Deviations` of rounds c = a + b w + d w r."""
        a, b, d = slopes
        count = self.sums[:, 0]
        if np.isnan(count).any() or not count.any():
            return None
        sides, least, largest = np.zeros((2, 3)), 0.0, 0.0
        lines, size = [], 0.0
        for kind in np.flatnonzero(count):
            slope = b + d if kind == 0 else b
            ends = a + slope * self.least[kind], a + slope * self.largest[kind]
            lines.append((kind, slope, min(ends), max(ends)))
            size = max(size, abs(ends[0]), abs(ends[1]))
        for kind, slope, low, high in lines:
            if low < -SLACK * size and high > SLACK * size:
                return None
            powers = _of_line(self.sums[kind], a, slope)
            side, signs = (0, (1, 1, 1)) if high > -low else (1, (-1, 1, -1))
            sides[side] += np.maximum(powers * signs, 0.0)
            least, largest = min(least, low), max(largest, high)
        (up, up_square, up_third), (down, down_square, down_third) = sides.tolist()
        third = max(up_third, down_third)
        squares = up, up_square, down, down_square
        return Deviations(int(count.sum()), *squares, third, largest, least)

    def to_table(self):
        """Return all numbers as an array."""
        return np.concatenate([self.sums.ravel(), self.least, self.largest])

    @classmethod
    def from_table(cls, numbers):
        """Return the sums that `to_table` wrote."""
        out = cls()
        out.sums = np.array(numbers[:8]).reshape(2, 4)
        out.least, out.largest = np.array(numbers[8:10]), np.array(numbers[10:12])
        return out


def _powers(w):
    """Return the sums of w^0 to w^3."""
    square = w * w
    return np.array([len(w), np.add.reduce(w), np.add.reduce(square), dot(square, w)])


def _of_line(sums, a, slope):
    """Return sums of (a + slope w)^p for p = 1, 2, 3, from sums of powers of w."""
    return np.array(
        [
            sum(
                comb(p, i) * a ** (p - i) * slope**i * float(sums[i])
                for i in range(p + 1)
            )
            for p in (1, 2, 3)
        ]
    )
