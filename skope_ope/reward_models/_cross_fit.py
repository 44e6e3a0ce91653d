# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Predictions for rounds by models that never saw their rewards."""

import warnings
from functools import cached_property, partial

import numpy as np
from sklearn.base import clone

from skope_ope._parallel import run_tasks
from skope_ope._progress import untold
from skope_ope.exceptions import ModelErrorWarning
from skope_ope.logs._folds import FULL, UNCOVERED, HeldOut
from skope_ope.reward_models._action_reward_model import (
    ActionRewardModel,
    match_actions,
)

FOLD_MODEL = "reward model"  # what progress is told of
MISSING_SHOWN = 5  # labels, and folds, that a warning names
LARGEST_TABLE = 1 << 30  # bytes of predictions that are kept for several candidates


class MeanReward:
    """Mean reward of every action: the default reward model."""

    # An action without a training round gets the mean reward of all of them.

    def __init__(self, by_action=True):
        self.by_action = by_action

    def __repr__(self):
        return "mean reward of every action" if self.by_action else "mean reward"

    def fit(self, logs, sample_weight=None, rows=slice(None)):
        """Average the rewards of every action, in some rows of the logs."""
        if sample_weight is None:
            sample_weight = logs.sample_weight
        codes = logs.action_index[rows]
        total, weight = (
            np.bincount(codes, None if one is None else one[rows], logs.n_actions)
            for one in summands(logs.reward, sample_weight)
        )
        if not weight.any():  # zero weights say that nothing matters here
            return self.fit(logs, np.ones(len(logs)), rows)
        return self._average(logs.actions, total, weight)

    def fit_folds(self, logs, held_out, sample_weight=None):
        """Return one that is fitted to the training part of every fold."""
        # No rows are taken: actions and rewards are summed fold by fold.
        if sample_weight is None:
            sample_weight = logs.sample_weight
        by_action = logs.action_index, logs.n_actions
        sums = held_out.train_sums(*by_action, summands(logs.reward, sample_weight))
        plain = None
        if not sums[1].any(axis=1).all():
            plain = held_out.train_sums(*by_action, summands(logs.reward, None))
        return self.of_sums(logs.actions, sums, plain)

    def of_sums(self, actions, sums, plain=None):
        """Return the means of every training part, from its sums by action."""
        totals, weights = sums
        nothing = ~weights.any(axis=1)
        if nothing.any():
            totals, weights = (
                np.where(nothing[:, None], *pair)
                for pair in zip(plain, sums, strict=True)
            )
        return [
            clone(self)._average(actions, *of_part)
            for of_part in zip(totals, weights, strict=True)
        ]

    def _average(self, actions, total, weight):
        """Take the means from sums of rewards and of weights by action."""
        self.actions_ = actions
        self.means_ = np.full(len(actions), total.sum() / weight.sum())
        if self.by_action:
            np.divide(total, weight, out=self.means_, where=weight > 0)
        return self

    def predict_logs(self, logs):
        """One row of means for every round."""
        means = self.means_[match_actions(self.actions_, logs.actions)]
        return np.broadcast_to(means, (len(logs), logs.n_actions))

    def __sklearn_clone__(self):
        return MeanReward(self.by_action)


def summands(reward, weight):
    """Return what is summed by action: weighted rewards, and the weights."""
    return [reward if weight is None else reward * weight, weight]


class OfFolds:
    """A model per fold, which predicts the rounds of that fold."""

    # A subclass has `model`, what was fitted, and `models_`, a dict by fold, and tells
    # in `_folds(logs)` the fold of every round; `_of_all` is the model for rounds of
    # the fold `FULL`.

    def __repr__(self):
        n_folds = sum(fold >= 0 for fold in self.models_)
        return f"{told_model(self.model)}, cross-fitted in {n_folds} folds"

    def __getstate__(self):
        # without it, so that evaluating changes neither the pickle nor the hash
        return {k: v for k, v in self.__dict__.items() if k != "_of_all"}

    def _folds(self, logs):
        return self.held_out_.of(logs)

    def _model(self, fold):
        return self._of_all if fold == FULL else self.models_[fold]


def told_model(model):
    """Return a model in one line, one of scikit-learn's without what is around it."""
    inner = model.model if getattr(model, "_is_a_wrapper", False) else model
    return " ".join(repr(inner).split())


class FoldModels(OfFolds):
    """A model of actions per fold, asked for some consecutive rounds at a time."""

    @property
    def asks_models(self):
        """Whether a prediction asks a model of scikit-learn, and not a table."""
        return not isinstance(self.model, MeanReward)

    def bind(self, logs):
        """Return `predict(rounds, start)` for consecutive rounds of `logs`."""
        fold = self._folds(logs)

        def predict(rounds, start):
            return self._predict(rounds, fold[start : start + len(rounds)])

        return predict

    def _predict(self, rounds, fold):
        # counting beats sorting; UNCOVERED is the lowest label
        present = (np.bincount(fold - UNCOVERED).nonzero()[0] + UNCOVERED).tolist()
        if len(present) == 1:  # most chunks lie in one fold: no copy of the rows
            return self._model(present[0]).predict_logs(rounds)
        if isinstance(self.model, MeanReward) and present:  # a row for every fold
            means = np.empty((present[-1] - UNCOVERED + 1, rounds.n_actions))
            for k in present:
                means[k - UNCOVERED] = self._model(k).predict_logs(rounds)[0]
            return means.take(fold - UNCOVERED, axis=0)
        q_hat = np.empty((len(rounds), rounds.n_actions))
        for k in present:
            rows = np.flatnonzero(fold == k)
            q_hat[rows] = self._model(k).predict_logs(rounds[rows])
        return q_hat


class CrossFittedModel(FoldModels):
    """Fold models for the rounds of fit, and one of all rounds for others."""

    def __init__(
        self, model, logs, cv, sample_weight=None, n_jobs=None, progress=untold
    ):
        self.model = model
        self.logs = logs
        self.cv = cv
        self.sample_weight = sample_weight
        self.held_out_ = cv if isinstance(cv, HeldOut) else HeldOut(logs, cv)
        if getattr(model, "by_action", True):
            self._warn_of_missing_actions()
        self.models_ = dict(enumerate(self._fit_folds(n_jobs, progress)))
        open_rows = self.held_out_.fold == UNCOVERED
        self.n_uncovered_ = int(open_rows.sum())
        if self.n_uncovered_:
            self.models_[UNCOVERED] = MeanReward().fit(logs, rows=~open_rows)

    def _warn_of_missing_actions(self):
        logs = self.logs
        [counts] = self.held_out_.train_sums(logs.action_index, logs.n_actions, [None])
        warn_of_missing(logs.actions, counts, logs._action_counts, self.model)

    def _fit_folds(self, n_jobs, progress):
        """Return the models of all folds, in their order."""
        if isinstance(self.model, MeanReward):  # sums need no workers
            return self.model.fit_folds(self.logs, self.held_out_, self.sample_weight)
        fits = [partial(self._fit, k) for k in range(len(self.held_out_.train))]
        return run_tasks(fits, n_jobs, progress=progress, name=FOLD_MODEL)

    def _training(self, fold):
        """Return logs, and the rows of these that the model of a fold learns from."""
        return self.logs, self.held_out_.train[fold]

    def _fit(self, fold):
        logs, train = self._training(fold)
        model = clone(self.model)
        if type(model).fit is ActionRewardModel.fit:  # no copy of the rounds
            told = fold > 0  # by the first fold
            return model._fit_rows(logs, train, self.sample_weight, told)
        weight = None if self.sample_weight is None else self.sample_weight[train]
        return model.fit(logs[train], sample_weight=weight)

    @cached_property
    def _of_all(self):
        """The model of all training rounds, fitted when other logs first ask."""
        return clone(self.model).fit(self.logs, sample_weight=self.sample_weight)

    def shared(self, logs):
        """Return what several evaluators of these rounds share."""
        return kept_predictions(self, logs)


def warn_of_missing(actions, counts, logged, model):
    """Warn, of all folds at once, of actions that a fold model has not seen."""
    missing = (counts == 0) & (logged > 0)
    if not missing.any():
        return
    labels = actions[missing.any(axis=0)].tolist()
    shown = _first_few(map(repr, labels))
    by_fold = enumerate(missing.sum(axis=1).tolist())
    folds = _first_few(f"{n} in fold {fold}" for fold, n in by_fold if n)
    predicted = "from the rounds of other actions"
    if getattr(model, "encoding", "per_action") == "per_action":
        predicted = "the mean reward of that part"
    warnings.warn(
        ModelErrorWarning(
            f"{len(labels)} action(s) have no round in the training part of a fold "
            f"([{shown}]; {folds}): the reward model of that fold predicts "
            f"{predicted} for them.",
            len(labels),
        ),
        stacklevel=6,
    )


def _first_few(texts):
    """Return the first few texts of a list that may be long."""
    texts = list(texts)
    more = ", ..." if len(texts) > MISSING_SHOWN else ""
    return ", ".join(texts[:MISSING_SHOWN]) + more


class KeptPredictions:
    """A source whose predictions for some rounds are kept in a table."""

    # Evaluators that share a model read the table instead of predicting again. For
    # other rounds the source predicts.

    def __init__(self, source, logs):
        self.source, self.logs = source, logs
        self.n_uncovered_ = source.n_uncovered_
        self.held_out_ = getattr(source, "held_out_", None)
        self.table = source.bind(logs)(logs, 0)

    def __repr__(self):
        return repr(self.source)

    def bind(self, logs):
        """Return a chunk predictor for `logs`."""
        if logs is not self.logs:
            return self.source.bind(logs)
        return lambda rounds, start: self.table[start : start + len(rounds)]


def kept_predictions(source, logs):
    """Return the source with its predictions for `logs`, unless they are too large."""
    small = 8 * len(logs) * logs.n_actions <= LARGEST_TABLE
    return KeptPredictions(source, logs) if small else source
