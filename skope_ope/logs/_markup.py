# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Markup that is safe by default: whatever is no markup already is escaped."""

from html import escape

from skope_ope._harmless import harmless

EMPTY = {"circle", "line", "meta", "path", "rect"}  # they hold nothing


class Markup(str):
    """A text that is markup: it goes into a page as it is."""


def element(name, /, *content, **attributes):
    """Return an element of a page."""
    told = "".join(
        f' {key.strip("_").replace("_", "-")}="{escape(harmless(value))}"'
        for key, value in attributes.items()
        if value is not None
    )
    if name in EMPTY:
        return Markup(f"<{name}{told}/>")
    return Markup(f"<{name}{told}>{joined(*content)}</{name}>")


def joined(*content):
    """Return pieces one after another as markup; texts are escaped."""
    return Markup("".join(map(_safe, content)))


def table(header, rows, caption=None, marked=(), left=1, foot=()):
    """Return a table whose cells stand below each other on a narrow screen."""
    words = header[:left] if isinstance(left, int) else left
    kinds = ["word" if name in words else "number" for name in header]
    head = joined(
        *(element("th", n, class_=k) for n, k in zip(header, kinds, strict=True))
    )
    body = []
    for i, row in enumerate(rows):
        cells = zip(row, header, kinds, strict=True)
        (first, _, _), *others = cells
        inner = [
            element("th", _cell(first, kinds[0]), scope="row", class_=kinds[0]),
            *(
                element("td", _cell(cell, kind), class_=kind, data_label=name)
                for cell, name, kind in others
            ),
        ]
        marks = "marked" if i in marked else None
        body.append(element("tr", *inner, class_=marks))
    top = element("caption", caption) if caption else ""
    cells = [element("td", cell) for cell in foot]
    inner = element(
        "table",
        top,
        element("thead", element("tr", head)),
        element("tbody", *body),
        element("tfoot", element("tr", *cells)) if cells else "",
    )
    return element("div", inner, class_="wide")


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
