# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Fields of JSON lines: one object a line, nested ones by names with dots.

`user.age` is the field `age` of the object `user`, `probs.0` the first entry of the
list `probs`. A field that is absent and one that is null are both missing.
"""

import re
from functools import partial
from itertools import islice

from skope_ope.logs._text_files import DoubtError, empty_file, read_lines
from skope_ope.readers._json_lines import Pairs, load, plain_loader
from skope_ope.readers._vw_event import MalformedLineError

LONG_INTEGER = re.compile("[0-9]{19}")


def read_objects(path):
    """Yield (line number from 1, object) of the lines that are not blank."""
    decode = plain_loader()
    for number, line in read_lines(path):
        if not line.strip():
            continue
        try:
            if LONG_INTEGER.search(line):  # of which orjson makes floats
                raise DoubtError
            event = decode(line)
        except DoubtError:
            try:
                event = _plain(load(line))
            except MalformedLineError as error:
                raise ValueError(
                    f"{path}, line {number}: {error}. Correct or drop the line."
                ) from error
        yield number, event


def line_of_object(path, row):
    """Return the line of an object; rows count from 0."""
    return next(islice(read_objects(path), row, None))[0]


def _plain(value):
    """Return dictionaries in place of `Pairs`; a key that comes twice is refused."""
    if isinstance(value, Pairs):
        found = {key: _plain(inner) for key, inner in value}
        if len(found) < len(value):
            names = [key for key, _ in value]
            twice = next(name for name in names if names.count(name) > 1)
            raise MalformedLineError(f"the key {twice!r} comes twice")
        return found
    return [_plain(one) for one in value] if isinstance(value, list) else value


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
