# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Numbers of which floating point does not hold what they make of an estimate."""

from math import floor, isfinite, log10

import numpy as np

from skope_ope.exceptions import OPEWarning, PropensityWarning
from skope_ope.logs._shown_numbers import figure
from skope_ope.logs._validation import plain
from skope_ope.logs.checks._finding import Finding

HUGE = 1e75  # squares of what is larger, times rewards, leave the range of floats
EXTREME = 1e60  # fourth powers of what is larger, times rounds, leave that range, too
DROWNED_ADVICE = (
    "The propensity of that round is wrong, or stands for a missing one. Correct it, "
    "or drop the rounds that have it.",
    "The propensity is right, and the logger hardly ever takes the policy's action. "
    "Clip the weights (cmax=...), or collect logs closer to the policy.",
)


def beyond_floats():
    """Silence numpy, whose warnings name neither the row nor its propensity."""
    return np.errstate(over="ignore", invalid="ignore", divide="ignore")


def within_floats(estimate, rewards, told):
    """Return an estimate without an error that floats do not hold, and its warning."""
    found = estimate.value, estimate.standard_error
    if "impossible_propensity" in [one.name for one in told]:
        found = ()
    for what, numbers in (("reward", rewards), ("value or error", found)):
        size = 0.0
        for one in numbers:  # NaN is larger than nothing
            size = abs(one) if one < -size or one > size else size
        if size and not 1 / EXTREME <= size <= EXTREME:
            return _without_extremes(estimate, what, size)
    return estimate, None


def _without_extremes(estimate, what, size):
    formed = isfinite(estimate.value)
    lost = "the standard error and the intervals are" if formed else "the value is"
    text = (
        f"the largest {what} is {figure(size, 3)}, and powers of such numbers leave "
        f"the range of floats: {lost} NaN. Rescale the rewards"
    )
    if isfinite(size):
        text += f": reward * 1e{-floor(log10(size))}"
    warning = OPEWarning(f"{text}.", size, "extreme_rewards")
    return estimate.without_error() if formed else estimate.without_value(), warning


def is_huge(weight):
    """Whether squares of a weight cannot be reckoned with."""
    return weight > HUGE


def huge_weight_finding(logs, w, formed=True, first_row=0):
    """Return the finding that a weight leaves the range of floating point."""
    row = int(np.argmax(w))
    lost = "the standard error is NaN" if formed else "the value is NaN"
    return _finding(
        f"Row {row + first_row} (action {plain(logs.action[row])!r}) has propensity "
        f"{figure(logs.propensity[row], 3)}, so its importance weight is "
        f"{figure(w[row], 3)}, whose square is too large for a float: {lost}.",
        row + first_row,
        w[row],
    )


def huge_finding(weight, log=None, formed=True):
    """Return the same finding from sums, which do not know the row of the weight."""
    lost = "the standard error is NaN" if formed else "the value is NaN"
    told, row = "", None
    if log is not None and log.propensities is not None:
        p, rows, _ = log._propensities_below(np.inf)
        if len(p):
            row = int(rows[0])
            told = f" Row {row} has the smallest propensity, {figure(p[0], 3)}."
    return _finding(
        f"The largest importance weight is {figure(weight, 3)}, whose square is too "
        f"large for a float: {lost}.{told}",
        row,
        weight,
    )


def drowned_finding(logs, w):
    """Return the finding that one weight leaves no digit to all others."""
    row = int(np.argmax(w))
    return _finding(
        f"Row {row} (action {plain(logs.action[row])!r}) has propensity "
        f"{figure(logs.propensity[row], 3)}, so its importance weight is "
        f"{figure(w[row], 3)}. This round alone decides the value, and rounding hides "
        "the effect of the others. The standard error is NaN.",
        row,
        w[row],
    )


def lost_finding():
    """Return the finding that sums of squares have lost how far rounds differ."""
    return Finding(
        "lost_error",
        "warning",
        "The rounds differ so little that rounding hides their differences in the "
        "sums: the standard error is NaN.",
        ("Evaluate the rounds in memory, where sums are formed about the value.",),
    )


def _finding(found, row, weight):
    return Finding(
        "impossible_propensity",
        "error",
        found,
        DROWNED_ADVICE,
        number=float(weight),
        rows=() if row is None else (row,),
        category=PropensityWarning,
    )


def is_drowned(w, residual, size):
    """Whether an error of zero is one that drowned: rounds beside a weight differ."""
    # Where no weight is far above the others, terms are alike for another reason: model
    # values that cancel, as of a policy that is the logger.
    used = residual[w > 0]
    if used.size < 2:
        return False
    most, spread = float(w.max()), float(np.ptp(used))
    others = float((w / most).sum()) - 1
    return spread > 1e-12 * size and others * spread <= 1e-12 * size
