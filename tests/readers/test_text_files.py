# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import gzip

import numpy as np
import pytest

from skope_ope.readers._text_files import (
    empty_file,
    open_csv,
    read_lines,
    utc_microseconds,
)


def test_lines_are_numbered_from_one_and_lose_their_ends(tmp_path):
    path = tmp_path / "a.txt"
    path.write_bytes(b"\xef\xbb\xbffirst\r\n\nlast")
    assert list(read_lines(path)) == [(1, "first"), (2, ""), (3, "last")]


@pytest.mark.parametrize("name", ["a.gz", "a.txt"])
def test_gzip_is_recognised_by_its_first_bytes(tmp_path, name):
    path = tmp_path / name
    path.write_bytes(gzip.compress(b"one\ntwo\n"))
    assert list(read_lines(path)) == [(1, "one"), (2, "two")]


def test_plain_text_may_be_called_gz(tmp_path):
    path = tmp_path / "a.gz"
    path.write_bytes(b"one\n")
    assert list(read_lines(str(path))) == [(1, "one")]


def test_other_encodings_keep_their_bytes_apart(tmp_path):
    path = tmp_path / "latin.txt"
    path.write_bytes("\xe9t\xe9\n\xeat\xea\n".encode("latin-1"))
    assert [line for _, line in read_lines(path)] == ["\\xe9t\\xe9", "\\xeat\\xea"]


def test_nothing_is_read_ahead_of_need(tmp_path):
    path = tmp_path / "a.gz"
    path.write_bytes(gzip.compress(b"0123456789abcdef\n" * 1_000_000)[:-9])
    lines = read_lines(path)
    assert next(lines) == (1, "0123456789abcdef")
    lines.close()


def test_missing_file(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"absent\.vw: no such file\. Check"):
        next(read_lines(tmp_path / "absent.vw"))


def test_folder(tmp_path):
    with pytest.raises(ValueError, match=r"is a folder\. Name one file"):
        next(read_lines(tmp_path))


def test_truncated_gzip(tmp_path):
    path = tmp_path / "cut.gz"
    path.write_bytes(gzip.compress(b"line\n" * 10)[:-9])
    with pytest.raises(ValueError, match=r"cut\.gz: the gzip data .* after line \d+ "):
        list(read_lines(path))


def test_damaged_gzip(tmp_path):
    path = tmp_path / "bad.gz"
    data = bytearray(gzip.compress(bytes(range(256)) * 8))
    data[20:40] = b"\0" * 20
    path.write_bytes(data)
    with pytest.raises(ValueError, match=r"bad\.gz: the gzip data are damaged"):
        list(read_lines(path))


def test_empty_file_is_named():
    assert str(empty_file("a.vw")) == "a.vw is empty. Name a file with logged rounds."


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("2019-11-24 00:03:13.442536+00:00", "2019-11-24T00:03:13.442536"),
        ("2021-02-04T16:31:29.2460000Z", "2021-02-04T16:31:29.246"),
        ("2021-02-04T16:00:00+02:00", "2021-02-04T14:00"),
        ("2021-02-04T16:00:00", "2021-02-04T16:00"),
        ("1969-12-31", "1969-12-31"),
    ],
)
def test_moments_are_in_utc(text, moment):
    assert np.datetime64(utc_microseconds(text), "us") == np.datetime64(moment)


def test_rows_of_csv_come_with_the_lines_where_they_end(tmp_path):
    path = tmp_path / "men.csv"
    path.write_text('a , b\n\n1,"x\ny"\n2,z\n')
    header, rows = open_csv(path)
    assert header == ["a", "b"]
    assert list(rows) == [(4, ["1", "xy"]), (5, ["2", "z"])]
    path.write_text("")
    with pytest.raises(ValueError, match="is empty"):
        open_csv(path)


def test_a_cell_that_never_ends(tmp_path):
    path = tmp_path / "men.csv"
    path.write_text('a\n"' + "x" * 200_000)
    with pytest.raises(
        ValueError, match=r"men\.csv, line 2: field larger .* a csv file"
    ):
        list(open_csv(path)[1])
