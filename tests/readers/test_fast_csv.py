# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import gzip
import warnings

import numpy as np
import pytest

from skope_ope.readers import _csv_blocks
from skope_ope.readers._csv_columns import read_rows
from skope_ope.readers._csv_engines import _arrow_engine, _pandas_engine
from skope_ope.readers._fast_csv import read_by_engine
from skope_ope.readers._text_files import DoubtError, open_csv
from skope_ope.readers._texts import Texts

pytestmark = pytest.mark.frames
ENGINES = {"pyarrow": _arrow_engine, "pandas": _pandas_engine}
KINDS = ("number", "label", "moment", "feature")
USUAL = {
    "number": ["0", "1", "0.5", "-3", "1e-3", "0.1234567890123456789", "2.5E+10"],
    "label": ["a", "b", "item 7", "007", "7", "12", "true", "None"],
    "moment": ["2026-01-31", "2026-01-31 12:00:00", "2026-01-31T12:00:00.25+02:00"],
    "feature": ["1", "2.25", "", "NA", "-1e300", "Rome", "0"],
}
ODD = [
    *("nan", "NaN", "inf", "-Infinity", "1e400", "0x10", "0_1.0", "1_0", "+1", "-nan"),
    *("00", "1.", ".5", " 1", "1 ", "\t2", " ", "  x ", "1e", "1d5", "nan(1)", "- 1"),
    *(
        "None",
        "null",
        "N/A",
        "nA",
        " na ",
        "TRUE",
        "False",
        "t",
        "#",
        "# x",
        "20260131",
    ),
    *("1" * 5000, "123456789012345678", "1234567890123456789", "18446744073709551617"),
    *(
        "0.30000000000000004",
        "2.2250738585072011e-308",
        "5e-324",
        "1e-400",
        "-0",
        "-0.0",
    ),
    *("\uff11", "\u0662", "\xa01", "1\x0b", "\x1c1", "a\x0bb", "\x1b[31mred", "\x7f"),
    *(
        "a\x85b",
        "a\u2028b",
        "\u00e9t\u00e9",
        "a\\b",
        "\\",
        "'a'",
        "a;b",
        "9:30",
        "b'x'",
    ),
]
QUOTED = ['"a, b"', '""', '"1"', '"say ""so"""', '""""', '"a\nb"', '"a\r\nb"', '"x']
QUOTED += ['a"b', '"x"y', ' "a"', '"a" ', '""a""', "\xff", "\x00", "\r", "a\rb"]


def random_file(seed):
    """Return the bytes of a csv file that is right, nearly right, or not at all."""
    rng = np.random.default_rng(seed)
    oddness = rng.choice([0, 0, 0.001, 0.02])
    kinds = rng.choice(KINDS, size=rng.integers(2, 6))
    pools = [
        rng.choice(USUAL[kind], size=rng.integers(1, 4)).tolist() for kind in kinds
    ]
    rows = [[str(rng.choice(pool)) for pool in pools] for _ in range(rng.integers(40))]
    end = rng.choice(["\n", "\n", "\r\n"])
    lines = []
    for row in rows:
        for place in np.flatnonzero(rng.random(len(row)) < oddness):
            row[place] = str(rng.choice(ODD if rng.random() < 0.5 else QUOTED))
        lines.append(",".join(row) + end)
        kind = rng.random() / max(oddness, 1e-9)
        if kind < 0.3:
            short = rng.choice(["", " ", ",", "1", '""', "# a", ",".join([*row, "1"])])
            lines.append(str(short) + str(rng.choice([end, "\n", "\r\n"])))
    names = [f"c{place}" for place in range(len(kinds))]
    header = [f'"{name}"' if rng.random() < 0.2 else name for name in names]
    text = ",".join(header) + end + "".join(lines)
    if rng.random() < 0.2:
        text = text.removesuffix(end)
    if rng.random() < 0.1:
        text = "\ufeff" + text
    data = text.encode(
        "latin-1" if text.isascii() or oddness == 0.02 else "utf-8", "replace"
    )
    wanted = [
        (name, str(kind if rng.random() < 0.8 else rng.choice(KINDS)))
        for name, kind in zip(names, kinds, strict=True)
    ]
    return data, wanted


def outcome(read, *args):
    """Return what a reader gives: columns, or the error, and the warnings."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            found = read(*args)
        except (ValueError, OSError) as error:
            found = f"{type(error).__name__}: {error}"
    return found, [str(one.message) for one in caught]


def assert_same(found, expected):
    """Assert that columns agree to the last bit."""
    assert found.keys() == expected.keys()
    for key, column in expected.items():
        other = found[key]
        assert type(other) is type(column), key
        if isinstance(column, Texts):
            assert other.values == column.values
            other, column = other.codes, column.codes
        assert other.dtype == column.dtype
        np.testing.assert_array_equal(other, column)


@pytest.fixture(params=ENGINES)
def engine(request):
    pytest.importorskip(request.param)
    return ENGINES[request.param]()


@pytest.mark.few_cases(1)
def test_engines_read_what_our_reader_reads(tmp_path, monkeypatch, engine):
    path = tmp_path / "log.csv"
    vouched = answered = 0
    for seed in range(100):
        monkeypatch.setattr(_csv_blocks, "FIRST", 64 if seed % 2 else 2**16)
        data, wanted = random_file(seed)
        path.write_bytes(gzip.compress(data) if seed % 7 == 0 else data)
        expected, told = outcome(read_rows, path, wanted)
        answered += not told and not isinstance(expected, str)
        try:
            found = read_by_engine(engine, path, open_csv(path)[0], wanted)
        except DoubtError:
            continue
        except ValueError as error:
            assert expected == f"ValueError: {error}"  # of the header
            continue
        assert not isinstance(expected, str), (seed, expected)
        assert not told, (seed, told)
        assert_same(found, expected)
        vouched += 1
    assert vouched > 0.9 * answered > 50


def test_texts_below_numbers_make_all_of_a_column_texts(tmp_path, monkeypatch, engine):
    monkeypatch.setattr(_csv_blocks, "FIRST", 64)
    path = tmp_path / "log.csv"
    path.write_text("a,b\n" + "".join(f"{i},{i}\n" for i in range(99)) + "x,1\n" * 99)
    wanted = [("a", "feature"), ("b", "feature")]
    told = []
    found = read_by_engine(engine, path, ["a", "b"], wanted, told.append)
    assert_same(found, read_rows(path, wanted))
    assert found["a", "feature"].values == [*map(str, range(99)), "x"]
    assert told[-1] == 198


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("a\n1\n", [("a", "number")]),
        ("a,b\n", [("a", "number")]),
        ("a,b\n1,2\n1\n1,2,3\n", [("a", "number")]),
        ("a,b\n1,2,3\n1\n", [("a", "number")]),
        ("a,b\n,1\n", [("a", "number")]),
        ("a,b\n1e999,\n", [("a", "feature")]),
        ("a,b\n-inf,\nRome,\n", [("a", "feature")]),
        ("a,b\n,2\n", [("a", "label")]),
        ("a,b\n1,2\nNaN,2\n", [("a", "label")]),
        ("a,b\nsoon,2\n", [("a", "moment")]),
        ("a,b\n20260131,2\n2026-01-31,1\n", [("a", "moment")]),
        ("a,b\n" + "1,2\n" * 20 + "x,2\n", [("a", "feature")]),
    ],
)
def test_what_our_own_reader_has_to_look_at(tmp_path, engine, text, wanted):
    path = tmp_path / "log.csv"
    path.write_text(text)
    with pytest.raises(DoubtError):
        read_by_engine(engine, path, open_csv(path)[0], wanted)


def test_a_damaged_file_is_left_to_our_own_reader(tmp_path, engine):
    path = tmp_path / "log.csv.gz"
    path.write_bytes(gzip.compress(b"a,b\n" + b"1,2\n" * 99)[:-9])
    with pytest.raises(DoubtError):
        read_by_engine(engine, path, ["a", "b"], [("a", "number")])
