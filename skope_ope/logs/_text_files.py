# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Files of text as lines, rows and columns, with errors that name file and line."""

import csv
import gzip
import io
import math
import os
import re
import zlib
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import chain, islice, repeat
from operator import itemgetter
from zipfile import ZipFile

import numpy as np

from skope_ope.exceptions import RowError
from skope_ope.logs._validation import several_numbers, yes_or_no

# -- columns of texts, and the labels that their distinct texts stand for --------------

TRUTH = {"true": True, "false": False}
INTEGER = re.compile(r"0|-?[1-9][0-9]{0,18}")
INT64_LIMIT = 2**63  # of 64 bits
LONGEST_FLOAT = 25  # characters; no float is written longer


@dataclass(frozen=True)
class Texts:
    """A column of texts: codes of the rows, and the texts by code."""

    codes: np.ndarray
    values: list

    def __len__(self):
        return len(self.codes)

    def array(self):
        """Return the texts of the rows, dtype object."""
        return np.array(self.values, dtype=object)[self.codes]

    def row_of(self, text):
        """Return the first row of a text."""
        return int((self.codes == self.values.index(text)).argmax())


def coded_texts(cells, seen=None):
    """Return cells as `Texts`, in the order in which they first occur."""
    seen = {} if seen is None else seen
    codes = [seen.setdefault(cell, len(seen)) for cell in cells]
    return Texts(np.array(codes, dtype=np.intp), list(seen))


def _is_integer(text):
    return bool(INTEGER.fullmatch(text)) and -INT64_LIMIT <= int(text) < INT64_LIMIT


def _is_float(whole, text):
    """Tell whether a text is the way to write a float, `whole` after whole ones."""
    try:
        number = float(text) if len(text) < LONGEST_FLOAT else math.inf
    except ValueError:
        return False
    written = repr(number).removesuffix(".0")
    written += whole if written.lstrip("-").isdigit() else ""
    return math.isfinite(number) and text == written and (number != 0 or text[0] != "-")


def _of_truth(text):
    return TRUTH[text.lower()]


# kinds of labels that are no texts: whether a text is the one way to write such a
# label, and how it is read. 7 and 007, 1.1 and 1.10, true and 1 are two labels
LABEL_KINDS = {
    "integer": (_is_integer, int),
    "float": (partial(_is_float, ".0"), float),
    "short": (partial(_is_float, ""), float),
    **{
        word: ({word, other}.__contains__, _of_truth)
        for word, other in (("True", "False"), ("true", "false"), ("TRUE", "FALSE"))
    },
}


def kinds_of(texts, kinds=tuple(LABEL_KINDS)):
    """Return those of some kinds of labels that all texts are of, in their order."""
    return [kind for kind in kinds if all(map(LABEL_KINDS[kind][0], texts))]


def parse_labels(texts, kinds=None):
    """Turn distinct texts into ints, floats or booleans where all of them are such."""
    # That is the first of `kinds`, by default of `kinds_of` these texts.
    kinds = kinds_of(texts) if kinds is None else kinds
    return np.array(
        [LABEL_KINDS[kinds[0]][1](text) for text in texts] if kinds else texts
    )


# -- lines of files, plain or packed ---------------------------------------------------

GZIP_MAGIC = b"\x1f\x8b"
ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
UTF8_MARK = b"\xef\xbb\xbf"
UTF16_MARKS = (b"\xff\xfe", b"\xfe\xff")
UTF16 = "is encoded in UTF-16. Save it as UTF-8."
NULL = "holds a null byte. Name a text file in UTF-8."
MANY_FILES = " Folders and globs are for scan_logs, in Python."
LONGEST_LINE = 2**22  # bytes of a line: a few kB of gzip may unpack to any length
BLANK = 2**20  # lines without a word, one after the other: they unpack to any number
ALL_BLANK = (
    f"{BLANK:,} blank lines begin here. Drop them, or name a file with logged rounds."
)
CARRIAGE_RETURN = (
    "the line holds a carriage return without a line feed. Lines must end with a line "
    "feed. Convert the file, e.g. with tr '\\r' '\\n'."
)
DATE = r"[0-9]{4}(-[0-9]{2}-[0-9]{2}|[0-9]{4})"
TIME = r"[0-9]{2}(:[0-9]{2}(:[0-9]{2}([.,][0-9]+)?)?|[0-9]{2}([0-9]{2}([.,][0-9]+)?)?)?"
ZONE = r"(Z|[-+][0-9]{2}(:?[0-9]{2}(:?[0-9]{2})?)?)"
MOMENT = re.compile(f"{DATE}([T ]{TIME}{ZONE}?)?", re.IGNORECASE)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)


class DoubtError(Exception):
    """Something that fast readers may take in another way: our own must read it."""


def read_lines(path):
    """Yield (line number from 1, line) of a text file, without the ends of lines."""
    # gzip and zstd are told by the first bytes, whatever the file is called. Bytes that
    # are not UTF-8 are kept as escapes, so that names stay distinct.
    path = os.fspath(path)
    with open_bytes(path) as stream:
        lines = iter(partial(stream.readline, LONGEST_LINE + 1), b"")
        written = 0
        for number, line in enumerate(lines, start=1):
            if number == 1 or len(line) > LONGEST_LINE or b"\0" in line:
                line = _checked_line(path, number, line)
            if not line.isspace():
                written = number
            elif number - written > BLANK:
                raise ValueError(f"{path}, line {written + 1}: {ALL_BLANK}")
            line = line.decode("utf-8", "backslashreplace")
            yield number, line.rstrip("\r\n")


@contextmanager
def open_bytes(path):
    """Open a file for reading; gzip and zstd are told by the first bytes."""
    try:
        with open(path, "rb") as raw:
            magic = raw.read(len(ZSTD_MAGIC))
            raw.seek(0)
            if magic.startswith(GZIP_MAGIC):
                yield io.BufferedReader(gzip.GzipFile(fileobj=raw))
            elif magic == ZSTD_MAGIC:
                yield io.BufferedReader(_unpack_zstd(path, raw))
            else:
                yield raw
    except FileNotFoundError as error:
        raise FileNotFoundError(
            f"{path}: no such file. Check the path; relative ones start at "
            f"{os.getcwd()}.{MANY_FILES if '*' in str(path) else ''}"
        ) from error
    except IsADirectoryError as error:
        raise ValueError(f"{path} is a folder. Name one file.{MANY_FILES}") from error
    except (EOFError, OSError, zlib.error) as error:
        if getattr(error, "errno", None) is not None:  # of the machine
            raise
        kind = "gzip" if magic.startswith(GZIP_MAGIC) else "zstd"
        raise ValueError(
            f"{path}: the {kind} data are damaged or cut off ({error}). Copy or "
            "download the file again."
        ) from error


@contextmanager
def errors_of_file(path, line_of=None):
    """Let errors of the logs that are built inside name the file."""
    try:
        yield
    except RowError as error:
        told = str(error)
        if line_of is not None:
            told = error.told_of(f"line {line_of(error.row)}")
        raise ValueError(f"{path}: {told}") from error
    except (TypeError, ValueError) as error:
        raise type(error)(f"{path}: {error}") from error


def _unpack_zstd(path, raw):
    try:
        from pyarrow import CompressedInputStream
    except ImportError as error:
        raise ImportError(
            f"{path}: zstd files need pyarrow: pip install 'skope-ope[frames]'. Or "
            "unpack the file: zstd -d."
        ) from error
    return CompressedInputStream(raw, "zstd")


def sample_lines(path, n_lines):
    """Return the first lines of a file as `read_lines` yields them, fewer if long."""
    sample, size = [], 0
    for number, line in islice(read_lines(path), n_lines):
        sample.append((number, line))
        size += len(line)
        if size > LONGEST_LINE:
            break
    return sample


def first_line(path):
    """Return the first line that is not blank, without blanks before it; "" if none."""
    return next((line.lstrip() for _, line in read_lines(path) if line.strip()), "")


def _checked_line(path, number, line):
    """Return a line without a byte order mark, if it is one of text."""
    if len(line) > LONGEST_LINE:
        raise ValueError(f"{path}, line {number}: {too_long()}")
    if number == 1:
        if line.startswith(UTF16_MARKS):
            raise ValueError(f"{path} {UTF16}")
        line = line.removeprefix(UTF8_MARK)
        if b"\r" in line.rstrip(b"\r\n"):
            raise ValueError(f"{path}, line 1: {CARRIAGE_RETURN}")
    if b"\0" in line:
        raise ValueError(f"{path}, line {number}: {NULL}")
    return line


def too_long():
    """Return what is said of a line that is too long."""
    return (
        f"longer than {LONGEST_LINE:,} bytes, the most that a line may have. Name a "
        "text file whose lines end with a line feed."
    )


def empty_file(path):
    """Return the error for a file that holds no line."""
    return ValueError(f"{os.fspath(path)} is empty. Name a file with logged rounds.")


def utc_microseconds(text):
    """Return the microseconds from 1970 to the moment that an ISO 8601 text names."""
    # Texts without a time zone are taken to be UTC.
    if MOMENT.fullmatch(text) is None:  # fromisoformat skips over letters and digits
        raise ValueError(f"{quoted(text)} is no datetime like 2026-01-31 12:00:00")
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return (moment - EPOCH) // MICROSECOND


# -- numbers that are written in a text, the same for files and for the command line
# Python's own `float` and `int` also take underscores ("0_1.0" is 1 to them) and digits
# of any script, which a file holds by accident only.

SHOWN_TEXT = 60  # characters of a text in a message
INT64_DIGITS = 18  # that many digits always fit


def numbers(texts):
    """Yield the floats that a sequence of texts spells."""
    # Blanks around a number are taken, and "nan" and "inf": whether a number must be
    # finite is known to the caller.
    joined = "".join(texts)  # one look at many cells
    if "_" in joined or not joined.isascii():
        raise ValueError("not all texts are numbers")
    return map(float, texts)


def number(text, finite=False):
    """Return the float that a text spells, see `numbers`."""
    if "_" in text or not text.isascii():
        raise ValueError("not a number")
    found = float(text)
    if finite and not math.isfinite(found):
        raise ValueError("not a finite number")
    return found


def whole_number(text):
    """Return the int that a text spells, at most 18 digits long."""
    digits = text if text.isdigit() else text.strip().removeprefix("-")
    if not (text.isascii() and digits.isdigit() and len(digits) <= INT64_DIGITS):
        raise ValueError("not a whole number of at most 18 digits")
    return int(text)


def quoted(found):
    """Return what was found as messages show it, cut where it is long."""
    text = repr(found)
    cut = f"{text[:SHOWN_TEXT]}... ({len(text):,} characters)"
    return cut if len(text) > SHOWN_TEXT else text


# -- csv files in blocks of whole rows, read strictly: the same for files and parts ----
# Quotes stand around whole cells, and twice inside them. Lines end with a line feed,
# also after a carriage return. Blank lines are skipped; all other rows are as long as
# the header. Whatever is written in another way is refused with its line.

FIRST_BYTES = 2**16  # bytes
TEXT_BYTES = 2**22  # bytes that are held as text at a time
COMMA, NEWLINE, RETURN, QUOTE = b',\n\r"'
LINE_ENDS = re.compile(rb"[\r\n]*")
QUOTE_REMEDY = "Put the whole cell into quotes, and double the quotes inside it."
INSIDE = f"a quote stands inside a cell. {QUOTE_REMEDY}"
BEHIND = f"text follows a closing quote. {QUOTE_REMEDY}"
UNCLOSED = "a quote is opened and never closed. Close it; inside quotes, double it."


class CsvFile:
    """The header and the rows of a csv file."""

    def __init__(self, name, opened):
        self.name, self._opened = name, opened
        for size in (FIRST_BYTES, LONGEST_LINE):
            with opened() as stream:
                data = stream.read(size)
            start, end = _first_row(data)
            if end < len(data) or len(data) < size:
                break
        if data.startswith(UTF16_MARKS):
            raise ValueError(f"{name} {UTF16}")
        if end == start and len(data) == LONGEST_LINE:
            raise self._error(0, ALL_BLANK)
        if end == start:
            raise ValueError(f"{name} is empty. Name a file with logged rounds.")
        if end == LONGEST_LINE:
            raise self._error(start, too_long())
        self._check(data[start:end], start)
        self._start, self._line = end, 1 + data.count(b"\n", 0, end)
        text = data[start:end].decode("utf-8", "backslashreplace")
        self.header = [name.strip() for name in next(_csv_rows(text))]
        other = next((mark for mark in ";\t|" if mark in text), None)
        if len(self.header) == 1 and other:
            raise ValueError(
                f"{name}: its columns seem to be separated by {other!r}, but a comma "
                "is expected. Write it again with commas, or pass scan_logs a lazy "
                f"frame that reads it: polars.scan_csv(path, separator={other!r})."
            )

    def blocks(self, size=None):
        """Yield the first byte and the bytes of stretches of whole rows."""
        # A first one that is small tells which columns hold texts; `size` is that of
        # all.
        sizes = chain(
            [size or min(FIRST_BYTES, TEXT_BYTES)], repeat(size or TEXT_BYTES)
        )
        with self._opened() as stream:
            stream.read(self._start)
            start, rest, more = self._start, b"", True
            blank = 0  # lines in a row
            while more:
                more = stream.read(next(sizes))
                data = rest + more
                stop = last_end(data) if more else len(data)
                if len(data) - stop > LONGEST_LINE:
                    self._check(data[stop:], start + stop)
                    raise self._error(start + stop, too_long())
                block, rest = data[:stop], data[stop:]
                self._check(block, start)
                if LINE_ENDS.fullmatch(block):
                    blank += block.count(b"\n")
                    if blank > BLANK:
                        raise self._error(start, ALL_BLANK)
                else:
                    blank = 0
                    yield start, block
                start += stop

    def rows(self):
        """Yield the line on which a row begins, and its cells."""
        line = self._line
        for _, block in self.blocks():
            reader = _csv_rows(block.decode("utf-8", "backslashreplace"))
            first = line
            try:
                for row in reader:
                    if row and len(row) != len(self.header):
                        raise ValueError(
                            f"{self.name}, line {first}: {len(row)} cells under "
                            f"{len(self.header)} column names. Correct or drop the row."
                        )
                    if row:
                        yield first, row
                    first = line + reader.line_num
            except csv.Error as error:  # a longer cell than Python's reader takes
                raise ValueError(f"{self.name}, line {first}: {error}.") from error
            line += block.count(b"\n")

    def line_of_row(self, row):
        """Return the line on which a row begins; rows count from 0."""
        return next(islice(self.rows(), int(row), None))[0]

    def columns(self, block, parse, *what):
        """Return what a function makes of a block; name the row that it refuses."""
        try:
            return parse(block, len(self.header), *what)
        except ValueError:
            for _ in self.rows():
                pass
            raise

    def _check(self, block, start):
        found = _fault(block)
        if found is not None:
            raise self._error(start + found[0], found[1])

    def _error(self, at, what):
        """Return the error for a byte of the file, with its line."""
        line = 1
        with self._opened() as stream:
            while at and (data := stream.read(min(at, TEXT_BYTES))):
                line, at = line + data.count(b"\n"), at - len(data)
        return ValueError(f"{self.name}, line {line}: {what}")


def _csv_rows(text):
    return csv.reader(io.StringIO(text, newline=""), strict=True)


def _first_row(data):
    """Return where the first row that is not blank begins and ends."""
    start = end = len(UTF8_MARK) if data.startswith(UTF8_MARK) else 0
    odd = 0  # inside quotes
    while end < len(data) and (odd or not data[start:end].strip(b"\r\n")):
        start = start if odd else end
        line = data.find(b"\n", end) + 1 or len(data)
        odd ^= data.count(b'"', end, line) % 2
        end = line
    return (start, end) if data[start:end].strip(b"\r\n") else (end, end)


def last_end(data):
    """Return where the last whole row ends, 0 if there is none."""
    end, odd = len(data), data.count(b'"') % 2
    while (line := data.rfind(b"\n", 0, end)) >= 0:
        odd ^= data.count(b'"', line, end) % 2
        if not odd:  # outside quotes
            return line + 1
        end = line
    return 0


def _fault(block):
    """Return the first byte that is not strict csv, and why; None if all are."""
    if b"\0" in block:
        return block.index(b"\0"), NULL
    if b"\r" in block and block.count(b"\r") != block.count(b"\r\n"):
        return re.search(rb"\r(?!\n)", block).start(), CARRIAGE_RETURN
    if b'"' not in block:
        return None
    text = np.frombuffer(block, np.uint8)
    quotes = np.flatnonzero(text == QUOTE)
    opening, closing = quotes[::2], quotes[1::2]
    before, after = text[opening - 1], text[np.minimum(closing + 1, len(text) - 1)]
    inside = ~np.isin(before, (COMMA, NEWLINE, QUOTE)) & (opening > 0)
    behind = ~np.isin(after, (COMMA, NEWLINE, RETURN, QUOTE))
    found = [(opening[inside], INSIDE), (opening[: len(closing)][behind], BEHIND)]
    if len(quotes) % 2:
        found.append((opening[-1:], UNCLOSED))
    faults = [(int(at[0]), why) for at, why in found if len(at)]
    return min(faults, key=itemgetter(0), default=None)


# -- cells of csv files as numbers, labels and texts: the same for files and for parts

TEXTS_TRIED = 100  # texts that tell whether others may be of a type
DROP = "Correct or drop the row."
# words for missing, in any case and with blanks around them; "none" only in place of a
# number, as a label it may be an action: to do nothing
MISSING = {"", "na", "n/a", "nan", "null"}
NUMBER_WORDS = {**dict.fromkeys((*MISSING, "none"), np.nan), **TRUTH}
_WORDS = sorted({*NUMBER_WORDS} - {*TRUTH})
SPELT = [f(one) for one in _WORDS for f in (str.lower, str.upper, str.capitalize)]
SPELT.append("NaN")


def is_missing_word(text):
    """Tell whether a text is a word for a missing one."""
    return text.strip().lower() in MISSING


def cell_number(text):
    """Return the number that a cell holds, NaN where it is missing."""
    word = NUMBER_WORDS.get(text.strip().lower())
    return number(text) if word is None else float(word)


def numbers_of(name, cells, remedy=DROP, optional=False, ndim=1):
    """Return cells, floats or `Texts`, as finite floats, or NaN where `optional`."""
    if isinstance(cells, Texts):
        values = np.empty(len(cells.values))
        for code, text in enumerate(cells.values):
            try:
                values[code] = cell_number(text)
            except ValueError:
                raise bad_cell(name, cells, text, "a number", ndim=ndim) from None
        cells = values[cells.codes]
    bad = ~np.isfinite(cells)
    if optional:
        bad &= ~np.isnan(cells)
    if bad.any():
        row = int(bad.argmax())
        what = "missing" if np.isnan(cells[row]) else f"{cells[row]:g}"
        after = f", expected a finite number. {remedy if what == 'missing' else DROP}"
        raise RowError(f"column {name!r} is {what}", row, after)
    return cells


def cell_labels(name, texts, kinds=None, remedy=DROP):
    """Return distinct labels and the codes of the rows, without blanks around them."""
    stripped, codes = [text.strip() for text in texts.values], texts.codes
    if not MISSING.isdisjoint(map(str.lower, stripped)):
        text = next(filter(is_missing_word, texts.values))
        raise bad_cell(name, texts, text, "a label", remedy)
    if stripped != texts.values:
        merged = coded_texts(stripped)
        stripped, codes = merged.values, merged.codes[codes]
    return parse_labels(stripped, kinds), codes


def bad_cell(name, texts, text, expected, if_missing=DROP, ndim=1):
    """Return the error for a text in a column."""
    found, more = f"is {quoted(text)}", ""
    remedy = DROP
    if expected == "a number":
        remedy = several_numbers(text, ndim) or yes_or_no([text]) or DROP
    if not text.strip():
        found, remedy = "is missing", if_missing
    elif is_missing_word(text) and expected == "a label":
        found, remedy = f"is {quoted(text)}, a word for missing", if_missing
        more = " Or rename the label."
    after = f", expected {expected}. {remedy}{more}"
    return RowError(f"column {name!r} {found}", texts.row_of(text), after)


def text_columns(block, n_columns, texts):
    """Get columns of a block by place: `Texts`, or floats where all cells are such."""
    # `texts` are the places, and which of them are texts anyhow. `ValueError`: rows are
    # not as long as the header.
    try:
        import pyarrow
    except ImportError:
        return _by_python(block, n_columns, texts)
    kinds = {True: text_type(), False: pyarrow.float64()}
    types = {place: kinds[bool(told)] for place, told in texts.items()}
    _, found = arrow_columns(block, n_columns, types)
    return {place: of_arrow(column) for place, column in found.items()}


def _by_python(block, n_columns, texts):
    text = block.decode("utf-8", "backslashreplace")
    rows = [row for row in _csv_rows(text) if row]
    if {*map(len, rows)} != {n_columns}:
        raise ValueError("the rows are not as long as the header")
    columns = list(zip(*rows, strict=True))
    found = {}
    for place, told in texts.items():
        cells = columns[place]
        try:
            if told:
                raise ValueError
            found[place] = np.fromiter(numbers(cells), np.float64, len(cells))
        except ValueError:
            found[place] = coded_texts(cells)
    return found


def text_type():
    """Return the type of pyarrow in which texts are read."""
    import pyarrow

    return pyarrow.dictionary(pyarrow.int32(), pyarrow.string())


def of_arrow(column):
    """Return a column of `arrow_columns` as floats or `Texts`."""
    from pyarrow.types import is_dictionary

    if not is_dictionary(column.type):
        return column.to_numpy(zero_copy_only=False)
    return Texts(column.indices.to_numpy(), column.dictionary.to_pylist())


def arrow_columns(block, n_columns, types):
    """Return the number of rows, and arrays of pyarrow by place."""
    # An array has the type that `types` asks for, or is one of texts where a cell does
    # not fit.
    import pyarrow
    from pyarrow import compute
    from pyarrow import csv as reader

    if not block.isascii():  # other encodings keep their bytes apart
        block = block.decode("utf-8", "backslashreplace").encode()

    def parse(types):
        table = reader.read_csv(
            pyarrow.BufferReader(block),
            reader.ReadOptions(
                use_threads=False,
                block_size=len(block) + 1,
                column_names=[str(place) for place in range(n_columns)],
            ),
            reader.ParseOptions(newlines_in_values=b'"' in block),
            reader.ConvertOptions(
                include_columns=[str(place) for place in types],
                column_types={str(place): kind for place, kind in types.items()},
                null_values=SPELT,
                strings_can_be_null=False,
            ),
        )
        found = {place: table.column(str(place)).combine_chunks() for place in types}
        for column in found.values():
            floats = pyarrow.types.is_floating(column.type)
            if floats and compute.any(compute.is_nan(column)).as_py():
                raise pyarrow.ArrowInvalid("nan(1), say")
        return len(table), found

    try:
        return parse(types)
    except pyarrow.ArrowInvalid:
        n_rows, found = parse(dict.fromkeys(types, text_type()))
    types = {p: kind for p, kind in types.items() if fits(found[p].dictionary, kind)}
    with suppress(pyarrow.ArrowInvalid):
        found |= parse(types)[1] if types else {}
    return n_rows, found


def missing_among(texts):
    """Return which texts of an array of pyarrow are words for missing ones."""
    import pyarrow
    from pyarrow import compute

    words = compute.utf8_lower(compute.utf8_trim_whitespace(texts))
    return compute.is_in(words, value_set=pyarrow.array(sorted(MISSING)))


def cast(texts, kind):
    """Return texts of pyarrow with another type."""
    texts[:TEXTS_TRIED].cast(kind)  # an error costs something for every text
    return texts.cast(kind)


def fits(texts, kind):
    """Tell whether all texts of an array are missing or of a type."""
    import pyarrow
    from pyarrow import compute

    if pyarrow.types.is_dictionary(kind):
        return True
    try:
        cast(texts.filter(compute.invert(missing_among(texts))), kind)
    except pyarrow.ArrowInvalid:
        return False
    return True


MOST_UNPACKED = 2**30  # bytes: a few kB of zip may hold any number of them


def check_unpacked_size(opened):
    """Raise where the members of an opened zip file say that they have more bytes."""
    n_bytes = sum(one.file_size for one in opened.infolist())
    if n_bytes > MOST_UNPACKED:
        raise ValueError(
            f"it has {n_bytes:,} bytes, and at most {MOST_UNPACKED:,} are unpacked"
        )


def read_members(file):
    """Return the bytes of the members of a zip by name, at most `MOST_UNPACKED`."""
    with ZipFile(file) as opened:
        check_unpacked_size(opened)
        found = {}
        for one in opened.infolist():
            with opened.open(one) as member:  # no more than it says, where that lies
                found[one.filename] = member.read(one.file_size)
    return found
