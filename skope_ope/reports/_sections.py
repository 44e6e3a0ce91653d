# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""The parts of the page, each from what it shows."""

from math import isfinite, isnan

from skope_ope.logs._html import (
    Markup,
    Scale,
    axis,
    bullets,
    element,
    interval_bar,
    joined,
    share_bar,
    table,
)
from skope_ope.logs._shown_numbers import (
    bias_notes,
    counts,
    figure,
    fixed,
    level_text,
    marks_of,
    share,
)
from skope_ope.reports._recommendation import RewardUnits
from skope_ope.selection._gain_answers import NO_PLAN, rough
from skope_ope.selection._policy_comparison import kind_of_mark

MOST_ALARMS = 6  # beside the recommendation; all of them stand below


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
        who = f" ({', '.join(one.who)})" if one.who else ""
        tag = element("span", one.severity, class_=f"tag {one.severity}")
        step = element("div", one.first_step, class_="step") if one.advice else ""
        items.append(joined(tag, f" {one.text}{who}", step))
    told = [element("h3", "Before you act on this"), bullets(items)]
    more = f"{n_all - len(alarms)} more alarms. " if n_all > len(alarms) else ""
    link = element("a", "What to do about them", href="#audit")
    told.append(element("p", more, link, class_="quiet"))
    return element("div", *told, class_="alarms")


def doubt(recommendation):
    """Return what stands above numbers that are wrong."""
    if not recommendation.has_faults:
        return ""
    return element(
        "p", "Do not trust this until the errors are corrected.", class_="wrong"
    )


def gains(comparison, units):
    """Return the gains as bars against zero, with their numbers."""
    records = [one for one in comparison.to_records() if one["answer"]]
    ends = [one[f"difference{end}"] for one in records for end in ("", "_low", "_high")]
    scale = Scale(100 * x if units.percent else x for x in ends)
    factor = 100 if units.percent else 1
    rows = []
    for one in records:
        gain, low, high = (one[f"difference{end}"] for end in ("", "_low", "_high"))
        told = f"{units.gain(gain)}{' points' if units.percent else ''}"
        limits = f"{units.gain(low)} to {units.gain(high)}"
        answer = "deploy" if one["chosen"] else one["answer"]
        n = one["rounds_needed"]
        if n <= NO_PLAN * comparison.n_rounds:  # not where it is NaN
            answer += f"; {rough(n)} rounds in all would decide"
        name, kind = str(one["policy"]), kind_of_mark(one)
        bar = interval_bar(
            scale,
            *(factor * x for x in (gain, low, high)),
            f"{name}: gain {told}, {limits}",
            kind,
        )
        lines = _cell_lines(told, limits, *_lift_texts(one))
        rows.append(_row(_cell_lines(name, answer), bar, lines))
    ticks = axis(scale, lambda x: figure(x, sign="+"))
    rows.append(_row("", ticks, ""))
    percent = level_text(comparison.level)
    below = (
        f"Gain over {comparison._against}, in {units.of_gain}; the bars are {percent} "
        f"intervals{', all together' if len(records) > 1 else ''}. The dashed line is "
        "no gain. An empty mark: cannot tell. Relative gains are in percent."
    )
    return element("figure", *rows, element("figcaption", below))


def _row(name, picture, figures):
    return element(
        "div",
        element("div", name, class_="name"),
        element("div", picture, class_="picture"),
        element("div", figures, class_="figures"),
        class_="row",
    )


def _lift_texts(record):
    """Return the relative gain with its limits, where there is one."""
    lift, low, high = (record[f"lift{end}"] for end in ("", "_low", "_high"))
    if isnan(lift):
        return []
    limits = f" ({RewardUnits.share(low)} to {RewardUnits.share(high)})"
    return [RewardUnits.share(lift) + ("" if isnan(low) or isnan(high) else limits)]


def _cell_lines(first, *others):
    lines = [element("span", one, class_="quiet") for one in others]
    return joined(element("span", first), *lines)


def values(found, comparison, units, level):
    """Return the table of values by policy and evaluator, the baseline first."""
    records = found.to_records(level)
    percent = level_text(level)
    header = ["policy", "evaluator", "value", "std. error", f"{percent} low"]
    header += [f"{percent} high", "interval", "eff. rounds", "note", "warnings"]
    numbers, notes = found._numbered_warnings()
    shown = [
        (found[one["policy"], one["evaluator"]], one, mark, told)
        for one, mark, told in zip(records, marks_of(records), numbers, strict=True)
    ]
    if comparison.baseline not in comparison:
        known = comparison.reference
        low, high = interval = known._interval(level)
        row = {"policy": comparison._against, "evaluator": known.estimator}
        row |= {"low": low, "high": high, "interval": interval.method}
        shown.insert(0, (known, row, "baseline", ""))
    sizes = counts([value.effective_sample_size for value, *_ in shown])
    rows = [
        [
            one["policy"],
            one["evaluator"],
            units.value(value.value),
            units.error(value.standard_error),
            units.value(one["low"]),
            units.value(one["high"]),
            one["interval"],
            size,
            mark,
            told,
        ]
        for (value, one, mark, told), size in zip(shown, sizes, strict=True)
    ]
    marked = [i for i, row in enumerate(rows) if row[8].startswith("recommended")]
    for j in (9, 8):  # columns that nobody needs
        if not any(row[j] for row in rows):
            for row in (header, *rows):
                row.pop(j)
    left = ("policy", "evaluator", "interval", "note", "warnings")
    told = [*bias_notes(records), *notes]
    if len(comparison.differences) > 1:
        told = [f"Each interval holds by itself at {percent}.", *told]
    below = [element("p", note, class_="quiet") for note in told]
    return joined(table(header, rows, marked=marked, left=left), *below)


def overlap(found):
    """Return how many effective rounds each policy has, from one value of each."""
    header = ["policy", "effective rounds", "of all", "share", "largest weight"]
    header += ["of all weights", "never logged"]
    rows = []
    for name, value in found.items():
        known, n = value.diagnostics, value.n_rounds
        size = value.effective_sample_size
        rows.append(
            [
                name,
                fixed(size, 0),
                share(size / n),
                "" if isnan(size) else share_bar(size / n),
                _weight_text(known.get("max_weight")),
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


def _weight_text(weight):
    return fixed(weight if weight is None or isfinite(weight) else None, 1)


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
    return joined(*parts)


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
    """Return a command, or a call."""
    return element("pre", Markup(element("code", text)))
