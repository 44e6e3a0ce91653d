# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Tables of shape (rounds, slots, candidates), some rounds at a time."""

import numpy as np

from skope_ope.logs._slate_logs import EMPTY

CHUNK_BYTES = 2**22  # of one table


def chunk_rows(logs):
    """Return how many rounds a table is made for at once."""
    return max(1, CHUNK_BYTES // (8 * logs.n_slots * logs.max_candidates))


def chunks(target, logs):
    """Yield (rows, rounds, slot marginals of the target), some rounds at a time."""
    step = chunk_rows(logs)
    for start in range(0, len(logs), step):
        rows = slice(start, min(start + step, len(logs)))
        rounds = logs[rows]
        yield rows, rounds, target.marginals(rounds)


def entries(table, slates):
    """Entries of (rounds, slots, candidates) that slates show; 0 in empty slots."""
    shown = np.take_along_axis(table, np.maximum(slates, 0)[:, :, None], axis=2)
    return np.where(slates == EMPTY, 0.0, shown[:, :, 0])
