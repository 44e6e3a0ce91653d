# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Rows of a frame by which some models fail: gaps, and texts that are no numbers.

A part of a log, such as the rounds of an action, may have none of them although the
log has some.
"""

import numpy as np

from skope_ope.logs._encoding_notes import TEXTS, columns_of
from skope_ope.logs._row_container import take_rows

FIRST = 100  # rows that are looked at before the others: most texts are no numbers


def odd_rows(context):
    """Return a few rows that show what is odd in the columns of a context."""
    rows = {row for series in columns_of(context) for _, row in _oddities(series)}
    return np.array(sorted(rows), dtype=np.intp)


def odd_part(context):
    """Return these rows themselves, or None where there are none."""
    rows = odd_rows(context)
    return take_rows(context, rows) if rows.size else None


def oddities(context):
    """Return what is odd in a context, a set of pairs of a column and a kind."""
    return {
        (series.name, kind)
        for series in columns_of(context)
        for kind, _ in _oddities(series)
    }


def _oddities(series):
    """Yield (kind, first row) of what is odd in a column."""
    missing = gaps_of(series)
    if missing.any():
        yield "gap", int(missing.argmax())
    if type(series.dtype).__name__ in TEXTS:
        for part in (slice(0, FIRST), slice(FIRST, None)):
            values = series[part].to_list()
            for row in np.flatnonzero(~missing[part]).tolist():
                if not _is_number(values[row]):
                    yield "text", part.start + row
                    return


def gaps_of(series):
    """Tell of every row of a column whether its value is missing, or NaN."""
    missing = series.is_null().to_numpy().astype(bool)
    if series.dtype.is_float():
        missing |= series.is_nan().fill_null(value=True).to_numpy().astype(bool)
    return missing


def _is_number(value):
    try:
        float(value)
    except (TypeError, ValueError):
        return False
    return True
