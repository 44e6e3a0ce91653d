# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Columns of csv and parquet files as arrays, by name and kind.

A kind says what a column is wanted for:

- "number": finite floats; nothing may be missing;
- "label": ints, floats, booleans or texts, as the distinct values look;
- "moment": numbers, or datetimes in UTC;
- "feature": floats, NaN where missing, or `Texts` where any value is text.

csv needs neither pandas nor pyarrow, parquet needs pyarrow.
"""

from skope_ope._meant import meant
from skope_ope.readers._csv_columns import read_csv
from skope_ope.readers._numbers import quoted
from skope_ope.readers._parquet_columns import open_parquet, read_parquet
from skope_ope.readers._text_files import open_csv

SHOWN = 12  # column names in a message


def column_names(path, *, parquet=False):
    """Return the names of the columns of a file, in their order."""
    if parquet:
        with open_parquet(path) as file:
            return list(file.schema_arrow.names)
    header, _ = open_csv(path)
    return header


def read_columns(path, wanted, *, parquet=False, report=None):
    """Read columns of a csv or parquet file.

    Parameters
    ----------
    path : str or path-like
        The file; csv files plain or gzip.
    wanted : iterable of (str, str)
        Names and kinds of the columns.
    parquet : bool, default=False
        Whether the file is parquet rather than csv.
    report : callable, default=None
        Called with the number of rows read so far.

    Returns
    -------
    columns : dict
        The columns by (name, kind).
    """
    wanted = list(dict.fromkeys(wanted))
    names = column_names(path, parquet=parquet)
    check_names(path, names, [name for name, _ in wanted])
    return read_parquet(path, wanted) if parquet else read_csv(path, wanted, report)


def check_names(path, names, needed):
    """Raise unless `names` are distinct and hold all that is needed."""
    twice = sorted({name for name in needed if names.count(name) > 1})
    if twice:
        raise ValueError(
            f"{path} has several columns {twice[0]!r}. Give each column its own name."
        )
    missing = [name for name in needed if name not in names]
    if missing:
        shown = ", ".join(map(quoted, names[:SHOWN]))
        more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
        raise ValueError(
            f"{path} has no column {missing[0]!r}.{meant(missing[0], names)} It has "
            f"{shown}{more}."
        )
