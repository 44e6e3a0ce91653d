# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Sums of arrays over the rounds of every stratum."""

import numpy as np

from skope_ope._dot import LONGEST_PRODUCT

FEW = 6  # strata for which a dot product each beats counting


def partial_sums(codes, n_codes):
    """Return a function that sums an array of shape (n,) over every code."""
    if n_codes == 1:
        return lambda values: values.sum(keepdims=True)
    if n_codes > FEW:
        return lambda values: np.bincount(codes, values, n_codes)
    rows = indicators(codes, n_codes)
    starts = range(0, len(codes), LONGEST_PRODUCT)
    pieces = [slice(start, start + LONGEST_PRODUCT) for start in starts]
    pieces = [(piece, [row[piece] for row in rows]) for piece in pieces]

    def sums(values):
        total = np.zeros(n_codes)
        for piece, owns in pieces:
            part = values[piece]
            total += [part.dot(own) for own in owns]
        return total

    return sums


def indicators(codes, n_codes):
    """Return the indicators of the codes, shape (n_codes, n)."""
    out = np.empty((n_codes, len(codes)))
    labels = np.arange(n_codes)
    if n_codes < 256:  # compared faster
        codes, labels = codes.astype(np.uint8), labels.astype(np.uint8)
    out[:] = codes == labels[:, None]
    return out
