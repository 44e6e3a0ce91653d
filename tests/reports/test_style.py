# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import re

import pytest

from skope_ope.reports._page import PAGE_STYLE
from tests._contrast import contrast

LIGHT, DARK = (
    dict(re.findall(r"--(\w+):(#[0-9a-f]{6})", part))
    for part in PAGE_STYLE.split("@media(prefers-color-scheme:dark)")[:2]
)


@pytest.mark.parametrize("colours", [LIGHT, DARK], ids=["light", "dark"])
@pytest.mark.parametrize("ground", ["ground", "panel"])
def test_texts_can_be_read_and_marks_be_seen(colours, ground):
    for name in ("text", "quiet", "policy"):
        assert contrast(colours[name], colours[ground]) >= 4.5
    for name in ("doubt", "base"):  # no texts
        assert contrast(colours[name], colours[ground]) >= 3


def test_no_text_has_the_colour_of_marks():
    rules = re.findall(r"([^{}]*)\{([^{}]*)\}", PAGE_STYLE)
    for selector, rule in rules:
        for name, value in re.findall(r"(?:^|;)\s*(color|fill):([^;]*)", rule):
            if "doubt" in value or "base" in value:
                assert ".bar" in selector, (selector, name)


def test_the_style_loads_nothing():
    assert not re.search(r"url|import|http|src", PAGE_STYLE)
