# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Reward models of slates, and their fits and predictions."""

from __future__ import annotations

from functools import cached_property
from numbers import Integral, Real
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator, clone, is_classifier
from sklearn.utils.metadata_routing import UNUSED
from sklearn.utils.validation import check_is_fitted

from skope_ope._parallel import one_call
from skope_ope._progress import TellsOfFit, step, untold
from skope_ope._sklearn import Estimator, HasMethods, Interval, fit_context
from skope_ope._types import Array
from skope_ope.logs import SlateLogs
from skope_ope.logs._context_encoder import has_other_columns, odd_rows
from skope_ope.logs._folds import UNCOVERED, HeldOut
from skope_ope.logs._frames import add_columns, import_narwhals
from skope_ope.logs._row_container import own, take_rows
from skope_ope.logs._validation import (
    EMPTY,
    check_y,
    column_weights,
    is_frame,
    item_rows,
)
from skope_ope.logs.lazy._lazy_logs import kind_of
from skope_ope.propensities._model_fits import (
    behind_encoder,
    fit_encoded,
    predictions_of,
)
from skope_ope.reward_models._action_reward_model import (
    append_columns,
    expected_reward,
    refuse_other_kinds,
)
from skope_ope.reward_models._cross_fit import FOLD_MODEL, OfFolds, told_model
from skope_ope.reward_models._sources import check_prefit, is_source, refuse_non_models


class AdditiveSlateModel(TellsOfFit, Estimator):
    r"""Model the reward of a slate as a sum over its slots.

    .. math:: \hat r(x, s) = b + \sum_j f(x, s_j, j)

    The regressor f sees the context, the candidate's features and the slot. It is
    fitted by backfitting. The residual of the sum is divided among the slots of a
    slate. The regressor is then fitted to its earlier predictions plus these parts. A
    sum over slots needs only the slot marginals of a policy. So `SlateDoublyRobust`
    accepts only this kind of model. Read more in the :ref:`User Guide <slates>`.

    Parameters
    ----------
    model : scikit-learn regressor, default=None
        The model of a slot. `None`: `Ridge()`.
    max_iter : int, default=20
        Maximum number of backfitting iterations.
    tol : float, default=1e-3
        Backfitting stops if no sum changes by more than this share of the standard
        deviation of the rewards.

    Attributes
    ----------
    intercept_ : float
        Mean reward b.
    model_ : regressor
        The fitted model of a slot.
    n_iter_ : int
        Number of backfitting iterations.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.linear_model import LinearRegression
    >>> from skope_ope import SlateLogs
    >>> from skope_ope.reward_models import AdditiveSlateModel
    >>> slates = [[0, 1], [1, 0], [2, 1], [0, 2]]
    >>> logs = SlateLogs(np.zeros((4, 1)), slates, [3, 3, 5, 4])
    >>> model = AdditiveSlateModel(LinearRegression(), max_iter=200, tol=1e-9)
    >>> model.fit(logs).predict(logs, logs.slate).round(2)
    array([3., 3., 5., 4.])
    """

    _parameter_constraints: dict = {
        "model": [HasMethods(["fit", "predict"]), None],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "tol": [Interval(Real, 0, None, closed="left")],
    }
    # logs stand where scikit-learn has X: they are not metadata
    __metadata_request__fit = {"logs": UNUSED}
    __metadata_request__predict = {"logs": UNUSED, "slates": UNUSED}
    _has_steps = True

    def __init__(
        self, model: Any = None, *, max_iter: int = 20, tol: float = 1e-3
    ) -> None:
        self.model = model
        self.max_iter = max_iter
        self.tol = tol

    def fit(self, logs, y=None):
        """Fit on the slates and rewards of logs.

        Parameters
        ----------
        logs : SlateLogs
            Training rounds.
        y : array-like of shape (n_rounds,), default=None
            Ignored: the logs hold the rewards.

        Returns
        -------
        self : AdditiveSlateModel
        """
        if isinstance(logs, SlateLogs):  # others are refused with a sentence
            check_y(y, len(logs), type(self).__name__)
        return self._fit_rounds(logs, None)

    @fit_context(prefer_skip_nested_validation=False)
    def _fit_rounds(self, logs, odd):
        """Fit on logs; the model will have to predict the rounds `odd`, if any."""
        if not isinstance(logs, SlateLogs):
            raise TypeError(f"logs must be SlateLogs, got {kind_of(logs)}.")
        rounds, slots = np.nonzero(logs.slate != EMPTY)
        n_shown = np.bincount(rounds, minlength=len(logs))
        self.n_features_in_ = logs.n_features
        self._items = ItemColumns(logs)
        self.intercept_ = float(logs.reward.mean())
        if not rounds.size:
            raise ValueError(
                "all slots of the slates are empty: nothing can be learned."
            )
        X = slot_design(logs, rounds, slots, logs.slate[rounds, slots])
        X_odd = None
        if odd is not None:  # what the first slot of every round shows, if anything
            first = np.arange(len(odd)), np.zeros(len(odd), dtype=np.intp)
            X_odd = slot_design(odd, *first, odd.slate[:, 0])
        model = self.model
        refuse_other_kinds(model, "model")
        if model is None:
            from sklearn.linear_model import Ridge

            plain = X_odd is None and not has_other_columns(X)
            model = Ridge() if plain else behind_encoder(Ridge())
        with one_call():
            self._fit_slots(model, logs, X, rounds, n_shown, X_odd)
        return self

    def _fit_slots(self, model, logs, X, rounds, n_shown, X_odd):
        """Fit the model to what the other slots leave of the rewards, in turns."""
        parts, sums = np.zeros(len(rounds)), np.zeros(len(logs))
        unit = float(np.abs(logs.reward).max()) or 1.0  # squares would leave the floats
        smallest = self.tol * unit * (logs.reward / unit).std()
        self.n_iter_, change = 0, np.inf
        while self.n_iter_ < self.max_iter and change > smallest:
            gap = (logs.reward - self.intercept_ - sums) / np.maximum(n_shown, 1)
            with step(self, logs, "iteration"):
                self.model_ = fit_design(model, X, parts + gap[rounds], X_odd)
            parts = predictions_of(self.model_, X).astype(float)
            before, sums = sums, np.bincount(rounds, parts, minlength=len(logs))
            change = np.abs(sums - before).max()
            self.n_iter_ += 1

    def predict(self, logs: SlateLogs, slates: Array) -> Array:
        """Predict the reward of slates.

        Parameters
        ----------
        logs : SlateLogs
            The rounds.
        slates : ndarray of int of shape (n_rounds, n_slots)
            Slates of the rounds.

        Returns
        -------
        reward : ndarray of shape (n_rounds,)
        """
        check_is_fitted(self)
        self._items.check(logs)
        rounds, slots = np.nonzero(slates != EMPTY)
        return self._sum(logs, rounds, slots, slates[rounds, slots], 1.0)

    def expect(self, logs: SlateLogs, marginals: Array) -> Array:
        """Predict the mean reward of a policy from its slot marginals.

        Parameters
        ----------
        logs : SlateLogs
            The rounds.
        marginals : ndarray of shape (n_rounds, n_slots, n_candidates)
            Probability of every candidate in every slot.

        Returns
        -------
        reward : ndarray of shape (n_rounds,)
        """
        check_is_fitted(self)
        self._items.check(logs)
        entries = np.nonzero(marginals)
        return self._sum(logs, *entries, marginals[entries])

    def _sum(self, logs, rounds, slots, candidates, weight):
        if not rounds.size:
            return np.full(len(logs), self.intercept_)
        parts, step = np.empty(len(rounds)), rows_at_once(logs)
        for start in range(0, len(rounds), step):
            some = slice(start, start + step)
            X = slot_design(logs, rounds[some], slots[some], candidates[some])
            parts[some] = predictions_of(self.model_, X)
        parts *= weight
        return self.intercept_ + np.bincount(rounds, parts, minlength=len(logs))


# -- features of slates, and of single candidates in slots -----------------------------

DESIGN_BYTES = 2**26  # of the rows that are predicted at once


def slate_design(logs, slates):
    """Join the contexts with the features of what every slot shows."""
    rounds = np.arange(len(logs))
    parts = [candidate_features(logs, rounds, column) for column in slates.T]
    names = [f"slot_{j}_{k}" for j, p in enumerate(parts) for k in range(p.shape[1])]
    return _with_features(logs.context, np.hstack(parts), names)


def slot_design(logs, rounds, slots, candidates):
    """Join contexts with the features of single candidates and their slots."""
    items = candidate_features(logs, rounds, candidates)
    slot = np.zeros((len(rounds), logs.n_slots))
    slot[np.arange(len(rounds)), slots] = 1.0
    names = [f"item_{k}" for k in range(items.shape[1])]
    names += [f"slot_{j}" for j in range(logs.n_slots)]
    context = take_rows(logs.context, rounds)
    return _with_features(context, np.hstack([items, slot]), names)


def fit_design(model, X, y, odd=None):
    """Fit a clone of a model to a design, behind an encoder where it takes no texts."""
    return fit_encoded(
        lambda one: one.fit(own(X, one), own(y, one)), clone(model), X, odd
    )


def rows_at_once(logs):
    """Return how many rows of `slot_design` are made at once."""
    n_columns = logs.n_features
    if sparse.issparse(logs.context):
        n_columns = logs.context.nnz // max(len(logs), 1)
    n_columns += _width(logs) + logs.n_slots
    # features of candidates are held alone, beside the slots and beside the context
    return max(1, DESIGN_BYTES // (24 * n_columns))


def candidate_features(logs, rounds, candidates):
    """Return features of candidates of rounds, zeros for empty slots."""
    # Indicators of the candidate's index, where the logs have no `item_features`.
    if logs.item_features is None:
        features = np.zeros((len(rounds), logs.max_candidates))
        shown = np.flatnonzero(candidates != EMPTY)
        features[shown, candidates[shown]] = 1.0
        return features
    features = item_rows(logs, rounds, candidates)
    features[candidates == EMPTY] = 0.0
    return features


class ItemColumns:
    """How candidates are told apart by a model, to be compared with other logs."""

    def __init__(self, logs):
        self.indicators = logs.item_features is None
        self.width = _width(logs)

    def check(self, logs):
        """Raise where candidates of other logs have other columns."""
        indicators = logs.item_features is None
        if (indicators, _width(logs)) == (self.indicators, self.width):
            return
        if indicators and self.indicators:
            raise ValueError(
                f"the logs have {logs.max_candidates} candidates, those of the reward "
                f"model's fit had {self.width}. Without item_features the model "
                "identifies candidates by their index. Pass SlateLogs(..., "
                "item_features=...) in both, or the same n_candidates."
            )
        had, have = (
            "no item_features" if none else f"item_features of {width} columns"
            for none, width in (
                (self.indicators, self.width),
                (indicators, _width(logs)),
            )
        )
        raise ValueError(
            f"the logs have {have}, those of the reward model's fit had {had}. Use the "
            "same features of candidates in both."
        )


def _width(logs):
    """Return the number of columns of a candidate."""
    if logs.item_features is None:
        return logs.max_candidates
    return logs.item_features.shape[-1]


def _with_features(context, features, names):
    if is_frame(context):
        frame = import_narwhals().from_native(context, eager_only=True)
        return add_columns(frame, dict(zip(names, features.T, strict=True)))
    return append_columns(context, features)


# -- models of the reward of a whole slate, and their fits out of fold -----------------


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
