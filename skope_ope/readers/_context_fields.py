# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""What users call the columns of a file: by name, by object or by pattern."""

from fnmatch import fnmatchcase

from skope_ope.logs._contexts import check_context_names, choose_context
from skope_ope.readers._read_table import check_names


def inner_fields(name, names):
    """Return the fields of an object or a list, [] where it is none."""
    return [one for one in names if one.startswith(f"{name}.")]


def only_stars(name, names):
    """Tell whether a pattern matches every column."""
    return name not in names and set(name) <= set("*?")


def fields_of_context(path, names, others, context, exclude, fields, say):
    """Return the columns of the context."""
    all_others = any(only_stars(name, names) for name in context or ())
    if exclude is not None:
        exclude = matched(exclude, names, names, say[1])
        check_names(path, names, exclude)
    if context is None or all_others or exclude is not None:
        named = None if all_others else context
        return choose_context(others, named, exclude, say=say)
    check_context_names([name for name in context if name in names], fields)
    found = matched(context, names, others, "the context")
    check_names(path, names, found)
    check_context_names(found, fields)
    return found


def matched(wanted, names, others, of):
    """Return names, objects by what they hold and patterns by what they match."""
    found = []
    for one in wanted:
        inner = inner_fields(one, names)
        if one in names or not (inner or set("*?[") & set(one)):
            found.append(one)
            continue
        inner = inner or [name for name in others if fnmatchcase(name, one)]
        if not inner:
            raise ValueError(f"no column for {of} matches {one!r}.")
        found += inner
    return list(dict.fromkeys(found))
