# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import csv
import gzip

import pytest

from skope_ope.readers import _csv_blocks
from skope_ope.readers._csv_blocks import csv_blocks
from skope_ope.readers._text_files import LONGEST_CELL, DoubtError


def blocks_of(path):
    return [bytes(block) for block in csv_blocks(path)]


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("last", ["", "7,8"])
def test_blocks_are_whole_rows(tmp_path, monkeypatch, packed, last):
    monkeypatch.setattr(_csv_blocks, "FIRST", 16)
    monkeypatch.setattr(_csv_blocks, "SIZE", 64)
    rows = "".join(f"{i},{i * i}\n" for i in range(40)) + last
    path = tmp_path / "log.csv"
    data = f"a,b\n{rows}".encode()
    path.write_bytes(gzip.compress(data) if packed else data)
    blocks = blocks_of(path)
    assert b"".join(blocks) == rows.encode()
    assert all(block.endswith(b"\n") for block in blocks[:-1])
    assert len(blocks[0]) <= 16 and 64 >= max(map(len, blocks)) > 16


def test_a_file_without_rows_has_no_block(tmp_path):
    path = tmp_path / "log.csv"
    path.write_text("a,b\n")
    assert blocks_of(path) == []


@pytest.mark.parametrize(
    "rows",
    ['"a, b",1\n', '1,"say ""so"""\n', '"",""\r\n', '1,"x"', '"1",2\n\n"3",4\n'],
)
def test_quotes_around_cells_are_plain(tmp_path, rows):
    path = tmp_path / "log.csv"
    path.write_bytes(f"a,b\n{rows}".encode())
    assert blocks_of(path) == [rows.encode()]


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"a,b",
        b" \na,b\n1,2\n",
        b'a,"b\nc"\n1,2\n',
        b"a,b\n1,\x00\n",
        b"a,b\n1,2\r3,4\n",
        b"a,b\n1,2\r\r\n",
        b'a,b\n1,"x\ny"\n',
        b'a,b\n1,"x\n',
        b'a,b\n1,a"b"\n',
        b'a,b\n1,"x"y\n',
        b'a,b\n1, "x"\n',
        b'a,b\n1,""x""\n',
    ],
)
def test_what_readers_may_take_in_different_ways(tmp_path, data):
    path = tmp_path / "log.csv"
    path.write_bytes(data)
    with pytest.raises(DoubtError):
        blocks_of(path)


@pytest.mark.parametrize("length", [LONGEST_CELL + 1, 2 * _csv_blocks.SIZE])
def test_long_lines_are_left_to_our_own_reader(tmp_path, length):
    assert csv.field_size_limit() == LONGEST_CELL
    path = tmp_path / "log.csv"
    path.write_bytes(b"a,b\n" + b"1,2\n" * 20_000 + b"1," + b"x" * length + b"\n1,2\n")
    with pytest.raises(DoubtError):
        blocks_of(path)
