# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""What pages of the site claim, show, name and link."""

import ast
import re

import pytest

import skope_ope
from skope_ope import base, evaluators
from skope_ope.evaluators import multi_logger, scavenging, sequential, slate, static
from tests.packaging._tree import ROOT

# -- the first page -------------------------------------------------------------------
PAGE = (ROOT / "docs" / "index.rst").read_text()
SCRIPT = (ROOT / "examples" / "1_first_steps" / "plot_shop_in_ten_lines.py").read_text()


def shown(text):
    """Return what the page includes of the script, between its own marks."""
    start = re.search(r":start-after: (.+)", PAGE)[1]
    end = re.search(r":end-before: (.+)", PAGE)[1]
    return text.split(start)[1].split(end)[0]


def test_the_claim_and_its_lines_are_short():
    claim = PAGE[PAGE.index("You logged") :].split("\n\n")[0]
    assert len(claim.split()) < 60
    assert 'pip install ".[frames,plot]"' in PAGE
    assert len(ast.parse(shown(SCRIPT)).body) <= 12
    assert shown(SCRIPT).count("\n") < 18
    conf = (ROOT / "docs" / "conf.py").read_text()
    assert "sphx_glr_plot_shop_in_ten_lines_001.png" in conf
    assert "include:: generated/landing_picture.inc" in PAGE


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


def test_tables_are_written_once_and_name_pages(tmp_path):
    from tests.selection._decision_table import TABLE

    rows = (TABLE.SITUATIONS, TABLE.STOPS, TABLE.DOUBTS, TABLE.DOUBTS_OF_ROWS)
    for row in (row for table in rows for row in table.values()):
        assert (ROOT / "docs" / f"{row['page']}.rst").exists()
    from tests.selection._decision_table import TABLE

    TABLE.write_tables(tmp_path)
    text = (tmp_path / "situations.inc").read_text()
    assert text.count("   * - ") == 1 + len(TABLE.SITUATIONS)
    assert text.count("**stop**") == 2
    assert "``MultiLoggerDR(pooling='balanced')``" in text
    before = (tmp_path / "teaser.inc").stat().st_mtime_ns
    TABLE.write_tables(tmp_path)  # unchanged files are not read anew by sphinx
    assert (tmp_path / "teaser.inc").stat().st_mtime_ns == before


# -- tutorials ------------------------------------------------------------------------
TUTORIALS = sorted((ROOT / "docs" / "tutorials").glob("*.rst"))
INCLUDE = re.compile(r"literalinclude:: (\S+)\n((?:   :.*\n)*)")
NAMED = re.compile(r"``((?:skope_ope|docs|tests)/[\w./]+\.(?:py|rst))``")


@pytest.mark.parametrize("path", TUTORIALS, ids=lambda path: path.stem)
def test_what_a_tutorial_shows_exists(path):
    for name, options in INCLUDE.findall(path.read_text()):
        source = (path.parent / name).resolve().read_text()
        objects = {getattr(node, "name", None) for node in ast.parse(source).body}
        assert set(re.findall(r":pyobject: (\w+)", options)) <= objects, name
        for text in re.findall(r":(?:start-at|end-before): (.+)", options):
            assert text in source, name


def test_a_new_evaluator_touches_files_that_are_there():
    """The files of `DRos`, put in the place of the tutorial's `OverlapIPS`."""
    text = (ROOT / "docs" / "tutorials" / "add_an_evaluator.rst").read_text()
    text = text[text.index("Bring it into the package") :]
    names = [name for name in NAMED.findall(text) if "ISSUE" not in name]
    assert len(names) == 7
    for name in names:
        path = ROOT / name.replace("overlap_ips", "dros")
        assert "DRos" in path.read_text(), name


def test_the_tutorial_is_short_and_shows_the_flow():
    text = (ROOT / "docs" / "tutorials" / "add_an_evaluator.rst").read_text()
    assert len(text.split()) < 2500
    [figure] = re.findall(r"image:: /(\S+)", text)
    assert (ROOT / "docs" / figure).exists()


@pytest.mark.parametrize(
    "family",
    [static, sequential, scavenging, multi_logger, slate],
    ids=lambda family: family.__name__.rpartition(".")[2],
)
def test_what_a_family_lists_is_public_and_in_the_guide(family):
    """All have a home, and what is at the top is on a page of the guide."""
    guide = "".join(path.read_text() for path in (ROOT / "docs/guide").glob("*.rst"))
    for name in family.__all__:
        one = getattr(family, name)
        if not isinstance(one, type) or not issubclass(one, base.BaseEvaluator):
            continue
        if name in base.__all__:
            continue
        assert name in evaluators.__all__
        if name in skope_ope.__all__:
            assert f":class:`{name}`" in guide, f"{name} stands on no page of the guide"


# -- the guide: every page is short, and begins with lines that run -------------------
DOCS = ROOT / "docs"
PAGES = sorted((DOCS / "guide").glob("*.rst"))


def words_of(path):
    return len(path.read_text().split())


def test_pages_of_the_guide_are_short():
    assert [path.name for path in PAGES if words_of(path) > 2500] == []
    assert sum(map(words_of, PAGES)) <= 36_000


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_a_page_begins_with_an_answer_and_at_most_ten_lines_that_run(path):
    text = path.read_text()
    start = re.search(r"^(?:>>> |   \$ )", text, re.M).start()
    assert len(text[:start].split()) <= 75
    block = text[start:].split("\n\n")[0]
    assert len(re.findall(r"^(?:>>>|\.\.\.|   \$)", block, re.M)) <= 10


# -- the glossary: words of the field are explained once, and linked at first use -----
# Forms of the words that every page links at first use.
CORE = {
    "round": r"rounds?",
    "logger": r"loggers?",
    "policy": r"polic(?:y|ies)",
    "propensity": r"propensit(?:y|ies)",
    "importance weight": r"importance weights?",
    "effective sample size": r"effective sample sizes?",
    "doubly robust": r"doubly robust",
    "cross-fitting": r"cross-fitting|cross-fitted",
    "horizon": r"horizons?",
    "trajectory": r"trajector(?:y|ies)",
    "slate": r"slates?",
    "slot": r"slots?",
}
LINK = re.compile(r":term:`(?:[^`<]*<([^`>]+)>|([^`<]+))`")
# Not prose: code, formulas, names, other links, emphasis. A role cannot stand in these.
INLINE = re.compile(
    r":[\w:]+:`[^`]*`|``.+?``|`[^`]*`_{0,2}|(?<![\w*])\*\*?[^*\s][^*]*?\*\*?"
    r"|\|[^|\n]+\|",
    re.DOTALL,
)
NO_PROSE = "math|code-block|image|figure|toctree|autosummary|literalinclude|include"
DIRECTIVE = re.compile(rf"( *)\.\. (?:{NO_PROSE}|plot|minigallery)::")


def terms():
    """Return the terms of the glossary, a list per entry."""
    entries, names = [], []
    for line in (DOCS / "glossary.rst").read_text().splitlines():
        if re.match(r"   [^\s:.]", line):
            names.append(line.strip())
        elif names:
            entries.append(names)
            names = []
    return entries


def blank(text):
    return re.sub(r"[^\n]", " ", text)


def prose(text):
    lines, kept = text.splitlines(), []
    indent, in_table, in_code = None, False, False
    for k, line in enumerate(lines):
        below = lines[k + 1] if k + 1 < len(lines) else ""
        rule = re.fullmatch(r" *(=+|-+|~+|\^+|\"+)", line)
        depth = len(line) - len(line.lstrip())
        if indent is not None and line.strip() and depth <= indent:
            indent = None
        if re.fullmatch(r" *=+( +=+)+", line):
            in_table = bool(below.strip())  # the last rule has an empty line below
        in_code = bool(line.strip()) and (in_code or line.lstrip().startswith(">>>"))
        title = re.fullmatch(r"([=\-~^\"])\1{3,}", below)
        hidden = indent is not None or in_table or in_code or rule or title
        explicit = re.match(r" *\.\. (?!note|warning|versionadded)", line)
        kept.append(blank(line) if hidden or explicit or "====" in line else line)
        if DIRECTIVE.match(line) or line.rstrip().endswith("::"):
            indent = depth if indent is None else indent
    return INLINE.sub(
        lambda found: found[0] if LINK.match(found[0]) else blank(found[0]),
        "\n".join(kept),
    )


def first_uses(text):
    """Yield core terms of a page with the place of their first use, and if it links."""
    running = prose(text)
    links = [(m.start(), m.end(), m[1] or m[2]) for m in LINK.finditer(running)]
    for term, form in CORE.items():
        for found in re.finditer(rf"(?<![\w-])(?:{form})(?![\w-])", running, re.I):
            around = [name for a, b, name in links if a <= found.start() < b]
            if around and around[0] != term:
                continue  # a part of another term
            yield term, found, bool(around)
            break


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_a_page_links_the_first_use_of_core_terms(path):
    text = path.read_text()
    missing = [
        f"line {text[: found.start()].count(chr(10)) + 1}: {term}"
        for term, found, linked in first_uses(text)
        if not linked
    ]
    assert missing == []


PAGE_OF_CODE = """A policy
========

``policy`` and :class:`Policy`, *a policy*::

    policy

>>> policy
policy

.. math:: policy

=====  ======
one    policy
=====  ======

Any :term:`logging policy <logger>` and a policy."""


def test_code_names_and_titles_are_no_prose():
    [(_, found, linked)] = [
        use for use in first_uses(PAGE_OF_CODE) if use[0] == "policy"
    ]
    assert not linked
    assert PAGE_OF_CODE[found.end() :] == "."


def test_entries_are_linked_and_short():
    pages = [*PAGES, *DOCS.glob("tutorials/*.rst"), *DOCS.glob("start/*.rst")]
    pages += [*DOCS.glob("*.rst"), *(ROOT / "examples").rglob("GALLERY_HEADER.rst")]
    text = "\n".join(page.read_text() for page in pages)
    linked = {found[1] or found[2] for found in LINK.finditer(text)}
    assert [names for names in terms() if not linked & set(names)] == []
    known = {name for names in terms() for name in names}
    assert set(CORE) <= known
    for page in PAGES:
        linked = {found[1] or found[2] for found in LINK.finditer(page.read_text())}
        assert linked <= known, page
    text = (DOCS / "glossary.rst").read_text()
    for entry in re.findall(r"(?:^      .+\n)+", text, re.M):
        sentences = re.split(r"(?<=[.])\s+", " ".join(entry.split()))
        assert len(sentences) <= 2, entry
        assert max(len(one.split()) for one in sentences) <= 25, entry
