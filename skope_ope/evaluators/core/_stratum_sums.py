# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Sums of arrays over the rounds of every stratum, by one product a block."""

import numpy as np

FEW = 8  # strata for which a dot product each beats counting
ENTRIES = 24  # of one product; larger ones would wake BLAS threads


def partial_sums(codes, n_codes):
    """Return a function that sums the rows of each code.

    It takes an array of shape (n,) or (k, n) and returns (n_codes,) or (k, n_codes).
    """
    if n_codes == 1:
        return lambda values: values.sum(axis=-1, keepdims=True)
    if n_codes > FEW:
        return lambda values: np.apply_along_axis(
            lambda row: np.bincount(codes, row, n_codes), -1, values
        )
    rows = indicators(codes, n_codes).T
    step = ENTRIES // n_codes

    def sums(values):
        if values.ndim == 1 or len(values) <= step:
            return values @ rows
        parts = [values[k : k + step] @ rows for k in range(0, len(values), step)]
        return np.concatenate(parts)

    return sums


def indicators(codes, n_codes):
    """Return one row per code, one where it is."""
    out = np.empty((n_codes, len(codes)))
    labels = np.arange(n_codes)
    if n_codes < 256:  # compared faster
        codes, labels = codes.astype(np.uint8), labels.astype(np.uint8)
    out[:] = codes == labels[:, None]
    return out
