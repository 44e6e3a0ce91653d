# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Whether a value can be acted on: an answer in a word, with its reasons."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import total_ordering
from typing import Any

from skope_ope.evaluators.core._assumptions import NO_AUDIT, NO_POLICY, assumptions_of
from skope_ope.evaluators.core._verdict_reasons import reasons_of
from skope_ope.logs._html import bullets, card
from skope_ope.logs._shown_numbers import wrapped
from skope_ope.logs.checks._finding import (
    SEVERITIES,
    Finding,
    finding_html,
    finding_record,
)

ANSWERS = ("not supported", "caution", "trustworthy")  # the worst first
BY_SEVERITY = dict(zip(SEVERITIES, ANSWERS, strict=True))
MEANINGS = {
    "trustworthy": "no check found a problem",
    "caution": "read the reasons before you act on the value",
    "not supported": "the logs do not support the value: do not act on it",
}


@total_ordering
class Verdict:
    """Whether a value can be acted on.

    You can compare verdicts with each other and with texts: ``value.verdict >=
    "caution"``. Read more in the :ref:`User Guide <verdict>`.

    Parameters
    ----------
    reasons : iterable of Finding
        Problems of the value: errors, warnings, and notes of what was accepted.
    unchecked : iterable of str, default=()
        What the value assumes and nothing has shown.
    audited : bool, default=False
        Whether an audit of the log was used.

    Attributes
    ----------
    answer : {"trustworthy", "caution", "not supported"}
        The worst reason decides.
    reasons : tuple of Finding
        The worst first. Each has a `name`, a `severity`, a `number` and a `text` that
        says what it means and what to do. A severity is "error" (not supported),
        "warning" (caution) or "note" (accepted).
    unchecked : tuple of str
        What the value assumes and nothing has shown, in sentences.
    audited : bool
        Whether an audit of the log has been taken in.

    Examples
    --------
    >>> from skope_ope import DRos
    >>> from skope_ope.datasets import make_bandit_logs
    >>> logs, policy, truth = make_bandit_logs(random_state=0, return_truth=True)
    >>> found = DRos().fit(logs).evaluate(policy).verdict
    >>> found.answer, found >= "trustworthy"
    ('caution', False)
    >>> [one.name for one in found.reasons]
    ['bias_left_out']
    """

    def __init__(
        self,
        reasons: Iterable[Finding],
        unchecked: Iterable[str] = (),
        audited: bool = False,
    ) -> None:
        self.reasons = tuple(
            sorted(reasons, key=lambda one: SEVERITIES.index(one.severity))
        )
        self.unchecked, self.audited = tuple(unchecked), bool(audited)
        worst = self.reasons[0].severity if self.reasons else SEVERITIES[-1]
        self.answer = BY_SEVERITY[worst]

    def __eq__(self, other):
        answer = _answer_of(other)
        return NotImplemented if answer is None else self.answer == answer

    def __lt__(self, other):
        answer = _answer_of(other)
        if answer is None:
            return NotImplemented
        if answer not in ANSWERS:
            raise ValueError(f"a verdict is one of {ANSWERS}, got {answer!r}.")
        return ANSWERS.index(self.answer) < ANSWERS.index(answer)

    def __hash__(self):
        return hash(self.answer)

    def __bool__(self):
        raise TypeError(
            "a verdict has three answers, not yes or no: write verdict == "
            '"trustworthy", or verdict >= "caution".'
        )

    @property
    def alarms(self) -> tuple[Any, ...]:
        """The reasons that count: those that are not accepted."""
        return tuple(one for one in self.reasons if one.is_alarm)

    def to_dict(self) -> dict[Any, Any]:
        """Return all of it as plain numbers, texts, lists and dicts, as JSON takes.

        Returns
        -------
        record : dict
            Keys: answer, audited, reasons (as the findings of `Audit.to_records`),
            unchecked.
        """
        return {
            "answer": self.answer,
            "audited": self.audited,
            "reasons": list(map(finding_record, self.reasons)),
            "unchecked": list(self.unchecked),
        }

    def __repr__(self):
        lines = wrapped(f"Verdict: {self.answer}{self._until}; {self._meaning}.")
        for one in self.reasons:
            lines += wrapped(f"[{_told(one)}] {one.name}: {one.text}", "", "  ")
        lines += ["Not checked:"] if self.unchecked else []
        lines += [line for one in self.unchecked for line in wrapped(one, "- ")]
        return "\n".join(lines)

    def _repr_html_(self):
        n = len(self.unchecked)
        return card(
            f"Verdict: {self.answer}{self._until}",
            *(finding_html(one, _told(one)) for one in self.reasons),
            lead=self._meaning,
            details={f"Not checked ({n})": bullets(self.unchecked) if n else ""},
        )

    @property
    def _meaning(self):
        if self._until:
            return "the log was not audited"
        return MEANINGS[self.answer]

    @property
    def _until(self):
        """What a good answer is worth where nobody has looked at the log."""
        good = self.answer == ANSWERS[-1]
        return "" if self.audited or not good else ", as far as the value tells"


def verdict_on(value, thresholds, audit=None):
    """Return the verdict on a value, with what an audit of its log found."""
    reasons = _distinct(reasons_of(value, thresholds))
    unchecked = assumptions_of(value._grounds, value._limits is not None)
    if audit is None:
        unchecked.append(NO_AUDIT)
    else:
        alarms = [one for one in audit.alarms if not spares(one, value)]
        reasons = _worse_of_each_name(reasons, alarms)
        if not audit.about_policy:
            unchecked.append(NO_POLICY)
    reasons = [
        replace(one, severity="note") if one.name in thresholds.accepted else one
        for one in reasons
    ]
    return Verdict(reasons, unchecked, audit is not None)


def spares(alarm, value):
    """Whether no evaluator behind a value is touched by what an alarm tells."""
    return set(alarm.spares).issuperset(value._grounds.evaluators)


def _distinct(reasons):
    """Return reasons without repeated texts."""
    return list({(one.name, one.text): one for one in reasons}.values())


def _worse_of_each_name(own, of_audit):
    """Return reasons of a value and of its audit; the audit tells what both know."""
    # Unless the value knows worse: what is a warning to an audit of the log may leave a
    # value without support.
    worst = dict(sorted(((one.name, _rank(one)) for one in own), reverse=True))
    told = [one for one in of_audit if _rank(one) <= worst.get(one.name, _rank(one))]
    names = {one.name for one in told}
    return [one for one in own if one.name not in names] + told


def _rank(reason):
    return SEVERITIES.index(reason.severity)  # 0 is the worst


def _answer_of(other):
    """Return an answer, also as a text; None of something else."""
    if isinstance(other, Verdict):
        return other.answer
    return other if isinstance(other, str) else None


def _told(reason):
    return BY_SEVERITY[reason.severity] if reason.is_alarm else "accepted"
