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

from skope_ope._meant import meant
from skope_ope.logs._contexts import check_context_names, choose_context
from skope_ope.logs._text_files import quoted
from skope_ope.logs._texts import Texts
from skope_ope.readers._csv_columns import csv_at, line_of_row, read_csv
from skope_ope.readers._jsonl_columns import (
    field_names,
    line_of_object,
    read_jsonl_columns,
)
from skope_ope.readers._parquet_columns import open_parquet, read_parquet

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
