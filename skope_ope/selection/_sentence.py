# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""A decision in words: what to do, and what it rests on."""

from math import floor, isnan, log10

from skope_ope.selection._doubts import BETTER, WORSE
from skope_ope.selection._gain_answers import CANNOT_TELL

GREATER = "Greater rewards count as better."
MOST_ROUNDS = 100  # times as many as there are: more is no plan
NAMED = 3  # policies that are named one by one; of more, their number is
MANY_TIMES = 10  # the rounds of the log; beyond, a sentence gives the ratio


def sentence_of(
    answers, choice, baseline, estimator, format_gain, n_rounds, condition=""
):
    """Return what to do, in words."""
    told = {answer: [] for answer in (BETTER, WORSE, CANNOT_TELL)}
    for one in answers:
        told[one.answer].append(one)

    def span(one):
        low, high = format_gain(one.low), format_gain(one.high)
        return f"{format_gain(one.gain)} per round, {low} to {high}"

    if choice is not None:
        chosen = next(one for one in told[BETTER] if one.name == choice)
        what, it = (f", {condition}", choice) if condition else (f" {choice}", "it")
        parts = [
            f"Deploy{what}: by {estimator} {it} is better than {baseline} "
            f"({span(chosen)})."
        ]
        others = [one for one in told[BETTER] if one is not chosen]
        if others:
            verb = "is" if len(others) == 1 else "are"
            parts.append(
                f"{_names(others)} {verb} better than {baseline}, too. The choice has "
                "the greatest lower limit."
            )
        if chosen.doubts:
            parts.append(f"Mind: {_grouped(chosen.doubts)}.")
    elif told[CANNOT_TELL]:
        parts = [_undecided(told[CANNOT_TELL], baseline, span, n_rounds)]
        if told[WORSE]:
            verb = "is" if len(told[WORSE]) == 1 else "are"
            parts.append(
                f"{_names(told[WORSE])} {verb} worse than {baseline}. {GREATER}"
            )
        parts += _reasons(told[CANNOT_TELL])
    else:
        verb = "is" if len(answers) == 1 else "are all"
        best = max(answers, key=lambda one: one.high)
        nearest = "" if len(answers) == 1 else f"; nearest {best.name}, "
        nearest = f"{nearest}{span(best)}" if nearest else span(best)
        parts = [
            f"Keep {baseline}: by {estimator} {_names(answers)} {verb} worse "
            f"({nearest.removeprefix('; ')}). {GREATER}"
        ]
    return " ".join(parts)


def _undecided(answers, baseline, span, n_rounds):
    """Return the sentence about policies of which nothing is known to decide on."""
    alike = [one for one in answers if one.alike]
    if len(alike) == len(answers):
        verb = "acts" if len(alike) == 1 else "act"
        return (
            f"Undecided: {_names(alike)} {verb} as {baseline} does in these rounds, "
            "so the choice makes no difference."
        )
    blocked = [v for v in answers if not v.alike and (v.low > 0 or v.high < 0)]
    open_ones = [v for v in answers if not (v.alike or v in blocked)]
    parts = [f"{_seeming(one, baseline)} ({span(one)})" for one in blocked]
    if len(blocked) > NAMED:
        parts = [f"{_names(blocked)} seem better or worse than {baseline}"]
    if parts:
        parts = [f"Undecided: {_joined(parts)}, but there are doubts."]
    if open_ones:
        start = "These" if parts else "Undecided: these"
        known = f"{_names(open_ones)} from {baseline}"
        parts.append(f"{start} {n_rounds:,} rounds cannot tell {known}.")
    if alike:
        verb = "acts" if len(alike) == 1 else "act"
        parts.append(f"{_names(alike)} {verb} as {baseline} does.")
    asked = sorted((v for v in answers if not isnan(v.rounds)), key=_nearest)
    for one in asked[: NAMED if len(asked) <= NAMED else 1]:
        if one.rounds > MOST_ROUNDS * n_rounds:
            parts.append(
                f"For {one.name} ({span(one)}), a decision would take more than "
                f"{MOST_ROUNDS} times as many rounds, if the true gain equals the "
                "estimate."
            )
            continue
        parts.append(
            f"For {one.name} ({span(one)}), about {_needed(one.rounds, n_rounds)} "
            "would decide with probability 0.8, if the true gain equals the estimate."
        )
    if len(asked) > NAMED:
        parts.append("The table gives the numbers for the others.")
    return " ".join(parts)


def _seeming(one, baseline):
    """Say what the interval of a policy tells, and nothing confirms."""
    side = "better" if one.low > 0 else "worse"
    return f"{one.name} seems {side} than {baseline}"


def _needed(rounds, n_rounds):
    """Say how many rounds would decide, beside those of the log."""
    if rounds > MANY_TIMES * n_rounds:  # a number of millions tells nobody how far
        return f"{rough(rounds / n_rounds)} times as many rounds"
    return f"{rough(max(rounds - n_rounds, 0))} more rounds ({rough(rounds)} in all)"


def _nearest(one):
    """Sort policies that seem better first, and those that need few rounds."""
    return one.gain < 0, one.rounds


def _reasons(answers):
    """Return a sentence on the doubts that stand against an answer, if there are."""
    doubts = [doubt for one in answers for doubt in one.forbidding]
    if not doubts:
        return []
    return [f"Doubts that prevent a decision: {_grouped(doubts)}."]


def _grouped(doubts):
    """Return doubts as a text, each with the policies that it is about."""
    who = {}
    for doubt in doubts:
        names = who.setdefault(doubt.text, [])
        if doubt.who not in names:
            names.append(doubt.who)
    return "; ".join(f"{text} ({_listed(names)})" for text, names in who.items())


def _names(answers):
    return _listed([str(one.name) for one in answers])


def _listed(names):
    return f"{len(names)} policies" if len(names) > NAMED else _joined(names)


def _joined(texts):
    if len(texts) < 2:
        return "".join(texts)
    return f"{', '.join(texts[:-1])} and {texts[-1]}"


def rough(number):
    """Return a number with two significant digits."""
    if number < 1:
        return "0"
    places = 1 - floor(log10(number))
    return f"{round(number, places):,.0f}"
