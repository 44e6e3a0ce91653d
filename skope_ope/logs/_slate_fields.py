# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Checks of the fields that only logs of slates have."""

import numpy as np

from skope_ope.exceptions import RowError
from skope_ope.logs._row_container import read_only
from skope_ope.logs._validation import as_numbers

EMPTY = -1  # an empty slot
WEIGHT_COLUMN = "sample_weight"  # name of the column that weights the rounds


def check_slate(slate):
    """Return slates as read-only indices of candidates, -1 for an empty slot."""
    if isinstance(slate, (list, tuple)):
        sizes = np.array([np.size(row) for row in slate])
        if (sizes != sizes[:1]).any():
            row = int(np.flatnonzero(sizes != sizes[0])[0])
            raise ValueError(
                f"slate has {sizes[row]} slots at row {row} and {sizes[0]} at row 0. "
                "Fill shorter slates with -1, an empty slot."
            )
    if np.asarray(slate).dtype == bool:
        raise TypeError(
            "slate must hold the index of a candidate in every slot, got booleans. "
            "Who could be shown is `candidates`."
        )
    array = as_numbers("slate", slate, 2)
    if not array.size:
        raise ValueError("the logs are empty: at least one round and slot is needed.")
    wrong = (array != np.round(array)) | (array < EMPTY)
    if wrong.any():
        row, slot = np.argwhere(wrong)[0]
        want = "slate must hold indices of candidates (or -1 for an empty slot)"
        raise RowError(f"{want}, got {array[row, slot]:g}", row, f", slot {slot}.")
    return read_only(array.astype(np.intp))


def check_slot_reward(slot_reward, slate):
    """Return the rewards of slots, none of them negative, zero where one is empty."""
    array = as_numbers("slot_reward", slot_reward, 2)
    if array.shape != slate.shape:
        raise ValueError(
            f"slot_reward must have shape {slate.shape} like slate, got {array.shape}."
        )
    wrong = (array < 0) | ((slate == EMPTY) & (array != 0))
    if wrong.any():
        row, slot = np.argwhere(wrong)[0]
        want = "slot_reward must be non-negative, and zero in an empty slot"
        raise RowError(f"{want}, got {array[row, slot]:g}", row, f", slot {slot}.")
    return array


def has_slot_rewards(logs):
    """Tell whether slots have rewards that add up to those of their pages."""
    return logs.slot_reward is not None and row_of_another_reward(logs) is None


def check_feature_names(names, item_features):
    """Return the names of the features of items as a tuple, or None."""
    if names is None:
        return None
    names = tuple(names)
    width = 0 if item_features is None else item_features.shape[-1]
    if len(names) != width or len(set(names)) < width:
        raise ValueError(
            "item_feature_names must hold a different name for each of the "
            f"{width} columns of item_features, got {list(names)}."
        )
    return names


def row_of_another_reward(logs):
    """Return a row whose reward is not the sum of its slot rewards, or None."""
    total = logs.slot_reward.sum(axis=1)
    scale = np.abs(total) + np.abs(logs.reward)
    off = np.flatnonzero(np.abs(total - logs.reward) > 1e-9 * scale)
    return int(off[0]) if len(off) else None


def is_uniform(logs):
    """Tell whether the logging policy takes, in every slot, any candidate alike."""
    policy = logs.logging_policy
    return bool(getattr(policy, "_takes_all_alike", False))


# -- features of single candidates of slate logs ---------------------------------------


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


def column_weights(logs, of_part=False):
    """Return the weights of slate logs or None; those `of_part` may all be zero."""
    if WEIGHT_COLUMN not in logs.columns:
        return None
    name = f"the column {WEIGHT_COLUMN!r}"
    weight = as_numbers(name, logs.columns[WEIGHT_COLUMN])
    if weight.size and not (weight.min() >= 0 and (of_part or weight.any())):
        raise ValueError(
            f"{name} weights the rounds: it must be non-negative and positive "
            f"somewhere, got {weight.min():.6g} to {weight.max():.6g}. Give a column "
            "that is no weight another name."
        )
    return weight
