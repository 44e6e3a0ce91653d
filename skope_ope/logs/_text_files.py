# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Lines and rows of text files, plain, gzip or zstd, with errors that name the file."""

import gzip
import io
import math
import os
import re
import zlib
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import islice

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
DAY = r"[0-9]{4}(-[0-9]{2}-[0-9]{2}|[0-9]{4})"
TIME = r"[0-9]{2}(:[0-9]{2}(:[0-9]{2}([.,][0-9]+)?)?|[0-9]{2}([0-9]{2}([.,][0-9]+)?)?)?"
ZONE = r"(Z|[-+][0-9]{2}(:?[0-9]{2}(:?[0-9]{2})?)?)"
MOMENT = re.compile(f"{DAY}([T ]{TIME}{ZONE}?)?", re.IGNORECASE)
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
