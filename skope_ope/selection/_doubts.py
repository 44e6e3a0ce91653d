# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""What prevents an answer that the interval of a gain would give.

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

from math import isfinite, isnan
from typing import NamedTuple

from skope_ope.evaluators.core._intervals import UNTOLD, WIDER
from skope_ope.evaluators.core._missing_part import (
    BETTER,
    WORSE,
    turned,
    weight_findings,
)
from skope_ope.evaluators.core._verdict_thresholds import NO_ESTIMATE
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
from skope_ope.logs.checks._lost_rows import LOST_ROWS
from skope_ope.logs.checks._slate_order import SORTED_PAGES

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
    UNTOLD: "merged sums that do not show whether few rounds make most of the spread",
    LOST_ROWS: "rows of pages that may be missing",
    SORTED_PAGES: "pages whose items are not in random order",
    WIDER: "merged sums, whose interval is wider than one of single rounds",
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
            said = isinstance(warning, SAID) or warning.name == WIDER
            forbids = NEITHER if said else BOTH
        found.append(Doubt(name, text, kind, forbids, warning.name))
    return found


def _doubt_text(warning):
    if warning.name in NAMED_TEXTS:
        return NAMED_TEXTS[warning.name]
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
    found = weight_findings(gain._grounds, interval)
    told = [(one, one.found.rstrip(".").partition(". ")[0]) for one in found]
    return [
        Doubt(name, text[0].lower() + text[1:], one.category, BOTH, one.name)
        for one, text in told
    ]


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
