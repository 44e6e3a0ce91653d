# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""When an estimate deserves a warning, and with which number."""

from skope_ope.exceptions import (
    LowOverlapWarning,
    PropensityWarning,
    SupportWarning,
)

LOW_SHARE = 0.05  # effective rounds per round
LOW_SIZE = 30  # effective rounds
HIGH_WEIGHT_SHARE = 0.1  # share of one round in all weights
HIGH_Z = 3  # mean weight against 1, in standard errors


def overlap_warnings(evaluator, overlap):
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
    size, n_rounds = overlap.effective_sample_size, overlap.n
    share = overlap.max_w / overlap.sum_w
    if size < LOW_SHARE * n_rounds or size < min(LOW_SIZE, n_rounds / 2):
        found.append(
            LowOverlapWarning(
                f"the estimate rests on {size:.1f} effective rounds of {n_rounds} "
                f"(largest weight {overlap.max_w:.4g}, {share:.1%} of all). Compare "
                "with DoublyRobust or clipping, or collect logs closer to the policy.",
                size,
            )
        )
    elif share > max(HIGH_WEIGHT_SHARE, 5 / n_rounds):
        found.append(
            LowOverlapWarning(
                f"one round carries {share:.1%} of all weight (weight "
                f"{overlap.max_w:.4g}). Compare with DoublyRobust or clipping.",
                share,
            )
        )
    z = overlap.mean_weight_z
    # Unsupported mass lowers the mean weight by itself, and was reported above.
    if overlap.missing_mass <= 1e-9 and abs(z) > HIGH_Z:
        found.append(
            PropensityWarning(
                f"the mean importance weight is {overlap.mean_weight:.4g}, {z:+.1f} "
                "standard errors from 1: either the propensities are wrong or rare "
                "large weights are missing from the logs. Check diagnostics, or "
                "estimate the propensities with PropensityEstimator.",
                z,
            )
        )
    return found


def support_warnings(overlap):
    """Return a warning if the policy wants what the logger never does."""
    mass = 0.0 if overlap is None else overlap.missing_mass
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


def propensity_warnings(logs):
    """Return a warning where propensities do not fit the logged actions."""
    z = logs.inverse_propensity_z
    if not abs(z) > HIGH_Z:
        return []
    return [
        PropensityWarning(
            f"the mean of 1 / propensity is {z:+.1f} standard errors from the number "
            "of actions: the recorded propensities do not fit the logged actions. "
            "Check how they were logged, or estimate them with PropensityEstimator.",
            z,
        )
    ]


def unformed_warning(evaluator):
    """Return the warning that goes with a NaN."""
    return SupportWarning(
        f"{type(evaluator).__name__} cannot form an estimate: no logged round bears on "
        "the policy. The value is NaN.",
        float("nan"),
    )
