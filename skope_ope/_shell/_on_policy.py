# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""The log of the policy itself, beside the estimates from another one."""

import numpy as np

from skope_ope._shell._source import read_source
from skope_ope._shell._target import target
from skope_ope._shell._value_report import report_record
from skope_ope.evaluators._logged_value import logged_value
from skope_ope.policies._adaptive import AdaptivePolicy
from skope_ope.selection._agreement import agreement_caveat, drift


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
