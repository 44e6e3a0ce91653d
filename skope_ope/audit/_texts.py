# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""An audit as text, as HTML and as plain records."""

from collections.abc import Mapping
from math import isfinite
from numbers import Real

import numpy as np

from skope_ope._harmless import harmless
from skope_ope.evaluators.core._diagnostics import number_text
from skope_ope.logs._html import table_html, tag
from skope_ope.logs._markup import joined, pairs, table
from skope_ope.logs._shown_numbers import column, decimals, figure, fixed, share
from skope_ope.logs._text_table import text_table, wrapped
from skope_ope.logs._validation import plain

SHOWN = 12  # rows of a table
SOME = 6  # columns, actions or rows of a finding
LONGEST = 40  # characters of a label
ERRORS = "standard error"  # name of a column
HEADER = ("severity", "finding", "what was found and what to do", "where")


def plain_record(value):
    """Return what JSON takes: no arrays, no numpy scalars, None for NaN."""
    if isinstance(value, Mapping):
        return {str(plain(name)): plain_record(one) for name, one in value.items()}
    if isinstance(value, (list, tuple, np.ndarray)):
        return [plain_record(one) for one in value]
    value = plain(value)
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, Real):
        return float(value) if isfinite(value) else None
    return str(value)


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
    rows = [
        (tag(one.severity, one.is_alarm), one.name, one.text, "; ".join(places(one)))
        for one in audit.findings
    ]
    facts, tables = _parted(audit.facts)
    details = {"What the log holds": pairs(facts)} if facts else {}
    for name, columns in tables.items():
        header, cells, more = _cells(columns)
        details[name] = joined(table(header, cells), more)
    return table_html(headline(audit), HEADER, rows, left=HEADER, details=details)


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


def places(finding):
    """Return how large an effect is and where it shows, as short texts."""
    told = []
    if isfinite(finding.effect):
        told.append(f"effect: {figure(finding.effect, 3)}")
    for name in ("columns", "actions", "rows"):
        values = [_short(plain(one)) for one in getattr(finding, name)]
        if values:
            more = ", ..." if len(values) > SOME else ""
            told.append(f"{name}: {', '.join(values[:SOME])}{more}")
    return told


def _parted(facts):
    """Return facts of one line as texts, and those that are tables."""
    tables = {name: one for name, one in facts.items() if _is_table(one)}
    pairs = {n: _told(n, one) for n, one in facts.items() if n not in tables}
    return pairs, tables


def _short(label):
    text = harmless(label)
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 3]}..."


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
    texts = [list(map(_short, first))]
    places = None
    if ERRORS in titles:  # all numbers of the table have the decimals of these
        places = decimals(others[titles.index(ERRORS) - 1])
    texts += [_column(*one, places) for one in zip(titles[1:], others, strict=True)]
    rows = [list(row) for row in zip(*texts, strict=True)]
    more = f"... and {n_rows - SHOWN:,} more" if n_rows > SHOWN else ""
    return titles, rows, more


def _column(name, values, places):
    """Return the cells of a column; numbers have one format."""
    if {_is_number(one) for one in values if one is not None} != {True}:
        return [number_text(value) for value in values]
    if _is_share(name):
        return list(map(share, values))
    texts = column(values)
    if places is None or not any("." in text for text in texts):
        return texts
    return [fixed(value, places) for value in values]


def _told(name, fact):
    """Return a fact as a short text."""
    return share(fact) if _is_share(name) and _is_number(fact) else number_text(fact)


def _is_share(name):
    return "share" in str(name).split()


def _is_number(value):
    return isinstance(value, Real) and not isinstance(value, bool)
