# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Sums of products of any two terms of a block of rounds, about what keeps digits."""

import numpy as np

from skope_ope._parallel import LONGEST_PRODUCT, dot

PIECE = 5000  # rounds of a product of matrices: a longer one wakes the threads of BLAS
FEW_TERMS = 12  # whose products one by one cost no more than those of a matrix
FEW_STRATA = 50  # whose rounds are taken one after the other


def add_products(x, block, first, second):
    """Add sums of terms and of their products to those of every stratum.

    Parameters
    ----------
    x : list of k arrays of shape (n,)
        Terms of the rounds of a block, times the weights of the rounds.
    block : DesignBlock
        Weights and strata of these rounds.
    first : ndarray of shape (n_strata, k + 1)
        What the sums are added to; the last is the sum of the weights.
    second : ndarray of shape (n_strata, k + 1, k + 1) or (n_strata, 1, 1)
        What the products are added to; if terms have none, the squares of the weights.
    """
    n_strata, omega = len(first), block.omega
    if n_strata == 1:
        _add_all(x, omega, block.n_rounds, first[0], second[0])
    elif n_strata <= FEW_STRATA:
        for stratum, rows in enumerate(block.rows_of_strata):
            some = [row.take(rows) for row in x]
            weights = None if omega is None else omega.take(rows)
            _add_all(some, weights, len(rows), first[stratum], second[stratum])
    else:
        total, m = block.by_stratum, second.shape[-1]
        rows = [*x, np.ones(block.n_rounds) if omega is None else omega]
        for j, row in enumerate(rows):
            first[:, j] += total(row)
        for i, one in enumerate(rows[-m:]):
            for j, other in enumerate(rows[-m:][: i + 1]):
                second[:, i, j] += total(one * other)
                second[:, j, i] = second[:, i, j]


def _add_all(x, omega, n, first, second):
    """Add the sums over n rounds."""
    if not n:
        return
    sums = [float(np.add.reduce(row)) for row in x]
    first += [*sums, n if omega is None else np.add.reduce(omega)]
    if len(second) == 1:
        second += n if omega is None else dot(omega, omega)
    elif len(x) > FEW_TERMS:
        second += _products_of_matrix(x, omega, n)
    else:
        rows, entries = x if omega is None else [*x, omega], range(len(second))
        product = np.ndarray.dot if n <= LONGEST_PRODUCT else dot
        found = [[0.0 for _ in entries] for _ in entries]
        for i, one in enumerate(rows):
            for j, other in enumerate(rows[: i + 1]):
                found[i][j] = found[j][i] = product(one, other)
        if omega is None:
            found[-1] = [*sums, n]
            for row, one in zip(found, found[-1], strict=True):
                row[-1] = one
        second += found


def _products_of_matrix(x, omega, n):
    """Return the sums of products of any two arrays, as a matrix does."""
    out = np.zeros((len(x) + 1,) * 2)
    piece = np.ones((len(x) + 1, min(n, PIECE)))
    for start in range(0, n, PIECE):
        some = piece[:, : min(PIECE, n - start)]
        for row, values in zip(some, x, strict=False):
            row[:] = values[start : start + PIECE]
        if omega is not None:
            some[-1] = omega[start : start + PIECE]
        out += some @ some.T
    return out


def quadratic(slopes, sums):
    """Return sum_s b^T Q b over all strata, and the sum of the sizes of its terms."""
    single, order, second = sums.frame.n_strata == 1, sums.order, sums.second
    used = [i for i, b in enumerate(slopes) if (b if single else b.any())]
    variance = noise = 0.0
    for place, i in enumerate(used):
        for j in used[: place + 1]:
            part = slopes[i] * slopes[j] * second[order[i]][order[j]]
            part = part if j == i else 2.0 * part
            variance += part if single else total(part)
            noise += abs(part) if single else total(abs(part))
    return variance, noise


# -- from where terms are measured ----------------------------------------------------
FAR_TERMS = 0.9  # share of the squared mean in the mean square of terms far from zero


def total(values):
    """Return the sum over the strata of a number of every stratum."""
    return values if isinstance(values, float) else float(np.sum(values))


def straight(terms, slants):
    """Return the terms, numerators less their slants times their divisors."""
    out = list(terms)
    for top, (end, slant) in slants.items():
        if slant:
            out[top] = out[top] - slant * out[end]
    return out


def slant_of(term, divisor):
    """Return the ratio of a numerator that follows its divisor, or 0."""
    cross, square = dot(term, divisor), dot(divisor, divisor)
    if not cross * cross > FAR_TERMS * square * dot(term, term):
        return 0.0
    return cross / square


def middle_of(term):
    """Return the mean of terms far from zero for their spread, or 0."""
    whole, n = float(np.add.reduce(term)), len(term)
    if not whole * whole > FAR_TERMS * n * dot(term, term):
        return 0.0
    # the mean of equal terms may differ from them by rounding
    return float(term[0]) if (term == term[0]).all() else whole / n
