# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""What an audit tells: facts about a log, and findings, the worst first."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from skope_ope.evaluators.core._diagnostics import (
    is_number,
    is_share,
    named_text,
    number_text,
)
from skope_ope.logs._html import card, joined, pairs, table
from skope_ope.logs._shown_numbers import (
    aligned,
    decimals,
    fixed,
    share,
    text_table,
    wrapped,
)
from skope_ope.logs._validation import plain
from skope_ope.logs.checks._finding import (
    SEVERITIES,
    finding_html,
    finding_record,
    places,
    plain_record,
    short_label,
)
from skope_ope.logs.checks._leaks import IGNORED

if TYPE_CHECKING:
    import pandas

    from skope_ope.logs.checks._finding import Finding

PLACE_COLUMNS = ["columns", "actions", "rows"]
FINDING_COLUMNS = ["severity", "finding", "number", "effect", *PLACE_COLUMNS, "text"]


class Audit:
    """What a log holds, and what was found in it.

    Parameters
    ----------
    facts : dict
        Numbers, texts, arrays and dicts of them by name, in the order of the output. A
        dict of lists of equal length is shown as a table.
    findings : iterable of Finding
        What the checks found, in the order of the checks.
    about_policy : bool, default=False
        Whether the audit included a policy.

    Attributes
    ----------
    facts : dict
        What the log holds.
    findings : tuple of Finding
        Errors, then warnings, then notes. Each has `name`, `severity`, `found` (a
        sentence), `advice` (sentences, the most likely cause first) and `number` (what
        triggered it). `effect` says how large it is, as a share. `rows`, `columns` and
        `actions` say where it shows, and `text` joins all.
    about_policy : bool
        Whether a policy was looked at, too.

    Examples
    --------
    >>> from skope_ope import audit
    >>> from skope_ope.datasets import make_bandit_logs
    >>> found = audit(make_bandit_logs(random_state=0))
    >>> found.ok, found.alarms
    (True, ())
    """

    def __init__(
        self,
        facts: Mapping[Any, Any],
        findings: Iterable[Finding],
        about_policy: bool = False,
    ) -> None:
        self.facts, self.about_policy = dict(facts), about_policy
        self.findings = tuple(
            sorted(findings, key=lambda one: SEVERITIES.index(one.severity))
        )

    @property
    def alarms(self) -> tuple[Any, ...]:
        """The errors and warnings among the findings."""
        return tuple(one for one in self.findings if one.is_alarm)

    @property
    def ok(self) -> bool:
        """Whether nothing was found that somebody should act on."""
        return not self.alarms

    def to_records(self) -> list[dict[str, Any]]:
        """Return the findings as a list of dicts of plain numbers and words.

        Returns
        -------
        records : list of dict
            Keys: severity, finding (its name), number, effect (None where there is
            none), columns, actions, rows (lists), text.
        """
        return list(map(finding_record, self.findings))

    def to_dict(self) -> dict[Any, Any]:
        """Return all of it as plain numbers, texts, lists and dicts, as JSON takes.

        Returns
        -------
        record : dict
            Keys: ok, findings (as `to_records`), facts. What is not a number is None.
        """
        facts = plain_record(self.facts)
        return {"ok": self.ok, "findings": self.to_records(), "facts": facts}

    def to_frame(self) -> pandas.DataFrame:
        """Return the findings as a pandas frame, one row each.

        Returns
        -------
        frame : pandas.DataFrame
            The columns of `to_records`.
        """
        try:
            import pandas as pd
        except ImportError as error:
            raise ImportError(
                "to_frame needs pandas: pip install 'skope-ope[frames]'; to_records "
                "gives the same rows without."
            ) from error
        return pd.DataFrame(self.to_records(), columns=FINDING_COLUMNS)

    def __repr__(self):
        return audit_text(self)

    def _repr_html_(self):
        return audit_html(self)


# -- an audit as text, as HTML and as plain records ------------------------------------

MOST_LINES = 12  # rows of a table
ERROR_COLUMN = "standard error"  # name of a column


def audit_text(audit):
    """Return the lines of an audit as one text, findings first."""
    lines = wrapped(audit_headline(audit))
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
        header, rows, more = _table_cells(columns)
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
        header, cells, more = _table_cells(columns)
        details[name] = joined(table(header, cells), more)
    return card(audit_headline(audit), *found, details=details)


def audit_headline(audit):
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
    tables = {name: one for name, one in facts.items() if _is_table_of_lists(one)}
    pairs = {n: named_text(n, one) for n, one in facts.items() if n not in tables}
    return pairs, tables


def _is_table_of_lists(fact):
    if not isinstance(fact, Mapping) or not fact:
        return False
    columns = list(fact.values())
    return all(isinstance(one, (list, tuple, np.ndarray)) for one in columns)


def _table_cells(columns):
    """Return header and first rows of a table, and how many more there are."""
    n_rows = len(next(iter(columns.values())))
    first, *others = (list(map(plain, v[:MOST_LINES])) for v in columns.values())
    titles = [str(name) for name in columns]
    texts = [list(map(short_label, first))]
    places = None
    if ERROR_COLUMN in titles:  # all numbers of the table have the decimals of these
        places = decimals(others[titles.index(ERROR_COLUMN) - 1])
    texts += [_cell_texts(*one, places) for one in zip(titles[1:], others, strict=True)]
    rows = [list(row) for row in zip(*texts, strict=True)]
    more = f"... and {n_rows - MOST_LINES:,} more" if n_rows > MOST_LINES else ""
    return titles, rows, more


def _cell_texts(name, values, places):
    """Return the cells of a column; numbers have one format."""
    if {is_number(one) for one in values if one is not None} != {True}:
        return [number_text(value) for value in values]
    if is_share(name):
        return list(map(share, values))
    texts = aligned(values)
    if places is None or not any("." in text for text in texts):
        return texts
    return [fixed(value, places) for value in values]


# -- findings that another finding explains --------------------------------------------

LEAKS = ("action_leak", IGNORED)
TOLD_TWICE = ("impossible_propensity", *LEAKS)


def explained(findings):
    """Return findings without the echoes of a column that leaks."""
    # A column that holds the reward tells the action, too, as far as rewards depend on
    # it; and a model of the logger that is fitted to a column which leaks beats right
    # propensities. The first says nothing more; the second names the column first. A
    # propensity that cannot be is told by the log, and once more by the policy's
    # weights; a column that tells the action by a quick look, and once more by a longer
    # one.
    rewards = _columns_found_by("reward_leak", findings)
    leaks = rewards | _columns_found_by("action_leak", findings)
    kept = []
    for one in findings:
        if one.name in LEAKS and set(one.columns) <= rewards:
            continue
        if one.name in TOLD_TWICE and any(other.name == one.name for other in kept):
            continue
        if one.name == "propensity_misfit" and leaks:
            named = ", ".join(repr(column) for column in sorted(leaks, key=str))
            first = (
                "The context has a column that was written after the decision (column "
                f"{named}, see the finding reward_leak). Leave it out and audit again."
            )
            if not rewards:
                first = (
                    f"One column tells the action better than the propensities (column "
                    f"{named}): see the finding action_leak first."
                )
            one = replace(one, advice=(first, *one.advice))
        kept.append(one)
    return kept


def _columns_found_by(name, findings):
    return {
        column
        for one in findings
        if one.name == name and one.severity == "error"
        for column in one.columns
    }
