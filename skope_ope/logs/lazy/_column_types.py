# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""One type of a column for all files of a log."""

from skope_ope.logs._labels import UNKNOWN


def common_type(name, role, found):
    """Return the type that a column has in all partitions."""
    import pyarrow

    known = [(file, kind) for file, kind in found if not pyarrow.types.is_null(kind)]
    if not known:
        return found[0][1]
    first, type_ = known[0]
    for file, other in known[1:]:
        if other == type_:
            continue
        kinds = _kind(type_), _kind(other)
        numbers = {"integer", "decimal", "float"}
        alike = kinds[0] == kinds[1] or (role != "label" and numbers.issuperset(kinds))
        if not alike:
            null = " (pandas writes integers with a missing value as double)"
            raise TypeError(
                f"column {name!r} is {other} in {file} and {type_} in {first}"
                f"{null if {*kinds} == {'integer', 'float'} else ''}: a "
                f"{role} needs the same kind of type in all files. Write these files "
                "anew with one type, or scan them apart."
            )
        type_ = _wider(type_, other)
    return type_


def _kind(type_):
    from pyarrow import types

    if types.is_dictionary(type_):
        type_ = type_.value_type
    kinds = {
        "integer": types.is_integer,
        "float": types.is_floating,
        "decimal": types.is_decimal,
        "boolean": types.is_boolean,
        "text": is_text,
        "date": types.is_date,
        "time": types.is_timestamp,
    }
    for kind, is_kind in kinds.items():
        if is_kind(type_):
            return kind
    return str(type_)


def label_kind(type_):
    """Return the kind of the labels in a column of this type, as others tell theirs."""
    found = "" if type_ is None else _kind(type_)
    if found in ("integer", "float", "decimal"):
        return "numbers"
    kinds = {"boolean": "bools", "text": "texts", "date": "times", "time": "times"}
    return kinds.get(found, UNKNOWN)


def is_text(type_):
    """Tell whether a column of this type holds texts."""
    from pyarrow import types

    view = getattr(types, "is_string_view", lambda _: False)
    return types.is_string(type_) or types.is_large_string(type_) or view(type_)


def _wider(one, other):
    """Return a type that holds what two types of numbers, texts or times hold."""
    import pyarrow
    from pyarrow import types

    values = [t.value_type if types.is_dictionary(t) else t for t in (one, other)]
    if values[0] == values[1]:
        return values[0]
    if all(types.is_integer(value) for value in values):
        return pyarrow.int64()
    if all(is_text(value) for value in values):
        return pyarrow.large_string()
    if all(types.is_timestamp(value) for value in values):
        if (values[0].tz is None) != (values[1].tz is None):
            raise TypeError(
                f"a column is {values[0]} in one file and {values[1]} in another: with "
                "and without a time zone. Write one of them anew."
            )
        return pyarrow.timestamp("us", values[0].tz)
    if all(types.is_date(value) for value in values):
        return pyarrow.date32()
    return pyarrow.float64()
