# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import re

import pytest

from skope_ope.logs._html import CARD, DARK, LIGHT, RULES, STYLE
from skope_ope.reports import _page as _style
from tests._contrast import contrast


def colours(text):
    return dict(re.findall(r"--(\w+):(#[0-9a-f]{6})", text))


@pytest.mark.parametrize("theme", [LIGHT, DARK], ids=["light", "dark"])
def test_texts_can_be_read_and_marks_be_seen(theme):
    found = colours(theme)
    for name in ("text", "quiet", "policy"):
        assert contrast(found[name], found["ground"]) >= 4.5
    for name in ("doubt", "base"):  # marks, no texts
        assert contrast(found[name], found["ground"]) >= 3


def test_texts_have_the_colours_of_texts():
    for selector, rule in re.findall(r"([^{}]*)\{([^{}]*)\}", RULES):
        for _, value in re.findall(r"(?:^|;|\n)(color|fill):([^;}]*)", rule):
            allowed = ("text", "quiet", "policy")
            marks = ".bar" in selector or ".share" in selector
            of_text = value == "inherit" or value in [f"var(--{n})" for n in allowed]
            assert of_text or marks, (selector, value)


def test_dark_pages_have_dark_cards_and_readers_choose():
    media, rest = STYLE.split("@media(prefers-color-scheme:dark)")
    assert colours(media) == colours(LIGHT)
    assert colours(rest.split("}}")[0]) == colours(DARK)
    for theme, said in ((LIGHT, "light"), (DARK, "dark")):
        [rule] = re.findall(rf"\[data-theme={said}\][^{{]*\{{([^}}]*)\}}", rest)
        assert rule == theme
    assert "[data-jp-theme-light=false]" in rest and ".vscode-dark" in rest


def test_no_rule_reaches_beyond_the_card():
    inside = re.sub(r"@media\([^)]*\)\{", "", STYLE)
    for selectors in re.findall(r"([^{}]+)\{", inside):
        assert all(CARD in one for one in selectors.split(",")), selectors


def test_numbers_are_tabular_and_nothing_is_loaded():
    assert "font-variant-numeric:tabular-nums" in STYLE
    assert "text-align:right" in STYLE
    assert not re.search(r"url|import|http|src|</", STYLE)
    assert len(STYLE) < 6000  # it stands in every output


def test_reports_have_the_same_colours():
    assert LIGHT in _style.STYLE and DARK in _style.STYLE


def test_notebooks_stripe_no_rows():
    # theirs are ".jp-RenderedHTMLCommon tbody tr:nth-child(odd)" and "... tr:hover"
    [rule] = re.findall(r"\n& tr:nth-child\(n\)\{([^}]*)\}", RULES)
    assert "background:none" in rule
