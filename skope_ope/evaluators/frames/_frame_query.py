# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""One query for sums, extremes and counts over the rows of a lazy frame.

Rows that are not what they should be are counted in the same query, and refused:
null terms would vanish from the sums of a database in silence.
"""

from functools import cached_property
from math import inf

import numpy as np

from skope_ope.evaluators.frames._columns import (
    Column,
    all_of,
    are_finite,
    column,
    expression,
    label_known,
    where,
)
from skope_ope.logs._fields import FLOAT_MAX, remedy_of
from skope_ope.logs._frames import import_narwhals
from skope_ope.logs._labels import PRIME, ROOT, factorise
from skope_ope.logs._validation import plain

GUARD = "guard"  # the column that is null where a row is refused
CORRECT = "Drop or correct these rows."
INSTEAD = "write the frame to parquet files and scan these: scan_logs(folder, ...)."


class FrameQuery:
    """Columns of a lazy frame, and what is made of them, for one query or more."""

    def __init__(self, frame):
        self.frame, self.narwhals = frame, import_narwhals()
        self.backend = str(frame.implementation.name).lower()
        self._read, self._defined = {}, {}  # columns as they are, and made of them
        self.unguarded = None  # what is null where a check refuses a row
        self.checks = {}

    @cached_property
    def schema(self):
        """Types of the columns of the frame."""
        return self.frame.collect_schema()

    # -- columns -----------------------------------------------------------------
    def number(self, name, what):
        """Return the `Column` of numbers of a name, as floats."""
        dtype = self._type_of(name, what)
        if not (dtype.is_numeric() or dtype == self.narwhals.Boolean):
            raise TypeError(
                f"{what}: column {name!r} must hold numbers, got {dtype}. Cast it "
                "before the scan."
            )
        cast = self.narwhals.col(name).cast(self.narwhals.Float64)
        return self._reads(("number", name), cast)

    def refuse_codes(self, name, what):
        """Refuse integers and truth values where probabilities of one action belong."""
        dtype = self._type_of(name, what)
        if dtype.is_integer() or dtype == self.narwhals.Boolean:
            raise TypeError(
                f"{what}: column {name!r} holds {dtype}: actions, or probabilities? "
                "Probabilities of the logged actions are floats: cast them before the "
                "scan. Of labels make a column for every action, which is 1 where it "
                "is taken and 0 elsewhere: columns={name: [one per action]}."
            )

    def label(self, name, what):
        """Return the `Column` of the labels of a name."""
        dtype, read = self._type_of(name, what), self.narwhals.col(name)
        if getattr(dtype, "time_zone", None) and self.frame.implementation.is_polars():
            # labels are moments, and polars compares none with and without a zone
            read = read.dt.convert_time_zone("UTC").dt.replace_time_zone(None)
        return self._reads(("label", name, what), read)

    def bucket(self, name, n_buckets):
        """Return the hash buckets of integer labels, those of `label_hash`, or None."""
        # What hashes texts is not in all databases.
        dtype = self.schema[name]
        if not dtype.is_integer() or dtype == self.narwhals.UInt64:
            return None
        number = self.narwhals.col(name).cast(self.narwhals.Int64) % PRIME
        return self._reads(("bucket", name), number * ROOT % PRIME % n_buckets)

    def _type_of(self, name, what):
        if name not in self.schema.names():
            raise ValueError(
                f"{what}: the frame has no column {name!r}. It has "
                f"{self.schema.names()}."
            )
        return self.schema[name]

    def _reads(self, key, found):
        if key not in self._read:
            self._read[key] = f"c{len(self._read)}", found
        return column(self._read[key][0])

    def define(self, found):
        """Return a `Column` that is computed once, whatever it is used for."""
        if found.key[0] == "column":
            return found
        name = self._defined.setdefault(found.key, f"d{len(self._defined)}")
        return column(name)

    def guarded(self, found):
        """Return a column that is null in every row that a check refuses."""
        # So one count tells whether there are any, and nothing is computed of what is
        # out of its limits, which some libraries answer by another error. No check may
        # depend on it.
        self.unguarded = found
        return column(GUARD)

    def _levels(self, wanted):
        """Return the definitions that some columns need, in lists."""
        # Those of a list depend on lists before it only.
        defined = {name: Column(*key) for key, name in self._defined.items()}
        if self.unguarded is not None:
            numbers = [one for _, one, *_ in self.checks.values() if one is not None]
            passed = [*(ok for ok, *_ in self.checks.values()), are_finite(numbers)]
            defined[GUARD] = where(all_of(passed), self.unguarded, None)
        depth, levels = {}, []

        def place(name):
            if name in defined and name not in depth:
                depth[name] = 1 + max(map(place, defined[name].names()), default=0)
            return depth.get(name, 0)

        for name in wanted:
            place(name)
        for name, level in depth.items():
            levels += [{} for _ in range(level - len(levels))]
            levels[level - 1][name] = defined[name]
        return levels

    # -- rows that are refused ---------------------------------------------------
    def check(self, ok, message, number=None, is_told=False, field=None):
        """Refuse rows where a flag is not true, or null, or a number is not finite."""
        self.checks[message] = ok, number, is_told, remedy_of(field, CORRECT)

    def check_number(self, found, message, low=-FLOAT_MAX, high=FLOAT_MAX, field=None):
        """Refuse rows whose entry is null, NaN, or not within limits."""
        # two-sided: engines differ in whether NaN is larger than all numbers
        ok = (found >= low) & (found <= high)
        self.check(ok, message, found, is_told=True, field=field)

    def check_label(self, name, label, message, field=None):
        """Refuse rows without a label, and those whose label is NaN."""
        number = label if self.schema[name].is_float() else None
        self.check(label_known(label.key[1]), message, number, field=field)

    def refusal(self, n_rows):
        """Return what is said of the rows that are not what they should be."""
        asking, asked, told, remedies = Asking(self), [], [], {}
        for message, (ok, number, is_told, remedy) in self.checks.items():
            good = ok if number is None else ok & are_finite([number])
            bad = where(good, 0.0, 1.0)
            least = where(good, FLOAT_MAX, number) if is_told else bad
            names = asking.sum(bad), asking.least(least)
            asked.append((message, is_told, remedy, *names))
        row = asking.asked({}).collect()
        for message, is_told, remedy, *names in asked:
            n, least = (float(row[name].to_numpy()[0]) for name in names)
            what = (
                f", the least is {least:.9g}"
                if least < FLOAT_MAX
                else ", missing or not finite"
            )
            if n:
                rows = f"{int(n):,} of {int(n_rows):,} rows{what if is_told else ''}"
                told.append(f"{message} ({rows})")
                remedies[remedy] = None
        return f"{'; '.join(told)}. {' '.join(remedies)}"

    # -- answers -----------------------------------------------------------------
    def first_row(self, columns):
        """Return what some columns are in one row, a list of floats."""
        names = [found.key[1] for found in columns]
        row = self.prepared(names).select(*dict.fromkeys(names)).head(1).collect()
        return [float(row[name].to_numpy()[0]) for name in names]

    def prepared(self, wanted):
        """Return the frame of the columns that were read, and of some that are made."""
        narwhals = self.narwhals
        read = [found.alias(name) for name, found in self._read.values()]
        frame = self.frame.select(*read)
        for level in self._levels(wanted):
            frame = frame.with_columns(
                *(expression(c, narwhals).alias(name) for name, c in level.items())
            )
        return frame


class Asking:
    """Sums and extremes of columns: one query."""

    def __init__(self, query):
        self.query, self._asked = query, {}

    def sum(self, found):
        """Ask for the sum of a column, None for ones; returns a name."""
        return "n" if found is None else self._ask("sum", found)

    def least(self, found):
        """Ask for the smallest entry of a column."""
        return self._ask("min", found)

    def largest(self, found):
        """Ask for the largest entry of a column."""
        return self._ask("max", found)

    def _ask(self, how, found):
        if self.query.backend == "dask":  # it aggregates columns, not expressions
            found = self.query.define(found)
        return self._asked.setdefault((how, found.key), f"a{len(self._asked)}")

    def run(self, keys, n_most=None):
        """Return the answers by some keys, which are columns by name."""
        query = self.query
        good = "n" if query.unguarded is None else self._ask("count", column(GUARD))
        try:
            asked = self.asked({name: key.key[1] for name, key in keys.items()})
            if n_most is not None:
                asked = asked.head(n_most + 1)
            how = {"engine": "streaming"} if query.backend == "polars" else {}
            rows = asked.collect(**how)
        except (RuntimeError, AttributeError, _narwhals_error()) as error:
            raise TypeError(
                f"{query.backend} cannot compute these sums: {error} You can {INSTEAD}"
            ) from error
        labels = {name: _labels(rows[key.key[1]]) for name, key in keys.items()}
        names = ["n", *self._asked.values()]
        columns = {name: np.asarray(rows[name].to_numpy(), float) for name in names}
        n, n_good = columns["n"].sum(), columns[good].sum()
        if not n:
            raise ValueError(
                "the lazy frame has no rows: an estimate needs at least one round."
            )
        if n_good != n:
            raise ValueError(query.refusal(n))
        return Answers(labels, columns)

    def asked(self, keys):
        """Return the frame of the answers."""
        narwhals = self.query.narwhals
        wanted, names = [narwhals.len().alias("n")], set(keys.values())
        for (how, key), name in self._asked.items():
            found = Column(*key)
            names |= found.names()
            wanted.append(getattr(expression(found, narwhals), how)().alias(name))
        frame = self.query.prepared(sorted(names))
        if not keys:
            return frame.select(*wanted)
        return frame.group_by(*keys.values()).agg(*wanted)


def _narwhals_error():
    from narwhals.exceptions import NarwhalsError

    return NarwhalsError


class Answers:
    """Answers of a lazy frame, a row for every combination of keys."""

    def __init__(self, keys, columns):
        self.keys, self._columns = keys, columns
        self._strata = {}

    def __len__(self):
        return len(self._columns["n"])

    def __getitem__(self, name):
        return self._columns[name]

    def strata(self, key):
        """Return the labels of a key, and which of them every row has."""
        if key is None:
            return np.array([None]), np.zeros(len(self), dtype=np.intp)
        if key not in self._strata:
            self._strata[key] = factorise(self.keys[key])
        return self._strata[key]

    def of(self, name, key=None, upper=False):
        """Return sums by the labels of a key, of all rounds or of the upper half."""
        labels, code = self.strata(key)
        some = np.where(self.keys["half"], self[name], 0.0) if upper else self[name]
        return np.bincount(code, some, len(labels))

    def total(self, name):
        """Return the sum of all rounds."""
        return float(self[name].sum())

    def least(self, name):
        """Return the smallest entry."""
        return float(np.fmin.reduce(self[name], initial=inf))

    def largest(self, name, key=None):
        """Return the largest entries by the labels of a key."""
        labels, code = self.strata(key)
        out = np.full(len(labels), -inf)
        np.fmax.at(out, code, self[name])
        return out

    def largest_by_label(self, name, key=None):
        """Return the same as a dict, of the labels that have one."""
        labels, found = self.strata(key)[0].tolist(), self.largest(name, key).tolist()
        pairs = zip(labels, found, strict=True)
        return {label: one for label, one in pairs if one > -inf}

    def most(self, name):
        """Return the largest entry."""
        return float(np.fmax.reduce(self[name], initial=-inf))

    def by(self, key):
        """Return the answers of every label of a key, by label."""
        labels, codes = self.strata(key)
        return {
            plain(label): self._some(np.flatnonzero(codes == k))
            for k, label in enumerate(labels.tolist())
        }

    def _some(self, rows):
        parts = (self.keys, self._columns)
        return Answers(*({k: one[rows] for k, one in part.items()} for part in parts))


def _labels(series):
    """Return labels as an array of one kind, or of objects; None for nulls."""
    missing = np.asarray(series.is_null().to_numpy(), dtype=bool)
    values = series.to_numpy()
    if values.dtype.kind in "OT" or missing.any():
        out = np.empty(len(series), dtype=object)
        out[:] = series.to_list()
        out[missing] = None
        return out
    return values
