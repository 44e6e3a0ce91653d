# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Which rounds are held out of which fit, wherever the rounds turn up."""

import numpy as np

FULL, UNCOVERED = -1, -2  # folds of rows that were not in fit, and of uncovered rows


class HeldOut:
    """Folds of some logs, and the fold of any row by its `row_id`.

    Parameters
    ----------
    logs : BanditLogs
        The rounds that are split.
    cv : int, splitter or iterable of (train, test)
        An int is `KFold` without shuffling, or `GroupKFold` where the logs have
        groups (or hold a round more than once).

    Attributes
    ----------
    train : list of ndarray
        Training rows of every fold.
    fold : ndarray of shape (n_rounds,)
        The fold in whose test part a row is (the first, where several are), or
        `UNCOVERED`.
    """

    def __init__(self, logs, cv):
        self.logs = logs
        self.fold = np.full(len(logs), UNCOVERED)
        self.train = []
        for k, (train, test) in enumerate(_checked(cv, logs)):
            self.train.append(train)
            self.fold[test[self.fold[test] == UNCOVERED]] = k

    def of(self, logs):
        """Fold of every row of `logs`; `FULL` for rows that were not split."""
        if logs is self.logs:
            return self.fold
        mine, theirs = self.logs.row_id, logs.row_id
        if mine.origin != theirs.origin or not len(logs):
            return np.full(len(logs), FULL)
        table = np.full(max(mine.position.max(), theirs.position.max()) + 1, FULL)
        table[mine.position] = self.fold
        return table[theirs.position]


def _checked(cv, logs):
    for k, parts in enumerate(_split(cv, logs)):
        train, test = (_as_rows(rows) for rows in parts)
        both = np.intersect1d(train, test)
        if both.size:
            raise ValueError(
                f"cv puts row {both[0]} into the training and the test part of fold "
                f"{k}: a round would be scored by a model that saw its reward."
            )
        if not train.size:
            raise ValueError(f"cv leaves no training round in fold {k}.")
        yield train, test


def _as_rows(rows):
    rows = np.asarray(rows)
    return np.flatnonzero(rows) if rows.dtype == bool else rows


def _split(cv, logs):
    if not isinstance(cv, (int, np.integer)):
        if hasattr(cv, "split"):
            return cv.split(logs, logs.action, groups=logs.group)
        return cv
    from sklearn.model_selection import GroupKFold, KFold

    groups, unit = logs.group, "rounds"
    if groups is not None:
        unit = "groups"
    else:
        position = logs.row_id.position
        if len(np.unique(position)) < len(position):
            groups = position  # a round drawn twice must stay on one side
    n_units = len(logs) if groups is None else len(np.unique(groups))
    if n_units < 2 or cv < 2:
        raise ValueError(
            f"cross-fitting needs at least two {unit} and two folds, got {n_units} "
            f"{unit} and cv={cv}. Pass predictions as an array, a number, or a fitted "
            "model as FrozenEstimator(model)."
        )
    n_splits = min(int(cv), n_units)
    if groups is None:
        return KFold(n_splits).split(logs)
    return GroupKFold(n_splits).split(logs, groups=groups)
