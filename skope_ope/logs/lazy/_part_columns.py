# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Logs from the columns of an arrow table: the rows of one partition."""

from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from skope_ope.exceptions import RowError
from skope_ope.logs._bandit_logs import BanditLogs
from skope_ope.logs._coded_labels import ColumnCodes, column_codes
from skope_ope.logs._columns_of_labels import check_tables
from skope_ope.logs._known_rows import FileRows
from skope_ope.logs._row_container import Own
from skope_ope.logs._slate_fields import WEIGHT_COLUMN
from skope_ope.logs._slate_logs import SlateLogs
from skope_ope.logs._validation import label_codes, remedy_of
from skope_ope.logs.lazy._column_types import is_text

LABELS = ("action", "logger", "group")
TABLES = ("logging_proba", "logger_proba", "slate", "slot_reward")


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
        labels = {self.roles[field][0] for field in LABELS if field in self.roles}
        used = [name for some in self.columns.values() for name in as_tuple(some)]
        others = {*self.roles.get("context", ()), *used}
        names = [name for name in labels - others if name in self.types]
        return sorted(name for name in names if is_text(self.types[name]))

    @cached_property
    def uses(self):
        """What every column is used as: number, label, time or feature."""
        found = {}
        for role, names in self.roles.items():
            kind = "label" if role in LABELS else "number"
            kind = {"context": "feature", "timestamp": "time"}.get(role, kind)
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
    logs.__dict__["_origin"] = reading.origin
    logs.__dict__["_position"] = start if rows is None else start + rows
    if partitions is not None:
        logs.__dict__["_files"] = FileRows.of_partitions(partitions)
    added = {
        name: table_of(table, as_tuple(some), isinstance(some, str))
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
    if name in TABLES:
        found = table_of(table, names, len(names) == 1)
        return found.reshape(len(table), -1) if len(table) else found
    if name == "timestamp":
        return _times(table, names[0])
    if name not in LABELS:
        return plain_values(table, names[0], name)
    if len(names) > 1:  # parts of a composite group
        return table.select(list(names))
    listed = {"action": reading.stated.get("actions"), "logger": reading.loggers}
    return labels_of(table, names[0], listed.get(name), name == "logger")


def _times(table, name):
    """Return a column of times; texts such as 2026-01-01, which folders tell, too."""
    import pyarrow

    at = table.column_names.index(name)
    column = table.column(at)
    if is_text(column.type):
        with suppress(pyarrow.ArrowException):  # the constructor refuses them
            table = table.set_column(at, name, column.cast(pyarrow.timestamp("us")))
    return plain_values(table, name)


def labels_of(table, name, listed=None, all_of_them=False):
    """Return labels of a column, with their codes where these are found quickly."""
    column = table.column(name)
    _refuse_nulls(column, name)
    coded = column_codes(column)
    if coded is None:
        values = _numpy(column, exact=True)
        if listed is None or not len(values):
            return values
        codes = label_codes(listed, values)  # the constructor names a row that has -1
        return ColumnCodes(listed, codes, np.asarray(values), listed=all_of_them)
    if listed is None or not all_of_them:
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


def table_of(table, names, single):
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
