# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Whether a policy has learned from the rounds, and whether anybody can tell."""

from math import isnan

from skope_ope.evaluators.core._warnings import has_groups, learned_findings
from skope_ope.logs.checks._finding import Finding
from skope_ope.policies._learned_rounds import (
    rounds_in_doubt,
    share_of_learned_groups,
)


def training_findings(policy, logs):
    """Return a finding where a policy has learned from the rounds, or may have."""
    learned = learned_findings(policy, logs)
    learned = learned or _learned_groups(policy, logs)
    share, repeats = (0.0, 0.0) if learned else rounds_in_doubt(policy, logs)
    if share == 0:
        return learned
    copies = f" ({repeats:.1%} repeat an earlier one)" if repeats else ""
    alike = (
        f"{share:.1%} of these rounds have the same content as a round that it "
        "learned from"
    )
    if isnan(share):
        alike = "these rounds lack columns or fields of the rounds that it learned from"
    return [
        Finding(
            "rows_not_recognised",
            "note",
            "The policy learned from another log object, and the content of its "
            f"rounds does not identify them{copies}: {alike}. Whether the policy has "
            "learned from these rounds is not known.",
            (
                "If both logs come from one table, the value may be too good. Build "
                f"the logs once and split them{_split(logs)}. "
                "Parts of one log object are always recognised, and so are rows of "
                "scanned files. If the logs hold different rounds, do nothing.",
            ),
            number=repeats,
            effect=share,
        )
    ]


def _split(logs):
    if has_groups(logs):
        return " by group, with GroupShuffleSplit and groups=logs.group"
    return ": train, test = train_test_split(logs)"


def _learned_groups(policy, logs):
    """Return a note where a policy has learned from other rounds of these groups."""
    share = share_of_learned_groups(policy, logs)
    if not share:
        return []
    return [
        Finding(
            "learned_groups",
            "note",
            f"{share:.1%} of these rounds are of groups, such as users, of whom the "
            "policy has learned from other rounds. A model can know single groups by "
            "heart, and its value for new ones is then lower.",
            (
                "Split by group: GroupShuffleSplit of scikit-learn takes "
                "groups=logs.group. If the policy will serve the same groups, nothing "
                "is to be done.",
            ),
            effect=share,
        )
    ]
