# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Tables of shape (rounds, slots, candidates), some rounds at a time."""

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
