# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""What tables show of values: numbers, marks, and notes below them."""

import re

from skope_ope.logs._shown_numbers import decimals

NUMBERS = {  # of a row by what stands above them
    "value": "value",
    "std. error": "standard_error",
    "95% low": "low",
    "95% high": "high",
}
BIASED = (
    "These intervals leave out a bias of their evaluators. They may miss the "
    "policy's value, however many rounds there are."
)
FIGURES = re.compile(r"[-+]?\d[\d.,]*(e[-+]?\d+)?%?")
LEFT = ("interval", "note", "warnings")  # columns of words, aligned to the left


def value_record(value, level):
    """Return an estimate as a dict of plain numbers and words."""
    found = value._interval(level)
    return {
        "value": value.value,
        "standard_error": value.standard_error,
        "low": found.low,
        "high": found.high,
        "interval": found.method,
        "effective_sample_size": value.effective_sample_size,
        "n_rounds": value.n_rounds,
        "leaves_bias_out": value.leaves_bias_out,
        "interval_warnings": [type(w).__name__ for w in found.warnings],
    }


def places_of(records):
    """Return the decimal places of values: by the errors of rows that have no star."""
    plain = [one for one in records if not one.get("leaves_bias_out")] or records
    return decimals([record["standard_error"] for record in plain])


def stars_of(reasons):
    """Get a mark, one star or more, for each distinct reason to doubt an interval."""
    distinct = dict.fromkeys(reason for reason in reasons if reason)
    return {reason: "*" * (i + 1) for i, reason in enumerate(distinct)}


def marks_of(records):
    """Return what marks each row: that it is recommended, or biased by design."""
    stars = stars_of(record.get("leaves_bias_out") for record in records)
    return [_mark(record, stars) for record in records]


def _mark(record, stars):
    if record.get("recommended"):
        lost = "SupportWarning" in record.get("warnings", "")
        return "recommended, in part never logged" if lost else "recommended"
    reason = record.get("leaves_bias_out")
    return f"biased {stars[reason]}" if reason else ""


def bias_notes(records):
    """Return what the marks of biased rows mean, in lines for below the table."""
    stars = stars_of(record.get("leaves_bias_out") for record in records)
    notes = [f"{star} leaves out {reason}" for reason, star in stars.items()]
    return [*notes, BIASED] if notes else []


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
