# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Small HTML tables for notebooks."""

from html import escape

from skope_ope._harmless import harmless

BOLD = ' style="font-weight:bold"'


def summary_html(title, summary):
    """Return a two-column table of the items of a dict."""
    rows = "".join(
        f'<tr><th style="text-align:left">{_safe(name)}</th>'
        f'<td style="text-align:left">{_safe(text)}</td></tr>'
        for name, text in summary.items()
    )
    return f"<table><caption>{_safe(title)}</caption><tbody>{rows}</tbody></table>"


def table_html(title, header, rows, notes=(), bold=()):
    """Return a table with a header and rows of texts.

    Parameters
    ----------
    title : str
        What stands above it.
    header : sequence of str
        Names of the columns.
    rows : list of sequence of str
        Cells.
    notes : sequence of str, default=()
        Sentences below it.
    bold : collection of int, default=()
        Rows in bold letters.
    """
    head = "".join(f"<th>{_safe(cell)}</th>" for cell in header)
    body = "".join(
        f"<tr{BOLD if i in bold else ''}>"
        + "".join(f"<td>{_safe(cell)}</td>" for cell in row)
        + "</tr>"
        for i, row in enumerate(rows)
    )
    foot = "".join(
        f'<tr><td colspan="{len(header)}" style="text-align:left">{_safe(note)}</td>'
        "</tr>"
        for note in notes
    )
    return (
        f"<table><caption>{_safe(title)}</caption><thead><tr>{head}</tr></thead>"
        f"<tbody>{body}</tbody>{foot and f'<tfoot>{foot}</tfoot>'}</table>"
    )


def warning_rows(warnings):
    """Return a row for every text of some warnings, as `table_html` takes it."""
    return [("warning", text) for text in dict.fromkeys(map(str, warnings))]


def _safe(text):
    """Return a text without markup of its own, and without hidden characters."""
    return escape(harmless(text))
