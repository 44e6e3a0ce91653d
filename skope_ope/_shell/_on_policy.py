# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""The log of the policy itself, beside the estimates from another one."""

import numpy as np

from skope_ope._shell._target import read_source, target
from skope_ope._shell._value_report import report_record
from skope_ope.evaluators._logged_value import logged_value
from skope_ope.policies import action_probabilities
from skope_ope.policies._adaptive import AdaptivePolicy


def refuse_several(args, wanted):
    """Raise if there is a log of the policy, and more than one policy."""
    if args.compare_logs and len(wanted) > 1:
        raise ValueError(
            f"--compare-logs is the log of one policy, but {len(wanted)} are "
            "named. Name one."
        )


def compare_with_log(args, report, values, logs, source, wanted, policies, progress):
    """Put the mean reward of the policy's own log beside the estimates."""
    path = args.compare_logs
    there = read_source(args, path, progress, [wanted], like=source, beside=args.logs)
    acts = _policy_there(args, wanted, policies[wanted.name], there)
    compare(report, values, logs, there.logs, acts)


def _policy_there(args, wanted, policy, there):
    """Return the policy on another log; None where it cannot be asked there."""
    if wanted.kind == "columns" or isinstance(policy, AdaptivePolicy):
        return None
    return policy if wanted.is_learned else target(wanted, args, there)[0]


def compare(report, values, logs, other, policy):
    """Put the mean reward of the policy's own log beside the estimates."""
    level, path = report["level"], report["arguments"]["compare_logs"]
    on_policy = logged_value(other)
    record = report_record("on-policy", on_policy, level)
    report["reference_values"].append(record)
    for entry, value in zip(report["values"], values.values(), strict=True):
        error = np.hypot(value.standard_error, on_policy.standard_error)
        gap = value.value - on_policy.value
        entry["z_on_policy"] = float(gap / error) if error > 0 else float("nan")
    rewarded = tuple(int((rounds.reward != 0).sum()) for rounds in (logs, other))
    drifted = None if policy is None else drift(policy, other)
    caveat = agreement_caveat(list(values.values()), on_policy, rewarded, drifted)
    report["on_policy"] = {
        **record,
        "rewarded_rounds": rewarded,
        "drift": drifted,
        "caveat": caveat,
    }
    note = (
        f"On-policy: the mean reward of the {len(other):,} rounds of {path}. z is the "
        "difference between an estimate and this mean, in units of their combined "
        "standard error."
    )
    report["notes"].append(f"{note} Caveat: {caveat}" if caveat else note)


# -- what agreement of estimates with an on-policy value can decide --------------------

FEW_REWARDED = 100
COARSE = 0.25  # a difference of this share of the value should be noticed
POWER = 2.8  # standard errors that a 95% test notices four times in five
SAME_PROBABILITY = 0.01  # probabilities that differ by less are those of one policy


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
        "differing_share": float((np.abs(ratio - 1) > SAME_PROBABILITY).mean()),
        "correlation": correlation,
    }


def agreement_caveat(values, on_policy, rewarded, drift):
    """Say what agreement of estimates with an on-policy value decides."""
    errors = [v.standard_error for v in values if np.isfinite(v.standard_error)]
    reasons = []
    if errors:
        noticed = POWER * float(np.hypot(np.median(errors), on_policy.standard_error))
        share = noticed / abs(on_policy.value) if on_policy.value else np.inf
        if min(rewarded) < FEW_REWARDED or share > COARSE:
            reasons.append(
                f"with {rewarded[0]:,} rewarded rounds here and {rewarded[1]:,} "
                f"there, a true difference of {noticed:.2g} ({share:.0%} of the "
                "on-policy value) would be missed one time in five"
            )
    if drift is not None and drift["differing_share"] > SAME_PROBABILITY:
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
