# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""What the gain over a baseline says of a policy, and what makes it doubtful.

An interval covers chance only. "Deploy" is wrong advice if the value is wrong for
another reason. The warnings of the values name these reasons:

- a policy that has learned from these rounds is valued too high: it is never "better".
  Of the baseline the same is true the other way round: nothing is "worse" than it.
- mass on what was never logged: a share s of the policy's decisions is not known, and
  may be worth anything in the range of the rewards. With the width W of that range an
  interval (low, high) of the gain allows (1 - s) low - s W to (1 - s) high + s W, which
  must lie on one side of zero. Without a range nothing is allowed.
- a mean weight below one, where only propensities are known: the log may lack the same
  share, and the same is asked.
- few effective events, or a heavy tail: the interval itself is doubtful. So it is where
  merged sums do not tell whether they are few; where they do, and the interval is only
  wider than one from the rounds, nothing is forbidden.
- an interval that leaves a bias out, by design of the evaluator.
- any other warning (propensities, horizons, loggers, ...), known or not: no answer.

What makes estimates uncertain, but is in the interval, is said and forbids nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, floor, inf, isfinite, isnan, log10, nan, sqrt
from numbers import Integral, Real
from typing import NamedTuple

from scipy.special import ndtri

from skope_ope.evaluators.core._evidence import (
    BETTER,
    WORSE,
    turned,
    weight_findings,
)
from skope_ope.evaluators.core._implied_weights import MISSING_WEIGHT
from skope_ope.evaluators.core._intervals import HIGH_SKEWNESS, UNTOLD
from skope_ope.evaluators.core._policy_value import PolicyValue
from skope_ope.evaluators.core._reach import hidden_share, lasting_reach
from skope_ope.evaluators.core._verdict import NO_ESTIMATE
from skope_ope.exceptions import (
    AdaptiveLoggerWarning,
    ExplorationWarning,
    FewEventsWarning,
    FewGroupsWarning,
    HorizonWarning,
    LearnedRoundsWarning,
    LoggerWarning,
    LogsWarning,
    LowOverlapWarning,
    ModelErrorWarning,
    OPEWarning,
    PropensityWarning,
    SingleTrajectoryWarning,
    SupportWarning,
    TailWarning,
)
from skope_ope.logs.checks._slate_logger import LOST_ROWS
from skope_ope.logs.checks._slate_pages import SORTED_PAGES

BOTH = frozenset((BETTER, WORSE))
NEITHER = frozenset()
ROUNDING_OF_GAIN = 1e-12  # of the gain: a smaller spread is none
# In the interval already, or about the order of the rounds: said, forbids nothing.
SAID = (LowOverlapWarning, FewGroupsWarning, LogsWarning)
CLASS_TEXTS = {
    LearnedRoundsWarning: "learned from {value:.1%} of these rounds",
    LowOverlapWarning: "few rounds carry most of the weight",
    FewGroupsWarning: "few groups",
    LogsWarning: "rounds out of order",
    PropensityWarning: "propensities or acceptance ratios in doubt",
    ExplorationWarning: "logged actions that the context predicts",
    ModelErrorWarning: "an error of the reward model that is not in the interval",
    SingleTrajectoryWarning: "a single history",
    HorizonWarning: "logs too short for the horizon",
    LoggerWarning: "a logger whose rounds have too much weight",
    AdaptiveLoggerWarning: "a logger that learned from these rewards",
    FewEventsWarning: "fewer than ten effective events",
    TailWarning: "few rounds make most of the spread",
}


# Of warnings whose class says too little.
NAMED_TEXTS = {
    MISSING_WEIGHT: "{value:.1%} of the decisions that the log may lack",
    UNTOLD: "merged sums that do not show whether few rounds make most of the spread",
    LOST_ROWS: "rows of pages that may be missing",
    SORTED_PAGES: "pages whose items are not in random order",
    "few_rounds_of_action": "actions with few rounds",
    "extreme_rewards": "numbers beyond what floats hold",
}


class Doubt(NamedTuple):
    """Something that an interval does not know."""

    who: str  # the policy that it is about
    text: str  # what was found, without a verb of its own
    kind: type  # the class of the warning
    forbids: frozenset = BOTH  # the answers that it forbids
    # That of the finding in audits and verdicts, by which it can be accepted
    name: str = ""


def doubts_about(name, warnings, is_baseline=False):
    """Return the doubts that the warnings about a policy raise, but for its support."""
    found = []
    for warning in warnings:
        kind, text = type(warning), _doubt_text(warning)
        if isinstance(warning, SupportWarning):
            continue
        if isinstance(warning, LearnedRoundsWarning):
            forbids = frozenset((WORSE if is_baseline else BETTER,))
        elif isinstance(warning, LowOverlapWarning) and warning.value == 0:
            text, forbids = "no logged round with information on the policy", BOTH
        else:
            forbids = NEITHER if isinstance(warning, SAID) else BOTH
        found.append(Doubt(name, text, kind, forbids, warning.name))
    return found


def _doubt_text(warning):
    if warning.name in NAMED_TEXTS:
        return NAMED_TEXTS[warning.name].format(value=warning.value)
    kind = next((one for one in type(warning).__mro__ if one in CLASS_TEXTS), None)
    if kind is None or (warning.value is None and "{value" in CLASS_TEXTS[kind]):
        named = type(warning) is not OPEWarning
        return f"a {type(warning).__name__}" if named else "a warning without a kind"
    own = kind is PropensityWarning and warning.name != "propensity"
    text = CLASS_TEXTS[kind].format(value=warning.value)
    return f"{text}: {warning.name}" if own else text  # by which it is accepted


def bias_doubts(name, gain):
    """Return a doubt where the interval of a gain leaves out a bias by design."""
    if not gain.leaves_bias_out:
        return []
    text = f"{gain.leaves_bias_out}, which the interval of {evaluator_of(gain)} leaves"
    text += " out"
    return [Doubt(name, text, ModelErrorWarning, BOTH, "bias_left_out")]


def missing_doubts(name, baseline, gain, reference):
    """Return a doubt where a gain, or its spread, is not known."""
    who, text = name, None
    if isnan(gain.value):
        who = baseline if isnan(reference.value) else name
        text = "no value (NaN)"
    elif isnan(gain.standard_error):
        text = "no standard error (NaN)"
    elif gain.standard_error <= ROUNDING_OF_GAIN * abs(gain.value):
        text = "a gain that is the same in every round, so its error is not known"
    return [Doubt(who, text, OPEWarning, BOTH, NO_ESTIMATE)] if text else []


def weight_doubts(name, gain, interval):
    """Return doubts that the mean weights raise about a gain."""
    found = weight_findings(gain._evidence, interval)
    told = [(one, one.found.rstrip(".").partition(". ")[0]) for one in found]
    return [
        Doubt(name, text[0].lower() + text[1:], one.category, BOTH, one.name)
        for one, text in told
    ]


def region_doubts(name, value):
    """Return a doubt that forbids nothing where regions of contexts are not known."""
    text = "holes in regions of contexts, which were not tested"
    doubt = Doubt(name, text, LowOverlapWarning, NEITHER, "missing_region")
    return [doubt] if value._regions_untested else []


def hidden_doubts(name, gain, interval):
    """Return a doubt that forbids nothing where the log may lack what decides."""
    share = hidden_share(gain, *interval)
    text = NAMED_TEXTS[MISSING_WEIGHT].format(value=share)
    doubt = Doubt(name, text, LowOverlapWarning, NEITHER, MISSING_WEIGHT)
    return [doubt] if share else []


def evaluator_of(gain):
    """Return the name of the evaluator behind a difference."""
    return gain.estimator.split(" - ")[0]


def support_doubts(names, values, interval, width, common=1.0):
    """Return a doubt where unlogged decisions might turn the sign of a gain."""
    masses = [_unsupported_mass(value) for value in values]
    lost = min(max(sum(masses), 1 - common), 1.0)
    if not lost > 0:
        return []
    # the interval of a gain may allow for what was never logged by itself
    rest = sum(max(m - _allowed(v), 0) for m, v in zip(masses, values, strict=True))
    rest = min(max(rest, 1 - common), 1.0)
    who = names[1] if masses[1] > masses[0] else names[0]
    text = f"{_lost_percent(lost)} of the decisions not in the log"
    forbids = turned(interval, rest, width)
    return [Doubt(who, text, SupportWarning, forbids, "unsupported_mass")]


def _allowed(value):
    """Return the share of unlogged decisions for which intervals of a value allow."""
    return getattr(getattr(value, "_find_reach", None), "lost", 0.0)


def _lost_percent(share):
    """Return a share in percent, with two digits: 0.032%, 4.1%, 54%, 100%."""
    percent = 100 * share
    return f"{percent:.2g}%" if percent < 99.5 else f"{percent:.0f}%"


def _unsupported_mass(value):
    """Return the share of a policy's decisions that the logs do not know."""
    masses = [w.value for w in value.warnings if isinstance(w, SupportWarning)]
    if any(mass is None or not isfinite(mass) for mass in masses):
        return 1.0
    return sum(masses)


# -- what the paired gain of a policy over the baseline says, and what follows ---------

CANNOT_TELL = "cannot tell"
ENOUGH_EVENTS = 10
CURED_BY_ROUNDS = (FewEventsWarning, TailWarning)


@dataclass(frozen=True)
class GainAnswer:
    """What is known of one policy against the baseline."""

    name: object  # the policy
    # Better: the lower limit of the gain is above zero, and no doubt forbids it
    answer: str
    # The paired gain and its interval, at the level of one of the comparisons
    gain: float
    # The paired gain and its interval, at the level of one of the comparisons
    low: float
    # The paired gain and its interval, at the level of one of the comparisons
    high: float
    # What the interval does not know; those that forbid the answer come first
    doubts: tuple
    alike: bool  # whether the policy acts as the baseline does
    # About how many rounds in all separate the gain from zero, if it is what it seems;
    # NaN where it is told, or where more rounds do not help
    rounds: float

    @property
    def forbidding(self):
        """The doubts for which there is no answer, however many rounds come."""
        if self.answer != CANNOT_TELL:
            return ()
        told = {BETTER} if self.low > 0 else {WORSE} if self.high < 0 else BOTH
        return tuple(
            doubt
            for doubt in self.doubts
            if doubt.forbids & told
            and (told != BOTH or not issubclass(doubt.kind, CURED_BY_ROUNDS))
        )


@dataclass(frozen=True)
class Comparison:
    """What two values of the same rounds are compared by."""

    name: object  # what the two are called
    baseline: object  # what the two are called
    gain: object  # the difference, the value of the policy, and that of the baseline
    value: object  # the difference, the value of the policy, and that of the baseline
    # The difference, the value of the policy, and that of the baseline
    reference: object
    width: float | None  # width of the known range of the rewards
    alike: bool  # whether both are known to act alike
    accepted: tuple = ()  # names of doubts that forbid nothing

    def answer(self, level, n_comparisons):
        """Return the `GainAnswer` at a level that all comparisons keep together."""
        gain = self.gain
        interval = gain._interval(1 - (1 - level) / n_comparisons)
        low, high = interval
        told = BETTER if low > 0 else WORSE if high < 0 else CANNOT_TELL
        doubts = self._doubts(interval)
        if self.alike or any(told in doubt.forbids for doubt in doubts):
            told = CANNOT_TELL
        rounds = nan
        if told == CANNOT_TELL:
            rounds = self._rounds(interval, doubts, level, n_comparisons)
        doubts.sort(key=lambda doubt: -len(doubt.forbids))
        return GainAnswer(
            self.name, told, gain.value, low, high, tuple(doubts), self.alike, rounds
        )

    def _doubts(self, interval):
        if self.alike:
            return []
        name, baseline, gain = str(self.name), str(self.baseline), self.gain
        common = gain.diagnostics.get("n_common_rounds", gain.n_rounds)
        bias = bias_doubts(name, gain)
        found = [
            *missing_doubts(name, baseline, gain, self.reference),
            *bias,
            *support_doubts(
                (name, baseline),
                (self.value, self.reference),
                interval,
                self.width,
                common / gain.n_rounds,
            ),
            *weight_doubts(name, gain, interval),
            *region_doubts(name, self.value),
            *hidden_doubts(name, gain, interval),
            *doubts_about(name, interval.warnings),
            *doubts_about(name, gain.warnings),
            *doubts_about(name, self.value.warnings),
            *doubts_about(baseline, self.reference.warnings, is_baseline=True),
        ]
        if gain.leaves_bias_out:  # which a warning may be about, too
            model = ModelErrorWarning
            found = [d for d in found if d in bias or not issubclass(d.kind, model)]
        found = dict.fromkeys(found)
        return [
            d._replace(forbids=NEITHER) if d.name in self.accepted else d for d in found
        ]

    def _rounds(self, interval, doubts, level, n_comparisons):
        """Return about how many rounds decide, NaN where no number does."""
        gain, n = self.gain, self.gain.n_rounds
        cured = all(
            issubclass(d.kind, CURED_BY_ROUNDS) or not d.forbids for d in doubts
        )
        if not cured or self.alike or not gain.standard_error > 0 or not gain.value:
            return nan
        if any(doubt.name == MISSING_WEIGHT for doubt in doubts):
            return nan  # nor do they bring what the log does not have
        # An interval that knows the range may be wider than what the rounds that were
        # seen tell: it is what must come to lie on one side of zero.
        # What the log may lack in regions of contexts, more rounds lack as well.
        sd, below = gain.standard_error * sqrt(n), gain.value > 0
        near = gain.value - interval[0] if below else interval[1] - gain.value
        lasts = lasting_reach(gain)[0 if below else 1]
        effect = abs(gain.value) - lasts
        if not effect > 0:
            return nan
        quantile = ndtri(1 - (1 - level) / (2 * n_comparisons))
        sd = max(sd, (near - lasts) * sqrt(n) / quantile)
        wanted = rounds_needed(effect, sd, level=level, n_comparisons=n_comparisons)
        for warning in interval.warnings:
            if isinstance(warning, FewEventsWarning) and warning.value:
                wanted = max(wanted, n * ENOUGH_EVENTS / warning.value)
            elif isinstance(warning, TailWarning):
                # the skewness of a mean falls with the root of the number of rounds
                share = (warning.value or 0.0) / HIGH_SKEWNESS
                wanted = max(wanted, n * share**2) if isfinite(share) else wanted
        return wanted


def decide(answers):
    """Return the decision and the choice that follow from all answers."""
    # "deploy": some policy is better, and the choice is the one with the greatest lower
    # limit of its gain. All limits hold together, so no other policy is guaranteed as
    # much; the greatest estimate would favour the policy with the largest error.
    # "keep": all policies are worse. Otherwise "undecided".
    better = [one for one in answers if one.answer == BETTER]
    if better:
        return "deploy", max(better, key=lambda one: one.low).name
    if answers and all(one.answer == WORSE for one in answers):
        return "keep", None
    return "undecided", None


# -- A decision in words: what to do, and what it rests on -----------------------------

NO_PLAN = 100  # times as many as there are: more is no plan
N_NAMED = 3  # policies that are named one by one; of more, their number is
AS_RATIO = 10  # the rounds of the log; beyond, a sentence gives the ratio


def sentence_of(comparison, estimator):
    """Return what to do, in words."""
    answers, outcome = comparison._answers, comparison._outcome
    baseline, choice = comparison._against, comparison.choice
    order = f"{outcome.better[0].upper()}{outcome.better[1:]} counts as better."
    told = {answer: [] for answer in (BETTER, WORSE, CANNOT_TELL)}
    for one in answers:
        told[one.answer].append(one)

    def span(one):
        return outcome.span(one.gain, one.low, one.high)

    def both(one):
        pair = outcome.pair(comparison[one.name].value, comparison.reference.value)
        return f"with {pair} ({outcome.span(one.gain, one.low, one.high, named=False)})"

    if choice is not None:
        chosen = next(one for one in told[BETTER] if one.name == choice)
        condition = comparison._condition
        what, it = (f", {condition}", choice) if condition else (f" {choice}", "it")
        parts = [
            f"Deploy{what}: by {estimator} {it} is better than {baseline}, "
            f"{both(chosen)}."
        ]
        others = [one for one in told[BETTER] if one is not chosen]
        if others:
            parts.append(
                f"{_policies_of(others, 'is', 'are')} better than {baseline}, too. The "
                "choice has the greatest lower limit."
            )
        if chosen.doubts:
            parts.append(f"Mind: {_grouped(chosen.doubts)}.")
    elif told[CANNOT_TELL]:
        parts = [
            _undecided_text(told[CANNOT_TELL], baseline, span, comparison.n_rounds)
        ]
        if told[WORSE]:
            names = _policies_of(told[WORSE], "is", "are")
            parts.append(f"{names} worse than {baseline}. {order}")
        parts += _reasons(told[CANNOT_TELL])
    else:
        best = max(answers, key=lambda one: one.high)
        nearest = "," if len(answers) == 1 else f"; the nearest, {best.name},"
        names = _policies_of(answers, "is", "are all")
        parts = [
            f"Keep {baseline}: by {estimator} {names} worse{nearest} {both(best)}. "
            f"{order}"
        ]
    return " ".join(parts)


def _undecided_text(answers, baseline, span, n_rounds):
    """Return the sentence about policies of which nothing is known to decide on."""
    alike = [one for one in answers if one.alike]
    if len(alike) == len(answers):
        return (
            f"Undecided: {_policies_of(alike, 'acts', 'act')} as {baseline} does in "
            "these rounds, so the choice makes no difference."
        )
    blocked = [v for v in answers if not v.alike and (v.low > 0 or v.high < 0)]
    open_ones = [v for v in answers if not (v.alike or v in blocked)]
    parts = [
        f"{one.name} seems {'better' if one.low > 0 else 'worse'} than {baseline} "
        f"({span(one)})"
        for one in blocked
    ]
    if len(blocked) > N_NAMED:
        parts = [f"{_policies_of(blocked)} seem better or worse than {baseline}"]
    if parts:
        parts = [f"Undecided: {with_and(parts)}, but there are doubts."]
    if open_ones:
        start = "These" if parts else "Undecided: these"
        known = f"{_policies_of(open_ones)} from {baseline}"
        parts.append(f"{start} {n_rounds:,} rounds cannot tell {known}.")
    if alike:
        parts.append(f"{_policies_of(alike, 'acts', 'act')} as {baseline} does.")
    asked = [one for one in answers if not isnan(one.rounds)]
    asked.sort(key=lambda one: (one.gain < 0, one.rounds))  # what seems better first
    for one in asked[: N_NAMED if len(asked) <= N_NAMED else 1]:
        plan = f"about {_rounds_text(one.rounds, n_rounds)} would decide with "
        plan += "probability 0.8"
        if one.rounds > NO_PLAN * n_rounds:
            plan = f"a decision would take more than {NO_PLAN} times as many rounds"
        end = "if the true gain equals the estimate"
        parts.append(f"For {one.name} ({span(one)}), {plan}, {end}.")
    if len(asked) > N_NAMED:
        parts.append("The table gives the numbers for the others.")
    lacking = [d for one in open_ones for d in one.doubts if d.name == MISSING_WEIGHT]
    if lacking:
        parts.append(
            f"What may decide: {_grouped(lacking)}. Give logging_proba, the "
            "probabilities of all actions, or log such decisions."
        )
    return " ".join(parts)


def _rounds_text(rounds, n_rounds):
    """Say how many rounds would decide, beside those of the log."""
    if rounds > AS_RATIO * n_rounds:  # a number of millions tells nobody how far
        return f"{rough(rounds / n_rounds)} times as many rounds"
    return f"{rough(max(rounds - n_rounds, 0))} more rounds ({rough(rounds)} in all)"


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
    return "; ".join(f"{text} ({_listing(names)})" for text, names in who.items())


def _policies_of(answers, one="", several=""):
    """Return the names of policies, and a verb in their number."""
    verb = one if len(answers) == 1 else several
    return f"{_listing([str(one.name) for one in answers])} {verb}".rstrip()


def _listing(names):
    return f"{len(names)} policies" if len(names) > N_NAMED else with_and(names)


def with_and(texts):
    """Return texts as a list in a sentence."""
    if len(texts) < 2:
        return "".join(texts)
    return f"{', '.join(texts[:-1])} and {texts[-1]}"


def rough(number):
    """Return a number with two significant digits."""
    if number < 1:
        return "0"
    places = 1 - floor(log10(number))
    return f"{round(number, places):,.0f}"


# -- how many rounds a decision takes --------------------------------------------------


def rounds_needed(
    gain: float | PolicyValue,
    standard_deviation: float | None = None,
    *,
    level: float = 0.95,
    n_comparisons: int = 1,
    power: float = 0.8,
) -> float:
    r"""Return how many rounds separate a gain from zero.

    With this many rounds the interval of the gain excludes zero with probability
    `power`:

    .. math:: n^* = \left(
        \frac{(z_{1 - \alpha / (2 m)} + z_{power})\, \sigma}{gain} \right)^2

    with :math:`\alpha` = 1 - `level`, m comparisons (Bonferroni), and the standard
    deviation :math:`\sigma` of the paired difference of a round. Read more in the
    :ref:`User Guide <comparison>`.

    Parameters
    ----------
    gain : float or PolicyValue
        The gain per round. A difference of two values includes its standard deviation.
        The answer is then about the estimated gain, which is uncertain. To plan an
        experiment, pass the smallest gain that matters to you:
        ``rounds_needed(0.001, sd)``.
    standard_deviation : float, default=None
        Standard deviation of the paired differences of the rounds:
        ``difference.standard_error * difference.n_rounds ** 0.5`` of an estimated
        difference. `None`: `gain` is such a difference. If you pass both, this number
        is used.
    level : float, default=0.95
        Coverage of all intervals together.
    n_comparisons : int, default=1
        Number of policies that are compared with the baseline.
    power : float, default=0.8
        Probability of an answer, in (0, 1).

    Returns
    -------
    n_rounds : float
        Number of rounds in total, including those that you have. `inf` for a gain of
        zero, NaN if the gain or the standard deviation is NaN.

    Raises
    ------
    ValueError
        If `standard_deviation` is missing or negative, or `level`, `power` or
        `n_comparisons` is out of range.

    Notes
    -----
    It has three assumptions. Later rounds are like those of the log: the same logger,
    the same mix of contexts, groups of the same sizes. The gain is the true one. The
    estimated gain is about normal, which needs more than ten effective events.

    Examples
    --------
    A gain of .002 clicks per round, where the difference of a round has the standard
    deviation .1:

    >>> from skope_ope.selection import rounds_needed
    >>> rounds_needed(0.002, 0.1)
    19623.0
    >>> rounds_needed(0.002, 0.1, n_comparisons=20)
    37345.0
    """
    if isinstance(gain, PolicyValue):
        if standard_deviation is None:
            standard_deviation = gain.standard_error * sqrt(gain.n_rounds)
        gain = gain.value
    _check_plan(gain, standard_deviation, level, n_comparisons, power)
    if not (isfinite(gain) and isfinite(standard_deviation)):
        return nan
    if gain == 0:
        return inf
    quantiles = ndtri(1 - (1 - level) / (2 * n_comparisons)) + ndtri(power)
    # a power below alpha / (2 m) takes no rounds at all
    return float(max(ceil((max(quantiles, 0) * standard_deviation / gain) ** 2), 1))


def _check_plan(gain, standard_deviation, level, n_comparisons, power):
    if not isinstance(gain, Real):
        raise TypeError(
            "gain must be a number or a difference of two values, got "
            f"{type(gain).__name__}."
        )
    if not isinstance(standard_deviation, Real) or standard_deviation < 0:
        raise ValueError(
            "standard_deviation must be a number of at least 0, the one of the "
            f"paired differences of the rounds, got {standard_deviation!r}. If you "
            "pass a difference of two values, leave it out: "
            "rounds_needed(comparison.differences['new'])."
        )
    for name, value in (("level", level), ("power", power)):
        if not isinstance(value, Real) or not 0 < value < 1:
            raise ValueError(f"{name} must be a number in (0, 1), got {value!r}.")
    if not isinstance(n_comparisons, Integral) or n_comparisons < 1:
        raise ValueError(
            f"n_comparisons must be a whole number of at least 1, got "
            f"{n_comparisons!r}."
        )
