# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Estimated propensities, tested as if they were recorded."""

from dataclasses import replace

import numpy as np

from skope_ope.exceptions import LowOverlapWarning
from skope_ope.logs._validation import plain
from skope_ope.logs.checks._finding import Finding
from skope_ope.logs.checks._propensity_findings import tested_propensities
from skope_ope.logs.checks._propensity_fit import fitted_logger

ESTIMATED_PROPENSITIES = "estimated_propensities"
FEWEST_SEEN = 20  # of an action, from which a classifier learns
ACTIONS_NAMED = 10  # that are named
OTHER_CLASSIFIER = (
    "estimate them with a classifier that can learn the rule of the logger and does "
    "not overfit, such as HistGradientBoostingClassifier(max_iter=30, "
    "max_leaf_nodes=7)."
)
BETTER_MODEL = (
    f"E{OTHER_CLASSIFIER[1:]}",
    "Give the context all columns that the logger looked at.",
    "Record the propensities when actions are drawn.",
)


def estimated_propensity_findings(logs):
    """Return what the tests of recorded propensities say of estimated ones."""
    # No test sees a reason for an action that is not in the context.
    facts, found = tested_propensities(logs)
    told, more = fitted_logger(logs)
    alarms = [replace(one, advice=BETTER_MODEL) for one in found + more if one.is_alarm]
    return facts | told, [_estimated_note(), *alarms, *_rarely_logged(logs)]


def _estimated_note():
    return Finding(
        ESTIMATED_PROPENSITIES,
        "note",
        "The propensities were estimated. The tests below see only what the context "
        "tells: what else the logger knew biases every estimate.",
    )


def _rarely_logged(logs):
    """Find actions of which an estimate has learned from few rounds."""
    counts = logs._action_counts
    few = np.flatnonzero((counts > 0) & (counts < FEWEST_SEEN))
    if not len(few):
        return []
    worst = few[np.argsort(counts[few], kind="stable")[:ACTIONS_NAMED]]
    found = (
        f"{len(few):,} of {len(counts):,} actions have fewer than {FEWEST_SEEN} "
        f"rounds, {plain(logs.actions[worst[0]])!r} has {counts[worst[0]]:,}: a "
        "classifier cannot learn their propensities."
    )
    advice = "Merge rare actions, collect more rounds, or record the propensities."
    about = {"number": float(counts[worst[0]]), "category": LowOverlapWarning}
    about["actions"] = map(plain, logs.actions[worst])
    return [Finding("few_rounds_of_action", "warning", found, advice, **about)]
