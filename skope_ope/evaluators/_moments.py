# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
r"""Estimates as smooth functions of means, with their linearised round values.

Every static estimate is :math:`\hat V = f(\bar t)` for per-round terms
:math:`t_i \in R^k`. Its round values

.. math:: z_i = \hat V + \nabla f(\bar t)^T (t_i - \bar t)

average to :math:`\hat V`, and their standard deviation over sqrt(n) is the delta
method's standard error. A plain mean, a ratio and a weighted mean differ in f only.
"""

import numpy as np


def mean(m):
    """F = m_0."""
    return m[0], np.ones(1)


def ratio(m):
    """F = m_0 / m_1."""
    value = m[0] / m[1]
    return value, np.array([1.0, -value]) / m[1]


def mean_plus_ratio(m):
    """F = m_0 + m_1 / m_2."""
    correction = m[1] / m[2]
    gradient = np.array([m[2], 1.0, -correction]) / m[2]
    return m[0] + correction, gradient


def weighted(combine):
    """Turn f into a function of sample-weighted means.

    The terms are then (omega t_1, ..., omega t_k, omega) with sample weights omega,
    and the function is f(m_1 / m_omega, ..., m_k / m_omega): a weighted estimate is a
    ratio, and its standard error is right for logs kept with unequal probabilities.
    """

    def combine_weighted(m):
        means = m[:-1] / m[-1]
        value, gradient = combine(means)
        return value, np.append(gradient, -(gradient @ means)) / m[-1]

    return combine_weighted


class Moments:
    """Sums from which the means and covariances of k terms follow.

    The first block's means are subtracted from all terms, so that nothing cancels
    in the sums of squares. Blocks may be added in any number; sums merge.
    """

    def __init__(self):
        self.n = 0

    def add(self, start, terms):
        """Add a block: a tuple of k arrays of one length."""
        if self.n == 0:
            self.shift = [float(t.mean()) for t in terms]
            self.sums = np.zeros(len(terms))
            self.products = np.zeros((len(terms), len(terms)))
        centred = [t - s for t, s in zip(terms, self.shift, strict=True)]
        for i, left in enumerate(centred):
            self.sums[i] += left.sum()
            for j in range(i + 1):
                self.products[i, j] += left.dot(centred[j])
        self.n += len(terms[0])

    def estimate(self, combine):
        """Return the value, its standard error, the means and the gradient."""
        means = self.shift + self.sums / self.n
        with np.errstate(divide="ignore", invalid="ignore"):
            value, gradient = combine(means)
        if self.n == 1 or not np.isfinite(value):
            return float(value), float("nan"), means, gradient
        lower = np.tril(self.products - np.outer(self.sums, self.sums) / self.n, -1)
        scatter = np.diag(np.diag(self.products) - self.sums**2 / self.n)
        scatter = scatter + lower + lower.T
        variance = gradient @ scatter @ gradient
        # Below the rounding error of its own terms a variance is zero: terms that
        # are proportional (constant rewards) give an interval without width.
        noise = 1e-14 * (np.abs(gradient) @ np.abs(scatter) @ np.abs(gradient))
        if variance <= noise:
            variance = 0.0
        error = np.sqrt(variance / (self.n - 1) / self.n)
        return float(value), float(error), means, gradient
