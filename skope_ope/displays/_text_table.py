# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Values of policies as plain text, for terminals."""

import math
import shutil
import textwrap
from statistics import median

DIGITS = 3  # significant digits of a typical standard error


def text_table(header, rows):
    """Return lines of columns: the first one to the left, numbers to the right."""
    cells = [header, *rows]
    widths = [max(len(row[j]) for row in cells) for j in range(len(header))]
    lines = []
    for row in cells:
        rest = [
            cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True)
        ]
        lines.append("  ".join([row[0].ljust(widths[0]), *rest]).rstrip())
    return lines


def decimals(errors):
    """Return the decimal places that suit standard errors of about this size."""
    known = [error for error in errors if error > 0 and math.isfinite(error)]
    if not known:
        return 4
    return max(0, DIGITS - 1 - math.floor(math.log10(median(known))))


def number(value, places):
    """Return a number with so many decimal places; "-" where there is none."""
    return "-" if value is None else f"{value:,.{places}f}"


def wrapped(text, first="", rest=None):
    """Return lines no wider than the terminal, with what stands in front of them."""
    width = min(max(shutil.get_terminal_size().columns, 60), 100)
    return textwrap.wrap(
        text,
        width,
        initial_indent=first,
        subsequent_indent=" " * len(first) if rest is None else rest,
        break_long_words=False,
        break_on_hyphens=False,
    )
