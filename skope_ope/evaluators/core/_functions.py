# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""The functions of means that are estimates, with their gradients.

Each takes the means of the per-round terms as a list of floats and returns the value
and one slope per term. Where the value cannot be formed they divide by zero, and the
estimate is NaN. `divisor` is the number of the mean of weights that a ratio is divided
by: a round that has all of it is the ratio, whatever the others bring. `along` names
the mean of a numerator and its divisor: the value is s less where s times the divisor
is taken from the numerator, so sums may be about what lies near the ratio. `n_means` is
the number of means that enter, where there may be others.
"""

from collections.abc import Sequence

import numpy as np

Estimated = tuple[float, tuple[float, ...]]


def mean(m: Sequence[float]) -> Estimated:
    """Return f = m_0, whatever the other means are, and its gradient.

    Parameters
    ----------
    m : sequence of float
        The means of the terms.

    Returns
    -------
    value : float
        The estimate.
    gradient : tuple of float
        Its slope in each mean.
    """
    return m[0], (1.0, *[0.0] * (len(m) - 1))


mean.n_means = 1


def sum_of_two(m: Sequence[float]) -> Estimated:
    """Return f = m_0 + m_1, whatever the other means are, and its gradient.

    Parameters
    ----------
    m : sequence of float
        The means of the terms.

    Returns
    -------
    value : float
        The estimate.
    gradient : tuple of float
        Its slope in each mean.
    """
    return m[0] + m[1], (1.0, 1.0, *[0.0] * (len(m) - 2))


sum_of_two.n_means = 2


def third_less_second(m):
    """Return f = m_2 - m_1 and its gradient."""
    return m[2] - m[1], (0.0, -1.0, 1.0)


def ratio(m: Sequence[float]) -> Estimated:
    """Return f = m_0 / m_1 and its gradient.

    Parameters
    ----------
    m : sequence of float
        The means of the terms.

    Returns
    -------
    value : float
        The estimate.
    gradient : tuple of float
        Its slope in each mean.
    """
    value = m[0] / m[1]
    return value, (1 / m[1], -value / m[1])


ratio.divisor = 1


def mean_plus_ratio(m: Sequence[float]) -> Estimated:
    """Return f = m_0 + m_1 / m_2 and its gradient.

    Parameters
    ----------
    m : sequence of float
        The means of the terms.

    Returns
    -------
    value : float
        The estimate.
    gradient : tuple of float
        Its slope in each mean.
    """
    correction = m[1] / m[2]
    return m[0] + correction, (1.0, 1 / m[2], -correction / m[2])


mean_plus_ratio.divisor = 2
mean_plus_ratio.along = ((1, 2),)


def along_of(formula):
    """Return the pairs of a numerator and its divisor of an evaluator's function."""
    return getattr(formula.combine, "along", ())


# -- control variates -----------------------------------------------------------------
# Slots of the pseudoinverse's weights have known means under the logger. With
# :math:`C_j`, the part of slot j less its mean, and :math:`G` the weight,
#
# .. math:: \hat V = \overline{G r} - \beta^T \bar C, \qquad
#     \beta = \overline{C C^T}^{-1} \overline{C G r}
#
# leaves the limit of the estimate alone and takes off what the parts explain. Where
# slots are filled independently, the matrix is diagonal. One coefficient for all slots
# is the same with the sum of the parts.
ROUNDING = 1e-20  # mean square of parts that are zero: weights are of the order of one


def regression_terms(gain, parts, *, single, independent):
    """Terms of an estimate with control variates, and the function of their means."""
    columns = [parts.sum(axis=1)] if single else list(parts.T)
    k = len(columns)
    if independent:
        rows = cols = np.arange(k)
        squares = [(parts**2).sum(axis=1)] if single else [c * c for c in columns]
    else:
        rows, cols = np.triu_indices(k)
        squares = [columns[i] * columns[j] for i, j in zip(rows, cols, strict=True)]
    moved = [column * gain for column in columns]
    return (gain, *columns, *moved, *squares), Regression(k, rows, cols)


class Regression:
    """The function f = m_0 - b^T A^+ c of means, and its gradient."""

    def __init__(self, k, rows, cols):
        self.k, self.rows, self.cols = k, rows, cols

    def __call__(self, m):
        k, m = self.k, np.asarray(m)
        c, b = m[1 : k + 1], m[k + 1 : 2 * k + 1]
        square = np.zeros((k, k))
        square[self.rows, self.cols] = square[self.cols, self.rows] = m[2 * k + 1 :]
        if not np.isfinite(square).all():
            return np.nan, (np.nan,) * len(m)
        inverse = np.zeros((k, k))
        if square.max() > ROUNDING:
            inverse = np.linalg.pinv(square, rcond=1e-10, hermitian=True)
        beta, gamma = inverse @ b, inverse @ c
        slopes = beta[self.rows] * gamma[self.cols]
        crossed = self.rows != self.cols
        slopes += crossed * (beta[self.cols] * gamma[self.rows])
        return m[0] - beta @ c, (1.0, *-beta, *-gamma, *slopes)
