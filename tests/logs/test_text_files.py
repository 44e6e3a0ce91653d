# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import gzip
import sys

import numpy as np
import pytest

from skope_ope.__main__ import main
from skope_ope.logs import _text_files
from skope_ope.logs._text_files import (
    empty_file,
    first_line,
    read_lines,
    sample_lines,
    utc_microseconds,
)
from skope_ope.readers import read_jsonl


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


@pytest.mark.parametrize("packed", [False, True])
def test_a_line_without_end_is_refused(tmp_path, monkeypatch, packed):
    monkeypatch.setattr(_text_files, "LONGEST", 1000)
    path = tmp_path / "bomb.gz"
    data = b"x" * 999 + b"\n" + b"y" * 10**6
    path.write_bytes(gzip.compress(data) if packed else data)
    lines = read_lines(path)
    assert len(next(lines)[1]) == 999
    with pytest.raises(
        ValueError, match=r"bomb\.gz, line 2: longer than 1,000 bytes, the most"
    ):
        next(lines)


@pytest.mark.parametrize("line", [b"\n", b" \t\r\n"])
@pytest.mark.parametrize("name", ["log.csv.gz", "log.jsonl.gz", "log.dsjson.gz"])
def test_blank_lines_without_end(tmp_path, capsys, name, line):
    path = tmp_path / name
    with gzip.open(path, "wb", compresslevel=1) as file:
        file.write(line * (2**20 + 5))
    told = "line 1: 1,048,576 blank lines begin here. Drop them, or name a file"
    with pytest.raises(ValueError, match=told):
        first_line(path)
    assert main(["audit", str(path), "--action", "a", "--reward", "r"]) == 2
    assert told in capsys.readouterr().err
    if "jsonl" in name:
        with pytest.raises(ValueError, match=told):
            read_jsonl(path, action="a", reward="r")


def test_blank_lines_without_end_behind_a_header(tmp_path, capsys):
    path = tmp_path / "log.csv.gz"
    with gzip.open(path, "wb", compresslevel=1) as file:
        file.write(b"a,r\n0,1\n" + b"\n" * (2**24))
    assert main(["audit", str(path), "--action", "a", "--reward", "r"]) == 2
    assert "blank lines begin here" in capsys.readouterr().err


def test_a_sample_of_lines_ends_where_they_are_long(tmp_path, monkeypatch):
    monkeypatch.setattr(_text_files, "LONGEST", 10)
    path = tmp_path / "a.txt"
    path.write_text(" \n  abcdef\nabcdef\nabcdef\n")
    assert [number for number, _ in sample_lines(path, 2)] == [1, 2]
    assert [number for number, _ in sample_lines(path, 100)] == [1, 2, 3]
    assert first_line(path) == "abcdef"


def test_truncated_gzip(tmp_path):
    path = tmp_path / "cut.gz"
    path.write_bytes(gzip.compress(b"line\n" * 10)[:-9])
    with pytest.raises(
        ValueError, match=r"cut\.gz: the gzip data are damaged or cut off \("
    ):
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
        ("20210204T163129.5Z", "2021-02-04T16:31:29.5"),
        ("2021-02-04t16:31+0100", "2021-02-04T15:31"),
        ("2021-02-04 16", "2021-02-04T16:00"),
        ("2021-02-04 16:31:29,25-01", "2021-02-04T17:31:29.25"),
    ],
)
def test_moments_are_in_utc(text, moment):
    assert np.datetime64(utc_microseconds(text), "us") == np.datetime64(moment)


@pytest.mark.parametrize(
    "text",
    [
        "2021-02-04 24:00:00",
        "2021-02-30",
        "2021-02-04116:31:29",
        "2021-02-04T" + "1" * 5000 + "16:31:29Z",
        "2021-02-04 00:00.503",
        "2021-02-04T16:31:29Zulu",
        "\u0662021-02-04",
        "2021-W05-4",
        " 2021-02-04",
        "",
        "0",
    ],
)
def test_texts_that_are_no_moments(text):
    with pytest.raises(
        ValueError, match=r"no datetime|isoformat|must be in|out of ran"
    ):
        utc_microseconds(text)


@pytest.mark.frames
def test_zstd_is_told_by_its_first_bytes(tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    path = tmp_path / "log.csv"
    with pyarrow.CompressedOutputStream(str(path), "zstd") as file:
        file.write(b"a,b\n" + b"1,2\n" * 50_000)
    assert next(read_lines(path)) == (1, "a,b")
    assert len(list(read_lines(path))) == 50_001
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(ValueError, match=r"log\.csv: the zstd data are damaged or cut"):
        list(read_lines(path))


def test_zstd_without_pyarrow(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    path = tmp_path / "log.zst"
    path.write_bytes(b"\x28\xb5\x2f\xfd rest")
    with pytest.raises(ImportError, match=r"zstd files need pyarrow.*zstd -d"):
        list(read_lines(path))
