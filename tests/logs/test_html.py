# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

from xml.dom.minidom import parseString

from skope_ope.logs._html import summary_html, table_html, warning_rows

EVIL = "<b onclick='x'>&amp"


def test_summary_is_a_table_with_a_row_per_item():
    html = summary_html("Logs", {"rounds": "3", 1: 2.5})
    rows = parseString(html).getElementsByTagName("tr")
    assert [[cell.firstChild.data for cell in row.childNodes] for row in rows] == [
        ["rounds", "3"],
        ["1", "2.5"],
    ]


def test_table_has_a_header_and_a_row_per_row():
    html = table_html("Values", ["a", "b"], [[1, 2], [3, 4]])
    table = parseString(html)
    head = [cell.firstChild.data for cell in table.getElementsByTagName("th")]
    body = [cell.firstChild.data for cell in table.getElementsByTagName("td")]
    assert head == ["a", "b"]
    assert body == ["1", "2", "3", "4"]


def test_everything_is_escaped():
    for html in (
        summary_html(EVIL, {EVIL: EVIL}),
        table_html(EVIL, [EVIL], [[EVIL]]),
    ):
        assert "<b " not in html
        assert "onclick='" not in html
        assert html.count("&lt;b onclick=&#x27;x&#x27;&gt;&amp;amp") == 3
        parseString(html)


def test_hidden_characters_are_told_in_all_parts():
    bad = "\x1b[2J\u202e<b>"
    for html in (summary_html(bad, {bad: bad}), table_html(bad, [bad], [[bad]], [bad])):
        assert not {"\x1b", "\u202e"} & set(html)
        assert "<b>" not in html
        assert html.count(r"\x1b[2J\u202e&lt;b&gt;") >= 3


def test_a_text_of_warnings_has_one_row():
    texts = [UserWarning("a"), UserWarning("b"), UserWarning("a")]
    assert warning_rows(texts) == [("warning", "a"), ("warning", "b")]
