# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Whether loggers looked at the context, where no propensities tell."""

import numpy as np
from sklearn.utils import check_random_state

from skope_ope.evaluators.scavenging._predictability import (
    HIGH_Z,
    LOW_Z,
    predictability,
)
from skope_ope.exceptions import ExplorationWarning
from skope_ope.logs._propensity_audit import estimating_step
from skope_ope.logs._shown_numbers import figure
from skope_ope.logs._validation import plain
from skope_ope.logs.checks._finding import Finding

MOST_ROUNDS = 2000  # of a logger
MOST_LOGGERS = 3  # the largest ones
WHAT = "actions against the context"


def exploration_findings(logs, random_state=0):
    """Ask whether the context tells the actions of logs without propensities."""
    # Where it does not, `ExplorationScavenging` needs no propensities; where it does,
    # they are to be estimated. Several loggers are asked one by one.
    if logs.propensity is not None:
        return {}, []
    random, loggers = check_random_state(random_state), _largest(logs)
    facts, found = {}, []
    for label, rows in loggers:
        if len(rows) > MOST_ROUNDS:
            rows = np.sort(random.choice(rows, MOST_ROUNDS, replace=False))
        part = logs[rows]
        one = predictability(part, part.action_index)
        whose = "" if label is None else f" of logger {label!r}"
        facts[WHAT + whose] = _told(one.z)
        if one.z > LOW_Z:
            found.append(_finding(one, logs, whose))
    return facts, found


def _largest(logs):
    """Return labels and rounds of the largest loggers; None where logs name none."""
    if logs.loggers is None:
        return [(None, np.arange(len(logs)))]
    count = logs._logger_counts
    order = np.argsort(-count, kind="stable")[:MOST_LOGGERS]
    return [
        (plain(logs.loggers[k]), np.flatnonzero(logs.logger_index == k))
        for k in order
        if count[k]
    ]


def _told(z):
    if np.isnan(z):
        return "nothing to test: one action, a constant context or few rounds"
    if z > LOW_Z:
        return f"the context predicts the actions (z = {z:,.1f})"
    return f"no classifier predicts the actions (z = {z:,.1f})"


def _finding(one, logs, whose):
    predicts = "predicts" if one.z > HIGH_Z else "seems to predict"
    return Finding(
        "context_tells_actions",
        "note",
        f"The context {predicts} the logged actions{whose}: a classifier beats their "
        f"frequencies by {figure(one.gain)} in log-loss per round ({one.z:,.1f} "
        "standard errors) on held-out rounds.",
        (
            f"Estimate the propensities with {estimating_step(logs)}. Scavenging "
            "would be biased.",
        ),
        number=one.z,
        effect=one.gain,
        category=ExplorationWarning,
    )
