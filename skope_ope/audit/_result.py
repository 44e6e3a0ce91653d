# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""What an audit tells: facts about a log, and findings, the worst first."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skope_ope.audit._texts import audit_html, audit_text
from skope_ope.logs.checks._finding import SEVERITIES
from skope_ope.logs.checks._finding_texts import finding_record, plain_record

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

    import pandas

    from skope_ope.logs.checks._finding import Finding

PLACES = ["columns", "actions", "rows"]
COLUMNS = ["severity", "finding", "number", "effect", *PLACES, "text"]


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
        return pd.DataFrame(self.to_records(), columns=COLUMNS)

    def __repr__(self):
        return audit_text(self)

    def _repr_html_(self):
        return audit_html(self)
