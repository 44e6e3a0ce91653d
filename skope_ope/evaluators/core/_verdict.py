# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Whether a value can be acted on: an answer in a word, with its reasons."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, fields, replace
from functools import total_ordering
from math import isfinite, isnan, nan
from numbers import Real
from typing import Any

from skope_ope.evaluators.core._evidence import (
    ADVICE,
    ESTIMATED,
    MISSING_WEIGHT,
    NO_AUDIT,
    NO_POLICY,
    UNKNOWN,
    assumptions_of,
    rests_on_propensities,
    weight_findings,
)
from skope_ope.evaluators.core._intervals import HIGH_SKEWNESS, UNTOLD, effective_events
from skope_ope.exceptions import (
    FewEventsWarning,
    FewGroupsWarning,
    LowOverlapWarning,
    ModelErrorWarning,
    PropensityWarning,
    SupportWarning,
    TailWarning,
)
from skope_ope.intervals._finite_sample import check_level
from skope_ope.logs._html import bullets, card
from skope_ope.logs._shown_numbers import counts, figure, wrapped
from skope_ope.logs.checks._finding import (
    SEVERITIES,
    UNLOGGED,
    Finding,
    finding_html,
    finding_record,
)
from skope_ope.logs.checks._propensity_fit import ESTIMATED_PROPENSITIES

COMPARE = "Compare with an evaluator whose interval leaves nothing out."
NO_PROPENSITIES = (
    "The logs have no propensities. Record them, or estimate them with "
    "PropensityEstimator; then an evaluator uses them."
)
COLLECT = "Collect more rounds, or logs closer to the policy."
RANGE = (
    "Give reward_range=(low, high) with the logs if the rewards have a range: the "
    "interval then allows for rewards that were not seen. Otherwise collect more "
    "rounds."
)
NO_VALUE = "Do not act on it. The warnings below say what is missing."


def reasons_of(value, thresholds):
    """Return what speaks against a value."""
    evidence, interval = value._evidence, value._interval(thresholds.level)
    warned = [*evidence.warnings, *interval.warnings]
    measured = [
        _effective_rounds(evidence, thresholds),
        _effective_events(value, warned, thresholds),
        _tail(value, warned, thresholds),
        _effective_groups(warned, thresholds),
        _unsupported_reason(warned, thresholds),
        _range_share(value, interval, thresholds),
    ]
    others = [
        _of_warning(one, in_interval=one in interval.warnings)
        for one in warned
        if not _is_told_otherwise(one, value)
    ]
    is_gain = len(evidence.evaluators) > 1
    of_weights = weight_findings(evidence, interval if is_gain else None)
    if all(one.name != MISSING_WEIGHT for one in of_weights):
        measured.append(_missing_weight(evidence, thresholds))
    found = [
        _missing(value, interval),
        *measured,
        *of_weights,
        *others,
        _bias_left_out(value),
        *_estimated(value),
    ]
    return [one for one in found if one is not None]


def _missing(value, interval):
    """Return a reason where there is no value, or nothing tells how sure it is."""
    if isnan(value.value):
        text = "There is no value: it is NaN."
    elif not (isfinite(interval.low) and isfinite(interval.high)):
        text = "There is no interval: the error of the value is not known."
    else:
        return None
    return Finding(NO_ESTIMATE, "error", text, (NO_VALUE,))


def _effective_rounds(evidence, thresholds):
    size = evidence.effective_rounds
    return _reason_below(
        size,
        thresholds.effective_rounds,
        "low_overlap",
        f"The value rests on only {counts([size])[0]} effective rounds.",
        COLLECT,
    )


def _effective_events(value, warned, thresholds):
    """Return a reason where few rounds tell of rewards on one side of the value."""
    if not _has_spread(value):
        return None
    events = effective_events(value)
    told = [str(one) for one in warned if isinstance(one, FewEventsWarning)]
    text = (
        told[0]
        if told
        else f"The value rests on {counts([events])[0]} effective events."
    )
    return _reason_below(
        events, thresholds.effective_events, "few_events", _sentence(text), COLLECT
    )


def _tail(value, warned, thresholds):
    """Get a reason where the interval rests on a tail that may not have been seen."""
    # Where the range of the rewards is known it allows for that.
    if not _judges_tail(value):
        return None
    skewness = value._skewness
    if skewness is None:  # sums do not tell it
        untold = [str(one) for one in warned if one.name == UNTOLD]
        if value._is_of_halves or not untold:
            return None
        return _judged(nan, True, False, "tail", _sentence(untold[0]), "")
    told = [str(one) for one in warned if _tells_skewness(one)]
    text = f"Few rounds make most of the spread (skewness {figure(skewness)}; "
    text += f"up to {thresholds.skewness[0]:g} is fine)."
    return _reason_above(
        skewness,
        thresholds.skewness,
        "tail",
        _sentence(told[0] if told else text),
        "" if told else RANGE,  # the warning says what to do
    )


def _judges_tail(value):
    knows = value._is_of_halves or value._deviations is not None
    if value._limits is not None and knows:
        return False
    return _has_spread(value)


def _has_spread(value):
    return not (isnan(value.value) or isnan(value.standard_error))


def _tells_skewness(warning):
    return isinstance(warning, TailWarning) and warning.value > HIGH_SKEWNESS


def _effective_groups(warned, thresholds):
    told = [one for one in warned if isinstance(one, FewGroupsWarning)]
    if not told:
        return None
    fewest = min(told, key=lambda one: one.value)
    return _reason_below(
        fewest.value,
        thresholds.effective_groups,
        "few_groups",
        _sentence(str(fewest)),
        "Collect rounds of more groups.",
    )


def _unsupported_reason(warned, thresholds):
    """Return a reason where the logs do not hold what the policy does."""
    told = [one for one in warned if isinstance(one, SupportWarning)]
    if not told:
        return None
    shares = {str(one): one.value for one in told}.values()
    known = all(share is not None and isfinite(share) for share in shares)
    lost = min(sum(shares), 1.0) if known else 1.0
    return _reason_above(
        lost,
        thresholds.unsupported,
        "unsupported_mass",
        _sentence(str(max(told, key=lambda one: one.value or 0))),
    )


def _missing_weight(evidence, thresholds):
    share = evidence.missing_weight
    return _reason_above(
        share,
        thresholds.missing_weight,
        MISSING_WEIGHT,
        f"The weights of the logged rounds average {share:.0%} less than expected. "
        "About this share of the policy's decisions would be in rare rounds of large "
        "weight, and the log has none of these, or the logger never takes them.",
        f"{ADVICE[0]} {COLLECT} Also possible: {UNLOGGED[0].lower()}{UNLOGGED[1:]}",
    )


def _range_share(value, interval, thresholds):
    """Return a reason where the interval is about as wide as the rewards' range."""
    limits = value._limits
    if limits is None or not limits[1] > limits[0]:
        return None
    # a difference has twice the range, and one as wide as a value's tells as little
    is_gain = len(value._evidence.evaluators) > 1
    whole = (limits[1] - limits[0]) / (2 if is_gain else 1)
    share = (interval.high - interval.low) / whole
    return _reason_above(
        share,
        thresholds.range_share,
        "wide_interval",
        f"The interval, {figure(interval.low)} to {figure(interval.high)}, is "
        f"{share:.0%} as wide as the range of the rewards: it says little.",
        COLLECT,
    )


def _bias_left_out(value):
    left_out = value.leaves_bias_out
    if not left_out:
        return None
    is_without = value._evidence.propensities == UNKNOWN
    return Finding(
        "bias_left_out",
        "warning",
        f"The interval leaves out {left_out}. More rounds do not make this error "
        "smaller.",
        (NO_PROPENSITIES if is_without else COMPARE,),
    )


def _estimated(value):
    if not rests_on_propensities(value, ESTIMATED):
        return []
    logs = value._rows.at_hand  # None: of sums, and of values from other processes
    lost = " This value has left its rounds, so they were not tested: audit the log."
    note = Finding(
        ESTIMATED_PROPENSITIES,
        "warning",
        "The propensities were estimated from the log. They are right only if the "
        "context holds all that the logger looked at, and no log can show this."
        + lost
        * (logs is None),
        ("Record the propensities when actions are drawn.",),
    )
    tested = [] if logs is None else logs._estimated_propensity_findings[1]
    return [note, *(one for one in tested if one.is_alarm)]


def _is_told_otherwise(warning, value):
    """Whether a threshold judges what a warning tells, a mark does, or it is a note."""
    if warning.severity == "note":
        return True
    if isinstance(warning, (FewEventsWarning, FewGroupsWarning, SupportWarning)):
        return True
    if isinstance(warning, ModelErrorWarning):
        return bool(value.leaves_bias_out)
    if _tells_skewness(warning):
        return _judges_tail(value)
    is_size = warning.value == value._evidence.effective_rounds
    return isinstance(warning, LowOverlapWarning) and is_size


def _of_warning(warning, in_interval):
    """Return a warning as a reason."""
    severity = warning.severity
    if in_interval and type(warning) is PropensityWarning:
        severity = "error"  # all of it lies outside of the range of the rewards
    number = nan if warning.value is None else warning.value
    return Finding(warning.name, severity, _sentence(str(warning)), number=number)


def _reason_below(number, pair, name, text, advice=""):
    """Return a reason where a number is below the first of a pair, or the second."""
    caution, lost = pair
    return _judged(number, number < caution, number < lost, name, text, advice)


def _reason_above(number, pair, name, text, advice=""):
    caution, lost = pair
    return _judged(number, number > caution, number > lost, name, text, advice)


def _judged(number, is_caution, is_lost, name, text, advice):
    if not (is_caution or is_lost):
        return None
    severity = "error" if is_lost else "warning"
    return Finding(name, severity, text, (advice,) if advice else (), number=number)


def _sentence(text):
    """Return a text that begins with a capital and ends with a full stop."""
    text = text[:1].upper() + text[1:]
    return text if text.endswith((".", "?", "!")) else f"{text}."


# -- thresholds -----------------------------------------------------------------------
RISING = (
    "skewness",
    "unsupported",
    "missing_weight",
    "range_share",
)  # the larger, the worse
NO_ESTIMATE = "no_estimate"  # a reason that nobody can accept


@dataclass(frozen=True)
class VerdictThresholds:
    """The numbers from which a `Verdict` follows.

    Each parameter is a pair. Beyond the first number the answer is "caution", beyond
    the second one "not supported". Read more in the :ref:`User Guide <verdict>`.

    Parameters
    ----------
    effective_rounds : pair of float, default=(30, 5)
        Effective sample size. Below it, few rounds decide the value.
    effective_events : pair of float, default=(10, 0)
        Effective events. Below it, the interval rests on its assumptions.
    skewness : pair of float, default=(0.1, 1)
        Skewness of the mean of the round values. Above it, few rounds make most of the
        spread. It is used if the range of the rewards is not known. 100 events have a
        skewness of 0.1.
    effective_groups : pair of float, default=(40, 5)
        Effective groups. Below it, the standard error is uncertain.
    unsupported : pair of float, default=(0.005, 0.1)
        Share of the policy's decisions that the logger never takes. Above it, the
        missing rewards matter.
    missing_weight : pair of float, default=(0.1, 0.5)
        1 minus the mean weight. Above it, rare rounds of large weights are missing.
    range_share : pair of float, default=(0.5, 0.8)
        Width of the interval as a share of the range of the rewards, if that is known.
        Above it, the interval says little.
    level : float, default=0.95
        Level of the interval.
    accepted : collection of str, default=()
        Names of reasons that you know of and accept. They are shown, but do not change
        the answer.

    Examples
    --------
    >>> from skope_ope.audit import VerdictThresholds
    >>> VerdictThresholds(effective_rounds=(100, 30)).effective_rounds
    (100, 30)
    """

    effective_rounds: tuple = (30, 5)
    effective_events: tuple = (10, 0)
    skewness: tuple = (0.1, 1)
    effective_groups: tuple = (40, 5)
    unsupported: tuple = (0.005, 0.1)
    missing_weight: tuple = (0.1, 0.5)
    range_share: tuple = (0.5, 0.8)
    level: float = 0.95
    accepted: tuple = ()

    def __post_init__(self):
        for one in fields(self)[:7]:
            self._check_pair(one.name, rising=one.name in RISING)
        check_level(self.level)
        if isinstance(self.accepted, str):
            raise TypeError(
                f"accepted must be a collection of names, ({self.accepted!r},), got a "
                "single string."
            )
        if not isinstance(self.accepted, Collection):
            raise TypeError(
                "accepted must be a collection of names, () for none, got "
                f"{type(self.accepted).__name__}."
            )
        if NO_ESTIMATE in self.accepted:
            raise ValueError(
                f"accepted cannot hold {NO_ESTIMATE!r}: without a value or an "
                "interval you cannot act."
            )
        object.__setattr__(self, "accepted", tuple(self.accepted))

    def _check_pair(self, name, rising):
        pair = getattr(self, name)
        try:
            caution, lost = pair
            known = all(isinstance(one, Real) and one >= 0 for one in (caution, lost))
        except (TypeError, ValueError):
            known = False
        if not known:
            raise ValueError(
                f"{name} must be a pair of numbers, one for 'caution' and one for "
                f"'not supported', got {pair!r}."
            )
        if caution != lost and (caution < lost) != rising:
            raise ValueError(
                f"{name} must be a pair whose second number is the worse one, got "
                f"{pair!r}. Swap the two numbers."
            )
        object.__setattr__(self, name, (caution, lost))


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
    reasons = _distinct_reasons(reasons_of(value, thresholds))
    unchecked = assumptions_of(value._evidence, value._limits is not None)
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
    return set(alarm.spares).issuperset(value._evidence.evaluators)


def _distinct_reasons(reasons):
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
