# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Dot products of long arrays in one thread."""

LONGEST_PRODUCT = 10_000  # entries: a longer product wakes the threads of BLAS


def dot(a, b):
    """Return the dot product of two arrays of any length, in one thread."""
    # Threads save nothing here, for the arrays come from memory, and they wait for each
    # other: beside a busy neighbour a product took a hundred times as long.
    if len(a) <= LONGEST_PRODUCT:
        return float(a.dot(b))
    pieces = [slice(k, k + LONGEST_PRODUCT) for k in range(0, len(a), LONGEST_PRODUCT)]
    return sum([float(a[piece].dot(b[piece])) for piece in pieces])
