# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""What agreement of estimates with an on-policy value can decide."""

import numpy as np

from skope_ope.policies import action_probabilities

FEW_REWARDS = 100
COARSE = 0.25  # a difference of this share of the value should be noticed
POWER = 2.8  # standard errors that a 95% test notices four times in five
SAME = 0.01  # probabilities that differ by less are those of one policy


def drift(policy, logs):
    """Compare a policy with the propensities of logs that it is said to have made."""
    if logs.propensity is None:
        return None
    proba = action_probabilities(policy, logs, unknown="ignore")
    p, pi = logs.propensity, proba[np.arange(len(logs)), logs.action_index]
    ratio = pi / p
    low, high = np.quantile(ratio, [0.05, 0.95])
    positive = pi > 0
    correlation = float("nan")
    if positive.sum() > 1:
        pair = np.log(p[positive]), np.log(pi[positive])
        if min(values.std() for values in pair) > 1e-9:
            correlation = float(np.corrcoef(*pair)[0, 1])
    return {
        "low_ratio": float(low),
        "high_ratio": float(high),
        "differing_share": float((np.abs(ratio - 1) > SAME).mean()),
        "correlation": correlation,
    }


def agreement_caveat(values, on_policy, rewarded, drift):
    """Say what agreement of estimates with an on-policy value decides."""
    errors = [v.standard_error for v in values if np.isfinite(v.standard_error)]
    reasons = []
    if errors:
        noticed = POWER * float(np.hypot(np.median(errors), on_policy.standard_error))
        share = noticed / abs(on_policy.value) if on_policy.value else np.inf
        if min(rewarded) < FEW_REWARDS or share > COARSE:
            reasons.append(
                f"with {rewarded[0]:,} rewarded rounds here and {rewarded[1]:,} "
                f"there, a true difference of {noticed:.2g} ({share:.0%} of the "
                "on-policy value) would be missed one time in five"
            )
    if drift is not None and drift["differing_share"] > SAME:
        correlation = drift["correlation"]
        told = (
            "" if np.isnan(correlation) else f", correlation of logs {correlation:.2f}"
        )
        reasons.append(
            "the policy differs from the one that acted there: its probability of "
            f"the logged action is {drift['low_ratio']:.2g} to "
            f"{drift['high_ratio']:.2g} times the recorded propensity in the middle "
            f"90% of rounds{told}"
        )
    if not reasons:
        return ""
    return f"agreement decides nothing: {'; and '.join(reasons)}."
