# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Models of the reward of a whole slate, and their fits out of fold."""

from functools import cached_property
from numbers import Real

import numpy as np
from sklearn.base import BaseEstimator, clone, is_classifier

from skope_ope._progress import untold
from skope_ope.logs._folds import UNCOVERED, HeldOut
from skope_ope.logs._model_features import odd_rows
from skope_ope.logs._slate_fields import column_weights
from skope_ope.reward_models._action_reward_model import expected_reward
from skope_ope.reward_models._additive_slate_model import (
    AdditiveSlateModel,
    ItemColumns,
    fit_design,
    slate_design,
)
from skope_ope.reward_models._cross_fit import FOLD_MODEL, OfFolds, told_model
from skope_ope.reward_models._sources import check_prefit, is_source, refuse_non_models


class MeanSlateModel(BaseEstimator):
    """The mean reward for every slate, or a number."""

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
    """Any regressor of the context and the features of all slots."""

    _is_a_wrapper = True  # a name of ours around the model that was given

    def __init__(self, model):
        self.model = model

    def fit(self, logs, odd=None):
        """Fit a clone of the model, which will have to predict the rounds `odd`."""
        if is_classifier(self.model) and not np.isin(logs.reward, (0, 1)).all():
            raise ValueError(
                f"the classifier {type(self.model).__name__} models rewards of 0 "
                "and 1, these logs have others. Use a regressor."
            )
        X = slate_design(logs, logs.slate)
        self.items_ = ItemColumns(logs)
        X_odd = None if odd is None else slate_design(odd, odd.slate)
        self.model_ = fit_design(self.model, X, logs.reward, X_odd)
        return self

    def predict(self, logs, slates):
        """Predict the reward of slates."""
        model = getattr(self, "model_", self.model)
        if hasattr(self, "items_"):
            self.items_.check(logs)
        return expected_reward(model, slate_design(logs, slates))


def any_slate_model(model):
    """Return a regressor as a model of slates; a model of slates as it is."""
    # None is the mean reward of all slates.
    if model is None:
        return MeanSlateModel()
    known = isinstance(model, (AdditiveSlateModel, MeanSlateModel))
    return model if known else SlateModel(model)


class FrozenSlateModel:
    """A model fitted beforehand, on other rounds; or a number."""

    n_uncovered_ = 0

    def __init__(self, model):
        self.model = model

    def __repr__(self):
        return f"{told_model(self.model)}, fitted beforehand"

    def predict(self, logs, call):
        """Return `call(model, rounds, rows)` for all rounds at once."""
        return call(self.model, logs, slice(None))


class FoldSlateModels(OfFolds):
    """A model of slates per fold."""

    def predict(self, logs, call):
        """Put the predictions of the folds together, shape (n_rounds,)."""
        fold = self._folds(logs)
        values = np.empty(len(logs))
        for k in np.unique(fold).tolist():
            rows = np.flatnonzero(fold == k)
            values[rows] = call(self._model(k), logs[rows], rows)
        return values


class CrossFittedSlateModel(FoldSlateModels):
    """Fold models for the rounds of fit, and one of all rounds for others."""

    def __init__(self, model, logs, cv, progress=untold):
        self.model, self.logs = model, logs
        self.held_out_ = cv if isinstance(cv, HeldOut) else HeldOut(logs, cv)
        trains = self.held_out_.train
        odd = odd_rows(logs.context)
        odd = logs[odd] if odd.size else None
        fits = (_fit_slate_model(clone(model), logs[train], odd) for train in trains)
        self.models_ = dict(enumerate(progress(fits, len(trains), FOLD_MODEL)))
        covered = self.held_out_.fold != UNCOVERED
        self.n_uncovered_ = int((~covered).sum())
        if self.n_uncovered_:
            self.models_[UNCOVERED] = MeanSlateModel().fit(logs[covered])

    def shared(self, logs):
        """Return what several evaluators of these rounds share: the fitted models."""
        return self

    @cached_property
    def _of_all(self):
        """The model of all training rounds, fitted when other logs first ask."""
        return clone(self.model).fit(self.logs)


def _fit_slate_model(model, logs, odd):
    """Fit a model that will have to predict the rounds `odd`, if there are any."""
    if odd is None or isinstance(model, MeanSlateModel):
        return model.fit(logs)
    if isinstance(model, SlateModel):
        return model.fit(logs, odd)
    return model._fit_rounds(logs, odd)


def slate_reward_source(model, logs, cv, fittable, progress=untold):
    """Return what predicts rewards of slates from anything that may stand for it."""
    given = model if is_source(model) else given_slate_source(model, fittable)
    if given is not None:
        return given
    if isinstance(cv, str):
        return frozen_slate_source(model, cv, fittable)
    return CrossFittedSlateModel(fittable(model), logs, cv, progress)


def given_slate_source(model, fittable):
    """Return the source of predictions that need no fit, or None for a model."""
    refuse_non_models(model, "reward_model")
    if isinstance(model, Real) and not isinstance(model, bool):
        if not np.isfinite(model):
            raise ValueError(f"reward_model must be a finite number, got {model}.")
        return FrozenSlateModel(MeanSlateModel(float(model)).fit(None))
    if type(model).__name__ == "FrozenEstimator":
        return frozen_slate_source(model.estimator, "prefit", fittable)
    if model is not None and not hasattr(model, "fit"):
        raise TypeError(
            "reward_model must be a scikit-learn regressor, an AdditiveSlateModel, a "
            f"number or None, got {type(model).__name__}."
        )
    return None


def frozen_slate_source(model, cv, fittable):
    """Return a model that was fitted beforehand, where `cv` is "prefit"."""
    check_prefit(model, cv)
    return FrozenSlateModel(fittable(model))
