# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Findings that another finding explains."""

from dataclasses import replace

from skope_ope.logs.checks._leak_findings import IGNORED

LEAKS = ("action_leak", IGNORED)
TOLD_TWICE = ("impossible_propensity", *LEAKS)


def explained(findings):
    """Return findings without the echoes of a column that leaks."""
    # A column that holds the reward tells the action, too, as far as rewards depend on
    # it; and a model of the logger that is fitted to a column which leaks beats right
    # propensities. The first says nothing more; the second names the column first. A
    # propensity that cannot be is told by the log, and once more by the policy's
    # weights; a column that tells the action by a quick look, and once more by a longer
    # one.
    rewards = _columns_of("reward_leak", findings)
    leaks = rewards | _columns_of("action_leak", findings)
    kept = []
    for one in findings:
        if one.name in LEAKS and set(one.columns) <= rewards:
            continue
        if one.name in TOLD_TWICE and any(other.name == one.name for other in kept):
            continue
        if one.name == "propensity_misfit" and leaks:
            named = ", ".join(repr(column) for column in sorted(leaks, key=str))
            first = (
                "The context has a column that was written after the decision "
                f"(column {named}, see the finding reward_leak). Leave it out and "
                "audit again."
            )
            if not rewards:
                first = (
                    f"One column tells the action better than the propensities (column "
                    f"{named}): see the finding action_leak first."
                )
            one = replace(one, advice=(first, *one.advice))
        kept.append(one)
    return kept


def _columns_of(name, findings):
    return {
        column
        for one in findings
        if one.name == name and one.severity == "error"
        for column in one.columns
    }
