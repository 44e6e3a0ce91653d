# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""What the cells of a column of a csv file mean, by the kind of the column."""

import warnings

import numpy as np

from skope_ope.exceptions import LogsWarning
from skope_ope.logs._missing_words import DROP_REWARDS
from skope_ope.readers._moments import plain_moments
from skope_ope.readers._numbers import number, numbers, quoted
from skope_ope.readers._text_files import utc_microseconds
from skope_ope.readers._texts import TRUTH, Texts, parse_labels

MOSTLY = 0.9  # share of numbers from which a text among them is told
NO_LABELS = {"", "na", "n/a", "nan", "null"}  # "none" may be an action: to do nothing
MISSING = {*NO_LABELS, "none"}
NUMBERS = {**dict.fromkeys(MISSING, np.nan), **TRUTH}


def cell_number(cell):
    """Return the number that a cell holds, NaN where it is missing."""
    word = NUMBERS.get(cell.strip().lower())
    return number(cell) if word is None else word


class _NoNumberError(ValueError):
    """A cell that is no number."""


class TextAfterNumbersError(Exception):
    """A feature that began with numbers has a text further down."""


class _Column:
    """Collects the cells of a column block by block."""

    if_missing = "Correct or drop the row."

    def __init__(self, path, name):
        self.path, self.name = path, name
        self.blocks = []

    def numbers(self, cells, lines, optional=False):
        """Return a block as floats; missing cells are NaN if they are `optional`."""
        try:
            block = np.fromiter(numbers(cells), np.float64, len(cells))
        except ValueError:
            block = np.empty(len(cells))
            for row, cell in enumerate(cells):
                try:
                    block[row] = cell_number(cell)
                except ValueError:
                    error = self.bad(cell, lines[row], "a number")
                    raise _NoNumberError(*error.args) from None
        for row in np.flatnonzero(~np.isfinite(block)):
            if not (optional and np.isnan(block[row])):
                raise self.bad(cells[row], lines[row], "a finite number")
        return block

    def bad(self, cell, line, expected):
        """Return the error for a cell."""
        found, remedy = f"is {quoted(cell)}", _Column.if_missing
        if cell.strip().lower() in MISSING:
            found, remedy = "is missing", self.if_missing
        return ValueError(
            f"{self.path}, line {line}: column {self.name!r} {found}, expected "
            f"{expected}. {remedy}"
        )


class _Numbers(_Column):
    """Finite numbers."""

    def add(self, cells, lines):
        self.blocks.append(self.numbers(cells, lines))

    def finish(self):
        return np.concatenate(self.blocks)


class _Rewards(_Numbers):
    """Finite numbers that may be missing for a reason."""

    if_missing = DROP_REWARDS


class _Texts(_Column):
    """Texts as codes, in the order in which they first occur."""

    def __init__(self, path, name):
        super().__init__(path, name)
        self.seen = {}

    def add(self, cells, lines):
        seen = self.seen
        codes = [seen.setdefault(cell, len(seen)) for cell in cells]
        self.blocks.append(np.array(codes, dtype=np.intp))

    def finish(self):
        return Texts(np.concatenate(self.blocks), list(self.seen))


class _FirstLines(_Texts):
    """Texts, and the lines on which they first stand."""

    def __init__(self, path, name):
        super().__init__(path, name)
        self.first = {}

    def add(self, cells, lines):
        n_seen = len(self.seen)
        super().add(cells, lines)
        if len(self.seen) > n_seen:
            for cell, line in zip(cells, lines, strict=True):
                self.first.setdefault(cell, line)


class _Labels(_FirstLines):
    """Labels without the blanks around them.

    The empty text is a missing one, and so is "nan" where all others are numbers.
    """

    def add(self, cells, lines):
        cells = [cell.strip() for cell in cells]
        if "" in cells:
            raise self.bad("", lines[cells.index("")], "a label")
        super().add(cells, lines)

    def finish(self):
        texts = super().finish()
        missing = [text for text in texts.values if text.lower() in NO_LABELS]
        others = [text for text in texts.values if text not in missing]
        if missing and others and parse_labels(others).dtype.kind != "U":
            what = "a label of the same type as the others"
            raise self.bad(missing[0], self.first[missing[0]], what)
        return parse_labels(texts.values)[texts.codes]


class _Moments(_Column):
    """Numbers or datetimes."""

    def add(self, cells, lines):
        try:
            block = self.numbers(cells, lines)
        except ValueError:
            block, is_plain = plain_moments(cells)
            for row in np.flatnonzero(~is_plain):
                try:
                    block[row] = utc_microseconds(cells[row].strip())
                except (ValueError, OverflowError):
                    what = "a number or a datetime like 2026-01-31 12:00:00"
                    raise self.bad(cells[row], lines[row], what) from None
            block = block.view("datetime64[us]")
        if self.blocks and block.dtype != self.blocks[0].dtype:
            what = "the type of the lines above (numbers and datetimes are mixed)"
            raise self.bad(cells[0], lines[0], what)
        self.blocks.append(block)

    def finish(self):
        return np.concatenate(self.blocks)


class TextFeatures(_FirstLines):
    """Texts, with a warning where nearly all of them are numbers."""

    def finish(self):
        texts = super().finish()
        is_text = np.array([_is_text(value) for value in texts.values])[texts.codes]
        n_texts = int(is_text.sum())
        if 0 < n_texts <= (1 - MOSTLY) * len(is_text):
            odd = next(value for value in texts.values if _is_text(value))
            warnings.warn(
                LogsWarning(
                    f"{self.path}, line {self.first[odd]}: column {self.name!r} is "
                    f"{quoted(odd)} among numbers ({n_texts} such rows), so the whole "
                    "column is read as texts. Correct these cells, or leave them "
                    "empty.",
                    n_texts,
                ),
                stacklevel=7,
            )
        return texts


def _is_text(cell):
    try:
        cell_number(cell)
    except ValueError:
        return True
    return False


class _Features(TextFeatures):
    """Numbers where all cells are numbers, or texts."""

    is_text = False

    def add(self, cells, lines):
        if not self.is_text:
            try:
                self.blocks.append(self.numbers(cells, lines, optional=True))
                return
            except _NoNumberError:
                if self.blocks:
                    raise TextAfterNumbersError from None
                self.is_text = True
        super().add(cells, lines)

    def finish(self):
        return super().finish() if self.is_text else np.concatenate(self.blocks)


KINDS = {
    "number": _Numbers,
    "reward": _Rewards,
    "label": _Labels,
    "moment": _Moments,
    "feature": _Features,
}
