# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""The first page of the site: its claim, its code, and the output of that code."""

import ast
import re

import pytest

from tests.packaging._tree import ROOT

PAGE = (ROOT / "docs" / "index.rst").read_text()
SCRIPT = (ROOT / "examples" / "1_first_steps" / "plot_shop_in_ten_lines.py").read_text()


def shown(text):
    """Return what the page includes of the script, between its own marks."""
    start = re.search(r":start-after: (.+)", PAGE)[1]
    end = re.search(r":end-before: (.+)", PAGE)[1]
    return text.split(start)[1].split(end)[0]


def test_the_claim_is_short():
    claim = PAGE[PAGE.index("You logged") :].split("\n\n")[0]
    assert len(claim.split()) < 60
    assert 'pip install ".[frames,plot]"' in PAGE


def test_ten_lines_are_about_ten():
    assert len(ast.parse(shown(SCRIPT)).body) <= 12
    assert shown(SCRIPT).count("\n") < 18


def test_the_readme_shows_the_same_lines_and_output():
    readme = (ROOT / "README.md").read_text().split("<!-- ten lines -->")[1]
    _, code, _, output = readme.split("```")[:4]
    assert code.removeprefix("python\n") == shown(SCRIPT).lstrip("\n")
    [there] = re.findall(r"code-block:: text\n\n((?:   .*\n)+)", PAGE)
    assert output.removeprefix("text").split() == there.split()


@pytest.mark.frames
def test_the_ten_lines_print_what_the_page_shows(capsys, pyplot):
    pytest.importorskip("pandas")
    names = {}
    exec(shown(SCRIPT), names)
    [output] = re.findall(r"code-block:: text\n\n((?:   .*\n)+)", PAGE)
    assert capsys.readouterr().out.split() == output.split()
    assert pyplot.get_fignums()


def test_the_picture_is_that_of_the_script():
    conf = (ROOT / "docs" / "conf.py").read_text()
    assert "sphx_glr_plot_shop_in_ten_lines_001.png" in conf
    assert "include:: generated/landing_picture.inc" in PAGE


def test_pages_of_the_table_exist():
    from tests.selection._decision_table import TABLE

    rows = (TABLE.SITUATIONS, TABLE.STOPS, TABLE.DOUBTS, TABLE.DOUBTS_OF_ROWS)
    for row in (row for table in rows for row in table.values()):
        assert (ROOT / "docs" / f"{row['page']}.rst").exists()


def test_tables_are_written_once(tmp_path):
    from tests.selection._decision_table import TABLE

    TABLE.write_tables(tmp_path)
    text = (tmp_path / "situations.inc").read_text()
    assert text.count("   * - ") == 1 + len(TABLE.SITUATIONS)
    assert text.count("**stop**") == 2
    assert "``MultiLoggerDR(pooling='balanced')``" in text
    before = (tmp_path / "teaser.inc").stat().st_mtime_ns
    TABLE.write_tables(tmp_path)  # unchanged files are not read anew by sphinx
    assert (tmp_path / "teaser.inc").stat().st_mtime_ns == before
