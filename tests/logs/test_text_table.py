# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

from skope_ope.logs._shown_numbers import text_table, wrapped


def test_first_column_left_numbers_right():
    lines = text_table(["", "value"], [["IPS", "1.5"], ["DirectMethod", "10.25"]])
    assert lines == [
        "              value",
        "IPS             1.5",
        "DirectMethod  10.25",
    ]


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
