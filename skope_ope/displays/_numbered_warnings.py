# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Warnings of a table: numbers in its rows, and below it what they say."""

import re

FIGURES = re.compile(r"[-+]?\d[\d.,]*(e[-+]?\d+)?%?")


def numbered_warnings(values, recommended=()):
    """Return numbers for the warnings of values and of their 95% intervals."""
    # Warnings that differ in figures and evaluators alone share a number. Below the
    # table stands the text of one, that of a recommended row where there is one.
    alike, rows = {}, []
    for name, value in values.items():
        found = {}
        for warning in (*value.warnings, *value._interval().warnings):
            words = str(warning).replace(value.estimator, "")
            key = type(warning).__name__, FIGURES.sub("", words)
            found[key] = warning
            alike.setdefault(key, {})[name] = warning
        rows.append(found)
    numbers = {key: i for i, key in enumerate(alike, 1)}
    marks = [", ".join(str(numbers[key]) for key in found) for found in rows]
    notes = [
        f"[{i}] {key[0]} ({_told_of(alike[key], recommended)})"
        f": {_chosen(alike[key], recommended)[1]}"
        for key, i in numbers.items()
    ]
    return [f"[{mark}]" if mark else "" for mark in marks], notes


def _chosen(warned, recommended):
    """Return the row, and its warning, that stands for others."""
    name = next((name for name in warned if name in recommended), next(iter(warned)))
    return name, warned[name]


def _told_of(warned, recommended):
    name, _ = _chosen(warned, recommended)
    text = f"{name[1]} of {name[0]}" if isinstance(name, tuple) else str(name)
    more = len(warned) - 1
    if not more:
        return text
    return f"{text}; alike in {more} other row{'s' if more > 1 else ''}"
