# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
r"""Estimates as smooth functions of means, with their linearised round values.

Every static estimate is :math:`\hat V = f(\bar t)` for per-round terms
:math:`t_i \in R^k`. Its round values

.. math:: z_i = \hat V + \nabla f(\bar t)^T (t_i - \bar t)

average to :math:`\hat V`, and their standard deviation over sqrt(n) is the delta
method's standard error. A plain mean and a ratio differ in f only. With sample weights
:math:`\omega`, the means are :math:`\sum \omega_i t_i / \sum \omega_i`, ratios
themselves, and

.. math:: z_i = \hat V + \frac{n\,\omega_i}{\sum_j \omega_j}
    \nabla f(\bar t)^T (t_i - \bar t),

which is right for logs whose rounds were kept with unequal probabilities.
"""

from itertools import product
from math import isfinite, nan, sqrt

import numpy as np

LONGEST = 10_000  # longer dot products would wake BLAS threads


def dot(a, b):
    """Return the dot product of two arrays of any length, in one thread."""
    if len(a) <= LONGEST:
        return float(a.dot(b))
    pieces = (slice(k, k + LONGEST) for k in range(0, len(a), LONGEST))
    return sum(float(a[piece].dot(b[piece])) for piece in pieces)


def mean(m):
    """Return f = m_0 and its gradient."""
    return m[0], (1.0,)


def first_mean(m):
    """Return f = m_0 of several means and its gradient."""
    return m[0], (1.0, *[0.0] * (len(m) - 1))


def second_mean(m):
    """Return f = m_1 and its gradient."""
    return m[1], (0.0, 1.0, *[0.0] * (len(m) - 2))


def ratio(m):
    """Return f = m_0 / m_1 and its gradient."""
    value = m[0] / m[1]
    return value, (1 / m[1], -value / m[1])


def mean_plus_ratio(m):
    """Return f = m_0 + m_1 / m_2 and its gradient."""
    correction = m[1] / m[2]
    return m[0] + correction, (1.0, 1 / m[2], -correction / m[2])


class Moments:
    """Sums from which the means and covariances of k terms follow.

    Terms that are far from zero are shifted, so that nothing cancels in the sums of
    squares. Sums of blocks merge. Numbers are few here: plain floats are faster than
    arrays.
    """

    def __init__(self):
        self.n = 0
        self.pilot = None

    def add(self, start, terms, omega=None):
        """Add a block: a tuple of k arrays of one length, and sample weights."""
        if omega is not None:
            if self.pilot is None:
                self.pilot = [float(term.mean()) for term in terms]
            pairs = zip(terms, self.pilot, strict=True)
            terms = (*(omega * (term - near) for term, near in pairs), omega)
        if self.n == 0:
            self.shift, self.sums = [0.0] * len(terms), [0.0] * len(terms)
            self.products = [[0.0] * (i + 1) for i in range(len(terms))]
        shifted = []
        for i, term in enumerate(terms):
            if self.shift[i]:
                term = term - self.shift[i]
            total, square = float(term.sum()), dot(term, term)
            if self.n == 0 and total * total > 0.9 * len(term) * square:  # far away
                self.shift[i] = total / len(term)
                term = term - self.shift[i]
                total, square = float(term.sum()), dot(term, term)
            self.sums[i] += total
            self.products[i][i] += square
            for j, other in enumerate(shifted):
                self.products[i][j] += dot(term, other)
            shifted.append(term)
        self.n += len(terms[0])

    @property
    def n_terms(self):
        """Number of terms, without the sample weights."""
        return len(self.sums) - (self.pilot is not None)

    def _means(self):
        """Return means, and with sample weights their gaps to the pilot's."""
        pairs = zip(self.shift, self.sums, strict=True)
        averages = [shift + total / self.n for shift, total in pairs]
        if self.pilot is None:
            return averages, None, 1.0
        *sums, weight = averages
        gaps = [total / weight for total in sums] if weight else [nan] * len(sums)
        near = zip(self.pilot, gaps, strict=True)
        return [pilot + gap for pilot, gap in near], gaps, weight

    @property
    def means(self):
        """Means of the terms."""
        return self._means()[0]

    def estimate(self, combine):
        """Return the value, its standard error and what linearises it.

        Parameters
        ----------
        combine : callable
            f: means to the value and its gradient.

        Returns
        -------
        value, standard_error : float
        linearisation : Linearisation
        """
        means, gaps, weight = self._means()
        try:
            value, gradient = combine(means)
        except ZeroDivisionError:
            gradient = (nan,) * len(means)
            return nan, nan, Linearisation(means, gradient, weight)
        linearisation = Linearisation(means, gradient, weight)
        value = float(value)
        if self.n == 1 or not isfinite(value):
            return value, nan, linearisation
        slopes = gradient
        if self.pilot is not None:  # of the weighted sums and of the weights' sum
            last = -sum(g * gap for g, gap in zip(gradient, gaps, strict=True))
            slopes = tuple(g / weight for g in (*gradient, last))
        variance = noise = 0.0
        used = [i for i, slope in enumerate(slopes) if slope]
        for i, j in product(used, repeat=2):
            slope = slopes[i] * slopes[j]
            square = self.products[max(i, j)][min(i, j)]
            variance += slope * (square - self.sums[i] * self.sums[j] / self.n)
            noise += abs(slope * square)
        # Below the rounding error of its own terms a variance is zero: terms that
        # are proportional (constant rewards) give an interval without width.
        if variance <= 1e-13 * noise:
            variance = 0.0
        return value, sqrt(variance / (self.n - 1) / self.n), linearisation


class Linearisation:
    """Round values of an estimate from its terms.

    Parameters
    ----------
    means, gradient : sequence of k floats
        Where f is expanded, and its slopes there.
    mean_weight : float
        Mean sample weight.
    """

    degrees_of_freedom = None  # of the standard error; None: n_rounds - 1

    def __init__(self, means, gradient, mean_weight=1.0):
        self.means, self.gradient = means, gradient
        self.mean_weight = mean_weight

    def moments(self, rows):
        """Return a sink for the terms of a group of rounds."""
        return Moments()

    def __call__(self, value, terms, omega=None):
        """Return z_i for terms of shape (k, n) and sample weights."""
        change = np.zeros(terms.shape[1])
        for slope, term, average in zip(self.gradient, terms, self.means, strict=True):
            change += slope * (term - average)
        return value + (change if omega is None else omega / self.mean_weight * change)
