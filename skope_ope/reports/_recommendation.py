# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""What to do, in words for those who decide, and the reasons against it."""

from dataclasses import dataclass
from math import inf, isnan

from skope_ope.audit._policy_checks import ONE_ACTION
from skope_ope.evaluators.core._verdict import spares
from skope_ope.logs._shown_numbers import level_text
from skope_ope.logs.checks._propensity_fit import ESTIMATED_PROPENSITIES
from skope_ope.selection._gain_answers import (
    BETTER,
    CANNOT_TELL,
    NO_PLAN,
    rough,
    with_and,
)

N_TOLD = 3  # policies that are told one by one; of more, their number is
ERROR = "error"
# Errors that say how little there is. They stop a decision, and no number is wrong.
LITTLE_EVIDENCE = (
    "low_overlap",
    "few_events",
    "few_groups",
    "wide_interval",
    "missing_weight",
)
OF_LOG = (ESTIMATED_PROPENSITIES,)  # though the reasons of a value tell it
KEEP_EXPLORING = (
    "Keep some choices random when you switch: then the next log can answer, too."
)
NO_DIFFERENCE = "That does not mean that there is no difference."


@dataclass(frozen=True)
class Alarm:
    """Something to look at before anybody acts."""

    name: str  # the short name of the finding
    severity: str  # "error": nobody should act before it is corrected
    who: tuple  # the policies that it is about; empty: the log, and so all of them
    text: str  # what was found, in a sentence
    advice: tuple = ()  # what to do, the most likely cause first

    @property
    def sentence(self):
        """What was found, and of whom."""
        return f"{self.text} ({', '.join(self.who)})" if self.who else self.text

    @property
    def first_step(self):
        """What to do first, in a sentence; empty where `text` says it."""
        if not self.advice:
            return ""
        start = "Check first" if len(self.advice) > 1 else "What to do"
        return f"{start}: {self.advice[0]}"

    @property
    def is_fault(self):
        """Whether it makes numbers wrong, and not only uncertain."""
        return self.severity == ERROR and self.name not in LITTLE_EVIDENCE


@dataclass(frozen=True)
class Advice:
    """What to do."""

    # "undecided" also where an error takes the ground from under a decision
    decision: str
    choice: str | None  # the policy to deploy
    headline: str  # A few words
    sentences: tuple  # paragraphs: why, how much, and what would help
    alarms: tuple  # errors first

    @property
    def has_faults(self):
        """Whether numbers are wrong, and not only uncertain."""
        return any(one.is_fault for one in self.alarms)


def recommendation_of(comparison, verdicts, audit, audits, accepted=()):
    """Return what follows from a comparison and from what speaks against its gains."""
    decision, choice = comparison.decision, comparison.choice
    alarms = _alarms(comparison, verdicts, audit, audits, accepted)
    faults = [one for one in alarms if one.is_fault]
    notes = _notes(audits, accepted)
    wrong = {name for one in faults for name in one.who}
    of_log = any(not one.who for one in faults)
    of_all = of_log or str(comparison.baseline) in wrong
    if of_all or (alarms and alarms[0].severity == ERROR and decision != "undecided"):
        headline = "No decision: too little evidence"
        sentences = _too_little(comparison)
        if faults:
            what = "the log" if of_log else "what is wrong"
            headline = f"No decision yet: correct {what} first"
            sentences = _not_to_be_trusted(comparison, wrong, of_all)
        sentences = (*sentences, *notes)
        return Advice("undecided", None, headline, sentences, tuple(alarms))
    tell = {"deploy": _deploy, "keep": _keep, "undecided": _wait}[decision]
    headline, sentences = tell(comparison, wrong)
    cautions = [one for one in alarms if one.name not in OF_LOG]
    if decision != "undecided" and (cautions or (alarms and decision == "keep")):
        headline += ", with caution"
    sentences = (*sentences, *notes)
    return Advice(decision, choice, headline, sentences, tuple(alarms))


def _notes(audits, accepted):
    """Return sentences about rules that take one action, as misspelt ones do."""
    return [
        f"{name} takes {one.actions[0]!r} in all rounds: check its rule if it should "
        "tell contexts apart."
        for name, audit in audits.items()
        for one in audit.findings
        if one.name == ONE_ACTION and ONE_ACTION not in accepted
    ]


def _alarms(comparison, verdicts, audit, audits, accepted):
    """Return what speaks against the decision, each told once, errors first."""
    of_log = {(one.name, one.found): (one, []) for one in audit.alarms}
    found = {key: one for key, one in of_log.items() if key[0] not in accepted}
    told = [(name, verdict.reasons) for name, verdict in verdicts.items()]
    if comparison.choice is not None:
        told = [(comparison.choice, verdicts[comparison.choice].reasons)]
    baseline = comparison.baseline
    if baseline in audits:
        alarms = audits[baseline].alarms
        value = comparison.reference
        told.append((baseline, [one for one in alarms if not spares(one, value)]))
    for name, reasons in told:
        for one in reasons:
            key = one.name, one.found
            is_new = one.is_alarm and one.name not in accepted
            if is_new and key not in of_log:
                found.setdefault(key, (one, []))[1].append(str(name))
    alarms = [
        Alarm(
            one.name,
            one.severity,
            () if one.name in OF_LOG else tuple(names),
            one.found,
            one.advice,
        )
        for one, names in found.values()
    ]
    return sorted(alarms, key=lambda one: (one.severity != ERROR, bool(one.who)))


def _not_to_be_trusted(comparison, wrong, of_all):
    """Say that the numbers cannot be trusted, whatever they say."""
    about = "any number on this page"
    if not of_all:
        about = f"the numbers of {with_and(sorted(wrong))}"
    sentences = [f"Until the errors are corrected, do not trust {about}."]
    if comparison.decision == "deploy":
        sentences.append(
            f"{comparison.choice} looks better than {comparison._against}. The error "
            "alone may cause this: do not act on it."
        )
    return tuple(sentences)


def _too_little(comparison):
    """Say that the numbers look clear, and the log does not bear them."""
    looks = f"{comparison.choice} looks better than {comparison._against}"
    if comparison.choice is None:
        looks = f"{with_and(list(map(str, comparison.differences)))} look worse than "
        looks += comparison._against
    return (
        f"{looks}, but the log is not enough for a decision: see the errors.",
        "Collect more rounds, or a log closer to the policy.",
    )


def _deploy(comparison, wrong):
    answers = {one.name: one for one in comparison._answers}
    chosen = answers.pop(comparison.choice)
    sentences = _amounts(comparison, chosen, f"a {comparison._outcome.gain_word}")
    sentences += comparison._assumed
    sentences += _others(answers.values(), comparison, wrong)
    sentences += _rivals(comparison, chosen.name, answers.values(), wrong)
    if chosen.doubts:
        sentences.append(f"Mind: {_doubts(chosen.doubts, chosen.name)}.")
    condition = comparison._condition
    what = f", {condition}: {chosen.name}" if condition else f" {chosen.name}"
    return f"Deploy{what}", [*sentences, KEEP_EXPLORING]


def _rivals(comparison, choice, answers, wrong):
    """Say which policies the rounds cannot tell from the choice."""
    alike = []
    for one in answers:
        if one.answer == BETTER and str(one.name) not in wrong:
            gap = comparison[choice] - comparison[one.name]
            low, high = gap._interval(comparison.level_of_each)
            alike += [str(one.name)] if not (low > 0 or high < 0) else []
    if not alike:
        return []
    return [
        f"These rounds cannot tell {choice} from {with_and(alike)}. {choice} has the "
        "greatest lower limit of its gain. A simpler policy may be as good."
    ]


def _keep(comparison, wrong):
    answers, word = comparison._answers, comparison._outcome.loss_word
    best, who = max(answers, key=lambda one: one.high), " {}"
    if len(answers) > 1:
        who = f": All {len(answers)} policies are worse. The nearest, {{}},"
    sentences = _amounts(comparison, best, word, who, sign=-1)
    return f"Keep {comparison._against}", sentences


def _amounts(comparison, one, word, who=" {}", sign=1):
    """Return what a policy would have had, with its gain or its loss, in sentences."""
    outcome, level = comparison._outcome, comparison.level_of_each
    pair = outcome.pair(comparison[one.name].value, comparison.reference.value)
    limits = map(outcome.limit, sorted((sign * one.low, sign * one.high)))
    return [
        f"On these {comparison.n_rounds:,} logged rounds{who.format(one.name)} would "
        f"have had {pair}, {word} of {outcome.gain(sign * one.gain, named=False)} "
        f"({level_text(comparison.level)} interval: {' to '.join(limits)}).",
        *outcome.compared(comparison.lifts[one.name], level, comparison._against),
    ]


def _wait(comparison, wrong):
    sentences = _others(comparison._answers, comparison, wrong, first=True)
    return f"Undecided: keep {comparison._against} for now", sentences


def _others(answers, comparison, wrong, first=False):
    """Return sentences about policies that are not the choice."""
    answers = sorted(answers, key=lambda one: (isnan(one.gain), -one.gain))
    sentences, told_why = [], False
    for one in answers[:N_TOLD]:
        told = _about_policy(one, comparison, str(one.name) in wrong)
        if first and not told_why and len(told) > 1:
            told, told_why = [told[0], NO_DIFFERENCE, *told[1:]], True
        if not first:
            known = one.answer == CANNOT_TELL and comparison.n_rounds < one.rounds < inf
            told = told if known and not told_why else told[:1]
            told_why = told_why or len(told) > 1
        sentences.append(" ".join(told))
    more = len(answers) - N_TOLD
    if more > 0:
        sentences.append(f"The table shows {more} more.")
    return sentences


def _about_policy(one, comparison, wrong):
    """Return what is known of one policy against the baseline, in sentences."""
    name, against, outcome = one.name, comparison._against, comparison._outcome
    span = outcome.span(one.gain, one.low, one.high)
    if one.alike:
        return [
            f"{name} acts as {against} does in these rounds, so the choice makes no "
            "difference."
        ]
    if wrong:
        return [f"{name}: do not trust its numbers, see the errors."]
    if isnan(one.gain):
        return [f"{name}: no value, so nothing is known about this policy."]
    if one.answer != CANNOT_TELL:
        too = ", too" if one.answer == BETTER else ""
        return [f"{name} is {one.answer} than {against}{too} ({span})."]
    if one.forbidding:
        seems = "cannot be told from"
        if one.low > 0 or one.high < 0:
            seems = f"seems {'better' if one.low > 0 else 'worse'} than"
        return [
            f"{name} {seems} {against} ({span}), but there are doubts: "
            f"{_doubts(one.forbidding, name)}."
        ]
    return [
        f"The {comparison.n_rounds:,} rounds cannot tell {name} from {against}: its "
        f"{outcome.gain_word} may be anything from {outcome.limit(one.low, '+')} to "
        f"{outcome.gain(one.high, '+')}.",
        _more_rounds(one, comparison.n_rounds, outcome),
    ]


def _doubts(doubts, name):
    """Return doubts about a policy as a text; others that they are about are named."""
    told = dict.fromkeys(
        d.text if d.who == str(name) else f"{d.text} ({d.who})" for d in doubts
    )
    return "; ".join(told)


def _more_rounds(one, n_rounds, outcome):
    more = one.rounds - n_rounds
    if not 1 <= more < inf:
        return "How many more rounds would decide is not known."
    gain = f"{outcome.gain_word} is {outcome.gain(one.gain, '+')}"
    if more > NO_PLAN * n_rounds:
        return (
            f"If the true {gain}, as estimated, a decision would take more than "
            f"{NO_PLAN} times as many rounds."
        )
    return (
        f"About {rough(more)} more rounds would decide, in 8 of 10 cases, if the true "
        f"{gain}, as estimated."
    )
