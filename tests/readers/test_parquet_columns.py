# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import sys
from datetime import UTC, date, datetime

import numpy as np
import pytest

from skope_ope.logs._texts import Texts
from skope_ope.readers._parquet_columns import open_parquet, read_parquet

pytestmark = pytest.mark.frames


@pytest.fixture
def parquet_file(tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")

    def write(**columns):
        path = tmp_path / "log.parquet"
        parquet.write_table(pyarrow.table(columns), path)
        return path

    return write


def test_columns_come_by_name_and_kind(parquet_file):
    pyarrow = pytest.importorskip("pyarrow")
    path = parquet_file(
        i=[1, 2],
        f=[0.5, None],
        s=["a", None],
        c=pyarrow.array(["x", "y"]).dictionary_encode(),
        b=[True, False],
        t=[datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 2, tzinfo=UTC)],
        d=[date(2026, 1, 1), date(2026, 1, 2)],
        u=["2026-01-01", "2026-01-02T00:00+00:00"],
    )
    wanted = [("i", "label"), ("c", "label"), ("i", "number"), ("b", "number")]
    wanted += [("f", "feature"), ("s", "feature"), ("c", "feature"), ("b", "feature")]
    wanted += [("t", "moment"), ("d", "moment"), ("u", "moment"), ("i", "moment")]
    columns = read_parquet(path, wanted)
    np.testing.assert_array_equal(columns["i", "label"], [1, 2])
    assert columns["c", "label"].tolist() == ["x", "y"]
    np.testing.assert_array_equal(columns["i", "number"], [1.0, 2.0])
    np.testing.assert_array_equal(columns["b", "number"], [1.0, 0.0])
    np.testing.assert_array_equal(columns["f", "feature"], [0.5, np.nan])
    assert isinstance(columns["s", "feature"], Texts)
    assert columns["s", "feature"].array().tolist() == ["a", ""]
    assert columns["c", "feature"].array().tolist() == ["x", "y"]
    np.testing.assert_array_equal(columns["b", "feature"], [1.0, 0.0])
    days = np.array(["2026-01-01", "2026-01-02"], dtype="datetime64[us]")
    for name in "tdu":
        np.testing.assert_array_equal(columns[name, "moment"], days)
    np.testing.assert_array_equal(columns["i", "moment"], [1.0, 2.0])


@pytest.mark.parametrize(
    ("values", "kind", "message"),
    [
        ([1.0, None], "number", r"column 'x' is missing at row 1 \(1 such rows\)"),
        (["a", None], "label", r"column 'x' is missing at row 1"),
        (["1", "2"], "number", r"column 'x' has type string, expected numbers"),
        ([[1], [2]], "feature", r"column 'x' has type list.*, expected numbers"),
        ([[1], [2]], "number", r"column 'x' has type list.*, expected numbers"),
        ([[1], [2]], "moment", r"column 'x' has type list.*, expected numbers"),
        ([[1], [2]], "label", r"column 'x' has type list.*, expected texts, numbers"),
        ([{"a": 1}], "label", r"column 'x' has type struct.*, expected texts, num"),
        ([b"1"], "label", r"column 'x' has type binary, expected texts, numbers"),
        ([b"1"], "number", r"column 'x' has type binary, expected numbers"),
        ([b"1"], "feature", r"column 'x' has type binary, expected numbers"),
        (["a", ""], "label", r"column 'x' is empty at row 1 \(1 such rows\)"),
        ([1.0, float("nan")], "number", r"column 'x' is not finite at row 1"),
        ([1.0, float("inf")], "moment", r"column 'x' is not finite at row 1"),
        ([1.0, float("inf")], "feature", r"column 'x' is infinite at row 1"),
        (["2026-01-01", "soon"], "moment", r"column 'x' at row 1: 'soon' is no dat"),
    ],
)
def test_bad_columns_are_named(parquet_file, values, kind, message):
    with pytest.raises(ValueError, match=message):
        read_parquet(parquet_file(x=values), [("x", kind)])


def test_a_file_without_rows_is_empty(parquet_file):
    pyarrow = pytest.importorskip("pyarrow")
    path = parquet_file(x=pyarrow.array([], pyarrow.float64()))
    with pytest.raises(ValueError, match="is empty"):
        read_parquet(path, [("x", "number")])


def test_damaged_files_are_named(parquet_file):
    path = parquet_file(x=list(range(1000)))
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(ValueError, match=r"log\.parquet cannot be read as parquet"):
        open_parquet(path)


def test_missing_pyarrow_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ImportError, match=r"need pyarrow: pip install 'skope-ope\[fra"):
        open_parquet(tmp_path / "log.parquet")
