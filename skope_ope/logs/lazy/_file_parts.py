# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Parts of files: row groups of parquet, blocks of csv, and files of a Dataset.

A part says where the rows of a partition lie, and reads them. `Scanned` holds the parts
of all files and the types of their columns.
"""

import os
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from copy import copy
from dataclasses import dataclass, replace
from functools import partial
from hashlib import sha256
from itertools import chain, pairwise
from types import MappingProxyType

import numpy as np

from skope_ope._texts import meant
from skope_ope.logs._frames import COLUMNS_LISTED
from skope_ope.logs._labels import NO_KIND
from skope_ope.logs._text_files import (
    LABEL_KINDS,
    CsvFile,
    Texts,
    arrow_columns,
    bad_cell,
    cast,
    cell_labels,
    cell_number,
    fits,
    kinds_of,
    last_end,
    missing_among,
    numbers_of,
    of_arrow,
    text_type,
)
from skope_ope.logs.lazy._log_files import (
    LogFile,
    folder_columns,
    import_parquet,
    refuse_twice,
)
from skope_ope.logs.lazy._partitions import ROUNDS_OF_STRETCH, is_text

FOOTER_THREADS = 8  # threads that read footers, most of whose time is spent waiting
FOOTERS = 16  # of a task: to hand over a file costs as much as its footer
BUFFER = 1 << 20  # bytes that are read ahead; whole row groups would fill the memory


class Scanned:
    """Files of a log, of which no row has been read."""

    def __init__(self, parts, schemas, constants):
        self.parts = tuple(parts)
        self._schemas, self._constants = schemas, constants
        self._kept = None  # all

    frame = None
    passed = MappingProxyType({})  # files that were passed over, and why

    def origin(self):
        """Token of the files and their rows, the same in all processes."""
        places = [(*part.place, part.n_rounds) for part in self.parts]
        return sha256(repr(places).encode()).hexdigest()[:40]

    def places(self):
        """Return index, rows before it and part of every part that is kept."""
        start, found = 0, []
        for index, part in enumerate(self.parts):
            if self._kept is None or self._kept[index]:
                found.append((index, start, part))
            start += part.n_rounds
        return found

    def only(self, keeps):
        """Return the parts whose folders tell what is to be kept."""
        out = copy(self)
        told = {}
        for part in self.parts:
            key = tuple(part.constants.items())
            if key not in told:
                told[key] = keeps(part.constants)
        kept = [told[tuple(part.constants.items())] for part in self.parts]
        mine = kept if self._kept is None else self._kept
        out._kept = [a and b for a, b in zip(kept, mine, strict=True)]
        return out

    @property
    def folder_columns(self):
        """Names of the columns that folders tell."""
        return list(self._constants)

    def one_row(self, said):
        """Return a table with one row of the columns that folders tell."""
        import pyarrow

        return pyarrow.table(
            {
                name: pyarrow.array([said[name]], t)
                for name, t in self._constants.items()
            }
        )

    def empty_table(self):
        """Return a table of all columns without rows."""
        import pyarrow

        schema = self._schemas[0][1]
        fields = [f for f in schema if f.name not in self._constants]
        fields += [pyarrow.field(name, t) for name, t in self._constants.items()]
        return pyarrow.schema(fields).empty_table()

    @property
    def columns(self):
        """Names of all columns."""
        stored = [n for n in self._schemas[0][1].names if n not in self._constants]
        return [*stored, *self._constants]

    def label_kind(self, name, types):
        """Return the kind of the labels in a column, whose type is among these."""
        return label_kind(types.get(name))

    def types(self, roles):
        """Return the type that every column has in all files."""
        types = dict(self._constants)
        for name, role in roles.items():
            if name in types:
                continue
            found = [(file, self._type(file, s, name)) for file, s in self._schemas]
            types[name] = common_type(name, role, found)
        return {name: types[name] for name in roles}

    def _type(self, file, schema, name):
        places = schema.get_all_field_indices(name)
        if len(places) == 1:
            return schema.field(places[0]).type
        if places:
            raise ValueError(f"{file} has {len(places)} columns called {name!r}.")
        first = self._schemas[0][0]
        has = ", ".join(map(repr, schema.names[:COLUMNS_LISTED]))
        if file == first:
            hint = meant(name, schema.names)
            raise ValueError(f"column {name!r} is not in {file}; it has {has}.{hint}")
        raise ValueError(
            f"{file} has no column {name!r}, which {first} has; it has {has}. Scan "
            "only files that have the same columns."
        )


class RowRange:
    """What a part says of its rows."""

    @property
    def n_rounds(self):
        """Number of rows."""
        return self.rows[1] - self.rows[0]

    @property
    def first_row(self):
        """Rows of the row group, or of the file, before them."""
        return self.rows[0]


@dataclass(frozen=True)
class ParquetPart(RowRange):
    """Where the rows of a partition lie in a parquet file."""

    path: str  # path of the file in its file system
    key: str  # the same whatever the spelling of the path
    name: str  # what the file is called in messages
    row_group: int  # number of the row group
    rows: tuple  # which rows of the row group: the first, and the one after the last
    # Rows of the whole row group, and row groups of the file, as the footer said
    of: tuple
    constants: dict  # values of the columns that the names of folders tell
    file_system: object = None  # A file system of pyarrow; `None`: that of the machine
    # Whole row groups that are read as this one part; empty: it is a single one
    whole: tuple = ()

    @property
    def file_of_whole(self):
        """Key of the file where this is a whole row group; None otherwise."""
        return self.key if self.rows == (0, self.of[0]) else None

    def with_others(self, others):
        """Return the part of this whole row group and others of the file."""
        whole = self, *others
        size = sum(one.n_rounds for one in whole)
        return replace(self, rows=(0, size), of=(size, self.of[1]), whole=whole)

    @property
    def place(self):
        """What tells this part from all others."""
        return self.key, self.row_group, self.rows[0]

    def __str__(self):
        name = f"{self.name}, row group {self.row_group}"
        if self.rows == (0, self.of[0]):
            return name
        return f"{name}, rows {self.rows[0]:,} to {self.rows[1] - 1:,}"

    def where(self, row):
        """Return what messages call a row of the part."""
        return f"row {self.first_row + row}"

    def up_to(self, n_rows):
        """Return the part of the first rows of this one, at most so many."""
        low, high = self.rows
        return replace(self, rows=(low, min(low + n_rows, high)))

    def opened(self, reading):
        """Open the file, which other row groups of it may be read from, too."""
        from pyarrow.parquet import ParquetFile

        stored = [name for name in reading.coded if name not in self.constants]
        file = ParquetFile(
            self.path,
            filesystem=_known_system(self),
            pre_buffer=False,
            buffer_size=BUFFER,
            read_dictionary=stored,
        )
        missing = {*reading.names} - {*self.constants, *file.schema_arrow.names}
        if missing:
            file.close()
            raise ValueError(f"column {min(missing)!r} is gone since the scan.")
        return file

    def batches(self, file, names, reading, n_rows):
        """Yield the rows of the whole row group in record batches."""
        found, whole = file.metadata, self.whole or (self,)
        if found.num_row_groups != self.of[1] or any(
            found.row_group(one.row_group).num_rows != one.of[0] for one in whole
        ):
            raise ValueError(
                "the file has changed since it was scanned. Scan it again."
            )
        yield from file.iter_batches(
            n_rows,
            row_groups=[one.row_group for one in whole],
            columns=names,
            use_threads=False,
        )


def scan_parquet(files, constants=None, row_groups=None):
    """Return what the footers of parquet files say."""
    import_parquet()
    constants = folder_columns(files) if constants is None else constants
    some = [files[k : k + FOOTERS] for k in range(0, len(files), FOOTERS)]
    with ThreadPoolExecutor(FOOTER_THREADS) as threads:
        footers = list(chain.from_iterable(threads.map(_footers, some)))
    parts, schemas, first = [], [], None
    for number, (file, (metadata, sizes), said) in enumerate(
        zip(files, footers, constants, strict=True)
    ):
        if first is None or not metadata.schema.equals(first):
            first = metadata.schema if first is None else first
            schema = metadata.schema.to_arrow_schema()
            if not any(schema.equals(other) for _, other in schemas):
                schemas.append((file.name, schema))
        chosen = range(len(sizes)) if row_groups is None else row_groups[number]
        for row_group in chosen:
            size = sizes[row_group]
            parts += [
                ParquetPart(
                    file.path,
                    file.key,
                    file.name,
                    row_group,
                    rows,
                    (size, len(sizes)),
                    said,
                    file.file_system,
                )
                for rows in stretches(size)
            ]
    return Scanned(parts, schemas, constant_types(constants))


def _known_system(file):
    """Return the file system of a file: pyarrow would look for it file by file."""
    from pyarrow.fs import LocalFileSystem

    return file.file_system or LocalFileSystem()


def _footers(files):
    return [*map(_footer, files)]


def _footer(file):
    from pyarrow.parquet import read_metadata

    try:
        metadata = read_metadata(file.path, filesystem=_known_system(file))
    except Exception as error:  # pyarrow raises many kinds where bytes are wrong
        raise ValueError(f"{file.path} cannot be read as parquet: {error}") from error
    sizes = [
        metadata.row_group(number).num_rows for number in range(metadata.num_row_groups)
    ]
    return metadata, sizes


def stretches(n_rows):
    """Return the first and the last row plus one of every partition of a row group."""
    n_parts = max(round(n_rows / ROUNDS_OF_STRETCH), 1)
    bounds = [n_rows * k // n_parts for k in range(n_parts + 1)]
    return list(pairwise(bounds))


def constant_types(constants):
    """Return the types of the columns that the names of folders tell."""
    import pyarrow

    return {
        name: pyarrow.int64()
        if all(isinstance(said[name], (int, type(None))) for said in constants)
        else pyarrow.string()
        for name in constants[0]
    }


PART_BYTES = 1 << 25  # bytes of a partition
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
    remedies: dict  # what to do where such a label is missing
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
            about = self.kinds[name], self.remedies[name]
            labels, codes = cell_labels(name, cells, *about)
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
    # `labels` are remedies where one is missing, by column.
    import_parquet()
    constants = folder_columns(files)
    labels = {name: one for name, one in labels.items() if name not in constants[0]}
    with ThreadPoolExecutor(FOOTER_THREADS) as threads:
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
                    labels,
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
    for start, block in csv.blocks(PART_BYTES):
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


@dataclass(frozen=True)
class FragmentPart(RowRange):
    """Where the rows of a partition lie in a file of a Dataset."""

    fragment: object  # the file
    schema: object  # of the whole Dataset
    key: str  # see `ParquetPart`
    name: str  # see `ParquetPart`
    rows: tuple  # which rows of the file
    of: tuple  # rows of the file, and 1
    constants: dict  # values of the columns that the partitioning tells
    file_of_whole = None  # files are read one by one

    @property
    def place(self):
        """What tells this part from all others."""
        return self.key, "file", self.rows[0]

    def __str__(self):
        if self.rows == (0, self.of[0]):
            return self.name
        return f"{self.name}, rows {self.rows[0]:,} to {self.rows[1] - 1:,}"

    def where(self, row):
        """Return what messages call a row of the part."""
        return f"row {self.first_row + row}"

    def up_to(self, n_rows):
        """Return the part of the first rows of this one, at most so many."""
        low, high = self.rows
        return replace(self, rows=(low, min(low + n_rows, high)))

    def opened(self, reading):
        """Return the file, which opens itself."""
        return self.fragment

    def batches(self, file, names, reading, n_rows):
        """Yield the rows of the whole file in record batches."""
        yield from file.to_batches(
            schema=self.schema,
            columns=names,
            batch_size=n_rows,
            batch_readahead=1,
            fragment_readahead=1,
            use_threads=False,
        )


def scan_dataset(dataset):
    """Return what a Dataset of pyarrow holds."""
    from pyarrow import ArrowException
    from pyarrow import dataset as datasets

    try:
        fragments = list(dataset.get_fragments())
    except (ArrowException, ValueError) as error:
        raise ValueError(
            f"the files of the Dataset cannot be listed: {error}. Scan the Dataset "
            "itself, and filter its rows: scan_logs(dataset, ...).filter(expression)."
        ) from error
    if not fragments:
        raise ValueError("the Dataset has no file.")
    in_memory = [one for one in fragments if not hasattr(one, "path")]
    if in_memory:
        raise TypeError(
            "the Dataset is in memory already: BanditLogs.from_frame takes "
            "dataset.to_table()."
        )
    files = [_file(fragment) for fragment in fragments]
    refuse_twice(files)
    schema = dataset.schema
    said = [datasets.get_partition_keys(one.partition_expression) for one in fragments]
    types = {name: schema.field(name).type for name in said[0]}
    if all(isinstance(one, datasets.ParquetFileFragment) for one in fragments):
        groups = [[group.id for group in one.row_groups] for one in fragments]
        scanned = scan_parquet(files, said, groups)
        return Scanned(scanned.parts, [("the Dataset", schema)], types)
    parts = []
    for fragment, file, constants in zip(fragments, files, said, strict=True):
        n_rows = fragment.count_rows()
        parts += [
            FragmentPart(
                fragment, schema, file.key, file.name, rows, (n_rows, 1), constants
            )
            for rows in stretches(n_rows)
        ]
    return Scanned(parts, [("the Dataset", schema)], types)


def _file(fragment):
    from pyarrow.fs import LocalFileSystem

    path, system = fragment.path, fragment.filesystem
    if isinstance(system, LocalFileSystem):
        key = os.path.realpath(path)
        return LogFile(path, key, os.path.basename(path), {})
    return LogFile(path, f"{system.type_name}://{path}", path, {}, system)


# -- one type of a column for all files of a log --------------------------------------


def common_type(name, role, found):
    """Return the type that a column has in all partitions."""
    import pyarrow

    known = [(file, kind) for file, kind in found if not pyarrow.types.is_null(kind)]
    if not known:
        return found[0][1]
    first, type_ = known[0]
    for file, other in known[1:]:
        if other == type_:
            continue
        kinds = _kind(type_), _kind(other)
        numbers = {"integer", "decimal", "float"}
        alike = kinds[0] == kinds[1] or (role != "label" and numbers.issuperset(kinds))
        if not alike:
            null = " (pandas writes integers with a missing value as double)"
            raise TypeError(
                f"column {name!r} is {other} in {file} and {type_} in {first}"
                f"{null if {*kinds} == {'integer', 'float'} else ''}: a "
                f"{role} needs the same kind of type in all files. Write these files "
                "anew with one type, or scan them apart."
            )
        type_ = _wider(type_, other)
    return type_


def _kind(type_):
    from pyarrow import types

    if types.is_dictionary(type_):
        type_ = type_.value_type
    kinds = {
        "integer": types.is_integer,
        "float": types.is_floating,
        "decimal": types.is_decimal,
        "boolean": types.is_boolean,
        "text": is_text,
        "date": types.is_date,
        "time": types.is_timestamp,
    }
    for kind, is_kind in kinds.items():
        if is_kind(type_):
            return kind
    return str(type_)


def label_kind(type_):
    """Return the kind of the labels in a column of this type, as others tell theirs."""
    found = "" if type_ is None else _kind(type_)
    if found in ("integer", "float", "decimal"):
        return "numbers"
    kinds = {"boolean": "bools", "text": "texts", "date": "times", "time": "times"}
    return kinds.get(found, NO_KIND)


def _wider(one, other):
    """Return a type that holds what two types of numbers, texts or times hold."""
    import pyarrow
    from pyarrow import types

    values = [t.value_type if types.is_dictionary(t) else t for t in (one, other)]
    if values[0] == values[1]:
        return values[0]
    if all(types.is_integer(value) for value in values):
        return pyarrow.int64()
    if all(is_text(value) for value in values):
        return pyarrow.large_string()
    if all(types.is_timestamp(value) for value in values):
        if (values[0].tz is None) != (values[1].tz is None):
            raise TypeError(
                f"a column is {values[0]} in one file and {values[1]} in another: with "
                "and without a time zone. Write one of them anew."
            )
        return pyarrow.timestamp("us", values[0].tz)
    if all(types.is_date(value) for value in values):
        return pyarrow.date32()
    return pyarrow.float64()
