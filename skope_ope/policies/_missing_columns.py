# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""What columns there are, told with the error of a function that misspells one."""

import re
from contextlib import contextmanager

from skope_ope._meant import meant
from skope_ope.logs._validation import is_frame

LISTED = 30  # columns in a note


@contextmanager
def columns_told(X):
    """Add a note to errors inside about a name that is no column of the contexts."""
    # The error stays what it is.
    try:
        yield
    except Exception as error:
        if is_frame(X):
            _tell(error, list(getattr(X, "column_names", None) or X.columns))
        raise


def _tell(error, columns):
    name = None
    if isinstance(error, AttributeError) and is_frame(getattr(error, "obj", None)):
        name = error.name
    elif isinstance(error, KeyError) and error.args:
        name = error.args[0]
    elif type(error).__name__ == "ColumnNotFoundError":  # polars
        name = str(error)
    quoted = re.match(r'(?:Field )?"(.*?)"', name) if isinstance(name, str) else None
    if quoted:  # in the sentences of polars and pyarrow
        name = quoted[1]
    if name is None or (isinstance(name, str) and name in columns):
        return
    hint = meant(name, columns) if isinstance(name, str) else ""
    shown = ", ".join(map(repr, columns[:LISTED]))
    more = f" and {len(columns) - LISTED:,} more" if len(columns) > LISTED else ""
    error.add_note(
        f"If a column is meant: the contexts have {shown}{more}.{hint} A function of "
        "the contexts gets the columns that the logs hold as context, and no others."
    )
