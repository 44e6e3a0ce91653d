# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Lines and rows of text files, plain, gzip or zstd, with errors that name the file."""

import csv
import gzip
import io
import os
import re
import zlib
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import islice

from skope_ope.readers._numbers import quoted

GZIP_MAGIC = b"\x1f\x8b"
ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
UTF16_MARKS = (b"\xff\xfe", b"\xfe\xff")
MANY = " Folders and globs are for scan_logs, in Python."
LONGEST = 2**22  # bytes of a line: a few kB of gzip may unpack to any length
BLANK = 2**20  # lines without a word, one after the other: they unpack to any number
LONGEST_CELL = csv.field_size_limit()  # characters of a cell of a csv file
CARRIAGE_RETURN = (
    "the line holds a carriage return without a line feed. Lines must end with a line "
    "feed. Convert the file, e.g. with tr '\\r' '\\n'."
)
DAY = r"[0-9]{4}(-[0-9]{2}-[0-9]{2}|[0-9]{4})"
TIME = r"[0-9]{2}(:[0-9]{2}(:[0-9]{2}([.,][0-9]+)?)?|[0-9]{2}([0-9]{2}([.,][0-9]+)?)?)?"
ZONE = r"(Z|[-+][0-9]{2}(:?[0-9]{2}(:?[0-9]{2})?)?)"
MOMENT = re.compile(f"{DAY}([T ]{TIME}{ZONE}?)?", re.IGNORECASE)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)


class DoubtError(Exception):
    """Something that fast readers may take in another way: our own must read it."""


def read_lines(path, ends=False):
    """Yield (line number from 1, line) of a text file, without `ends` of lines.

    gzip and zstd are told by the first bytes, whatever the file is called. Bytes that
    are not UTF-8 are kept as escapes, so that names stay distinct.

    Raises
    ------
    ValueError
        If the file is a folder, damaged or no text in UTF-8, a line is longer than
        `LONGEST` bytes, or the first has carriage returns inside.
    """
    path = os.fspath(path)
    number = written = 0
    try:
        with open_bytes(path) as stream:
            for line in iter(partial(stream.readline, LONGEST + 1), b""):
                number += 1
                if number == 1 or len(line) > LONGEST or b"\0" in line:
                    line = _checked(path, number, line)
                if not line.isspace():
                    written = number
                elif number - written > BLANK:
                    raise ValueError(
                        f"{path}: the {BLANK:,} lines from line {written + 1} on are "
                        "blank. Drop them, or name a file with logged rounds."
                    )
                line = line.decode("utf-8", "backslashreplace")
                yield number, line if ends else line.rstrip("\r\n")
    except FileNotFoundError as error:
        raise FileNotFoundError(
            f"{path}: no such file. Check the path; relative ones start at "
            f"{os.getcwd()}.{MANY if '*' in str(path) else ''}"
        ) from error
    except IsADirectoryError as error:
        raise ValueError(f"{path} is a folder. Name one file.{MANY}") from error
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise ValueError(
            f"{path}: the gzip data are damaged or cut off after line {number} "
            f"({error}). Copy or download the file again."
        ) from error
    except OSError as error:
        if error.errno is not None:  # of the machine
            raise
        raise ValueError(
            f"{path}: the zstd data are damaged or cut off after line {number} "
            f"({error}). Copy or download the file again."
        ) from error


@contextmanager
def open_bytes(path):
    """Open a file for reading; gzip and zstd are told by the first bytes."""
    with open(path, "rb") as raw:
        magic = raw.read(len(ZSTD_MAGIC))
        raw.seek(0)
        if magic.startswith(GZIP_MAGIC):
            yield io.BufferedReader(gzip.GzipFile(fileobj=raw))
        elif magic == ZSTD_MAGIC:
            yield io.BufferedReader(_unpack_zstd(path, raw))
        else:
            yield raw


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
        if size > LONGEST:
            break
    return sample


def first_line(path):
    """Return the first line that is not blank, without blanks before it; "" if none."""
    return next((line.lstrip() for _, line in read_lines(path) if line.strip()), "")


def _checked(path, number, line):
    """Return a line without a byte order mark, if it is one of text."""
    if len(line) > LONGEST:
        raise ValueError(
            f"{path}, line {number}: longer than {LONGEST:,} bytes, the most that a "
            "line may have. Name a text file whose lines end with a line feed."
        )
    if number == 1:
        if line.startswith(UTF16_MARKS):
            raise ValueError(f"{path} is encoded in UTF-16. Save it as UTF-8.")
        line = line.removeprefix(b"\xef\xbb\xbf")
        if b"\r" in line.rstrip(b"\r\n"):
            raise ValueError(f"{path}, line 1: {CARRIAGE_RETURN}")
    if b"\0" in line:
        raise ValueError(
            f"{path}, line {number}: holds a null byte. Name a text file in UTF-8."
        )
    return line


def open_csv(path):
    """Return (header, iterator of (line number, row) over the rows below it).

    The number is that of the line on which the row begins.
    """
    rows = _csv_rows(path)
    _, header = next(rows, (0, None))
    if header is None:
        raise empty_file(path)
    return [name.strip() for name in header], rows


def line_of_row(path, row):
    """Return the line on which a row of a csv file begins; rows count from 0."""
    return next(islice(open_csv(path)[1], row, None))[0]


def _csv_rows(path):
    lines = (line for _, line in read_lines(path, ends=True))  # a cell may hold them
    reader, start = csv.reader(lines, strict=True), 1
    try:
        for row in reader:
            if len(row) > 1 or (row and row[0].strip()):  # no blank line
                yield start, row
            start = reader.line_num + 1
    except csv.Error as error:
        found = islice(read_lines(path), reader.line_num - 1, None)
        what = CARRIAGE_RETURN
        if "\r" not in next(found)[1]:
            what = f"{error}. Correct the quotes of the row, or name a csv file."
        raise ValueError(f"{path}, line {start}: {what}") from error


def empty_file(path):
    """Return the error for a file that holds no line."""
    return ValueError(f"{os.fspath(path)} is empty. Name a file with logged rounds.")


def utc_microseconds(text):
    """Return the microseconds from 1970 to the moment that an ISO 8601 text names.

    Texts without a time zone are taken to be UTC.
    """
    if MOMENT.fullmatch(text) is None:  # fromisoformat skips over letters and digits
        raise ValueError(f"{quoted(text)} is no datetime like 2026-01-31 12:00:00")
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return (moment - EPOCH) // MICROSECOND
