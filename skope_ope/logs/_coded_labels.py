# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Labels of rounds and their codes, found together with their checks."""

import numpy as np

from skope_ope._meant import meant
from skope_ope.exceptions import RowError
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
