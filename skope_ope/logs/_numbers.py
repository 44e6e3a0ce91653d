# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Numbers that are written in a text, the same for files and for the command line.

Python's own `float` and `int` also take underscores ("0_1.0" is 1 to them) and digits
of any script, which a file holds by accident only.
"""

import math

SHOWN = 60  # characters of a text in a message
INT64_DIGITS = 18  # that many digits always fit


def numbers(texts):
    """Yield the floats that a sequence of texts spells."""
    # Blanks around a number are taken, and "nan" and "inf": whether a number must be
    # finite is known to the caller.
    joined = "".join(texts)  # one look at many cells
    if "_" in joined or not joined.isascii():
        raise ValueError("not all texts are numbers")
    return map(float, texts)


def number(text, finite=False):
    """Return the float that a text spells, see `numbers`."""
    if "_" in text or not text.isascii():
        raise ValueError("not a number")
    found = float(text)
    if finite and not math.isfinite(found):
        raise ValueError("not a finite number")
    return found


def whole_number(text):
    """Return the int that a text spells, at most 18 digits long."""
    digits = text if text.isdigit() else text.strip().removeprefix("-")
    if not (text.isascii() and digits.isdigit() and len(digits) <= INT64_DIGITS):
        raise ValueError("not a whole number of at most 18 digits")
    return int(text)


def quoted(found):
    """Return what was found as messages show it, cut where it is long."""
    text = repr(found)
    if len(text) <= SHOWN:
        return text
    return f"{text[:SHOWN]}... ({len(text):,} characters)"
