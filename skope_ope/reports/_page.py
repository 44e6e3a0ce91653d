# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""The whole page, from the question to the command that repeats it."""

from skope_ope.logs._markup import Markup, bullets, element, pairs
from skope_ope.reports import _sections as sections
from skope_ope.reports._method import assumptions, method_notes
from skope_ope.reports._style import STYLE


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
        element("style", Markup(STYLE)),
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
