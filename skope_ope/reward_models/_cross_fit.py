# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Predictions for rounds by models that never saw their rewards."""

import warnings

import numpy as np
from sklearn.base import clone

from skope_ope.exceptions import ModelErrorWarning
from skope_ope.logs._fingerprint import fingerprint
from skope_ope.logs._folds import FULL, UNCOVERED, HeldOut
from skope_ope.logs._shelf import has_room
from skope_ope.reward_models._action_reward_model import match_actions


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
        The folds, see `HeldOut`.
    sample_weight : ndarray of shape (n_rounds,), default=None
        Row weights for the fits.
    uncovered : float, default=None
        Prediction for rounds that no test part covers; `None`: the mean reward per
        action of the covered rounds.

    Attributes
    ----------
    n_uncovered_ : int
        Rounds that no test part covers.
    """

    def __init__(self, model, logs, cv, sample_weight=None, uncovered=None):
        self.model = model
        self.logs = logs
        self.cv = cv
        self.sample_weight = sample_weight
        self.uncovered = uncovered
        self._own_predictions = None
        self.held_out_ = HeldOut(logs, cv)
        self.models_ = {
            k: self._fit(train, k) for k, train in enumerate(self.held_out_.train)
        }
        open_rows = self.held_out_.fold == UNCOVERED
        self.n_uncovered_ = int(open_rows.sum())
        if self.n_uncovered_:
            model = MeanReward().fit(logs[~open_rows])
            if uncovered is not None:
                model.means_[:] = uncovered
            self.models_[UNCOVERED] = model

    def _fit(self, train, fold):
        rounds = self.logs[train]
        missing = (rounds.action_counts == 0) & (self.logs.action_counts > 0)
        if missing.any():
            labels = self.logs.actions[missing].tolist()
            warnings.warn(
                ModelErrorWarning(
                    f"{missing.sum()} action(s) have no round in the training part of "
                    f"fold {fold} ({labels[:5]}): the reward model predicts "
                    f"{self._for_unseen()} for them.",
                    int(missing.sum()),
                ),
                stacklevel=6,
            )
        weight = None if self.sample_weight is None else self.sample_weight[train]
        return clone(self.model).fit(rounds, sample_weight=weight)

    def _for_unseen(self):
        if getattr(self.model, "encoding", "per_action") == "per_action":
            return "the mean reward of that part"
        return "by what other actions taught it"

    def bind(self, logs):
        """Return `predict(rounds, start)` for consecutive rounds of `logs`."""
        own = self._own_predictions
        if own is not None and logs is self.logs:
            return lambda rounds, start: own[start : start + len(rounds)]
        fold = self.held_out_.of(logs)

        def predict(rounds, start):
            return self._predict(rounds, fold[start : start + len(rounds)])

        return predict

    def _predict(self, rounds, fold):
        # counting beats sorting; UNCOVERED is the lowest label
        present = (np.bincount(fold - UNCOVERED).nonzero()[0] + UNCOVERED).tolist()
        if len(present) == 1:  # most chunks lie in one fold: no copy of the rows
            return self._model(present[0]).predict_logs(rounds)
        q_hat = np.empty((len(rounds), rounds.n_actions))
        for k in present:
            rows = np.flatnonzero(fold == k)
            q_hat[rows] = self._model(k).predict_logs(rounds[rows])
        return q_hat

    def _model(self, fold):
        if fold not in self.models_ and fold == FULL:
            # of all training rounds, fitted when other logs first ask
            self.models_[FULL] = clone(self.model).fit(
                self.logs, sample_weight=self.sample_weight
            )
        elif fold not in self.models_:  # only its predictions were kept
            self.models_[fold] = self._fit(self.held_out_.train[fold], fold)
        return self.models_[fold]

    def keep_predictions(self):
        """Keep what is predicted for the rounds of fit, in place of the fold models.

        Models may be of any size; the predictions are one number per round and
        action. A fold model is fitted again where other logs ask for it.
        """
        if self._own_predictions is None:
            self._own_predictions = self.bind(self.logs)(self.logs, 0)
            self.models_ = {k: model for k, model in self.models_.items() if k < 0}
        return self


def cross_fitted(model, logs, cv, sample_weight=None, uncovered=None):
    """Return a CrossFittedModel; the candidates of a search share those that agree."""
    key, shelf = None, logs._shelf  # another thread may take it away
    if sample_weight is None and shelf is not None and has_room(_size(logs)):
        key = _key(model, cv, uncovered)
    if key is None:
        return CrossFittedModel(model, logs, cv, sample_weight, uncovered)
    return shelf.get(
        key,
        lambda: CrossFittedModel(model, logs, cv, None, uncovered).keep_predictions(),
        _size(logs),
    )


def leave_for_others(source):
    """Put a fitted model on the shelf of its rounds, for the next candidates."""
    if not isinstance(source, CrossFittedModel) or source.sample_weight is not None:
        return
    logs, shelf = source.logs, source.logs._shelf
    if shelf is None or not has_room(_size(logs)):
        return
    key = _key(source.model, source.cv, source.uncovered)
    if key is not None and key not in shelf:
        shelf.put(key, source.keep_predictions(), _size(logs))


def _key(model, cv, uncovered):
    """Return what tells a fit on given rounds from others, or None.

    A model without a seed is fitted once, too: every candidate then meets the same
    draw of a fit, which has the law that its own would have.
    """
    if hasattr(cv, "__next__"):  # a generator is used up by the first fit
        return None
    content = fingerprint(clone(model), cv, uncovered)
    return None if content is None else ("model", content)


def _size(logs):
    return 8 * len(logs) * logs.n_actions
