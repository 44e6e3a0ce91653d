# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

"""A csv file means the same to the shell and to `scan_logs`, or is refused by both."""

import re
import sys

import numpy as np
import pytest

from skope_ope import scan_logs
from skope_ope.__main__ import main
from skope_ope.logs import _text_files
from skope_ope.logs.lazy import _file_parts
from skope_ope.readers._read_logs import read_logs
from skope_ope.readers._table_logs import Roles

pytest.importorskip("pyarrow")

COLUMNS = ["item", "click", "p", "user", "x", "city"]
NAMED = {"action": "item", "reward": "click", "propensity": "p", "group": "user"}
USUAL = {
    "item": [["a", "b", "c"], ["0", "1", "2"], ["0.5", "1.5"], ["True", "False"]],
    "click": [["0", "1"], ["0.25", "-3", "1e-3"], ["true", "false"]],
    "p": [["0.5"], ["0.25", ".5", "1"]],
    "user": [["u1", "u2"], ["1", "22", "333"], ["10:00", "10:00:00"]],
    "x": [["1", "2.5", "-7"], ["1", "", "NA"], ["true", "1"], ["", "NaN"]],
    "city": [["Rome", "Oslo"], ["Rome", "", "null"], ["10:00", "9:30"], ["007", "x"]],
}
LABELS = ["7", "007", "1.1", "1.10", "1", "1.0", "true", "TRUE", "-0", "+1", "1e3"]
LABELS += ["12345678901234567", "12345678901234568", "9" * 19, "10:00", "10:00:00"]
ODD = [*LABELS, "", " ", "NA", "n/a", "nan", " NaN ", "null", "None", "none", "inf"]
ODD += [" a", "a ", "\xa0a", "\u00e9", "\u0662", "1_0", "0x10", "nan(1)", "1e400"]
ODD += ["2026-01-01", "-nan", "+.5", "1.", " 1", "1\t", "\x1f1", "a\u2028b", "0"]
QUOTED = ['"a"', '""', '"a, b"', '"say ""so"""', '"a\nb"', '"a\r\nb"', '"1"', '" 7"']
WRONG = ['"x', 'x"', '"a"b', 'a"b"', ' "a"', '"a" ', '""a""', "a\rb", "\0", "1,2"]
LINES = ["", " ", ",", "1", '""', ",,,,,", ",,,,,,", "\r"]


def nasty(rng):
    """Return the bytes of a csv file that is right, nearly right, or not at all."""
    often = rng.choice([0, 0.01, 0.05, 0.2])
    pools = {name: USUAL[name][rng.integers(len(USUAL[name]))] for name in COLUMNS}
    odd = [ODD, LABELS, QUOTED, WRONG][rng.choice(4, p=[0.3, 0.3, 0.3, 0.1])]
    end = str(rng.choice(["\n", "\n", "\r\n"]))
    names = [f'"{n}"' if rng.random() < 0.1 else n for n in COLUMNS]
    if rng.random() < 0.05:
        names[rng.integers(6)] = str(rng.choice([" p", "x", "city ", "ite\nm", '"x']))
    lines = ["", ",".join(names)][rng.random() > 0.1 :]
    for _ in range(rng.integers(12)):
        row = [str(rng.choice(pools[name])) for name in COLUMNS]
        for place in np.flatnonzero(rng.random(6) < often):
            row[place] = str(rng.choice(odd))
        lines.append(",".join(row))
        if rng.random() < often / 10:
            lines.append(str(rng.choice(LINES)))
    text = end.join(lines) + end * int(rng.integers(3))
    text = "\ufeff" * (rng.random() < 0.1) + text
    return text.encode("latin-1" if rng.random() < 0.1 else "utf-8", "replace")


def in_memory(path):
    """Return labels, numbers and features as the shell reads them."""
    roles = Roles(NAMED, context=("x", "city"))
    file = read_logs(path, roles, format="csv")
    features = [
        column.array() if hasattr(column, "array") else column
        for column in file.features.values()
    ]
    return file.logs, features


def in_parts(path):
    logs = scan_logs(path, **NAMED, context=["x", "city"])
    logs = logs.head(len(logs))
    frame = logs.context
    return logs, [np.asarray(frame[name]) for name in ("x", "city")]


def outcome(read, path):
    try:
        return read(path)
    except (ValueError, TypeError) as error:
        return str(error)


def plain(found):
    """Return what was read as lists, with the types of labels, or what was refused."""
    if isinstance(found, str):
        return found
    logs, features = found
    fields = [getattr(logs, name).tolist() for name in ("action", "group")]
    types = [[*map(type, labels)] for labels in fields]
    numbers = [logs.reward.tolist(), logs.propensity.tolist()]

    def gone(cell):
        return cell in ("", None) or cell != cell

    cells = [[None if gone(c) else c for c in one.tolist()] for one in features]
    return fields, types, numbers, cells


def hold_together(path, seed):
    """Assert that both readings agree; return what they agree on."""
    whole, parts = outcome(in_memory, path), outcome(in_parts, path)
    told = seed, path.read_bytes(), whole, parts
    if isinstance(whole, str) or isinstance(parts, str):
        assert isinstance(whole, str), told
        if "is empty" in whole:  # a day without a round
            assert isinstance(parts, str) or not len(parts[0]), told
            return "empty"
        assert isinstance(parts, str), told
        for one in (whole, parts):
            assert path.name in one, told
            assert re.search(r"line \d|no column|several col|2 col| not in ", one), told
        return "refused"
    assert plain(whole) == plain(parts), told
    return "read"


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "part", [0, *(pytest.param(k, marks=pytest.mark.thorough) for k in range(1, 10))]
)
def test_both_readings_agree_on_nasty_files(tmp_path, monkeypatch, part):
    rng, path, found = np.random.default_rng(part), tmp_path / "log.csv", []
    for seed in range(200):
        path.write_bytes(nasty(rng))
        size = int(rng.choice([2**22, 2**22, 60]))
        monkeypatch.setattr(_text_files, "TEXT_BYTES", size)
        monkeypatch.setattr(
            _file_parts, "PART_BYTES", int(rng.choice([2**25, 2**25, 60]))
        )
        with monkeypatch.context() as without:
            found.append(hold_together(path, (part, seed)))
            if seed % 4 == 0:  # Python's csv reads the same
                whole = plain(outcome(in_memory, path))
                without.setitem(sys.modules, "pyarrow", None)
                assert plain(outcome(in_memory, path)) == whole, path.read_bytes()
    assert found.count("read") > 50
    assert found.count("refused") > 50


@pytest.fixture
def refused(tmp_path, capsys):
    """Return what the shell and `scan_logs` say of a file that both refuse."""

    def refused(data):
        path = tmp_path / "log.csv"
        path.write_bytes(data if isinstance(data, bytes) else data.encode())
        words = ["--action", "item", "--reward", "click", "--propensity", "p"]
        assert main(["audit", str(path), *words, "--context", ""]) == 2
        with pytest.raises(ValueError, match=r"log\.csv") as error:
            scan_logs(path, **{**NAMED, "group": None}).head(9)
        return capsys.readouterr().err, str(error.value)

    return refused


@pytest.mark.parametrize(
    ("rows", "told"),
    [
        ('"x,1,.5\ny,0,.5\n', "line 2: a quote is opened and never closed. Close it"),
        ('a,1,.5\n"x"y,1,.5\n', "line 3: text follows a closing quote. Put the whole"),
        ('a,1,.5\n"x" ,1,.5\n', "line 3: text follows a closing quote"),
        ('a,1,.5\n\n5" tv,1,.5\n', "line 4: a quote stands inside a cell. Put the who"),
        ('"a\nb",1,.5\n "x",1,.5\n', "line 4: a quote stands inside a cell"),
        ("a,1,.5\na,1\n", "line 3: 2 cells under 3 column names. Correct or drop"),
        ('"a\n",1,.5\r\na,1,.5,2\r\n', "line 4: 4 cells under 3 column names"),
        ("a,1,.5\n  \n", "line 3: 1 cells under 3 column names"),
        ("a,1,.5\nb,0\0,.5\n", "line 3: holds a null byte"),
        ("a,1,.5\nb,0,.5\rc,1,.5\n", "line 3: the line holds a carriage return"),
    ],
)
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_rows_that_are_no_strict_csv_are_refused_in_the_same_words(
    refused, rows, told, mark
):
    for message in refused(f"{mark}item,click,p\n{rows}"):
        assert f"log.csv, {told}" in message


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (b"", "log.csv is empty"),
        (b"\n\r\n", "log.csv is empty"),
        ("item,click,p\n".encode("utf-16"), "encoded in UTF-16"),
        (b"item;click;p\na;1;.5\n", "separated by ';', but a comma"),
        (b'item,click,"p\na,1,.5\n', "line 1: a quote is opened and never closed"),
    ],
)
def test_files_without_a_header_are_refused_in_the_same_words(refused, data, told):
    assert all(told in message for message in refused(data))


@pytest.mark.parametrize(
    ("row", "told"),
    [
        (",1,.5", "'item' is missing"),
        ("  ,1,.5", "'item' is missing"),
        *((f"{word},1,.5", "a word for missing") for word in ("NA", " nan", "Null")),
        ('"N/A",1,.5', "a word for missing.* rename the label"),
        ("a,x,.5", "'click' is 'x'"),
        ("a,0_1,.5", "'click' is '0_1'"),
        ("a,inf,.5", "'click' is inf"),
        *((f"a,{word},.5", "missing") for word in ("", '""', "na", "None", " NULL ")),
        ("a,1,1.5", "propensity must lie in"),
    ],
)
def test_cells_that_are_refused_are_named_with_their_line(refused, row, told):
    for message in refused(f"item,click,p\na,1,.5\n\nb,0,.5\n{row}\n"):
        assert re.search(rf"log\.csv.*{told}", message)
        assert "line 5" in message


TWO_WAYS = [("7", "007"), ("12345678901234567", "12345678901234568"), ("1.10", "1.1")]
TWO_WAYS += [("1", "1.0"), ("true", "1"), ("true", "TRUE"), ("10:00", "10:00:00")]
TWO_WAYS += [("2026-01-01", "2026-01-01 00:00:00"), ("1000", "1e3"), ("0", "-0")]
TWO_WAYS += [("9223372036854775807", "9223372036854775808")]


@pytest.mark.parametrize(("one", "other"), TWO_WAYS)
def test_labels_that_are_written_in_two_ways_are_two(tmp_path, one, other):
    """Also where the second one stands far below the first megabyte."""
    path = tmp_path / "log.csv"
    row = "{0},1,.5,{0},1,Rome\n"
    rows = 70_000 * row.format(one) + row.format(other)
    path.write_text(f"{','.join(COLUMNS)}\n{rows}")
    expected = [int(one), int(other)] if "12345" in one else [one, other]
    for read in (in_memory, in_parts):
        logs, _ = read(path)
        assert logs.actions.tolist() == sorted(expected)
        assert logs.action[[0, -1]].tolist() == expected
        assert logs.group[[0, -1]].tolist() == expected
    lazy = scan_logs(path, **NAMED).labelled()
    assert lazy.actions.tolist() == sorted(expected)
    assert lazy.partitions[0].read().action[-1] == expected[1]


@pytest.mark.parametrize(
    ("cells", "labels"),
    [
        (["7", " 8 ", "-1"], [7, 8, -1]),
        (["0.5", "1", "1e-05"], [0.5, 1.0, 1e-05]),
        (["0.5", "1.0", "0.30000000000000004"], [0.5, 1.0, 0.30000000000000004]),
        (["True", "False", "True"], [True, False, True]),
        (["a", " a", "a\t"], ["a", "a", "a"]),
        (["None", "a", "none"], ["None", "a", "none"]),
        ([f"{2**53 + 1}", "0.5", "1"], [f"{2**53 + 1}", "0.5", "1"]),
        (["a", '"say ""so"""', '"b\r\nc"'], ["a", 'say "so"', "b\r\nc"]),
        (["\u00e9", "\u00ea", "a"], ["\u00e9", "\u00ea", "a"]),
    ],
)
def test_labels_are_numbers_where_all_texts_are_those_of_numbers(
    tmp_path, monkeypatch, cells, labels
):
    path = tmp_path / "log.csv"
    rows = (f"{cell},1,.5,{cell},1,Rome\r\n" for cell in cells)
    path.write_text(f"{','.join(COLUMNS)}\n{''.join(rows)}", newline="")
    monkeypatch.setattr(_file_parts, "PART_BYTES", 9)
    for read in (in_memory, in_parts):
        logs, _ = read(path)
        for found in (logs.action.tolist(), logs.group.tolist()):
            assert found == labels
            assert [*map(type, found)] == [*map(type, labels)]


def test_labels_of_bytes_and_of_days(tmp_path):
    path = tmp_path / "log.csv"
    row = "{0},1,.5,{0},1,{0}\n"
    text = "".join(map(row.format, "\u00e9\u00ea"))
    path.write_bytes(f"{','.join(COLUMNS)}\n{text}".encode("latin-1"))
    for read in (in_memory, in_parts):
        logs, features = read(path)
        assert logs.action.tolist() == ["\\xe9", "\\xea"]
        assert features[1].tolist() == ["\\xe9", "\\xea"]
    path.unlink()
    for day, label in enumerate(("7", "007", "8")):
        (tmp_path / f"{day}.csv").write_text(f"item,click\n{label},1\n")
    logs = scan_logs(tmp_path, action="item", reward="click")
    assert logs.labelled().actions.tolist() == ["007", "7", "8"]
    assert logs.partitions[2].read().action.tolist() == ["8"]
