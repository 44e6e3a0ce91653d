# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""An audit as text, as HTML and as plain records."""

from collections.abc import Mapping

import numpy as np

from skope_ope.evaluators.core._diagnostics import (
    is_number,
    is_share,
    named_text,
    number_text,
)
from skope_ope.logs._html import card
from skope_ope.logs._markup import joined, pairs, table
from skope_ope.logs._shown_numbers import column, decimals, fixed, share
from skope_ope.logs._text_table import text_table, wrapped
from skope_ope.logs._validation import plain
from skope_ope.logs.checks._finding_texts import finding_html, places, short_label

SHOWN = 12  # rows of a table
ERRORS = "standard error"  # name of a column


def audit_text(audit):
    """Return the lines of an audit as one text, findings first."""
    lines = wrapped(headline(audit))
    for one in audit.findings:
        lines += ["", f"[{one.severity}] {one.name}"]
        lines += wrapped(one.text, "  ")
        lines += [line for where in places(one) for line in wrapped(where, "  ")]
    facts, tables = _parted(audit.facts)
    if facts:
        lines += ["", "What the log holds"]
        width = max(map(len, facts))
        for name, text in facts.items():
            lines += wrapped(text, f"  {name:<{width}}  ")
    for name, columns in tables.items():
        header, rows, more = _cells(columns)
        lines += ["", name]
        lines += [f"  {line}" for line in text_table(header, rows)]
        lines += [f"  {more}"] if more else []
    return "\n".join(lines)


def audit_html(audit):
    """Return an audit as a card: findings, and what the log holds to open."""
    found = [finding_html(one, one.severity) for one in audit.findings]
    facts, tables = _parted(audit.facts)
    details = {"What the log holds": pairs(facts)} if facts else {}
    for name, columns in tables.items():
        header, cells, more = _cells(columns)
        details[name] = joined(table(header, cells), more)
    return card(headline(audit), *found, details=details)


def headline(audit):
    """Return in a sentence how many findings of each severity there are."""
    counts = {
        kind: sum(one.severity == kind for one in audit.findings)
        for kind in ("error", "warning", "note")
    }
    told = ", ".join(
        f"{count} {kind}{'s' if count > 1 else ''}"
        for kind, count in counts.items()
        if count
    )
    if not audit.findings:
        return "Audit: no check found anything."
    if audit.ok:
        return f"Audit: no alarm, {told}."
    return f"Audit: {told}."


def _parted(facts):
    """Return facts of one line as texts, and those that are tables."""
    tables = {name: one for name, one in facts.items() if _is_table(one)}
    pairs = {n: named_text(n, one) for n, one in facts.items() if n not in tables}
    return pairs, tables


def _is_table(fact):
    if not isinstance(fact, Mapping) or not fact:
        return False
    columns = list(fact.values())
    return all(isinstance(one, (list, tuple, np.ndarray)) for one in columns)


def _cells(columns):
    """Return header and first rows of a table, and how many more there are."""
    n_rows = len(next(iter(columns.values())))
    first, *others = (list(map(plain, v[:SHOWN])) for v in columns.values())
    titles = [str(name) for name in columns]
    texts = [list(map(short_label, first))]
    places = None
    if ERRORS in titles:  # all numbers of the table have the decimals of these
        places = decimals(others[titles.index(ERRORS) - 1])
    texts += [_column(*one, places) for one in zip(titles[1:], others, strict=True)]
    rows = [list(row) for row in zip(*texts, strict=True)]
    more = f"... and {n_rows - SHOWN:,} more" if n_rows > SHOWN else ""
    return titles, rows, more


def _column(name, values, places):
    """Return the cells of a column; numbers have one format."""
    if {is_number(one) for one in values if one is not None} != {True}:
        return [number_text(value) for value in values]
    if is_share(name):
        return list(map(share, values))
    texts = column(values)
    if places is None or not any("." in text for text in texts):
        return texts
    return [fixed(value, places) for value in values]
