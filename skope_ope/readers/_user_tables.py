# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Columns of a table that is a file or a frame, for readers that join tables.

`attributes.country` is the column of this name, or the field `country` of what the
column `attributes` holds: objects, or texts of JSON.
"""

import json
import os

import numpy as np

from skope_ope.logs._frames import column_of, import_narwhals
from skope_ope.logs._text_files import quoted
from skope_ope.logs._validation import is_frame
from skope_ope.readers._csv_columns import moments_of
from skope_ope.readers._jsonl_columns import getter
from skope_ope.readers._read_logs import table_format
from skope_ope.readers._read_table import (
    check_names,
    names_of_columns,
    pandas_frame,
    read_columns,
)


class UserTable:
    """A table, of which columns are asked for."""

    def __init__(self, source, name, wanted):
        narwhals = import_narwhals()
        wanted = list(dict.fromkeys(wanted))
        if is_frame(source):
            self.name = f"{name}: the frame"
            frame = narwhals.from_native(source, eager_only=True)
        elif isinstance(source, (str, os.PathLike)):
            self.name = os.fspath(source)
            frame = narwhals.from_native(_read(self.name, wanted), eager_only=True)
        else:
            raise TypeError(
                f"{name} must be the path of a file, or a pandas, polars or pyarrow "
                f"table, got {type(source).__name__}."
            )
        self.kinds = dict(reversed(wanted))
        inner = {}
        for column in self.kinds:
            outer = _outer(column, frame.columns)
            if outer:
                cells = frame[outer].to_list()
                inner[column] = _inner(self.name, outer, cells, column)
        check_names(self.name, [*frame.columns, *inner], list(self.kinds))
        backend = frame.implementation
        self.frame = frame.with_columns(
            *(
                narwhals.new_series(column, values, backend=backend)
                for column, values in inner.items()
            )
        )

    def __len__(self):
        return len(self.frame)

    def column(self, name):
        """Return a column as an array, by its kind."""
        try:
            values = column_of(self.frame, name)
        except ValueError as error:
            raise ValueError(f"{self.name}: {error}") from error
        kind = self.kinds[name]
        if kind == "number":
            return self._numbers(name, values)
        if kind == "moment":
            return self._moments(name, values)
        return np.array(values.tolist()) if values.dtype == object else values

    def rows(self, names, rows):
        """Return columns of some rows, a frame of the same library."""
        if not names:
            return np.empty((len(rows), 0))
        return self.frame.select(names)[rows].to_native()

    def _numbers(self, name, values):
        if values.dtype.kind not in "biuf":
            raise self._bad(name, values, 0, "numbers")
        values = np.asarray(values, dtype=np.float64)
        wrong = ~np.isfinite(values)
        if wrong.any():
            raise self._bad(name, values, int(wrong.argmax()), "finite numbers")
        return values

    def _moments(self, name, values):
        if values.dtype.kind == "M":
            return values.astype("datetime64[us]")
        if values.dtype.kind in "iuf":
            return self._numbers(name, values)
        what = "numbers or datetimes like 2026-01-31 12:00:00"
        texts = [str(one).strip() for one in values]
        return moments_of(texts, lambda row: self._bad(name, values, row, what))

    def _bad(self, name, values, row, expected):
        found = quoted(values.tolist()[row])
        return ValueError(
            f"{self.name}: column {name!r} must hold {expected}, got {found} at row "
            f"{row}. Correct or drop the row."
        )


def _read(path, wanted):
    """Return the columns of a file as a pandas frame."""
    format = table_format(path)
    names = names_of_columns(path, format=format)
    asked = {}
    for name, kind in wanted:
        outer = _outer(name, names)
        kind = "cell" if outer else kind
        if kind == "cell" and format != "jsonl":  # which alone has cells
            kind = "feature"
        asked[outer or name] = kind
    found = read_columns(path, asked.items(), format=format, names=names)
    columns = {name: values for (name, _), values in found.items()}
    return pandas_frame(columns, f"{path}: joining files")


def _outer(name, names):
    """Return the column that holds a field; "" if none does, or none is needed."""
    end = -1 if name in names else name.rfind(".")
    while end > 0:
        if name[:end] in names:
            return name[:end]
        end = name.rfind(".", 0, end)
    return ""


def _inner(path, outer, cells, name):
    """Return the field of what the cells of a column hold."""
    get = getter(name[len(outer) + 1 :])
    found = []
    for row, cell in enumerate(cells):
        if isinstance(cell, str) and cell:
            try:
                cell = json.loads(cell)
            except (ValueError, RecursionError) as error:
                raise ValueError(
                    f"{path}: column {outer!r} must hold JSON for {name!r} to be read, "
                    f"got {quoted(cell)} at row {row} ({error})."
                ) from error
        found.append(get(cell) if isinstance(cell, dict) else None)
    return found
