# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Rounds that belong together: labels of groups, and their codes."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from skope_ope._types import Array
from skope_ope.exceptions import RowError
from skope_ope.logs._coded_labels import ColumnCodes, coded_labels, column_codes
from skope_ope.logs._factorise import (
    among,
    count_codes,
    distinct_labels,
    first_of_codes,
    objects,
    ordered_codes,
)
from skope_ope.logs._row_container import read_only
from skope_ope.logs._validation import (
    as_array,
    check_length,
    frame_names,
    is_frame,
    is_missing,
    label_array,
)


def check_group(group, n_rounds):
    """Return one label per round."""
    return _coded_group(group, n_rounds)[0]


def _coded_group(group, n_rounds):
    """Return the labels of `check_group`, and their `distinct_labels`."""
    group = column_codes(group) or group
    if isinstance(group, (list, tuple)) and group and isinstance(group[0], tuple):
        coded = _coded_tuples(group)
    else:
        columns = [
            _coded_part(name, part) for name, part in _group_columns(group).items()
        ]
        if not columns:
            raise ValueError("group is a table without columns.")
        coded = columns[0]
        if len(columns) > 1:
            coded = _composite(columns)
        elif any(isinstance(label, tuple) for label in coded[0][:1]):
            coded = _coded_tuples(coded[0].tolist())
    check_length("group", coded[0], n_rounds)
    return coded


def _coded_part(name, column):
    try:
        return coded_labels(name, column)
    except TypeError:
        _check_hashable(label_array(name, column))
        raise


def _composite(columns):
    """Bring the codes of several columns together; labels are tuples."""
    codes = columns[0][2]
    for _, distinct, more in columns[1:]:
        # numbers of pairs stay below the square of the number of rounds
        codes = distinct_labels(codes * len(distinct) + more)[1]
    some = first_of_codes(codes, codes.max(initial=-1) + 1)
    parts = (labels[some].tolist() for labels, *_ in columns)
    distinct = objects(zip(*parts, strict=True))
    return read_only(distinct.take(codes)), distinct, codes


def _coded_tuples(labels):
    labels = _check_tuples(labels)
    try:
        return labels, *distinct_labels(labels)
    except TypeError:
        _check_hashable(labels)
        raise


def _group_columns(group):
    """Return the columns of a table by name; labels without parts are one column."""
    if isinstance(group, ColumnCodes):
        return {"group": group}
    if is_frame(group):
        return {f"group (column {n!r})": group[n] for n in frame_names(group)}
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
                found = f"group has a missing label ({part})"
                raise RowError(found, row, f", in {label!r}. Drop these rows.")
    return objects(labels)


def _check_hashable(labels):
    for row, label in enumerate(labels):
        try:
            hash(label)
        except TypeError as error:
            raise TypeError(
                f"group holds {label!r} at row {row}, which cannot be the label of a "
                f"group ({error}). Use texts, numbers or tuples of them."
            ) from error


class Grouped:
    """What logs with groups have: the codes and the labels of their groups."""

    # Groups are numbered in the order of their labels where these can be ordered, and
    # else as they appear. All are None where the logs have no groups.

    _group_labels = _group_code = None  # of the logs as they were built

    def _set_group(self, group):
        state = self.__dict__
        state["group"] = state["_group_labels"] = state["_group_code"] = None
        if group is not None:
            known = column_codes(group)
            found, labels, codes = _coded_group(known or group, len(self))
            tidy = known is None and labels.dtype.kind in "iu"
            if not (tidy and (labels[1:] > labels[:-1]).all()):
                labels, codes = ordered_codes(labels, codes)
            state["group"], state["_group_labels"] = found, read_only(labels)
            state["_group_code"] = read_only(codes)
        return self.group

    @cached_property
    def _grouping(self):
        if self.group is None:
            return None, None
        return among(self._group_labels, self._group_code, self._label_counts)

    @cached_property
    def _label_counts(self):
        """Number of rounds of every label, of those that the logs were built with."""
        return read_only(count_codes(self._group_code, len(self._group_labels)))

    @property
    def groups(self) -> Array | None:
        """Labels of the groups, ndarray of shape (n_groups,)."""
        return self._grouping[0]

    @property
    def group_index(self) -> Array | None:
        """Codes 0..n_groups-1 of the groups, ndarray of shape (n_rounds,)."""
        return self._grouping[1]

    @cached_property
    def _group_sizes(self) -> Array | None:
        """Numbers of rounds of the groups, ndarray of shape (n_groups,)."""
        if self.group is None:
            return None
        if self.groups is self._group_labels:
            return self._label_counts
        return read_only(count_codes(self.group_index, len(self.groups)))

    @property
    def n_groups(self) -> int | None:
        """Number of groups."""
        return None if self.groups is None else len(self.groups)
