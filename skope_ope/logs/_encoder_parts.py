# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""What `ContextEncoder` makes of one column of a context.

A part knows what it learned in `fit`. `entries(values)` returns for every row one of
the part's columns, -1 for none, and the number that stands there.
"""

from dataclasses import dataclass

import numpy as np

from skope_ope.logs._context_columns import columns_of, names_of, scale_of

WEEKDAYS = "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"
HOURS = 25  # more than a day has: none of them is shared


@dataclass(frozen=True)
class Number:
    """A number less its centre, over its scale; the fill where it is missing."""

    centre: float
    scale: float
    fill: float = 0.0
    width = 1

    def entries(self, values):
        """Return the column of every row, and what stands there."""
        scaled = (values - self.centre) / self.scale
        filled = np.where(np.isnan(values), self.fill, scaled)
        return np.zeros(len(values), dtype=np.intp), filled

    def names(self, name):
        """Return what the columns hold."""
        return [name]


@dataclass(frozen=True)
class Missing:
    """One where a number is missing."""

    width = 1

    def entries(self, values):
        """Return the column of every row, and what stands there."""
        return np.where(np.isnan(values), 0, -1), np.ones(len(values))

    def names(self, name):
        """Return what the columns hold."""
        return [f"{name} is missing"]


@dataclass(frozen=True)
class Categories:
    """A column for each text; the rare ones share one, and so do new ones, if any."""

    columns: dict
    n_kept: int
    missing: bool  # whether missing ones have a column, the last
    what: str = ""

    @property
    def width(self):
        """How many columns there are."""
        return max(self.columns.values(), default=-1) + 1 + self.missing

    def entries(self, values):
        """Return the column of every row, and what stands there."""
        texts, codes = values
        new = self.n_kept if self.n_kept in self.columns.values() else -1
        known = [self.columns.get(text, new) for text in texts]
        known.append(self.width - 1 if self.missing else -1)  # code -1 is the last
        return np.array(known, dtype=np.intp)[codes], np.ones(len(codes))

    def names(self, name):
        """Return what the columns hold."""
        named = names_of(f"{name}{self.what}", self.columns)
        return [*named, f"{name} is missing"] if self.missing else named


def parts_of(kind, views, max_categories):
    """Return what is learned from a column: pairs of a view's position and a part."""
    if kind == "text":
        return [(0, _categories(views[0], max_categories))]
    mean, spread = scale_of(views[0])
    if kind == "truth":
        out = [(0, Number(0.0, 1.0, fill=mean))]
    else:
        out = [(0, Number(mean, spread))]
    if np.isnan(views[0]).any():
        out.append((0, Missing()))
    if kind == "date":
        days = {day: j for j, day in enumerate(WEEKDAYS)}
        out.append((1, Categories(days, len(days), False, " weekday")))
        if len(views[2][0]) > 1:  # else these are dates without a time
            out.append((2, _categories(views[2], HOURS, " hour")))
    return out


def _categories(values, most, what=""):
    texts, codes = values
    counts = np.bincount(codes[codes >= 0], minlength=len(texts))
    missing = not what and bool((codes < 0).any())  # dates have a flag already
    return Categories(*columns_of(texts, counts, most), missing, what)
