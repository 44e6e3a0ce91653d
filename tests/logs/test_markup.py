# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""What logs and results show: text, HTML, numbers, bars and warnings."""

import re
import warnings
from html.parser import HTMLParser

import numpy as np
import pytest
from scipy import sparse

from skope_ope import (
    IPS,
    BanditLogs,
    ConstantPolicy,
    UniformPolicy,
    audit,
    compare_policies,
    evaluate,
    report,
    summarize,
)
from skope_ope.datasets import make_bandit_logs, make_slate_logs
from skope_ope.evaluators import logger_overlap
from skope_ope.exceptions import OPEWarning
from tests._contrast import contrast

EVIL = '\x1b[2J\u202e<script>alert("1")</script>&\x7f'
ESCAPED = r"\x1b[2J\u202e&lt;script&gt;alert(&quot;1&quot;)&lt;/script&gt;&amp;"
SHOWN = [
    *("logs", "named logs", "slates", "value", "difference", "interval", "lift"),
    *("sensitivity", "diagnostics", "table", "comparison", "audit", "verdict"),
    *("overlap", "summary"),
]


class Reader(HTMLParser):
    """Collects tags, attributes, texts and cells; every element must be closed."""

    def __init__(self, page):
        super().__init__()
        self.tags, self.attributes, self.texts, self.cells = [], [], [], []
        self.elements, self.open = [], []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.handle_startendtag(tag, attrs)
        self.open.append(tag)
        if tag in ("td", "th"):
            self.cells.append("")

    def handle_startendtag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        while self.open and self.open.pop() != tag:
            pass

    def handle_data(self, data):
        if "style" not in self.open:
            self.texts.append(data)
        if {"td", "th"} & set(self.open):
            self.cells[-1] += data


@pytest.fixture(scope="module")
def shown():
    """One of everything that a notebook shows, with labels that bring markup."""
    logs, policy, _ = make_bandit_logs(600, random_state=0, return_truth=True)
    policies = {EVIL: policy, "uniform": UniformPolicy()}
    table = evaluate(policies, logs)
    new, old = table[EVIL, "SNIPS"], table["uniform", "SNIPS"]
    action, reward, logger = [EVIL, "b", "b", "c"], [0, 1, 0, 1], [EVIL, "x", "x", EVIL]
    named = BanditLogs(logs.context[:4], action, reward, [0.5] * 4, logger=logger)
    results = {
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
    assert [*results] == SHOWN
    return results


@pytest.fixture(scope="module")
def style(shown):
    return re.search("<style>(.*?)</style>", shown["table"]._repr_html_(), re.S)[1]


# -- HTML -----------------------------------------------------------------------------
@pytest.mark.parametrize("name", SHOWN)
def test_what_a_notebook_shows(shown, name):
    html = shown[name]._repr_html_()
    page = Reader(html)
    assert not page.open
    told = "".join(page.texts)
    assert not re.search(r"\b0x[0-9a-f]{4}", told)
    assert not {"script", "b"} & {*page.tags}
    assert not {"\x1b", "\u202e", "\x7f"} & set(html)
    assert all("open" not in given for tag, given in page.elements if tag == "details")
    assert page.tags.count("style") == 1
    assert not re.search(r"<(link|img|iframe)|src=|href=|url\(|@import", html)
    assert page.elements[0] == ("div", {"class": "skope-ope"})


@pytest.mark.parametrize("name", ["table", "comparison", "overlap"])
def test_texts_and_html_have_the_same_cells(shown, name):
    html = shown[name]._repr_html_()
    cells = Reader(html).cells
    for cell in re.split(r"\s{2,}", repr(shown[name]).splitlines()[1]):
        assert cell in cells
    assert ESCAPED in html


def test_values_and_gains_have_one_number_format(shown):
    value = shown["value"]
    [told] = re.findall(r"PolicyValue\(([\d.]+), standard_error", repr(value))
    assert f'<span class="big">{told}</span>' in value._repr_html_()
    limits = Reader(shown["interval"]._repr_html_()).texts
    assert any(re.fullmatch(r"0\.\d{3} to 0\.\d{3}", text) for text in limits)
    told = "".join(Reader(shown["difference"]._repr_html_()).texts)
    assert re.search(r"\+0\.\d+95% interval \+0\.\d+ to \+0\.\d+", told)
    ticks = re.findall(r"<text[^>]*>([^<]*)<", shown["lift"]._repr_html_())
    assert ticks and all(text.endswith("%") for text in ticks)
    assert shown["comparison"].choice == EVIL
    rows = shown["comparison"]._repr_html_().split("<tr")
    [chosen] = [row for row in rows if 'class="marked"' in row]
    assert "<path" in chosen and "<circle" not in chosen
    assert sum("<circle" in row for row in rows) == 1


@pytest.mark.parametrize("name", ["table", "comparison", "sensitivity"])
def test_tables_have_columns_a_foot_and_bars(shown, name):
    html = shown[name]._repr_html_()
    body, foot = html.split("<tfoot>")
    assert 'class="axis"' not in body and 'class="axis"' in foot  # no row of data
    assert re.search(r'<td class="number" data-label="[^"]*low">', body)
    ticks = [float(x) for x in re.findall(r"<text[^>]*>([^<%]*)%?<", foot)]
    steps = np.diff(ticks) / np.diff(ticks)[0]
    assert len(ticks) >= 2 and np.allclose(steps, np.round(steps))
    bars = re.findall(r'<svg class="bar.*?</svg>', body)
    assert len(bars) == body.count("<tr") - 1
    for bar in bars:  # a line, its two ends, and a mark
        low, middle, high = (
            [float(x) for x in re.findall(rf' {name}="([\d.]+)%"', bar)]
            for name in ("x1", "c?x", "x2")
        )
        assert 0 <= low[-3] <= middle[-1] <= high[-3] <= 100
        assert "aria-label=" in bar


@pytest.fixture(scope="module")
def warned():
    """Values of few events, and of a policy that takes no logged action."""
    action = np.random.default_rng(0).integers(0, 4, 400)
    reward = np.isin(np.arange(400), [3, 50, 200]).astype(float)
    logs = BanditLogs(np.zeros((400, 1)), action, reward, 0.25, actions=range(5))
    policies = {"some": ConstantPolicy(2), "all": UniformPolicy()}
    policies["none"] = ConstantPolicy(4)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", OPEWarning)
        return evaluate(policies, logs, evaluators=["IPS", "SNIPS", "DoublyRobust"])


def test_no_mark_is_drawn_without_a_value(warned):
    rows = warned._repr_html_().split("<tr")[2:-1]
    marks = ["<circle" in row or "<path" in row for row in rows]
    assert marks == [True] * 6 + [False] * 2 + [True]
    assert not re.search(r'"(nan|-?inf)%', warned._repr_html_())
    lines = repr(warned).splitlines()
    marks = [line.rsplit("  ", 1)[1] for line in lines[1:10]]
    assert marks == [*["[1]"] * 3, *["[2, 1]"] * 3, *["[2, 3, 4, 5]"] * 2, "[2, 3, 6]"]
    notes = " ".join(lines[10:])
    assert "[1] FewEventsWarning (DoublyRobust of some; alike in 5 other rows)" in notes
    assert "[2] SupportWarning (DoublyRobust of all; alike in 5 other rows)" in notes
    assert "alike in 1 other row): IPS has no estimate" in notes  # and SNIPS has none
    assert notes.count("[1] ") == 1


# -- style ----------------------------------------------------------------------------
def test_colours_of_cards(style, tmp_path):
    media, rest = style.split("@media(prefers-color-scheme:dark)")
    page = tmp_path / "report.html"
    report(UniformPolicy(), make_bandit_logs(200, random_state=0), page)
    for own, said in ((media, "light"), (rest.split("}}")[0], "dark")):
        [rule] = re.findall(rf"\[data-theme={said}\][^{{]*\{{([^}}]*)\}}", rest)
        assert rule in own and rule in page.read_text()  # readers choose
        found = dict(re.findall(r"--(\w+):(#[0-9a-f]{6})", rule))
        for name in ("text", "quiet", "policy"):
            assert contrast(found[name], found["ground"]) >= 4.5
        for name in ("doubt", "base"):  # marks, no texts
            assert contrast(found[name], found["ground"]) >= 3
    assert "[data-jp-theme-light=false]" in rest and ".vscode-dark" in rest
    for selector, rule in re.findall(r"([^{}]*)\{([^{}]*)\}", rest):
        for _, value in re.findall(r"(?:^|;)(color|fill):([^;}]*)", rule):
            allowed = ("text", "quiet", "policy")
            marks = ".bar" in selector or ".share" in selector
            of_text = value == "inherit" or value in [f"var(--{n})" for n in allowed]
            assert of_text or marks, (selector, value)


def test_rules_of_cards(style):
    inside = re.sub(r"@media\([^)]*\)\{", "", style)
    for selectors in re.findall(r"([^{}]+)\{", inside):  # none reaches beyond the card
        assert all(".skope-ope" in one for one in selectors.split(",")), selectors
    assert "font-variant-numeric:tabular-nums" in style
    assert ".number{text-align:right}" in style
    assert "tbody .number{white-space:nowrap}" in style
    # notebooks stripe rows: ".jp-RenderedHTMLCommon tbody tr:nth-child(odd)"
    assert "tr:nth-child(n){background:none" in style
    assert not re.search(r"url|import|http|src|</", style)
    assert len(style) < 6000  # it stands in every output


# -- text -----------------------------------------------------------------------------
def test_lines_fit_a_terminal_and_hide_nothing(shown, warned, monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    notes = repr(warned).splitlines()[10:]
    assert max(map(len, notes)) <= 60 and len(notes) > 20
    text = repr(shown["table"])
    assert not {"\x1b", "\u202e", "\x7f"} & set(text)
    names = [line[:60].split("  ")[0] for line in text.splitlines()[1:9]]
    assert names[0] == r'\x1b[2J\u202e<script>alert("1")</script>&\x7f'
    assert names[-1] == "uniform"


# -- numbers --------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("scale", "value"),
    [
        (1e-12, "2.6e-12, standard_error=1.7e-13"),
        (1e-6, "0.00000262, standard_error=0.00000017"),
        (1e-3, "0.00262, standard_error=0.00017"),
        (1.0, "2.62, standard_error=0.17"),
        (10.0, "26.2, standard_error=1.7"),
        (100.0, "262, standard_error=17"),
        (1e6, "2,620,000, standard_error=168,043"),
        (1e20, "2.6e+20, standard_error=1.7e+19"),
        (-1.0, "-2.62, standard_error=0.17"),
        (0.0, "0.0000, standard_error=0.0000"),
    ],
)
def test_a_standard_error_has_two_digits(scale, value):
    reward = np.random.default_rng(0).integers(0, 6, 100) * scale
    logs = BanditLogs(np.zeros((100, 0)), np.arange(100) % 2, reward, np.full(100, 0.5))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", OPEWarning)
        found = IPS().fit(logs).evaluate(UniformPolicy())
    assert repr(found).startswith(f"PolicyValue({value}")


@pytest.mark.parametrize(
    ("numbers", "text"),
    [
        ((0, 1), "0 to 1"),
        ((0.966001, 18.2982), "0.966 to 18.3"),
        ((1e-4, 7918.4), "0.0001 to 7,918"),
        ((0.00012345, 999999.5), "0.0001234 to 1,000,000"),
        ((1.5e-5, 1234567.8), "1.5e-05 to 1,234,568"),
        ((0.99999, 2e15), "1 to 2e+15"),
        ((-7918.4, np.inf), "-7,918 to inf"),
    ],
)
def test_numbers_by_themselves(numbers, text):
    logs = BanditLogs(np.zeros((2, 0)), [0, 1], numbers[:1] * 2, reward_range=numbers)
    assert logs.summary()["reward range"] == text


def test_summaries_of_logs():
    def summary_of(**fields):
        fields = {"context": np.eye(4), "action": [0, 1, 1, 1], **fields}
        return BanditLogs(reward=[0, 1, 2, 5], **fields).summary()

    assert summary_of()["features"] == "4 (ndarray)"
    assert summary_of(context=sparse.eye(4))["features"] == "4 (csr_matrix)"
    assert summary_of(actions=[0, 1, 2])["actions"] == "3 (logged 0 to 3 times)"
    assert summary_of(timestamp=[4, 1, 2, 3])["time"] == "1 to 4"
    many = BanditLogs(np.zeros((12_345, 1)), np.zeros(12_345), np.zeros(12_345))
    assert many.summary()["rounds"] == "12,345"
    assert many.summary()["actions"] == "1 (logged 12,345 to 12,345 times)"
