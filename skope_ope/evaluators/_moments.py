# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
r"""Estimates as smooth functions of means, with their linearised round values.

Every static estimate is :math:`\hat V = f(\bar t)` for per-round terms
:math:`t_i \in R^k`. Its round values

.. math:: z_i = \hat V + \nabla f(\bar t)^T (t_i - \bar t)

average to :math:`\hat V`, and their standard deviation over sqrt(n) is the delta
method's standard error. A plain mean, a ratio and a weighted mean differ in f only.
"""

from itertools import product
from math import isfinite, nan, sqrt


def mean(m):
    """Return f = m_0 and its gradient."""
    return m[0], (1.0,)


def ratio(m):
    """Return f = m_0 / m_1 and its gradient."""
    value = m[0] / m[1]
    return value, (1 / m[1], -value / m[1])


def mean_plus_ratio(m):
    """Return f = m_0 + m_1 / m_2 and its gradient."""
    correction = m[1] / m[2]
    return m[0] + correction, (1.0, 1 / m[2], -correction / m[2])


def weighted(combine):
    """Turn f into a function of sample-weighted means.

    The terms are then (omega t_1, ..., omega t_k, omega) with sample weights omega,
    and the function is f(m_1 / m_omega, ..., m_k / m_omega): a weighted estimate is a
    ratio, and its standard error is right for logs kept with unequal probabilities.
    """

    def combine_weighted(m):
        *sums, weight = m
        means = [total / weight for total in sums]
        value, gradient = combine(means)
        slope = -sum(g * x for g, x in zip(gradient, means, strict=True))
        return value, tuple(g / weight for g in (*gradient, slope))

    return combine_weighted


class Moments:
    """Means and scatters of k terms, block by block.

    The mean of a block is subtracted before its scatter is taken, so that nothing
    cancels in the sums of squares. Numbers are few here: plain floats are faster
    than arrays.
    """

    def __init__(self):
        self.n = 0

    def add(self, start, terms):
        """Add a block: a tuple of k arrays of one length."""
        if self.n == 0:
            self.sums = [0.0] * len(terms)
            self.scatter = [[0.0] * (i + 1) for i in range(len(terms))]
        n, size = self.n, len(terms[0])
        # Two groups of rounds scatter as each of them does, and as their means do.
        between = n * size / (n + size)
        centred, gaps = [], []
        for i, term in enumerate(terms):
            total = float(term.sum())
            average = total / size
            centred.append(term - average)
            gaps.append(average - self.sums[i] / n if n else 0.0)
            self.sums[i] += total
            for j, right in enumerate(centred):
                within = float(centred[i].dot(right))
                self.scatter[i][j] += within + between * gaps[i] * gaps[j]
        self.n = n + size

    def estimate(self, combine):
        """Return the value, its standard error, the means and the gradient."""
        means = [total / self.n for total in self.sums]
        try:
            value, gradient = combine(means)
        except ZeroDivisionError:
            return nan, nan, means, (nan,) * len(means)
        value = float(value)
        if self.n == 1 or not isfinite(value):
            return value, nan, means, gradient
        variance = noise = 0.0
        for i, j in product(range(len(means)), repeat=2):
            scatter = self.scatter[max(i, j)][min(i, j)]
            slopes = gradient[i] * gradient[j]
            variance += slopes * scatter
            noise += abs(slopes) * (
                1e-14 * abs(scatter) + self.n * abs(means[i] * means[j]) * 1e-28
            )
        # Below the rounding error of its own terms a variance is zero: terms that
        # are proportional (constant rewards) give an interval without width.
        if variance <= noise:
            variance = 0.0
        error = sqrt(variance / (self.n - 1) / self.n)
        return value, error, means, gradient
