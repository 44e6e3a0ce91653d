# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""What policies give: tables of probabilities, frames with names, and labels."""

import re
import warnings
from contextlib import contextmanager

import numpy as np

from skope_ope._texts import meant
from skope_ope.exceptions import RowError, SupportWarning
from skope_ope.logs._labels import kind_of_labels
from skope_ope.logs._validation import (
    PROBA_TOLERANCE,
    as_array,
    as_numbers,
    is_frame,
    label_codes,
    plain,
    short,
)


def checked_floats(name, values):
    """Return numbers as floats; texts, objects and complex numbers are refused."""
    array = as_array(name, values)
    if array.dtype == np.float64:
        return array
    return as_numbers(name, array, array.ndim, finite=False)


def named_table(policy, given, classes, method="predict_proba"):
    """Return the probabilities of a policy; a frame has its columns by name."""
    if isinstance(given, np.ndarray):
        return given
    who = f"the output of {type(policy).__name__}.{method}"
    return as_array(who, given, np.asarray(classes))


def function_table(name, given, classes, n_rounds):
    """Return what a function of the contexts gives as probabilities."""
    if isinstance(given, (str, bytes)):
        raise ValueError(
            f"{name} is the single label {given!r}, expected one for each of the "
            f"{n_rounds} rounds: np.full(len(X), {given!r}). The policy that always "
            f"takes it is ConstantPolicy({given!r})."
        )
    if getattr(given, "shape", None) == ():
        raise ValueError(
            f"{name} is the single value {given.item()!r}, expected one for each of "
            f"the {n_rounds} rounds. Columns of pyarrow are not compared row by row: "
            "use np.asarray(X[name]) == value, or pyarrow.compute."
        )
    if classes is None:
        if is_frame(given):
            raise ValueError(f"{name} has columns with names{_UNKNOWN_LABELS}")
        array = as_array(name, given)
        if array.ndim == 1 and array.dtype.kind not in "biuf":
            raise ValueError(f"{name} holds labels{_UNKNOWN_LABELS}")
        return checked_floats(name, array)
    array = as_array(name, given, classes)
    if array.ndim == 1 and len(array) == n_rounds and can_be_labels(array, classes):
        codes = codes_of(name, array, classes)
        proba = np.zeros((n_rounds, len(classes)))
        proba[np.arange(n_rounds), codes] = 1.0
        return proba
    if array.ndim == 1:
        raise ValueError(
            f"{name} has shape {array.shape}, expected ({n_rounds}, {len(classes)}) or "
            f"labels of shape ({n_rounds},), and its dtype is {array.dtype}. "
            f"{two_ways(classes)}"
        )
    if array.ndim == 2 and array.dtype.kind in "OUST" and array.shape[1] == 1:
        raise ValueError(
            f"{name} has shape {array.shape}: labels need the shape ({n_rounds},). "
            "Flatten it with np.ravel."
        )
    return checked_floats(name, array)


def label_table(name, array, actions, available=None):
    """Return the policy that takes a given action in every round."""
    rows, codes = np.arange(len(array)), codes_of(name, array, actions)
    if available is not None and not available[rows, codes].all():
        lost = np.flatnonzero(~available[rows, codes])
        raise RowError(
            f"{name} takes {plain(array[lost[0]])!r}",
            lost[0],
            f", where it is not available ({lost.size} such rows). Name an offered "
            "action in these rows.",
        )
    table = np.zeros((len(array), len(actions)), dtype=bool)  # a byte an entry
    table[rows, codes] = True
    return table


def can_be_labels(array, classes):
    """Tell whether a vector holds labels rather than probabilities."""
    # Numbers are labels where the actions are numbers, too, and fractions only where
    # the actions are; True and False are where the actions are.
    if array.dtype.kind == "f" and classes.dtype.kind in "iu":
        return False
    kind = kind_of_labels(array)
    numbers = kind in ("numbers", "bools")
    return not numbers or kind == kind_of_labels(classes)


def codes_of(name, array, actions):
    """Return the indices of the actions that a vector names; raise for other labels."""
    codes = label_codes(actions, array)
    wrong = np.flatnonzero(codes < 0)
    if not wrong.size:
        return codes
    label = plain(array[wrong[0]])
    remedy = meant(label, actions.tolist())
    if kind_of_labels(array) == "numbers" and np.isin(array, (0, 1)).all():
        remedy = f" {two_ways(actions)}"
    raise RowError(
        f"{name} names {label!r}",
        wrong[0],
        f" ({wrong.size} such rows), and the actions are {short(actions)}.{remedy} If "
        "it can be taken, pass all labels as actions=[...] when building the logs.",
    )


def two_ways(actions):
    """Return the sentence that shows labels and probabilities."""
    labels = [repr(one) for one in actions[:2].tolist()]
    first, last = labels[0], labels[-1]
    table = "with p the probability of the second, np.column_stack([1 - p, p])"
    if len(actions) != 2:
        table = f"an array with {len(actions)} columns"
    return (
        f"Give one label per row, as np.where(condition, {last}, {first}) does; or "
        f"one probability per action, in the order {short(actions)}: {table}."
    )


def report_unknown(labels, proba, logs, unknown="raise"):
    """Raise, or warn, where a policy takes actions that the logs do not know."""
    mass = proba.sum(axis=1)
    wrong = np.flatnonzero(mass > PROBA_TOLERANCE)
    if not wrong.size:
        return
    found = labels[proba.max(axis=0) > 0].tolist()
    text = (
        f"the policy gives probability {mass[wrong[0]]:.4g} at row {wrong[0]} to "
        f"actions that the logs do not know: {found[:8]} (mean mass "
        f"{mass.mean():.4g}). "
    )
    if unknown == "raise":
        known = [one for one in logs.actions.tolist() if one not in labels.tolist()]
        raise ValueError(
            f"{text.rstrip()}{meant(found[0], known)} If they can be taken, pass all "
            "labels as actions=[...] when building the logs; the mass is then reported "
            "as unsupported."
        )
    warnings.warn(SupportWarning(text, float(mass.mean())), stacklevel=4)


_UNKNOWN_LABELS = (
    ", and the policy does not know the actions yet: call fit(logs) or fit(X, y), or "
    "pass logs in place of contexts."
)


# -- what columns there are, told with the error of a function that misspells one ------

COLUMNS_NOTED = 30  # columns in a note


@contextmanager
def columns_told(X):
    """Add a note to errors inside about a name that is no column of the contexts."""
    # The error stays what it is.
    try:
        yield
    except Exception as error:
        if is_frame(X):
            _add_note(error, list(getattr(X, "column_names", None) or X.columns))
        raise


def _add_note(error, columns):
    name = None
    if isinstance(error, AttributeError) and is_frame(getattr(error, "obj", None)):
        name = error.name
    elif isinstance(error, KeyError) and error.args:
        name = error.args[0]
    elif type(error).__name__ == "ColumnNotFoundError":  # polars
        name = str(error)
    quoted = re.match(r'(?:Field )?"(.*?)"', name) if isinstance(name, str) else None
    if quoted:  # in the sentences of polars and pyarrow
        name = quoted[1]
    if name is None or (isinstance(name, str) and name in columns):
        return
    hint = meant(name, columns) if isinstance(name, str) else ""
    shown = ", ".join(map(repr, columns[:COLUMNS_NOTED]))
    n_more = len(columns) - COLUMNS_NOTED
    more = f" and {n_more:,} more" if n_more > 0 else ""
    error.add_note(
        f"If a column is meant: the contexts have {shown}{more}.{hint} A function of "
        "the contexts gets the columns that the logs hold as context, and no others."
    )
