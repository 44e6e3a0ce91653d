# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Rankings: drawn by the weights of the candidates, or sorted by their scores."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from numbers import Integral, Real
from typing import Any, Literal, Self

import numpy as np
from sklearn.base import clone
from sklearn.utils import get_tags
from sklearn.utils.validation import check_is_fitted

from skope_ope._sklearn import HasMethods, Interval
from skope_ope._texts import meant
from skope_ope._types import Array, ArrayLike
from skope_ope.logs import SlateLogs
from skope_ope.logs._row_container import own
from skope_ope.logs._validation import EMPTY, as_numbers, check_y, item_rows
from skope_ope.policies._base import first_best
from skope_ope.policies._learned_rounds import remember_rows
from skope_ope.policies.slate._ranking_distribution import RankingDistribution
from skope_ope.policies.slate._slate_base import (
    BaseSlatePolicy,
    check_n_slots,
    check_slate_logs,
    offered_slots,
    row_values,
)
from skope_ope.policies.slate._slate_policy import DeterministicSlates
from skope_ope.propensities._model_fits import predictions_of


class PlackettLuceSlatePolicy(RankingDistribution):
    r"""Draw candidates slot by slot, without repetition, in proportion to weights.

    .. math:: \pi(s|x) = \prod_j \frac{w_{s_j}}{\sum_{a \notin s_{1..j-1}} w_a}

    A round that offers fewer candidates than slots leaves the last slots empty.

    Parameters
    ----------
    weights : array-like of shape (n_candidates,), callable or str
        Positive weights of the candidates. An array is used in every round. It can also
        be a function of the logs, or the name of a column. The last two have the shape
        (n_rounds, n_candidates) or (n_candidates,). Weights of candidates that are not
        offered are ignored.
    n_slots : int
        Number of slots.

    See Also
    --------
    PlackettLuceSlatePolicy.from_ranks : Weights from ranks.
    RankingPolicy : Weights from a regressor.

    Notes
    -----
    Moments are exact. They are computed by dynamic programming over the sets of
    candidates that earlier slots may have taken. If weights repeat, it runs over the
    number of candidates taken of every weight. Rounds with the same weights in another
    order share one distribution.

    Examples
    --------
    >>> import numpy as np
    >>> from skope_ope import PlackettLuceSlatePolicy, SlateLogs
    >>> logs = SlateLogs(np.zeros((1, 1)), [[2, 0]], [1.0])
    >>> policy = PlackettLuceSlatePolicy([1, 1, 2], n_slots=2)
    >>> policy.slate_proba(logs)  # 2/4 times 1/2
    array([0.25])
    >>> policy.slot_marginals(logs).round(3)
    array([[[0.25 , 0.25 , 0.5  ],
            [0.333, 0.333, 0.333]]])
    """

    def __init__(
        self, weights: ArrayLike | Callable[..., Any] | str, n_slots: int
    ) -> None:
        self.weights = weights
        self.n_slots = n_slots

    @classmethod
    def from_ranks(
        cls,
        ranks: ArrayLike | Callable[..., Any] | str,
        n_slots: int,
        *,
        alpha: float = 1.0,
    ) -> Self:
        r"""Return the policy that draws slates close to a ranking, as in [1]_.

        .. math:: w = 2^{-\alpha \lfloor \log_2 rank \rfloor}

        With `alpha` 0 all weights are one, the uniform distribution. A greater `alpha`
        draws slates closer to the ranking. Few weights are distinct, so that moments of
        long slates of many candidates are exact and fast.

        Parameters
        ----------
        ranks : array-like of shape (n_candidates,), callable or str
            Ranks of the candidates; the best is 1. A function of the logs or the name
            of a column gives each round its own, as with `weights`.
        n_slots : int
            Number of slots.
        alpha : float, default=1.0
            How close to the ranking, at least 0.

        Returns
        -------
        policy : PlackettLuceSlatePolicy
            Its `weights` are those of the ranks.

        Raises
        ------
        ValueError
            If `alpha` is negative, or a rank is less than 1.

        References
        ----------
        .. [1] Swaminathan, A., et al. (2017). Off-policy evaluation for slate
           recommendation. NeurIPS 30.

        Examples
        --------
        >>> from skope_ope import PlackettLuceSlatePolicy
        >>> policy = PlackettLuceSlatePolicy.from_ranks([1, 2, 3, 4], 2, alpha=1)
        >>> policy.weights
        array([1.  , 0.5 , 0.5 , 0.25])
        """
        if not alpha >= 0:
            raise ValueError(f"alpha must be at least 0, got {alpha}.")
        if callable(ranks) or isinstance(ranks, str):
            return cls(partial(_weights_on, ranks, alpha), n_slots)
        return cls(rank_weights(as_numbers("ranks", ranks, 1), alpha), n_slots)

    def _items(self, logs):
        weights = check_weights(row_values(self.weights, logs, "weights"), logs)
        offered = offered_slots(logs, self.n_slots)
        weights = np.where(offered, weights[:, None], 0.0).transpose(0, 2, 1)
        wrong = (offered.transpose(0, 2, 1) & ~(weights > 0)).any(axis=2)
        if wrong.any():
            row, candidate = np.argwhere(wrong)[0]
            raise ValueError(
                "weights must be positive, got "
                f"{weights[row, candidate].max():.6g} for candidate {candidate} at row "
                f"{row}. A candidate that cannot be shown is left out by the field "
                "`candidates` of the logs."
            )
        return weights


def check_weights(weights, logs):
    """Return weights as (n_rounds or 1, n_candidates) floats."""
    weights = as_numbers("weights", weights, min(np.ndim(weights), 2), finite=False)
    n_candidates = logs.max_candidates
    shapes = [(n_candidates,), (len(logs), n_candidates)]
    if weights.shape not in shapes:
        raise ValueError(
            f"weights must have shape (n_candidates,) = ({n_candidates},) or "
            f"(n_rounds, n_candidates) = {shapes[1]}, got {weights.shape}."
        )
    weights = np.atleast_2d(weights)
    if not np.isfinite(weights).all():
        # what is not offered may be unknown, but not infinite
        weights = np.where(np.isinf(weights), np.nan, weights)
    return weights


def rank_weights(ranks, alpha):
    """Return weights of ranks, of any shape."""
    if (ranks < 1).any():
        raise ValueError(f"ranks must be at least 1, the best, got {ranks.min():g}.")
    # frexp is exact where a logarithm of a power of two might be rounded down
    return 2.0 ** (-alpha * (np.frexp(ranks)[1] - 1))


def _weights_on(ranks, alpha, logs):
    """Return the weights of ranks that are a column or a function of the logs."""
    ranks = row_values(ranks, logs, "ranks")
    return rank_weights(as_numbers("ranks", ranks, np.ndim(ranks)), alpha)


# -- the slate policy to which all rankings are alike ----------------------------------


class UniformSlatePolicy(RankingDistribution):
    """Compose slates without repetition, with every order equally likely.

    A round that offers fewer candidates than slots leaves the last slots empty. If
    `logs.candidates` differ by slot, each slot in turn takes any of its candidates
    that no earlier slot shows.

    Parameters
    ----------
    n_slots : int
        Number of slots.

    Examples
    --------
    >>> import numpy as np
    >>> from skope_ope import SlateLogs, UniformSlatePolicy
    >>> logs = SlateLogs(np.zeros((2, 1)), [[2, 0], [1, 2]], [1.0, 0.0])
    >>> UniformSlatePolicy(2).slate_proba(logs).round(4)
    array([0.1667, 0.1667])
    """

    _takes_all_alike = True  # in every slot, of what is offered there and is left

    def __init__(self, n_slots: int) -> None:
        self.n_slots = n_slots

    def _items(self, logs):
        return offered_slots(logs, self.n_slots).transpose(0, 2, 1).astype(float)

    def closed_form(self, logs: SlateLogs) -> Literal["uniform", "product"] | None:
        """Return the form of the distribution, if its pseudoinverse is known.

        Parameters
        ----------
        logs : SlateLogs
            The rounds.

        Returns
        -------
        form : {"uniform", "product"} or None
            "product" if no candidate is offered to two slots.
        """
        offered = offered_slots(logs, self.n_slots)
        if offered.shape[1] == 1:
            return "uniform"
        return "product" if (offered.sum(axis=1) <= 1).all() else None


# -- slates from the scores of a regressor ---------------------------------------------

LOW_WEIGHT = 1e-290  # of a softmax, relative to the best: what is below comes last
SMALLEST_WEIGHT = 1e-307  # what it weighs: what is offered can be shown
LEAST_SCORE = -np.finfo(float).max  # where nothing is offered
SCORED_AT_ONCE = 2**18  # candidates that are scored at once


class RankingPolicy(BaseSlatePolicy):
    r"""Rank the candidates by a regressor's prediction from their features.

    The slate shows the best candidates in order, without repetition. Of tied ones, the
    lowest index comes first. A `temperature` or `alpha` makes it random: slots are then
    drawn by Plackett-Luce weights of the scores or of their ranks.

    Parameters
    ----------
    regressor : scikit-learn regressor or str
        It predicts the score of a candidate from a row of `logs.item_features`. Pass a
        fitted one as ``FrozenEstimator(regressor)``; the policy then needs no `fit`.

        A text names scores that you have, the greatest first: one of
        `logs.item_feature_names`, or a column of the logs of shape (n_rounds,
        n_candidates). The policy then needs no `fit`, either.
    n_slots : int
        Number of slots.
    temperature : float, default=None
        Weights ``exp(score / temperature)``: softmax rankings. `None`: the best
        candidates in order.
    alpha : float, default=None
        Weights ``2 ** (-alpha * floor(log2(rank)))``, the multinomial distribution of
        [1]_.

    Attributes
    ----------
    regressor_ : regressor
        The fitted regressor. Only if `regressor` is one.

    See Also
    --------
    PlackettLuceSlatePolicy : The distribution of random rankings.

    References
    ----------
    .. [1] Swaminathan, A., et al. (2017). Off-policy evaluation for slate
       recommendation. NeurIPS 30.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.linear_model import LinearRegression
    >>> from skope_ope import RankingPolicy, SlateLogs
    >>> features = np.array([[1.0], [3.0], [2.0]])
    >>> logs = SlateLogs(
    ...     np.zeros((2, 1)), [[2, 0], [1, 2]], [1.0, 0.0], item_features=features
    ... )
    >>> policy = RankingPolicy(LinearRegression(), n_slots=2).fit(features, [1, 3, 2])
    >>> policy.deterministic_slates(logs)
    array([[1, 2],
           [1, 2]])

    Scores that you have need no regressor:

    >>> logs = SlateLogs(
    ...     np.zeros((2, 1)), [[2, 0], [1, 2]], [1.0, 0.0], item_features=features,
    ...     item_feature_names=["score"],
    ... )
    >>> RankingPolicy("score", n_slots=2).deterministic_slates(logs)
    array([[1, 2],
           [1, 2]])
    """

    _fills_slots = True
    _parameter_constraints: dict = {
        "regressor": [HasMethods(["fit", "predict"]), str],
        "n_slots": [Interval(Integral, 1, None, closed="left")],
        "temperature": [Interval(Real, 0, None, closed="neither"), None],
        "alpha": [Interval(Real, 0, None, closed="left"), None],
    }

    def __init__(
        self,
        regressor: Any,
        n_slots: int,
        *,
        temperature: float | None = None,
        alpha: float | None = None,
    ) -> None:
        self.regressor = regressor
        self.n_slots = n_slots
        self.temperature = temperature
        self.alpha = alpha

    def fit(self, X, y=None, **fit_params):
        """Fit the regressor. Does nothing if `regressor` is the name of scores.

        Parameters
        ----------
        X : SlateLogs, or array-like of shape (n_items, n_item_features)
            Features of candidates, or logs. From logs, the regressor learns the
            `slot_reward` of the shown candidates from their `item_features`.
        y : array-like of shape (n_items,), default=None
            Scores of the candidates, if `X` are features. Ignored if `X` are logs.
        **fit_params : dict
            Passed to the regressor.

        Returns
        -------
        self : RankingPolicy
        """
        self._check()
        if isinstance(self.regressor, str):
            return self
        logs = X if isinstance(X, SlateLogs) else None
        if logs is not None:
            check_y(y, len(logs), type(self).__name__)
            X, y = _shown_candidates(logs)
        elif y is None:
            raise ValueError(
                "RankingPolicy.fit needs logs, or features of candidates and how good "
                "they are (X, y); y is missing. requires y to be passed, but the target"
                " y is None"
            )
        X, y = own(X, self.regressor), own(y, self.regressor)
        self.regressor_ = clone(self.regressor).fit(X, y, **fit_params)
        remember_rows(self, logs)
        return self

    def _check(self):
        self._validate_params()
        if self.temperature is not None and self.alpha is not None:
            raise ValueError(
                "temperature and alpha are two ways of drawing slates; pass one of "
                f"them, got {self.temperature} and {self.alpha}."
            )

    def scores(self, logs: SlateLogs) -> Array:
        """Predict the scores of the candidates.

        Parameters
        ----------
        logs : SlateLogs
            The rounds.

        Returns
        -------
        scores : ndarray of shape (n_rounds or 1, n_candidates)
            A single row if all rounds have the same candidates.
        """
        self._check_logs(logs)
        if isinstance(self.regressor, str):
            return self._given_scores(logs)
        features = logs.item_features
        if features is None:
            raise ValueError(
                "RankingPolicy scores the features of candidates, and the logs have "
                "none: pass SlateLogs(..., item_features=...)."
            )
        regressor = getattr(self, "regressor_", self.regressor)
        rows = features.reshape(-1, features.shape[-1])
        parts = [
            predictions_of(regressor, rows[start : start + SCORED_AT_ONCE]).astype(
                float
            )
            for start in range(0, len(rows), SCORED_AT_ONCE)
        ]
        scores = np.concatenate(parts).reshape(features.shape[:-1])
        if not np.isfinite(scores).all():
            raise ValueError(
                f"{type(regressor).__name__} predicts a score that is not finite: "
                f"{scores[~np.isfinite(scores)][0]}."
            )
        return logs._per_candidate(scores)

    def _given_scores(self, logs):
        """Return the scores that the logs hold, (n_rounds or 1, n_candidates)."""
        name, names = self.regressor, logs.item_feature_names or ()
        if name in names:
            return logs._per_candidate(logs.item_features[..., names.index(name)])
        if name not in logs.columns:
            raise ValueError(
                f"RankingPolicy ranks by {name!r}, which is neither a feature of the "
                f"items ({list(names)}) nor a column of the logs "
                f"({sorted(logs.columns)}).{meant(name, [*names, *logs.columns])} Pass "
                "a frame with this column as item_features of SlateLogs.from_frame."
            )
        scores = as_numbers(f"column {name!r}", logs.columns[name], 2)
        if scores.shape[1] != logs.max_candidates:
            raise ValueError(
                f"column {name!r} must hold a score for each of the "
                f"{logs.max_candidates} candidates, got shape {scores.shape}."
            )
        return scores

    def deterministic_slates(self, logs: SlateLogs) -> Array | None:
        """Slates with the best candidates in order.

        Parameters
        ----------
        logs : SlateLogs
            The rounds.

        Returns
        -------
        slates : ndarray of int of shape (n_rounds, n_slots), or None
            None if `temperature` or `alpha` makes the slates random.
        """
        if self.temperature is None and self.alpha is None:
            return self._best(logs)
        return None

    def _best(self, logs):
        scores = self.scores(logs)
        offered = offered_slots(logs, self.n_slots)
        if len(scores) == len(offered) == 1:
            return np.tile(best_slates(scores, offered, self.n_slots), (len(logs), 1))
        return best_slates(scores, offered, self.n_slots)

    def _softmax(self, logs):
        """Softmax weights by slot, (n_rounds or 1, n_candidates, n_slots or 1)."""
        # A slot draws from its own candidates, so that weights are relative to the best
        # of them: what the best of another slot makes of them would underflow.
        offered = offered_slots(logs, self.n_slots)
        scores = np.where(offered, self.scores(logs)[:, None], -np.inf)
        best = scores.max(axis=2, keepdims=True)
        with np.errstate(under="ignore"):
            scores = scores - np.maximum(best, LEAST_SCORE)
            weights = np.exp(scores / self.temperature)
        low = offered & (weights < LOW_WEIGHT)
        self._check_shown(low, offered)
        return np.where(low, SMALLEST_WEIGHT, weights).transpose(0, 2, 1)

    def _check_shown(self, low, offered):
        """Raise where a slot may have to draw from weights that underflow."""
        # a single one is drawn when nothing else is left, whatever its weight
        several = low.sum(axis=2) > 1
        high = offered & ~low
        for slot in range(self.n_slots):
            here = slot % offered.shape[1]
            before = offered[:, np.arange(slot) % offered.shape[1]]
            taken = (high[:, [here]] & before).any(axis=2).sum(axis=1)
            all_taken = (high[:, here] <= before.any(axis=1)).all(axis=1)
            all_taken &= high[:, here].sum(axis=1) <= taken
            lost = np.flatnonzero(several[:, here] & all_taken)
            if lost.size:
                raise ValueError(
                    f"temperature={self.temperature:g} is too small for the scores of "
                    f"row {lost[0]}: weights of candidates that are shown underflow. "
                    "Use a larger one, or None for the best candidates in order."
                )

    def _ranked(self, logs):
        scores = self.scores(logs)
        offered = offered_slots(logs, self.n_slots).any(axis=1)
        scores, offered = np.broadcast_arrays(scores, offered)
        order = np.argsort(np.where(offered, -scores, np.inf), axis=1, kind="stable")
        rank = 1 + np.argsort(order, axis=1, kind="stable")
        weights = rank_weights(rank, self.alpha)
        return np.broadcast_to(weights, (len(logs), weights.shape[1]))

    def _for(self, logs):
        if self.temperature is None and self.alpha is None:
            return DeterministicSlates(self._best)
        if self.alpha is None:
            return SoftmaxRankings(self._softmax, self.n_slots)
        return PlackettLuceSlatePolicy(self._ranked, self.n_slots)

    def _check_logs(self, logs):
        check_slate_logs(logs)
        self._check()
        check_is_fitted(self)
        check_n_slots(self.n_slots, logs)

    def __sklearn_is_fitted__(self):
        given = isinstance(self.regressor, str)
        frozen = type(self.regressor).__name__ == "FrozenEstimator"
        return given or frozen or hasattr(self, "regressor_")

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        if isinstance(self.regressor, str):
            return tags
        tags.requires_fit = True
        tags.target_tags.required = True
        inner = get_tags(self.regressor).input_tags
        tags.input_tags.sparse = inner.sparse
        tags.input_tags.allow_nan = inner.allow_nan
        return tags


class SoftmaxRankings(RankingDistribution):
    """Slates drawn slot by slot, by weights that each slot has for itself."""

    def __init__(self, weights, n_slots):
        self.weights = weights
        self.n_slots = n_slots

    def _items(self, logs):
        return self.weights(logs)


def best_slates(scores, offered, n_slots):
    """Slates that show the best candidates in order, shape (n_rounds, n_slots)."""
    n_rounds = max(len(scores), len(offered))
    left = np.array(np.broadcast_to(scores, (n_rounds, scores.shape[1])))
    slates = np.empty((n_rounds, n_slots), dtype=np.intp)
    rows = np.arange(n_rounds)
    for slot in range(n_slots):
        here = np.where(offered[:, slot % offered.shape[1]], left, -np.inf)
        slates[:, slot] = first_best(here)
        full = here[rows, slates[:, slot]] > -np.inf
        left[rows[full], slates[full, slot]] = -np.inf
        slates[~full, slot] = EMPTY
    return slates


def _shown_candidates(logs):
    """Features of the shown candidates, and their rewards."""
    if logs.item_features is None or logs.slot_reward is None:
        raise ValueError(
            "RankingPolicy learns from item_features and slot_reward, which the logs "
            "lack. PseudoInverseRanker learns from the reward of whole slates."
        )
    rows, slots = np.nonzero(logs.slate != EMPTY)
    X = item_rows(logs, rows, logs.slate[rows, slots])
    return X, logs.slot_reward[rows, slots]
