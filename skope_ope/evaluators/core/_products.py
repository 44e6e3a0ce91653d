# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Sums of products of any two terms of a block of rounds."""

import numpy as np

MANY = 12  # terms whose products one matrix gives faster than a dot product each
PIECE = 5000  # rounds of such a matrix


def products_of(x, block):
    """Return the sums of products of the entries of x, a row for each of them."""
    if len(x) > MANY:
        rows = x if block.omega is None else [*x, block.omega]
        return _triangle(products_of_rows(rows), len(x))
    second = [[block.dot(a, b) for b in x[: i + 1]] for i, a in enumerate(x)]
    if block.omega is not None:
        second.append([block.dot(block.omega, b) for b in x])
    return second


def products_of_rows(rows):
    """Return the sums of products of any two arrays, as a matrix does."""
    n, out = len(rows[0]), np.zeros((len(rows), len(rows)))
    piece = np.empty((len(rows), min(n, PIECE)))
    for start in range(0, n, PIECE):
        some = piece[:, : min(PIECE, n - start)]
        for row, values in zip(some, rows, strict=True):
            row[:] = values[start : start + PIECE]
        out += some @ some.T
    return out


def _triangle(products, k):
    """Return the lower triangle of products as lists; the last row without its end."""
    return [row[: min(i + 1, k)] for i, row in enumerate(products.tolist())]


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
