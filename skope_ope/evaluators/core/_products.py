# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Sums of products of any two terms of a block of rounds."""

import numpy as np

PIECE = 5000  # rounds of a product of matrices: a longer one wakes the threads of BLAS
FEW = 50  # strata whose rounds are taken one after the other


def add_products(x, block, first, second):
    """Add the sums of the rows of x, and of their products, to those of every stratum.

    Parameters
    ----------
    x : ndarray of shape (k, n)
        Terms of the rounds of a block; the last row is their weights.
    block : DesignBlock
        Weights and strata of these rounds.
    first : ndarray of shape (n_strata, k)
        What the sums are added to.
    second : ndarray of shape (n_strata, m, m)
        What the sums of products of the last m rows are added to.
    """
    n_strata = len(first)
    if n_strata == 1:
        _add_all(x, first[0], second[0])
    elif n_strata <= FEW:
        for stratum, rows in enumerate(block.rows_of_strata):
            if len(rows):
                some = x.take(rows, axis=1)
                _add_all(some, first[stratum], second[stratum])
    else:
        total, m = block.by_stratum, second.shape[-1]
        for j, values in enumerate(x):
            first[:, j] += total(values)
        for i, one in enumerate(x[-m:]):
            for j, other in enumerate(x[-m:][: i + 1]):
                second[:, i, j] += total(one * other)
                second[:, j, i] = second[:, i, j]


def _add_all(x, first, second):
    """Add the sums over all columns of x."""
    m = len(second)
    whole = np.zeros(second.shape)
    for start in range(0, x.shape[1], PIECE):
        piece = x[-m:, start : start + PIECE]
        whole += piece @ piece.T
    second += whole
    first += x.sum(axis=1)  # not those of products, which depend on what is beside them


def quadratic(slopes, product, total):
    """Return sum_s b^T Q b over all strata, and the sum of the sizes of its terms."""
    variance = noise = 0.0
    used = [i for i, b in enumerate(slopes) if (b if total is float else b.any())]
    for i in used:
        for j in used:
            if j > i:
                break
            part = slopes[i] * slopes[j] * product(i, j)
            if j < i:
                part = 2.0 * part
            variance += total(part)
            noise += total(abs(part))
    return variance, noise
