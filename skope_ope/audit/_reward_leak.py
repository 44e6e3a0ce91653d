# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Columns, and models of them, that foretell the reward almost perfectly."""

import numpy as np
from sklearn.utils import check_random_state

from skope_ope.logs._context_columns import columns_of, sampled_rows

MOST_ROUNDS = 10_000
FEWEST_ROUNDS = 50
LEAST_R2 = 0.99
FEW_REPEATS = 8  # rounds of one value: fewer may be copies of one round
MOST_TERMS = 400  # of the model
MOST_LEVELS = 10  # of a column that the model takes apart
MOST_NAMED = 5
NEEDED = 0.01  # of R^2, lost without the column


def reward_leak_findings(logs, random_state=0):
    r"""Return a finding where the context foretells the reward almost perfectly.

    A single column predicts a reward by the mean of its other rounds with the same
    value, or, where these are few, by interpolation between the rounds with the next
    values; so a column is found whatever function of it the reward is. Then a model
    of all columns predicts one half of the rounds from the other: least squares on
    columns, their squares and products, with the actions where those do not do
    without, followed by the same interpolation along the prediction.

    Parameters
    ----------
    logs : BanditLogs or SlateLogs
        The rounds.
    random_state : int, RandomState instance or None, default=0
        Which rounds are drawn where there are many, and their halves.

    Returns
    -------
    facts : dict
        Empty.
    findings : list of Finding
        Where :math:`R^2 > .99`.
    """
    random = check_random_state(random_state)
    rows = _rows(logs, random)
    reward = logs.reward[rows]
    if len(rows) < FEWEST_ROUNDS or not _varies(reward) or not logs.n_features:
        return {}, []
    columns = columns_of(logs.context, rows)
    single = _single_columns(columns, reward)
    if single:
        return {}, [single]
    return {}, _models(logs, rows, columns, reward, random)


def _rows(logs, random):
    """Return rows to test: of each group one, so that none is told by its group."""
    if logs.group is None:
        return sampled_rows(len(logs), MOST_ROUNDS, random)
    shuffled = random.permutation(len(logs))
    _, first = np.unique(logs.group_index[shuffled], return_index=True)
    return np.sort(shuffled[random.permutation(first)[:MOST_ROUNDS]])
