# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Columns of parquet files as arrays; pyarrow is imported when such a file comes."""

import numpy as np

from skope_ope.readers._text_files import empty_file, utc_microseconds
from skope_ope.readers._texts import Texts


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


def _no_nulls(path, name, column):
    if column.null_count:
        row = int(np.flatnonzero(column.is_null().to_numpy())[0])
        raise ValueError(
            f"{path}: column {name!r} is missing at row {row} ({column.null_count} "
            "such rows). Drop or fill these rows."
        )


def _is_text(kind):
    import pyarrow

    if pyarrow.types.is_dictionary(kind):
        kind = kind.value_type
    return pyarrow.types.is_string(kind) or pyarrow.types.is_large_string(kind)


def _wrong_type(path, name, column, expected):
    return ValueError(
        f"{path}: column {name!r} has type {column.type}, expected {expected}."
    )


def _floats(path, name, column):
    import pyarrow

    if _is_text(column.type):  # pyarrow would parse them
        raise _wrong_type(path, name, column, "numbers")
    try:
        if pyarrow.types.is_boolean(column.type):
            column = column.cast(pyarrow.int8())
        return column.cast(pyarrow.float64(), safe=False).to_numpy()
    except pyarrow.ArrowException:
        raise _wrong_type(path, name, column, "numbers") from None


def _numbers(path, name, column):
    _no_nulls(path, name, column)
    return _floats(path, name, column)


def _labels(path, name, column):
    _no_nulls(path, name, column)
    return np.array(column.to_pylist()) if _is_text(column.type) else column.to_numpy()


def _moments(path, name, column):
    import pyarrow

    _no_nulls(path, name, column)
    if pyarrow.types.is_timestamp(column.type) or pyarrow.types.is_date(column.type):
        return column.to_numpy().astype("datetime64[us]")
    if not _is_text(column.type):
        return _floats(path, name, column)
    try:
        moments = [utc_microseconds(text) for text in column.to_pylist()]
    except (ValueError, OverflowError) as error:
        raise ValueError(
            f"{path}: column {name!r} has a text that is no datetime: {error}."
        ) from None
    return np.array(moments).view("datetime64[us]")


def _features(path, name, column):
    if not _is_text(column.type):
        return _floats(path, name, column)
    seen = {}
    texts = ("" if text is None else text for text in column.to_pylist())
    codes = [seen.setdefault(text, len(seen)) for text in texts]
    return Texts(np.array(codes, dtype=np.intp), list(seen))


_PARQUET_KINDS = {
    "number": _numbers,
    "label": _labels,
    "moment": _moments,
    "feature": _features,
}
