# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""What the mean weight of a value says against a decision that rests on it."""

from math import isnan, nan

from skope_ope.evaluators.core._grounds import ESTIMATED
from skope_ope.evaluators.core._mean_weight_findings import wrong_propensities
from skope_ope.exceptions import LowOverlapWarning, PropensityWarning
from skope_ope.logs._shown_numbers import figure
from skope_ope.logs.checks._finding import Finding

BETTER, WORSE = "better", "worse"
MISSING_WEIGHT, MEAN_WEIGHT = "missing_weight", "mean_weight"
FAR, FAR_Z = 0.1, 4.0  # of the mean weight of estimated propensities from one
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


def weight_findings(grounds, interval=None):
    """Return what the mean weight says against a value, or against a gain."""
    # Weights from propensities alone average to 1 - s where a share s of what a policy
    # does is not in the log, and by chance where heavy rounds are rare: the two look
    # alike. Weights from wrong estimates may average to anything.
    found, share, mean = [], grounds.missing_weight, grounds.mean_weight
    if interval is not None and share > 0 and not isnan(grounds.width):
        seems = {BETTER} if interval[0] > 0 else {WORSE} if interval[1] < 0 else set()
        if seems & turned(interval, share, grounds.width):
            text = (
                f"Mean weight {figure(1 - share)}: the log may lack part of what this "
                "policy does, or heavy rounds are few. What is missing could turn the "
                "sign of the gain."
            )
            found += [_error(MISSING_WEIGHT, text, ADVICE, share, LowOverlapWarning)]
    is_far = abs(mean - 1) > FAR and abs(grounds.mean_weight_z) > FAR_Z
    if grounds.propensities == ESTIMATED and is_far:
        text = (
            f"Mean weight {figure(mean)} by the estimated propensities, where 1 is "
            f"expected ({grounds.mean_weight_z:+.1f} standard errors): they are wrong, "
            "or the logger never does part of what this policy does."
        )
        advice = (wrong_propensities("small" if mean > 1 else "large", estimated=True),)
        found += [_error(MEAN_WEIGHT, text, advice, mean - 1, PropensityWarning)]
    return found


def _error(name, text, advice, number, category):
    return Finding(name, "error", text, advice, number, abs(number), category=category)
