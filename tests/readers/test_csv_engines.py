# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import sys

import numpy as np
import pytest

from skope_ope.readers._csv_columns import read_csv
from skope_ope.readers._csv_engines import _arrow_engine, _pandas_engine, find_engine

BLOCK = b'1.5,007,"a, b"\nNA,"",c\n,7,c\n-0.0,na\xefve,c'
NAMES = ["0", "1", "2"]


@pytest.fixture(params=["pyarrow", "pandas"])
def engine(request):
    pytest.importorskip(request.param)
    return {"pyarrow": _arrow_engine, "pandas": _pandas_engine}[request.param]()


@pytest.mark.frames
def test_columns_are_floats_or_codes_of_texts(engine):
    block = memoryview(BLOCK)
    found = engine(block, NAMES, {"0": False, "1": True, "2": True})
    np.testing.assert_array_equal(found["0"], [1.5, np.nan, np.nan, -0.0])
    assert np.signbit(found["0"][3])
    codes, cells = found["1"]
    assert [cells[code] for code in codes] == ["007", "", "7", "na\\xefve"]
    codes, cells = found["2"]
    assert (list(codes), list(cells)) == ([0, 1, 1, 1], ["a, b", "c"])


@pytest.mark.frames
@pytest.mark.parametrize(
    "block",
    [b"1,x,2\n", b"1,2\n", b"1,2,3\n1\n", b"1,2,3,4\n", b"1,2,3\n1,2,3,4\n1,2\n"],
)
def test_what_is_no_number_or_no_row_is_refused(engine, block):
    with pytest.raises(ValueError, match=r"."):
        engine(memoryview(block), NAMES, dict.fromkeys(NAMES, False))


@pytest.mark.frames
def test_pyarrow_is_taken_first_and_pandas_without_it(monkeypatch):
    pytest.importorskip("pyarrow")
    pytest.importorskip("pandas")
    assert find_engine().__qualname__.startswith("_arrow_engine")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    assert find_engine().__qualname__.startswith("_pandas_engine")


def test_neither_is_needed(monkeypatch, tmp_path):
    for name in ("pyarrow", "pandas"):
        monkeypatch.setitem(sys.modules, name, None)
    assert find_engine() is None
    path = tmp_path / "log.csv"
    path.write_text("a,b\n1,2\n")
    assert read_csv(path, [("a", "number")])["a", "number"].tolist() == [1.0]
