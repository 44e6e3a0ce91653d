# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import pytest

from skope_ope.readers._jsonl_columns import (
    field_names,
    getter,
    line_of_object,
    read_objects,
)


def write(tmp_path, text):
    path = tmp_path / "log.jsonl"
    path.write_text(text)
    return path


def test_objects_come_with_their_lines(tmp_path):
    path = write(tmp_path, '\n{"a": 1}\n\n{"a": {"b" : 2}}\n')
    assert list(read_objects(path)) == [(2, {"a": 1}), (4, {"a": {"b": 2}})]
    assert [line_of_object(path, row) for row in range(2)] == [2, 4]


def test_fields_in_the_order_of_their_first_line(tmp_path):
    path = write(
        tmp_path, '{"b": 1, "u": {"x": null, "l": [5, 6]}}\n{"u": {"y": {"z": 1}}}\n'
    )
    assert field_names(path) == ["b", "u.x", "u.l.0", "u.l.1", "u.y.z"]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("a", 1),
        ("u.x", 2),
        ("u.l.1", 6),
        ("u.l.2", None),
        ("a.x", None),
        ("none", None),
        ("u.none.x", None),
        ("k.l", 7),
        ("u.m.n", 8),
        ("u", {"x": 2, "l": [5, 6], "m.n": 8}),
    ],
)
def test_a_field(name, value):
    event = {"a": 1, "u": {"x": 2, "l": [5, 6], "m.n": 8}, "k.l": 7}
    assert getter(name)(event) == value


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"a": 1}\n{"a": \n', r"log\.jsonl, line 2: not valid JSON"),
        ('{"a": 1}\n[1]\n', "line 2: the line holds .* one JSON object on one line"),
        ('{"a": NaN}\n', "line 1: NaN is not a finite number"),
        ('{"a": 1, "a": 2}\n', "line 1: the key 'a' comes twice"),
        ('{"u": [{"a": 1, "a": 2}]}\n', "line 1: the key 'a' comes twice"),
        ('{"u.a": 1, "u": {"a": 2}}\n', "two fields are called 'u.a'"),
        ("\n\n", "is empty"),
    ],
)
def test_bad_lines(tmp_path, text, message):
    with pytest.raises(ValueError, match=message):
        field_names(write(tmp_path, text))
