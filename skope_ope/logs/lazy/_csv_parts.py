# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Partitions of csv files: blocks of whole rows, with the same types in all of them."""

import csv
import io
import re
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np

from skope_ope.logs.lazy._log_files import COMPRESSED, folder_columns
from skope_ope.logs.lazy._parquet_parts import (
    READERS,
    Scanned,
    constant_types,
    import_parquet,
)

BLOCK = 1 << 25  # bytes of a partition
GUESS = 1 << 20  # bytes that tell the types of the columns of a file
# as numbers they would collide with others: 007 and 7, or 20 digits in a float
NO_NUMBER = re.compile(rb'(?:^|[,\n"])-?(?:0[0-9]|[0-9]{16})')
ZEROS, LONG = "^-?0[0-9]+$", "^-?[0-9]{16,}$"
MISSING = ["", "NA", "N/A", "NULL", "null", "NaN", "nan"]


@dataclass(frozen=True)
class CsvPart:
    """Where the rows of a partition lie in a csv file.

    Parameters
    ----------
    path, key, name, file_system, constants : object
        See `ParquetPart`.
    block : int
        Number of the block of rows.
    span : tuple of (int, int)
        First byte, and number of bytes.
    n_rounds : int
        Number of rows.
    first_row : int
        Rows of the file before them.
    header : tuple of str
        Names of the columns.
    """

    path: str
    key: str
    name: str
    block: int
    span: tuple
    n_rounds: int
    first_row: int
    header: tuple
    constants: dict
    file_system: object = None
    file_of_whole = None  # blocks are read one by one

    @property
    def place(self):
        """What tells this part from all others."""
        return self.key, "block", self.block

    @property
    def rows(self):
        """All rows of the block are read together."""
        return 0, self.n_rounds

    of = property(lambda self: (self.n_rounds, None))

    def __str__(self):
        return f"{self.name}, block {self.block}"

    def up_to(self, n_rows):
        """Return this part: a block is read as a whole."""
        return self

    def opened(self, reading):
        """Open the file."""
        return opened(self.path, self.file_system)

    def batches(self, file, names, reading, n_rows):
        """Yield the rows in record batches."""
        file.seek(self.span[0])
        data = file.read(self.span[1])
        types = {n: reading.types[n] for n in names if n in reading.types}
        whole = len(data) == self.span[1]
        try:
            table = parsed(data, self.header, names, types) if whole else ()
        except ValueError as error:  # those of pyarrow are
            if "conversion error" not in str(error):
                raise
            raise ValueError(
                f"{error}. The type of a column is taken from the first megabyte of "
                "each file. Correct this cell, or write the log as parquet, which "
                "stores the types of its columns."
            ) from error
        if len(table) != self.n_rounds:
            more = " If it did not change, a cell holds a quote: double the quote, and "
            more += "put the cell into quotes."
            raise ValueError(
                "the file has changed since it was scanned. Scan it again."
                + more * (b'"' in data)
            )
        yield from table.combine_chunks().to_batches()


def opened(path, file_system=None):
    """Open a file for reading at any place."""
    if file_system is None:
        return open(path, "rb")
    return file_system.open_input_file(path)


def parsed(data, header, names=None, types=None):
    """Return rows of a csv file without its header as a table of pyarrow."""
    import pyarrow
    from pyarrow import csv as reader

    return reader.read_csv(
        pyarrow.BufferReader(data),
        reader.ReadOptions(column_names=list(header), use_threads=False),
        reader.ParseOptions(newlines_in_values=b'"' in data),
        reader.ConvertOptions(
            include_columns=names,
            column_types=types,
            null_values=MISSING,
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        ),
    )


class ScannedCsv(Scanned):
    """Csv files, of which the line ends have been counted."""

    texts = frozenset()  # columns of what is no number, though it may look like one

    def types(self, uses):
        """Return the type that every column has in all blocks."""
        import pyarrow

        def is_text(name):
            return uses[name] == "label" and name in self.texts

        types = super().types({n: use for n, use in uses.items() if not is_text(n)})
        for name, kind in types.items():
            numeric = pyarrow.types.is_integer(kind) or pyarrow.types.is_floating(kind)
            if name in self.folder_columns:
                continue
            if pyarrow.types.is_binary(kind):
                raise ValueError(
                    f"column {name!r} holds texts that are not in UTF-8. Write the "
                    "files anew in UTF-8."
                )
            if pyarrow.types.is_null(kind):
                types[name] = pyarrow.string()
            elif (uses[name] == "number" and not pyarrow.types.is_boolean(kind)) or (
                uses[name] != "label" and numeric
            ):  # a whole number may be followed by fractions
                types[name] = pyarrow.float64()
        for name in filter(is_text, uses):
            for file, schema in self._schemas:
                self._type(file, schema, name)  # raises where it is missing
            types[name] = pyarrow.string()
        return types


def scan_csv(files):
    """Return what csv files hold: rows are counted, types are told by the first ones.

    Parameters
    ----------
    files : list of LogFile
        At least one.

    Returns
    -------
    scanned : ScannedCsv
    """
    import_parquet()
    constants = folder_columns(files)
    with ThreadPoolExecutor(READERS) as threads:
        found = list(threads.map(_look, files))
    parts, schemas, texts = [], [], set()
    for file, (header, schema, blocks, others), said in zip(
        files, found, constants, strict=True
    ):
        texts |= others
        schemas.append((file.name, schema))
        first = 0
        for number, (start, size, n_rows) in enumerate(blocks):
            parts.append(
                CsvPart(
                    file.path,
                    file.key,
                    file.name,
                    number,
                    (start, size),
                    n_rows,
                    first,
                    header,
                    said,
                    file.file_system,
                )
            )
            first += n_rows
    scanned = ScannedCsv(parts, schemas, constant_types(constants))
    scanned.texts = texts - {*scanned.folder_columns}
    return scanned


def _look(file):
    """Return header, types and blocks of a csv file, and columns of no numbers."""
    if file.path.endswith(COMPRESSED):
        raise ValueError(
            f"{file.path} is compressed, so it cannot be read in parts. Decompress it, "
            "or write the log as parquet, which compresses each part."
        )
    try:
        with opened(file.path, file.file_system) as stream:
            header, start = _header(stream)
            blocks = list(_blocks(stream, start))
            stream.seek(start)
            some = stream.read(GUESS)
        if not some.strip():  # a day without a round
            return header, _of_nothing(header), [], set()
        whole = some if len(some) < GUESS else some[: _end_of_rows(some)[0]]
        table = parsed(whole, header)
        return header, table.schema, blocks, _no_numbers(whole, table)
    except Exception as error:  # pyarrow raises many kinds where bytes are wrong
        raise ValueError(f"{file.path} cannot be read as csv: {error}") from error


def _no_numbers(data, table):
    """Return names of columns of numbers that are labels of another kind: 007, say."""
    import pyarrow
    from pyarrow import compute

    found, names = set(), table.column_names
    if NO_NUMBER.search(data) is None:
        return found
    for field in table.schema:
        whole = pyarrow.types.is_integer(field.type)
        if not (whole or pyarrow.types.is_floating(field.type)):
            continue
        if names.count(field.name) > 1:
            continue
        types = {field.name: pyarrow.string()}
        texts = parsed(data, names, [field.name], types).column(0)
        pattern = ZEROS if whole else f"{ZEROS}|{LONG}"
        if compute.any(compute.match_substring_regex(texts, pattern)).as_py():
            found.add(field.name)
    return found


def _of_nothing(header):
    """Return the types of columns without rows, which fit any other."""
    import pyarrow

    return pyarrow.schema([(name, pyarrow.null()) for name in header])


def _header(stream):
    """Return the names of the columns, and where the rows begin."""
    line = io.BytesIO(stream.read(GUESS)).readline()
    if not line.strip() or line.count(b'"') % 2:
        raise ValueError("its first line must hold the names of the columns.")
    text = line.decode("utf-8-sig").rstrip("\r\n")
    names = tuple(next(csv.reader([text])))
    other = next((mark for mark in ";\t|" if mark in text), None)
    if len(names) == 1 and other:
        raise ValueError(
            f"its columns seem to be separated by {other!r}, but a comma is expected. "
            "Write it again with commas, or pass a lazy frame that reads it, such as "
            f"polars.scan_csv(path, separator={other!r})."
        )
    return names, len(line)


def _blocks(stream, start):
    """Yield first byte, number of bytes and number of rows of every block."""
    stream.seek(start)
    rest = b""
    while True:
        more = stream.read(BLOCK)
        data = rest + more
        if not data:
            return
        if more:
            size, n_rows = _end_of_rows(data)
        else:
            if data.count(b'"') % 2:
                raise ValueError(
                    "a quote is opened and never closed, so the ends of the rows are "
                    "unknown. Close the quote; inside a quoted cell, double it."
                )
            _, n_rows = _end_of_rows(data + b"\n")
            size = len(data)
        if n_rows or (size and not more):
            yield start, size, n_rows
        start, rest = start + size, data[size:]


def _end_of_rows(data):
    """Return where the last whole row ends, and how many rows there are up to it."""
    odd = (b'"', b"\n\n", b"\n\r\n")
    if not any(one in data for one in odd) and data[:1] not in (b"\n", b"\r"):
        return data.rfind(b"\n") + 1, data.count(b"\n")
    text = np.frombuffer(data, np.uint8)
    ends = np.flatnonzero(text == ord("\n"))
    quotes = np.flatnonzero(text == ord('"'))
    ends = ends[np.searchsorted(quotes, ends) % 2 == 0]  # others stand in a cell
    if not len(ends):
        return 0, 0
    sizes = np.diff(ends, prepend=-1)
    blank = (sizes == 1) | ((sizes == 2) & (text[ends - 1] == ord("\r")))
    return int(ends[-1]) + 1, int((~blank).sum())
