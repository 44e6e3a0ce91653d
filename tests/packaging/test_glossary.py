# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Words of the field are explained once, and linked where a page first uses them."""

import re

import pytest

from tests.packaging._tree import ROOT

DOCS = ROOT / "docs"
PAGES = sorted((DOCS / "guide").glob("*.rst"))
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
    """Return spaces in place of all but the ends of lines."""
    return re.sub(r"[^\n]", " ", text)


def prose(text):
    """Return a page with spaces in place of what is no running text."""
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


def test_code_names_and_titles_are_no_prose():
    page = "\n".join(
        [
            "A policy",
            "========",
            "",
            "``policy`` and :class:`Policy`, *a policy*::",
            "",
            "    policy",
            "",
            ">>> policy",
            "policy",
            "",
            ".. math:: policy",
            "",
            "=====  ======",
            "one    policy",
            "=====  ======",
            "",
            "Any :term:`logging policy <logger>` and a policy.",
        ]
    )
    [(_, found, linked)] = [use for use in first_uses(page) if use[0] == "policy"]
    assert not linked
    assert page[found.end() :] == "."


def test_every_entry_is_linked_from_a_page():
    pages = [*PAGES, *DOCS.glob("tutorials/*.rst"), *DOCS.glob("start/*.rst")]
    pages += [*DOCS.glob("*.rst"), *(ROOT / "examples").rglob("GALLERY_HEADER.rst")]
    text = "\n".join(page.read_text() for page in pages)
    linked = {found[1] or found[2] for found in LINK.finditer(text)}
    assert [names for names in terms() if not linked & set(names)] == []


def test_every_link_is_to_an_entry():
    known = {name for names in terms() for name in names}
    assert set(CORE) <= known
    for page in PAGES:
        linked = {found[1] or found[2] for found in LINK.finditer(page.read_text())}
        assert linked <= known, page


def test_an_entry_is_one_or_two_sentences():
    text = (DOCS / "glossary.rst").read_text()
    for entry in re.findall(r"(?:^      .+\n)+", text, re.M):
        sentences = re.split(r"(?<=[.])\s+", " ".join(entry.split()))
        assert len(sentences) <= 2, entry
        assert max(len(one.split()) for one in sentences) <= 25, entry
