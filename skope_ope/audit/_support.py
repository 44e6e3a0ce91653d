# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Whether a log holds what a policy does, by its actions and by its loggers."""

from dataclasses import replace

import numpy as np

from skope_ope.evaluators.core._support_findings import support_findings
from skope_ope.logs._shown_numbers import figure
from skope_ope.logs._validation import plain
from skope_ope.logs.checks._finding import Finding
from skope_ope.policies._constant_policy import ConstantPolicy

ONE_ACTION = "one_action"
MOST_TABLE_ACTIONS = 20  # of a table
OUT_OF_REACH = 0.05  # of the policy's probability: then it is worth a note


def support_of(rounds):
    """Get facts and findings about what the policy wants and the logger never does."""
    mass = rounds.overlap.missing_mass
    facts = {"unsupported mass": float(mass)}
    if rounds.target.logged_only:
        facts["unsupported mass"] = (
            "not known: the probabilities of the logged actions do not show what "
            "else the policy does"
        )
    found = [
        replace(one, actions=_never_logged_of_rounds(rounds))
        for one in support_findings(rounds.overlap, rounds.logs)
    ]
    if rounds.wanted is not None:
        facts["actions of the policy"] = _by_action(rounds)
        found += _one_action(rounds)
    if rounds.unreached == rounds.unreached:
        facts["mass beyond weight sqrt(n)"] = rounds.unreached
        found += _reach_findings(rounds)
    if rounds.known and rounds.logs.loggers is not None:
        facts["loggers and the policy"] = _by_logger(rounds)
    return facts, found


def _one_action(rounds):
    """Return a note where a rule that may choose takes one action in all rounds."""
    policy, logs = rounds.target.policy, rounds.logs
    constant = isinstance(policy, ConstantPolicy) or rounds.target.array is not None
    if constant or not logs.n_features or logs.n_actions < 2:
        return []
    if rounds.wanted.max() < 1 - 1e-12:
        return []
    label = plain(logs.actions[int(rounds.wanted.argmax())])
    return [
        Finding(
            ONE_ACTION,
            "note",
            f"The policy takes action {label!r} in all rounds.",
            (
                "If its rule should tell contexts apart, compare the values that it "
                "names with those of the context: one may be misspelt.",
            ),
            effect=1.0,
            actions=(label,),
        )
    ]


def _never_logged_of_rounds(rounds):
    """Return the never logged actions that the policy wants most."""
    if rounds.wanted is None:
        return ()
    unseen = rounds.positive.unseen
    order = unseen[np.argsort(-rounds.wanted[unseen], kind="stable")][:10]
    actions = rounds.all_logs.actions
    return tuple(plain(actions[k]) for k in order if rounds.wanted[k] > 0)


def _by_action(rounds):
    """Return the policy's most likely actions: its share and the log's."""
    logs, wanted = rounds.logs, rounds.wanted
    order = np.argsort(-wanted, kind="stable")[:MOST_TABLE_ACTIONS]
    counts = np.bincount(logs.action_index, minlength=logs.n_actions)[order]
    table = {
        "action": [plain(logs.actions[k]) for k in order],
        "policy's share": wanted[order].tolist(),
        "logged share": (counts / len(logs)).tolist(),
        "rounds": counts.tolist(),
    }
    if rounds.known:
        largest = np.zeros(logs.n_actions)
        np.maximum.at(largest, logs.action_index, rounds.w)
        table["largest weight"] = largest[order].tolist()
    return table


def _by_logger(rounds):
    """Return how well the rounds of every logger serve the policy."""
    logs, w = rounds.logs, rounds.counted
    who, n = logs.logger_index, len(logs.loggers)
    count = np.bincount(who, minlength=n)
    used = np.flatnonzero(count)
    first, second = np.bincount(who, w, n), np.bincount(who, w * w, n)
    size = np.divide(first**2, second, out=np.zeros(n), where=second > 0)
    return {
        "logger": [plain(label) for label in logs.loggers[used]],
        "rounds": count[used].tolist(),
        "effective rounds": size[used].tolist(),
        "mean weight": (first[used] / count[used]).tolist(),
    }


def _reach_findings(rounds):
    beyond = rounds.unreached
    if beyond <= OUT_OF_REACH:
        return []
    n = rounds.positive.n
    return [
        Finding(
            "out_of_reach",
            "note",
            f"{beyond:.1%} of the policy's probability is on actions with a weight "
            f"above sqrt(n) = {figure(n**0.5, 3)} in their context. The logger "
            "takes them so rarely that hardly any round shows their reward.",
            (
                "Compare clipped values: their bias is at most this share of the "
                "range of the rewards. Or collect logs closer to the policy.",
            ),
            number=beyond,
            effect=beyond,
        )
    ]
