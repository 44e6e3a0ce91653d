# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""What a policy wants and the logger never does; estimates that cannot be formed."""

from math import nan

from skope_ope.exceptions import LowOverlapWarning, SupportWarning
from skope_ope.logs.checks._finding import Finding

LEFT_OUT = (
    "The estimate leaves out (or, with a reward model, extrapolates) what they would "
    "bring: the bias is at most that share of the range of the rewards. Evaluate a "
    "policy that stays within the logged actions, or collect logs that hold them."
)
OTHER_POOLING = (
    "Its rounds leave out what they would bring. pooling='balanced' asks only that "
    "some logger took them; a weighted estimate leaves the logger out with "
    "divergences={...: np.inf}."
)
ROUNDING = 1e-9  # of a mass
MATTERS = 5e-3  # of a mass: less hardly moves an estimate


def support_findings(overlap, logs=None):
    """Return a finding if the policy wants what the logger never does.

    Parameters
    ----------
    overlap : Overlap or None
        Of the policy with the logs.
    logs : BanditLogs, default=None
        The rounds, which tell whether chance alone left the actions out.
    """
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
    """Whether chance alone left actions out, and weights make up for what they miss.

    Of actions that are about alike for the logger each has a share of 1 / K. As long
    as a policy wants no more of those that are left out, the weights of the others
    average to one.
    """
    lost = mass - len(logs.unseen) / logs.n_actions
    return mass >= MATTERS and lost < MATTERS and logs.left_out_by_chance


def _left_out_by_chance(mass, logs):
    return Finding(
        "unsupported_mass",
        "note",
        f"The policy gives {mass:.2%} of its probability to {len(logs.unseen):,} of "
        f"{logs.n_actions:,} actions that chance left out of the log: by the "
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
    """Return a finding where the logger never shows some of a policy's slates.

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
        Finding(
            "unsupported_mass",
            "warning",
            f"The logger never shows {lost:.2%} of the policy's {what}: the estimate "
            "leaves out what they would bring.",
            number=lost,
            effect=lost,
            category=SupportWarning,
        )
    ]


def no_round_finding(name):
    """Return the finding that an evaluator found no round for its estimate."""
    return Finding(
        "no_estimate",
        "error",
        f"{name} cannot form an estimate: no logged round bears on the policy. The "
        "value is NaN.",
        number=nan,
        category=SupportWarning,
    )


def not_normalised_finding(name, total):
    """Return the finding that weights sum to nothing, or to less."""
    return Finding(
        "no_estimate",
        "error",
        f"{name} cannot form an estimate: the weights sum to {total:.4g}, and what is "
        "normalised by them is no estimate. The value is NaN.",
        number=total,
        category=LowOverlapWarning,
    )
