# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""What a report tells: a recommendation, and all that it rests on."""

from __future__ import annotations

import pathlib
import re
from collections.abc import Mapping
from functools import cached_property
from html import escape
from typing import Any, Literal

from skope_ope._harmless import harmless
from skope_ope.audit import VerdictThresholds, verdict
from skope_ope.audit._result import Audit
from skope_ope.evaluators._names import told_row
from skope_ope.evaluators._value_table import ValueTable
from skope_ope.exceptions import LearnedRoundsWarning
from skope_ope.logs import BanditLogs, SlateLogs
from skope_ope.logs._html import DARK, LIGHT, Markup, bullets, element, pairs
from skope_ope.logs._shown_numbers import level_text, wrapped
from skope_ope.reports import _sections as sections
from skope_ope.reports._recommendation import RewardUnits, recommendation_of
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


# -- the whole page, from the question to the command that repeats it ------------------


def page(report):
    """Return the page of a report as one HTML text without script or address."""
    comparison, units, logs = report.comparison, report._units, report._logs
    table, evaluator = report.values, report.evaluator
    shown = {name: table[name, evaluator] for name in report.policies}
    doubt = sections.doubt(report._recommendation)
    body = element(
        "main",
        element("h1", report.title),
        element("p", question(report)),
        sections.advice(report._recommendation),
        sections.section("Gains", doubt, sections.gains(comparison, units)),
        sections.section(
            "Values", doubt, sections.values(table, comparison, units, report.level)
        ),
        sections.section("What the log knows of each policy", sections.overlap(shown)),
        sections.section(
            "Audit",
            sections.findings(report.audit, report.audits, report.verdicts),
            id="audit",
        ),
        sections.section(
            "What was assumed", bullets(assumptions(logs, table, report.verdicts))
        ),
        sections.section(
            "How it was computed",
            bullets(method_notes(logs, table, comparison, evaluator)),
        ),
        sections.section(
            "To repeat it",
            sections.code(report.command),
            element("h3", "What went in"),
            pairs(report._fingerprint),
            element("h3", "Versions"),
            pairs(report._versions),
        ),
    )
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", name="viewport", content="width=device-width,initial-scale=1"),
        element("title", report.title),
        element("style", Markup(PAGE_STYLE)),
    )
    return (
        f"<!DOCTYPE html>\n{element('html', head, element('body', body), lang='en')}\n"
    )


def question(report):
    """Return the question in words."""
    against, n = report.comparison._against, report.comparison.n_rounds
    names = [name for name in report.policies if name != report.comparison.baseline]
    what = f"{names[0]}" if len(names) == 1 else f"one of {len(names)} policies"
    told = f"Would {what} have earned more than {against}"
    if report.comparison.baseline not in report.policies:
        told += ", the system that made the logged decisions"
    return (
        f"{told}? The answer comes from {n:,} logged rounds alone, without a new "
        "experiment. A round is one decision and its reward."
    )


# -- how the numbers were found, and what they assume, in a few words ------------------

FORMULAS = {
    "IPS": "mean of w r",
    "SNIPS": "sum of w r, divided by the sum of w",
    "DirectMethod": "mean of q(policy)",
    "DoublyRobust": "mean of q(policy) + w (r - q(a))",
    "SNDR": "mean of q(policy), plus the sum of w (r - q(a)) divided by that of w",
    "SwitchDR": "doubly robust where w is at most tau, the model alone elsewhere",
    "DRos": "mean of q(policy) + v (r - q(a)), with v = lam w / (w^2 + lam)",
    "BalancedIPS": "mean of w r, with w over the mixture of all loggers",
    "BalancedDR": "mean of q(policy) + w (r - q(a)), with w over the mixture of all "
    "loggers",
    "SlateIPS": "mean of w r, with w of whole slates",
    "wIPS": "sum of w r, divided by the sum of w, with w of whole slates",
    "PseudoInverse": "mean of w r, with w a sum over slots",
    "wPI": "sum of w r, divided by the sum of w, with w a sum over slots",
    "ControlledPI": "mean of w r, with w a sum over slots, minus a correction by the "
    "known means of its parts",
    "SlateDirectMethod": "mean of q(policy)",
}
SYMBOLS = {  # by how formulas name them
    r"\bw\b": "w is the policy's probability of what was logged over the logger's",
    r"\br\b": "r the reward",
    r"\(a\)": "a the logged action",
    r"\bq\b": "q a reward model that has not seen the rounds that it predicts",
}
METHOD_TEXTS = {
    "gamma": "the paired gamma interval, which uses the known range of the rewards and "
    "holds for few events",
    "student": "Student's interval",
    "normal": "the normal interval",
}


def assumptions(logs, table, verdicts):
    """Return what no log can show, and what was taken as it was given."""
    told = [text for one in verdicts.values() for text in one.unchecked]
    if logs.group is None:
        told.append(
            "Rounds are independent. If the same users, sessions or queries come "
            "back, give their column as group."
        )
    learned = [
        value
        for value in table.values()
        if any(isinstance(one, LearnedRoundsWarning) for one in value.warnings)
    ]
    if not learned:
        told.append("No policy has learned from these rounds. The check found none.")
    told.append("The reward is what you are paid for, and all of it has arrived.")
    return list(dict.fromkeys(told))


def method_notes(logs, table, comparison, evaluator):
    """Return how values, intervals and gains were found."""
    chosen = f"The gains are those of {told_row(evaluator)}"
    if table.recommended == evaluator:
        chosen += f", by a rule that never looks at the values: {table.reason}."
    else:
        chosen += f". No evaluator of this table is recommended: {table.reason}."
    formula = FORMULAS.get(evaluator)
    told = [chosen]
    if formula:
        symbols = [text for one, text in SYMBOLS.items() if re.search(one, formula)]
        told.append(f"{evaluator}: {formula}; {', '.join(symbols)}.")
    m, percent = len(comparison.differences), level_text(comparison.level)
    methods = {
        gain._interval(comparison.level_of_each).method: True
        for gain in comparison.differences.values()
    }
    named = " and ".join(METHOD_TEXTS.get(one, one) for one in methods)
    told.append(
        "A gain is the paired difference, round by round, between the policy and "
        f"{comparison._against}. Its interval is {named}."
    )
    if m > 1:
        each = level_text(comparison.level_of_each, 5)
        told.append(
            f"The {m} intervals of gains hold together at {percent} (Bonferroni), each "
            f"at {each}. Those of values hold one by one at {percent}."
        )
    else:
        told.append(f"All intervals hold one by one at {percent}.")
    told.append(
        "They hold for one look at the log. If you look again and again until you "
        "like the answer, it is wrong more often."
    )
    if logs.group is not None:
        told.append(
            f"Standard errors count the {logs.n_groups:,} groups, not the rounds, as "
            "independent."
        )
    if comparison.n_rounds < len(logs):
        told.append(
            f"Gains are about the {comparison.n_rounds:,} of {len(logs):,} rounds for "
            "which all values are known."
        )
    return told


# -- how the page looks: colours of the project, light and dark, wide and narrow -------

_COLOURS = f""":root{{{LIGHT};color-scheme:light dark}}
@media(prefers-color-scheme:dark){{:root{{{DARK}}}}}
"""
_RULES = """
*{box-sizing:border-box}
body{margin:0;background:var(--ground);color:var(--text);
font:16px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,"Helvetica Neue",sans-serif;
overflow-wrap:anywhere}
main{max-width:64rem;margin:0 auto;padding:1.5rem 1rem 3rem}
h1{font-size:1.6rem;line-height:1.25;margin:0 0 .5rem}
h2{font-size:1.15rem;margin:2.2rem 0 .5rem}
h3{font-size:1rem;margin:1.2rem 0 .3rem}
p{margin:.4rem 0}ul{margin:.4rem 0;padding-left:1.3rem}li{margin:.25rem 0}
a{color:var(--policy)}
.quiet,figcaption{color:var(--quiet);font-size:.9rem}
.advice{background:var(--panel);border:1px solid var(--line);border-left:6px solid;
border-radius:6px;padding:1rem 1.2rem;margin:1.2rem 0}
.deploy{border-left-color:var(--policy)}.keep{border-left-color:var(--base)}
.undecided,.cautious{border-left-color:var(--doubt)}
.advice h2{font-size:1.45rem;line-height:1.25;margin:0 0 .5rem}
.advice h3{font-size:1rem;margin:.9rem 0 .2rem}
.alarms{border-top:1px solid var(--line);margin-top:.9rem}
.alarms .step{margin:.15rem 0 .35rem;color:var(--quiet)}
.tag{display:inline-block;border:1px solid var(--doubt);border-radius:4px;
padding:0 .4em;font-size:.85rem;font-weight:600;margin-right:.3em}
.tag.error{border-width:2px}
.tag.note{border-color:var(--line)}
figure{margin:.6rem 0}
.row{display:grid;grid-template-columns:minmax(6rem,12rem) 1fr 13rem;gap:.2rem .8rem;
align-items:center;border-top:1px solid var(--line)}
.row .name,.row .figures{padding:.35rem 0}
.row .picture{position:relative;align-self:stretch;min-height:1.6rem}
.row .name span{display:block}
.row .figures{text-align:right;font-variant-numeric:tabular-nums}
.row .figures span{display:block}
svg{display:block;width:100%;overflow:visible}
.bar{position:absolute;inset:0;height:100%;stroke:var(--policy);stroke-width:2.2;color:var(--policy)}
.bar circle,.bar path{fill:var(--policy)}
.bar.open circle{fill:var(--ground)}
.bar.open{stroke:var(--doubt);color:var(--doubt)}
.bar .zero{stroke:var(--base);stroke-width:1;stroke-dasharray:4 3}
.axis line{stroke:var(--base)}
.axis text{fill:var(--quiet);font-size:12px;font-variant-numeric:tabular-nums}
.share .whole{fill:var(--line)}.share .part{fill:var(--policy)}
section>p.wrong{border-left:4px solid var(--doubt);padding-left:.6rem}
table{border-collapse:collapse;width:100%;font-size:.88rem;margin:.6rem 0}
caption{text-align:left;color:var(--quiet);padding-bottom:.3rem}
th,td{padding:.3rem .4rem;border-bottom:1px solid var(--line);vertical-align:top}
th{font-weight:600;overflow-wrap:normal}.word{text-align:left}
td.word{overflow-wrap:break-word}tbody th{overflow-wrap:anywhere;min-width:6rem}
.wide{overflow-x:auto}.facts th,.facts td{text-align:left;overflow-wrap:anywhere}
.facts th{width:15rem}
.number{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}
tbody th{font-weight:400}.marked{background:var(--panel)}
.marked .number{font-weight:600}
details{border:1px solid var(--line);border-radius:6px;
padding:.5rem .8rem;margin:.5rem 0}
summary{cursor:pointer}
pre{background:var(--panel);border:1px solid var(--line);border-radius:6px;
padding:.7rem;white-space:pre-wrap;overflow-wrap:anywhere;font-size:.85rem}
@media(max-width:40rem){
.row{grid-template-columns:1fr auto}.row .name{order:1}.row .figures{order:2}
.row .picture{order:3;grid-column:1/-1;height:1.6rem}
thead{display:none}.facts th{width:auto}table,tbody,tr,th,td{display:block}
tr{border-bottom:1px solid var(--line);padding:.4rem 0}
th,td{border:0;padding:.1rem 0}tbody th{font-weight:600}
td[data-label]::before{content:attr(data-label) ": ";color:var(--quiet);font-weight:400}
td.number{text-align:left;white-space:normal}td:empty{display:none}
}
@media print{details>*{display:block}body{font-size:12px}}
"""
PAGE_STYLE = _COLOURS + _RULES
