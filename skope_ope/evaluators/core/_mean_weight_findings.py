# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""What weights that do not average to one tell, and what may have caused it."""

from math import exp, inf, isnan

from skope_ope.evaluators.core._mean_weight import (
    EFFECT,
    SURE,
    UNSEEN,
    USUAL,
    surprise,
)
from skope_ope.exceptions import PropensityWarning
from skope_ope.logs._propensity_audit import estimating_step
from skope_ope.logs._shown_numbers import figure
from skope_ope.logs.checks._finding import Finding
from skope_ope.logs.checks._lost_rows import with_dropped
from skope_ope.logs.checks._propensity_fit import OTHER_CLASSIFIER

MADE_FROM_ACTIONS = (
    "The policy's probabilities were made from the logged actions, or learned from "
    "these rounds. Evaluate a policy that was fixed before, on rounds that it has "
    "not seen."
)
NO_DISTRIBUTION = (
    "The array does not hold pi(a_i | x_i), the policy's probability of each logged "
    "action. Pass the probabilities of all actions, shape (n_rounds, n_actions): "
    "they are checked to sum to one."
)
NEVER_TAKEN_THERE = (
    "In some contexts the logger never takes the policy's actions, and about this "
    "share of the policy's decisions is not in the logs. Evaluate a policy that "
    "takes only actions that the logger takes, or give logging_proba, the "
    "probabilities of all actions: then it is known where."
)


def mean_weight_findings(overlap, logs=None, logged_only=False, given=False):
    """Return what a mean weight other than one tells."""
    # Upwards chance alone is no excuse. Downwards it is, wherever weights are possible
    # that are large and rare: they must be as small as those that the propensities have
    # shown.
    if overlap.sums.first is None or not 0 < overlap.sum_w2 < inf:
        return []
    if not isnan(overlap.constant_weight):
        return _constant_findings(overlap, logs, logged_only, given)
    mean = overlap.mean_weight
    if mean > 1 + EFFECT:
        evidence = overlap.evidence_above()
        if evidence > SURE:
            causes = _causes_above(logs, logged_only, given)
            return [high_mean_finding(mean, evidence, causes)]
    if mean >= 1 - EFFECT or overlap.missing_mass > 1e-9 or logs is None:
        return []
    largest = max(UNSEEN / logs._lowest_propensity, UNSEEN * overlap.max_w, USUAL)
    evidence = overlap.evidence_below(float(largest))
    if evidence <= SURE:
        return []
    return [_low_mean_finding(mean, evidence, _causes_below(logs, logged_only))]


def high_mean_finding(mean, evidence, causes, expected=1.0):
    """Return the finding that weights average to more than they should."""
    return Finding(
        "mean_weight",
        "error",
        f"The mean importance weight is {figure(mean)}, where at most "
        f"{figure(expected)} is expected ({_chance_text(evidence)}). So weighted "
        f"rewards count {figure(mean / expected, 3)} times too much.",
        causes,
        number=evidence,
        effect=mean / expected - 1,
        category=PropensityWarning,
    )


def _low_mean_finding(mean, evidence, causes):
    return Finding(
        "mean_weight",
        "warning",
        f"The mean importance weight is {figure(mean)}, where 1 is expected. Rare "
        f"large weights do not explain it ({_chance_text(evidence)}).",
        causes,
        number=evidence,
        effect=mean - 1,
        category=PropensityWarning,
    )


def _constant_findings(overlap, logs, logged_only, given):
    """Return what weights that are all alike tell: they have no errors to count in."""
    weight = overlap.constant_weight
    if abs(weight - 1) <= EFFECT or overlap.missing_mass > 1e-9:
        return []
    if weight > 1:
        units = int(overlap.sums.frame.units.sum())
        if surprise(weight, units) <= SURE:
            return []
        causes = _causes_above(logs, logged_only, given)
    elif logs is None or _never_left(logs):
        return []
    else:
        causes = _causes_below(logs, logged_only)
    return [
        Finding(
            "constant_weight",
            "error",
            f"All importance weights are {figure(weight)}, where their mean should be "
            f"1: weighted rewards count {figure(weight, 3)} times what they should.",
            causes,
            number=weight,
            effect=weight - 1,
            category=PropensityWarning,
        )
    ]


def _never_left(logs):
    """Whether a right logger may have done the same thing in all rounds by chance."""
    # What the policy does more often than the logger is then what was not logged.
    chance = logs._mean_log_propensity
    units = len(logs) if logs.group is None else logs.n_groups
    return -chance * units <= SURE or len(logs._unseen) > 0


def _chance_text(evidence):
    chance = max(exp(-max(evidence, 0.0)), 1e-12)
    return f"probability below {chance:.0e} if the log is right"


def _causes_above(logs, logged_only, given):
    """Return what may have made weights too large, the most likely first."""
    wrong = wrong_propensities("small", logs)
    causes = (wrong, MADE_FROM_ACTIONS)
    if logged_only:
        causes = (NO_DISTRIBUTION, MADE_FROM_ACTIONS, wrong)
    elif given:
        causes = (MADE_FROM_ACTIONS, wrong)
    return with_dropped(causes, logs)


def _causes_below(logs, logged_only):
    """Return the same where they are too small."""
    causes = (NEVER_TAKEN_THERE, wrong_propensities("large", logs))
    return with_dropped((NO_DISTRIBUTION, *causes) if logged_only else causes, logs)


def wrong_propensities(size, logs=None, estimated=False):
    """Return what to do where propensities are too small, or too large."""
    if estimated or getattr(logs, "propensity_estimated", False):
        return f"The estimated propensities are too {size}: {OTHER_CLASSIFIER}"
    step = "" if logs is None else f", or estimate them with {estimating_step(logs)}"
    return f"The propensities are too {size}: check how they were logged{step}."
