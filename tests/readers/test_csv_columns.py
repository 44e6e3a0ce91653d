# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import gzip
import sys

import numpy as np
import pytest

from skope_ope.exceptions import LogsWarning
from skope_ope.logs import _csv_file
from skope_ope.logs._texts import Texts
from skope_ope.readers import _csv_columns
from skope_ope.readers._csv_columns import line_of_row, open_csv


@pytest.fixture
def csv_file(tmp_path):
    def write(text, name="log.csv"):
        path = tmp_path / name
        data = text.encode()
        path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
        return path

    return write


@pytest.fixture(params=["pyarrow", "neither"])
def read_csv(request, monkeypatch):
    """By pyarrow, and by what Python brings along."""
    if request.param == "pyarrow":
        pytest.importorskip("pyarrow")
    else:
        monkeypatch.setitem(sys.modules, "pyarrow", None)
    return _csv_columns.read_csv


@pytest.mark.parametrize("name", ["log.csv", "log.csv.gz"])
def test_columns_come_by_name_and_kind(read_csv, csv_file, name):
    path = csv_file(
        'a,b,c,d\n1,0.5,"x, y",2026-01-01\n2,1e-3,z,2026-01-02T12:00\n', name
    )
    columns = read_csv(
        path, [("a", "label"), ("b", "number"), ("c", "feature"), ("d", "moment")]
    )
    np.testing.assert_array_equal(columns["a", "label"], [1, 2])
    np.testing.assert_array_equal(columns["b", "number"], [0.5, 0.001])
    assert columns["c", "feature"].array().tolist() == ["x, y", "z"]
    assert len(columns["c", "feature"]) == 2
    np.testing.assert_array_equal(
        columns["d", "moment"],
        np.array(["2026-01-01", "2026-01-02T12:00"], dtype="datetime64[us]"),
    )


def test_one_column_may_be_of_several_kinds(read_csv, csv_file):
    columns = read_csv(csv_file("a\n1\n2\n"), [("a", "label"), ("a", "number")])
    assert columns["a", "label"].dtype.kind == "i"
    assert columns["a", "number"].dtype.kind == "f"


def test_numbers_may_be_written_as_truth_values(read_csv, csv_file):
    columns = read_csv(csv_file("r\nTrue\nFalse\n1\n"), [("r", "number")])
    np.testing.assert_array_equal(columns["r", "number"], [1, 0, 1])


def test_features_may_be_missing(read_csv, csv_file):
    path = csv_file("x,y\n1,\nNA,b\n ,b\nnan,\n")
    columns = read_csv(path, [("x", "feature"), ("y", "feature")])
    np.testing.assert_array_equal(columns["x", "feature"], [1, np.nan, np.nan, np.nan])
    assert columns["y", "feature"].array().tolist() == ["", "b", "b", ""]


def test_blocks_join_and_a_late_text_makes_a_column_of_texts(
    read_csv, csv_file, monkeypatch
):
    monkeypatch.setattr(_csv_file, "TEXT_BYTES", 12)
    told = []
    path = csv_file("x,y,z\n" + "".join(f"{i},{i},{i}\n" for i in range(5)) + "a,5,b\n")
    columns = read_csv(
        path, [("x", "feature"), ("y", "feature"), ("z", "feature")], told.append
    )
    assert columns["x", "feature"].array().tolist() == ["0", "1", "2", "3", "4", "a"]
    np.testing.assert_array_equal(columns["y", "feature"], np.arange(6))
    assert isinstance(columns["z", "feature"], Texts)
    assert told == [2, 4, 2, 4, 6]  # read twice, for x and z


def test_moments_may_be_numbers(read_csv, csv_file):
    columns = read_csv(csv_file("t\n1.5\n2\n"), [("t", "moment")])
    np.testing.assert_array_equal(columns["t", "moment"], [1.5, 2])


def test_labels_lose_the_blanks_around_them(read_csv, csv_file, monkeypatch):
    monkeypatch.setattr(_csv_file, "TEXT_BYTES", 4)
    columns = read_csv(
        csv_file("a,b\n1, x\n 2,x \n1,y\n"), [("a", "label"), ("b", "label")]
    )
    assert columns["a", "label"].tolist() == [1, 2, 1]
    assert columns["b", "label"].tolist() == ["x", "x", "y"]


@pytest.mark.parametrize("late", [False, True])
def test_a_text_among_numbers_is_told(read_csv, csv_file, monkeypatch, late):
    monkeypatch.setattr(_csv_file, "TEXT_BYTES", 4 if late else 100)
    cells = [*range(9), "NA", "n.a.", *range(9)]
    path = csv_file("x\n" + "".join(f"{cell}\n" for cell in cells))
    pattern = (
        r"log\.csv, line 12: column 'x' is 'n\.a\.' among numbers .*\(1 such rows\)"
    )
    with pytest.warns(LogsWarning, match=pattern) as told:
        columns = read_csv(path, [("x", "feature")])
    assert isinstance(columns["x", "feature"], Texts)
    assert told[0].message.value == 1


def test_texts_of_which_many_are_no_numbers_are_not_told(read_csv, csv_file, recwarn):
    cells = ["10115", "SW1A", "75001", "10115"] * 5
    path = csv_file("x\n" + "".join(f"{cell}\n" for cell in cells))
    assert isinstance(read_csv(path, [("x", "feature")])["x", "feature"], Texts)
    assert not recwarn


def test_none_is_a_label_as_it_may_be_an_action(read_csv, csv_file):
    columns = read_csv(csv_file("a\n1\nNone\n"), [("a", "label"), ("a", "label")])
    assert columns["a", "label"].tolist() == ["1", "None"]


def test_quoted_line_ends_count_as_lines(read_csv, csv_file):
    path = csv_file('a,b\n1,"x\r\n\ny"\n\n2,"z"\nfour,\n', "log.csv.gz")
    with pytest.raises(ValueError, match="line 7: column 'a' is 'four'"):
        read_csv(path, [("a", "number")])


@pytest.mark.parametrize(
    ("cells", "kind", "message"),
    [
        (["1", "x"], "number", r"line 3: column 'a' is 'x', expected a number"),
        (["1", ""], "number", r"line 3: column 'a' is missing, expected a finite"),
        (["1", "nan"], "number", r"line 3: column 'a' is missing, expected a finite"),
        (["1", "inf"], "feature", r"line 3: column 'a' is inf, expected a finite n"),
        (["inf"], "number", r"line 2: column 'a' is inf, expected a finite number"),
        (["1", "0_1.0"], "number", r"line 3: column 'a' is '0_1.0', expected a number"),
        (
            ["1" * 5000],
            "number",
            r"line 2: column 'a' is inf, expected a finite number",
        ),
        (["\uff11"], "number", r"line 2: column 'a' is '.', expected a number"),
        (
            ["1_0"],
            "moment",
            r"line 2: column 'a' is '1_0', expected a number or a date",
        ),
        (
            ["1", "2", "NaN"],
            "label",
            r"line 4: column 'a' is 'NaN', a word for missing, expected a label",
        ),
        (["1", "  "], "label", r"line 3: column 'a' is missing, expected a label"),
        (["b", " n/a"], "label", r"line 3: .* is ' n/a', a word for missing.* rename"),
        (["b", ""], "label", r"line 3: column 'a' is missing, expected a label"),
        (["soon"], "moment", r"line 2: column 'a' is 'soon', expected a number or a d"),
    ],
)
def test_bad_cells_are_named_with_their_line(read_csv, csv_file, cells, kind, message):
    path = csv_file("a,b\n" + "".join(f"{cell},0\n" for cell in cells))
    with pytest.raises(ValueError, match=message) as caught:
        read_csv(path, [("a", kind)])
    assert str(path) in str(caught.value)


def test_moments_do_not_mix_numbers_and_datetimes(read_csv, csv_file, monkeypatch):
    monkeypatch.setattr(_csv_file, "TEXT_BYTES", 1)
    with pytest.raises(ValueError, match=r"line 2: column 't' is '1', expected a"):
        read_csv(csv_file("t\n1\n2026-01-01\n"), [("t", "moment")])


def test_a_row_of_another_length_is_named(read_csv, csv_file):
    with pytest.raises(ValueError, match="line 3: 1 cells under 2 column names"):
        read_csv(csv_file("a,b\n1,2\n3\n"), [("a", "number")])


def test_a_header_alone_is_an_empty_file(read_csv, csv_file):
    with pytest.raises(ValueError, match="is empty"):
        read_csv(csv_file("a,b\n"), [("a", "number")])


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"a,b\r1,2\r3,4\r", r"line 1: the line holds a carriage return"),
        (b"a,b\n1,2\r3,4\r", r"line 2: the line holds a carriage return"),
        (b'a,b\n1,"x\n3,4\n', "line 2: a quote is opened and never closed"),
        (b'a,b\n1,2\n1,"x"y\n', "line 3: text follows a closing quote. Put the whole"),
        (b"a,b\n1,\x00\n", "line 2: holds a null byte. Name a text file in UTF-8"),
        ("a,b\n1,2\n".encode("utf-16"), "is encoded in UTF-16. Save it as UTF-8"),
    ],
)
def test_files_that_are_no_csv_files(tmp_path, data, message):
    path = tmp_path / "log.csv"
    for data_of_file in (data, gzip.compress(data)):
        path.write_bytes(data_of_file)
        with pytest.raises(ValueError, match=rf"log\.csv.* {message}"):
            list(open_csv(path)[1])


def test_rows_of_csv_come_with_the_lines_where_they_begin(tmp_path):
    path = tmp_path / "men.csv"
    path.write_text('a , b\n\n1,"x\ny"\n2,z\n')
    header, rows = open_csv(path)
    assert header == ["a", "b"]
    assert list(rows) == [(3, ["1", "x\ny"]), (5, ["2", "z"])]
    assert [line_of_row(path, row) for row in (0, 1)] == [3, 5]
    path.write_text("")
    with pytest.raises(ValueError, match="is empty"):
        open_csv(path)


def test_a_cell_that_never_ends(tmp_path):
    path = tmp_path / "men.csv"
    path.write_text('a\n"' + "x" * 200_000)
    with pytest.raises(
        ValueError, match=r"men\.csv, line 2: a quote is opened and never closed"
    ):
        list(open_csv(path)[1])
