# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Lines of JSON, one object each: read strictly, with nested fields by name.

`load` gives objects as tuples of (key, value) pairs, in which a key may come twice;
`read_objects` gives dictionaries and refuses such keys.
"""

import json
from functools import partial
from itertools import islice

from skope_ope.logs._text_files import empty_file, quoted, read_lines


class MalformedLineError(ValueError):
    """A line that says nothing sensible; `on_error` decides about it."""

    def __init__(self, reason, line=None):
        super().__init__(reason)
        self.line = line


def _refuse_nan(constant):
    text = f"{constant} is not a finite number; write null where none is known"
    raise MalformedLineError(text)


def _unique(pairs):
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise MalformedLineError(f"the key {twice!r} comes twice")
    return found


DECODERS = {
    kind: json.JSONDecoder(object_pairs_hook=hook, parse_constant=_refuse_nan).decode
    for kind, hook in ((tuple, tuple), (dict, _unique))
}


def load(line, kind=tuple):
    """Read one line of JSON; objects become tuples of pairs, or dictionaries."""
    try:
        event = DECODERS[kind](line)
    except MalformedLineError:
        raise
    except (ValueError, RecursionError) as error:  # also for integers without end
        raise MalformedLineError(f"not valid JSON ({error})") from error
    if type(event) is not kind:
        raise MalformedLineError(
            f"the line holds {quoted(line)}; an event is one JSON object on one line"
        )
    return event


# -- fields of JSON lines: one object a line, nested ones by names with dots -----------
# `user.age` is the field `age` of the object `user`, `probs.0` the first entry of the
# list `probs`. A field that is absent and one that is null are both missing.


DROP_LINE = "Correct or drop the line."


def read_objects(path, skipped=None):
    """Yield (line number from 1, object) of the lines that are not blank."""
    # What is wrong with malformed lines goes to the list `skipped`, if there is one.
    for number, line in read_lines(path):
        if not line.strip():
            continue
        try:
            yield number, load(line, dict)
        except MalformedLineError as error:
            told = f"{path}, line {number}: {error}."
            if skipped is None:
                told += f" {DROP_LINE[:-1]}, or skip such lines with on_error='skip'."
                raise ValueError(told) from error
            skipped.append(told)


def line_of_object(path, row):
    """Return the line of an object that was read; rows count from 0."""
    return next(islice(read_objects(path, []), row, None))[0]


def field_names(path, skip=False):
    """Return the names of all fields of a file, in the order of their first line."""
    # Objects and lists are no fields, what they hold is.
    names, n_objects, skipped = {}, 0, [] if skip else None
    for number, event in read_objects(path, skipped):
        n_objects += 1
        here = list(_leaves(event, ""))
        if len(set(here)) < len(here):
            twice = next(name for name in here if here.count(name) > 1)
            raise ValueError(
                f"{path}, line {number}: two fields are called {twice!r}, one by a "
                "key with a dot. Rename the key."
            )
        names.update(dict.fromkeys(here))
    if not n_objects and skipped:
        raise ValueError(f"every line is malformed. The first: {skipped[0]}")
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
