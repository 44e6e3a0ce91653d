# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Labels of rounds, and of their groups, and their codes, found with their checks."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from skope_ope._texts import meant
from skope_ope._types import Array
from skope_ope.exceptions import RowError
from skope_ope.logs._labels import (
    among,
    count_codes,
    distinct_labels,
    first_of_codes,
    objects,
    ordered_codes,
)
from skope_ope.logs._row_container import keep, read_only
from skope_ope.logs._validation import (
    as_array,
    check_labels,
    check_length,
    frame_names,
    is_frame,
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
        return array, *_distinct_checked(name, array)
    try:
        distinct, codes = _distinct_checked(name, array)
    except TypeError:
        check_labels(name, values)  # a missing label is told first
        raise
    if distinct.dtype.kind == "O" and any(map(is_missing, distinct)):
        check_labels(name, values)  # names the row
    return keep(values, array) if copy else array, distinct, codes


def encode_labels(name, values, labels=None, labels_name=None):
    """Return (ordered labels, codes) of a 1-d array of labels."""
    # The labels are the sorted distinct values, or those given, in their order.
    return coded_as(
        name, (values, *_distinct_checked(name, values)), labels, labels_name
    )


def _distinct_checked(name, values):
    try:
        return distinct_labels(values)
    except TypeError as error:  # what cannot be hashed
        raise _not_ordered(name, error) from error


def coded_as(name, coded, labels=None, labels_name=None):
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
            f" is not among {labels_name} {short(labels)}.{hint} Add it there.",
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


# -- codes that columns of data frames have, or that their library finds ---------------


class ColumnCodes:
    """Labels of a column, and the place of every row's among them."""

    def __init__(self, labels, codes, values=None, listed=False):
        self.labels, self.codes = labels, codes
        self.values = labels.take(codes) if values is None else values
        self.listed = listed


def column_codes(values):
    """Return the `ColumnCodes` of a column of texts or categories, else None."""
    if isinstance(values, ColumnCodes):
        return values
    library = type(values).__module__.split(".")[0]
    found = _BY_LIBRARY[library](values) if library in _BY_LIBRARY else None
    if found is None:
        return None
    labels, codes = found
    if len(codes) and codes.min() < 0:
        return None
    return ColumnCodes(labels, codes.astype(np.intp, copy=False))


def _of_pandas(values):
    import pandas

    extension = pandas.api.extensions.ExtensionArray
    if not isinstance(values, (pandas.Series, pandas.Index, extension)):
        return None
    dtype = values.dtype
    if isinstance(dtype, pandas.CategoricalDtype):
        values = getattr(values, "array", values)
        labels = _plain_labels(dtype.categories)
        return None if labels is None else (labels, values.codes)
    if isinstance(dtype, pandas.ArrowDtype):
        import pyarrow

        return _of_pyarrow(pyarrow.array(values))
    text = isinstance(dtype, pandas.StringDtype)
    if not text and not _starts_with_text(values):
        return None
    try:
        codes, labels = pandas.factorize(values)
    except TypeError:  # what cannot be hashed has a message of its own
        return None
    labels = np.asarray(labels, dtype=object)
    # what is equal to a text and has its hash is that text
    return (labels, codes) if set(map(type, labels)) <= {str} else None


def _plain_labels(categories):
    """Return categories as the array that their column would be, where that is easy."""
    kind = categories.dtype
    numpys = isinstance(kind, np.dtype) and kind.kind in "biuO"
    if not numpys and not str(kind).startswith("str"):
        return None
    return np.asarray(categories)


def _starts_with_text(values):
    if values.dtype.kind != "O" or not isinstance(values.dtype, np.dtype):
        return False
    return len(values) > 0 and type(np.asarray(values)[0]) is str


def _of_polars(values):
    import polars

    if not isinstance(values, polars.Series) or values.null_count():
        return None
    if values.dtype not in (polars.String, polars.Categorical, polars.Enum):
        return None
    labels = texts = values.unique()
    if values.dtype == polars.String:
        kind = polars.Enum(texts)
        labels, values = labels.cast(kind), values.cast(kind)
    # numbers of categories may be those of all columns there ever were
    numbers, codes = (one.to_physical().to_numpy() for one in (labels, values))
    place = np.zeros(int(numbers.max(initial=0)) + 1, dtype=np.intp)
    place[numbers] = np.arange(len(numbers))
    labels = np.asarray(texts)
    if len(set(labels.tolist())) < len(labels):  # numpy drops null bytes at the end
        return None
    return labels, place[codes]


def _of_pyarrow(values):
    import pyarrow
    from pyarrow import types

    kind = getattr(values, "type", None)
    if kind is None or not hasattr(values, "dictionary_encode") or values.null_count:
        return None
    inner = kind.value_type if types.is_dictionary(kind) else kind
    if not (types.is_string(inner) or types.is_large_string(inner)):
        return None
    if not types.is_dictionary(kind):
        values = values.dictionary_encode()
    if isinstance(values, pyarrow.ChunkedArray):
        values = values.unify_dictionaries().combine_chunks()
    if isinstance(values, pyarrow.ChunkedArray):  # of no or several chunks
        return None
    labels, codes = values.dictionary, values.indices
    if labels.null_count or len(labels.unique()) < len(labels):
        return None
    return labels.to_numpy(zero_copy_only=False), codes.to_numpy(zero_copy_only=False)


_BY_LIBRARY = {"pandas": _of_pandas, "polars": _of_polars, "pyarrow": _of_pyarrow}


# -- rounds that belong together: labels of groups, and their codes --------------------


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
