# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""How numbers are written: in tables, in notebooks, in reports and beside figures.

A standard error has two significant digits, and its value and limits have as many
decimals. A column has one format. Thousands have commas. There are no exponents from
1e-4 to 1e6. What is no number is a dash.
"""

from __future__ import annotations

import math
import re
import shutil
import textwrap
from collections.abc import Iterable, Sequence
from statistics import median

from skope_ope._texts import harmless

ERROR_DIGITS = 2  # significant digits of a typical standard error
FIGURE_DIGITS = 4  # of a number that has no error
MOST_PLACES = 8
DEFAULT_PLACES = 4  # where no error is known
LEAST_PLAIN, MOST_PLAIN = 1e-4, 1e15  # what is smaller or larger has an exponent
WORTH = 4  # standard errors in the width of an interval
NO_NUMBER = "-"


def decimals(errors: Iterable[float]) -> int:
    """Return the decimal places that suit standard errors of about this size."""
    known = [error for error in errors if error > 0 and math.isfinite(error)]
    return _decimal_places(median(known), ERROR_DIGITS) if known else DEFAULT_PLACES


def fixed(x: float | None, places: int, sign: str = "", unit: str = "") -> str:
    """Return a number with so many decimal places."""
    if x is None or math.isnan(x):
        return NO_NUMBER
    if math.isinf(x):
        return f"{x:{sign}}"
    if x and (
        abs(x) >= MOST_PLAIN or (places == MOST_PLACES and abs(x) < 10**-MOST_PLACES)
    ):
        return f"{x:{sign}.{ERROR_DIGITS}g}{unit}"
    text = f"{x:{sign},.{places}f}"
    if not text.strip("+-0.,"):  # no sign of what is rounded to zero
        text = text.lstrip("+-")
    return text + unit


def error_text(x: float | None, places: int, unit: str = "") -> str:
    """Return a standard error with so many decimal places; none looks like zero."""
    least = 10.0**-places
    if x is not None and 0 < x < least / 2 and places < MOST_PLACES:
        return f"<{fixed(least, places, unit=unit)}"
    return fixed(x, places, unit=unit)


def figure(x: float | None, digits: int = FIGURE_DIGITS, sign: str = "") -> str:
    """Return a number by itself, with so many significant digits at most."""
    if x is None or math.isnan(x):
        return NO_NUMBER
    x, size = float(x), abs(x)
    if x == 0:
        return "0"
    if not LEAST_PLAIN <= size < MOST_PLAIN:
        return f"{x:{sign}.{digits}g}"
    text = fixed(
        x, 0 if x.is_integer() else _decimal_places(size, digits, most=None), sign
    )
    return text.rstrip("0").rstrip(".") if "." in text else text


def aligned(values: Sequence[float | None], digits: int = FIGURE_DIGITS) -> list[str]:
    """Return the numbers of a column in one format."""
    known = [abs(x) for x in values if x is not None and math.isfinite(x) and x]
    if all(float(x).is_integer() for x in known):
        return [fixed(x, 0) for x in values]
    places = _decimal_places(max(known), digits)
    if max(known) < LEAST_PLAIN:
        return [figure(x, digits) for x in values]
    texts = [fixed(x, places) for x in values]
    while places and all(t.endswith("0") or not t[-1].isdigit() for t in texts):
        places -= 1  # zeros at the end of all of them tell nothing
        texts = [fixed(x, places) for x in values]
    return texts


def counts(values: Sequence[float | None]) -> list[str]:
    """Return effective numbers of rounds: whole, or with a decimal where few count."""
    known = [x for x in values if x is not None and not math.isnan(x)]
    few = any(x < 10 and not float(x).is_integer() for x in known)
    return [fixed(x, int(few)) for x in values]


def share(x: float | None, places: int = 1) -> str:
    """Return a share in percent; one that is not zero never looks like zero."""
    if x is None or math.isnan(x):
        return NO_NUMBER
    least = 10 ** -(places + 2)
    if 0 < x < least:
        return f"<{100 * least:.{places}f}%"
    return fixed(100 * x, places, unit="%")


def level_text(level: float, digits: int = FIGURE_DIGITS) -> str:
    """Return a level in percent: 0.95 is "95%", 0.999 is "99.9%"."""
    return f"{100 * level:.{digits}g}%"


def p_text(p: float) -> str:
    """Return a p-value: three decimals, or "<0.001"."""
    return "<0.001" if p < 0.001 else fixed(p, 3)


def places_of_interval(low: float, high: float) -> int:
    """Return the decimal places that suit two limits, from what is between them."""
    return decimals([(high - low) / WORTH])


def span(low: float, high: float, places: int, sign: str = "", unit: str = "") -> str:
    """Return two limits as a text."""
    return f"{fixed(low, places, sign, unit)} to {fixed(high, places, sign, unit)}"


def called(x: float, places: int) -> str:
    """Return a number for the `repr` of an object, where none is "nan"."""
    return fixed(x, places) if math.isfinite(x) else f"{x}"


def _decimal_places(size, digits, most=MOST_PLACES):
    places = max(0, digits - 1 - math.floor(math.log10(size)))
    return places if most is None else min(places, most)


# -- aligned tables and paragraphs as plain text, for terminals ------------------------


def text_table(header, rows, n_left=1, left=()):
    """Return the lines of a table of texts."""
    cells = [[harmless(text) for text in row] for row in (header, *rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = []
    for row in cells:
        texts = [
            text.ljust(width) if j < n_left or header[j] in left else text.rjust(width)
            for j, (text, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append("  ".join(texts).rstrip())
    return lines


def wrapped(text, first="", rest=None):
    """Return lines no wider than the terminal, with what stands in front of them."""
    width = min(max(shutil.get_terminal_size().columns, 60), 100)
    return textwrap.wrap(
        harmless(" ".join(text.split())),
        width,
        initial_indent=harmless(first),
        subsequent_indent=" " * len(first) if rest is None else rest,
        break_long_words=False,
        break_on_hyphens=False,
    )


# -- what tables show of values: numbers, marks, and notes below them ------------------

BIAS_NOTE = (
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


def formats_of(records):
    """Return the functions that make texts of values and of their standard errors."""
    places = places_of(records)
    return (lambda x: fixed(x, places)), (lambda x: error_text(x, places))


def value_columns(records, level, value, error, title="value"):
    """Return the columns of numbers of a table of values, by what stands above them."""
    percent = level_text(level)
    fields = {
        title: (value, "value"),
        "std. error": (error, "standard_error"),
        f"{percent} low": (value, "low"),
        f"{percent} high": (value, "high"),
    }
    columns = {
        name: [text(one.get(field)) for one in records]
        for name, (text, field) in fields.items()
    }
    return columns | {"interval": [one.get("interval", "") for one in records]}


def sizes_of(records):
    """Return the texts of the effective rounds of values."""
    return counts([one.get("effective_sample_size") for one in records])


def as_table(columns):
    """Return the header and the rows of columns, without notes that nobody needs."""
    columns = {
        name: texts
        for name, texts in columns.items()
        if name not in ("note", "warnings") or any(texts)
    }
    return list(columns), [list(row) for row in zip(*columns.values(), strict=True)]


def stars_of(reasons):
    """Get a mark, one star or more, for each distinct reason to doubt an interval."""
    distinct = dict.fromkeys(reason for reason in reasons if reason)
    return {reason: "*" * (i + 1) for i, reason in enumerate(distinct)}


def marks_of(records):
    """Return what marks each row: that it is recommended, or biased by design."""
    stars = stars_of(record.get("leaves_bias_out") for record in records)
    return [_row_mark(record, stars) for record in records]


def _row_mark(record, stars):
    if record.get("recommended"):
        lost = "SupportWarning" in record.get("warnings", "")
        return "recommended, in part never logged" if lost else "recommended"
    reason = record.get("leaves_bias_out")
    return f"biased {stars[reason]}" if reason else ""


def bias_notes(records):
    """Return what the marks of biased rows mean, in lines for below the table."""
    stars = stars_of(record.get("leaves_bias_out") for record in records)
    notes = [f"{star} leaves out {reason}" for reason, star in stars.items()]
    return [*notes, BIAS_NOTE] if notes else []


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
        f"[{i}] {key[0]} ({_warned_rows(alike[key], recommended)})"
        f": {_warned_first(alike[key], recommended)[1]}"
        for key, i in numbers.items()
    ]
    return [f"[{mark}]" if mark else "" for mark in marks], notes


def _warned_first(warned, recommended):
    """Return the row, and its warning, that stands for others."""
    name = next((name for name in warned if name in recommended), next(iter(warned)))
    return name, warned[name]


def _warned_rows(warned, recommended):
    name, _ = _warned_first(warned, recommended)
    text = f"{name[1]} of {name[0]}" if isinstance(name, tuple) else str(name)
    more = len(warned) - 1
    rows = "row" if more == 1 else "rows"
    return f"{text}; alike in {more} other {rows}" if more else text
