# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Columns of JSON lines as arrays, by the kinds of `_read_table`, and one more.

A "cell" is a float, NaN where it is missing, or, where any is a text, an object: a text
or None. JSON says what is a text: "7" is one, and stays one.
"""

import json
from functools import partial
from itertools import islice

import numpy as np

from skope_ope._user_line import warn_user
from skope_ope.exceptions import LogsWarning
from skope_ope.logs._text_files import DoubtError, empty_file, quoted, read_lines
from skope_ope.logs._texts import coded_texts
from skope_ope.logs._validation import DROP_REWARDS
from skope_ope.readers._csv_columns import A_MOMENT, moments_of
from skope_ope.readers._vw_text import MalformedLineError

REPORT_EVERY = 10_000  # lines between two reports
JSON_NUMBERS = (bool, int, float)


def read_jsonl_columns(path, wanted, report=None):
    """Read fields of a file of JSON lines, a dict by (name, kind)."""
    taken = {name: (getter(name), []) for name, _ in wanted}
    lines = []
    for number, event in read_objects(path):
        lines.append(number)
        for get, values in taken.values():
            values.append(get(event))
        if report is not None and len(lines) % REPORT_EVERY == 0:
            report(len(lines))
    if not lines:
        raise empty_file(path)
    fields = {name: _Field(path, name, taken[name][1], lines) for name in taken}
    return {(name, kind): getattr(fields[name], kind)() for name, kind in wanted}


class _Field:
    """The values of a field, as JSON gives them; a method for every kind."""

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

    def number(self, optional=False):
        """Return all values as floats, NaN where one is missing and `optional`."""
        what = "a number" if optional else "a finite number"
        self.refuse({*JSON_NUMBERS, *([type(None)] if optional else [])}, what)
        try:
            found = np.array(self.values, dtype=np.float64)  # None is NaN
        except OverflowError:
            found = np.array([_as_float(value) for value in self.values])
        if np.isinf(found).any():
            raise self.bad(int(np.isinf(found).argmax()), "a finite number")
        return found

    def texts(self):
        """Return all values as texts, None where one is missing."""
        self.refuse({*JSON_NUMBERS, str, type(None)}, "a number or a text")
        odd = [k for k, one in enumerate(self.values) if type(one) in JSON_NUMBERS]
        if odd:
            told = (
                f"{self.path}, line {self.lines[odd[0]]}: field {self.name!r} is "
                f"{quoted(self.values[odd[0]])} among texts ({len(odd)} such lines), "
                "so the whole field is read as texts. Correct these lines if that is "
                "wrong."
            )
            warn_user([LogsWarning(told, len(odd))])
        return [
            one if one is None or type(one) is str else json.dumps(one)
            for one in self.values
        ]

    def reward(self):
        """Return floats, with other advice where one is missing."""
        self.if_missing = DROP_REWARDS
        return self.number()

    def label(self):
        """Return texts, integers, floats or booleans: what all values are."""
        if str in self.types:
            self.refuse({str}, "a text like others of this field")
            if "" in self.values:
                raise self.bad(self.values.index(""), "a label")
            return np.array(self.values)
        if self.types == {bool}:
            return np.array(self.values)
        self.refuse({int, float}, "a label: a text, a number or a boolean like others")
        if float in self.types:
            return self.number()
        try:
            return np.array(self.values, dtype=np.int64)
        except OverflowError:  # as floats, long ones would collide
            return np.array(list(map(str, self.values)))

    def moment(self):
        """Return numbers or datetimes."""
        if str not in self.types:
            return self.number()
        self.refuse({str}, "a datetime like others of this field")
        what = f"a number or {A_MOMENT}"
        return moments_of(self.values, lambda row: self.bad(row, what))

    def feature(self):
        """Return numbers, NaN where one is missing, or texts, "" where one is."""
        if str not in self.types:
            return self.number(optional=True)
        return coded_texts("" if text is None else text for text in self.texts())

    def cell(self):
        """Return numbers, NaN where one is missing, or texts, None where one is."""
        if str not in self.types:
            return self.number(optional=True)
        return np.array(self.texts(), dtype=object)


def _as_float(value):
    try:
        return np.nan if value is None else float(value)
    except OverflowError:
        return np.inf


# -- fields of JSON lines: one object a line, nested ones by names with dots -----------
# `user.age` is the field `age` of the object `user`, `probs.0` the first entry of the
# list `probs`. A field that is absent and one that is null are both missing.


def read_objects(path):
    """Yield (line number from 1, object) of the lines that are not blank."""
    for number, line in read_lines(path):
        if not line.strip():
            continue
        try:
            event = load_plain(line)
        except DoubtError:
            try:
                event = _without_pairs(load(line))
            except MalformedLineError as error:
                raise ValueError(
                    f"{path}, line {number}: {error}. Correct or drop the line."
                ) from error
        yield number, event


def line_of_object(path, row):
    """Return the line of an object; rows count from 0."""
    return next(islice(read_objects(path), row, None))[0]


def _without_pairs(value):
    """Return dictionaries in place of `JsonPairs`; a repeated key is refused."""
    if isinstance(value, JsonPairs):
        found = {key: _without_pairs(inner) for key, inner in value}
        if len(found) < len(value):
            names = [key for key, _ in value]
            twice = next(name for name in names if names.count(name) > 1)
            raise MalformedLineError(f"the key {twice!r} comes twice")
        return found
    return [*map(_without_pairs, value)] if isinstance(value, list) else value


def field_names(path):
    """Return the names of all fields of a file, in the order of their first line."""
    # Objects and lists are no fields, what they hold is.
    names, n_objects = {}, 0
    for number, event in read_objects(path):
        n_objects += 1
        here = list(_leaves(event, ""))
        if len(set(here)) < len(here):
            twice = next(name for name in here if here.count(name) > 1)
            raise ValueError(
                f"{path}, line {number}: two fields are called {twice!r}, one by a "
                "key with a dot. Rename the key."
            )
        names.update(dict.fromkeys(here))
    if not n_objects:
        raise empty_file(path)
    return list(names)


def _leaves(value, name):
    if type(value) is dict:
        inner = value.items()
    elif type(value) is list:
        inner = enumerate(value)
    else:
        yield name
        return
    for key, one in inner:
        yield from _leaves(one, f"{name}.{key}" if name else str(key))


def getter(name):
    """Return the function that takes a field out of an object; None if missing."""
    if "." not in name:
        return lambda event: event.get(name)
    return partial(_value_at, name=name)


def _value_at(event, name):
    if type(event) is list:
        event = {str(place): value for place, value in enumerate(event)}
    if type(event) is not dict:
        return None
    if name in event:
        return event[name]
    end = name.find(".")
    while end >= 0:  # keys may have dots of their own
        found = _value_at(event.get(name[:end]), name[end + 1 :])
        if found is not None:
            return found
        end = name.find(".", end + 1)
    return None


# -- lines of JSON, one object each ----------------------------------------------------
# `load` keeps a key that comes twice. `load_plain` is faster and gives dictionaries; it
# raises `DoubtError` where a line says more than they hold: `load` then says what the
# line holds or what is wrong.


class JsonPairs(list):
    """The (key, value) pairs of an object: a key may come twice, and both count."""

    def get(self, key, default=None):
        """Return the last value of `key`."""
        for name, value in reversed(self):
            if name == key:
                return value
        return default

    def items(self):
        """Return the pairs."""
        return self


JSON_OBJECTS = (dict, JsonPairs)


def load(line):
    """Read one line of JSON; objects become `JsonPairs`."""
    try:
        event = json.loads(
            line, object_pairs_hook=JsonPairs, parse_constant=_refuse_nan
        )
    except MalformedLineError:
        raise
    except (ValueError, RecursionError) as error:  # also for integers without end
        raise MalformedLineError(f"not valid JSON ({error})") from error
    if not isinstance(event, JsonPairs):
        raise MalformedLineError(
            f"the line holds {quoted(line)}; an event is one JSON object on one line"
        )
    return event


def _refuse_nan(constant):
    raise MalformedLineError(f"{constant} is not a finite number; drop it")


def _unique(pairs):
    found = dict(pairs)
    if len(found) < len(pairs):
        raise DoubtError
    return found


_decode = json.JSONDecoder(object_pairs_hook=_unique, parse_constant=_refuse_nan).decode


def load_plain(line):
    """Read one line as dictionaries, or raise `DoubtError`."""
    try:
        event = _decode(line)
    except (ValueError, RecursionError):
        raise DoubtError from None
    if type(event) is not dict:
        raise DoubtError
    return event
