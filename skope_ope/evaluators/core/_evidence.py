# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""What a value rests on besides its numbers, and what it assumes.

`Evidence` is kept by differences, groups and pickles. Assumptions are sentences: what
no log shows. Findings tell what the mean weight says against a decision.
"""

from math import isnan, nan
from typing import NamedTuple

from skope_ope.evaluators.core._implied_weights import MISSING_WEIGHT
from skope_ope.evaluators.core._mean_weight import wrong_propensities
from skope_ope.exceptions import LowOverlapWarning, PropensityWarning
from skope_ope.logs._row_container import known_range
from skope_ope.logs._shown_numbers import figure
from skope_ope.logs.checks._finding import Finding
from skope_ope.logs.sums._log_sums import has_field

RECORDED, ESTIMATED, UNKNOWN = "recorded", "estimated", "unknown"
DOUBT = 2.0  # standard errors: below, no weight need be missing


class Evidence(NamedTuple):
    """What a value rests on."""

    warnings: tuple  # what the evaluations have warned of
    effective_rounds: float  # least effective sample size; NaN: no weights are used
    propensities: str | None  # where those of the logs come from. None: not known
    evaluators: tuple  # what estimated the values
    # Share of what the policies do that would be in rare rounds of large weights, which
    # the logs do not hold: what the mean weight lacks to the one that is expected,
    # where it lacks more than `DOUBT` standard errors
    missing_weight: float = 0.0
    # Whether it is known what the policies do of what the loggers never did
    support_known: bool = True
    # Of the rewards, see `width_where_weights_tell`; NaN where that is None
    width: float = nan
    # Of the value whose mean weight is farthest from one; NaN: there are none
    mean_weight: float = nan
    # Of the value whose mean weight is farthest from one; NaN: there are none
    mean_weight_z: float = nan

    def merged(self, other):
        """Return what a value rests on that was made from both."""
        sizes = [self.effective_rounds, other.effective_rounds]
        weights = [one for one in (self, other) if not isnan(one.mean_weight)]
        far = max(weights, key=lambda one: abs(one.mean_weight - 1), default=self)
        return Evidence(
            tuple(dict.fromkeys((*self.warnings, *other.warnings))),
            min((size for size in sizes if not isnan(size)), default=nan),
            self.propensities or other.propensities,
            (*other.evaluators, *self.evaluators),
            max(self.missing_weight, other.missing_weight),
            self.support_known and other.support_known,
            other.width if isnan(self.width) else self.width,
            far.mean_weight,
            far.mean_weight_z,
        )


def missing_weight(diagnostics):
    """Return what the mean weight lacks, see `Evidence`."""
    if not diagnostics.get("mean_weight_z", 0.0) < -DOUBT:
        return 0.0
    unsupported = diagnostics.get("unsupported_mass", 0.0)
    unsupported = 0.0 if isnan(unsupported) else unsupported
    expected = diagnostics.get("expected_weight", 1.0) - unsupported
    return max(float(expected - diagnostics["mean_weight"]), 0.0)


def propensities_of(logs):
    """Return where the propensities of some logs come from."""
    if logs is None:
        return None
    if not (has_field(logs, "propensity") or has_field(logs, "logging_policy")):
        return UNKNOWN
    return ESTIMATED if getattr(logs, "propensity_estimated", False) else RECORDED


def width_where_weights_tell(logs):
    """Return the width of the rewards where only weights tell what a log may lack."""
    # None where the logging distribution is known, or propensities belong to the
    # actions alone: a mean weight below one is then chance. The range is the one that
    # is known, otherwise the observed one.
    told = any(has_field(logs, name) for name in ("logging_proba", "logging_policy"))
    if told or not has_field(logs, "propensity"):
        return None
    if getattr(logs, "_action_count_law", None) is not None:
        return None
    low, high = known_range(logs) or logs._reward_extremes or (0.0, 0.0)
    return high - low


RECORDED_DREW = (
    "The recorded propensities are those that drew the actions. Tests miss errors of "
    "a few percent."
)
NO_HIDDEN_REASON = (
    "Nothing outside the log affects both the action and the reward. The log cannot "
    "show such a hidden cause."
)
NOTHING_OUTSIDE = "if nothing outside the context drove the choices"
NO_CARRY_OVER = "An action does not change the contexts or the rewards of later rounds."
NO_CHANGE = "Contexts and rewards will be as in the log when the policy acts."
MODEL = (
    "The reward model is right for the actions of the policy that the logger did not "
    "take."
)
UNIFORM = "The logger chose uniformly among the offered actions."
NO_LOOKING = "The logger's choice did not depend on the context."
SUM_OF_SLOTS = "The value of a slate is about a sum over its slots and items."
SLOTS_ALONE = "What a slot earns does not depend on the items in other slots."
ATTENTION = "Attention depends on the position alone, as the coefficients say."
NO_LARGER_REWARD = (
    "No reward is far larger or smaller than those of the log. If you know the range "
    "of the rewards, give reward_range=(low, high) with the logs."
)
SUPPORTED = (
    "The policy takes only actions that the logger takes. Only its probabilities of "
    "the logged actions were given, so this was not checked."
)
NO_AUDIT = (
    "The log was not audited. audit(policy, logs) looks for leaks, repeated rounds, "
    "drift, wrong propensities and regions of contexts without the policy's actions. "
    "verdict(value, audit=...) uses its findings."
)
NO_POLICY = "The audit did not include the policy. audit(policy, logs) checks both."

ASSUMED_OF_WEIGHTS = (RECORDED_DREW, NO_HIDDEN_REASON)
# In the place of right propensities.
OTHERS = {
    "mean reward": (),
    "DirectMethod": (MODEL, NO_HIDDEN_REASON),
    "SlateDirectMethod": (MODEL, NO_HIDDEN_REASON),
    "Replay": (UNIFORM,),
    "ExplorationScavenging": (NO_LOOKING,),
    "PositionScavenging": (NO_LOOKING, ATTENTION),
    "ReorderingScavenging": (NO_LOOKING, ATTENTION),
    "PseudoInverse": (*ASSUMED_OF_WEIGHTS, SUM_OF_SLOTS),
    "IndependentSlotIPS": (*ASSUMED_OF_WEIGHTS, SLOTS_ALONE),
}


def rests_on_propensities(value, where=None):
    """Tell whether a value weights rounds by propensities, perhaps of some origin."""
    evidence = value._evidence
    if where is not None and evidence.propensities != where:
        return False
    return any(RECORDED_DREW in _assumed_by(name) for name in evidence.evaluators)


def assumptions_of(evidence, range_known):
    """Return what a value assumes and no log shows, in sentences."""
    found = [text for name in evidence.evaluators for text in _assumed_by(name)]
    if evidence.propensities == ESTIMATED:  # a reason of its own tells of these
        found = [text for text in found if text is not RECORDED_DREW]
    found += [] if evidence.support_known else [SUPPORTED]
    found += [] if range_known else [NO_LARGER_REWARD]
    return list(dict.fromkeys([*found, NO_CARRY_OVER, NO_CHANGE]))


def slates_assumed(evidence):
    """Return what a value assumes of slates, in sentences."""
    named = [text for name in evidence.evaluators for text in _assumed_by(name)]
    return [
        f"Assumed: {text[0].lower()}{text[1:]}"
        for text in (SUM_OF_SLOTS, SLOTS_ALONE)
        if text in named
    ]


def _assumed_by(name):
    return OTHERS.get(name, ASSUMED_OF_WEIGHTS)


BETTER, WORSE = "better", "worse"
MEAN_WEIGHT = "mean_weight"
FAR_MEAN, FAR_MEAN_Z = 0.1, 4.0  # of the mean weight of estimated propensities from one
ADVICE = (
    "Give logging_proba, the probabilities of all actions: it shows what the logger "
    "never does.",
    "Collect more rounds, or logs closer to the policy.",
)


def turned(interval, share, width):
    """Return the answers that a share of unknown decisions forbids."""
    # The interval (low, high) of a gain is about the known decisions. The others may
    # earn anything in the range of the rewards, of width W. Together the gain lies
    # between (1 - s) low - s W and (1 - s) high + s W.
    (low, high), lost = interval, nan if width is None else share * width
    known = {BETTER: (1 - share) * low > lost, WORSE: (1 - share) * high < -lost}
    return frozenset(answer for answer, holds in known.items() if not holds)


def weight_findings(evidence, interval=None):
    """Return what the mean weight says against a value, or against a gain."""
    # Weights from propensities alone average to 1 - s where a share s of what a policy
    # does is not in the log, and by chance where heavy rounds are rare: the two look
    # alike. Weights from wrong estimates may average to anything.
    found, share, mean = [], evidence.missing_weight, evidence.mean_weight
    if interval is not None and share > 0 and not isnan(evidence.width):
        seems = {BETTER} if interval[0] > 0 else {WORSE} if interval[1] < 0 else set()
        if seems & turned(interval, share, evidence.width):
            text = (
                f"Mean weight {figure(1 - share)}: the log may lack part of what this "
                "policy does, or heavy rounds are few. What is missing could turn the "
                "sign of the gain."
            )
            found += [_error(MISSING_WEIGHT, text, ADVICE, share, LowOverlapWarning)]
    is_far = abs(mean - 1) > FAR_MEAN and abs(evidence.mean_weight_z) > FAR_MEAN_Z
    if evidence.propensities == ESTIMATED and is_far:
        text = (
            f"Mean weight {figure(mean)} by the estimated propensities, where 1 is "
            f"expected ({evidence.mean_weight_z:+.1f} standard errors): they are "
            "wrong, or the logger never does part of what this policy does."
        )
        advice = (wrong_propensities("small" if mean > 1 else "large", estimated=True),)
        found += [_error(MEAN_WEIGHT, text, advice, mean - 1, PropensityWarning)]
    return found


def _error(name, text, advice, number, category):
    return Finding(name, "error", text, advice, number, abs(number), category=category)
