# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Small HTML tables for notebooks."""

from html import escape


def summary_html(title, summary):
    """Return a two-column table of the items of a dict."""
    rows = "".join(
        f'<tr><th style="text-align:left">{escape(str(name))}</th>'
        f'<td style="text-align:left">{escape(str(text))}</td></tr>'
        for name, text in summary.items()
    )
    return f"<table><caption>{escape(title)}</caption><tbody>{rows}</tbody></table>"


def table_html(title, header, rows):
    """Return a table with a header and rows of texts."""
    head = "".join(f"<th>{escape(str(cell))}</th>" for cell in header)
    body = "".join(
        "<tr>" + "".join(f"<td>{escape(str(cell))}</td>" for cell in row) + "</tr>"
        for row in rows
    )
    return (
        f"<table><caption>{escape(title)}</caption><thead><tr>{head}</tr></thead>"
        f"<tbody>{body}</tbody></table>"
    )
