# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""What a report tells: a recommendation, and all that it rests on."""

from __future__ import annotations

from functools import cached_property
from html import escape
from typing import TYPE_CHECKING

from skope_ope._harmless import harmless
from skope_ope.audit import VerdictThresholds, verdict
from skope_ope.logs._shown_numbers import wrapped
from skope_ope.reports._page import page
from skope_ope.reports._recommendation import RewardUnits, recommendation_of

if TYPE_CHECKING:
    import pathlib
    from collections.abc import Mapping
    from typing import Any, Literal

    from skope_ope.audit._result import Audit
    from skope_ope.evaluators._value_table import ValueTable
    from skope_ope.logs._bandit_logs import BanditLogs
    from skope_ope.logs._slate_logs import SlateLogs
    from skope_ope.selection._policy_comparison import PolicyComparison


TOLD_NOTES = ("group_in_context",)  # an interval may be too narrow without


class Report:
    """One page from a question to a recommendation, made by `report`.

    Parameters
    ----------
    values : ValueTable
        Values by (policy, evaluator).
    comparison : PolicyComparison
        Gains over the baseline, of one of these evaluators.
    audit : Audit
        Of the log.
    audits : dict of Audit
        Of policies by name; one that learns while it acts has none.
    logs : BanditLogs or SlateLogs
        The rounds.
    evaluator : str
        The evaluator of the comparison.
    title : str
        The head of the page.
    command : str
        What repeats it.
    provenance : tuple of dict
        What tells the log from others, and versions.
    thresholds : VerdictThresholds, default=None
        From where on numbers are alarms; `None`: the default ones.
    path : Path, default=None
        Where the page was written.

    Attributes
    ----------
    decision : {"deploy", "keep", "undecided"}
        What the page recommends. It is that of `comparison`, unless an error that an
        audit has found takes the ground from under it: then "undecided".
    choice : str or None
        The policy to deploy.
    headline : str
        The recommendation in a few words.
    sentence : str
        The recommendation with its reasons, for those who decide.
    alarms : tuple of Alarm
        What to look at before anybody acts, each with `name`,
        `severity`, `who`, `text` and `advice`.
    verdicts : dict of Verdict
        Whether the gains can be acted on, by policy, with what the audits have found.
    policies : list of str
        Names of the policies.
    level : float
        Coverage of the intervals.

    Examples
    --------
    >>> from skope_ope import report
    >>> from skope_ope.datasets import make_bandit_logs
    >>> logs, policy, truth = make_bandit_logs(random_state=0, return_truth=True)
    >>> found = report({"new": policy}, logs)
    >>> found.decision, found.choice
    ('deploy', 'new')
    >>> found.to_html().startswith("<!DOCTYPE html>")
    True
    """

    def __init__(
        self,
        values: ValueTable,
        comparison: PolicyComparison,
        audit: Audit,
        audits: Mapping[Any, Audit],
        *,
        logs: BanditLogs | SlateLogs,
        evaluator: str,
        title: str,
        command: str,
        provenance: tuple[dict[str, Any], ...],
        thresholds: VerdictThresholds | None = None,
        path: pathlib.Path | None = None,
    ) -> None:
        self.values, self.comparison = values, comparison
        self.audit, self.audits = audit, dict(audits)
        self.evaluator, self.title, self.command = evaluator, title, command
        self.path, self.level = path, comparison.level
        self._logs = logs
        self._thresholds = VerdictThresholds() if thresholds is None else thresholds
        self._fingerprint, self._versions = provenance

    @property
    def policies(self) -> list[str]:
        """Names of the policies."""
        return list(dict.fromkeys(name for name, _ in self.values))

    @cached_property
    def _units(self):
        gains = self.comparison.differences.values()
        return RewardUnits.of(self.values.values(), gains, self._logs._says_yes_and_no)

    @cached_property
    def _recommendation(self):
        return recommendation_of(
            self.comparison,
            self.verdicts,
            self.audit,
            self.audits,
            self._units,
            self._thresholds.accepted,
        )

    @cached_property
    def verdicts(self) -> dict[str, Any]:
        """What speaks against acting on the gains, by policy."""
        return {
            name: verdict(
                gain, audit=self.audits.get(name), thresholds=self._thresholds
            )
            for name, gain in self.comparison.differences.items()
        }

    @property
    def decision(self) -> Literal["deploy", "keep", "undecided"]:
        """What the page recommends."""
        return self._recommendation.decision

    @property
    def choice(self) -> str | None:
        """The policy to deploy."""
        return self._recommendation.choice

    @property
    def headline(self) -> str:
        """The recommendation in a few words."""
        return self._recommendation.headline

    @property
    def alarms(self) -> tuple[Any, ...]:
        """What to look at before anybody acts."""
        return self._recommendation.alarms

    @property
    def sentence(self) -> str:
        """The recommendation with its reasons."""
        told = self._recommendation
        return " ".join([f"{told.headline}.", *told.sentences])

    def to_html(self) -> str:
        """Return the page.

        Returns
        -------
        page : str
            One HTML page with all that it needs: no script, and nothing is loaded.
        """
        return page(self)

    def __repr__(self):
        lines = wrapped(self.sentence)
        for one in self.alarms:
            who = f" ({', '.join(one.who)})" if one.who else ""
            lines += wrapped(f"{one.text}{who}", f"[{one.severity}] ")
            lines += wrapped(one.first_step, " " * len(f"[{one.severity}] "))
        for one in self.audit.findings:
            if one.name in TOLD_NOTES and one.severity == "note":
                lines += wrapped(one.text, "[note] ")
        if self.path is not None:
            lines.append(f"Page: {harmless(self.path)}")
        return "\n".join(lines)

    def _repr_html_(self):
        # a frame keeps the style of the page from that of the notebook
        style = "width:100%;height:40rem;border:1px solid #888888"
        inner = escape(self.to_html())
        return f'<iframe sandbox srcdoc="{inner}" style="{style}"></iframe>'
