# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Rewards of slates as sums over their slots."""

from __future__ import annotations

from numbers import Integral, Real
from typing import TYPE_CHECKING

import numpy as np
from sklearn.utils.metadata_routing import UNUSED
from sklearn.utils.validation import check_is_fitted

from skope_ope._parallel import one_call
from skope_ope._progress import TellsOfFit, step
from skope_ope._sklearn import Estimator, HasMethods, Interval, fit_context
from skope_ope.logs import SlateLogs
from skope_ope.logs._encoding_notes import has_other_columns
from skope_ope.logs._slate_logs import EMPTY
from skope_ope.logs._validation import check_y
from skope_ope.logs.lazy._kind_of import kind_of
from skope_ope.propensities._encoded import encoded
from skope_ope.propensities._model_outputs import predictions_of
from skope_ope.reward_models._slate_design import (
    ItemColumns,
    fit_design,
    rows_at_once,
    slot_design,
)

if TYPE_CHECKING:
    from typing import Any

    from skope_ope._types import Array


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
        X_odd = None if odd is None else _first_slot(odd)
        model = self.model
        if model is None:
            from sklearn.linear_model import Ridge

            plain = X_odd is None and not has_other_columns(X)
            model = Ridge() if plain else encoded(Ridge())
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


def _first_slot(logs):
    """Return the design of what the first slot of every round shows, if anything."""
    rounds = np.arange(len(logs))
    return slot_design(logs, rounds, np.zeros_like(rounds), logs.slate[:, 0])
