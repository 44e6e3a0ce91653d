# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Rounds that belong together: labels of groups, and their codes."""

from functools import cached_property

import numpy as np

from skope_ope.exceptions import RowError
from skope_ope.logs._row_container import read_only
from skope_ope.logs._validation import (
    as_array,
    check_labels,
    check_length,
    count_integers,
    is_frame,
    is_missing,
)

_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)  # odd, 2**64 over the golden ratio
_LONG = 64  # characters; longer texts are sorted


def check_group(group, n_rounds):
    """Return one label per round.

    Parameters
    ----------
    group : array-like of shape (n_rounds,) or (n_rounds, n_parts), or frame
        Labels of the groups. Tuples, and the rows of a frame, of a 2-d or of a
        structured array, are composite labels: rounds belong together where all parts
        agree.
    n_rounds : int
        Number of rounds.

    Returns
    -------
    group : ndarray of shape (n_rounds,)
        Read-only; composite labels are tuples.
    """
    if isinstance(group, (list, tuple)) and group and isinstance(group[0], tuple):
        labels = _check_tuples(group)
    else:
        columns = _columns(group)
        columns = [check_labels(name, column) for name, column in columns.items()]
        if not columns:
            raise ValueError("group is a table without columns.")
        labels = columns[0]
        if len(columns) > 1:
            labels = _objects(zip(*(c.tolist() for c in columns), strict=True))
        elif labels.dtype == object and len(labels) and isinstance(labels[0], tuple):
            labels = _check_tuples(labels.tolist())
    check_length("group", labels, n_rounds)
    if labels.dtype == object:
        _check_hashable(labels)
    return labels


def _columns(group):
    """Return the columns of a table by name; labels without parts are one column."""
    if is_frame(group):
        names = getattr(group, "column_names", None) or group.columns
        return {f"group (column {name!r})": group[name] for name in list(names)}
    if isinstance(group, (list, tuple)) and group and isinstance(group[0], list):
        as_array("group", group)  # refuses rows of uneven length
        group = np.array(group, dtype=object)  # keeps numbers and texts what they are
    array = group if isinstance(group, (list, tuple)) else as_array("group", group)
    if isinstance(array, np.ndarray) and array.dtype.names:
        return {f"group (column {name!r})": array[name] for name in array.dtype.names}
    if isinstance(array, np.ndarray) and array.ndim == 2:
        return {f"group (column {j})": column for j, column in enumerate(array.T)}
    return {"group": group}


def _check_tuples(labels):
    size = len(labels[0])
    for row, label in enumerate(labels):
        if not isinstance(label, tuple) or len(label) != size:
            raise ValueError(
                f"group holds {labels[0]!r} at row 0 and {label!r} at row {row}: all "
                f"labels must be tuples of {size} parts, or none."
            )
        for part in label:
            if is_missing(part):
                raise RowError(
                    f"group has a missing label ({part})",
                    row,
                    f", in {label!r}. Drop these rows.",
                )
    return _objects(labels)


def _objects(labels):
    labels = list(labels)
    out = np.empty(len(labels), dtype=object)
    out[:] = labels
    return read_only(out)


def _check_hashable(labels):
    try:
        set(labels.tolist())
        return
    except TypeError:
        pass
    for row, label in enumerate(labels):
        try:
            hash(label)
        except TypeError as error:
            raise TypeError(
                f"group holds {label!r} at row {row}, which cannot tell groups apart "
                f"({error}). Use texts, numbers or tuples of them."
            ) from error


class Grouped:
    """What logs with groups have: the codes and the labels of their groups.

    Groups are numbered in the order of their labels where these can be ordered, and
    else as they appear. All are None where the logs have no groups.
    """

    @cached_property
    def _grouping(self):
        return (None, None) if self.group is None else factorise(self.group)

    @property
    def groups(self):
        """Labels of the groups, ndarray of shape (n_groups,)."""
        return self._grouping[0]

    @property
    def group_index(self):
        """Codes 0..n_groups-1 of the groups, ndarray of shape (n_rounds,)."""
        return self._grouping[1]

    @cached_property
    def group_sizes(self):
        """Numbers of rounds of the groups, ndarray of shape (n_groups,)."""
        return None if self.group is None else np.bincount(self.group_index)

    @property
    def n_groups(self):
        """Number of groups."""
        return None if self.groups is None else len(self.groups)


def factorise(values):
    """Return (distinct labels, codes) of a 1-d array of labels.

    Parameters
    ----------
    values : ndarray of shape (n_rounds,)
        Labels without missing ones; objects must be hashable.

    Returns
    -------
    labels : ndarray of shape (n_labels,)
        Sorted; in the order of appearance where they cannot be compared.
    codes : ndarray of int of shape (n_rounds,)
        Position of every value in `labels`.
    """
    counted = count_integers(values)
    if counted is not None:
        return counted
    if values.dtype.kind in "OT":
        labels, codes = _distinct_objects(values)
    elif values.dtype.kind in "US" and values.size and values.itemsize <= 4 * _LONG:
        labels, codes = _distinct_texts(values)
    else:
        labels, codes = np.unique(values, return_inverse=True)
    return labels, read_only(codes)


def _distinct_objects(values):
    values = values.tolist()
    distinct = list(dict.fromkeys(values))
    try:
        distinct.sort()
    except TypeError:  # of several types: they stay in the order of appearance
        distinct = list(dict.fromkeys(values))
    position = {label: code for code, label in enumerate(distinct)}
    codes = np.fromiter(map(position.__getitem__, values), np.intp, len(values))
    return _objects(distinct), codes


def _distinct_texts(values):
    """Sort numbers that stand for texts, several times faster than the texts."""
    unit = np.uint32 if values.dtype.kind == "U" else np.uint8
    letters = np.ascontiguousarray(values).view(unit).reshape(len(values), -1)
    key = np.zeros(len(values), dtype=np.uint64)
    for column in letters.T:
        key = (key ^ column) * _MULTIPLIER
        key ^= key >> np.uint64(32)
    _, codes = np.unique(key, return_inverse=True)
    some = np.empty(codes.max(initial=-1) + 1, dtype=np.intp)
    some[codes] = np.arange(len(values))  # a row of every key
    labels = values[some]
    if not (labels[codes] == values).all():  # two texts with one key
        return np.unique(values, return_inverse=True)
    order = np.argsort(labels)
    rank = np.empty(len(order), dtype=np.intp)
    rank[order] = np.arange(len(order))
    return labels[order], rank[codes]
