# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Lines of JSON, one object each, by the parser of Python or by orjson.

`load` keeps a key that comes twice. `plain_loader` is faster and gives dictionaries;
it raises `DoubtError` where a line says more than they hold, or is read by orjson in
another way than by Python: `load` then says what the line holds or what is wrong.
"""

import json

from skope_ope.logs._numbers import quoted
from skope_ope.logs._text_files import DoubtError
from skope_ope.readers._vw_event import MalformedLineError

LONG_NUMBER = 2000  # digits: Python refuses numbers of 4,301, orjson does not


class Pairs(list):
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


OBJECTS = (dict, Pairs)


def load(line):
    """Read one line of JSON; objects become `Pairs`."""
    try:
        event = json.loads(line, object_pairs_hook=Pairs, parse_constant=_refuse)
    except MalformedLineError:
        raise
    except (ValueError, RecursionError) as error:  # also for integers without end
        raise MalformedLineError(f"not valid JSON ({error})") from error
    if not isinstance(event, Pairs):
        raise MalformedLineError(
            f"the line holds {quoted(line)}; an event is one JSON object on one line"
        )
    return event


def _refuse(constant):
    raise MalformedLineError(f"{constant} is not a finite number; drop it")


def plain_loader():
    """Return the function that reads a line as dictionaries, or raises `DoubtError`."""
    try:
        import orjson
    except ImportError:
        decode = json.JSONDecoder(
            object_pairs_hook=_unique, parse_constant=_refuse
        ).decode
    else:
        decode = _careful(orjson)

    def load_plain(line):
        try:
            event = decode(line)
        except (ValueError, RecursionError, TypeError):  # orjson writes 254 levels
            raise DoubtError from None
        if type(event) is not dict:
            raise DoubtError
        return event

    return load_plain


def _unique(pairs):
    found = dict(pairs)
    if len(found) < len(pairs):
        raise DoubtError
    return found


def _careful(orjson):
    loads, dumps = orjson.loads, orjson.dumps

    def decode(line):
        # these hide the end of a key, which is counted below
        if " :" in line or "\t:" in line or "\r:" in line or "\\u0022" in line:
            raise DoubtError
        if len(line) > LONG_NUMBER:
            windows = range(0, len(line), LONG_NUMBER)
            if any(line[i : i + LONG_NUMBER].isdigit() for i in windows):
                raise DoubtError
        event = loads(line)
        if dumps(event).count(b'":') != line.count('":'):  # a key came twice
            raise DoubtError
        return event

    return decode
