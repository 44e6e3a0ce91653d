# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Warnings about estimates, with the numbers that triggered them."""

from math import isnan

from skope_ope.evaluators.core._estimate import FEW_CLUSTERS
from skope_ope.evaluators.core._uniform_counts import SURPRISE, chance_if_uniform
from skope_ope.exceptions import (
    FewGroupsWarning,
    LearnedRoundsWarning,
    LowOverlapWarning,
    PropensityWarning,
    SupportWarning,
)
from skope_ope.logs._propensity_audit import (
    action_count_chance,
    action_count_z,
    estimating_step,
    group_sizes,
)
from skope_ope.logs._validation import plain
from skope_ope.policies._learned_rounds import learned_share

LOW_SHARE = 0.05  # effective rounds per round
LOW_SIZE = 30  # effective rounds
HIGH_WEIGHT_SHARE = 0.1  # share of one round in all weights
HIGH_Z = 3  # mean weight against 1, in standard errors
HIGH_HISTORY_Z = 4.5  # weights of a policy that learns are far from normal
FEW = 30  # accepted rounds


def group_warnings(estimate):
    """Return a warning where few groups tell how sure an estimate is."""
    sizes, effective = estimate.frame.cluster_sizes, estimate.frame.effective_clusters
    if len(sizes) < 2:
        return (
            FewGroupsWarning(
                "all rounds belong to one group: nothing tells how groups differ, and "
                "the standard error is NaN. Leave out group=... only if the rounds do "
                "not depend on each other.",
                float(len(sizes)),
            ),
        )
    if isnan(estimate.standard_error) and not isnan(estimate.value):
        return (
            FewGroupsWarning(
                "a part of the logs with a variance of its own (a logger, an arm) has "
                "rounds of one group only: the standard error is NaN.",
                1.0,
            ),
        )
    if effective >= FEW_CLUSTERS:
        return ()
    return (
        FewGroupsWarning(
            f"the {len(sizes)} groups count as {effective:.1f} of equal size: with "
            f"fewer than {FEW_CLUSTERS} the standard error is uncertain, and the "
            "interval has at most as many degrees of freedom.",
            effective,
        ),
    )


def overlap_warnings(overlap, logs=None):
    """Return warnings about the weights of a policy on some logs.

    Few rounds are no lack of overlap: an effective size below 30 counts only where
    it is also below half of the rounds, and the share of one round only where it is
    five times an equal share.
    """
    if overlap is None:
        return []
    found = support_warnings(overlap)
    if overlap.sum_w == 0:
        found.append(
            LowOverlapWarning(
                "no logged action has a positive probability under the policy: the "
                "logged rewards say nothing about it.",
                0.0,
            )
        )
        return found
    found += few_rounds_warnings(overlap, "with DoublyRobust or clipping")
    return found + mean_weight_warnings(overlap, logs)


def few_rounds_warnings(overlap, remedy):
    """Return a warning where few rounds have most of the weight.

    Parameters
    ----------
    overlap : Overlap
        Sums of the weights.
    remedy : str
        With what to compare the estimate.
    """
    size, n_rounds, total = overlap.effective_sample_size, overlap.n, overlap.sum_w
    # weights of slates may be negative, and their largest more than their sum
    share = overlap.max_w / total if total > 0 else float("nan")
    if size < LOW_SHARE * n_rounds or size < min(LOW_SIZE, n_rounds / 2):
        part = f", {share:.1%} of all" if share <= 1 else ""
        return [
            LowOverlapWarning(
                f"the estimate rests on {size:.1f} effective rounds of {n_rounds} "
                f"(largest weight {overlap.max_w:.4g}{part}). Compare {remedy}, or "
                "collect logs closer to the policy.",
                size,
            )
        ]
    if share > max(HIGH_WEIGHT_SHARE, 5 / n_rounds):
        return [
            LowOverlapWarning(
                f"one round carries {share:.1%} of all weight (weight "
                f"{overlap.max_w:.4g}). Compare {remedy}.",
                share,
            )
        ]
    return []


def mean_weight_warnings(overlap, logs=None, high_z=HIGH_Z):
    """Return a warning if the mean weight is not one, as it is in expectation."""
    z = overlap.mean_weight_z
    # Unsupported mass lowers the mean weight by itself, and is reported on its own.
    if overlap.missing_mass > 1e-9 or not abs(z) > high_z:
        return []
    return [
        _off_mean_warning(
            f"the mean importance weight is {overlap.mean_weight:.4g}",
            z,
            1.0,
            "either the propensities are wrong or rare large weights are missing from "
            "the logs. Check diagnostics, or estimate the propensities with "
            f"{estimating_step(logs)}.",
        )
    ]


def slate_weight_warnings(overlap, balance, expected, supported):
    """Return warnings about the weights of slates.

    Parameters
    ----------
    overlap : Overlap
        Sums of the weights.
    balance : Overlap
        Sums of the weights less the means that they should have, plus one; `overlap`
        where these are one.
    expected : float
        The mean that the weights should have.
    supported : bool
        Whether this mean is known.
    """
    found, z = few_rounds_warnings(overlap, "several evaluators"), balance.mean_weight_z
    if supported and abs(z) > HIGH_Z:
        found.append(
            _off_mean_warning(
                f"the mean weight is {overlap.mean_weight:.4g}",
                z,
                expected,
                "either the logging policy is not the one that composed the slates, or "
                "rare slates with large weights are missing from the logs.",
            )
        )
    return found


def _off_mean_warning(mean, z, expected, why):
    text = f"{mean}, {z:+.1f} standard errors from {expected:.4g}: {why}"
    return PropensityWarning(text, z)


def learned_warnings(policy, logs):
    """Return a warning if the policy has learned from rounds it is evaluated on."""
    share = learned_share(policy, logs)
    if not share:
        return ()
    return (
        LearnedRoundsWarning(
            f"the policy has learned from {share:.1%} of these rounds: its value is "
            "too good, for it knows what happened there. Evaluate it on others: "
            "train, test = train_test_split(logs); policy.fit(train); "
            "evaluate(policy, test).",
            share,
        ),
    )


def support_warnings(overlap):
    """Return a warning if the policy wants what the logger never does."""
    if overlap is None:
        return []
    if overlap.missing_by_logger is not None:
        return _logger_support_warnings(overlap.missing_by_logger)
    mass = overlap.missing_mass
    if mass <= 1e-9:
        return []
    return [
        SupportWarning(
            f"the policy gives {mass:.2%} of its probability to actions that the "
            "logger never took: the estimate leaves out (or, with a reward model, "
            "extrapolates) what they would bring. The bias is at most that share of "
            "the range of the rewards.",
            mass,
        )
    ]


def slate_support_warnings(lost, what):
    """Return a warning where the logger never shows some of a policy's slates.

    Parameters
    ----------
    lost : float
        Their share, NaN where it is not known.
    what : {"slates", "slots"}
        What is counted.
    """
    if not lost > 0:
        return []
    return [
        SupportWarning(
            f"the logger never shows {lost:.2%} of the policy's {what}: the estimate "
            "leaves out what they would bring.",
            lost,
        )
    ]


def no_round_warning(name):
    """Return the warning that an evaluator found no round for its estimate."""
    return SupportWarning(
        f"{name} cannot form an estimate: no logged round bears on the policy. The "
        "value is NaN.",
        float("nan"),
    )


def not_normalised_warning(name, total):
    """Return the warning that weights sum to nothing, or to less."""
    return LowOverlapWarning(
        f"{name} cannot form an estimate: the weights sum to {total:.4g}, and what is "
        "normalised by them is no estimate. The value is NaN.",
        total,
    )


def _logger_support_warnings(missing):
    return [
        SupportWarning(
            f"the policy gives {mass:.2%} of its probability to actions that logger "
            f"{label!r} never took: its rounds leave out what they would bring. "
            "pooling='balanced' asks only that some logger took them; a weighted "
            "estimate leaves the logger out with divergences={...: np.inf}.",
            mass,
        )
        for label, mass in missing.items()
        if mass > 1e-9
    ]


def propensity_warnings(logs):
    """Return a warning where propensities do not fit the logged actions."""
    z = logs.inverse_propensity_z
    if not abs(z) > HIGH_Z:
        return _count_warnings(logs)
    return [
        PropensityWarning(
            f"the mean of 1 / propensity is {z:+.1f} standard errors from the number "
            "of actions: the recorded propensities do not fit the logged actions. "
            "Check how they were logged, or estimate them with "
            f"{estimating_step(logs)}.",
            z,
        )
    ]


def _count_warnings(logs):
    """Return a warning where an action is logged too often, or too rarely."""
    if logs.action_count_law is None or logs.sample_weight is not None:
        return []
    chance = logs.n_actions * action_count_chance(logs)  # any of them may be the worst
    worst = int(chance.argmin())
    if chance[worst] >= SURPRISE:
        return []
    z = float(action_count_z(logs)[worst])
    return [
        PropensityWarning(
            f"action {plain(logs.actions[worst])!r} was logged "
            f"{int(logs.action_counts[worst])} times, where the propensities let "
            f"expect {logs.action_count_law[0][worst]:.6g} ({z:+.1f} standard errors): "
            "they do not fit the logged actions. Check how they were logged, or "
            f"estimate them with {estimating_step(logs)}.",
            z,
        )
    ]


def unformed_warning(evaluator):
    """Return the warning that goes with a NaN."""
    return no_round_warning(type(evaluator).__name__)


def history_overlap_warnings(logs, overlap):
    """Return warnings where propensities do not fit the logs, or a history in them."""
    warned = propensity_warnings(logs)
    # Mass on actions that are never logged lowers the mean weight by itself.
    left_out = logs.unseen.size or logs.propensity.max() >= 1
    if overlap.mean_weight_z > 0 or not left_out:
        warned += mean_weight_warnings(overlap, logs, HIGH_HISTORY_Z)
    return warned


def few_accepted_warnings(n_accepted, n_rounds):
    """Return a warning where a history has some rounds, but few."""
    if not 0 < n_accepted < min(FEW, n_rounds / 2):
        return []
    return [
        LowOverlapWarning(
            f"only {n_accepted} of {n_rounds} rounds were accepted into the history.",
            n_accepted,
        )
    ]


def none_accepted_warning():
    """Return the warning that goes with the NaN of an empty history."""
    return LowOverlapWarning(
        "no logged round was accepted (T = 0): the value is NaN. The logger hardly "
        "takes the actions that the policy takes, or the rounds are too few for "
        "their acceptance ratio.",
        0,
    )


def uneven_action_warnings(logs):
    """Return a warning where a logger that should be uniform was not.

    Pearson's test of equal frequencies of all actions, where all are always offered.
    """
    if logs.available is not None:
        return []
    # rounds of a group may all repeat one choice
    chance = chance_if_uniform(logs.action_counts / group_sizes(logs)[0])
    if chance >= SURPRISE:
        return []
    told = "and the logs have no propensities"
    if logs.propensity is not None:
        told = "though their recorded propensities are"
    return [
        PropensityWarning(
            "the logged actions are not equally frequent (probability "
            f"{chance:.1g} under a uniform logger), {told}: Replay is "
            "biased unless logging was uniform. RejectionSampling takes "
            "any logger whose propensities are known.",
            chance,
        )
    ]
