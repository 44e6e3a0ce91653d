# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import json

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from skope_ope.exceptions import LogsWarning
from skope_ope.readers import _jsonl_columns
from skope_ope.readers._jsonl_columns import read_jsonl_columns


def read(tmp_path, values, kind):
    path = tmp_path / "log.jsonl"
    path.write_text("".join(json.dumps({"x": value}) + "\n" for value in values))
    return read_jsonl_columns(path, [("x", kind)])["x", kind]


@pytest.mark.parametrize(
    ("kind", "values", "expected"),
    [
        ("number", [1, 0.5, True], [1.0, 0.5, 1.0]),
        ("label", ["7", "007"], np.array(["7", "007"])),
        ("label", [7, -1], np.array([7, -1])),
        ("label", [7, 0.5], np.array([7.0, 0.5])),
        ("label", [True, False], np.array([True, False])),
        ("label", [2**70, 2**70 + 1], np.array([str(2**70), str(2**70 + 1)])),
        ("moment", [1, 2.5], [1.0, 2.5]),
        (
            "moment",
            ["2026-01-31T12:00:00Z", "2026-01-31T12:00:00.5+01:00"],
            np.array(
                ["2026-01-31T12:00:00", "2026-01-31T11:00:00.5"], "datetime64[us]"
            ),
        ),
        ("feature", [1, None, False], [1.0, np.nan, 0.0]),
        ("cell", [1, None, False], [1.0, np.nan, 0.0]),
        ("cell", [None, None], [np.nan, np.nan]),
        ("cell", ["a", None, ""], np.array(["a", None, ""], dtype=object)),
    ],
)
def test_kinds(tmp_path, kind, values, expected):
    found = read(tmp_path, values, kind)
    expected = np.asarray(expected)
    assert found.dtype.kind == expected.dtype.kind
    assert_array_equal(found, expected)


def test_features_that_are_texts(tmp_path):
    texts = read(tmp_path, ["a", None, "b", "a"], "feature")
    assert_array_equal(texts.array(), ["a", "", "b", "a"])


@pytest.mark.parametrize(
    ("kind", "values", "message"),
    [
        ("number", [1, "2"], "line 2: field 'x' is '2', expected a finite number"),
        ("number", [1, None], "line 2: field 'x' is missing"),
        ("number", [1, 10**400], "line 2: field 'x' is 1000.*a finite number"),
        ("number", [[1]], r"line 1: field 'x' is \[1\]"),
        ("label", ["a", 1], "line 2: field 'x' is 1, expected a text"),
        ("label", ["a", ""], "line 2: field 'x' is '', expected a label"),
        ("label", [1, None], "line 2: field 'x' is missing, expected a label"),
        ("label", [1, True], "line 2: field 'x' is True, expected a label"),
        ("label", [{"a": 1}], "line 1: field 'x' is {'a': 1}"),
        ("moment", ["2026-01-31", 1], "line 2: field 'x' is 1, expected a datetime"),
        ("moment", ["soon"], "line 1: field 'x' is 'soon', expected a number or"),
        ("feature", ["a", [1]], r"line 2: field 'x' is \[1\], expected a number or a"),
        ("cell", [1, {"b": 1}], "line 2: field 'x' is {'b': 1}, expected a number"),
    ],
)
def test_what_a_field_cannot_mean(tmp_path, kind, values, message):
    with pytest.raises(ValueError, match=message):
        read(tmp_path, values, kind)


@pytest.mark.parametrize("kind", ["feature", "cell"])
def test_numbers_among_texts_are_told(tmp_path, kind):
    with pytest.warns(LogsWarning, match=r"line 2: field 'x' is 3 among .*\(2 such"):
        found = read(tmp_path, ["a", 3, True, None], kind)
    found = found.array() if kind == "feature" else found
    assert found.tolist()[:3] == ["a", "3", "true"]


def test_an_empty_file(tmp_path):
    with pytest.raises(ValueError, match="is empty"):
        read(tmp_path, [], "number")


def test_progress_is_reported(tmp_path, monkeypatch):
    monkeypatch.setattr(_jsonl_columns, "REPORT_EVERY", 2)
    path = tmp_path / "log.jsonl"
    path.write_text('{"x": 1}\n' * 5)
    told = []
    read_jsonl_columns(path, [("x", "number")], told.append)
    assert told == [2, 4]
