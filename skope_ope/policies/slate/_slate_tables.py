# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Tables of shape (n_rounds, n_slots, n_candidates)."""

from typing import NamedTuple

import numpy as np

from skope_ope.logs import SlateLogs
from skope_ope.logs._row_container import own
from skope_ope.logs._row_labels import check_output_labels
from skope_ope.logs._slate_fields import EMPTY
from skope_ope.logs._validation import PROBA_TOLERANCE, as_numbers
from skope_ope.logs.lazy._lazy_logs import kind_of


def entries(table, slates, empty=0.0):
    """Entries of (n_rounds, n_slots, n_candidates) that slates show."""
    # `empty`, a number or of shape (n_rounds, n_slots), is that of an empty slot.
    shown = np.take_along_axis(table, np.maximum(slates, 0)[:, :, None], axis=2)
    return np.where(slates == EMPTY, empty, shown[:, :, 0])


def offered_slots(logs, n_slots):
    """Where candidates may be shown: (n_rounds or 1, n_slots or 1, n_cand.)."""
    # One round stands for all, one slot for all, where they do not differ.
    offered = logs.offered
    if offered is None:
        return np.ones((1, 1, logs.max_candidates), dtype=bool)
    if offered.ndim == 2:
        return offered[:, None]
    if offered.shape[1] != n_slots:
        raise ValueError(
            f"logs.candidates has {offered.shape[1]} slots, but the policy fills "
            f"{n_slots}. Use a policy with the same number of slots."
        )
    return offered


# -- first and second moments of slates, by type of candidate --------------------------


class TypeMoments(NamedTuple):
    r"""Moments of slates by type of candidate."""

    # Probability that both slots show the one candidate of the type; on the diagonal,
    # that the slot shows it: the slot marginals
    same: np.ndarray
    # Probability that the slots show two given, different candidates of the types. Zero
    # where both slots are the same, or where a type of one candidate meets itself
    pairs: np.ndarray


def independent_moments(slot_proba):
    """Moments of slots that are filled independently of each other."""
    slots = np.arange(slot_proba.shape[1])
    pairs = slot_proba[:, :, None, :, None] * slot_proba[:, None, :, None, :]
    same = slot_proba[:, :, None] * slot_proba[:, None]
    same[:, slots, slots] = slot_proba
    pairs[:, slots, slots] = 0.0
    return TypeMoments(same, pairs)


def add_moments(same, pairs, slates, proba, types):
    """Add the moments of slates with probabilities to those by type."""
    n_slots = slates.shape[1]
    for one in range(n_slots):
        for two in range(n_slots):
            a, b = slates[:, one], slates[:, two]
            both = (a != EMPTY) & (b != EMPTY)
            twice = both & (a == b)
            np.add.at(same[one, two], types[a[twice]], proba[twice])
            if one != two:
                apart = both & (a != b)
                where = types[a[apart]], types[b[apart]]
                np.add.at(pairs[one, two], where, proba[apart])


def couples(sizes):
    """Numbers of ordered pairs of two different candidates, by type; at least one."""
    return np.maximum(sizes[:, None] * (sizes - np.eye(len(sizes))), 1)


# -- equal rows of a table -------------------------------------------------------------


def distinct_rows(table):
    """Distinct rows of a table, and which of them every row is."""
    if len(table) == 1 or not table.shape[1]:
        return np.zeros(min(len(table), 1), np.intp), np.zeros(len(table), np.intp)
    # numbers are much faster to sort than rows; that no two rows met in one number
    # is checked
    words = _words(table)
    _, first, index = np.unique(
        _codes_of_words(words), return_index=True, return_inverse=True
    )
    index = index.reshape(-1)
    if (words[first[index]] != words).any():
        rows = words.view(f"V{words.dtype.itemsize * words.shape[1]}")[:, 0]
        _, first, index = np.unique(rows, return_index=True, return_inverse=True)
    return first, index.reshape(-1)


def row_codes(table):
    """Numbers that nearly always differ where rows of a table do."""
    return _codes_of_words(_words(table))


def _words(table):
    """Bits of the entries as unsigned integers."""
    table = np.ascontiguousarray(table)
    return table.view(f"u{table.dtype.itemsize}").astype(np.uint64, copy=False)


def _codes_of_words(words):
    """One number per row of unsigned integers."""
    factors = np.random.RandomState(0).randint(0, 2**62, words.shape[1], np.uint64)
    # round floats differ in their first bits only, which products would push out
    return (words ^ (words >> np.uint64(32))) @ (2 * factors + 1)


# -- checks of logs, of slates and of parameters that slate policies share -------------


def check_slate_logs(logs):
    """Raise a TypeError unless `logs` are SlateLogs."""
    if not isinstance(logs, SlateLogs):
        raise TypeError(
            f"slate policies act on SlateLogs, got {kind_of(logs)}. Build them "
            "with SlateLogs(context, slate, reward, n_candidates=...)."
        )


def check_slates(slates, logs, name="slates"):
    """Return slates of the logs' rounds as integers."""
    check_output_labels(name, slates, logs.context)
    slates = np.asarray(slates)
    if slates.dtype.kind not in "iu":
        raise TypeError(
            f"{name} must hold integers, the index of a candidate in every slot or "
            f"-1, got dtype {slates.dtype}."
        )
    if slates.ndim != 2 or len(slates) != len(logs):
        raise ValueError(
            f"{name} must have shape (n_rounds, n_slots) with {len(logs)} rounds, got "
            f"{slates.shape}."
        )
    wrong = (slates < EMPTY) | (slates >= logs.max_candidates)
    if wrong.any():
        row, slot = np.argwhere(wrong)[0]
        raise ValueError(
            f"{name} holds candidate {slates[row, slot]} at row {row}, slot {slot}: "
            f"candidates are 0 to {logs.max_candidates - 1}, -1 is an empty slot."
        )
    return slates.astype(np.intp, copy=False)


def check_n_slots(n_slots, logs):
    """Raise unless rankings of `n_slots` fit into the candidates."""
    if isinstance(n_slots, bool) or not isinstance(n_slots, (int, np.integer)):
        raise TypeError(f"n_slots must be an integer, got {n_slots!r}.")
    if n_slots < 1:
        raise ValueError(f"n_slots must be at least 1, got {n_slots}.")
    if n_slots > logs.max_candidates:
        raise ValueError(
            f"n_slots={n_slots} is more than the {logs.max_candidates} candidates of "
            "the logs: a slate without repetition cannot be longer than its "
            "candidates."
        )


def row_values(values, logs, name, instead=""):
    """Return a parameter that may be an array, a function of the logs or a column."""
    # `instead` is what else the message about a missing column advises.
    if isinstance(values, str):
        if values not in logs.columns:
            raise ValueError(
                f"{name} {values!r} is not a column of the logs (they have "
                f"{sorted(logs.columns)}). Add it with logs.with_columns{instead}."
            )
        return logs.columns[values]
    return values(own(logs, values)) if callable(values) else values


def slates_with_proba(slates, proba, name):
    """Return checked slates and probabilities."""
    try:
        array = np.asarray(slates)
    except ValueError as error:
        raise ValueError(f"{name} is no rectangular array: {error}") from error
    if array.ndim != 2 or not array.size:
        raise ValueError(
            f"{name} must have shape (n_slates, n_slots), got {array.shape}."
        )
    if array.dtype.kind not in "iu":
        raise TypeError(f"{name} must hold integers, got dtype {array.dtype}.")
    if array.min() < EMPTY:
        raise ValueError(f"{name} holds {array.min()}: candidates count from 0.")
    array = array.astype(np.intp, copy=False)
    if proba is None:
        array = np.unique(array, axis=0)
        return array, np.full(len(array), 1 / len(array))
    proba = as_numbers("proba", proba)
    if len(proba) != len(array):
        raise ValueError(
            f"proba has {len(proba)} entries, {name} has {len(array)} slates."
        )
    if (proba < 0).any() or abs(proba.sum() - 1) > PROBA_TOLERANCE:
        raise ValueError(
            "proba must be non-negative and sum to 1, got "
            f"minimum {proba.min():.6g}, sum {proba.sum():.9g}."
        )
    return array, proba
