# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

"""A csv file means the same to the shell and to `scan_logs`, or is refused by both."""

import re
import sys

import numpy as np
import pytest

from skope_ope import scan_logs
from skope_ope.__main__ import main
from skope_ope.logs import _csv_file
from skope_ope.logs.lazy import _csv_parts
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
    roles = Roles(**NAMED, context=("x", "city"))
    file = read_logs(path, roles, format="csv")
    features = [
        column.array() if hasattr(column, "array") else column
        for column in file.features.values()
    ]
    return file.logs, features


def in_parts(path):
    """Return them as `scan_logs` does."""
    logs = scan_logs(path, **NAMED, context=["x", "city"])
    logs = logs.head(len(logs))
    frame = logs.context
    return logs, [np.asarray(frame[name]) for name in ("x", "city")]


def outcome(read, path):
    try:
        return read(path)
    except (ValueError, TypeError) as error:
        return str(error)


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
    for name in ("action", "group", "reward", "propensity"):
        one, other = getattr(whole[0], name), getattr(parts[0], name)
        assert one.tolist() == other.tolist(), told
        assert {*map(type, one.tolist())} == {*map(type, other.tolist())}, told
    for one, other in zip(whole[1], parts[1], strict=True):
        plain = [
            [None if v in ("", None) or v != v else v for v in column.tolist()]
            for column in (one, other)
        ]
        assert plain[0] == plain[1], told
    return "read"


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "part",
    [0, *(pytest.param(k, marks=pytest.mark.thorough) for k in range(1, 10))],
)
def test_both_readings_agree_on_nasty_files(tmp_path, monkeypatch, part):
    rng, path, found = np.random.default_rng(part), tmp_path / "log.csv", []
    for seed in range(200):
        path.write_bytes(nasty(rng))
        monkeypatch.setattr(_csv_file, "SIZE", int(rng.choice([2**22, 64, 7])))
        monkeypatch.setattr(_csv_parts, "BLOCK", int(rng.choice([2**25, 64, 7])))
        with monkeypatch.context() as without:
            found.append(hold_together(path, (part, seed)))
            without.setitem(sys.modules, "pyarrow", None)  # Python's csv reads the same
            again = outcome(in_memory, path)
            assert isinstance(again, str) == (found[-1] != "read"), path.read_bytes()
    assert found.count("read") > 50
    assert found.count("refused") > 50
