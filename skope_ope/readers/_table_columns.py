# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Columns of csv, JSON lines and parquet files as arrays, by name and kind.

A kind says what a column is wanted for:

- "action", "reward" and other fields of logs: see `FIELDS`; the advice where an
  entry is missing is that of the field;
- "number": finite floats; nothing may be missing;
- "label": ints, floats, booleans or texts, as the distinct values look;
- "moment": numbers, or datetimes in UTC;
- "feature": floats, NaN where missing, or `Texts` where any value is text;
- "cell", of JSON lines alone: floats, or objects where any is a text, None if missing.

csv and JSON lines need neither pandas nor pyarrow, parquet needs pyarrow.
"""

import json
import os
import re
from fnmatch import fnmatchcase
from functools import partial

import numpy as np

from skope_ope._texts import meant
from skope_ope.exceptions import LogsWarning, RowError, warn_user
from skope_ope.logs._fields import DROP_OR_FILL, FIELDS, kind_of_field, remedy_of
from skope_ope.logs._frames import check_context_names, choose_context
from skope_ope.logs._text_files import (
    DROP,
    CsvFile,
    Texts,
    bad_cell,
    cell_labels,
    cell_number,
    coded_texts,
    empty_file,
    is_missing_word,
    numbers_of,
    open_bytes,
    quoted,
    text_columns,
    utc_microseconds,
)
from skope_ope.logs._validation import several_numbers
from skope_ope.readers._json_lines import (
    DROP_LINE,
    field_names,
    getter,
    line_of_object,
    read_objects,
)

MOSTLY_NUMBERS = 0.9  # share of numbers from which a text among them is told


class _ReadColumn:
    """A column of a file; a method for every kind that is no field."""

    remedy = DROP_OR_FILL  # where an entry is missing

    def of(self, kind):
        """Return the values as a kind wants them."""
        self.remedy = remedy_of(kind, self.remedy)
        self.ndim = len(FIELDS[kind].axes[0]) if kind in FIELDS else 1
        return getattr(self, kind_of_field(kind))()


def csv_at(path):
    """Return a csv file, plain or packed by gzip or zstd."""
    return CsvFile(os.fspath(path), partial(open_bytes, path))


def line_of_row(path, row):
    """Return the line on which a row of a csv file begins; rows count from 0."""
    return csv_at(path).line_of_row(row)


def read_csv(path, wanted, report=None):
    """Read columns of a csv file, a dict by (name, kind)."""
    file = csv_at(path)
    places = {key: file.header.index(key[0]) for key in wanted}
    labels = {
        place for (_, kind), place in places.items() if kind_of_field(kind) == "label"
    }
    texts = {place: place in labels for place in places.values()}
    cells = read_cells(file, texts, report)
    try:
        return {
            (name, kind): _CsvColumn(file, name, cells[place]).of(kind)
            for (name, kind), place in places.items()
        }
    except RowError as error:
        raise located(file, error) from error


def located(file, error):
    """Return an error of a row with the name of the file and the line."""
    before, row, after = error.args
    return ValueError(f"{file.name}, line {file.line_of_row(row)}: {before}{after}")


def read_cells(file, texts, report=None):
    """Return columns as floats, NaN where missing, or as `Texts`; a dict by place."""
    # `texts` are the places of the columns, and which of them are texts anyhow.
    parts = {place: [] for place in texts}
    seen = {place: {} for place in texts}
    n_rows = 0
    for _, block in file.blocks():
        found = file.columns(block, text_columns, texts)
        late = {
            place
            for place, part in found.items()
            if isinstance(part, Texts)
            and not (texts[place] or _fill(part, found, place))
        }
        if late:  # texts among numbers: read these columns as texts, from the first row
            return read_cells(
                file, {p: told or p in late for p, told in texts.items()}, report
            )
        for place, part in found.items():
            if isinstance(part, Texts):
                part = coded_texts(part.values, seen[place]).codes[part.codes]
            parts[place].append(part)
        n_rows += len(part)
        if report is not None:
            report(n_rows)
    if not n_rows:
        raise empty_file(file.name)
    arrays = {place: np.concatenate(parts.pop(place)) for place in texts}
    return {p: Texts(arrays[p], list(seen[p])) if seen[p] else arrays[p] for p in texts}


def _fill(part, found, place):
    """Put the numbers of texts in their place; return whether all of them are such."""
    try:
        found[place] = np.array([*map(cell_number, part.values)])[part.codes]
    except ValueError:
        return False
    return True


class _CsvColumn(_ReadColumn):
    """The cells of a column, floats or `Texts`."""

    remedy = DROP

    def __init__(self, file, name, cells):
        self.file, self.name, self.cells = file, name, cells

    def number(self):
        """Return finite numbers."""
        return numbers_of(self.name, self.cells, self.remedy, ndim=self.ndim)

    def label(self):
        """Return texts, integers, floats or booleans."""
        labels, codes = cell_labels(self.name, self.cells, remedy=self.remedy)
        return labels[codes]

    def moment(self):
        """Return numbers or datetimes."""
        cells = self.cells
        if not isinstance(cells, Texts):
            return self.number()
        what = f"a number or {A_MOMENT}"
        return moments_of(
            cells.values,
            lambda code: bad_cell(self.name, cells, cells.values[code], what),
        )[cells.codes]

    def feature(self):
        """Return numbers, NaN where one is missing, or texts, "" where one is."""
        cells = self.cells
        is_text = []
        if isinstance(cells, Texts):
            is_text = [*map(_is_no_number, cells.values)]
        if not any(is_text):
            return numbers_of(self.name, cells, optional=True)
        odd = np.array(is_text)[cells.codes]
        n_texts = int(odd.sum())
        if n_texts <= (1 - MOSTLY_NUMBERS) * len(cells):
            row = int(odd.argmax())
            found = quoted(cells.values[cells.codes[row]])
            told = (
                f"{self.file.name}, line {self.file.line_of_row(row)}: column "
                f"{self.name!r} is {found} among numbers ({n_texts} such rows), so the "
                "whole column is read as texts. Correct these cells, or leave them "
                "empty."
            )
            warn_user([LogsWarning(told, n_texts)])
        known = coded_texts(
            ["" if is_missing_word(text) else text for text in cells.values]
        )
        return Texts(known.codes[cells.codes], known.values)


def _is_no_number(cell):
    try:
        cell_number(cell)
    except ValueError:
        return True
    return False


# -- many datetimes at once, where they are written in the plain way -------------------
# That is `2026-01-31 12:00:00`, also with a T, with up to six digits of a fraction, and
# with the zone of UTC. Then NumPy reads them: of others it takes more than
# `utc_microseconds` does, and old versions of it crash at a wrong day.

A_MOMENT = "a datetime like 2026-01-31 12:00:00"
PLAIN_MOMENT = re.compile(
    "((?!0000)[0-9]{4}-(?:(?:0[1-9]|1[0-2])-(?:0[1-9]|1[0-9]|2[0-8])"
    "|(?:0[13-9]|1[0-2])-(?:29|30)|(?:0[13578]|1[02])-31)"
    r"[ T](?:[01][0-9]|2[0-3])(?::[0-5][0-9]){2}(?:\.[0-9]{1,6})?)(?:Z|\+00:00)?"
)


def moments_of(texts, error_of):
    """Return texts as datetimes, or raise `error_of(row)` at one that is none."""
    plain = [one[1] if one else "NaT" for one in map(PLAIN_MOMENT.fullmatch, texts)]
    moments = np.array(plain, dtype="datetime64[us]")
    for row in np.flatnonzero(np.isnat(moments)):
        try:
            found = utc_microseconds(texts[row].strip())
        except (ValueError, OverflowError):
            raise error_of(row) from None
        moments[row] = np.datetime64(found, "us")
    return moments


COLUMNS_SHOWN = 12  # column names in a message
LINE_OF = {"csv": line_of_row, "jsonl": line_of_object, "parquet": None}  # a row
TABLE_FORMATS = tuple(LINE_OF)


def names_of_columns(path, *, format="csv", skip=False):
    """Return the names of the columns of a file, in their order."""
    if format == "jsonl":
        return field_names(path, skip)
    if format == "parquet":
        with open_parquet(path) as file:
            return list(file.schema_arrow.names)
    return csv_at(path).header


def read_columns(path, wanted, *, format="csv", names=None, report=None, skip=False):
    """Read columns of a file of a table; `skip` lines that are no JSON objects."""
    wanted = list(dict.fromkeys(wanted))
    if names is None:
        names = names_of_columns(path, format=format, skip=skip)
    check_names(path, names, [name for name, _ in wanted])
    if format == "parquet":
        return read_parquet(path, wanted)
    if format == "jsonl":
        return read_jsonl_columns(path, wanted, report, skip)
    return read_csv(path, wanted, report)


def check_names(path, names, needed):
    """Raise unless `names` are distinct and hold all that is needed."""
    twice = sorted({name for name in needed if names.count(name) > 1})
    if twice:
        raise ValueError(
            f"{path} has several columns {twice[0]!r}. Give each column its own name."
        )
    missing = [name for name in needed if name not in names]
    if missing:
        shown = ", ".join(map(quoted, names[:COLUMNS_SHOWN]))
        n_more = len(names) - COLUMNS_SHOWN
        more = f" and {n_more} more" if n_more > 0 else ""
        raise ValueError(
            f"{path} has no column {missing[0]!r}.{meant(missing[0], names)} It has "
            f"{shown}{more}."
        )


def import_pandas(why):
    """Return pandas, or raise the error that says what needs it."""
    try:
        import pandas
    except ImportError as error:
        needed = f"{why} needs pandas: pip install 'skope-ope[frames]'."
        raise ImportError(needed) from error
    return pandas


def pandas_frame(columns, why):
    """Return a pandas frame of columns that were read."""
    arrays = {
        name: values.array() if isinstance(values, Texts) else values
        for name, values in columns.items()
    }
    return import_pandas(why).DataFrame(arrays)


# -- what users call the columns of a file: by name, by object or by pattern -----------


def inner_fields(name, names):
    """Return the fields of an object or a list, [] where it is none."""
    return [one for one in names if one.startswith(f"{name}.")]


def only_stars(name, names):
    """Tell whether a pattern matches every column."""
    return name not in names and set(name) <= set("*?")


def fields_of_context(path, names, others, context, exclude, fields, say):
    """Return the columns of the context."""
    all_others = any(only_stars(name, names) for name in context or ())
    if exclude is not None:
        exclude = matched(exclude, names, names, say[1])
        check_names(path, names, exclude)
    if context is None or all_others or exclude is not None:
        named = None if all_others else context
        return choose_context(others, named, exclude, say=say)
    check_context_names([name for name in context if name in names], fields)
    found = matched(context, names, others, "the context")
    check_names(path, names, found)
    check_context_names(found, fields)
    return found


def matched(wanted, names, others, of):
    """Return names, objects by what they hold and patterns by what they match."""
    found = []
    for one in wanted:
        inner = inner_fields(one, names)
        if one in names or not (inner or set("*?[") & set(one)):
            found.append(one)
            continue
        inner = inner or [name for name in others if fnmatchcase(name, one)]
        if not inner:
            raise ValueError(f"no column for {of} matches {one!r}.")
        found += inner
    return list(dict.fromkeys(found))


# -- columns of parquet files as arrays; pyarrow is imported when such a file comes ----


def open_parquet(path):
    """Open a parquet file, which must be closed."""
    try:
        from pyarrow import ArrowException, parquet
    except ImportError as error:
        raise ImportError(
            f"{path}: parquet files need pyarrow: pip install 'skope-ope[frames]'. Or "
            "save the log as csv."
        ) from error
    try:
        return parquet.ParquetFile(path)
    except (ArrowException, OSError) as error:
        raise ValueError(f"{path} cannot be read as parquet: {error}.") from error


def read_parquet(path, wanted):
    """Read columns of a parquet file, a dict by (name, kind)."""
    from pyarrow import ArrowException

    with open_parquet(path) as file:
        try:
            table = file.read(columns=list(dict.fromkeys(name for name, _ in wanted)))
        except (ArrowException, OSError) as error:
            raise ValueError(f"{path} cannot be read: {error}.") from error
    if not table.num_rows:
        raise empty_file(path)
    return {
        (name, kind): _ParquetColumn(path, name, table.column(name)).of(kind)
        for name, kind in wanted
    }


class _ParquetColumn(_ReadColumn):
    """A column of a parquet file."""

    def __init__(self, path, name, values):
        from pyarrow import types

        self.path, self.name, self.values = path, name, values
        self.type = values.type
        is_dictionary = types.is_dictionary(self.type)
        kind = str(self.type.value_type if is_dictionary else self.type)
        self.is_text = kind in ("string", "large_string", "string_view")
        self.is_bytes = "binary" in kind

    def refuse(self, what, wrong):
        """Raise where rows are wrong."""
        rows = np.flatnonzero(wrong)
        if rows.size:
            raise ValueError(
                f"{self.path}: column {self.name!r} is {what} at row {rows[0]} "
                f"({rows.size} such rows). {self.remedy}"
            )

    def refuse_nulls(self):
        """Raise where values are missing."""
        if self.values.null_count:
            self.refuse("missing", self.values.is_null().to_numpy())

    def wrong_type(self, expected):
        """Return the error of a column that holds something else."""
        return ValueError(
            f"{self.path}: column {self.name!r} has type {self.type}, expected "
            f"{expected}. Name another column, or convert it where the file is written."
        )

    def floats(self):
        """Return numbers, NaN where one is missing."""
        import pyarrow

        if self.is_text or self.is_bytes:  # pyarrow would parse them
            raise self.wrong_type("numbers")
        values = self.values
        try:
            if pyarrow.types.is_boolean(self.type):
                values = values.cast(pyarrow.int8())
            return values.cast(pyarrow.float64(), safe=False).to_numpy()
        except pyarrow.ArrowException:
            raise self.wrong_type("numbers") from None

    def number(self):
        """Return finite numbers."""
        self.refuse_nulls()
        numbers = self.floats()
        self.refuse("not finite", ~np.isfinite(numbers))
        return numbers

    def label(self):
        """Return texts, numbers or booleans."""
        from pyarrow.types import is_nested

        self.refuse_nulls()
        if self.is_text:
            labels = np.array(self.values.to_pylist())
            self.refuse("empty", labels == "")
            return labels
        if is_nested(self.type) or self.is_bytes:
            raise self.wrong_type("texts, numbers or booleans")
        return self.values.to_numpy()

    def moment(self):
        """Return numbers or datetimes."""
        from pyarrow import types

        self.refuse_nulls()
        if types.is_timestamp(self.type) or types.is_date(self.type):
            return self.values.to_numpy().astype("datetime64[us]")
        if not self.is_text:
            return self.number()
        moments = np.empty(len(self.values), dtype=np.int64)
        for row, text in enumerate(self.values.to_pylist()):
            try:
                moments[row] = utc_microseconds(text)
            except (ValueError, OverflowError) as error:
                raise ValueError(
                    f"{self.path}: column {self.name!r} at row {row}: {error}."
                ) from None
        return moments.view("datetime64[us]")

    def feature(self):
        """Return numbers, NaN where one is missing, or texts, "" where one is."""
        if not self.is_text:
            numbers = self.floats()
            self.refuse("infinite", np.isinf(numbers))
            return numbers
        texts = self.values.to_pylist()
        return coded_texts("" if text is None else text for text in texts)


REPORT_EVERY = 10_000  # lines between two reports
JSON_NUMBERS = (bool, int, float)


def read_jsonl_columns(path, wanted, report=None, skip=False):
    """Read fields of a file of JSON lines, a dict by (name, kind)."""
    taken = {name: (getter(name), []) for name, _ in wanted}
    lines, skipped = [], [] if skip else None
    for number, event in read_objects(path, skipped):
        lines.append(number)
        for get, values in taken.values():
            values.append(get(event))
        if report is not None and len(lines) % REPORT_EVERY == 0:
            report(len(lines))
    if skipped:
        told = (
            f"{path}: skipped {len(skipped):,} malformed line(s); {len(lines):,} "
            f"remain. The first: {skipped[0]}"
        )
        warn_user([LogsWarning(told, len(skipped))])
    fields = {name: _Field(path, name, taken[name][1], lines) for name in taken}
    return {(name, kind): fields[name].of(kind) for name, kind in wanted}


class _Field(_ReadColumn):
    """The values of a field, as JSON gives them."""

    remedy = DROP_LINE

    def __init__(self, path, name, values, lines):
        self.path, self.name = path, name
        self.values, self.lines = values, lines
        self.types = set(map(type, values))

    def bad(self, row, expected):
        """Return the error for a row."""
        value = self.values[row]
        found = "is missing" if value is None else f"is {quoted(value)}"
        remedy = several_numbers(value, self.ndim) or DROP_LINE
        remedy = self.remedy if value in (None, "") else remedy
        many = self.values.count(None) if value is None else 1
        lines = f" ({many:,} such lines)" if many > 1 else ""
        return ValueError(
            f"{self.path}, line {self.lines[row]}: field {self.name!r} {found}{lines}, "
            f"expected {expected}. {remedy}"
        )

    def refuse(self, types, expected):
        """Raise at the first value of a type that is not among `types`."""
        if not self.types.issubset(types):
            rows = enumerate(self.values)
            row = next(row for row, one in rows if type(one) not in types)
            raise self.bad(row, expected)

    def number(self, optional=False):
        """Return all values as floats, NaN where one is missing and `optional`."""
        what = "a number" if optional else "a finite number"
        self.refuse({*JSON_NUMBERS, *([type(None)] if optional else [])}, what)
        try:
            found = np.array(self.values, dtype=np.float64)  # None is NaN
        except OverflowError:
            found = np.array([_as_float(value) for value in self.values])
        if np.isinf(found).any():
            raise self.bad(int(np.isinf(found).argmax()), "a finite number")
        return found

    def texts(self):
        """Return all values as texts, None where one is missing."""
        self.refuse({*JSON_NUMBERS, str, type(None)}, "a number or a text")
        odd = [k for k, one in enumerate(self.values) if type(one) in JSON_NUMBERS]
        if odd:
            told = (
                f"{self.path}, line {self.lines[odd[0]]}: field {self.name!r} is "
                f"{quoted(self.values[odd[0]])} among texts ({len(odd)} such lines), "
                "so the whole field is read as texts. Correct these lines if that is "
                "wrong."
            )
            warn_user([LogsWarning(told, len(odd))])
        return [
            one if one is None or type(one) is str else json.dumps(one)
            for one in self.values
        ]

    def label(self):
        """Return texts, integers, floats or booleans: what all values are."""
        if str in self.types:
            self.refuse({str}, "a text like others of this field")
            if "" in self.values:
                raise self.bad(self.values.index(""), "a label")
            return np.array(self.values)
        if self.types == {bool}:
            return np.array(self.values)
        self.refuse({int, float}, "a label: a text, a number or a boolean like others")
        if float in self.types:
            return self.number()
        try:
            return np.array(self.values, dtype=np.int64)
        except OverflowError:  # as floats, long ones would collide
            return np.array(list(map(str, self.values)))

    def moment(self):
        """Return numbers or datetimes."""
        if str not in self.types:
            return self.number()
        self.refuse({str}, "a datetime like others of this field")
        what = f"a number or {A_MOMENT}"
        return moments_of(self.values, lambda row: self.bad(row, what))

    def feature(self):
        """Return numbers, NaN where one is missing, or texts, "" where one is."""
        if str not in self.types:
            return self.number(optional=True)
        return coded_texts("" if text is None else text for text in self.texts())

    def cell(self):
        """Return numbers, NaN where one is missing, or texts, None where one is."""
        if str not in self.types:
            return self.number(optional=True)
        return np.array(self.texts(), dtype=object)


def _as_float(value):
    try:
        return np.nan if value is None else float(value)
    except OverflowError:
        return np.inf
