# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Results in notebooks: cards with tables, bars of intervals and details to open."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from html import escape
from math import ceil, floor, inf, isfinite, log10

import numpy as np

from skope_ope._texts import harmless
from skope_ope.logs._shown_numbers import figure, fixed, share

# -- markup that is safe by default: whatever is no markup already is escaped ----------

VOID_ELEMENTS = {"circle", "line", "meta", "path", "rect"}  # they hold nothing


class Markup(str):
    """A text that is markup: it goes into a page as it is."""


def element(name, /, *content, **attributes):
    """Return an element of a page."""
    told = "".join(
        f' {key.strip("_").replace("_", "-")}="{escape(harmless(value))}"'
        for key, value in attributes.items()
        if value is not None
    )
    if name in VOID_ELEMENTS:
        return Markup(f"<{name}{told}/>")
    return Markup(f"<{name}{told}>{joined(*content)}</{name}>")


def joined(*content):
    """Return pieces one after another as markup; texts are escaped."""
    return Markup("".join(map(_safe, content)))


def table(header, rows, caption=None, marked=(), left=1, foot=()):
    """Return a table whose cells stand below each other on a narrow screen."""
    words = header[:left] if isinstance(left, int) else left
    kinds = ["word" if name in words else "number" for name in header]
    parts = [element("caption", caption)] if caption else []
    pairs = zip(header, kinds, strict=True)
    head = [element("th", name, class_=kind) for name, kind in pairs]
    parts.append(element("thead", element("tr", *head)))
    body = []
    for i, row in enumerate(rows):
        inner = [element("th", _cell(row[0], kinds[0]), scope="row", class_=kinds[0])]
        for cell, name, kind in list(zip(row, header, kinds, strict=True))[1:]:
            inner.append(element("td", _cell(cell, kind), class_=kind, data_label=name))
        body.append(element("tr", *inner, class_="marked" if i in marked else None))
    parts.append(element("tbody", *body))
    if foot:
        cells = [element("td", cell) for cell in foot]
        parts.append(element("tfoot", element("tr", *cells)))
    return element("div", element("table", *parts), class_="wide")


def _cell(cell, kind):
    """Return what a cell holds; words of a column wrap at the same width."""
    plain = kind == "word" and cell and not isinstance(cell, Markup)
    return element("span", cell, class_="label") if plain else cell


def pairs(told):
    """Return names and texts below each other."""
    rows = [
        element("tr", element("th", name, scope="row"), element("td", text))
        for name, text in told.items()
    ]
    return element("table", element("tbody", *rows), class_="facts")


def bullets(items):
    """Return a list of texts or markup."""
    return element("ul", *(element("li", one) for one in items))


def _safe(piece):
    return piece if isinstance(piece, Markup) else escape(harmless(piece))


# --------------------------------------------------------------------------------------

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
    style = element("style", Markup(CARD_STYLE))
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


def main_number(number: str, words: str, picture: object = "") -> Markup:
    """Return the main number of a card, words beside it, and its picture."""
    big, told = element("span", number, class_="big"), element("span", words)
    return element("div", big, told, picture, class_="main")


def paragraphs(texts: Iterable[str]) -> Markup:
    """Return sentences as paragraphs."""
    return joined(*(element("p", text) for text in texts))


# -- how results look in a notebook: colours of the project, light and dark ------------

LIGHT = (
    "--text:#1c2126;--quiet:#57606a;--ground:#ffffff;--panel:#f5f7f9;--line:#d5dbe1;"
    "--policy:#0072b2;--base:#666666;--doubt:#d55e00"
)
DARK = (
    "--text:#e4e8ec;--quiet:#a7b0ba;--ground:#14181c;--panel:#1e242a;--line:#3a434c;"
    "--policy:#56b4e9;--base:#aaaaaa;--doubt:#f08030"
)
# Twice, so that the rules count more than those of notebooks for tables.
CARD = ".skope-ope.skope-ope"
THEMES = {  # what sites, JupyterLab and VS Code say of the page
    LIGHT: ("[data-theme=light]", "[data-jp-theme-light=true]", ".vscode-light"),
    DARK: ("[data-theme=dark]", "[data-jp-theme-light=false]", ".vscode-dark"),
}
CSS_RULES = """
&{background:var(--ground);color:var(--text);border:1px solid var(--line);
border-radius:6px;padding:.7em .9em;margin:.3em 0;max-width:70em;
font:14px/1.45 system-ui,-apple-system,"Segoe UI",Roboto,"Helvetica Neue",sans-serif;
font-variant-numeric:tabular-nums;overflow-wrap:break-word;text-align:left}
& *{box-sizing:border-box}
& .title{font-weight:600}
& .lead{color:var(--quiet);margin-left:.6em}
& .main{display:flex;flex-wrap:wrap;align-items:center;gap:.2em 1em;margin:.2em 0}
& .big{font-size:1.5em;font-weight:600}
& p{margin:.35em 0}
& .note{color:var(--quiet);font-size:.92em}
& ul,& ol{margin:.3em 0;padding-left:1.6em}
& li{margin:.1em 0}
& td ul{margin:0;padding-left:1.2em}
& pre{background:var(--panel);color:inherit;border:0;border-radius:4px;margin:.5em 0;
padding:.6em .8em;overflow-x:auto;white-space:pre;
font:12.5px/1.5 ui-monospace,SFMono-Regular,Menlo,Consolas,monospace}
& .wide{overflow-x:auto}
& table{border-collapse:collapse;border:0;margin:.4em 0;font-size:.88em;width:auto;
color:inherit;background:none}
& th,& td{border:0;border-bottom:1px solid var(--line);padding:.25em .4em;
vertical-align:middle;color:inherit;background:none;font-size:1em;max-width:36em;
overflow-wrap:break-word}
& tr:nth-child(n){background:none;border:0}
& tbody tr:last-child>*,& tfoot td{border-bottom:0}
& tfoot td{padding-top:0}
& thead th{color:var(--quiet);font-weight:400;vertical-align:bottom}
& .label{display:block;width:max-content;max-width:12em}
& tbody th{font-weight:400}
& .word,& .facts th,& .facts td{text-align:left}
& .number{text-align:right}
& tbody .number{white-space:nowrap}
& .facts td{max-width:46em;vertical-align:top;overflow-wrap:anywhere}
& .facts th{color:var(--quiet);vertical-align:top;min-width:7em}
& .wide tbody th{position:sticky;left:0;background:var(--ground)}
& .marked:nth-child(n),& .wide .marked.marked th{background:var(--panel)}
& .marked .number{font-weight:600}
& caption{text-align:left;color:var(--quiet);padding:.2em 0}
& .tag{border:1px solid var(--doubt);border-radius:4px;padding:0 .4em;font-size:.9em}
& .tag.quiet{border-color:var(--line)}
& .finding{border-top:1px solid var(--line);padding:.3em 0;margin-top:.3em}
& .finding .tag{margin-right:.5em}
& details{border-top:1px solid var(--line);padding:.3em 0;margin-top:.3em}
& summary{cursor:pointer;margin:0;color:var(--policy)}
& svg{display:block;overflow:visible;max-width:none}
& .bar{width:7em;height:1.4em;stroke:var(--policy);stroke-width:2}
& .bar circle,& .bar path{fill:var(--policy)}
& .bar circle{r:4px}
& .bar.open{stroke:var(--doubt)}
& .bar.open circle{fill:var(--ground)}
& .bar .zero{stroke:var(--base);stroke-width:1;stroke-dasharray:4 3}
& .axis{width:7em;height:1.6em}
& .axis line{stroke:var(--base)}
& .axis text{fill:var(--quiet);font-size:.85em}
& .main .bar,& .main .axis{width:18em}
& .share{width:6em;height:16px}
& .share .whole{fill:var(--line)}
& .share .part{fill:var(--policy)}
"""


def _rules():
    themes = "".join(
        ",".join(f"{one} {CARD}" for one in places) + f"{{{colours}}}"
        for colours, places in THEMES.items()
    )
    dark = f"@media(prefers-color-scheme:dark){{{CARD}{{{DARK}}}}}"
    rules = CSS_RULES.replace("\n", "").replace("&", CARD)
    return f"{CARD}{{{LIGHT}}}{dark}{themes}{rules}"


CARD_STYLE = _rules()


# -- intervals as bars of inline SVG, which needs no script and no picture file --------

MARGIN = 4  # percent of the width on either side, for the text of the outer ticks
MOST_TICKS = 5
GAP = 1  # characters between texts of ticks


class Scale:
    """Numbers as places between the left and the right end of a bar."""

    def __init__(self, numbers, most_ticks=MOST_TICKS, zero=True):
        self.zero = zero
        known = [x for x in numbers if isfinite(x)]
        if zero or not known:
            known.append(0.0)
        low, high = min(known), max(known)
        if low == high:
            low, high = (low - (abs(low) or 1.0), high + (abs(high) or 1.0))
        self.step = _round_step((high - low) / (most_ticks - 1))
        first, last = floor(low / self.step), ceil(high / self.step)
        self.ticks = [i * self.step for i in range(first, last + 1)]
        self.low, self.high = self.ticks[0], self.ticks[-1]

    def place(self, x):
        """Return where a number lies, as SVG takes it."""
        share = (x - self.low) / (self.high - self.low)
        return f"{MARGIN + (100 - 2 * MARGIN) * share:.3f}%"


def _round_step(width):
    """Return the least of 1, 2 or 5 times a power of ten that is not below a width."""
    power = 10.0 ** floor(log10(width))
    return next(n * power for n in (1, 2, 5, 10) if n * power >= width * (1 - 1e-9))


def interval_bar(scale, value, low, high, label, kind):
    """Return an estimate with its interval: a line with two ends, and a mark."""
    parts = []
    if isfinite(low) and isfinite(high):
        ends = scale.place(low), scale.place(high)
        parts.append(element("line", x1=ends[0], x2=ends[1], y1="0", y2="0"))
        parts += [element("line", x1=x, x2=x, y1="-5", y2="5") for x in ends]
    if isfinite(value):
        parts.append(_interval_mark(scale.place(value), kind))
    # what is drawn about the origin of an inner svg moves with it to half the height
    inner = [element("svg", *parts, y="50%", overflow="visible")]
    if scale.zero:
        x = scale.place(0)
        inner.insert(0, element("line", x1=x, x2=x, y1="0", y2="100%", class_="zero"))
    return element("svg", *inner, class_=f"bar {kind}", role="img", aria_label=label)


def _interval_mark(x, kind):
    if kind != "chosen":
        return element("circle", cx=x, cy="0", r="5")
    diamond = element("path", d="M0 -7 L7 0 L0 7 L-7 0 Z")
    return element("svg", diamond, x=x, overflow="visible")


def axis(scale, text_of, room=inf):
    """Return the ticks below the bars."""
    # Zero, where it is drawn as a line, and the ends are labelled first.
    parts = []
    texts = [text_of(tick) for tick in scale.ticks]
    shown = _fitting(texts, room, _first_labelled(scale))
    for i, tick in enumerate(scale.ticks):
        x = scale.place(tick)
        parts.append(element("line", x1=x, x2=x, y1="0", y2="5"))
        if i in shown:
            parts.append(element("text", texts[i], x=x, y="18", text_anchor="middle"))
    return element("svg", *parts, class_="axis", height="22", aria_hidden="true")


def _first_labelled(scale):
    """Return the numbers of the ticks, the most important ones first."""
    n = len(scale.ticks)
    zero = [i for i, x in enumerate(scale.ticks) if scale.zero and x == 0]
    middle = [n // 2] if n % 2 else []
    return list(dict.fromkeys([*zero, n - 1, 0, *middle, *range(n)]))


def _fitting(texts, room, order):
    """Return the numbers of texts that fit beside each other, in the order given."""
    step, shown = room / (len(texts) - 1), []
    for i in order:
        widths = {j: (len(texts[i]) + len(texts[j])) / 2 + GAP for j in shown}
        if all(abs(i - j) * step >= width for j, width in widths.items()):
            shown.append(i)
    return shown


def share_bar(share):
    """Return a bar that is filled up to a share between 0 and 1."""
    width = f"{100 * min(max(share, 0), 1):.2f}%"
    whole, part = (
        element("rect", x="0", y="3", width=one, height="10", class_=name)
        for one, name in (("100%", "whole"), (width, "part"))
    )
    return element("svg", whole, part, class_="share", height="16", aria_hidden="true")


# -- logs as a notebook shows them -----------------------------------------------------

ACTIONS_SHOWN = 5  # actions, the most frequent ones


def logs_html(logs) -> str:
    """Return what logs hold as a card, with the shares of the actions."""
    facts = logs.summary()
    lead = f"{facts.pop('rounds')} rounds"
    content = [pairs(facts)]
    counts = getattr(logs, "_action_counts", None)  # slates have none
    if counts is not None and len(logs):
        content.insert(0, _action_table(logs.actions, counts))
    return card(type(logs).__name__, *content, lead=lead)


def _action_table(labels, counts) -> Markup:
    """Return the most frequent actions with bars of their shares."""
    order = np.argsort(-counts, kind="stable")
    total = counts.sum()
    told = [(str(labels[k]), int(counts[k])) for k in order[:ACTIONS_SHOWN]]
    rest = counts[order[ACTIONS_SHOWN:]]
    if len(rest):
        told.append((f"{len(rest):,} others", int(rest.sum())))
    rows = [
        [name, fixed(count, 0), share(count / total), share_bar(count / total)]
        for name, count in told
    ]
    return table(["action", "rounds", "share", ""], rows)
