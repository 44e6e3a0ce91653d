# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""What a policy wants and the logger never does; estimates that cannot be formed."""

from math import nan

from skope_ope.exceptions import LowOverlapWarning, SupportWarning
from skope_ope.logs.checks._finding import Finding

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
ROUNDING = 1e-9  # of a mass
MATTERS = 5e-3  # of a mass: less hardly moves an estimate


def support_findings(overlap, logs=None):
    """Return a finding if the policy wants what the logger never does."""
    if overlap is None:
        return []
    if overlap.missing_by_logger is not None:
        return [
            _unsupported(mass, f"logger {label!r} never took", OTHER_POOLING)
            for label, mass in overlap.missing_by_logger.items()
            if mass > ROUNDING
        ]
    mass = overlap.missing_mass
    if mass <= ROUNDING:
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
