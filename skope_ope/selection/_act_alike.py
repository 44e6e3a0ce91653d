# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Whether two policies do the same in the rounds of a log."""

import numpy as np

from skope_ope.evaluators.core._jobs import JobTerms
from skope_ope.evaluators.core._target import Target
from skope_ope.logs import BanditLogs
from skope_ope.policies._adaptive import AdaptivePolicy

BLOCK = 1024  # rounds: the first tells most policies apart, and no table is large
ROUNDING = 1e-12


def act_alike(policy, other, logs, values=()):
    """Tell whether two policies take the same actions with the same probabilities."""
    if not isinstance(logs, BanditLogs):
        return False
    targets = [Target(one, logs) for one in (policy, other) if one is not None]
    if any(isinstance(one.policy, AdaptivePolicy) for one in targets):
        return False
    if other is None and logs.propensity is None:
        return False
    blocks = [(low, min(low + BLOCK, len(logs))) for low in range(0, len(logs), BLOCK)]
    values = values[: len(targets)]  # the logger has no value of a pass
    if values and any(_differ_as_seen(logs, values, slice(*one)) for one in blocks):
        return False
    for start, stop in blocks:
        rounds = logs[start:stop]
        tables = [one.chunk(rounds, start) for one in targets]
        if other is None:
            tables.append(_of_logger(rounds))
        if not _equal(*tables, rounds.action_index):
            return False
    return True


def _differ_as_seen(logs, values, rows):
    """Whether policies, or one and the logger, differ in what was logged."""
    terms = [value._rows._terms for value in values]
    if not all(isinstance(one, JobTerms) for one in terms):
        return False
    seen = [one.logged_proba(rows) for one in terms]
    if len(seen) == 1:
        seen.append(_of_logger(logs)[rows])
    if any(one is None for one in seen):
        return False
    return not _equal(*seen, logs.action_index[rows])


def _of_logger(rounds):
    known = rounds.logging_proba
    return rounds.propensity if known is None else known


def _equal(one, two, action):
    """Whether probabilities agree; of all actions where both tables have them."""
    if one.ndim != two.ndim:
        one, two = (
            table if table.ndim == 1 else table[np.arange(len(action)), action]
            for table in (one, two)
        )
    return bool((np.abs(one - two) <= ROUNDING).all())
