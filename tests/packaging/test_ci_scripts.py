# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""The scripts of .ci: sizes of the package, words to avoid, and the built site."""

import ast
import importlib.util
import sys

import pytest

from tests.packaging._tree import ROOT

# -- sizes and words ------------------------------------------------------------------
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
ANOTHER = """class {name}(BaseEvaluator):
    slots = 3
"""
INSIDE = ["from skope_ope._a import x", "from skope_ope import _a"]
INSIDE += ["import skope_ope.a._b"]
OUTSIDE = ["from skope_ope import __version__", "import skope_ope"]
OUTSIDE += ["from tests import _a"]


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


def test_protocols(measures, tree):
    """That of the families of one template is told from that of the others."""
    package = tree / "skope_ope"
    for folder, names in {"static": "bc", "slate": "d", "scavenging": "e"}.items():
        (package / folder).mkdir()
        for name in names:
            text = {"b": IPS, "c": DR}.get(name, ANOTHER.format(name=name))
            (package / folder / f"{name}.py").write_text(text)
    for name in "bc":
        (package / f"{name}.py").unlink()
    template, others = measures.protocols(tree).values()
    assert template == (["smooth", "terms"], ["_alone"])
    assert others == (["slots"], [])  # of d and e
    (package / "scavenging" / "e.py").write_text(
        ANOTHER.format(name="ExplorationScavenging")
    )
    template, others = measures.protocols(tree).values()
    assert template == (["smooth", "terms"], ["_alone"])
    assert others == ([], [])
    assert measures.sizes(tree)["public members of the protocol"] == 3


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
    # there and back, twice
    assert measures.trip(far.call, tree / "skope_ope") == (2, 4)
    assert sys.getprofile() is None


def test_limits(measures, tree, monkeypatch, capsys):
    found = measures.sizes(tree)
    monkeypatch.setattr(measures, "sizes", lambda: found)
    monkeypatch.setattr(measures, "trips", lambda: {"evaluate": (40, 1234)})
    protocols = {"static": (["terms"], []), "others": ([], ["_a", "_b"])}
    monkeypatch.setattr(measures, "protocols", lambda: protocols)
    for limits in ("", "--most-files 3 --most-lines 23"):
        measures.main(limits.split())
        printed = capsys.readouterr().out
        assert "code lines" in printed and "40 files   1,234 moves" in printed
        assert "1 public members of static: terms\n" in printed
        assert "2 private members of others: _a, _b\n" in printed
    with pytest.raises(SystemExit, match="3 files, more than 2"):
        measures.main(["--most-files", "2"])
    with pytest.raises(SystemExit, match="23 code lines, more than 22"):
        measures.main(["--most-lines", "22"])


@pytest.mark.thorough
@pytest.mark.frames
def test_the_measured_calls_run(measures):
    pytest.importorskip("pyarrow")
    pytest.importorskip("pandas")
    assert all(files < moves for files, moves in measures.trips().values())


# -- the built site -------------------------------------------------------------------
@pytest.fixture
def site(tmp_path):
    gallery = tmp_path / "auto_examples" / "3_families"
    gallery.mkdir(parents=True)
    (tmp_path / "_images").mkdir()
    (tmp_path / "_images" / "sphx_glr_plot_one_001.png").touch()
    (tmp_path / "searchindex.js").touch()
    fonts = tmp_path / "_static" / "mathjax" / "fonts"
    fonts.mkdir(parents=True)
    (fonts.parent / "tex-chtml.js").touch()
    (fonts / "Main.woff").touch()
    mathjax = '<script src="_static/mathjax/tex-chtml.js"></script>'
    (tmp_path / "math.html").write_text(f'{mathjax}<div class="math">x</div>')
    (tmp_path / "site.css").write_text("a { background: url(one.png) }")
    (tmp_path / "index.html").write_text(
        f'{mathjax}<a href="https://example.org/var/x">an interval</a> with <b>no</b>'
        " propensity, an A/B test, <code>pip install</code>"
    )
    output = "<pre>at 0.1, 1/2, https://example.org/var/x</pre>"
    (gallery / "plot_one.html").write_text(f'<div class="{OUT}">{output}</div>')
    return tmp_path


def test_a_right_site_has_no_fault(site):
    faults = script("check_site").faults
    assert faults(site) == []
    (site / "_static" / "mathjax" / "fonts" / "Main.woff").unlink()
    [found] = faults(site)
    assert "not copied" in found
    ci = (ROOT / ".ci" / "run").read_text()
    assert ".ci/check_site.py docs/_build/html" in ci
    assert ".venv/bin/python .ci/measure_house.py" in ci


def test_slow_examples_are_printed_and_no_fault(site, monkeypatch, capsys):
    for name, time in {"plot_one": (0, 3.25), "plot_slow": (11, 0.5)}.items():
        (site / "_images" / f"sphx_glr_{name}_001.png").touch()
        (site / "auto_examples" / f"{name}.html").write_text(
            "<strong>Total running time of the script:</strong> "
            "({} minutes {:.3f} seconds)".format(*time)
        )
    monkeypatch.setattr(sys, "argv", ["check_site.py", str(site)])
    script("check_site").main()
    printed = capsys.readouterr().out
    assert "2 examples, 664 s" in printed
    assert printed.index("660.5 s  plot_slow") < printed.index("3.2 s  plot_one")


BENCH, OUT = "auto_examples/bench.html", "sphx-glr-script-out"


@pytest.mark.parametrize(
    "name, text, fault",
    [
        ("a.html", '<script src="https://cdn.org/a.js">', "loads https://cdn.org/a.js"),
        ("a.html", '<link rel="stylesheet" href="//cdn.org/a.css">', "loads //cdn.org"),
        ("a.html", '<img alt="" src="http://cdn.org/a.png"/>', "loads http://cdn.org"),
        ("a.css", "@import url('https://cdn.org/f.css')", "loads https://cdn.org/f"),
        ("auto_examples/_help.html", "", "a helper module is shown"),
        ("auto_examples/plot_two.html", "", "no figure"),
        (BENCH, f'<div class="{OUT}">&lt;Axes at 0x7f12ab&gt;</div>', "'at 0x7f12ab'"),
        (
            BENCH,
            f'<div class="{OUT} x"><pre>/var/a/b.csv</pre></div>',
            "'/var/a/b.csv'",
        ),
        ("a.html", '<span class="math">x</span>', "without MathJax"),
        ("index.html", "an interval, no propensity, pip install", "'A/B test'"),
    ],
)
def test_a_fault_is_seen(site, name, text, fault):
    (site / name).write_text(text)
    [found] = script("check_site").faults(site)
    assert fault in found
