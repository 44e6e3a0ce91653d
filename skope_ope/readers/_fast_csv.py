# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Columns of csv files by an engine, as far as it reads what our own reader reads.

Where an engine might take a row or a cell in another way, and where a cell is no
finite number or no label, `DoubtError` is raised: our own reader then reads the file
from its start, and gives the answer or says what is wrong. Of texts only the distinct
ones are looked at, by the columns of our own reader.
"""

import zlib

import numpy as np

from skope_ope.readers._csv_blocks import csv_blocks
from skope_ope.readers._csv_cells import KINDS, MOSTLY, cell_number
from skope_ope.readers._text_files import DoubtError
from skope_ope.readers._texts import Texts


class TextsError(Exception):
    """Columns that were taken for numbers hold texts."""


def read_by_engine(engine, path, header, wanted, report=None):
    """Read columns of a csv file.

    Parameters
    ----------
    engine : callable
        A function of (block, names, texts), see `find_engine`.
    path : str or path-like
        The file.
    header : list of str
        The names of all columns.
    wanted : iterable of (str, str)
        Names and kinds of the columns.
    report : callable, default=None
        Called with the number of rows read so far.

    Returns
    -------
    columns : dict
        The columns by (name, kind).

    Raises
    ------
    DoubtError
        If our own reader must read the file.
    """
    places = {key: header.index(key[0]) for key in wanted}
    texts = dict.fromkeys(places.values(), False)
    texts.update((places[key], True) for key in wanted if key[1] == "label")
    while True:
        try:
            found = read_cells(engine, path, len(header), texts, report)
            break
        except TextsError as error:
            texts |= dict.fromkeys(error.args, True)
    return {key: _column(path, *key, found[place]) for key, place in places.items()}


def read_cells(engine, path, n_columns, texts, report=None):
    """Read columns as floats, NaN where missing, or as `Texts`; a dict by place.

    `texts` are the places of the columns and whether they are read as texts, for the
    rest see `read_by_engine`. `TextsError` names columns that are no numbers.
    """
    if n_columns < 2:  # a blank line is a cell here and none there
        raise DoubtError
    names = [str(place) for place in range(n_columns)]
    try:
        found = _read(
            engine, path, names, {names[p]: told for p, told in texts.items()}, report
        )
    except (OSError, EOFError, zlib.error):
        raise DoubtError from None
    return {int(name): column for name, column in found.items()}


def _read(engine, path, names, texts, report):
    parts = {name: [] for name in texts}
    seen = {name: {} for name, as_texts in texts.items() if as_texts}
    n_rows = 0
    for block in csv_blocks(path):
        try:
            found = engine(block, names, texts)
        except ValueError:
            found = _texts_among(engine, block, names, texts)
            raise TextsError(*map(int, found)) from None
        for name, part in found.items():
            if name in seen:
                codes, cells = part
                known = seen[name]
                code_of = [known.setdefault(cell, len(known)) for cell in cells]
                part = np.array(code_of, dtype=np.intp)[codes]
            parts[name].append(part)
        n_rows += len(part)
        if report is not None:
            report(n_rows)
    if not n_rows:
        raise DoubtError
    arrays = {name: np.concatenate(parts.pop(name)) for name in texts}
    return arrays | {
        name: Texts(arrays[name], list(known)) for name, known in seen.items()
    }


def _texts_among(engine, block, names, texts):
    """Return the columns of a block that are no numbers, though taken for such."""
    found = []
    try:
        engine(block, names, dict.fromkeys(texts, True))
        for name in [name for name, as_texts in texts.items() if not as_texts]:
            try:
                engine(block, names, {name: False})
            except ValueError:
                found.append(name)
    except ValueError:  # the rows themselves are wrong
        raise DoubtError from None
    if not found:
        raise DoubtError
    return found


def _column(path, name, kind, found):
    """Return a column of a kind."""
    if not isinstance(found, Texts):
        bad = np.isinf(found) if kind == "feature" else ~np.isfinite(found)
        if bad.any():
            raise DoubtError
        return found
    if kind == "feature":
        return _feature(found)
    if kind == "moment" and not all("-" in cell for cell in found.values):
        raise DoubtError  # digits alone may be a number or a day
    column = KINDS[kind](path, name)
    try:
        column.add(found.values, range(len(found.values)))
        return column.finish()[found.codes]
    except ValueError:
        raise DoubtError from None


def _feature(texts):
    """Return the numbers that all cells are, or the texts."""
    numbers = np.empty(len(texts.values))
    is_text = np.zeros(len(numbers), dtype=bool)
    for code, cell in enumerate(texts.values):
        try:
            numbers[code] = cell_number(cell)
        except ValueError:
            numbers[code], is_text[code] = np.nan, True
    if np.isinf(numbers).any():
        raise DoubtError
    if not is_text.any():
        return numbers[texts.codes]
    if np.count_nonzero(is_text[texts.codes]) <= (1 - MOSTLY) * len(texts):
        raise DoubtError  # our own reader warns
    return texts
