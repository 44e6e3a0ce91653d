# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Partitions of a log in files: row groups, or stretches of large ones."""

from contextlib import contextmanager
from dataclasses import dataclass, replace

import numpy as np

from skope_ope.exceptions import RowError
from skope_ope.logs.lazy._part_columns import Reading, logs_of_table

STRETCH = 1_000_000  # rounds of a partition: a larger row group is read in stretches
SMALL = 1 << 16  # rounds of a task, where there are many: every task costs
BUFFER = 1 << 20  # bytes that are read ahead; whole row groups would fill the memory


@dataclass(frozen=True)
class ParquetPart:
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
    def n_rounds(self):
        """Number of rows."""
        return self.rows[1] - self.rows[0]

    @property
    def first_row(self):
        """Rows of the row group before them."""
        return self.rows[0]

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
            filesystem=self.file_system,
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


@dataclass(frozen=True, eq=False, repr=False)
class Partition:
    """A part of a lazy log, small and ready to travel to another process."""

    part: object  # where its rows lie
    reading: Reading  # what is read, and what it means
    index: int  # number of the partition in its source
    start: int  # rows of the source before it

    @property
    def name(self):
        """What messages call it: file and row group."""
        return str(self.part)

    @property
    def key(self):
        """The same for the same rows of the same file, however its path is spelled."""
        return self.part.place

    @property
    def n_rounds(self):
        """Number of rounds; None where only reading tells."""
        return None if self.reading.conditions else self.part.n_rounds

    def read(self):
        """Return the rounds as ordinary logs."""
        return next(read_partitions([self]))[1]

    def __repr__(self):
        return f"Partition({self.name!r}, n_rounds={self.n_rounds})"

    def table(self, names):
        """Return columns of all rows of the part, as a table of pyarrow."""
        with PartReader() as reader:
            return reader.table(self, names)

    @contextmanager
    def named(self, rows=None):
        """Put file and row group in front of errors that are raised inside."""
        try:
            yield
        except RowError as error:
            row = error.row if rows is None else int(rows(error.row))
            told = error.told_of(self.part.where(row))
            raise ValueError(f"{self.part}: {told}") from error
        except (ValueError, TypeError) as error:
            kind = TypeError if isinstance(error, TypeError) else ValueError
            raise kind(f"{self.part}: {error}") from error

    def kept(self, reader):
        """Return the rows that are kept, and their numbers in the partition."""
        table = reader.table(self, self.reading.names)
        rows = np.arange(len(table)) if self.reading.conditions else range(len(table))
        with self.named():
            for condition in self.reading.conditions:
                mask = np.flatnonzero(condition.mask(table))
                table, rows = table.take(mask), rows[mask]
        return table, rows

    def count(self, reader):
        """Return the number of rounds, which is read where it is not known."""
        if self.n_rounds is not None:
            return self.n_rounds
        only = replace(self.reading, roles={}, columns={})
        return len(replace(self, reading=only).kept(reader)[1])

    def position(self, rows):
        """Return the positions of some rows of the partition in the source."""
        return np.asarray(rows, dtype=np.int64) + self.start

    def up_to(self, n_rows):
        """Return the partition of the first rows of this one, at most so many."""
        return replace(self, part=self.part.up_to(n_rows))

    def logs(self, reader):
        """Return the rounds as ordinary logs; None where there are none."""
        return self.logs_of(*self.kept(reader))

    def logs_of(self, table, rows):
        """Return ordinary logs of what `kept` returns; None where there are none."""
        if not len(table):
            return None
        whole = isinstance(rows, range)
        with self.named(None if whole else rows.__getitem__):
            rows = None if whole else rows
            return logs_of_table(self.reading, table, self.start, rows, [self])


class PartReader:
    """Reads partitions in turn: a file is opened once, a row group decoded once."""

    def __init__(self):
        self._key = self._file = None
        self._rest()

    def _rest(self):
        self._place = self._batches = None
        self._next, self._left = 0, []

    def table(self, partition, names):
        """Return columns of a partition, as a table of pyarrow with one type each."""
        part, types = partition.part, dict(partition.reading.types)
        coded = [name for name in partition.reading.coded if name in names]
        for name in coded:
            types.pop(name)
        stored = [name for name in names if name not in part.constants]
        try:
            table = self._stored(part, stored, partition.reading) if stored else None
        except FileNotFoundError as error:
            raise FileNotFoundError(
                f"{part}: the file is gone since it was scanned."
            ) from error
        except RowError as error:  # a cell
            self._rest()
            told = error.told_of(part.where(error.row))
            raise ValueError(f"{part}: {told}") from error
        except Exception as error:  # pyarrow raises many kinds where bytes are wrong
            self._rest()  # what comes next is read anew
            raise ValueError(f"{part} cannot be read: {error}") from error
        return _typed(table, names, part, types)

    def _stored(self, part, names, reading):
        import pyarrow

        low, high = part.rows
        place = (*part.place[:2], tuple(names))
        if self._place != place or self._next > low:
            self._rest()
            self._open(part, reading)
            self._place = place
            size = part.of[0] if high - low == part.of[0] else part_size(high - low)
            self._batches = part.batches(self._file, names, reading, size)
        got = []
        while self._next < high:
            batch = self._left.pop() if self._left else next(self._batches, None)
            if batch is None:
                raise ValueError(f"it ends at row {self._next}, not at {part.of[0]}.")
            skip = max(low - self._next, 0)
            size = batch.num_rows
            if self._next + size > high:
                self._left = [batch.slice(high - self._next)]
                batch = batch.slice(0, high - self._next)
            self._next += batch.num_rows
            if skip < batch.num_rows:
                got.append(batch.slice(skip) if skip else batch)
        if high == part.of[0]:
            self._rest()
        if not got:
            schema = pyarrow.schema([(name, pyarrow.null()) for name in names])
            return schema.empty_table()
        return pyarrow.Table.from_batches(got)

    def _open(self, part, reading):
        key = part.place[0], tuple(reading.coded)
        if self._key != key:
            self.close()
            self._file, self._key = part.opened(reading), key

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.close()

    def close(self):
        """Close the file."""
        self._rest()
        if hasattr(self._file, "close"):
            self._file.close()
        self._key = self._file = None


def part_size(n_rows):
    """Return the rows of a batch for a stretch of a row group."""
    return min(max(n_rows, 1 << 16), STRETCH)


def _typed(table, names, part, types):
    """Return the columns in order, those named in `types` with these types."""
    import pyarrow

    arrays = []
    for name in names:
        if name in part.constants:
            one = pyarrow.array([part.constants[name]])[0]
            array = pyarrow.repeat(one, part.n_rounds)
        else:
            array = table.column(name)
        if name in types and array.type != types[name]:
            try:
                if pyarrow.types.is_dictionary(types[name]):
                    array = array.dictionary_encode()  # as other files have it
                array = array.cast(types[name])
            except pyarrow.ArrowException as error:
                raise TypeError(
                    f"{part}: column {name!r} holds {array.type}, the other files "
                    f"{types[name]}: {error}"
                ) from error
        arrays.append(array)
    if not arrays:  # a table without a column would forget the number of rows
        return pyarrow.table({"": pyarrow.nulls(part.n_rounds)})
    return pyarrow.table(arrays, names=list(names))


def read_partitions(partitions):
    """Read partitions in turn, each as ordinary logs."""
    # Stretches of one row group that follow each other are decoded in one go, so this
    # is cheaper than to call `read` of each.
    with PartReader() as reader:
        for partition in partitions:
            yield partition, partition.logs(reader)
