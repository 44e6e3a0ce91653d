# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""The checks of the built site see what they are there for."""

import importlib.util

import pytest

from tests.packaging._tree import ROOT


def check_site():
    spec = importlib.util.spec_from_file_location(
        "check_site", ROOT / ".ci" / "check_site.py"
    )
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def site(tmp_path):
    """Return a folder with a site that has no fault."""
    gallery = tmp_path / "auto_examples" / "3_families"
    gallery.mkdir(parents=True)
    (tmp_path / "_images").mkdir()
    (tmp_path / "_images" / "sphx_glr_plot_one_001.png").touch()
    (tmp_path / "searchindex.js").touch()
    fonts = tmp_path / "_static" / "mathjax" / "fonts"
    fonts.mkdir(parents=True)
    (fonts.parent / "tex-chtml.js").touch()
    (fonts / "Main.woff").touch()
    (tmp_path / "math.html").write_text(
        '<script src="_static/mathjax/tex-chtml.js"></script><div class="math">x</div>'
    )
    (tmp_path / "site.css").write_text("a { background: url(one.png) }")
    (tmp_path / "index.html").write_text(
        '<script src="_static/mathjax/tex-chtml.js"></script>'
        '<a href="https://example.org/var/x">an interval</a> with <b>no</b> propensity,'
        " an A/B test, <code>pip install</code>"
    )
    output = "at 0.1, 1/2, https://example.org/var/x"
    (gallery / "plot_one.html").write_text(
        f'<div class="sphx-glr-script-out"><pre>{output}</pre></div>'
    )
    return tmp_path


def test_a_right_site_has_no_fault(site):
    assert check_site().faults(site, seconds=300) == []


@pytest.mark.parametrize(
    "name, text, fault",
    [
        ("a.html", '<script src="https://cdn.org/a.js">', "loads https://cdn.org/a.js"),
        ("a.html", '<link rel="stylesheet" href="//cdn.org/a.css">', "loads //cdn.org"),
        ("a.html", '<img alt="" src="http://cdn.org/a.png"/>', "loads http://cdn.org"),
        ("a.css", "@import url('https://cdn.org/f.css')", "loads https://cdn.org/f"),
        ("auto_examples/_help.html", "", "a helper module is shown"),
        ("auto_examples/plot_two.html", "", "no figure"),
        (
            "auto_examples/bench.html",
            '<div class="sphx-glr-script-out">&lt;Axes at 0x7f12ab&gt;</div>',
            "'at 0x7f12ab'",
        ),
        (
            "auto_examples/bench.html",
            '<div class="sphx-glr-script-out sphx-glr-x"><pre>/var/a/b.csv</pre></div>',
            "'/var/a/b.csv'",
        ),
        ("a.html", '<span class="math">x</span>', "without MathJax"),
        ("index.html", "an interval, no propensity, pip install", "'A/B test'"),
    ],
)
def test_a_fault_is_seen(site, name, text, fault):
    (site / name).write_text(text)
    [found] = check_site().faults(site)
    assert fault in found


def test_fonts_that_were_not_copied_are_a_fault(site):
    (site / "_static" / "mathjax" / "fonts" / "Main.woff").unlink()
    [found] = check_site().faults(site)
    assert "not copied" in found


def test_a_slow_build_is_a_fault(site):
    assert check_site().faults(site, seconds=481) == ["built in 481 s, more than 480 s"]


def test_ci_checks_the_site_and_its_time():
    script = (ROOT / ".ci" / "run").read_text()
    assert ".ci/check_site.py docs/_build/html --seconds" in script
