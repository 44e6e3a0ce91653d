# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Models of the reward of a whole slate, and their fits out of fold."""

from functools import cached_property
from numbers import Real

import numpy as np
from sklearn.base import BaseEstimator, clone, is_classifier
from sklearn.utils.validation import check_is_fitted

from skope_ope.logs._folds import FULL, UNCOVERED, HeldOut
from skope_ope.logs._slate_logs import column_weights
from skope_ope.reward_models._slate_design import ItemColumns, slate_design
from skope_ope.reward_models._sources import is_source, refuse_non_models


class MeanSlateModel(BaseEstimator):
    """The mean reward for every slate, or a number.

    Parameters
    ----------
    number : float, default=None
        What is predicted; `None`: the mean reward of the training rounds.
    """

    def __init__(self, number=None):
        self.number = number

    def fit(self, logs):
        """Average the rewards, as the rounds weigh."""
        self.mean_ = self.number
        if self.number is None:
            self.mean_ = np.average(logs.reward, weights=column_weights(logs))
        return self

    def predict(self, logs, slates):
        """Return the same number for all rounds."""
        return np.full(len(logs), float(self.mean_))


class SlateModel(BaseEstimator):
    """Any regressor of the context and the features of all slots.

    Parameters
    ----------
    model : regressor, or classifier where rewards are 0/1
        It sees the columns of `slate_design`.
    """

    def __init__(self, model):
        self.model = model

    def fit(self, logs):
        """Fit a clone of the model."""
        if is_classifier(self.model) and not np.isin(logs.reward, (0, 1)).all():
            raise ValueError(
                f"the classifier {type(self.model).__name__} models rewards of 0 "
                "and 1, these logs have others. Use a regressor."
            )
        X = slate_design(logs, logs.slate)
        self.items_ = ItemColumns(logs)
        self.model_ = clone(self.model).fit(X, logs.reward)
        return self

    def predict(self, logs, slates):
        """Predict the reward of slates."""
        model = getattr(self, "model_", self.model)
        if hasattr(self, "items_"):
            self.items_.check(logs)
        return expected_reward(model, slate_design(logs, slates))


def expected_reward(model, X):
    """Prediction of a regressor, or a classifier's probability of the reward 1."""
    if not is_classifier(model):
        values = np.asarray(model.predict(X), dtype=float)
        return values.reshape(len(values), -1)[:, 0]
    proba = np.asarray(model.predict_proba(X))
    ones = np.flatnonzero(np.asarray(model.classes_) == 1)
    return proba[:, ones[0]] if ones.size else np.zeros(len(proba))


class FrozenSlateModel:
    """A model fitted beforehand, on other rounds; or a number."""

    n_uncovered_ = 0

    def __init__(self, model):
        self.model = model

    def predict(self, logs, call):
        """Return `call(model, rounds, rows)` for all rounds at once."""
        return call(self.model, logs, slice(None))


class CrossFittedSlateModel:
    """Fold models for the rounds of fit, and one of all rounds for others.

    Parameters
    ----------
    model : slate model
        What is cloned and fitted.
    logs : SlateLogs
        The training rounds.
    cv : int, splitter or iterable of (train, test)
        The folds, see `HeldOut`.

    Attributes
    ----------
    n_uncovered_ : int
        Rounds that no test part covers; the mean reward of the others stands for them.
    """

    def __init__(self, model, logs, cv):
        self.model, self.logs = model, logs
        self.held_out_ = HeldOut(logs, cv)
        self.models_ = {
            k: clone(model).fit(logs[train])
            for k, train in enumerate(self.held_out_.train)
        }
        covered = self.held_out_.fold != UNCOVERED
        self.n_uncovered_ = int((~covered).sum())
        if self.n_uncovered_:
            self.models_[UNCOVERED] = MeanSlateModel().fit(logs[covered])

    def predict(self, logs, call):
        """Put the predictions of the folds together, shape (n_rounds,).

        Parameters
        ----------
        logs : SlateLogs
            The rounds; those of fit are recognised (see `rows_among`).
        call : callable
            `call(model, rounds, rows)` gives values for `rounds = logs[rows]`.
        """
        fold = self.held_out_.of(logs)
        values = np.empty(len(logs))
        for k in np.unique(fold).tolist():
            rows = np.flatnonzero(fold == k)
            values[rows] = call(self._model(k), logs[rows], rows)
        return values

    def shared(self, logs):
        """Return what several evaluators of these rounds share: the fitted models."""
        return self

    def _model(self, fold):
        return self._of_all if fold == FULL else self.models_[fold]

    @cached_property
    def _of_all(self):
        """The model of all training rounds, fitted when other logs first ask."""
        return clone(self.model).fit(self.logs)

    def __getstate__(self):
        # without it, so that evaluating changes neither the pickle nor the hash
        return {k: v for k, v in self.__dict__.items() if k != "_of_all"}


def slate_reward_source(model, logs, cv, wrap):
    """Return what predicts rewards of slates from anything that may stand for it.

    Parameters
    ----------
    model : None, number, FrozenEstimator or model
        `None` is the out-of-fold mean reward.
    logs : SlateLogs
        The rounds of fit.
    cv : int, splitter, iterable or "prefit"
        How rounds are held out of the fits that predict for them.
    wrap : callable
        Makes a slate model of a model, or raises.
    """
    if is_source(model):
        return model
    refuse_non_models(model, "reward_model")
    if isinstance(model, Real) and not isinstance(model, bool):
        if not np.isfinite(model):
            raise ValueError(f"reward_model must be a finite number, got {model}.")
        return FrozenSlateModel(MeanSlateModel(float(model)).fit(logs))
    frozen = type(model).__name__ == "FrozenEstimator"
    if frozen:
        model = model.estimator
    if model is not None and not hasattr(model, "fit"):
        raise TypeError(
            "reward_model must be a scikit-learn regressor, an AdditiveSlateModel, a "
            f"number or None, got {type(model).__name__}."
        )
    if isinstance(cv, str) and cv != "prefit":
        raise ValueError(f"cv must be 'prefit', a number or folds, got {cv!r}.")
    if frozen or isinstance(cv, str):
        if model is None:
            raise ValueError("cv='prefit' needs a fitted reward_model, got None.")
        check_is_fitted(model)
        return FrozenSlateModel(wrap(model))
    model = MeanSlateModel() if model is None else wrap(model)
    return CrossFittedSlateModel(model, logs, cv)
