# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Columns of frames as arrays: numbers, texts with codes, and what dates tell."""

from datetime import date, time, timedelta
from decimal import Decimal
from numbers import Real

import numpy as np

from skope_ope.logs._encoder_parts import WEEKDAYS
from skope_ope.logs._factorise import factorise

DAY, HOUR = np.timedelta64(1, "D"), np.timedelta64(1, "h")
KINDS = {
    "Boolean": "truth",
    "String": "text",
    "Categorical": "text",
    "Enum": "text",
    "Unknown": "text",  # a column without values
    "Date": "date",
    "Datetime": "date",
    "Duration": "number",
    "Time": "number",
}
# What objects in a column may be, from the narrower type on.
OBJECTS = (
    ((bool, np.bool_), "truth"),
    ((Real, Decimal, timedelta, time), "number"),
    ((date,), "date"),
)
MANY = (dict, list, tuple, set, bytes, np.ndarray)  # no single values


def kind_of_column(series):
    """Return "number", "truth", "text" or "date": what a column of a frame holds."""
    name = type(series.dtype).__name__
    if series.dtype.is_numeric():
        return "number"
    if name == "Object":
        values = series.drop_nulls().to_list()
        for types, kind in OBJECTS:
            if values and all(isinstance(one, types) for one in values):
                return kind
        if not any(isinstance(one, MANY) for one in values):
            return "text"
    if name not in KINDS:
        raise TypeError(
            f"column {series.name!r} of the context holds values of type {name}, which "
            "ContextEncoder does not accept. Convert it to numbers, texts or dates, or "
            "leave it out."
        )
    return KINDS[name]


def views_of(series, kind):
    """Return what can be read of a column as a tuple of views."""
    if kind == "text":
        return (_coded(series),)
    if kind == "date":
        return _views_of_dates(series)
    numbers = _numbers(series)
    if np.isinf(numbers).any():
        row = int(np.flatnonzero(np.isinf(numbers))[0])
        raise ValueError(
            f"column {series.name!r} of the context is infinite at row {row}. Correct "
            "the value, or make it a missing one."
        )
    return (numbers,)


def _numbers(series):
    if series.dtype.is_numeric() and not series.is_null().any():
        return series.to_numpy().astype(np.float64)
    return np.array([_number(one) for one in series.to_list()], dtype=np.float64)


def _number(value):
    if isinstance(value, timedelta):
        return value / timedelta(days=1)
    if isinstance(value, time):
        return value.hour + value.minute / 60 + value.second / 3600
    return np.nan if _is_missing(value) else float(value)


def _is_missing(value):
    return value is None or type(value).__name__ in ("NAType", "NaTType")


def _coded(series):
    missing = series.is_null().to_numpy().astype(bool)
    codes = np.full(len(missing), -1, dtype=np.intp)
    present = series.drop_nulls().to_list()
    if not present:
        return [], codes
    texts, codes[~missing] = factorise(np.array([str(one) for one in present]))
    return texts.tolist(), codes


def _views_of_dates(series):
    if getattr(series.dtype, "time_zone", None) is not None:  # the clock on the spot
        series = series.dt.replace_time_zone(None)
    moments = series.to_numpy()
    if moments.dtype.kind != "M":
        moments = [None if _is_missing(one) else one for one in series.to_list()]
    moments = np.array(moments, dtype="datetime64[us]")
    missing = np.isnat(moments)
    moments = np.where(missing, np.datetime64(0, "us"), moments)
    days = moments.astype("datetime64[D]")
    number = np.where(missing, np.nan, (moments - np.datetime64(0, "us")) / DAY)
    # the first day, 1970-01-01, was a Thursday
    weekday = np.where(missing, -1, (days.astype(np.int64) + 3) % 7)
    hour = ((moments - days) // HOUR).astype(np.int64)
    seen = np.unique(hour[~missing])
    codes = np.where(missing, -1, np.searchsorted(seen, hour))
    return number, (WEEKDAYS, weekday), ([f"{one:02d}" for one in seen], codes)
