# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

from html.parser import HTMLParser

import pytest

from skope_ope.logs._html import Markup, bullets, element, joined, table

EVIL = '\x1b[2J\u202e<script>alert("1")</script>&\x7f'


class Reader(HTMLParser):
    """Collects tags, attributes and texts of a page."""

    def __init__(self, page):
        super().__init__()
        self.tags, self.attributes, self.texts = [], [], []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs

    def handle_data(self, data):
        self.texts.append(data)


@pytest.mark.parametrize(
    "made",
    [
        element("p", EVIL),
        element("p", "text", title=EVIL),
        joined(EVIL, element("b", EVIL)),
        table([EVIL, "b"], [[EVIL, EVIL]], caption=EVIL),
        bullets([EVIL]),
    ],
)
def test_texts_bring_no_markup_and_nothing_hidden(made):
    assert "script" not in Reader(made).tags
    assert "\x1b" not in made and "\u202e" not in made and "\x7f" not in made
    assert r"\x1b[2J\u202e" in made


def test_markup_goes_in_as_it_is():
    assert element("p", Markup("<b>a</b>"), "<b>") == "<p><b>a</b>&lt;b&gt;</p>"


def test_attributes_are_named_as_html_does_and_none_is_left_out():
    made = element("div", class_="a", data_label="b", open=None)
    assert made == '<div class="a" data-label="b"></div>'


def test_elements_that_hold_nothing_are_closed():
    assert element("line", x1=0) == '<line x1="0"/>'


def test_cells_know_their_columns():
    made = table(["policy", "value"], [["new", "1.0"], ["old", "0.5"]], marked=[1])
    read = Reader(made)
    assert read.attributes.count(("data-label", "value")) == 2
    assert read.attributes.count(("class", "marked")) == 1
    assert read.tags.count("tr") == 3
    assert ("class", "number") in read.attributes


def test_the_foot_is_not_in_the_body():
    made = table(["policy", "value"], [["new", "1.0"]], foot=["", "axis"])
    assert made.index("</tbody>") < made.index("<tfoot>") < made.index("axis")
    assert "<tfoot>" not in table(["policy", "value"], [["new", "1.0"]])


def test_a_first_column_of_numbers_stands_below_its_header():
    made = table(["gamma", "low"], [["1", "0.5"]], left=0)
    assert '<th scope="row" class="number">1</th>' in made
