# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""What weights and support tell against an estimate, and when none can be formed."""

from math import nan

from skope_ope.evaluators.core._mean_weight import (
    EFFECT,
    EVIDENT,
    UNSEEN,
    high_mean_finding,
    mean_weight_findings,
)
from skope_ope.exceptions import LowOverlapWarning, SupportWarning
from skope_ope.logs._shown_numbers import figure
from skope_ope.logs.checks._finding import Finding, with_dropped

CLOSER = "Collect logs closer to the policy."
LEFT_OUT = (
    "The log has no rewards of these actions: the estimate leaves them out, or "
    "extrapolates them with a reward model. The bias is at most this share of the "
    "range of the rewards. Evaluate a policy that takes only logged actions, or "
    "collect logs with these actions."
)
OTHER_POOLING = (
    "Rounds of this logger have no rewards of these actions. With pooling='balanced' "
    "it is enough that some logger takes them. A weighted estimate leaves the logger "
    "out with divergences={...: np.inf}."
)
ROUNDING_OF_MASS = 1e-9  # of a mass
MATTERS = 5e-3  # of a mass: less hardly moves an estimate


def support_findings(overlap, logs=None):
    """Return a finding if the policy wants what the logger never does."""
    if overlap is None:
        return []
    if overlap.missing_by_logger is not None:
        return [
            _unsupported(mass, f"logger {label!r} never took", OTHER_POOLING)
            for label, mass in overlap.missing_by_logger.items()
            if mass > ROUNDING_OF_MASS
        ]
    mass = overlap.missing_mass
    if mass <= ROUNDING_OF_MASS:
        return []
    if logs is not None and _are_stood_for(mass, logs):
        return [_left_out_by_chance(mass, logs)]
    return [_unsupported(mass, overlap.lacking, LEFT_OUT)]


def _are_stood_for(mass, logs):
    """Whether chance alone left actions out, and weights make up for what they miss."""
    # Of actions that are about alike for the logger each has a share of 1 / K. The
    # weights of those that were logged then average to (1 - mass) / (1 - U / K), which
    # is one for a policy that wants no more of the U others than the logger.
    logged = 1 - len(logs._unseen) / logs.n_actions
    whole = 1 - mass >= (1 - MATTERS) * logged
    return mass >= MATTERS and whole and logs._left_out_by_chance


def _left_out_by_chance(mass, logs):
    return Finding(
        "unsupported_mass",
        "note",
        f"The policy gives {mass:.2%} of its probability to {len(logs._unseen):,} of "
        f"{logs.n_actions:,} actions that are missing in the log by chance: by the "
        "propensities the logger takes them about as often, and weighted estimates "
        "allow for it.",
        number=mass,
        effect=mass,
        category=SupportWarning,
    )


def _unsupported(mass, what, advice):
    matters = mass >= MATTERS
    share = f"{mass:.2%}" if mass >= 1e-4 else f"{mass:.1g}"
    return Finding(
        "unsupported_mass",
        "warning" if matters else "note",
        f"The policy gives {share} of its probability to actions that {what}.",
        (advice,),
        number=mass,
        effect=mass,
        category=SupportWarning,
    )


def slate_support_findings(lost, what):
    """Return a finding where the logger never shows some of a policy's slates."""
    if not lost > 0:
        return []
    return [
        Finding(
            "unsupported_mass",
            "warning",
            f"The logger never shows {lost:.2%} of the policy's {what}: the log has "
            "no rewards of these, and the estimate leaves them out.",
            number=lost,
            effect=lost,
            category=SupportWarning,
        )
    ]


def no_overlap_finding():
    """Return the finding that the logged rounds say nothing of a policy."""
    return Finding(
        "low_overlap",
        "error",
        "The policy gives all logged actions probability 0, so the logged rewards have "
        "no information on it.",
        (CLOSER,),
        number=0.0,
        category=LowOverlapWarning,
    )


def no_round_finding(name):
    """Return the finding that an evaluator found no round for its estimate."""
    return Finding(
        "no_estimate",
        "error",
        f"{name} has no estimate: the policy takes no logged action. The value is NaN.",
        number=nan,
        category=SupportWarning,
    )


def not_normalised_finding(name, total):
    """Return the finding that weights sum to nothing, or to less."""
    return Finding(
        "no_estimate",
        "error",
        f"{name} has no estimate: the weights sum to {total:.4g}, and the value would "
        "be divided by this sum. The value is NaN.",
        number=total,
        category=LowOverlapWarning,
    )


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
        if evidence > EVIDENT:
            mean = overlap.mean_weight
            found.append(high_mean_finding(mean, evidence, OTHER_SLATES, expected))
    return found
