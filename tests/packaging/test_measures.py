# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""The scripts of .ci: numbers of the package's size, and words to avoid."""

import ast
import importlib.util
import sys

import pytest

from tests.packaging._tree import ROOT

BASE = '''# a comment
"""A docstring
of two lines."""

LIMIT = 3


class BaseEvaluator:
    """One."""

    def fit(self): ...
    def terms(self): ...
'''
IPS = '''from skope_ope.a import BaseEvaluator

LIMIT, other = 1, """no
docstring"""


class IPS(BaseEvaluator):
    smooth = ()

    def fit(self): ...
    def terms(self): ...
    def _alone(self): ...


def helper():
    return helper  # a comment
'''
DR = """from skope_ope import b


class DR(b.IPS):
    smooth: tuple = ()
    _alone: int = 1

    def fit(self): ...
    def terms(self): ...


class Other:
    def beside(self): ...


async def helper(): ...
"""
INSIDE = [
    "from skope_ope._a import x",
    "from skope_ope import _a",
    "import skope_ope.a._b",
]
OUTSIDE = [
    "from skope_ope import __version__",
    "import skope_ope",
    "from tests import _a",
]


def script(name):
    spec = importlib.util.spec_from_file_location(name, ROOT / ".ci" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def measures():
    return script("measure_house")


def test_phrases_are_found_across_lines_and_in_messages():
    words = script("check_words")
    text = "Nothing here.\nIt holds the T\n   that was reached; GOOD BARGAIN"
    assert [line for line, _ in words.found(text)] == [2, 3]
    source = 'def f(x):\n    """Its luck."""\n    raise E(f"{x} bears " "on y")\n'
    messages = " ".join(text for _, text in words.strings(ast.parse(source)))
    assert len(list(words.found(messages))) == 2
    assert list(words.found("on the way to the truth; a plucked string")) == []


@pytest.fixture
def tree(tmp_path):
    for folder in ("skope_ope", "tests"):
        (tmp_path / folder).mkdir()
    for name, text in {"a": BASE, "b": IPS, "c": DR}.items():
        (tmp_path / "skope_ope" / f"{name}.py").write_text(text)
    for number, text in enumerate([*INSIDE, *OUTSIDE]):
        (tmp_path / "tests" / f"test_{number}.py").write_text(f"{text}\n")
    return tmp_path


def test_sizes(measures, tree):
    assert measures.sizes(tree) == {
        "files": 3,
        "code lines": 4 + 10 + 9,
        "statements": 8 + 12 + 13,  # a docstring and `...` are statements
        "functions and classes of two files": 1,  # helper
        "constants of two files": 1,  # LIMIT
        "public members of the protocol": 2,  # smooth, terms; neither fit nor beside
        "private members of the protocol": 1,
        "test files": len(INSIDE) + len(OUTSIDE),
        "test files that import private modules": len(INSIDE),
        "lines of tests": len(INSIDE) + len(OUTSIDE),
    }


def test_a_trip_counts_files_and_moves(measures, tree, monkeypatch):
    (tree / "skope_ope" / "near.py").write_text("def two():\n    return [0]\n")
    (tree / "skope_ope" / "far.py").write_text(
        "from near import two\n\n\ndef call():\n"
        "    return own(), two(), sorted([1], key=lambda one: two())\n\n\n"
        "def own():\n    return 1\n"
    )
    monkeypatch.syspath_prepend(tree / "skope_ope")
    monkeypatch.setattr(sys, "modules", dict(sys.modules))
    far = importlib.import_module("far")
    assert measures.trip(far.call, tree / "skope_ope") == (
        2,
        4,
    )  # there and back, twice
    assert sys.getprofile() is None


@pytest.mark.parametrize(
    "limits, said",
    [
        ([], None),
        (["--most-files", "3", "--most-lines", "23"], None),
        (["--most-files", "2"], "3 files, more than 2"),
        (["--most-lines", "22"], "23 code lines, more than 22"),
    ],
)
def test_limits(measures, tree, monkeypatch, capsys, limits, said):
    found = measures.sizes(tree)
    monkeypatch.setattr(measures, "sizes", lambda: found)
    monkeypatch.setattr(measures, "trips", lambda: {"evaluate": (40, 1234)})
    if said is None:
        measures.main(limits)
    else:
        with pytest.raises(SystemExit, match=said):
            measures.main(limits)
    printed = capsys.readouterr().out
    assert "code lines" in printed and "40 files   1,234 moves" in printed


@pytest.mark.thorough
@pytest.mark.frames
def test_the_measured_calls_run(measures):
    pytest.importorskip("pyarrow")
    pytest.importorskip("pandas")
    assert all(files < moves for files, moves in measures.trips().values())


def test_ci_prints_them():
    assert ".venv/bin/python .ci/measure_house.py" in (ROOT / ".ci" / "run").read_text()
