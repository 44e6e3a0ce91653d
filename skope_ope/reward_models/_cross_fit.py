# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Predictions for rounds by models that never saw their rewards."""

import warnings
from functools import cached_property

import numpy as np
from sklearn.base import clone

from skope_ope.exceptions import ModelErrorWarning
from skope_ope.reward_models._action_reward_model import match_actions

FULL, UNCOVERED = -1, -2  # folds of rows that were not in fit, and of uncovered rows


class MeanReward:
    """Mean reward of every action, the model in default of another.

    An action without a training round gets the mean reward of all of them.
    """

    def fit(self, logs, sample_weight=None):
        """Average the rewards of every action."""
        if sample_weight is None:
            sample_weight = logs.sample_weight
        self.actions_ = logs.actions
        sums = [
            np.bincount(logs.action_index, weights=values, minlength=logs.n_actions)
            for values in (
                logs.reward if sample_weight is None else logs.reward * sample_weight,
                np.ones(len(logs)) if sample_weight is None else sample_weight,
            )
        ]
        total, weight = sums
        if not weight.any():  # zero weights say that nothing matters here
            return self.fit(logs, np.ones(len(logs)))
        overall = total.sum() / weight.sum()
        self.means_ = np.full(logs.n_actions, overall)
        np.divide(total, weight, out=self.means_, where=weight > 0)
        return self

    def predict_logs(self, logs):
        """One row of means for every round."""
        means = self.means_[match_actions(self.actions_, logs.actions)]
        return np.broadcast_to(means, (len(logs), logs.n_actions))

    def __sklearn_clone__(self):
        return MeanReward()


class CrossFittedModel:
    """Fold models for the rounds of fit, and one of all rounds for others.

    Parameters
    ----------
    model : ActionRewardModel or MeanReward
        What is cloned and fitted.
    logs : BanditLogs
        The training rounds.
    cv : int, splitter or iterable of (train, test)
        The folds. An int is `KFold` without shuffling, or `GroupKFold` where the
        logs have groups (or hold a round more than once).
    sample_weight : ndarray of shape (n_rounds,), default=None
        Row weights for the fits.

    Attributes
    ----------
    fold_ : ndarray of shape (n_rounds,)
        The fold in whose test part a round is; where several are, the first.
    n_uncovered_ : int
        Rounds that no test part covers; they get the mean reward per action of the
        covered rounds.
    """

    def __init__(self, model, logs, cv, sample_weight=None):
        self.model = model
        self.logs = logs
        self.sample_weight = sample_weight
        self.fold_ = np.full(len(logs), UNCOVERED)
        self.models_ = []
        for k, (train, test) in enumerate(folds(cv, logs)):
            self.models_.append(self._fit(train, k))
            free = self.fold_[test] == UNCOVERED
            self.fold_[test[free]] = k
        uncovered = np.flatnonzero(self.fold_ == UNCOVERED)
        self.n_uncovered_ = len(uncovered)
        self.uncovered_model_ = None
        if len(uncovered):
            covered = np.flatnonzero(self.fold_ != UNCOVERED)
            self.uncovered_model_ = MeanReward().fit(logs[covered])

    def _fit(self, train, fold):
        rounds = self.logs[train]
        missing = (rounds.action_counts == 0) & (self.logs.action_counts > 0)
        if missing.any():
            labels = self.logs.actions[missing].tolist()
            warnings.warn(
                ModelErrorWarning(
                    f"{missing.sum()} action(s) have no round in the training part of "
                    f"fold {fold} ({labels[:5]}): the reward model predicts the mean "
                    "reward of that part for them.",
                    int(missing.sum()),
                ),
                stacklevel=5,
            )
        weight = None if self.sample_weight is None else self.sample_weight[train]
        return clone(self.model).fit(rounds, sample_weight=weight)

    @cached_property
    def full_model_(self):
        """The model of all training rounds, fitted when other logs first ask."""
        return clone(self.model).fit(self.logs, sample_weight=self.sample_weight)

    def bind(self, logs):
        """Return `predict(rounds, start)` for consecutive rounds of `logs`."""
        fold = self.fold_of(logs)

        def predict(rounds, start):
            here = fold[start : start + len(rounds)]
            return self._predict(rounds, here)

        return predict

    def fold_of(self, logs):
        """Fold of every round of `logs`, by its row_id."""
        if logs is self.logs:
            return self.fold_
        fold = np.full(len(logs), FULL)
        mine, theirs = self.logs.row_id, logs.row_id
        if mine.origin == theirs.origin:
            table = np.full(max(mine.position.max(), theirs.position.max()) + 1, FULL)
            table[mine.position] = self.fold_
            fold = table[theirs.position]
        return fold

    def _predict(self, rounds, fold):
        present = np.unique(fold)
        if len(present) == 1:  # most chunks lie in one fold: no copy of the rows
            return self._model(present[0]).predict_logs(rounds)
        q_hat = np.empty((len(rounds), rounds.n_actions))
        for k in present:
            rows = np.flatnonzero(fold == k)
            q_hat[rows] = self._model(k).predict_logs(rounds[rows])
        return q_hat

    def _model(self, fold):
        if fold == FULL:
            return self.full_model_
        if fold == UNCOVERED:
            return self.uncovered_model_
        return self.models_[fold]


def folds(cv, logs):
    """Yield (train, test) index arrays; no round may be in both."""
    for k, (train, test) in enumerate(_split(cv, logs)):
        train, test = (
            np.flatnonzero(rows) if np.asarray(rows).dtype == bool else np.asarray(rows)
            for rows in (train, test)
        )
        both = np.intersect1d(train, test)
        if both.size:
            raise ValueError(
                f"cv puts row {both[0]} into the training and the test part of fold "
                f"{k}: a round would be scored by a model that saw its reward."
            )
        if not train.size:
            raise ValueError(f"cv leaves no training round in fold {k}.")
        yield train, test


def _split(cv, logs):
    if not isinstance(cv, (int, np.integer)):
        if hasattr(cv, "split"):
            return cv.split(logs, logs.action, groups=logs.group)
        return cv
    from sklearn.model_selection import GroupKFold, KFold

    groups = logs.group
    if groups is None:
        position = logs.row_id.position
        if len(np.unique(position)) < len(position):
            groups = position  # a round drawn twice must stay on one side
    n_units = len(logs) if groups is None else len(np.unique(groups))
    if n_units < 2:
        raise ValueError(
            f"cross-fitting needs at least two rounds{' of different groups' * (groups is not None)}, got "
            f"{n_units}. Pass predictions as an array, a number, or a fitted model as "
            "FrozenEstimator(model)."
        )
    n_splits = min(int(cv), n_units)
    if groups is None:
        return KFold(n_splits).split(logs)
    return GroupKFold(n_splits).split(logs, groups=groups)
