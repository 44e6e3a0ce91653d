# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import gzip
import re
import sys

import numpy as np
import pytest

from skope_ope.readers._read_open_bandit import OpenBanditTable, numbered

HEADER = (
    "timestamp,item_id,position,click,propensity_score,user_feature_0,user_feature_1,"
    "user_item_affinity_0,user_item_affinity_1"
)
ROWS = [
    "2019-11-24 00:00:01.5+00:00,1,3,0,0.5,young,x,0,2",
    "2019-11-24 00:00:02+00:00,0,1,1,0.25,old,x,1.5,0",
]


@pytest.fixture(autouse=True, params=["what is installed", "neither"])
def engine(request, monkeypatch):
    if request.param == "neither":
        monkeypatch.setitem(sys.modules, "pyarrow", None)


@pytest.fixture
def write(tmp_path):
    def write(*lines, name="men.csv"):
        path = tmp_path / name
        path.write_text("\n".join(lines) + "\n" if lines else "")
        return path

    return write


def table_of(path, user_features=True, affinity=True):
    return OpenBanditTable(path, user_features, affinity)


def test_columns(write):
    table = table_of(write(HEADER, *ROWS))
    np.testing.assert_array_equal(table.item, [1, 0])
    np.testing.assert_array_equal(table.position, [3, 1])
    np.testing.assert_array_equal(table.click, [0.0, 1.0])
    np.testing.assert_array_equal(table.propensity, [0.5, 0.25])
    assert str(table.timestamp[0]) == "2019-11-24T00:00:01.500000"
    # positions 1 2 3, old young, x, affinities
    expected = [[0, 0, 1, 0, 1, 1, 0, 2], [1, 0, 0, 1, 0, 1, 1.5, 0]]
    np.testing.assert_array_equal(table.matrix(), expected)


def test_columns_in_any_order_with_others_among_them(write):
    order = [8, 3, 6, 2, 0, 5, 1, 4, 7]
    lines = [
        ",".join(["index", *(line.split(",")[k] for k in order), "more"])
        for line in (HEADER, *ROWS)
    ]
    np.testing.assert_array_equal(
        table_of(write(*lines)).matrix(), table_of(write(HEADER, *ROWS)).matrix()
    )


def test_affinities_are_ordered_by_number(write):
    header = HEADER.replace("affinity_0", "affinity_10")
    table = table_of(write(header, *ROWS))
    assert table.affinity_names == ["user_item_affinity_1", "user_item_affinity_10"]
    np.testing.assert_array_equal(table.matrix()[:, -2:], [[2, 0], [0, 1.5]])
    names = [
        name for _, name, _ in numbered(["a_10", "a_9", "b_1"], re.compile(r"a_(\d+)"))
    ]
    assert names == ["a_9", "a_10"]


def test_parts_of_the_context_may_be_left_out(write):
    path = write(HEADER, *ROWS)
    np.testing.assert_array_equal(
        table_of(path, affinity=False).matrix(),
        [[0, 0, 1, 0, 1, 1], [1, 0, 0, 1, 0, 1]],
    )
    np.testing.assert_array_equal(
        table_of(path, user_features=False).matrix(),
        [[0, 0, 1, 0, 2], [1, 0, 0, 1.5, 0]],
    )


@pytest.mark.frames
def test_frame(write):
    pd = pytest.importorskip("pandas")
    frame = table_of(write(HEADER, *ROWS)).frame()
    expected = pd.DataFrame(
        {
            "position": [3, 1],
            "user_feature_0": pd.Categorical(["young", "old"]),
            "user_feature_1": pd.Categorical(["x", "x"]),
            "user_item_affinity_0": [0.0, 1.5],
            "user_item_affinity_1": [2.0, 0.0],
        }
    )
    pd.testing.assert_frame_equal(frame, expected)


def test_frame_without_pandas(write, monkeypatch):
    table = table_of(write(HEADER, *ROWS))
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError, match="as_frame=True needs pandas: pip install"):
        table.frame()


@pytest.mark.parametrize(
    "column", ["timestamp", "item_id", "click", "propensity_score"]
)
def test_missing_columns(write, column):
    with pytest.raises(ValueError, match=rf"men\.csv has no column '{column}'; it has"):
        table_of(write(HEADER.replace(column, "other"), *ROWS))


@pytest.mark.parametrize(
    ("found", "by", "message"),
    [
        (",3,0,", ",4,0,", "position is '4', not 1, 2 or 3"),
        (",3,0,", ",left,0,", "position is 'left', not 1, 2 or 3"),
        (",1,3,", ",1.5,3,", "item_id is '1.5', not a whole number"),
        (",1,3,", f",{2**63},3,", "item_id is '9223372036854775808', not a whole"),
        ("2019-11-24", "yesterday", "timestamp is 'yesterday .* not a moment like"),
        ("3,0,0.5", "3,no,0.5", "click' is 'no', expected a number"),
        ("0,0.5", "0,", "propensity_score' is missing, exp"),
        ("x,0,2", "x,0,two", "user_item_affinity_1' is 'two', expected a number"),
        ("3,0,0.5", "3,0_1,0.5", "click' is '0_1', expected a number"),
        ("3,0,0.5", "3,nan,0.5", "click' is missing, exp"),
        ("x,0,2", "x,0,inf", "user_item_affinity_1' is inf, expected a finite number"),
        (
            ",1,3,",
            ",1000000,3,",
            "item_id is '1000000', not a whole .* below 1,000,000",
        ),
        (",1,3,", ",\u0661,3,", "item_id is '.', not a whole number"),
        (",x,0,2", ",x,0", "8 cells under 9 column names"),
        (",x,0,2", "", "6 cells under 9 column names"),
        (",x,0,2", ",x,0,2,5", "10 cells under 9 column names"),
    ],
)
def test_malformed_rows(write, found, by, message):
    assert found in ROWS[0]
    path = write(HEADER, ROWS[1], "", ROWS[0].replace(found, by, 1))
    with pytest.raises(ValueError, match=rf"men\.csv, line 4: .*{message}"):
        table_of(path)


@pytest.mark.parametrize("lines", [[], [""], [HEADER]])
def test_empty_files(write, lines):
    with pytest.raises(ValueError, match=r"men\.csv is empty"):
        table_of(write(*lines))


def test_files_that_are_not_there_or_cut_off(write, tmp_path):
    with pytest.raises(FileNotFoundError, match="no such file"):
        table_of(tmp_path / "absent.csv")
    path = write(name="men.csv.gz")
    path.write_bytes(gzip.compress("\n".join([HEADER, *ROWS * 500]).encode())[:-9])
    with pytest.raises(ValueError, match="the gzip data are damaged or cut off"):
        table_of(path)
