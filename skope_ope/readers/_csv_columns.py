# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Columns of csv files as arrays: what their cells mean by the kind of the column.

Blocks are read by pyarrow where it is installed, and by Python's csv otherwise.
"""

import os
import re
from functools import partial

import numpy as np

from skope_ope._user_line import warn_user
from skope_ope.exceptions import LogsWarning, RowError
from skope_ope.logs._text_files import (
    CsvFile,
    bad_cell,
    cell_labels,
    cell_number,
    empty_file,
    is_missing_word,
    numbers_of,
    open_bytes,
    quoted,
    text_columns,
    utc_microseconds,
)
from skope_ope.logs._texts import Texts, coded_texts
from skope_ope.logs._validation import DROP_REWARDS

MOSTLY_NUMBERS = 0.9  # share of numbers from which a text among them is told


def csv_at(path):
    """Return a csv file, plain or packed by gzip or zstd."""
    return CsvFile(os.fspath(path), partial(open_bytes, path))


def line_of_row(path, row):
    """Return the line on which a row of a csv file begins; rows count from 0."""
    return csv_at(path).line_of_row(row)


def read_csv(path, wanted, report=None):
    """Read columns of a csv file, a dict by (name, kind)."""
    file = csv_at(path)
    places = {key: file.header.index(key[0]) for key in wanted}
    labels = {place for (_, kind), place in places.items() if kind == "label"}
    texts = {place: place in labels for place in places.values()}
    cells = read_cells(file, texts, report)
    try:
        return {
            (name, kind): getattr(_CsvColumn(file, name, cells[place]), kind)()
            for (name, kind), place in places.items()
        }
    except RowError as error:
        raise located(file, error) from error


def located(file, error):
    """Return an error of a row with the name of the file and the line."""
    before, row, after = error.args
    return ValueError(f"{file.name}, line {file.line_of_row(row)}: {before}{after}")


def read_cells(file, texts, report=None):
    """Return columns as floats, NaN where missing, or as `Texts`; a dict by place."""
    # `texts` are the places of the columns, and which of them are texts anyhow.
    parts = {place: [] for place in texts}
    seen = {place: {} for place in texts}
    n_rows = 0
    for _, block in file.blocks():
        found = file.columns(block, text_columns, texts)
        late = {
            place
            for place, part in found.items()
            if isinstance(part, Texts)
            and not (texts[place] or _fill(part, found, place))
        }
        if late:  # texts among numbers: read these columns as texts, from the first row
            return read_cells(
                file, {p: told or p in late for p, told in texts.items()}, report
            )
        for place, part in found.items():
            if isinstance(part, Texts):
                part = coded_texts(part.values, seen[place]).codes[part.codes]
            parts[place].append(part)
        n_rows += len(part)
        if report is not None:
            report(n_rows)
    if not n_rows:
        raise empty_file(file.name)
    arrays = {place: np.concatenate(parts.pop(place)) for place in texts}
    return {p: Texts(arrays[p], list(seen[p])) if seen[p] else arrays[p] for p in texts}


def _fill(part, found, place):
    """Put the numbers of texts in their place; return whether all of them are such."""
    try:
        found[place] = np.array([*map(cell_number, part.values)])[part.codes]
    except ValueError:
        return False
    return True


class _CsvColumn:
    """The cells of a column, floats or `Texts`; a method for every kind."""

    def __init__(self, file, name, cells):
        self.file, self.name, self.cells = file, name, cells

    def number(self):
        """Return finite numbers."""
        return numbers_of(self.name, self.cells)

    def reward(self):
        """Return finite numbers, with other advice where one is missing."""
        return numbers_of(self.name, self.cells, DROP_REWARDS)

    def label(self):
        """Return texts, integers, floats or booleans."""
        labels, codes = cell_labels(self.name, self.cells)
        return labels[codes]

    def moment(self):
        """Return numbers or datetimes."""
        cells = self.cells
        if not isinstance(cells, Texts):
            return self.number()
        what = f"a number or {A_MOMENT}"
        return moments_of(
            cells.values,
            lambda code: bad_cell(self.name, cells, cells.values[code], what),
        )[cells.codes]

    def feature(self):
        """Return numbers, NaN where one is missing, or texts, "" where one is."""
        cells = self.cells
        is_text = []
        if isinstance(cells, Texts):
            is_text = [*map(_is_no_number, cells.values)]
        if not any(is_text):
            return numbers_of(self.name, cells, optional=True)
        odd = np.array(is_text)[cells.codes]
        n_texts = int(odd.sum())
        if n_texts <= (1 - MOSTLY_NUMBERS) * len(cells):
            row = int(odd.argmax())
            found = quoted(cells.values[cells.codes[row]])
            told = (
                f"{self.file.name}, line {self.file.line_of_row(row)}: column "
                f"{self.name!r} is {found} among numbers ({n_texts} such rows), so the "
                "whole column is read as texts. Correct these cells, or leave them "
                "empty."
            )
            warn_user([LogsWarning(told, n_texts)])
        known = coded_texts(
            ["" if is_missing_word(text) else text for text in cells.values]
        )
        return Texts(known.codes[cells.codes], known.values)


def _is_no_number(cell):
    try:
        cell_number(cell)
    except ValueError:
        return True
    return False


# -- many datetimes at once, where they are written in the plain way -------------------
# That is `2026-01-31 12:00:00`, also with a T, with up to six digits of a fraction, and
# with the zone of UTC. Then NumPy reads them: of others it takes more than
# `utc_microseconds` does, and old versions of it crash at a wrong day.

A_MOMENT = "a datetime like 2026-01-31 12:00:00"
PLAIN_MOMENT = re.compile(
    "((?!0000)[0-9]{4}-(?:(?:0[1-9]|1[0-2])-(?:0[1-9]|1[0-9]|2[0-8])"
    "|(?:0[13-9]|1[0-2])-(?:29|30)|(?:0[13578]|1[02])-31)"
    r"[ T](?:[01][0-9]|2[0-3])(?::[0-5][0-9]){2}(?:\.[0-9]{1,6})?)(?:Z|\+00:00)?"
)


def moments_of(texts, error_of):
    """Return texts as datetimes, or raise `error_of(row)` at one that is none."""
    plain = [one[1] if one else "NaT" for one in map(PLAIN_MOMENT.fullmatch, texts)]
    moments = np.array(plain, dtype="datetime64[us]")
    for row in np.flatnonzero(np.isnat(moments)):
        try:
            found = utc_microseconds(texts[row].strip())
        except (ValueError, OverflowError):
            raise error_of(row) from None
        moments[row] = np.datetime64(found, "us")
    return moments
