# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""The page of a report: its parts, each from what it shows, and how it looks."""

import re
from math import isfinite, isnan, nan

from skope_ope.evaluators._rules import told_row
from skope_ope.exceptions import LearnedRoundsWarning
from skope_ope.logs._html import (
    DARK,
    LIGHT,
    Markup,
    Scale,
    axis,
    bullets,
    element,
    interval_bar,
    joined,
    pairs,
    share_bar,
    table,
)
from skope_ope.logs._shown_numbers import (
    LEFT,
    as_table,
    bias_notes,
    figure,
    fixed,
    level_text,
    marks_of,
    numbered_warnings,
    share,
    sizes_of,
    value_columns,
    value_record,
)
from skope_ope.selection._gain_answers import NO_PLAN, rough
from skope_ope.selection._outcome import THE_SYSTEM, percent
from skope_ope.selection._policy_comparison import kind_of_mark

MOST_ALARMS = 6  # beside the recommendation; all of them stand below
THE_LOGGER_IS = f"The logger is {THE_SYSTEM}."  # findings use the term


def advice(recommendation):
    """Return the recommendation with the alarms in the same box."""
    alarms, shown = recommendation.alarms, recommendation.alarms[:MOST_ALARMS]
    parts = [element("h2", recommendation.headline)]
    if recommendation.has_faults:  # before anything reads as an answer
        parts += [_alarm_list(shown, len(alarms)), *_paragraphs(recommendation)]
    else:
        parts += _paragraphs(recommendation)
        parts += [_alarm_list(shown, len(alarms))] if alarms else []
    kind = f"advice {recommendation.decision}"
    kind += " cautious" if alarms else ""
    return element("section", *parts, class_=kind, id="advice")


def _paragraphs(recommendation):
    return [element("p", sentence) for sentence in recommendation.sentences]


def _alarm_list(alarms, n_all):
    items = []
    for one in alarms:
        tag = element("span", one.severity, class_=f"tag {one.severity}")
        step = element("div", one.first_step, class_="step") if one.advice else ""
        items.append(joined(tag, f" {one.sentence}", step))
    told = [element("h3", "Before you act on this"), bullets(items)]
    if any("logger" in f"{one.sentence} {one.first_step}" for one in alarms):
        told.append(element("p", THE_LOGGER_IS, class_="quiet"))
    more = f"{n_all - len(alarms)} more alarms. " if n_all > len(alarms) else ""
    link = element("a", "What to do about them", href="#audit")
    told.append(element("p", more, link, class_="quiet"))
    return element("div", *told, class_="alarms")


def doubt_of(recommendation):
    """Return what stands above numbers that are wrong."""
    if not recommendation.has_faults:
        return ""
    return element(
        "p", "Do not trust this until the errors are corrected.", class_="wrong"
    )


def gains(comparison):
    """Return the gains as bars against zero, with their numbers."""
    outcome, level = comparison._outcome, comparison.level_of_each
    records = [one for one in comparison.to_records() if one["answer"]]
    ends = [one[f"difference{end}"] for one in records for end in ("", "_low", "_high")]
    factor = 100 if outcome.is_share else 1
    scale = Scale(factor * x for x in ends)
    rows, shares = [], []
    for one in records:
        gain, low, high = (one[f"difference{end}"] for end in ("", "_low", "_high"))
        told = f"{outcome.limit(gain, '+')}{' points' * outcome.is_share}"
        limits = f"{outcome.limit(low, '+')} to {outcome.limit(high, '+')}"
        answer = "deploy" if one["chosen"] else one["answer"]
        n = one["rounds_needed"]
        if n <= NO_PLAN * comparison.n_rounds:  # not where it is NaN
            answer += f"; {rough(n)} rounds in all would decide"
        name, kind = str(one["policy"]), kind_of_mark(one)
        bar = interval_bar(
            scale,
            *(factor * x for x in (gain, low, high)),
            f"{name}: {outcome.gain_word} {told}, {limits}",
            kind,
        )
        share = outcome.relative(comparison.lifts[one["policy"]], level)
        shares.append(share)
        more = [] if share is None else [percent(share[0]) + share[1]]
        lines = _cell_lines(told, limits, *more)
        rows.append(_row(_cell_lines(name, answer), bar, lines))
    ticks = axis(scale, lambda x: figure(x, sign="+"))
    rows.append(_row("", ticks, ""))
    what, together = outcome.gain_word, ", all together" * (len(records) > 1)
    below = (
        f"{what.capitalize()} compared with {comparison._against}, in {outcome.unit}; "
        f"the bars are {level_text(comparison.level)} intervals{together}. The dashed "
        f"line is no {what}. An empty mark: cannot tell."
    )
    if None in shares:
        below += f" No relative {what} is shown where the base is near or below 0."
    return element("figure", *rows, element("figcaption", below))


def _row(name, picture, figures):
    return element(
        "div",
        element("div", name, class_="name"),
        element("div", picture, class_="picture"),
        element("div", figures, class_="figures"),
        class_="row",
    )


def _cell_lines(first, *others):
    lines = [element("span", one, class_="quiet") for one in others]
    return joined(element("span", first), *lines)


def values(found, comparison, evaluator):
    """Return the values that decide, below that of the baseline; others are folded."""
    records, known = found.to_records(comparison.level), comparison.reference
    some = [*zip(records, found.items(), strict=True)]
    deciding = [one for one in some if one[0]["evaluator"] == evaluator]
    others = [one for one in some if one[0]["evaluator"] != evaluator]
    first = {"policy": comparison._against, "evaluator": known.estimator}
    first |= value_record(known, comparison.level)
    notes = ["Costs are negative rewards."] * comparison._outcome.is_cost
    if len(comparison.differences) > 1:
        notes.append(
            f"Each interval holds by itself at {level_text(comparison.level)}."
        )
    is_policy = comparison.baseline in comparison
    parts = [_value_rows(deciding, comparison, notes, [] if is_policy else [first])]
    if others:
        names = ", ".join(dict.fromkeys(str(one["evaluator"]) for one, _ in others))
        told = element("summary", f"Other evaluators: {names}")
        parts.append(element("details", told, _value_rows(others, comparison)))
    return joined(*parts)


def _value_rows(some, comparison, notes=(), first=()):
    """Return a table of values, with the notes on its rows."""
    records = [record for record, _ in some]
    rows, outcome = [*first, *records], comparison._outcome
    recommended = [key for record, (key, _) in some if record["recommended"]]
    numbers, warned = numbered_warnings(dict(one for _, one in some), recommended)
    marks = ["baseline"] * len(first) + marks_of(records)
    names = "policy", "evaluator"
    columns = {name: [one[name] for one in rows] for name in names}
    columns |= value_columns(rows, comparison.level, outcome.value, outcome.error)
    columns["eff. rounds"], columns["note"] = sizes_of(rows), marks
    columns["warnings"] = [""] * len(first) + numbers
    marked = [i for i, mark in enumerate(marks) if mark.startswith("recommended")]
    shown = table(*as_table(columns), marked=marked, left=(*names, *LEFT))
    notes = [*notes, *bias_notes(records), *warned]
    return joined(shown, *(element("p", note, class_="quiet") for note in notes))


def overlap(found):
    """Return how many effective rounds each policy has, from one value of each."""
    header = ["policy", "effective rounds", "of all", "share", "largest weight"]
    header += ["of all weights", "never logged"]
    rows = []
    for name, value in found.items():
        known, n = value.diagnostics, value.n_rounds
        size, weight = value.effective_sample_size, known.get("max_weight", nan)
        rows.append(
            [
                name,
                fixed(size, 0),
                share(size / n),
                "" if isnan(size) else share_bar(size / n),
                fixed(weight if isfinite(weight) else nan, 1),
                share(known.get("max_weight_share")),
                share(known.get("unsupported_mass", known.get("outside_range_share"))),
            ]
        )
    note = (
        "Effective rounds: the number of equally weighted rounds with the same "
        "information. Never logged: the share of the policy's decisions for which "
        "the log has no evidence."
    )
    return joined(table(header, rows), element("p", note, class_="quiet"))


def findings(audit, audits, verdicts):
    """Return what was found of the log and of policies, with what to do."""
    parts = [_findings_of("The log", audit.findings)]
    known = {(one.name, one.found) for one in audit.findings}
    for name in dict.fromkeys([*verdicts, *audits]):
        own, title = [], str(name)
        if name in verdicts:
            title += f" ({verdicts[name].answer})"
            own += verdicts[name].reasons
        own += audits[name].findings if name in audits else ()
        distinct = {(one.name, one.found): one for one in own}
        own = [one for key, one in distinct.items() if key not in known]
        parts.append(_findings_of(title, own))
        if name not in audits:
            told = f"{name} learns while it acts: its weights cannot be checked."
            parts.append(element("p", told))
    return joined(*parts, element("p", THE_LOGGER_IS, class_="quiet"))


def _findings_of(who, found):
    n_alarms = sum(one.is_alarm for one in found)
    told = f"{n_alarms} alarm{'s' if n_alarms != 1 else ''}" if n_alarms else "no alarm"
    notes = len(found) - n_alarms
    told += f", {notes} note{'s' if notes != 1 else ''}" if notes else ""
    items = []
    for one in found:
        tag = element("span", one.severity, class_=f"tag {one.severity}")
        items.append(joined(tag, " ", element("b", one.name), f": {one.text}"))
    inner = bullets(items) if items else element("p", "No check found anything.")
    opened = "open" if n_alarms else None
    return element("details", element("summary", f"{who}: {told}"), inner, open=opened)


def section(title, *content, **attributes):
    """Return a part of the page under its title."""
    return element("section", element("h2", title), *content, **attributes)


def code(text):
    """Return a command, or lines of code."""
    lines = Markup("\n".join(map(joined, text.split("\n"))))
    return element("pre", Markup(element("code", lines)))


# -- the whole page, from the question to the command that repeats it ------------------


def page(report):
    """Return the page of a report as one HTML text without script or address."""
    comparison, logs = report.comparison, report._logs
    table, evaluator = report.values, report.evaluator
    shown = {name: table[name, evaluator] for name in report.policies}
    doubt = doubt_of(report._recommendation)
    body = element(
        "main",
        element("h1", report.title),
        element("p", question(report)),
        advice(report._recommendation),
        section("Gains", doubt, gains(comparison)),
        section("Values", doubt, values(table, comparison, evaluator)),
        section("What the log knows of each policy", overlap(shown)),
        section(
            "Audit",
            findings(report.audit, report.audits, report.verdicts),
            id="audit",
        ),
        section("What was assumed", bullets(assumptions(logs, table, report.verdicts))),
        section(
            "How it was computed",
            bullets(method_notes(logs, table, comparison, evaluator)),
        ),
        section(
            "To repeat it",
            code(report.command),
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
    more = report.comparison._outcome.better
    return (
        f"Would {what} have had {more} than {against}? The answer comes from {n:,} "
        "logged rounds alone, without a new experiment. A round is one decision and "
        "its reward."
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
    r"\bw\b": "w is the policy's probability of what was logged over that in the log",
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
th,td{padding:.3rem .25rem;border-bottom:1px solid var(--line);vertical-align:top}
th{font-weight:600;overflow-wrap:normal}.word{text-align:left}
td.word{overflow-wrap:break-word}tbody th{overflow-wrap:anywhere;min-width:6rem}
.wide{overflow-x:auto}.facts th,.facts td{text-align:left;overflow-wrap:anywhere}
.facts th{width:15rem}
.number{text-align:right;font-variant-numeric:tabular-nums}td.number{white-space:nowrap}
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
