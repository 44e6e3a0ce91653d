# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Columns of csv files as arrays: what their cells mean by the kind of the column.

Blocks are read by pyarrow where it is installed, and by Python's csv otherwise.
"""

import os
import warnings
from functools import partial

import numpy as np

from skope_ope.exceptions import LogsWarning, RowError
from skope_ope.logs._csv_file import (
    CsvFile,
    bad_cell,
    cell_labels,
    cell_number,
    is_missing_word,
    numbers_of,
    text_columns,
)
from skope_ope.logs._text_files import empty_file, open_bytes, quoted, utc_microseconds
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
            (name, kind): CSV_KINDS[kind](name, cells[place], file)
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


def _csv_label(name, cells, file):
    labels, codes = cell_labels(name, cells)
    return labels[codes]


def _csv_moment(name, cells, file):
    """Return numbers or datetimes."""
    if not isinstance(cells, Texts):
        return numbers_of(name, cells)
    what = f"a number or {A_MOMENT}"
    return moments_of(
        cells.values, lambda code: bad_cell(name, cells, cells.values[code], what)
    )[cells.codes]


def _csv_feature(name, cells, file):
    """Return numbers where all cells are numbers, or texts, "" where one is missing."""
    is_text = [*map(_is_no_number, cells.values)] if isinstance(cells, Texts) else []
    if not any(is_text):
        return numbers_of(name, cells, optional=True)
    odd = np.array(is_text)[cells.codes]
    n_texts = int(odd.sum())
    if n_texts <= (1 - MOSTLY_NUMBERS) * len(cells):
        row = int(odd.argmax())
        warnings.warn(
            LogsWarning(
                f"{file.name}, line {file.line_of_row(row)}: column {name!r} is "
                f"{quoted(cells.values[cells.codes[row]])} among numbers "
                f"({n_texts} such rows), so the whole column is read as texts. Correct "
                "these cells, or leave them empty.",
                n_texts,
            ),
            stacklevel=5,
        )
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


CSV_KINDS = {
    "number": lambda name, cells, file: numbers_of(name, cells),
    "reward": lambda name, cells, file: numbers_of(name, cells, DROP_REWARDS),
    "label": _csv_label,
    "moment": _csv_moment,
    "feature": _csv_feature,
}


# -- many datetimes at once, where they are written in the plain way -------------------
# That is `2026-01-31 12:00:00`, also with a T, with up to six digits of a fraction, and
# with the zone of UTC. Their digits are read column by column: NumPy's own way from
# texts takes more than `utc_microseconds` does, and old versions of it crash at a wrong
# day.

A_MOMENT = "a datetime like 2026-01-31 12:00:00"
LAYOUT = b"0000-00-00 00:00:00.000000"  # of digits and signs
SHORTEST = 19  # up to the seconds
ZONES = (b"Z", b"+00:00", b"")
BLANK, T = b" T"
ZERO, NINE = b"09"
FRACTION_DIGITS = 6  # of microseconds


def moments_of(texts, error_of):
    """Return texts as datetimes, or raise `error_of(row)` at one that is none."""
    moments, is_plain = plain_moments(texts)
    for row in np.flatnonzero(~is_plain):
        try:
            moments[row] = utc_microseconds(texts[row].strip())
        except (ValueError, OverflowError):
            raise error_of(row) from None
    return moments.view("datetime64[us]")


def plain_moments(texts):
    """Return microseconds from 1970, UTC, and which texts are plain datetimes."""
    # Where one is not, its number means nothing.
    found = np.zeros(len(texts), dtype=np.int64)
    is_plain = np.zeros(len(texts), dtype=bool)
    longest = len(LAYOUT) + max(map(len, ZONES))
    lengths = np.array([len(one) if one.isascii() else 0 for one in texts], np.intp)
    for length in np.unique(lengths):
        if not SHORTEST <= length <= longest:
            continue
        rows = np.flatnonzero(lengths == length)
        part = texts if len(rows) == len(texts) else [texts[row] for row in rows]
        signs = np.array(part, dtype=f"S{length}").view(np.uint8).reshape(-1, length)
        for zone in ZONES:
            size = length - len(zone)
            plain = np.flatnonzero(_are_plain(signs, size, zone))
            moments, exists = _microseconds(signs[plain, :size])
            found[rows[plain]] = moments
            is_plain[rows[plain]] = exists
    return found, is_plain


def _are_plain(signs, size, zone):
    """Tell which rows of characters are moments of `size` characters and a zone."""
    if not SHORTEST <= size <= len(LAYOUT) or size == SHORTEST + 1:
        return np.zeros(len(signs), dtype=bool)
    plain = (signs[:, :4] != ZERO).any(axis=1)  # there is no year 0
    for place, sign in enumerate(LAYOUT[:size] + zone):
        column = signs[:, place]
        if sign == ZERO and place < size:
            plain &= (column >= ZERO) & (column <= NINE)
        elif sign == BLANK:
            plain &= (column == BLANK) | (column == T)
        else:
            plain &= column == sign
    return plain


def _microseconds(signs):
    """Return the moments that rows of characters stand for, and whether they exist."""
    year, month, day, hour, minute, second = (
        _whole_numbers(signs[:, start:stop])
        for start, stop in ((0, 4), (5, 7), (8, 10), (11, 13), (14, 16), (17, 19))
    )
    months = 12 * (year - 1970) + month - 1
    first, end = (
        after.astype("datetime64[M]").astype("datetime64[D]").astype(np.int64)
        for after in (months, months + 1)
    )
    exists = (month >= 1) & (month <= 12) & (day >= 1) & (day <= end - first)
    exists &= (hour < 24) & (minute < 60) & (second < 60)
    fraction = signs[:, SHORTEST + 1 :]
    seconds = (((first + day - 1) * 24 + hour) * 60 + minute) * 60 + second
    part = _whole_numbers(fraction) * 10 ** (FRACTION_DIGITS - fraction.shape[1])
    return seconds * 10**FRACTION_DIGITS + part, exists


def _whole_numbers(digits):
    total = np.zeros(len(digits), dtype=np.int64)
    for column in digits.T:
        total = 10 * total + (column - ZERO)
    return total
