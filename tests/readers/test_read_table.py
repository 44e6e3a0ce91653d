# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import numpy as np
import pytest

from skope_ope.readers._read_table import check_names, names_of_columns, read_columns


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "log.csv"
    path.write_text("item, click,p\na,1,0.5\n")
    return path


def test_names_are_those_of_the_header(path):
    assert names_of_columns(path) == ["item", "click", "p"]


def test_a_wanted_column_is_read_once(path):
    columns = read_columns(path, [("p", "number")] * 2)
    assert list(columns) == [("p", "number")]
    np.testing.assert_array_equal(columns["p", "number"], [0.5])


def test_parquet_and_csv_agree(path, tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    other = tmp_path / "log.parquet"
    table = pyarrow.table({"item": ["a"], "click": [1], "p": [0.5]})
    parquet.write_table(table, other)
    assert names_of_columns(other, format="parquet") == names_of_columns(path)
    wanted = [("item", "label"), ("click", "number"), ("p", "feature")]
    left = read_columns(path, wanted)
    right = read_columns(other, wanted, format="parquet")
    for key in wanted:
        np.testing.assert_array_equal(left[key], right[key])


def test_a_missing_column_is_named_with_those_that_exist(path):
    message = (
        r"has no column 'clicks'. Did you mean 'click'\? It has 'item', 'click', 'p'"
    )
    with pytest.raises(ValueError, match=message):
        read_columns(path, [("clicks", "number")])


def test_long_headers_are_shortened():
    names = [f"x{i}" for i in range(30)]
    with pytest.raises(ValueError, match=r"'x11' and 18 more\."):
        check_names("log.csv", names, ["reward"])


def test_a_name_that_stands_twice_is_refused():
    with pytest.raises(ValueError, match="several columns 'a'"):
        check_names("log.csv", ["a", "b", "a"], ["a"])
    check_names("log.csv", ["a", "b", "a"], ["b"])  # not needed: no matter
