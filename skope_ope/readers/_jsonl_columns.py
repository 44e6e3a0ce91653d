# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Columns of JSON lines as arrays, by the kinds of `_read_table`, and one more.

A "cell" is a float, NaN where it is missing, or, where any is a text, an object: a text
or None. JSON says what is a text: "7" is one, and stays one.
"""

import json
import warnings

import numpy as np

from skope_ope.exceptions import LogsWarning
from skope_ope.logs._missing_words import DROP_REWARDS
from skope_ope.logs._numbers import quoted
from skope_ope.logs._text_files import empty_file, utc_microseconds
from skope_ope.logs._texts import Texts
from skope_ope.readers._jsonl_fields import getter, read_objects
from skope_ope.readers._moments import plain_moments

EVERY = 10_000  # lines between two reports
NUMBERS = (bool, int, float)


def read_jsonl_columns(path, wanted, report=None):
    """Read fields of a file of JSON lines, a dict by (name, kind)."""
    names = dict.fromkeys(name for name, _ in wanted)
    taken = [(getter(name), []) for name in names]
    lines = []
    for number, event in read_objects(path):
        lines.append(number)
        for get, values in taken:
            values.append(get(event))
        if report is not None and len(lines) % EVERY == 0:
            report(len(lines))
    if not lines:
        raise empty_file(path)
    fields = {
        name: _Field(path, name, values, lines)
        for name, (_, values) in zip(names, taken, strict=True)
    }
    found = {}
    for name, kind in wanted:
        found[name, kind] = KINDS[kind](fields[name])
    return found


class _Field:
    """The values of a field, as JSON gives them."""

    if_missing = "Correct or drop the line."

    def __init__(self, path, name, values, lines):
        self.path, self.name = path, name
        self.values, self.lines = values, lines
        self.types = set(map(type, values))

    def bad(self, row, expected):
        """Return the error for a row."""
        value = self.values[row]
        found, remedy = f"is {quoted(value)}", "Correct or drop the line."
        if value is None:
            found, remedy = "is missing", self.if_missing
        many = self.values.count(None) if value is None else 1
        lines = f" ({many:,} such lines)" if many > 1 else ""
        return ValueError(
            f"{self.path}, line {self.lines[row]}: field {self.name!r} {found}{lines}, "
            f"expected {expected}. {remedy}"
        )

    def refuse(self, types, expected):
        """Raise at the first value of a type that is not among `types`."""
        if not self.types.issubset(types):
            rows = enumerate(self.values)
            row = next(row for row, one in rows if type(one) not in types)
            raise self.bad(row, expected)

    def floats(self, optional=False):
        """Return all values as floats, NaN where one is missing and `optional`."""
        what = "a number" if optional else "a finite number"
        self.refuse({*NUMBERS, *([type(None)] if optional else [])}, what)
        try:
            found = np.array(self.values, dtype=np.float64)  # None is NaN
        except OverflowError:
            found = np.array([_as_float(value) for value in self.values])
        if np.isinf(found).any():
            raise self.bad(int(np.isinf(found).argmax()), "a finite number")
        return found

    def texts(self):
        """Return all values as texts, None where one is missing."""
        self.refuse({*NUMBERS, str, type(None)}, "a number or a text")
        odd = [row for row, one in enumerate(self.values) if type(one) in NUMBERS]
        if odd:
            warnings.warn(
                LogsWarning(
                    f"{self.path}, line {self.lines[odd[0]]}: field {self.name!r} is "
                    f"{quoted(self.values[odd[0]])} among texts ({len(odd)} such "
                    "lines), so the whole field is read as texts. Correct these lines "
                    "if that is wrong.",
                    len(odd),
                ),
                stacklevel=6,
            )
        return [
            one if one is None or type(one) is str else json.dumps(one)
            for one in self.values
        ]


def _as_float(value):
    try:
        return np.nan if value is None else float(value)
    except OverflowError:
        return np.inf


def _rewards(field):
    field.if_missing = DROP_REWARDS
    return field.floats()


def _labels(field):
    if str in field.types:
        field.refuse({str}, "a text like others of this field")
        if "" in field.values:
            raise field.bad(field.values.index(""), "a label")
        return np.array(field.values)
    if field.types == {bool}:
        return np.array(field.values)
    field.refuse({int, float}, "a label: a text, a number or a boolean like others")
    if float in field.types:
        return field.floats()
    try:
        return np.array(field.values, dtype=np.int64)
    except OverflowError:  # as floats, long ones would collide
        return np.array(list(map(str, field.values)))


def _moments(field):
    if str not in field.types:
        return field.floats()
    field.refuse({str}, "a datetime like others of this field")
    found, is_plain = plain_moments(field.values)
    for row in np.flatnonzero(~is_plain):
        try:
            found[row] = utc_microseconds(field.values[row].strip())
        except (ValueError, OverflowError):
            what = "a number or a datetime like 2026-01-31 12:00:00"
            raise field.bad(row, what) from None
    return found.view("datetime64[us]")


def _features(field):
    if str not in field.types:
        return field.floats(optional=True)
    seen = {}
    texts = ("" if text is None else text for text in field.texts())
    codes = [seen.setdefault(text, len(seen)) for text in texts]
    return Texts(np.array(codes, dtype=np.intp), list(seen))


def _cells(field):
    if str not in field.types:
        return field.floats(optional=True)
    return np.array(field.texts(), dtype=object)


KINDS = {
    "number": _Field.floats,
    "reward": _rewards,
    "label": _labels,
    "moment": _moments,
    "feature": _features,
    "cell": _cells,
}
