# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Features of single candidates of slate logs."""


def item_rows(logs, rounds, candidates):
    """Return features of candidates, (n_rows, n_item_features)."""
    # `rounds` and `candidates` say which; for an empty slot some candidate stands.
    table = logs.item_features
    if table.ndim == 3:
        if not table.flags.c_contiguous:
            return table[rounds, candidates]
        # rows of a flat table are taken many times faster than pairs of indices
        n_rounds, n_candidates, n_features = table.shape
        rows = table.reshape(n_rounds * n_candidates, n_features)
        return rows.take(rounds * n_candidates + candidates, axis=0)
    if len(table) != logs.max_candidates:  # a catalogue, whose rows the labels number
        candidates = logs.item_id[rounds, candidates]
    return table.take(candidates, axis=0)
