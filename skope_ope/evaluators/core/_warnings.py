# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Warnings about estimates, with the numbers that triggered them."""

from math import isnan

import numpy as np

from skope_ope.evaluators.core._estimate import FEW_CLUSTERS
from skope_ope.evaluators.core._loggers import SURPRISE, chance_if_uniform
from skope_ope.evaluators.core._mean_weight import mean_weight_findings
from skope_ope.evaluators.core._overlap_findings import no_round_finding
from skope_ope.exceptions import (
    FewGroupsWarning,
    LearnedRoundsWarning,
    LowOverlapWarning,
    PropensityWarning,
)
from skope_ope.logs._shown_numbers import figure
from skope_ope.logs.checks._finding import Finding
from skope_ope.logs.checks._log_facts import numeric_action_findings
from skope_ope.logs.checks._order import trailing_zero_findings
from skope_ope.logs.checks._propensity_sums import group_sizes
from skope_ope.logs.sums._log_sums import has_field
from skope_ope.policies._learned_rounds import LearnedRounds

FEW_ACCEPTED = 30  # accepted rounds
# An audit looks at a log once; searches and repeated runs look at thousands of parts.
LATE_REWARDS_CHANCE = 1e-7
UNEVEN = 0.05  # of the mean count, that an action is off where it matters
ROUNDING_OF_MEAN = 1e-9  # of the range of the rewards, which a mean may leave so far
SPLIT = (
    "Evaluate it on other rounds: train, test = train_test_split(logs); "
    "policy.fit(train); evaluate(policy, test)."
)
SPLIT_GROUPS = (  # a split by rounds puts a user into both parts
    "Evaluate it on other groups: train, test = next(GroupShuffleSplit().split(logs, "
    "groups=logs.group)); policy.fit(logs[train]); evaluate(policy, logs[test])."
)
FEW_EXPECTED = 5  # accepted rounds of a policy that acts as the logger does


def group_warnings(estimate):
    """Return a warning where few groups tell how sure an estimate is."""
    sizes, effective = estimate.frame.cluster_sizes, estimate.frame.effective_clusters
    if len(sizes) < 2:
        return (
            FewGroupsWarning(
                "all rounds belong to one group, so the differences between groups "
                "are not known, and the standard error is NaN. Leave out group=... "
                "only if the rounds do not depend on each other.",
                float(len(sizes)),
            ),
        )
    unknown = isnan(estimate.standard_error) and not isnan(estimate.value)
    # an error that rounding took is a matter of the terms, not of their groups
    if unknown and not (estimate.rests_on_one or estimate.lost):
        return (
            FewGroupsWarning(
                "a part of the logs with its own variance (a logger, an arm) has "
                "rounds of one group only: the standard error is NaN.",
                1.0,
            ),
        )
    if effective >= FEW_CLUSTERS:
        return ()
    return (
        FewGroupsWarning(
            f"the {len(sizes)} groups count as {effective:.1f} of equal size. With "
            f"fewer than {FEW_CLUSTERS} the standard error is uncertain, and the "
            "interval has at most as many degrees of freedom.",
            effective,
        ),
    )


def outside_warnings(value, limits):
    """Return a warning where a value lies outside its known range."""
    if limits is None or isnan(value) or limits[0] <= value <= limits[1]:
        return ()
    low, high = limits
    near = min(max(value, low), high)
    if abs(value - near) <= ROUNDING_OF_MEAN * (high - low):
        return ()
    text = (
        f"the value, {figure(value)}, lies outside the range of the rewards, "
        f"{figure(low)} to {figure(high)}, because the weights do not average to one. "
        f"Its default interval is built around {figure(near)}, the nearest possible "
        "value. Compare with an evaluator that divides by the weights, or subtracts "
        "a model."
    )
    return (LowOverlapWarning(text, value),)


def one_unit_warnings(estimate):
    """Return a warning where one round, or group, has all the weight of a ratio."""
    if not estimate.rests_on_one:
        return ()
    unit = "group" if estimate.frame.clustered else "round"
    return (
        LowOverlapWarning(
            f"one {unit} has all the weight, so the error of the value is not known, "
            "and the standard error is NaN. Collect rounds in which the logger takes "
            "the policy's actions.",
            1.0,
        ),
    )


def learned_findings(policy, logs):
    """Return a finding if the policy has learned from rounds it is evaluated on."""
    return findings_of_learned(LearnedRounds.of(policy, logs), has_groups(logs))


def has_groups(logs):
    """Tell whether rounds, or sums of them, have groups."""
    return has_field(logs, "group")


def findings_of_learned(learned, grouped=False):
    """Return a finding if a policy has learned from some rounds."""
    if not learned.count:
        return []
    return [
        Finding(
            "learned_rounds",
            "error",
            f"The policy has learned from {learned.share:.1%} of these rounds, so its "
            "value may be too good.",
            (
                f"{SPLIT_GROUPS if grouped else SPLIT} For files, scan those that it "
                "has not learned from, or use logs.filter(...).",
            ),
            number=learned.share,
            effect=learned.share,
            rows=learned.rows,
            category=LearnedRoundsWarning,
        )
    ]


def learned_warnings(policy, logs):
    """Return a warning if the policy has learned from rounds it is evaluated on."""
    return warnings_of(learned_findings(policy, logs))


def rounds_warnings(policy, logs):
    """Return what is wrong with the rounds for any estimate of a policy."""
    return warnings_of_rounds(LearnedRounds.of(policy, logs), logs)


def warnings_of_rounds(learned, logs):
    """Return the same from what is known of the policy."""
    found = findings_of_learned(learned, has_groups(logs))
    return warnings_of(found) + _warnings_of_log(logs)


def rounds_warnings_of_sums(sums, policy):
    """Return what is wrong with the rounds for any estimate, from `PartSums`."""
    learned = getattr(sums, "learned", {}).get(policy)
    grouped = sums.log is not None and has_groups(sums.log)
    found = [] if learned is None else findings_of_learned(learned, grouped)
    return warnings_of(found) + ([] if sums.log is None else _warnings_of_log(sums.log))


def _warnings_of_log(logs):
    """Return warnings of late rewards, and of actions that are numbers."""
    late = trailing_zero_findings(logs, chance_below=LATE_REWARDS_CHANCE)
    return warnings_of([*late, *numeric_action_findings(logs)])


def warnings_of(findings):
    """Return the warnings that carry the alarms among some findings."""
    return [one.warning() for one in findings if one.is_alarm]


def propensity_warnings(logs):
    """Return warnings where propensities do not fit the logged actions."""
    found = logs._quick_propensity_findings[1]
    return warnings_of(one for one in found if one.is_alarm)


def learning_warnings(logs):
    """Return a warning where the logger learned from the rewards of these rounds."""
    return warnings_of(logs._learning_findings)


def unformed_warning(evaluator):
    """Return the warning that goes with a NaN."""
    return no_round_finding(type(evaluator).__name__).warning()


def history_overlap_warnings(logs, overlap):
    """Return warnings where propensities do not fit the logs, or a history in them."""
    # What the policy wanted of actions that are never logged is not known: weights that
    # are too small on average tell nothing.
    found = mean_weight_findings(overlap)
    return propensity_warnings(logs) + warnings_of(found)


def few_accepted_warnings(n_accepted, n_rounds):
    """Return a warning where a history has some rounds, but few."""
    if not 0 < n_accepted < min(FEW_ACCEPTED, n_rounds / 2):
        return []
    return [
        LowOverlapWarning(
            f"only {n_accepted} of {n_rounds} rounds were accepted into the history.",
            n_accepted,
        )
    ]


def none_accepted_warning(ratio, n_rounds):
    """Return the warning that goes with the NaN of an empty history."""
    why = "The logger hardly takes the actions that the policy takes."
    if ratio * n_rounds < FEW_EXPECTED:
        why = (
            f"The acceptance ratio is {figure(ratio, 3)}, so about "
            f"{ratio * n_rounds:.2g} of {n_rounds} rounds are accepted. If the "
            "ratio is the smallest propensity of the log, a single tiny propensity "
            "decides it. Correct that propensity, or use more logs."
        )
    return LowOverlapWarning(
        f"no logged round was accepted (T = 0): the value is NaN. {why}", 0
    )


def uneven_action_warnings(logs):
    """Return a warning where a logger that should be uniform was not."""
    # Pearson's test of equal frequencies of all actions, where all are always offered,
    # and an action that was logged 5% more or less often than the average one.
    if logs.available is not None:
        return []
    # rounds of a group may all repeat one choice
    chance = chance_if_uniform(logs._action_counts / group_sizes(logs._group_sizes)[0])
    effect = np.abs(logs._action_counts / logs._action_counts.mean() - 1).max()
    if chance >= SURPRISE or effect < UNEVEN:
        return []
    told = "and the logs have no propensities"
    if logs.propensity is not None:
        told = "though their recorded propensities are"
    return [
        PropensityWarning(
            f"the logged actions are not equally frequent (probability {chance:.1g} "
            f"under a uniform logger), {told}. Replay is biased unless the logger was "
            "uniform. RejectionSampling takes any logger with known propensities.",
            chance,
        )
    ]
