# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Lazy frames, and the conditions by which rows of frames and of files are kept."""

import importlib
from copy import copy
from dataclasses import replace
from hashlib import sha256

import numpy as np
from sklearn.utils.random import sample_without_replacement

from skope_ope._texts import meant
from skope_ope.logs._frames import import_narwhals
from skope_ope.logs._labels import NO_KIND

RAY = (
    "scan_logs does not accept a Ray Dataset: its blocks have no names, so rounds "
    "could be counted twice. Write it as parquet, dataset.write_parquet(folder), and "
    "scan the folder. joblib.parallel_config('ray') uses the workers of Ray."
)

SQL = ("duckdb", "pyspark")  # their filters take texts


def is_dataset(source):
    """Tell whether the source is a Dataset of pyarrow."""
    return any(
        cls.__name__ == "Dataset" and cls.__module__.startswith("pyarrow")
        for cls in type(source).__mro__
    )


def lazy_frame(source):
    """Return the narwhals LazyFrame of a lazy frame of any library."""
    kind = type(source)
    if kind.__module__.split(".")[0] == "ray":
        raise TypeError(RAY)
    narwhals = import_narwhals()
    if kind.__module__.split(".")[0] == "narwhals":  # of any of its versions
        source = source.to_native()
    frame = narwhals.from_native(source, pass_through=True)
    if isinstance(frame, narwhals.LazyFrame):
        return frame
    if isinstance(frame, narwhals.DataFrame):
        raise TypeError(
            f"this {kind.__module__.split('.')[0]} {kind.__name__} is in memory "
            f"already ({len(frame):,} rows). Pass it to BanditLogs.from_frame. "
            "scan_logs takes files and lazy frames, such as frame.lazy() of polars."
        )
    raise TypeError(
        "scan_logs takes a path, folder, glob, list of files, a pyarrow Dataset or a "
        f"lazy frame (polars, duckdb, Dask, Spark, Ibis), got {kind.__name__}."
    )


def _library(thing):
    return type(thing).__module__.split(".")[0].lstrip("_")


class ScannedFrame:
    """A lazy frame, of which the columns are known."""

    parts = None

    def __init__(self, frame):
        self.frame, self.seen = frame, (0, None)
        self.columns = frame.collect_schema().names()

    def label_kind(self, name, types):
        """Return the kind of the labels in a column, as the frame tells it."""
        nw, dtype = import_narwhals(), self.frame.collect_schema()[name]
        if dtype.is_numeric():
            return "numbers"
        if dtype.is_temporal():
            return "durations" if dtype == nw.Duration else "times"
        kinds = {"bools": (nw.Boolean,), "texts": (nw.String, nw.Categorical, nw.Enum)}
        found = (kind for kind, some in kinds.items() if dtype in some)
        return next(found, NO_KIND)

    def first(self, n, names):
        """Return the first rows of some columns, a pyarrow Table."""
        n_seen, table = self.seen
        if n > n_seen or not set(names) <= set(table.column_names):
            table = self.frame.select(*names).head(n).collect("pyarrow").to_native()
        return table.select(names).slice(0, n)

    def seeing(self, n, names):
        """Return the same frame, whose first rows are not asked for again."""
        out = copy(self)
        out.seen = n, self.first(n, names)
        return out

    def types(self, uses):
        """Raise where a column is missing or holds texts in place of numbers."""
        # The frame knows the types itself.
        for name, use in uses.items():
            if name not in self.columns:
                raise ValueError(
                    f"column {name!r} is not in the frame; it has "
                    f"{', '.join(map(repr, self.columns))}.{meant(name, self.columns)}"
                )
            if use == "number" and self.label_kind(name, {}) == "texts":
                raise TypeError(
                    f"column {name!r} must hold numbers, and holds texts. Cast it "
                    f"before the scan, in SQL CAST({name} AS DOUBLE)."
                )
        return {}

    def origin(self):
        """Token of the frame: what its library says of the query."""
        kind = str(self.frame.implementation)
        told = [kind, self.columns]
        if kind in ("polars", "duckdb"):  # others print what they explain
            told.append(self.frame.to_native().explain())
        return sha256(repr(told).encode()).hexdigest()[:40]

    def filter(self, what):
        """Return the frame of the rows that fulfil a condition."""
        native = self.frame.to_native()
        if is_expression(what, "narwhals", "Expr"):
            own = importlib.import_module(module_of(what))
            native = own.from_native(native).filter(what).to_native()
        elif _library(what) == _library(native) or (
            isinstance(what, str) and _library(native) in SQL
        ):
            native = native.filter(what)
        else:
            raise TypeError(
                "filter takes an expression, such as narwhals.col('age') > 30, or one "
                f"of the library of the frame; got {type(what).__name__}."
            )
        return ScannedFrame(lazy_frame(native))


def sample_of_frame(frame, names, n, random_state):
    """Return rows of a frame drawn at random, each as likely as any other."""
    narwhals, library = import_narwhals(), str(frame.implementation)
    frame = frame.select(*names)
    if library == "polars":
        counted = frame.select(n=narwhals.len()).collect("pyarrow")
        total = int(counted["n"][0])
        drawn = np.arange(total)
        if n < total:
            drawn = sample_without_replacement(total, n, random_state=random_state)
            drawn = np.sort(drawn)
        native = frame.to_native().with_row_index(ROW)
        chosen = narwhals.col(ROW).is_in(drawn.tolist())
        native = narwhals.from_native(native).filter(chosen)
        return native.drop(ROW).collect("pyarrow").to_native(), drawn
    if library == "duckdb":
        columns = ", ".join('"' + name.replace('"', '""') + '"' for name in names)
        seed = random_state.randint(2**31 - 1)
        query = (
            f"SELECT {columns} FROM log USING SAMPLE reservoir({n} ROWS) "
            f"REPEATABLE ({seed})"
        )
        found = narwhals.from_native(frame.to_native().query("log", query))
        return found.collect("pyarrow").to_native(), None
    raise TypeError(
        f"rows of {library} frames have no numbers to draw them by. Draw rows with the "
        "functions of the library and pass them to BanditLogs.from_frame. Or write the "
        "frame as parquet and scan that."
    )


ROW = "__row__"  # a column that numbers the rows, while rows are chosen
ALONE = (
    "the filter compares a row with other rows, such as with their mean. Files are "
    "read in parts, so the result would depend on the parts. Compute the number "
    "first, and compare with that."
)


class Condition:
    """A condition that every row of a table fulfils or not."""

    def __init__(self, what, empty):
        if not (is_expression(what, "narwhals", "Expr") or callable(what)) and (
            not is_expression(what, "pyarrow", "Expression")
        ):
            raise TypeError(
                "filter takes an expression, such as narwhals.col('age') > 30 or "
                "pyarrow.compute.field('age') > 30, or a function of a narwhals frame "
                f"that returns a mask; got {type(what).__name__}."
            )
        self.what, self.names = what, ()
        try:
            self.mask(empty)
        except Exception as error:  # every library has its own for a missing column
            typed = [f"{one.name}: {one.type}" for one in empty.schema]
            told = str(error).strip("'").partition("\n")[0]  # lists of columns follow
            told = told.removesuffix(f" in {typed[0]}").removesuffix(".")
            raise ValueError(
                f"the filter does not fit these columns: {told}. They are "
                f"{', '.join(typed)}. Columns from names of folders are texts, as "
                "in field('day') >= '2026-11-01'."
            ) from error
        self.names = tuple(n for n in empty.column_names if self._needs(n, empty))

    def _needs(self, name, empty):
        try:
            self.mask(empty.drop_columns([name]))
        except Exception:
            return True
        return False

    def mask(self, table):
        """Return which rows of a table of pyarrow are kept; missing answers are no."""
        mask = self._answer(table)
        if len(table) > 1 and not is_expression(self.what, "pyarrow", "Expression"):
            for row in {int(mask.argmin()), int(mask.argmax())}:
                if self._answer(table.slice(row, 1))[0] != mask[row]:
                    raise ValueError(ALONE)
        return mask

    def _answer(self, table):
        import pyarrow

        if is_expression(self.what, "pyarrow", "Expression"):
            rows = pyarrow.array(np.arange(len(table)))
            kept = table.append_column(ROW, rows).filter(self.what)[ROW]
            mask = np.zeros(len(table), dtype=bool)
            mask[kept.to_numpy()] = True
            return mask
        narwhals = import_narwhals()
        if callable(self.what):
            found = self.what(narwhals.from_native(table, eager_only=True))
        else:
            own = importlib.import_module(module_of(self.what))
            frame = own.from_native(table, eager_only=True)
            found = frame.select(self.what.alias(ROW))[ROW]
        found = getattr(found, "to_native", lambda: found)()
        if hasattr(found, "fill_null"):  # of pyarrow
            found = found.fill_null(False) if found.null_count else found
            found = found.to_numpy(zero_copy_only=False) if len(found) else []
        mask = np.asarray(found)
        if mask.shape != (len(table),) or (mask.dtype != bool and len(table)):
            raise TypeError(
                "a filter must give one boolean for every row, got dtype "
                f"{mask.dtype}, shape {mask.shape} for {len(table)} rows."
            )
        return mask.astype(bool)


def is_expression(what, library, name):
    """Tell whether an object is an expression of a library."""
    return any(
        cls.__name__ == name and cls.__module__.split(".")[0] == library
        for cls in type(what).__mro__
    )


def module_of(expression):
    """Return the module of narwhals that an expression was made with."""
    module = type(expression).__module__
    for stable in ("narwhals.stable.v2", "narwhals.stable.v1"):
        if module.startswith(stable):
            return stable
    return "narwhals"


def filtered(logs, what):
    """Return lazy logs of the rows that fulfil a condition."""
    if logs.frame is not None:
        return logs._of(logs._scanned.filter(what))
    scanned = logs._scanned
    condition = Condition(what, scanned.empty_table())
    if condition.names and set(condition.names) <= set(scanned.folder_columns):
        return logs._of(
            scanned.only(lambda said: bool(condition.mask(scanned.one_row(said))[0]))
        )
    reading = replace(logs._reading, conditions=(*logs._reading.conditions, condition))
    return logs._of(scanned, replace(reading, types=scanned.types(reading.uses)))
