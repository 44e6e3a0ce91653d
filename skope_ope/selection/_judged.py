# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Which values of policies are scores, and what is to be said of them.

A search takes the greatest of many scores, and so finds every value that is great for
another reason than the policy: weights that cancel, rounds that are not counted. Such
values are no scores. Those of unbiased evaluators are, wherever they lie: what makes
one of them too great makes another too small.
"""

import numpy as np

from skope_ope.evaluators.core._estimate import Estimate
from skope_ope.evaluators.core._functions import ratio
from skope_ope.evaluators.slate._estimability import SlateValue
from skope_ope.exceptions import LowOverlapWarning, SupportWarning
from skope_ope.logs._known_range import known_range
from skope_ope.logs._shown_numbers import figure
from skope_ope.selection._candidates import reasons_of

MOST_LEFT_OUT = 0.05  # share of the rounds that a value may leave out
BEYOND = 0.25  # ranges of the rewards by which a weighted mean may miss theirs
LEAST_WEIGHT = 0.25  # mean weight, which should be one


def judged(result, evaluator):
    """Return the score that the value of a policy is, and what is to be said of it."""
    if np.isnan(result.value):
        return result.value, reasons_of(result)
    value, warned = result.value, []
    for rule in (_of_support, _of_rounds, _of_weights, _of_range):
        value, found = rule(value, result, evaluator)
        warned += found
        if np.isnan(value):
            return value, warned
    return float(value), warned + _of_size(result)


def _of_support(value, result, evaluator):
    """Refuse a value of the reward model alone: no logged action is taken."""
    masses = [w.value for w in result.warnings if isinstance(w, SupportWarning)]
    if not any(mass and mass > 1 - 1e-9 for mass in masses):
        return value, []
    text = (
        "the score is NaN: the logger never takes the policy's actions. "
        f"{figure(value)} is only what the reward model of {result.estimator} "
        "predicts for them. Leave the policy out, or log its actions."
    )
    return np.nan, [SupportWarning(text, 1.0)]


def _of_rounds(value, result, evaluator):
    """Refuse a value that leaves out rounds which others do not."""
    share = result.diagnostics.get("left_out_share", 0.0)
    if not share:
        return value, []
    where = (
        f"{share:.1%} of the {result.n_rounds:,} held-out rounds, in which the logger "
        "never shows what the policy shows"
    )
    if share <= MOST_LEFT_OUT:
        text = f"the score of {result.estimator} leaves out {where}."
        return value, [SupportWarning(text, share)]
    text = (
        f"the score is NaN: {result.estimator} has no information on the policy in "
        f"{where}, and {figure(value)} is its value in the others. A search compares "
        f"policies on the same rounds (at most {MOST_LEFT_OUT:.0%} may be left out). "
        "Change the policy there, or use compare_policies, which compares on common "
        "rounds."
    )
    return np.nan, [SupportWarning(text, share)]


def _of_weights(value, result, evaluator):
    """Refuse what is divided by weights that sum to little."""
    mean = _mean_weight(result, evaluator)
    if mean is None or mean >= LEAST_WEIGHT:
        return value, []
    text = (
        f"the score is NaN: the weights of {result.estimator} average "
        f"{figure(mean, 3)}, not 1, and {figure(value)} is divided by them. Hold out "
        "more rounds, or score by an evaluator with a reward model."
    )
    return np.nan, [LowOverlapWarning(text, mean)]


def _of_range(value, result, evaluator):
    """Refuse a weighted mean of rewards beyond their range: its weights cancel."""
    limits = known_range(evaluator.logs_)
    if limits is None or not _is_weighted_mean(result):
        return value, []
    low, high = limits
    inside = min(max(value, low), high)
    if abs(value - inside) <= 1e-9 * (high - low):
        return value, []
    told = (
        f"{result.estimator} gave {figure(value)}, a weighted mean of rewards that "
        "lie in "
        f"[{figure(low)}, {figure(high)}]"
    )
    if abs(value - inside) > BEYOND * (high - low):
        text = (
            f"the score is NaN: {told}. Positive and negative weights nearly cancel. "
            "Hold out more rounds, or score by an evaluator that does not divide by "
            "the weights."
        )
        return np.nan, [LowOverlapWarning(text, value)]
    return inside, [LowOverlapWarning(f"the score is {figure(inside)}: {told}.", value)]


def _of_size(result):
    """Say once that scores rest on few rounds; the text is the same for all scores."""
    found = [one for one in result.warnings if isinstance(one, LowOverlapWarning)]
    if not any(one.value for one in found):  # 0: the value comes from nothing
        return []
    size = result.effective_sample_size
    return [
        LowOverlapWarning(
            f"scores of {result.estimator} rest on few effective rounds of the "
            "held-out part, and the best score may be best by chance. Hold out more "
            "rounds, and choose with refit=one_standard_error.",
            size,
        )
    ]


def _is_weighted_mean(result):
    """Tell whether a value is a mean of rewards, divided by that of the weights."""
    estimate = result._estimate
    if not isinstance(estimate, Estimate):
        return False
    return getattr(estimate.combine, "combine", estimate.combine) is ratio


def _mean_weight(result, evaluator):
    """Get the mean weight of a weighted mean, 1 in expectation, where it is known."""
    # Weights of slates are known as they were clipped, and others as they were.
    clipped = getattr(evaluator, "cmax", None) is not None
    known = result.diagnostics
    if not _is_weighted_mean(result) or "mean_weight" not in known:
        return None
    if clipped and isinstance(result, SlateValue):
        return None
    return known["mean_weight"] + 1 - known.get("expected_weight", 1.0)
