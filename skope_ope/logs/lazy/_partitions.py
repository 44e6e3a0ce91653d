# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Partitions of a log in files, and the logs that their columns make."""

from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import groupby

import numpy as np

from skope_ope.exceptions import RowError
from skope_ope.logs._bandit_logs import BanditLogs
from skope_ope.logs._coded_labels import ColumnCodes, column_codes
from skope_ope.logs._fields import (
    WEIGHT_COLUMN,
    column_fields,
    kind_of_field,
    remedy_of,
)
from skope_ope.logs._frames import check_tables
from skope_ope.logs._known_rows import FileRows
from skope_ope.logs._row_container import Own
from skope_ope.logs._slate_logs import SlateLogs
from skope_ope.logs._validation import label_codes


def is_text(type_):
    """Tell whether a column of this type holds texts."""
    from pyarrow import types

    view = getattr(types, "is_string_view", lambda _: False)
    return types.is_string(type_) or types.is_large_string(type_) or view(type_)


@dataclass(frozen=True, eq=False)
class Reading:
    """What is read of every partition, and what it means."""

    log_type: type  # `BanditLogs` or `SlateLogs`
    # Names of the columns of every field, a tuple each, `context` among them
    roles: dict
    # For every named row field, the name of its column, or a tuple of names
    columns: dict
    origin: str  # token of the source
    # Type that every column has in all partitions, as pyarrow has it
    types: dict = field(default_factory=dict)
    # Arguments of `log_type` that are the same in all rounds: `actions`,
    # `reward_range`, a number as `propensity`, `n_candidates`, `logging_policy`
    stated: dict = field(default_factory=dict)
    loggers: object = None  # all labels of the loggers, where they are known
    conditions: tuple = ()  # which rows are kept

    def __post_init__(self):
        self.check_order(self.stated.get("actions"), self.loggers)

    def check_order(self, actions, loggers):
        """Raise where columns are named in another order than what they stand for."""
        proba, of_loggers = map(self.roles.get, ("logging_proba", "logger_proba"))
        check_tables(self.columns, proba, actions, of_loggers, loggers)

    @cached_property
    def coded(self):
        """Columns of texts that are read as codes: as nothing but labels."""
        labels = column_fields(kind="label")
        labels = {self.roles[field][0] for field in labels if field in self.roles}
        used = [name for some in self.columns.values() for name in as_tuple(some)]
        others = {*self.roles.get("context", ()), *used}
        names = [name for name in labels - others if name in self.types]
        return sorted(name for name in names if is_text(self.types[name]))

    @cached_property
    def uses(self):
        """What every column is used as: the kind of a field."""
        found = {}
        for role, names in self.roles.items():
            kind = kind_of_field(role)
            found |= {name: kind for name in names if found.get(name) != "label"}
        for name in self.names:
            found.setdefault(name, "feature")
        return found

    @cached_property
    def names(self):
        """Names of all columns that are read, each once."""
        names = [name for some in self.roles.values() for name in some]
        for some in self.columns.values():
            names += as_tuple(some)
        for condition in self.conditions:
            names += condition.names
        return list(dict.fromkeys(names))


def as_tuple(names):
    """Return a tuple of names, also of a single one."""
    return (names,) if isinstance(names, str) else tuple(names)


def logs_of_table(reading, table, start, rows=None, partitions=None):
    """Return the logs of the rows of a table."""
    fields = {
        name: _field(reading, name, names, table)
        for name, names in reading.roles.items()
        if name != "context"
    }
    stated = dict(reading.stated)
    if "propensity" in stated:
        fields["propensity"] = np.full(len(table), stated.pop("propensity"))
    weight = None
    if reading.log_type is SlateLogs:
        weight = fields.pop("sample_weight", None)
        fields.setdefault("reward", None)
    context = reading.roles.get("context", ())
    features = frame_of(table.select(list(context)), len(table))
    nothing = fields.get("sample_weight")
    if nothing is not None and not np.any(nothing):  # other parts weigh something
        fields["sample_weight"] = np.ones(len(table))
    logs = reading.log_type(features, **fields, **stated)
    if reading.log_type is BanditLogs and "actions" not in stated:
        reading.check_order(logs.actions, logs.loggers)
    if nothing is not None and not np.any(nothing):
        logs.__dict__["sample_weight"] = np.zeros(len(table))
    called = reading.roles.get("reward") or reading.roles.get("slot_reward", ())
    logs._name_reward(called[0] if len(called) == 1 else None)
    logs.__dict__["_origin"] = reading.origin
    logs.__dict__["_position"] = start if rows is None else start + rows
    if partitions is not None:
        logs.__dict__["_files"] = FileRows.of_partitions(partitions)
    added = {
        name: columns_as_array(table, as_tuple(some), isinstance(some, str))
        for name, some in reading.columns.items()
    }
    if weight is not None:
        added[WEIGHT_COLUMN] = weight
    return logs.with_columns(**added) if added else logs


def frame_of(table, n_rows):
    """Return a table of pyarrow as a frame that scikit-learn's transformers take."""
    if not table.num_columns:
        return np.empty((n_rows, 0))
    with suppress(ImportError):
        import pandas  # noqa: F401

        return table.to_pandas(split_blocks=True)  # without copies
    with suppress(ImportError):
        import polars

        return polars.from_arrow(table)
    return table


def _field(reading, name, names, table):
    """Return the values of a field as the constructor takes them."""
    if name in column_fields(several=True):
        found = columns_as_array(table, names, len(names) == 1)
        return found.reshape(len(table), -1) if len(table) else found
    if name == "timestamp":
        return _times(table, names[0])
    if kind_of_field(name) != "label":
        return plain_values(table, names[0], name)
    if len(names) > 1:  # parts of a composite group
        return table.select(list(names))
    listed = {"action": reading.stated.get("actions"), "logger": reading.loggers}
    return column_labels(table, names[0], listed.get(name), name)


def _times(table, name):
    """Return a column of times; texts such as 2026-01-01, which folders tell, too."""
    import pyarrow

    at = table.column_names.index(name)
    column = table.column(at)
    if is_text(column.type):
        with suppress(pyarrow.ArrowException):  # the constructor refuses them
            table = table.set_column(at, name, column.cast(pyarrow.timestamp("us")))
    return plain_values(table, name)


def column_labels(table, name, listed=None, field=None):
    """Return labels of a column, with their codes where these are found quickly."""
    column = table.column(name)
    _refuse_nulls(column, name, field)
    coded = column_codes(column)
    if coded is None:
        values = _numpy(column, exact=True)
        if listed is None or not len(values):
            return values
        codes = label_codes(listed, values)  # the constructor names a row that has -1
        return ColumnCodes(listed, codes, np.asarray(values), listed=field == "logger")
    if listed is None or field != "logger":
        return coded
    codes = label_codes(listed, coded.labels)[coded.codes]
    if codes.min(initial=0) < 0:
        row = int(np.flatnonzero(codes < 0)[0])
        raise RowError(
            f"column {name!r} holds {coded.values[row]!r}",
            row,
            f", which is not among the loggers {listed.tolist()} that were found.",
        )
    return ColumnCodes(listed, codes, coded.values, listed=True)


def plain_values(table, name, field=None):
    """Return a column without missing entries, that of a field, as a numpy array."""
    column = table.column(name)
    _refuse_nulls(column, name, field)
    return _numpy(column)


def columns_as_array(table, names, single):
    """Return columns side by side, or the lists of a single one, as an array."""
    from pyarrow import types

    if len(names) > 1 or not single:
        return np.column_stack([plain_values(table, name) for name in names])
    column = table.column(names[0])
    kind = column.type
    if not (types.is_list(kind) or types.is_large_list(kind)) and (
        not types.is_fixed_size_list(kind)
    ):
        return plain_values(table, names[0])
    _refuse_nulls(column, names[0])
    column = _one_chunk(column)
    inner = column.flatten()
    if types.is_fixed_size_list(kind):
        size = kind.list_size
    else:
        sizes = column.value_lengths().to_numpy(zero_copy_only=False)
        size = int(sizes[0]) if len(sizes) else 0
        off = np.flatnonzero(sizes != size)
        if off.size:
            raise RowError(
                f"column {names[0]!r} has a list of {sizes[off[0]]} entries",
                off[0],
                f" and one of {size} at the first row: all lists need the same length.",
            )
    if inner.null_count:
        row = int(np.flatnonzero(inner.is_null())[0]) // size
        raise RowError(f"column {names[0]!r} has a list with a missing entry", row)
    return _numpy(inner).reshape(len(column), size)


def _refuse_nulls(column, name, field=None):
    if column.null_count:
        row = int(np.flatnonzero(column.is_null().to_numpy())[0])
        raise RowError(
            f"column {name!r} has a missing value",
            row,
            f" ({column.null_count} such rows). {remedy_of(field)}",
        )


def _one_chunk(column):
    import pyarrow

    if isinstance(column, pyarrow.ChunkedArray):
        if column.num_chunks == 1:
            return column.chunk(0)
        column = column.combine_chunks()
        if isinstance(column, pyarrow.ChunkedArray):
            column = pyarrow.concat_arrays(column.chunks)
    return column


def _numpy(column, exact=False):
    """Return an array of which no copy needs to be made; `exact` keeps decimals."""
    from pyarrow import float64, types

    if types.is_dictionary(column.type) or is_text(column.type):
        coded = column_codes(column)
        if coded is not None:  # texts: rows share their labels
            return np.asarray(coded.values).view(Own)
        if types.is_dictionary(column.type):
            column = column.cast(column.type.value_type)
    elif types.is_decimal(column.type) and not exact:
        column = column.cast(float64())
    array = _one_chunk(column).to_numpy(zero_copy_only=False)
    return array.view(Own)


ROUNDS_OF_STRETCH = 1_000_000  # of a partition: a larger row group is read in stretches
ROUNDS_OF_TASK = 1 << 16  # rounds of a task, where there are many: every task costs
MOST_TASKS = 64  # of a description, and of rows that are asked


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
    return min(max(n_rows, 1 << 16), ROUNDS_OF_STRETCH)


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


def read_together(partitions):
    """Read partitions in turn, small ones that follow each other as one."""
    with PartReader() as reader:
        for some in _runs(partitions):
            joined = joined_logs(some, reader) if len(some) > 1 else None
            if joined is None:
                for one in some:
                    yield (one,), one.logs(reader)
            else:
                yield some, joined


def _runs(partitions):
    """Yield tuples of partitions that make no more than the rounds of a large one."""
    run, size = [], 0
    for one in partitions:
        n = one.n_rounds
        known = n is not None and one.start is not None
        follows = run and known and one.start == run[0].start + size
        if run and not (follows and size + n <= ROUNDS_OF_STRETCH):
            yield tuple(run)
            run, size = [], 0
        run.append(one)
        size = size + n if known else ROUNDS_OF_STRETCH
    if run:
        yield tuple(run)


def joined_logs(some, reader):
    """Return the rounds of several partitions, None where one of them is at fault."""
    import pyarrow

    try:
        tables = [one.kept(reader)[0] for one in _decoded_at_once(some)]
        table = pyarrow.concat_tables(tables)
        first = some[0]
        if not table:
            return None
        return logs_of_table(first.reading, table, first.start, partitions=some)
    except Exception:  # read one by one, it is told with its place
        return None


def _decoded_at_once(some):
    """Yield partitions in which whole row groups of a file are one: copies cost."""
    for file, found in groupby(some, lambda one: one.part.file_of_whole):
        first, *others = found
        if file is None or not others:
            yield from (first, *others)
        else:
            part = first.part.with_others([one.part for one in others])
            yield replace(first, part=part)
