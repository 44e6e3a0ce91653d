# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Columns of parquet files as arrays; pyarrow is imported when such a file comes."""

import numpy as np

from skope_ope.logs._text_files import empty_file, utc_microseconds
from skope_ope.logs._texts import Texts
from skope_ope.logs._validation import DROP_OR_FILL, DROP_REWARDS


def open_parquet(path):
    """Open a parquet file, which must be closed."""
    try:
        from pyarrow import ArrowException, parquet
    except ImportError as error:
        raise ImportError(
            f"{path}: parquet files need pyarrow: pip install 'skope-ope[frames]'. Or "
            "save the log as csv."
        ) from error
    try:
        return parquet.ParquetFile(path)
    except (ArrowException, OSError) as error:
        raise ValueError(f"{path} cannot be read as parquet: {error}.") from error


def read_parquet(path, wanted):
    """Read columns of a parquet file, a dict by (name, kind)."""
    from pyarrow import ArrowException

    with open_parquet(path) as file:
        try:
            table = file.read(columns=list(dict.fromkeys(name for name, _ in wanted)))
        except (ArrowException, OSError) as error:
            raise ValueError(f"{path} cannot be read: {error}.") from error
    if not table.num_rows:
        raise empty_file(path)
    return {
        (name, kind): _PARQUET_KINDS[kind](path, name, table.column(name))
        for name, kind in wanted
    }


def _refuse(path, name, what, wrong, remedy=DROP_OR_FILL):
    """Raise where rows are wrong."""
    rows = np.flatnonzero(wrong)
    if rows.size:
        raise ValueError(
            f"{path}: column {name!r} is {what} at row {rows[0]} ({rows.size} such "
            f"rows). {remedy}"
        )


def _no_nulls(path, name, column, remedy=DROP_OR_FILL):
    if column.null_count:
        _refuse(path, name, "missing", column.is_null().to_numpy(), remedy)


def _is_text(column):
    return _kind(column) in ("string", "large_string", "string_view")


def _is_bytes(column):
    return "binary" in _kind(column)


def _kind(column):
    """Return the type of the values of a column, as pyarrow calls it."""
    import pyarrow

    kind = column.type
    return str(kind.value_type if pyarrow.types.is_dictionary(kind) else kind)


def _wrong_type(path, name, column, expected):
    return ValueError(
        f"{path}: column {name!r} has type {column.type}, expected {expected}. Name "
        "another column, or convert it where the file is written."
    )


def _floats(path, name, column):
    import pyarrow

    if _is_text(column) or _is_bytes(column):  # pyarrow would parse them
        raise _wrong_type(path, name, column, "numbers")
    try:
        if pyarrow.types.is_boolean(column.type):
            column = column.cast(pyarrow.int8())
        return column.cast(pyarrow.float64(), safe=False).to_numpy()
    except pyarrow.ArrowException:
        raise _wrong_type(path, name, column, "numbers") from None


def _numbers(path, name, column):
    _no_nulls(path, name, column)
    numbers = _floats(path, name, column)
    _refuse(path, name, "not finite", ~np.isfinite(numbers))
    return numbers


def _rewards(path, name, column):
    _no_nulls(path, name, column, DROP_REWARDS)
    return _numbers(path, name, column)


def _labels(path, name, column):
    from pyarrow.types import is_nested

    _no_nulls(path, name, column)
    if _is_text(column):
        labels = np.array(column.to_pylist())
        _refuse(path, name, "empty", labels == "")
        return labels
    if is_nested(column.type) or _is_bytes(column):
        raise _wrong_type(path, name, column, "texts, numbers or booleans")
    return column.to_numpy()


def _moments(path, name, column):
    import pyarrow

    _no_nulls(path, name, column)
    if pyarrow.types.is_timestamp(column.type) or pyarrow.types.is_date(column.type):
        return column.to_numpy().astype("datetime64[us]")
    if not _is_text(column):
        return _numbers(path, name, column)
    moments = np.empty(len(column), dtype=np.int64)
    for row, text in enumerate(column.to_pylist()):
        try:
            moments[row] = utc_microseconds(text)
        except (ValueError, OverflowError) as error:
            raise ValueError(
                f"{path}: column {name!r} at row {row}: {error}."
            ) from None
    return moments.view("datetime64[us]")


def _features(path, name, column):
    if not _is_text(column):
        numbers = _floats(path, name, column)
        _refuse(path, name, "infinite", np.isinf(numbers))
        return numbers
    seen = {}
    texts = ("" if text is None else text for text in column.to_pylist())
    codes = [seen.setdefault(text, len(seen)) for text in texts]
    return Texts(np.array(codes, dtype=np.intp), list(seen))


_PARQUET_KINDS = {
    "number": _numbers,
    "reward": _rewards,
    "label": _labels,
    "moment": _moments,
    "feature": _features,
}
