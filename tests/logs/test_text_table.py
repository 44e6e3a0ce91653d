# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import pytest

from skope_ope.logs._text_table import decimals, number, text_table, wrapped


def test_first_column_left_numbers_right():
    lines = text_table(["", "value"], [["IPS", "1.5"], ["DirectMethod", "10.25"]])
    assert lines == [
        "              value",
        "IPS             1.5",
        "DirectMethod  10.25",
    ]


@pytest.mark.parametrize(
    ("errors", "places"),
    [
        ([0.0123], 4),
        ([0.00123, 0.0012, 7e-6], 5),
        ([12.0], 1),
        ([1234.0], 0),
        ([0.0, float("nan"), float("inf")], 4),
        ([], 4),
    ],
)
def test_a_typical_standard_error_has_three_digits(errors, places):
    assert decimals(errors) == places


def test_numbers():
    assert number(1234.5678, 2) == "1,234.57"
    assert number(None, 2) == "-"
    assert number(float("nan"), 2) == "nan"


def test_lines_fit_a_terminal(monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    lines = wrapped("word " * 40, "[1] ")
    assert max(map(len, lines)) <= 60
    assert lines[0].startswith("[1] word")
    assert all(line.startswith("    word") for line in lines[1:])
    path = "/very" * 30
    assert wrapped(path)[0] == path  # paths are never cut


def test_hidden_characters_are_told_and_counted():
    lines = text_table(["", "x\x1b"], [["a\x1b[2J\nb", "1"], ["c", "2\u202e"]])
    assert lines == [
        r"               x\x1b",
        r"a\x1b[2J\nb        1",
        r"c            2\u202e",
    ]
    assert wrapped("red\x1b[31m\nand\u2028more", "\x9b ") == [
        r"\x9b red\x1b[31m and more"
    ]
