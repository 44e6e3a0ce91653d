# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""How numbers are written: in tables, in notebooks, in reports and beside figures.

A standard error has two significant digits, and its value and limits have as many
decimals. A column has one format. Thousands have commas. There are no exponents from
1e-4 to 1e6. What is no number is a dash.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from statistics import median

ERROR_DIGITS = 2  # significant digits of a typical standard error
DIGITS = 4  # of a number that has no error
MOST_PLACES = 8
PLACES = 4  # where no error is known
LEAST, MOST = 1e-4, 1e15  # what is smaller or larger has an exponent
WORTH = 4  # standard errors in the width of an interval
NONE = "-"


def decimals(errors: Iterable[float]) -> int:
    """Return the decimal places that suit standard errors of about this size."""
    known = [error for error in errors if error > 0 and math.isfinite(error)]
    if not known:
        return PLACES
    return _places(median(known), ERROR_DIGITS)


def fixed(x: float | None, places: int, sign: str = "", unit: str = "") -> str:
    """Return a number with so many decimal places."""
    if x is None or math.isnan(x):
        return NONE
    if math.isinf(x):
        return f"{x:{sign}}"
    if x and (abs(x) >= MOST or (places == MOST_PLACES and abs(x) < 10**-MOST_PLACES)):
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


def figure(x: float | None, digits: int = DIGITS, sign: str = "") -> str:
    """Return a number by itself, with so many significant digits at most."""
    if x is None or math.isnan(x):
        return NONE
    x = float(x)
    size = abs(x)
    if x == 0:
        return "0"
    if not LEAST <= size < MOST:
        return f"{x:{sign}.{digits}g}"
    text = fixed(x, 0 if x.is_integer() else _places(size, digits, most=None), sign)
    return text.rstrip("0").rstrip(".") if "." in text else text


def column(values: Sequence[float | None], digits: int = DIGITS) -> list[str]:
    """Return the numbers of a column in one format."""
    known = [abs(x) for x in values if x is not None and math.isfinite(x) and x]
    if all(float(x).is_integer() for x in known):
        return [fixed(x, 0) for x in values]
    places = _places(max(known), digits)
    if max(known) < LEAST:
        return [figure(x, digits) for x in values]
    texts = [fixed(x, places) for x in values]
    while places and all(text.endswith("0") or not _digit(text) for text in texts):
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
        return NONE
    least = 10 ** -(places + 2)
    if 0 < x < least:
        return f"<{100 * least:.{places}f}%"
    return fixed(100 * x, places, unit="%")


def level_text(level: float, digits: int = DIGITS) -> str:
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


def _places(size, digits, most=MOST_PLACES):
    places = max(0, digits - 1 - math.floor(math.log10(size)))
    return places if most is None else min(places, most)


def _digit(text):
    return text[-1].isdigit()
