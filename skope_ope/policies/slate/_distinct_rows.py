# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Equal rows of a table."""

import numpy as np


def distinct_rows(table):
    """Distinct rows of a table, and which of them every row is."""
    if len(table) == 1 or not table.shape[1]:
        return np.zeros(min(len(table), 1), np.intp), np.zeros(len(table), np.intp)
    # numbers are much faster to sort than rows; that no two rows met in one number
    # is checked
    words = _words(table)
    _, first, index = np.unique(_codes(words), return_index=True, return_inverse=True)
    index = index.reshape(-1)
    if (words[first[index]] != words).any():
        rows = words.view(f"V{words.dtype.itemsize * words.shape[1]}")[:, 0]
        _, first, index = np.unique(rows, return_index=True, return_inverse=True)
    return first, index.reshape(-1)


def row_codes(table):
    """Numbers that nearly always differ where rows of a table do."""
    return _codes(_words(table))


def _words(table):
    """Bits of the entries as unsigned integers."""
    table = np.ascontiguousarray(table)
    return table.view(f"u{table.dtype.itemsize}").astype(np.uint64, copy=False)


def _codes(words):
    """One number per row of unsigned integers."""
    factors = np.random.RandomState(0).randint(0, 2**62, words.shape[1], np.uint64)
    # round floats differ in their first bits only, which products would push out
    return (words ^ (words >> np.uint64(32))) @ (2 * factors + 1)
