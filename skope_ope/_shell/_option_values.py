# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""What stands behind an option: numbers, lists of names, propensities."""

import argparse
import csv

from skope_ope.logs._numbers import number, whole_number


def number_in(low, high, closed=False):
    """Return a parser of numbers between two bounds."""

    def parse(text):
        value = number(text)
        if not (low <= value <= high if closed else low < value < high):
            raise argparse.ArgumentTypeError(
                f"must lie in {'[' if closed else '('}{low:g}, {high:g}"
                f"{']' if closed else ')'}, got {text}"
            )
        return value

    parse.__name__ = "number"  # as argparse calls it
    return parse


def integer(text):
    """Parse a whole number."""
    return whole_number(text)


def names(text):
    """Parse a list with commas; quotes protect commas in names."""
    try:
        return tuple(next(csv.reader([text], skipinitialspace=True), ()))
    except csv.Error as error:
        raise argparse.ArgumentTypeError(
            f"is no list of names ({error}), got {text!r}. Put names with commas or "
            "line ends between double quotes, as in '\"one, two\",three'"
        ) from error


def propensity(text):
    """Parse a column, a number or a fraction."""
    above, _, below = text.partition("/")
    if text.removesuffix("%").strip().replace(".", "", 1).isdigit() and "%" in text:
        raise argparse.ArgumentTypeError(
            f"must be a number such as 0.25 or 1/3, or a column, got {text}"
        )
    try:
        value = number(above) / number(below or "1")
    except (ValueError, ZeroDivisionError):
        return text
    if not 0 < value <= 1:
        raise argparse.ArgumentTypeError(f"must lie in (0, 1], got {text}")
    return value
