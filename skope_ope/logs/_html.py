# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Results in notebooks: cards with tables, bars of intervals and details to open."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from skope_ope.logs._bars import Scale, axis, interval_bar
from skope_ope.logs._html_style import STYLE
from skope_ope.logs._markup import Markup, bullets, element, joined, pairs, table
from skope_ope.logs._shown_numbers import figure

ROOM = 15  # characters of the axis of a column of bars; a picture has twice as many


def card(
    title: str,
    *content: object,
    lead: str = "",
    notes: Iterable[str] = (),
    details: Mapping[str, object] | None = None,
) -> str:
    """Return a result as a notebook shows it, with the style that it needs."""
    head = [element("span", title, class_="title")]
    if lead:
        head.append(element("span", lead, class_="lead"))
    told = [element("p", note, class_="note") for note in notes]
    hidden = [
        element("details", element("summary", name), inside)
        for name, inside in (details or {}).items()
        if inside
    ]
    style = element("style", Markup(STYLE))
    top = element("div", *head)
    return str(element("div", style, top, *content, *told, *hidden, class_="skope-ope"))


def summary_html(title: str, summary: Mapping) -> str:
    """Return a card with the items of a dict."""
    return card(title, pairs(summary))


def table_html(
    title: str,
    header: Sequence[str],
    rows: Sequence[Sequence],
    notes: Iterable[str] = (),
    bold: Collection[int] = (),
    left: int | Collection[str] = 1,
    foot: Sequence = (),
    **given,
) -> str:
    """Return a card with a table."""
    body = table(header, rows, marked=bold, left=left, foot=foot) if rows else ""
    return card(title, body, notes=notes, **given)


def with_bars(header, rows, limits, after, *, zero=False, kinds=None):
    """Return a table with a column of bars of intervals, and their axis below."""
    scale = Scale((x for three in limits for x in three), 4, zero=zero)
    place = list(header).index(after) + 1
    header = [*header[:place], "", *header[place:]]
    kinds = ["told"] * len(rows) if kinds is None else kinds
    filled = []
    for row, three, kind in zip(rows, limits, kinds, strict=True):
        told = f"{row[0]}: {row[place - 1]}"
        bar = interval_bar(scale, *three, told, kind)
        filled.append([*row[:place], bar, *row[place:]])
    foot = [""] * len(header)
    foot[place] = axis(scale, lambda x: figure(x, sign="+" if zero else ""), ROOM)
    return header, filled, foot


def interval_picture(
    value: float,
    low: float,
    high: float,
    label: str,
    *,
    reach: tuple[float, float] | None = None,
    zero: bool = False,
    unit: str = "",
) -> Markup:
    """Return the bar of one interval above its axis."""
    scale = Scale([value, low, high, *(reach or ())], 4, zero=zero)
    bar = interval_bar(scale, value, low, high, label, "told")
    sign = "+" if zero else ""
    ticks = axis(scale, lambda x: figure(x, sign=sign) + unit, 2 * ROOM)
    return element("div", bar, ticks)


def doubts(warnings: Iterable, others: Iterable[str] = ()) -> dict:
    """Return warnings and other sentences as a detail of a card, or none."""
    told = list(dict.fromkeys([*map(str, warnings), *others]))
    return {f"Doubts ({len(told)})": bullets(told)} if told else {}


def tag(text: str, alarms: bool) -> Markup:
    """Return a word in a frame, which has another colour where it alarms."""
    return element("span", text, class_="tag" if alarms else "tag quiet")


def headline(number: str, words: str, picture: object = "") -> Markup:
    """Return the main number of a card, words beside it, and its picture."""
    big, told = element("span", number, class_="big"), element("span", words)
    return element("div", big, told, picture, class_="main")


def listed(texts: Iterable[str]) -> Markup:
    """Return sentences as paragraphs."""
    return joined(*(element("p", text) for text in texts))
