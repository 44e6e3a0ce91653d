# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Partitions of csv files: blocks of whole rows, with the same types in all of them."""

from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

import numpy as np

from skope_ope.logs._text_files import (
    CsvFile,
    arrow_columns,
    bad_cell,
    cast,
    cell_labels,
    cell_number,
    fits,
    last_end,
    missing_among,
    numbers_of,
    of_arrow,
    text_type,
)
from skope_ope.logs._texts import LABEL_KINDS, Texts, kinds_of
from skope_ope.logs.lazy._column_types import is_text
from skope_ope.logs.lazy._log_files import folder_columns, import_parquet
from skope_ope.logs.lazy._parquet_parts import (
    READERS,
    Scanned,
    constant_types,
)

BLOCK = 1 << 25  # bytes of a partition
GUESS = 1 << 20  # bytes that tell the types of the features of a file


@dataclass(frozen=True)
class CsvPart:
    """Where the rows of a partition lie in a csv file."""

    path: str  # see `ParquetPart`
    key: str  # see `ParquetPart`
    name: str  # see `ParquetPart`
    block: int  # number of the block of rows
    span: tuple  # first byte, and number of bytes
    n_rounds: int  # number of rows
    first_row: int  # rows of the file before them
    header: tuple  # names of the columns
    kinds: dict  # kinds of the labels in the columns of labels, of the whole log
    constants: dict  # see `ParquetPart`
    file_system: object = None  # see `ParquetPart`
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

    def where(self, row):
        """Return what messages call a row of the part."""
        return f"line {csv_file(self).line_of_row(self.first_row + row)}"

    def batches(self, file, names, reading, n_rows):
        """Yield the rows in record batches."""
        import pyarrow

        file.seek(self.span[0])
        data = file.read(self.span[1])
        types = {name: reading.types[name] for name in names}
        places = {name: self.header.index(name) for name in names}
        wanted = {
            places[name]: text_type() if is_text(kind) else kind
            for name, kind in types.items()
        }
        n_found, columns = 0, {}
        if len(data) == self.span[1]:
            n_found, columns = arrow_columns(data, len(self.header), wanted)
        if n_found != self.n_rounds:
            raise ValueError(
                "the file has changed since it was scanned. Scan it again."
            )
        arrays = [
            self._typed(name, columns[places[name]], types[name]) for name in names
        ]
        yield pyarrow.RecordBatch.from_arrays(arrays, names=list(names))

    def _typed(self, name, column, kind):
        """Return a column with its type in all blocks; texts stay codes of texts."""
        import pyarrow
        from pyarrow import compute, types

        if not (types.is_dictionary(column.type) or types.is_floating(column.type)):
            return column
        if is_text(kind):
            texts, missing = column.dictionary, missing_among(column.dictionary)
            if name not in self.kinds:
                values = compute.if_else(missing, None, texts)
                return values.take(column.indices)
            trimmed = compute.utf8_trim_whitespace(texts)
            if trimmed.equals(texts) and not compute.any(missing).as_py():
                return column
        cells = of_arrow(column)
        if name in self.kinds and isinstance(cells, Texts):
            labels, codes = cell_labels(name, cells, self.kinds[name])
            if is_text(kind):
                return pyarrow.DictionaryArray.from_arrays(
                    codes.astype(np.int32), labels.tolist()
                )
            return pyarrow.array(labels[codes])
        if types.is_floating(kind):
            floats = numbers_of(name, cells, optional=True)
            return pyarrow.array(floats, from_pandas=True)
        for text in cells.values:
            if not fits(pyarrow.array([text]), kind):
                raise bad_cell(name, cells, text, f"{kind} as in the first rows")
        texts = column.dictionary
        values = compute.if_else(missing_among(texts), None, texts)
        return values.cast(kind).take(column.indices)


def opened(path, file_system=None):
    """Open a file for reading at any place."""
    if file_system is None:
        return open(path, "rb")
    return file_system.open_input_file(path)


def csv_file(file):
    """Return the csv file of a `LogFile` or of a part."""
    return CsvFile(file.path, partial(opened, file.path, file.file_system))


class ScannedCsv(Scanned):
    """Csv files, whose rows have been counted and whose labels have been seen."""

    def types(self, uses):
        """Return the type that every column has in all blocks."""
        import pyarrow

        types = super().types(uses)
        for name, kind in types.items():
            if name in self.folder_columns or uses[name] == "label":
                continue
            if uses[name] == "number":
                types[name] = pyarrow.float64()
            elif pyarrow.types.is_null(kind):
                types[name] = pyarrow.string()
        return types


def scan_csv(files, labels):
    """Return what csv files hold: rows are counted, kinds of labels are found."""
    import_parquet()
    constants = folder_columns(files)
    labels = [name for name in labels if name not in constants[0]]
    with ThreadPoolExecutor(READERS) as threads:
        found = list(threads.map(partial(_look, labels=labels), files))
    kinds = {
        name: [
            kind for kind in LABEL_KINDS if all(kind in one[3][name] for one in found)
        ]
        for name in labels
    }
    parts, schemas = [], []
    for file, (header, schema, blocks, _), said in zip(
        files, found, constants, strict=True
    ):
        schemas.append((file.name, _with_labels(schema, kinds)))
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
                    kinds,
                    said,
                    file.file_system,
                )
            )
            first += n_rows
    return ScannedCsv(parts, schemas, constant_types(constants))


def _look(file, labels):
    """Return header, types and blocks of a csv file, and the kinds of its labels."""
    import pyarrow

    csv = csv_file(file)
    kinds = {name: [*LABEL_KINDS] for name in labels}
    places = {name: csv.header.index(name) for name in labels if name in csv.header}
    wanted = dict.fromkeys(places.values() or [0], pyarrow.string())
    blocks, some = [], b""
    for start, block in csv.blocks(BLOCK):
        n_rows, columns = csv.columns(block, arrow_columns, wanted)
        if len(some) < GUESS:
            some += block[: last_end(block[:GUESS]) or None]
        blocks.append((start, len(block), n_rows))
        for name, place in places.items():
            kinds[name] = _kinds_of(columns[place], kinds[name])
    return tuple(csv.header), _guessed(some, csv.header), blocks, kinds


def _kinds_of(texts, kinds):
    """Return those of some kinds of labels that all texts are of."""
    import pyarrow
    from pyarrow import compute

    if not kinds:
        return []
    with suppress(pyarrow.ArrowInvalid):  # integers, quickly
        numbers = cast(texts, pyarrow.int64())
        ends = compute.min_max(numbers).as_py().values()
        if max(map(abs, ends)) < 2**53 and numbers.cast(texts.type).equals(texts):
            return [kind for kind in kinds if kind in ("integer", "short")]
    return kinds_of([text.strip() for text in texts.unique().to_pylist()], kinds)


def _with_labels(schema, kinds):
    """Return a schema with the types that labels have in all files."""
    import pyarrow

    types = {"integer": pyarrow.int64(), "float": pyarrow.float64()}
    types |= {"short": types["float"], "": pyarrow.string()}
    for name, some in kinds.items():
        for place in schema.get_all_field_indices(name):
            kind = types.get(next(iter(some), ""), pyarrow.bool_())
            schema = schema.set(place, pyarrow.field(name, kind))
    return schema


def _guessed(some, header):
    """Return the types of columns by some rows: numbers, times, texts or null."""
    import pyarrow

    types = [pyarrow.null()] * len(header)
    if some:
        floats = dict.fromkeys(range(len(header)), pyarrow.float64())
        columns = arrow_columns(some, len(header), floats)[1]
        types = [_type_of(columns[place]) for place in floats]
    return pyarrow.schema(zip(header, types, strict=True))


def _type_of(column):
    """Return the type of a column that was read as floats, as far as it is one."""
    import pyarrow

    if column.null_count == len(column):
        return pyarrow.null()
    cells = of_arrow(column)
    if not isinstance(cells, Texts):
        return column.type
    try:
        [*map(cell_number, cells.values)]
    except ValueError:
        times = [pyarrow.timestamp("us", zone) for zone in (None, "UTC")]
        kinds = pyarrow.date32(), *times
        texts = column.dictionary
        return next((one for one in kinds if fits(texts, one)), pyarrow.string())
    return pyarrow.float64()
