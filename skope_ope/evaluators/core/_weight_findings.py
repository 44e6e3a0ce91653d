# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""What the weights of the rounds tell of an estimate."""

from math import nan

from skope_ope.evaluators.core._mean_weight import EFFECT, SURE, UNSEEN
from skope_ope.evaluators.core._mean_weight_findings import (
    high_mean_finding,
    mean_weight_findings,
)
from skope_ope.evaluators.core._support_findings import (
    CLOSER,
    no_overlap_finding,
    support_findings,
)
from skope_ope.exceptions import LowOverlapWarning
from skope_ope.logs._shown_numbers import figure
from skope_ope.logs.checks._finding import Finding
from skope_ope.logs.checks._lost_rows import with_dropped

LOW_SHARE = 0.05  # effective rounds per round
LOW_SIZE = 30  # effective rounds
HIGH_WEIGHT_SHARE = 0.1  # share of one round in all weights
MISSED, MISSED_Z = 0.1, 4  # of the policy's decisions; standard errors
COMPARE_MODEL = "Compare the value with that of DoublyRobust, or with a clipped one."
COMPARE_CLIPPED = (
    "Compare the value with clipped ones (cmax=...), and with those of other reward "
    "models: most of the estimate comes from the model."
)
COMPARE_SLATES = (
    "Compare the rows of evaluate(policy, logs): PseudoInverse needs fewer rounds than "
    "SlateIPS."
)
COMPARE_SLOTS = (
    f"{COMPARE_SLATES} IndependentSlotIPS needs the fewest, and it is right if no slot "
    "affects the reward of another."
)
APART = "If they are far apart, collect logs closer to the policy."
OTHER_SLATES = (
    "The candidates were not passed, or are those of other pages: pass those of each "
    "page as candidates=... of SlateLogs or SlateLogs.from_frame.",
    "The logging policy did not compose these slates: check its parameters, or the "
    "recorded propensities.",
    "The policy's probabilities were made from the logged slates, or learned from "
    "these rounds: evaluate it on rounds that it has not seen.",
)


def overlap_findings(
    overlap, logs=None, target=None, uses_model=False, compare=None, counted=None
):
    """Return what the weights of a policy on some logs tell."""
    # Few rounds are no lack of overlap: an effective size below 30 counts only where it
    # is also below half of the rounds, and the share of one round only where it is five
    # times an equal share.
    if overlap is None:
        return []
    found = support_findings(overlap, logs)
    if overlap.sum_w == 0:
        return [*found, no_overlap_finding()]
    if compare is None:
        compare = COMPARE_CLIPPED if uses_model else COMPARE_MODEL
    counted = overlap if counted is None else counted
    found += few_rounds_findings(counted, compare)
    about = {}
    if target is not None:
        about = {"logged_only": target.logged_only, "given": target.array is not None}
    off = mean_weight_findings(overlap, logs, **about)
    if not found and not off:
        found = _missed_findings(counted, compare, logs)
    return found + off


def _missed_findings(overlap, compare, logs):
    """Return a finding where rare large weights are missing from the logs."""
    # That is no fault of a log: in many right ones of sharp loggers the mean weight is
    # low. But the rounds that are missing are so in the estimate, too, and its error
    # does not know of them.
    mean = overlap.mean_weight
    if mean > 1 - MISSED or not overlap.mean_weight_z < -MISSED_Z:
        return []
    return [
        Finding(
            "low_overlap",
            "warning",
            f"The weights of the logged rounds average {figure(mean)}, where 1 is "
            f"expected ({overlap.mean_weight_z:+.1f} standard errors). About "
            f"{1 - mean:.0%} of the policy's decisions would be in rare rounds of "
            "large weight, and the log has none of these. The value and its error "
            "leave them out.",
            with_dropped([f"{compare} {CLOSER}"], logs),
            number=mean,
            effect=1 - mean,
            category=LowOverlapWarning,
        )
    ]


def few_rounds_findings(overlap, compare, last=CLOSER):
    """Return a finding where few rounds have most of the weight."""
    size, n_rounds, total = overlap.effective_sample_size, overlap.n, overlap.sum_w
    # weights of slates may be negative, and their largest more than their sum
    share = overlap.max_w / total if total > 0 else nan
    if size < LOW_SHARE * n_rounds or size < min(LOW_SIZE, n_rounds / 2):
        part = f", {share:.1%} of all" if share <= 1 else ""
        number = size
        told = (
            f"The estimate rests on {size:.1f} effective rounds of {n_rounds} (largest "
            f"weight {figure(overlap.max_w)}{part})."
        )
    elif share > max(HIGH_WEIGHT_SHARE, 5 / n_rounds):
        number = share
        told = (
            f"One round carries {share:.1%} of all weight (weight "
            f"{figure(overlap.max_w)})."
        )
    else:
        return []
    return [
        Finding(
            "low_overlap",
            "warning",
            told,
            (f"{compare} {last}",),
            number=number,
            effect=size / n_rounds,
            category=LowOverlapWarning,
        )
    ]


def slate_weight_findings(overlap, balance, expected, supported, by_slot=False):
    """Return what the weights of slates tell."""
    # Weights of slates may be negative: those that were not met are taken to be at
    # least three times the lowest.
    compare = COMPARE_SLOTS if by_slot else COMPARE_SLATES
    found = few_rounds_findings(overlap, compare, APART)
    if supported and expected > 0 and balance.mean_weight - 1 > EFFECT * expected:
        evidence = balance.evidence_above(UNSEEN * min(balance.min_w, 0.0))
        if evidence > SURE:
            mean = overlap.mean_weight
            found.append(high_mean_finding(mean, evidence, OTHER_SLATES, expected))
    return found
