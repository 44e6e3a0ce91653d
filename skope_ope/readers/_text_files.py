# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Lines and rows of text files, plain or gzip, with errors that name the file."""

import csv
import gzip
import os
import zlib
from datetime import UTC, datetime, timedelta

GZIP_MAGIC = b"\x1f\x8b"
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)


def read_lines(path):
    """Yield (line number from 1, line without its end) of a text file.

    gzip is recognised by its first bytes, whatever the file is called. Bytes that
    are not UTF-8 are kept as escapes, so that names stay distinct.
    """
    path = os.fspath(path)
    number = 0
    try:
        with open(path, "rb") as raw:
            packed = raw.read(2) == GZIP_MAGIC
            raw.seek(0)
            stream = gzip.GzipFile(fileobj=raw) if packed else raw
            for line in stream:
                number += 1
                if number == 1 and line.startswith(b"\xef\xbb\xbf"):
                    line = line[3:]
                yield number, line.decode("utf-8", "backslashreplace").rstrip("\r\n")
    except FileNotFoundError as error:
        raise FileNotFoundError(
            f"{path}: no such file. Check the path; relative ones start at "
            f"{os.getcwd()}."
        ) from error
    except IsADirectoryError as error:
        raise ValueError(f"{path} is a folder. Name one file.") from error
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise ValueError(
            f"{path}: the gzip data are damaged or cut off after line {number} "
            f"({error}). Copy or download the file again."
        ) from error


def open_csv(path):
    """Return (header, iterator of (line number, row) over the rows below it)."""
    rows = _csv_rows(path)
    _, header = next(rows, (0, None))
    if header is None:
        raise empty_file(path)
    return [name.strip() for name in header], rows


def _csv_rows(path):
    reader = csv.reader(line for _, line in read_lines(path))
    try:
        for row in reader:
            if row:
                yield reader.line_num, row
    except csv.Error as error:
        raise ValueError(
            f"{path}, line {reader.line_num}: {error}. Name a csv file."
        ) from error


def empty_file(path):
    """Return the error for a file that holds no line."""
    return ValueError(f"{os.fspath(path)} is empty. Name a file with logged rounds.")


def utc_microseconds(text):
    """Return the microseconds from 1970 to the moment that an ISO 8601 text names.

    Texts without a time zone are taken to be UTC.
    """
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return (moment - EPOCH) // MICROSECOND
