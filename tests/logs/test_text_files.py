# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Text files, plain and packed: lines, numbers, moments and labels."""

import gzip
import sys

import numpy as np
import pytest

from skope_ope import scan_logs
from skope_ope.readers import read_eppo, read_jsonl, read_vw

ROW = b'{"a": 0, "r": 1}\n'


@pytest.fixture
def read(tmp_path):
    """Function that reads the lines of a file."""
    pytest.importorskip("pandas")

    def read_one(data, name="log.jsonl", **more):
        path = tmp_path / name
        path.write_bytes(data)
        return read_jsonl(str(path), action="a", reward="r", context=[], **more)

    return read_one


# -- lines ----------------------------------------------------------------------------
def test_lines_are_numbered_from_one_and_lose_their_ends(read):
    lines = b'\xef\xbb\xbf{"a": 0, "r": 1}\r\n\n{"a": 2, "r": 0}'
    assert read(lines).action.tolist() == [0, 2]
    with pytest.raises(ValueError, match=r"log\.jsonl, line 3: "):
        read(lines.replace(b'"r": 0', b'"q": 0'))


def test_gzip_is_recognised_by_its_first_bytes(read):
    for name in ("a.jsonl.gz", "a.jsonl", "a.txt"):
        for data in (3 * ROW, gzip.compress(3 * ROW)):
            assert len(read(data, name)) == 3


def test_other_encodings_keep_their_bytes_apart(tmp_path):
    path = tmp_path / "log.vw"
    path.write_bytes("1:1:0.5 | \xe9t\xe9\n2:1:0.5 | \xeat\xea\n".encode("latin-1"))
    one, other = read_vw(path).context
    assert set(one.indices) != set(other.indices)


LONG, BLANK = ROW + b"y" * (2**22 + 1), ROW + b" \t\r\n" * (2**20 + 5)
PACKED = gzip.compress(bytes(range(256)) * 8)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (LONG, r"line 2: longer than 4,194,304 bytes, the most"),
        (gzip.compress(LONG), r"line 2: longer than 4,194,304 bytes, the most"),
        (gzip.compress(ROW * 10)[:-9], r"the gzip data are damaged or cut off \("),
        (PACKED[:20] + b"\0" * 60, "the gzip data are damaged"),
        (b"", "is empty. Name a file with logged rounds."),
        (
            gzip.compress(BLANK, 1),
            "line 2: 1,048,576 blank lines begin here. Drop them",
        ),
    ],
    ids=["long", "long, packed", "cut", "damaged", "empty", "blank"],
)
def test_files_without_an_end_and_damaged_files(read, data, message):
    with pytest.raises(ValueError, match=rf"log\.jsonl(: |, | ){message}"):
        read(data)


@pytest.mark.frames
def test_blank_lines_without_end_behind_a_header(tmp_path):
    pytest.importorskip("narwhals")
    path = tmp_path / "log.csv.gz"
    with gzip.open(path, "wb", compresslevel=1) as file:
        file.write(b"subject,timestamp,experiment,variation\n" + b"\n" * (2**20 + 5))
    with pytest.raises(ValueError, match="blank lines begin here"):
        read_eppo(path, path, experiment="b", weights={0: 0.5, 1: 0.5}, reward="v")


def test_missing_files_and_folders(tmp_path):
    for path, error, message in (
        (tmp_path / "absent", FileNotFoundError, r"absent: no such file\. Check"),
        (tmp_path, ValueError, r"is a folder\. Name one file"),
    ):
        with pytest.raises(error, match=message):
            read_jsonl(path, action="a", reward="r")


@pytest.mark.frames
def test_zstd_is_told_by_its_first_bytes(read, tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    with pyarrow.CompressedOutputStream(str(tmp_path / "packed"), "zstd") as file:
        file.write(ROW * 5000)
    data = (tmp_path / "packed").read_bytes()
    assert len(read(data)) == 5000
    with pytest.raises(ValueError, match=r"log\.jsonl: the zstd data are damaged or"):
        read(data[:-9])


def test_zstd_without_pyarrow(read, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ImportError, match=r"zstd files need pyarrow.*zstd -d"):
        read(b"\x28\xb5\x2f\xfd rest")


# -- moments --------------------------------------------------------------------------
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
def test_moments_are_in_utc(read, text, moment):
    line = f'{{"a": 0, "r": 1, "t": "{text}"}}\n'
    assert read(line.encode(), timestamp="t").timestamp[0] == np.datetime64(moment)


@pytest.mark.parametrize(
    "text",
    [
        *("2021-02-04 24:00:00", "2021-02-30", "2021-02-04116:31:29", "2021-W05-4", ""),
        *("2021-02-04T" + "1" * 5000 + "16:31:29Z", "2021-02-04 00:00.503", "0"),
        *("2021-02-04T16:31:29Zulu", "\u0662021-02-04"),
    ],
)
def test_texts_that_are_no_moments(read, text):
    line = f'{{"a": 0, "r": 1, "t": "{text}"}}\n'
    with pytest.raises(ValueError, match=r"log\.jsonl, line 1: ") as caught:
        read(line.encode(), timestamp="t")
    assert len(str(caught.value)) < 400  # long texts are cut


# -- numbers --------------------------------------------------------------------------
@pytest.fixture
def read_number(tmp_path):
    """Function that reads the reward of an event."""

    def read_one(text):
        path = tmp_path / "log.vw"
        path.write_text(f"1:{text}:0.5 | a\n2:1:0.5 | a\n")
        return -read_vw(path).reward[0]

    return read_one


def test_numbers_may_be_written_in_these_ways(read_number):
    written = {"1": 1, "-0.5": -0.5, "+1e-3": 0.001, ".5": 0.5, "5.": 5}
    assert {text: read_number(text) for text in written} == written


@pytest.mark.parametrize(
    "text",
    [
        *("x", "0_1.0", "1_0", "_1", "1,5", "0x1", "1e", "--1", "\uff11", "\u0663"),
        *("1\u0663", "\u00b2", "\u22121", "1\u00a0", "nan", "inf", "1e999", "1" * 5000),
    ],
)
def test_texts_that_are_no_numbers(read_number, text):
    with pytest.raises(ValueError, match=r"log\.vw, line 1: ") as caught:
        read_number(text)
    assert len(str(caught.value)) < 400


# -- labels ---------------------------------------------------------------------------
KINDS = {
    int: [["0", "12", "-3"]],
    float: [["0", "1.5", "1e-05"], ["0.0", "1.5", "2.0"]],
    bool: [["True", "False"], ["true", "false"], ["TRUE"]],
    str: [
        *(["007", "7"], ["true", "True"], ["true", "1"], ["1", "1.0", "1.5"]),
        *(["1.10", "1.1"], ["0.5", "1e-3"], ["0", "-0"], ["0.0", "-0.0"]),
        *([f"{2**53 + 1}", "0.5"], ["10:00", "10:00:00"], ["1", "a"], ["1e999"]),
        *(["12345678901234567890", "12345678901234567891"], ["1" * 5000, "2"]),
        *(["1_0", "2"], ["\u0661", "1"]),
    ],
}


@pytest.mark.frames
@pytest.mark.parametrize("kind", KINDS)
def test_labels_are_what_all_of_them_look_like(tmp_path, kind):
    pytest.importorskip("pyarrow")
    for texts in KINDS[kind]:
        path = tmp_path / "log.csv"
        path.write_text("a,r\n" + "".join(f"{text},1\n" for text in texts), "utf-8")
        action = scan_logs(path, action="a", reward="r").head(9).action
        assert {type(label) for label in action.tolist()} == {kind}
        assert len(set(action.tolist())) == len(texts)
