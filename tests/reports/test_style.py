# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import re

import pytest

from skope_ope.reports._style import STYLE

LIGHT, DARK = (
    dict(re.findall(r"--(\w+):(#[0-9a-f]{6})", part))
    for part in STYLE.split("@media(prefers-color-scheme:dark)")[:2]
)


def luminance(colour):
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    parts = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return sum(w * p for w, p in zip((0.2126, 0.7152, 0.0722), parts, strict=True))


def contrast(one, two):
    low, high = sorted(map(luminance, (one, two)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("colours", [LIGHT, DARK], ids=["light", "dark"])
@pytest.mark.parametrize("ground", ["ground", "panel"])
def test_texts_can_be_read_and_marks_be_seen(colours, ground):
    for name in ("text", "quiet", "policy"):
        assert contrast(colours[name], colours[ground]) >= 4.5
    for name in ("doubt", "base"):  # no texts
        assert contrast(colours[name], colours[ground]) >= 3


def test_no_text_has_the_colour_of_marks():
    rules = re.findall(r"([^{}]*)\{([^{}]*)\}", STYLE)
    for selector, rule in rules:
        for name, value in re.findall(r"(?:^|;)\s*(color|fill):([^;]*)", rule):
            if "doubt" in value or "base" in value:
                assert ".bar" in selector, (selector, name)


def test_the_style_loads_nothing():
    assert not re.search(r"url|import|http|src", STYLE)
