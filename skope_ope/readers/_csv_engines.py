# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Blocks of csv rows to columns, by the readers of pyarrow or of pandas.

An engine is a function of (block, names, texts): the rows, the name of each column, a
number written as text, and which columns are wanted, {name: whether as texts}. It
returns the columns by name: floats, NaN where a word of `MISSING_WORDS` stands, or
(codes, distinct cells in the order in which they first occur). It raises `ValueError`
where a cell is no such number, or the rows are not all as long as the header.
"""

import io

import numpy as np

from skope_ope.readers._csv_cells import MISSING

MISSING_WORDS = [
    spelt(word)
    for word in sorted(MISSING)
    for spelt in (str.lower, str.upper, str.capitalize)
] + ["NaN"]


def find_engine():
    """Return the engine of what is installed, None where neither package is."""
    for engine in (_arrow_engine, _pandas_engine):
        try:
            return engine()
        except ImportError:
            continue
    return None


def _arrow_engine():
    import pyarrow
    from pyarrow import csv

    texts_type = pyarrow.dictionary(pyarrow.int32(), pyarrow.binary())

    def parse(block, names, texts):
        table = csv.read_csv(
            pyarrow.BufferReader(pyarrow.py_buffer(block)),
            csv.ReadOptions(
                use_threads=False, block_size=len(block) + 1, column_names=names
            ),
            csv.ParseOptions(newlines_in_values=False),
            csv.ConvertOptions(
                include_columns=list(texts),
                column_types={
                    name: texts_type if as_texts else pyarrow.float64()
                    for name, as_texts in texts.items()
                },
                null_values=MISSING_WORDS,
                strings_can_be_null=False,
            ),
        )
        return {name: _of_arrow(table.column(name)) for name in texts}

    return parse


def _of_arrow(column):
    from pyarrow.types import is_dictionary

    if not is_dictionary(column.type):
        numbers = column.to_numpy()
        if np.count_nonzero(np.isnan(numbers)) != column.null_count:
            raise ValueError("a number is NaN by another word")
        return numbers
    column = column.combine_chunks()
    cells = [
        cell.decode("utf-8", "backslashreplace")
        for cell in column.dictionary.to_pylist()
    ]
    return column.indices.to_numpy(), cells


def _pandas_engine():
    import pandas

    exact = {"float_precision": "round_trip"}
    if tuple(map(int, pandas.__version__.split(".")[:2])) >= (3, 1):
        exact = {}  # the default is

    def parse(block, names, texts):
        n_cells = len(names)
        # the first row may be longer than the others are taken to be
        first = b",".join([b"0"] * n_cells) + b"\n"
        rows = b"".join((first, block))
        frame = pandas.read_csv(
            io.BytesIO(rows),
            header=None,
            names=names,
            index_col=False,
            dtype={
                name: object if texts.get(name, True) else np.float64 for name in names
            },
            keep_default_na=False,
            na_values={
                name: MISSING_WORDS for name, as_texts in texts.items() if not as_texts
            },
            skip_blank_lines=False,
            encoding_errors="backslashreplace",
            low_memory=False,
            **exact,
        )
        if _n_commas(rows) != (n_cells - 1) * len(frame):
            raise ValueError("some rows are shorter than others")
        columns = {name: frame[name].to_numpy()[1:] for name in texts}
        return {
            name: pandas.factorize(column) if texts[name] else column
            for name, column in columns.items()
        }

    return parse


def _n_commas(rows):
    """Return the number of commas between cells."""
    if b'"' not in rows:
        return rows.count(b",")
    text = np.frombuffer(rows, np.uint8)
    commas, quotes = (np.flatnonzero(text == ord(sign)) for sign in ',"')
    return np.count_nonzero(np.searchsorted(quotes, commas) % 2 == 0)
