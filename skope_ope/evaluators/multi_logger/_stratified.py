# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
r"""Weighted sums of terms over strata, with a standard error stratum by stratum.

The rounds of every logger (and fold) are a stratum c with its own weight
:math:`\lambda_c`, where :math:`\sum_c \lambda_c n_c = 1`. The estimate is
:math:`\hat V = f(\bar t)` with :math:`\bar t = \sum_j \lambda_{c(j)} t_j`, and for
:math:`l_j = \nabla f(\bar t)^T t_j`

.. math:: SE^2 = \sum_c \lambda_c^2\, n_c\, s_c^2, \qquad
    s_c^2 = \frac{1}{n_c - 1} \sum_{j \in c} (l_j - \bar l_c)^2 .

The number of rounds of a logger is fixed, so differences between the means of strata
are no noise; the pooled variance would count them. Round values are centred in their
stratum and scaled,

.. math:: z_j = \hat V + n \lambda_c \kappa_c (l_j - \bar l_c), \qquad
    \kappa_c^2 = \frac{n - 1}{n} \frac{n_c}{n_c - 1},

so that their mean is the value and their standard deviation over sqrt(n) the standard
error; those of a difference of two values, too.
"""

from math import isfinite, nan

import numpy as np

from skope_ope.evaluators.core._moments import dot
from skope_ope.evaluators.core._stratum_sums import StratumSums
from skope_ope.logs._validation import count_codes


class StratifiedMoments:
    """Sums of k terms in every stratum. Sums of blocks merge.

    Parameters
    ----------
    cells : ndarray of shape (n_rounds,)
        Stratum of every round.
    n_cells : int
        Number of strata.
    weights : ndarray of shape (n_cells,), default=None
        Weight of a round of each stratum, up to a factor. `None`: all the same.
    count : ndarray of shape (n_cells,), default=None
        Number of rounds of every stratum, where it is known. With sample weights those
        of positive weight are counted: a round of weight zero is none.
    sums : StratumSums, default=None
        Sums over the same strata, to share with others.
    """

    def __init__(self, cells, n_cells, weights=None, count=None, sums=None):
        self.cells, self.n_cells, self.weights = cells, n_cells, weights
        self._count = count
        self.shift = None
        self._shared = StratumSums(cells, n_cells) if sums is None else sums

    def add(self, start, terms, omega=None):
        """Add a block: a tuple of k arrays of one length, and sample weights."""
        if self.shift is None:
            self._start(terms, omega is not None)
        if any(self.shift):
            terms = [term - near for term, near in zip(terms, self.shift, strict=True)]
        page = self._shared.page(self._where, start, len(terms[0]))
        k, values = len(terms), page[: self._width]
        for row, term in zip(values, terms, strict=False):
            row[:] = term
        for row, (i, j) in zip(values[k:], self._pairs, strict=True):
            np.multiply(terms[i], terms[j], out=row)
        if omega is not None:
            np.multiply(omega * omega, values, out=page[self._width : -3])
            values *= omega
            page[-3], page[-2], page[-1] = omega, omega * omega, omega > 0

    def _start(self, terms, weighted):
        k = len(terms)
        self.weighted = weighted
        self._pairs = [(i, j) for i in range(k) for j in range(i + 1)]
        self._width = k + len(self._pairs)
        rows = 2 * self._width + 3 if weighted else self._width
        self._where = self._shared.reserve(rows)
        self.shift = []
        for term in terms:  # near those that are far from zero: no digits cancel
            total = float(term.sum())
            far = total * total > 0.5 * len(term) * dot(term, term)
            self.shift.append(total / len(term) if far else 0.0)

    @property
    def _sums(self):
        """Sums of the (weighted) terms and of their products in every stratum."""
        return self._shared[self._where][: self._width]

    @property
    def _squares(self):
        """The same with squared weights, and the sums of these."""
        if not self.weighted:
            return self._sums, self.count
        found = self._shared[self._where]
        return found[self._width : -3], found[-2]

    @property
    def sizes(self):
        """(Weighted) number of rounds of every stratum."""
        return self._shared[self._where][-3] if self.weighted else self.count

    @property
    def count(self):
        """Number of rounds of every stratum, without those of weight zero."""
        if self.weighted:
            return self._shared[self._where][-1]
        if self._count is None:
            self._count = count_codes(self.cells, self.n_cells)
        return self._count

    def variances(self, gradient, join=None):
        """Sample variance of ``gradient @ terms`` in every stratum, NaN for one round.

        Parameters
        ----------
        gradient : sequence of k floats
            What of the terms is meant.
        join : ndarray of shape (n_groups, n_cells), default=None
            Strata that are one group; `None`: each of its own.

        Returns
        -------
        variances : ndarray of shape (n_groups,)
        """
        first, second, noise = self._of(gradient, self._sums)
        count, size = self.count, self.sizes
        if join is not None:
            first, second, noise = join @ first, join @ second, join @ noise
            count, size = join @ count, join @ size
        with np.errstate(divide="ignore", invalid="ignore"):
            spread = second - first * first / size
            spread[spread <= 1e-13 * noise] = 0.0  # rounding
            return np.where(count > 1, spread / size * count / (count - 1), nan)

    def _of(self, gradient, sums):
        """Return sums of ``gradient @ terms``, of its squares, and of their sizes."""
        k = len(gradient)
        line = sum(g * total for g, total in zip(gradient, sums, strict=False))
        square, noise = np.zeros((2, self.n_cells))
        for (i, j), total in zip(self._pairs, sums[k:], strict=True):
            part = gradient[i] * gradient[j] * total * (1 if i == j else 2)
            square += part
            noise += np.abs(part)
        return line, square, noise

    def estimate(self, combine):
        """Return the value, its standard error and what linearises it.

        Parameters
        ----------
        combine : callable
            f: means to the value and its gradient.

        Returns
        -------
        value, standard_error : float
        linearisation : StratifiedLinearisation
        """
        sizes = self.sizes
        weights = np.ones(self.n_cells) if self.weights is None else self.weights
        total = float(weights @ sizes)
        weights = weights / total if total > 0 else np.full(self.n_cells, nan)
        means = [
            near + float(weights @ sums)
            for near, sums in zip(self.shift, self._sums, strict=False)
        ]
        try:
            value, gradient = combine(means)
        except ZeroDivisionError:
            value, gradient = nan, (nan,) * len(means)
        value = float(value)
        strata = joined(self.count, weights)
        line, *_ = self._of(gradient, self._sums)
        centre = self._by_stratum(strata, weights * line, weights * sizes)
        linearisation = StratifiedLinearisation(self, gradient, weights, strata, centre)
        error = self._standard_error(gradient, weights, strata, centre)
        return value, error if isfinite(value) else nan, linearisation

    def _by_stratum(self, strata, above, below):
        above = np.bincount(strata, above, self.n_cells)[strata]
        below = np.bincount(strata, below, self.n_cells)[strata]
        return np.divide(above, below, out=np.zeros(self.n_cells), where=below > 0)

    def _standard_error(self, gradient, weights, strata, centre):
        sums, size = self._squares
        line, square, noise = self._of(gradient, sums)
        spread = square - 2 * centre * line + centre * centre * size
        spread[spread <= 1e-13 * noise] = 0.0  # rounding
        n = np.bincount(strata, self.count, self.n_cells)[strata]
        if (n[weights > 0] == 1).any():
            return nan  # all rests on a single round
        factor = np.divide(n, n - 1, out=np.ones(self.n_cells), where=n > 1)
        return float(np.sqrt((weights * weights * factor * spread).sum()))


def joined(count, weights):
    """Stratum of every cell: cells with a single round are put together.

    One round has no spread. Such cells share a stratum, or join the smallest other:
    that overstates the variance by the differences of their means.
    """
    strata = np.arange(len(count))
    single = np.flatnonzero((count == 1) & (weights > 0))
    others = np.flatnonzero((count > 1) & (weights > 0))
    if single.size == 1 and others.size:
        strata[single] = others[np.argmin(count[others])]
    elif single.size:
        strata[single] = single[0]
    return strata


class StratifiedLinearisation:
    """Round values of a stratified estimate from its terms.

    Parameters
    ----------
    moments : StratifiedMoments
        The sums of all rounds.
    gradient : sequence of k floats
        Slopes of f.
    weights, strata, centre : ndarray of shape (n_cells,)
        Weight of a round, stratum and mean of its linearised terms, less the shift.
    """

    def __init__(self, moments, gradient, weights, strata, centre):
        n_rounds = len(moments.cells)  # with those of weight zero: they have values
        self.cells, self.n_cells = moments.cells, moments.n_cells
        self.shift, self.gradient = moments.shift, gradient
        self.weights, self.centre = weights, centre
        n = np.bincount(strata, moments.count, moments.n_cells)[strata]
        scale = np.divide(n, n - 1, out=np.ones(len(n)), where=n > 1)
        self.scale = np.sqrt(scale * max(n_rounds - 1, 1) / n_rounds) * n_rounds
        used = len(np.unique(strata[(moments.count > 0) & (weights > 0)]))
        self.degrees_of_freedom = max(int(moments.count.sum()) - max(used, 1), 1)

    def __call__(self, value, terms, omega=None):
        """Return z_j for terms of shape (k, n) and sample weights."""
        change = -self.centre[self.cells]
        for slope, term, near in zip(self.gradient, terms, self.shift, strict=True):
            change += slope * (term - near)
        change *= (self.scale * self.weights)[self.cells]
        return value + (change if omega is None else omega * change)

    def moments(self, rows):
        """Return a sink for the terms of a group of rounds, with the same weights."""
        return StratifiedMoments(self.cells[rows], self.n_cells, self.weights)
