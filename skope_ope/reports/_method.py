# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""How the numbers were found, and what they assume, in a few words."""

import re

from skope_ope.evaluators._row_names import told_row
from skope_ope.exceptions import LearnedRoundsWarning
from skope_ope.logs._shown_numbers import level_text

FORMULAS = {
    "IPS": "mean of w r",
    "SNIPS": "sum of w r, divided by the sum of w",
    "DirectMethod": "mean of q(policy)",
    "DoublyRobust": "mean of q(policy) + w (r - q(a))",
    "SNDR": "mean of q(policy), plus the sum of w (r - q(a)) divided by that of w",
    "SwitchDR": "doubly robust where w is at most tau, the model alone elsewhere",
    "DRos": "mean of q(policy) + v (r - q(a)), with v = lam w / (w^2 + lam)",
    "BalancedIPS": "mean of w r, with w over the mixture of all loggers",
    "BalancedDR": "mean of q(policy) + w (r - q(a)), with w over the mixture of all "
    "loggers",
    "SlateIPS": "mean of w r, with w of whole slates",
    "wIPS": "sum of w r, divided by the sum of w, with w of whole slates",
    "PseudoInverse": "mean of w r, with w a sum over slots",
    "wPI": "sum of w r, divided by the sum of w, with w a sum over slots",
    "ControlledPI": "mean of w r, with w a sum over slots, minus a correction by the "
    "known means of its parts",
    "SlateDirectMethod": "mean of q(policy)",
}
SYMBOLS = {  # by how formulas name them
    r"\bw\b": "w is the policy's probability of what was logged over the logger's",
    r"\br\b": "r the reward",
    r"\(a\)": "a the logged action",
    r"\bq\b": "q a reward model that has not seen the rounds that it predicts",
}
METHODS = {
    "gamma": "the paired gamma interval, which uses the known range of the rewards and "
    "holds for few events",
    "student": "Student's interval",
    "normal": "the normal interval",
}


def assumptions(logs, table, verdicts):
    """Return what no log can show, and what was taken as it was given."""
    told = [text for one in verdicts.values() for text in one.unchecked]
    if logs.group is None:
        told.append(
            "Rounds are independent. If the same users, sessions or queries come "
            "back, give their column as group."
        )
    learned = [
        value
        for value in table.values()
        if any(isinstance(one, LearnedRoundsWarning) for one in value.warnings)
    ]
    if not learned:
        told.append("No policy has learned from these rounds. The check found none.")
    told.append("The reward is what you are paid for, and all of it has arrived.")
    return list(dict.fromkeys(told))


def method_notes(logs, table, comparison, evaluator):
    """Return how values, intervals and gains were found."""
    chosen = f"The gains are those of {told_row(evaluator)}"
    if table.recommended == evaluator:
        chosen += f", by a rule that never looks at the values: {table.reason}."
    else:
        chosen += f". No evaluator of this table is recommended: {table.reason}."
    formula = FORMULAS.get(evaluator)
    told = [chosen]
    if formula:
        symbols = [text for one, text in SYMBOLS.items() if re.search(one, formula)]
        told.append(f"{evaluator}: {formula}; {', '.join(symbols)}.")
    m, percent = len(comparison.differences), level_text(comparison.level)
    methods = {
        gain._interval(comparison.level_of_each).method: True
        for gain in comparison.differences.values()
    }
    named = " and ".join(METHODS.get(one, one) for one in methods)
    told.append(
        "A gain is the paired difference, round by round, between the policy and "
        f"{comparison._against}. Its interval is {named}."
    )
    if m > 1:
        each = level_text(comparison.level_of_each, 5)
        told.append(
            f"The {m} intervals of gains hold together at {percent} (Bonferroni), each "
            f"at {each}. Those of values hold one by one at {percent}."
        )
    else:
        told.append(f"All intervals hold one by one at {percent}.")
    told.append(
        "They hold for one look at the log. If you look again and again until you "
        "like the answer, it is wrong more often."
    )
    if logs.group is not None:
        told.append(
            f"Standard errors count the {logs.n_groups:,} groups, not the rounds, as "
            "independent."
        )
    if comparison.n_rounds < len(logs):
        told.append(
            f"Gains are about the {comparison.n_rounds:,} of {len(logs):,} rounds for "
            "which all values are known."
        )
    return told
