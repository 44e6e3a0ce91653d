# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Columns of csv, JSON lines and parquet files as arrays, by name and kind.

A kind says what a column is wanted for:

- "number": finite floats; nothing may be missing;
- "reward": a number, with other advice where it is missing;
- "label": ints, floats, booleans or texts, as the distinct values look;
- "moment": numbers, or datetimes in UTC;
- "feature": floats, NaN where missing, or `Texts` where any value is text.

csv and JSON lines need neither pandas nor pyarrow, parquet needs pyarrow.
"""

from fnmatch import fnmatchcase

import numpy as np

from skope_ope._meant import meant
from skope_ope.logs._contexts import check_context_names, choose_context
from skope_ope.logs._text_files import empty_file, quoted, utc_microseconds
from skope_ope.logs._texts import Texts, coded_texts
from skope_ope.logs._validation import DROP_OR_FILL, DROP_REWARDS
from skope_ope.readers._csv_columns import csv_at, line_of_row, read_csv
from skope_ope.readers._jsonl_columns import (
    field_names,
    line_of_object,
    read_jsonl_columns,
)

COLUMNS_SHOWN = 12  # column names in a message
LINE_OF = {"csv": line_of_row, "jsonl": line_of_object, "parquet": None}  # a row
TABLE_FORMATS = tuple(LINE_OF)


def names_of_columns(path, *, format="csv"):
    """Return the names of the columns of a file, in their order."""
    if format == "jsonl":
        return field_names(path)
    if format == "parquet":
        with open_parquet(path) as file:
            return list(file.schema_arrow.names)
    return csv_at(path).header


def read_columns(path, wanted, *, format="csv", names=None, report=None):
    """Read columns of a file of a table."""
    wanted = list(dict.fromkeys(wanted))
    if names is None:
        names = names_of_columns(path, format=format)
    check_names(path, names, [name for name, _ in wanted])
    if format == "parquet":
        return read_parquet(path, wanted)
    read = read_jsonl_columns if format == "jsonl" else read_csv
    return read(path, wanted, report)


def check_names(path, names, needed):
    """Raise unless `names` are distinct and hold all that is needed."""
    twice = sorted({name for name in needed if names.count(name) > 1})
    if twice:
        raise ValueError(
            f"{path} has several columns {twice[0]!r}. Give each column its own name."
        )
    missing = [name for name in needed if name not in names]
    if missing:
        shown = ", ".join(map(quoted, names[:COLUMNS_SHOWN]))
        n_more = len(names) - COLUMNS_SHOWN
        more = f" and {n_more} more" if n_more > 0 else ""
        raise ValueError(
            f"{path} has no column {missing[0]!r}.{meant(missing[0], names)} It has "
            f"{shown}{more}."
        )


def import_pandas(why):
    """Return pandas, or raise the error that says what needs it."""
    try:
        import pandas
    except ImportError as error:
        needed = f"{why} needs pandas: pip install 'skope-ope[frames]'."
        raise ImportError(needed) from error
    return pandas


def pandas_frame(columns, why):
    """Return a pandas frame of columns that were read."""
    arrays = {
        name: values.array() if isinstance(values, Texts) else values
        for name, values in columns.items()
    }
    return import_pandas(why).DataFrame(arrays)


# -- what users call the columns of a file: by name, by object or by pattern -----------


def inner_fields(name, names):
    """Return the fields of an object or a list, [] where it is none."""
    return [one for one in names if one.startswith(f"{name}.")]


def only_stars(name, names):
    """Tell whether a pattern matches every column."""
    return name not in names and set(name) <= set("*?")


def fields_of_context(path, names, others, context, exclude, fields, say):
    """Return the columns of the context."""
    all_others = any(only_stars(name, names) for name in context or ())
    if exclude is not None:
        exclude = matched(exclude, names, names, say[1])
        check_names(path, names, exclude)
    if context is None or all_others or exclude is not None:
        named = None if all_others else context
        return choose_context(others, named, exclude, say=say)
    check_context_names([name for name in context if name in names], fields)
    found = matched(context, names, others, "the context")
    check_names(path, names, found)
    check_context_names(found, fields)
    return found


def matched(wanted, names, others, of):
    """Return names, objects by what they hold and patterns by what they match."""
    found = []
    for one in wanted:
        inner = inner_fields(one, names)
        if one in names or not (inner or set("*?[") & set(one)):
            found.append(one)
            continue
        inner = inner or [name for name in others if fnmatchcase(name, one)]
        if not inner:
            raise ValueError(f"no column for {of} matches {one!r}.")
        found += inner
    return list(dict.fromkeys(found))


# -- columns of parquet files as arrays; pyarrow is imported when such a file comes ----


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
        (name, kind): getattr(_Column(path, name, table.column(name)), kind)()
        for name, kind in wanted
    }


class _Column:
    """A column of a parquet file; a method for every kind."""

    def __init__(self, path, name, values):
        from pyarrow import types

        self.path, self.name, self.values = path, name, values
        self.type = values.type
        is_dictionary = types.is_dictionary(self.type)
        kind = str(self.type.value_type if is_dictionary else self.type)
        self.is_text = kind in ("string", "large_string", "string_view")
        self.is_bytes = "binary" in kind

    def refuse(self, what, wrong, remedy=DROP_OR_FILL):
        """Raise where rows are wrong."""
        rows = np.flatnonzero(wrong)
        if rows.size:
            raise ValueError(
                f"{self.path}: column {self.name!r} is {what} at row {rows[0]} "
                f"({rows.size} such rows). {remedy}"
            )

    def refuse_nulls(self, remedy=DROP_OR_FILL):
        """Raise where values are missing."""
        if self.values.null_count:
            self.refuse("missing", self.values.is_null().to_numpy(), remedy)

    def wrong_type(self, expected):
        """Return the error of a column that holds something else."""
        return ValueError(
            f"{self.path}: column {self.name!r} has type {self.type}, expected "
            f"{expected}. Name another column, or convert it where the file is written."
        )

    def floats(self):
        """Return numbers, NaN where one is missing."""
        import pyarrow

        if self.is_text or self.is_bytes:  # pyarrow would parse them
            raise self.wrong_type("numbers")
        values = self.values
        try:
            if pyarrow.types.is_boolean(self.type):
                values = values.cast(pyarrow.int8())
            return values.cast(pyarrow.float64(), safe=False).to_numpy()
        except pyarrow.ArrowException:
            raise self.wrong_type("numbers") from None

    def number(self, remedy=DROP_OR_FILL):
        """Return finite numbers."""
        self.refuse_nulls(remedy)
        numbers = self.floats()
        self.refuse("not finite", ~np.isfinite(numbers))
        return numbers

    def reward(self):
        """Return finite numbers, with other advice where one is missing."""
        return self.number(DROP_REWARDS)

    def label(self):
        """Return texts, numbers or booleans."""
        from pyarrow.types import is_nested

        self.refuse_nulls()
        if self.is_text:
            labels = np.array(self.values.to_pylist())
            self.refuse("empty", labels == "")
            return labels
        if is_nested(self.type) or self.is_bytes:
            raise self.wrong_type("texts, numbers or booleans")
        return self.values.to_numpy()

    def moment(self):
        """Return numbers or datetimes."""
        from pyarrow import types

        self.refuse_nulls()
        if types.is_timestamp(self.type) or types.is_date(self.type):
            return self.values.to_numpy().astype("datetime64[us]")
        if not self.is_text:
            return self.number()
        moments = np.empty(len(self.values), dtype=np.int64)
        for row, text in enumerate(self.values.to_pylist()):
            try:
                moments[row] = utc_microseconds(text)
            except (ValueError, OverflowError) as error:
                raise ValueError(
                    f"{self.path}: column {self.name!r} at row {row}: {error}."
                ) from None
        return moments.view("datetime64[us]")

    def feature(self):
        """Return numbers, NaN where one is missing, or texts, "" where one is."""
        if not self.is_text:
            numbers = self.floats()
            self.refuse("infinite", np.isinf(numbers))
            return numbers
        texts = self.values.to_pylist()
        return coded_texts("" if text is None else text for text in texts)
