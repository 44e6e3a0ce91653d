# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Columns of csv files as arrays, read block by block.

pyarrow or pandas read the file where they are installed. Our own reader needs neither,
and reads whatever they might read in another way: it alone says what is wrong.
"""

from itertools import islice

from skope_ope.readers._csv_cells import KINDS, TextAfterNumbersError, TextFeatures
from skope_ope.readers._csv_engines import find_engine
from skope_ope.readers._fast_csv import read_by_engine
from skope_ope.readers._text_files import DoubtError, empty_file, open_csv

BLOCK = 256  # rows that are held as text at a time: few enough to stay in the cache


def read_csv(path, wanted, report=None):
    """Read columns of a csv file, a dict by (name, kind)."""
    engine = find_engine()
    if engine is not None:
        header, rows = open_csv(path)
        rows.close()
        try:
            return read_by_engine(engine, path, header, wanted, report)
        except DoubtError:
            pass  # the rows below are read once more, from the first one
    return read_rows(path, wanted, report)


def read_rows(path, wanted, report=None):
    """Read columns as `read_csv` does, by our own reader."""
    columns = {key: KINDS[key[1]](path, key[0]) for key in wanted}
    late = _read_into(path, columns, report)
    if late:  # texts below numbers: read these columns again, as texts
        again = {key: TextFeatures(path, key[0]) for key in late}
        _read_into(path, again, report)
        columns.update(again)
    return {key: column.finish() for key, column in columns.items()}


def _read_into(path, columns, report):
    """Add all rows to the columns; return those that turned out to hold texts."""
    header, rows = open_csv(path)
    places = {key: header.index(key[0]) for key in columns}
    late, n_rows = [], 0
    while block := list(islice(rows, BLOCK)):
        for line, row in block:
            if len(row) != len(header):
                raise ValueError(
                    f"{path}, line {line}: {len(row)} cells under {len(header)} column "
                    "names. Correct or drop the row."
                )
        lines = [line for line, _ in block]
        cells = list(zip(*(row for _, row in block), strict=True))
        for key, place in list(places.items()):
            try:
                columns[key].add(cells[place], lines)
            except TextAfterNumbersError:
                late.append(key)
                del places[key]
        n_rows += len(block)
        if report is not None:
            report(n_rows)
    if not n_rows:
        raise empty_file(path)
    return late
