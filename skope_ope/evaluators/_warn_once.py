# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Warnings that several values have in common, given once."""

import warnings

from skope_ope.exceptions import LowOverlapWarning, PropensityWarning

OF_WEIGHTS = (PropensityWarning, LowOverlapWarning)
NAMED = 3  # policies that a warning names; of more, their number is


def warn_once(values, stacklevel, among=()):
    """Warn of what values warn of: once, and of which rows if not of all."""
    # What weights and propensities tell has other numbers for other policies. Of such
    # texts the first is given, with the names of all rows that have one.
    rows, about = dict.fromkeys(among, True), {}
    for name, value in values:
        rows[name] = True
        for warning in value.warnings:
            key = (type(warning), str(warning))
            _, names = about.setdefault(key, (warning, {}))
            names[name] = True
    alike = {}
    for (kind, text), (warning, names) in about.items():
        what = warning.name if issubclass(kind, OF_WEIGHTS) else text
        first = alike.setdefault((kind, what), (warning, names, {}))
        if first[0] is not warning:
            first[2].update(names)
    for warning, names, others in alike.values():
        text = str(warning)
        whose = _first_of(names, rows) if len(names) < len(rows) else ""
        if whose and not text.startswith(f"{whose} "):
            text = f"{whose}: {text}"
        more = {name: True for name in others if name not in names}
        if more:
            text += (
                f" The same was found for {_first_of(more, rows)}, with other numbers."
            )
        if text != str(warning):
            given = warning.value, warning.name, warning.severity
            warning = type(warning)(text, *given)
        warnings.warn(warning, stacklevel=stacklevel + 1)


def rows_of(table, several):
    """Yield the values of a table by (policy, evaluator)."""
    for name, value in table.items():
        yield (name if several else (None, name)), value


def _first_of(names, rows):
    """Return some names as a text, those of many policies shortened."""
    found, every = _by_policy(names), _by_policy(rows)
    some = next(iter(found.values()))
    if len(found) == len(every) and all(one == some for one in found.values()):
        return ", ".join(some)  # the same evaluators of all policies
    told = []
    for policy, evaluators in found.items():
        some = ", ".join(evaluators)
        if len(evaluators) == len(every[policy]):
            told.append(str(policy))
        else:
            told.append(f"{policy} ({some})")
    more = len(told) - NAMED
    return ", ".join(told[:NAMED]) + (f" and {more} more" if more > 0 else "")


def _by_policy(names):
    """Return the evaluators that are named of every policy; names may be policies."""
    found = {}
    for name in names:
        policy, *evaluators = name if isinstance(name, tuple) else (name,)
        found.setdefault(policy, []).extend(map(str, evaluators))
    return found
