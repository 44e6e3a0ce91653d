# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Labels of rounds and their codes, found together with their checks."""

import numpy as np

from skope_ope._meant import meant
from skope_ope.exceptions import RowError
from skope_ope.logs._column_codes import column_codes
from skope_ope.logs._factorise import count_codes, distinct_labels, objects
from skope_ope.logs._row_container import keep, read_only
from skope_ope.logs._validation import (
    check_labels,
    is_missing,
    label_array,
    label_codes,
    plain,
    present_labels,
    short,
)


def coded_labels(name, values, copy=True):
    """Return labels as `check_labels` does, and their `distinct_labels`."""
    # Columns of frames keep their codes. Objects are looked at once: where none of the
    # distinct ones is missing, none is. Without `copy` the array may be that of the
    # caller.
    found = column_codes(values)
    if found is not None:
        return read_only(found.values), found.labels, found.codes
    array = label_array(name, values)
    if array.dtype.kind != "O":
        check = check_labels if copy else present_labels
        array = check(name, values)
        return array, *_distinct(name, array)
    try:
        distinct, codes = _distinct(name, array)
    except TypeError:
        check_labels(name, values)  # a missing label is told first
        raise
    if _any_missing(distinct):
        check_labels(name, values)  # names the row
    return keep(values, array) if copy else array, distinct, codes


def _any_missing(distinct):
    return distinct.dtype.kind == "O" and any(map(is_missing, distinct))


def encode_labels(name, values, labels=None, labels_name=None):
    """Return (ordered labels, codes) of a 1-d array of labels."""
    # The labels are the sorted distinct values, or those given, in their order.
    return encoded(name, (values, *_distinct(name, values)), labels, labels_name)


def _distinct(name, values):
    try:
        return distinct_labels(values)
    except TypeError as error:  # what cannot be hashed
        raise _not_ordered(name, error) from error


def encoded(name, coded, labels=None, labels_name=None):
    """Return what `encode_labels` does, from what `coded_labels` returns."""
    values, distinct, codes = coded
    if labels is None:
        present = np.flatnonzero(count_codes(codes, len(distinct)))
        labels = _sorted_labels(name, distinct[present], values.dtype)
    else:
        labels = check_labels(labels_name, labels)
        if len(set(labels.tolist())) != len(labels):
            raise ValueError(f"{labels_name} must be distinct, got {labels.tolist()}.")
    place = label_codes(labels, distinct)
    if not np.array_equal(place, np.arange(len(place))):
        codes = place.take(codes)
    if codes.size and codes.min() < 0:
        row = int(np.flatnonzero(codes < 0)[0])
        found = plain(values[row])
        hint = meant(found, labels.tolist())
        raise RowError(
            f"{name} {found!r}",
            row,
            f" is not among {labels_name} {short(labels)}.{hint} Add it there or drop "
            "the row.",
        )
    return labels, read_only(codes)


def _sorted_labels(name, distinct, dtype):
    if dtype.kind == "T":
        distinct = distinct.astype(dtype)
    if dtype.kind != "O":
        return read_only(np.unique(distinct))
    try:
        labels = sorted(distinct.tolist())
    except TypeError as error:
        raise _not_ordered(name, error) from error
    array = np.array(labels)
    return objects(labels) if array.ndim != 1 else read_only(array)  # tuples


def _not_ordered(name, error):
    return TypeError(
        f"{name} mixes labels that cannot be ordered ({error}). Pass the ordered "
        "labels as `actions`, or use one type of label."
    )
