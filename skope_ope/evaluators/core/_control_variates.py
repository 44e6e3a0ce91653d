# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
r"""Estimates with control variates as functions of means.

Slots of the pseudoinverse's weights have known means under the logger. With
:math:`C_j`, the part of slot j less its mean, and :math:`G` the weight,

.. math:: \hat V = \overline{G r} - \beta^T \bar C, \qquad
    \beta = \overline{C C^T}^{-1} \overline{C G r}

leaves the limit of the estimate alone and takes off what the parts explain. Where
slots are filled independently, the matrix is diagonal. One coefficient for all slots
is the same with the sum of the parts.
"""

import numpy as np

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
