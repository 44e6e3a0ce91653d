# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import re
from html.parser import HTMLParser
from math import nan

import pytest

from skope_ope import (
    BanditLogs,
    UniformPolicy,
    audit,
    compare_policies,
    evaluate,
    summarize,
)
from skope_ope.datasets import make_bandit_logs, make_slate_logs
from skope_ope.evaluators import logger_overlap
from skope_ope.logs._html import (
    RULES,
    Markup,
    card,
    doubts,
    headline,
    interval_picture,
    summary_html,
    table_html,
    tag,
    with_bars,
)

EVIL = "<b onclick='x'>&amp\x1b[2J\u202e"
VOID = {"circle", "line", "path", "rect"}


class Page(HTMLParser):
    """Collects what stands in a card, and checks that every element is closed."""

    def __init__(self, html):
        super().__init__()
        self.open, self.elements, self.cells, self.texts = [], [], [], []
        self.feed(html)
        self.close()
        assert not self.open

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        self.open.append(tag)
        if tag in ("td", "th"):
            self.cells.append("")

    def handle_startendtag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if "style" not in self.open:
            self.texts.append(data)
        if {"td", "th"} & set(self.open):
            self.cells[-1] += data

    def all(self, tag):
        return [attributes for name, attributes in self.elements if name == tag]


def results():
    """Return one of everything that a notebook shows, with labels that bring markup."""
    logs, policy, _ = make_bandit_logs(600, random_state=0, return_truth=True)
    policies = {EVIL: policy, "uniform": UniformPolicy()}
    table = evaluate(policies, logs)
    new, old = table[EVIL, "SNIPS"], table["uniform", "SNIPS"]
    named = BanditLogs(
        logs.context[:4],
        [EVIL, "b", "b", "c"],
        [0, 1, 0, 1],
        [0.5] * 4,
        logger=[EVIL, "x", "x", EVIL],
    )
    return {
        "logs": logs,
        "named logs": named,
        "slates": make_slate_logs(50, random_state=0),
        "value": new,
        "difference": new - old,
        "interval": new.confidence_interval(),
        "lift": new.lift(old),
        "sensitivity": new.sensitivity(),
        "diagnostics": new.diagnostics,
        "table": table,
        "comparison": compare_policies(policies, logs),
        "audit": audit(policy, logs),
        "verdict": new.verdict,
        "overlap": logger_overlap(named),
        "summary": summarize(policies, logs),
    }


RESULTS = results()


@pytest.mark.parametrize("name", RESULTS)
def test_what_a_notebook_shows(name):
    html = RESULTS[name]._repr_html_()
    page = Page(html)
    told = "".join(page.texts)
    assert not re.search(r"\b0x[0-9a-f]{4}", told)
    assert not page.all("script") and not page.all("b")
    assert not {"\x1b", "\u202e"} & set(html)
    assert all("open" not in attributes for attributes in page.all("details"))
    assert len(page.all("style")) == 1
    assert not re.search(r"<(link|img|iframe)|src=|href=|url\(|@import", html)
    assert page.elements[0] == ("div", {"class": "skope-ope"})


def test_texts_and_html_have_the_same_cells():
    for name in ("table", "comparison", "overlap"):
        shown = Page(RESULTS[name]._repr_html_()).cells
        for cell in re.split(r"\s{2,}", repr(RESULTS[name]).splitlines()[1]):
            assert cell in shown


def test_a_value_has_one_number_format():
    value = RESULTS["value"]
    [told] = re.findall(r"PolicyValue\(([\d.]+), standard_error", repr(value))
    assert f'<span class="big">{told}</span>' in value._repr_html_()
    limits = Page(RESULTS["interval"]._repr_html_()).texts
    assert any(re.fullmatch(r"0\.\d{3} to 0\.\d{3}", text) for text in limits)


def test_gains_are_signed():
    told = "".join(Page(RESULTS["difference"]._repr_html_()).texts)
    assert re.search(r"\+0\.\d+95% interval \+0\.\d+ to \+0\.\d+", told)


def test_summary_has_a_row_per_item():
    assert Page(summary_html("Logs", {"rounds": "3", 1: 2.5})).cells == [
        "rounds",
        "3",
        "1",
        "2.5",
    ]


def test_numbers_of_tables_stand_on_the_right():
    page = Page(table_html("Values", ["a", "b"], [["x", "1"]], ["below"], bold=[0]))
    assert [cell.get("class") for cell in page.all("td")] == ["number"]
    assert page.cells == ["a", "b", "x", "1"] and "below" in page.texts
    assert {"class": "marked"} in page.all("tr")


def test_everything_is_escaped():
    for html in (
        summary_html(EVIL, {EVIL: EVIL}),
        table_html(EVIL, [EVIL, EVIL], [[EVIL, EVIL]], [EVIL]),
        card(EVIL, EVIL, lead=EVIL, notes=[EVIL], details={EVIL: EVIL}),
        card("a", headline(EVIL, EVIL), tag(EVIL, True), details=doubts([EVIL])),
        interval_picture(0.5, 0, 1, EVIL),
    ):
        assert "<b " not in html and "onclick='" not in html
        assert "\x1b" not in html and "\u202e" not in html
        assert "&lt;b onclick=&#x27;x&#x27;&gt;&amp;amp" in html
        Page(html)


def test_details_are_closed_and_left_out_where_empty():
    html = card("a", details={"full": Markup("<p>b</p>"), "empty": ""})
    assert "<details><summary>full</summary><p>b</p></details>" in html
    assert "empty" not in html


def test_warnings_are_told_once():
    told = doubts([UserWarning("a"), UserWarning("b"), UserWarning("a")], ["c"])
    assert list(told) == ["Doubts (3)"]
    assert not doubts([])


def test_bars_stand_behind_their_limits():
    header, rows, foot = with_bars(
        ["name", "low", "high", "p"],
        [["x", "1", "3", ".5"], ["y", "-", "-", "-"]],
        [(2, 1, 3), (nan, nan, nan)],
        "high",
    )
    assert header == ["name", "low", "high", "", "p"]
    assert [row[4] for row in rows] == [".5", "-"]
    assert "<circle" in rows[0][3] and "<circle" not in rows[1][3]
    assert 'class="axis"' in foot[3] and "zero" not in rows[0][3]


def test_the_axis_is_no_row_of_data():
    for name in ("table", "comparison", "sensitivity"):
        body, foot = RESULTS[name]._repr_html_().split("<tfoot>")
        assert 'class="axis"' not in body and 'class="axis"' in foot


def test_names_wrap_alike_and_numbers_never():
    html = table_html("Values", ["a", "b"], [["x y", "1"], ["z", "2"]], bold=[0])
    assert '<span class="label">x y</span>' in html
    assert '<td class="number" data-label="b">1</td>' in html
    rules = dict(re.findall(r"\n& ([^{}]*)\{([^}]*)\}", RULES))
    assert "white-space:nowrap" in rules["tbody .number"]
    assert not any(".marked th" in one for one in rules if "weight" in rules[one])


def test_the_axis_of_a_lift_is_in_percent():
    ticks = re.findall(r"<text[^>]*>([^<]*)<", RESULTS["lift"]._repr_html_())
    assert ticks and all(text.endswith("%") for text in ticks)


def test_a_picture_shows_the_whole_range():
    made = interval_picture(0.5, 0.4, 0.6, "v", reach=(0, 1))
    assert re.findall(r"<text[^>]*>([^<]*)<", made) == ["0", "0.5", "1"]
    assert "zero" in interval_picture(0.5, 0.4, 0.6, "v", zero=True)
