# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Checks of logs, of slates and of parameters that slate policies share."""

import numpy as np

from skope_ope.logs import SlateLogs
from skope_ope.logs._row_container import own
from skope_ope.logs._row_labels import check_output_labels
from skope_ope.logs._slate_logs import EMPTY
from skope_ope.logs._validation import PROBABILITY_TOLERANCE, as_numbers
from skope_ope.logs.lazy._kind_of import kind_of


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
    if (proba < 0).any() or abs(proba.sum() - 1) > PROBABILITY_TOLERANCE:
        raise ValueError(
            "proba must be non-negative and sum to 1, got "
            f"minimum {proba.min():.6g}, sum {proba.sum():.9g}."
        )
    return array, proba
