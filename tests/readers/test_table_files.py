# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Cells of csv, JSON lines and parquet files: what they mean as a kind of column."""

import gzip
import sys
from datetime import UTC, date, datetime

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from skope_ope.exceptions import LogsWarning
from skope_ope.readers import read_growthbook
from tests.readers._tables import column_a, write_csv, write_jsonl, write_parquet

pytestmark = pytest.mark.frames
pytest.importorskip("pandas")
pytest.importorskip("narwhals")
DAYS = np.array(["2026-01-01", "2026-01-02"], dtype="datetime64[us]")


@pytest.fixture(params=["pyarrow", "neither"])
def engine(request, monkeypatch):
    """By pyarrow, and by what Python brings along."""
    if request.param == "pyarrow":
        pytest.importorskip("pyarrow")
    else:
        monkeypatch.setitem(sys.modules, "pyarrow", None)


def check(found, expected):
    expected = np.asarray(expected)
    assert found.dtype.kind in (expected.dtype.kind, "O")
    assert_array_equal(found, expected)


# -- csv ------------------------------------------------------------------------------
@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize("name", ["log.csv", "log.csv.gz"])
@pytest.mark.parametrize(
    ("kind", "cells", "expected"),
    [
        ("label", ["1", "2"], [1, 2]),
        ("label", ["1", " x", "2", "x "], ["1", "x", "2", "x"]),
        ("label", ["1", "None"], ["1", "None"]),  # which may be an action
        ("number", ["0.5", "1e-3"], [0.5, 0.001]),
        ("number", ["True", "False", "1"], [1.0, 0.0, 1.0]),
        ("moment", ["1.5", "2"], [1.5, 2.0]),
        ("moment", ["2026-01-01", "2026-01-02T00:00"], DAYS),
        ("feature", ["1", "NA", " ", "nan"], [1.0, np.nan, np.nan, np.nan]),
        ("feature", ['"x, y"', "", "b", "z"], ["x, y", "", "b", "z"]),
        # of texts of which many are no numbers nothing is told
        ("feature", ["10115", "SW1A", "75001"], ["10115", "SW1A", "75001"]),
    ],
)
def test_cells_of_csv(tmp_path, name, kind, cells, expected):
    check(column_a(write_csv(tmp_path / name, cells), kind), expected)


@pytest.mark.usefixtures("engine")
def test_late_texts_among_numbers_make_a_column_of_texts(tmp_path):
    # the file is read in blocks of four megabytes
    cells = ["0" * 600 + f"{i}" for i in range(7000)]
    path = write_csv(tmp_path / "log.csv", [*cells, "NA", "n.a."])
    pattern = r"log\.csv, line 7003: column 'a' is 'n\.a\.' among numbers .*\(1 such"
    with pytest.warns(LogsWarning, match=pattern) as told:
        found = column_a(path, "feature")
    assert told[0].message.value == 1
    assert found[[0, -2, -1]].tolist() == [cells[0], "", "n.a."]


@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize(
    ("cells", "kind", "message"),
    [
        (["1", "x"], "number", r"line 3: column 'a' is 'x', expected a number"),
        (["1", ""], "number", r"line 3: column 'a' is missing, expected a finite"),
        (["1", "nan"], "number", r"line 3: column 'a' is missing, expected a finite"),
        (["1", "inf"], "feature", r"line 3: column 'a' is inf, expected a finite n"),
        (["inf"], "number", r"line 2: column 'a' is inf, expected a finite number"),
        (["1", "0_1.0"], "number", r"line 3: column 'a' is '0_1.0', expected a number"),
        (["1" * 5000], "number", r"line 2: column 'a' is inf, expected a finite numb"),
        (["\uff11"], "number", r"line 2: column 'a' is '.', expected a number"),
        (["1_0"], "moment", r"line 2: column 'a' is '1_0', expected a number or a dat"),
        (["1", "2026-01-01"], "moment", r"line 2: column 'a' is '1', expected a"),
        (["1", "2", "NaN"], "label", r"line 4: column 'a' is 'NaN', a word for missi"),
        (["1", "  "], "label", r"line 3: column 'a' is missing, expected a label"),
        (["b", " n/a"], "label", r"line 3: .* is ' n/a', a word for missing.* rename"),
        (["b", ""], "label", r"line 3: column 'a' is missing, expected a label"),
        (["soon"], "moment", r"line 2: column 'a' is 'soon', expected a number or a d"),
        (['"x\r\n\ny"', "four"], "number", "line 2: column 'a' is 'x"),
        (["1", "2,3"], "number", "line 3: 6 cells under 5 column names"),
        ([], "number", "is empty"),
    ],
)
def test_bad_cells_of_csv_are_named_with_their_line(tmp_path, cells, kind, message):
    with pytest.raises(ValueError, match=rf"log\.csv.* {message}"):
        column_a(write_csv(tmp_path / "log.csv", cells), kind)


@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"a,b\r1,2\r3,4\r", r"line 1: the line holds a carriage return"),
        (b'a,b\n1,"x\r\n\ny"\n\n2,"z"\nfour\n', "line 7: 1 cells under 2 column names"),
        (b"a,b\n1,\x00\n", "line 2: holds a null byte. Name a text file in UTF-8"),
        (b'a,b\n"' + b"x" * 200_000, "line 2: a quote is opened and never closed"),
    ],
)
def test_files_that_are_no_csv_files(tmp_path, data, message):
    path = tmp_path / "log.csv"
    words = {"user": "a", "timestamp": "b", "variation": "b", "experiment_column": "b"}
    for data_of_file in (data, gzip.compress(data)):
        path.write_bytes(data_of_file)
        with pytest.raises(ValueError, match=rf"log\.csv.* {message}"):
            read_growthbook(path, path, weights="even", **words)


# -- moments --------------------------------------------------------------------------
MOMENTS = {
    "2026-01-31 12:00:00": "2026-01-31T12:00:00",
    "2026-01-31T12:00:00": "2026-01-31T12:00:00",
    "2024-02-29 23:59:59.5": "2024-02-29T23:59:59.5",
    "1969-12-31T23:59:59.999999Z": "1969-12-31T23:59:59.999999",
    "0001-01-01 00:00:00+00:00": "0001-01-01",
    "9999-12-31 23:59:59.123456+00:00": "9999-12-31T23:59:59.123456",
    "2026-01-31": "2026-01-31",
    " 2026-01-31 12:00:00": "2026-01-31T12:00:00",
    "2026-01-31 12:00:00+02:00": "2026-01-31T10:00:00",
}
NO_MOMENTS = ["NaT", "today", "0000-01-01 00:00:00", "2026-02-29 12:00:00"]
NO_MOMENTS += ["2026-01-31 24:00:00", "2026-01-31 12:00:60", "2026-01-31 12:00:00."]
NO_MOMENTS += ["2026-01-31 12:00:00\u00e9", "2026-01-3\u0661 12:00:00"]


@pytest.mark.parametrize("write", [write_csv, write_jsonl], ids=["csv", "jsonl"])
def test_moments(tmp_path, write):
    path = tmp_path / f"log.{write.__name__[6:]}"
    expected = np.sort(np.array([*MOMENTS.values()], dtype="datetime64[us]"))
    # rounds come in the order of time
    assert_array_equal(column_a(write(path, MOMENTS), "moment"), expected)
    for text in NO_MOMENTS:
        wrong = f"'a' is '{text}', expected a number or a da"
        with pytest.raises(ValueError, match=wrong):
            column_a(write(path, ["2026-01-01", text]), "moment")


# -- JSON lines -----------------------------------------------------------------------
@pytest.mark.parametrize(
    ("kind", "values", "expected"),
    [
        ("number", [1, 0.5, True], [1.0, 0.5, 1.0]),
        ("label", ["7", "007"], ["7", "007"]),
        ("label", [7, -1], [7, -1]),
        ("label", [7, 0.5], [7.0, 0.5]),
        ("label", [True, False], [True, False]),
        ("label", [2**70, 2**70 + 1], [str(2**70), str(2**70 + 1)]),
        ("moment", [1, 2.5], [1.0, 2.5]),
        ("feature", [1, None, False], [1.0, np.nan, 0.0]),
        ("feature", ["a", "", "b", "a"], ["a", "", "b", "a"]),
    ],
)
def test_values_of_json_lines(tmp_path, kind, values, expected):
    check(column_a(write_jsonl(tmp_path / "log.jsonl", values), kind), expected)


@pytest.mark.parametrize(
    ("kind", "values", "message"),
    [
        ("number", [1, "2"], "line 2: field 'a' is '2', expected a finite number"),
        ("number", [1, None], "line 2: field 'a' is missing"),
        ("number", [1, 10**400], "line 2: field 'a' is 1000.*a finite number"),
        ("number", [1, [1]], r"line 2: field 'a' is \[1\]"),
        ("label", ["a", 1], "line 2: field 'a' is 1, expected a text"),
        ("label", ["a", ""], "line 2: field 'a' is '', expected a label"),
        ("label", [1, None], "line 2: field 'a' is missing, expected a label"),
        ("label", [1, True], "line 2: field 'a' is True, expected a label"),
        ("label", [1, {"b": 1}], "line 2: field 'a' is {'b': 1}"),
        ("moment", ["2026-01-31", 1], "line 2: field 'a' is 1, expected a datetime"),
        ("feature", ["a", [1]], r"line 2: field 'a' is \[1\], expected a number or a"),
        ("number", [], "is empty"),
    ],
)
def test_what_a_field_of_json_lines_cannot_mean(tmp_path, kind, values, message):
    with pytest.raises(ValueError, match=message):
        column_a(write_jsonl(tmp_path / "log.jsonl", values), kind)


def test_texts_and_days(tmp_path):
    path = write_jsonl(tmp_path / "log.jsonl", ["a", 3, True])
    with pytest.warns(LogsWarning, match=r"line 2: field 'a' is 3 among .*\(2 such"):
        found = column_a(path, "feature")
    assert found.tolist() == ["a", "3", "true"]
    # the days of years
    years = [1600, 1900, 1969, 2000, 2023, 2024, 2100, 9999]
    days = np.concatenate(
        [np.arange(f"{y}-01-01", f"{y}-12-31", dtype="datetime64[D]") for y in years]
    )
    path = write_csv(tmp_path / "log.csv", [f"{day} 00:00:00" for day in days])
    assert_array_equal(column_a(path, "moment"), days)


# -- parquet --------------------------------------------------------------------------
MOMENTS_IN_UTC = [datetime(2026, 1, day, tzinfo=UTC) for day in (1, 2)]


@pytest.mark.parametrize(
    ("kind", "values", "expected"),
    [
        ("label", [1, 2], [1, 2]),
        ("label", "coded", ["x", "y"]),
        ("number", [1, 2], [1.0, 2.0]),
        ("number", [True, False], [1.0, 0.0]),
        ("feature", [0.5, None], [0.5, np.nan]),
        ("feature", ["a", None], ["a", ""]),
        ("feature", "coded", ["x", "y"]),
        ("feature", [True, False], [1.0, 0.0]),
        ("moment", MOMENTS_IN_UTC, DAYS),
        ("moment", [date(2026, 1, 1), date(2026, 1, 2)], DAYS),
        ("moment", ["2026-01-01", "2026-01-02T00:00+00:00"], DAYS),
        ("moment", [1, 2], [1.0, 2.0]),
    ],
)
def test_values_of_parquet(tmp_path, kind, values, expected):
    pyarrow = pytest.importorskip("pyarrow")
    if values == "coded":
        values = pyarrow.array(["x", "y"]).dictionary_encode()
    check(column_a(write_parquet(tmp_path / "log.parquet", values), kind), expected)


@pytest.mark.parametrize(
    ("values", "kind", "message"),
    [
        ([1.0, None], "number", r"column 'a' is missing at row 1 \(1 such rows\)"),
        (["a", None], "label", r"column 'a' is missing at row 1"),
        (["1", "2"], "number", r"column 'a' has type string, expected numbers"),
        ([[1], [2]], "feature", r"column 'a' has type list.*, expected numbers"),
        ([[1], [2]], "number", r"column 'a' has type list.*, expected numbers"),
        ([[1], [2]], "moment", r"column 'a' has type list.*, expected numbers"),
        ([[1], [2]], "label", r"column 'a' has type list.*, expected texts, numbers"),
        ([{"b": 1}], "label", r"column 'a' has type struct.*, expected texts, num"),
        ([b"1"], "label", r"column 'a' has type binary, expected texts, numbers"),
        ([b"1"], "number", r"column 'a' has type binary, expected numbers"),
        ([b"1"], "feature", r"column 'a' has type binary, expected numbers"),
        (["a", ""], "label", r"column 'a' is empty at row 1 \(1 such rows\)"),
        ([1.0, float("nan")], "number", r"column 'a' is not finite at row 1"),
        ([1.0, float("inf")], "moment", r"column 'a' is not finite at row 1"),
        ([1.0, float("inf")], "feature", r"column 'a' is infinite at row 1"),
        (["2026-01-01", "soon"], "moment", r"column 'a' at row 1: 'soon' is no dat"),
        ([], "number", "is empty"),
    ],
)
def test_bad_columns_of_parquet_are_named(tmp_path, values, kind, message):
    with pytest.raises(ValueError, match=message):
        column_a(write_parquet(tmp_path / "log.parquet", values), kind)


def test_parquet_files_that_cannot_be_read(tmp_path, monkeypatch):
    path = write_parquet(tmp_path / "log.parquet", list(range(1000)))
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(ValueError, match=r"log\.parquet cannot be read as parquet"):
        column_a(path, "number")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ImportError, match=r"need pyarrow: pip install 'skope-ope\[fra"):
        column_a(path, "number")


# -- names of columns -----------------------------------------------------------------
def test_missing_columns_are_named_with_those_that_exist(tmp_path):
    path = tmp_path / "log.csv"
    path.write_text(", ".join(["item", "click", *(f"x{i}" for i in range(30))]) + "\n")
    words = {"user": "clicks", "timestamp": "item", "variation": "item"}
    words |= {"weights": "even", "experiment_column": "item"}
    with pytest.raises(ValueError) as told:
        read_growthbook(path, path, **words)
    hint = "has no column 'clicks'. Did you mean 'click'? It has 'item', 'click'"
    assert hint in str(told.value)
    assert str(told.value).endswith("'x9' and 20 more.")
    path.write_text("item,click,item\n")
    with pytest.raises(ValueError, match="several columns 'item'"):
        read_growthbook(path, path, **words | {"user": "click"})
    # a name that is not needed may stand twice
    path.write_text("b,a,b,u,t,v,e\n0,1,0,0,0,0,e\n0,1,0,1,1,1,e\n")
    assert len(column_a(path, "number")) == 2
