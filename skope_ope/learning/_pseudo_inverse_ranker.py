# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Rankings learned from the rewards of whole slates."""

from __future__ import annotations

import warnings
from typing import Any, Literal, NoReturn

import numpy as np
from sklearn.base import MetaEstimatorMixin, clone
from sklearn.utils import get_tags
from sklearn.utils.validation import check_is_fitted

from skope_ope._sklearn import HasMethods, StrOptions
from skope_ope._types import Array
from skope_ope.evaluators.core._slate_target import SlateTarget, method
from skope_ope.evaluators.slate._pseudo_inverse import OUTSIDE
from skope_ope.evaluators.slate._pseudo_inverse_weights import round_weights
from skope_ope.exceptions import SupportWarning
from skope_ope.learning._imputed_rewards import (
    ImputedRewards,
    distinct_laws,
    queries_of,
)
from skope_ope.logs import SlateLogs
from skope_ope.logs._slate_fields import EMPTY
from skope_ope.logs._validation import check_y
from skope_ope.policies._base import first_best
from skope_ope.policies._classifier_policy import refuse_to_score
from skope_ope.policies._learned_rounds import remember_rows
from skope_ope.policies.slate._slate_base import BaseSlatePolicy
from skope_ope.policies.slate._slate_policy import DeterministicSlates
from skope_ope.policies.slate._slate_tables import check_slate_logs, entries
from skope_ope.propensities._encoded import predictions_of
from skope_ope.propensities._weighted_fit import fit_weighted, takes_weights

PREDICTION_CHUNK = 2**18  # rows that are predicted at once


class PseudoInverseRanker(MetaEstimatorMixin, BaseSlatePolicy):
    r"""Learn rankings from the rewards of whole slates [1]_.

    If the reward of a slate is a sum over its slots, the reward of candidate a in slot
    j of query x is imputed by

    .. math:: \hat\phi_x = \frac{1}{n_x} \sum_{i: x_i = x} r_i\, \Gamma_x^+ 1_{s_i},
        \qquad \Gamma_x = E_\mu[1_s 1_s^T | x],

    the mean over the rounds of the query. A regressor learns these numbers from the
    features of the candidate and the slot, for the slots in which the logger shows it.
    The policy shows the slate of the largest predicted sum. Items need no rewards. Read
    more in the :ref:`User Guide <learning>`.

    Parameters
    ----------
    reward_model : scikit-learn regressor
        It predicts from a row of `logs.item_features` followed by the number of the
        slot, counted from 0. Every query has the same weight, and each of its rows 1 /
        (candidates times slots). A regressor without `sample_weight` is fitted
        unweighted. In a linear regressor the slot only changes a constant. Add products
        of features, for example by ``PolynomialFeatures(interaction_only=True)``.
    assignment : {"optimal", "greedy"}, default="optimal"
        "optimal": the slate of the largest sum of predictions. "greedy": the best pair
        of slot and candidate, then the best one that is left, as in [1]_.
    outside_range : {"avoid", "allow"}, default="avoid"
        How to treat slates outside the range of :math:`\Gamma_x` (see `PseudoInverse`),
        for which the log has no rewards. "avoid": if the rounds have a
        `logging_policy`, a slate inside the range is shown instead. "allow": the
        prediction is trusted. See Notes.

    Attributes
    ----------
    reward_model_ : regressor
        The fitted regressor.
    n_slots_ : int
        Number of slots.
    n_rounds_, n_queries_ : int
        How many rounds and distinct queries were learned from.
    repeats_ : bool
        Whether the logger shows a candidate in several slots of a slate; then the
        policy may.
    outside_range_share_ : float
        Share of these queries in which the slate of the largest predicted sum lies
        outside of the range of the logger.

    See Also
    --------
    RankingPolicy : Learns from a reward of every item.

    Notes
    -----
    Rounds with candidates of equal features are one query. One table (n_slots,
    n_candidates) is kept per query, for any number of rounds. The sum of the imputed
    rewards of a slate is unbiased for its value. Single imputed rewards are not
    identified: the slates of the logger leave, for example, a constant of each slot
    unknown. The solution of the smallest norm is used. A constant of a slot can change
    the greedy choice, but not the optimal one.

    This does not hold for rewards that are not a sum over slots.

    To stay inside the range of the logger, only candidates that it shows in a slot
    compete for this slot. The slate of the largest sum can still be outside, if the
    logger never shows enough of its items together. Then the best of 200 slates that
    the logger would draw is shown. Rounds in deployment have no `logging_policy`, so
    the range is not known. A warning then gives the share of queries in `fit` for which
    the range mattered.

    References
    ----------
    .. [1] Swaminathan, A., et al. (2017). Off-policy evaluation for slate
       recommendation. NeurIPS 30. Section 4.2.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.tree import DecisionTreeRegressor
    >>> from skope_ope import PseudoInverseRanker
    >>> from skope_ope.datasets import RankingWorld
    >>> grades = np.array([0, 1, 2, 0, 0, 2, 0, 1])
    >>> X = np.column_stack([grades, np.arange(8) % 3])
    >>> world = RankingWorld(X, grades, [7, 7, 7, 7, 9, 9, 9, 9], n_slots=2)
    >>> ranker = PseudoInverseRanker(DecisionTreeRegressor(min_samples_leaf=2))
    >>> ranker = ranker.fit(world.draw(5000, random_state=0))
    >>> ranker.deterministic_slates(world.queries)
    array([[2, 1],
           [1, 3]])
    >>> round(world.value(ranker), 12)
    1.0
    """

    _parameter_constraints: dict = {
        "reward_model": [HasMethods(["fit", "predict"])],
        "assignment": [StrOptions({"optimal", "greedy"})],
        "outside_range": [StrOptions({"avoid", "allow"})],
    }

    def __init__(
        self,
        reward_model: Any,
        *,
        assignment: Literal["optimal", "greedy"] = "optimal",
        outside_range: Literal["avoid", "allow"] = "avoid",
    ) -> None:
        self.reward_model = reward_model
        self.assignment = assignment
        self.outside_range = outside_range

    def fit(self, logs, y=None):
        """Learn from logs, in one pass.

        Parameters
        ----------
        logs : SlateLogs or iterable of SlateLogs
            Rounds with `item_features` and `logging_policy`; batches of them, such as
            ``RankingWorld.stream`` yields, where all rounds do not fit into memory.
        y : array-like of shape (n_rounds,), default=None
            Ignored: the logs hold actions and rewards.

        Returns
        -------
        self : PseudoInverseRanker
        """
        self._validate_params()
        if isinstance(logs, SlateLogs):
            check_y(y, len(logs), type(self).__name__)
        rewards = ImputedRewards(type(self).__name__)
        for batch in [logs] if isinstance(logs, SlateLogs) else _batches(logs):
            check_slate_logs(batch)
            rewards.add(batch)
        if not rewards.n_rounds:
            raise ValueError("the logs are empty: at least one round is learned from.")
        self.n_slots_ = rewards.n_slots
        self.n_rounds_, self.n_queries_ = rewards.n_rounds, len(rewards.counts)
        offered = rewards.offered & rewards.shown
        rows = offered.sum(axis=(1, 2))  # candidates times slots
        weight = np.repeat(1 / np.maximum(rows, 1), rows)
        weight /= weight.mean()
        if np.ptp(weight) < 1e-12 or not takes_weights(self.reward_model):
            weight = None
        X = design_by_slot(rewards.features, offered)
        y = rewards.mean()[offered]
        self.reward_model_ = fit_weighted(clone(self.reward_model), X, y, weight)
        self.repeats_ = rewards.repeats
        self.outside_range_share_ = self._share_outside(rewards)
        if self.outside_range == "allow":
            self._warn_of_range()
        # what is drawn batch by batch does not come again
        parts = logs if isinstance(logs, (list, tuple)) else [logs]
        remember_rows(self, *(part for part in parts if isinstance(part, SlateLogs)))
        return self

    def slot_values(self, logs: SlateLogs) -> Array:
        """Predict what every candidate is worth in every slot.

        Parameters
        ----------
        logs : SlateLogs
            The rounds.

        Returns
        -------
        values : ndarray of shape (n_rounds, n_slots, n_candidates)
            -inf where a candidate cannot be shown.
        """
        self._check_logs(logs)
        values, index = self._values(logs)
        return values[index]

    def deterministic_slates(self, logs: SlateLogs) -> Array:
        """Slates of the largest predicted reward.

        Parameters
        ----------
        logs : SlateLogs
            The rounds.

        Returns
        -------
        slates : ndarray of int of shape (n_rounds, n_slots)
            Index of the candidate in every slot; -1 where none is left.
        """
        self._check_logs(logs)
        values, index = self._values(logs)
        known = logs.logging_policy is not None
        if self.outside_range == "avoid" and not known:
            self._warn_of_range()
        if self.outside_range == "allow" or not known or reaches_every_ranking(logs):
            return self._compose(values)[index]
        first, pair = distinct_laws(logs, index)
        plain = self._assignments()
        return best_inside(values[index[first]], logs[first], plain)[pair]

    def _assignments(self):
        """How slates are composed, the best way first."""
        alone = assign if self.assignment == "optimal" else assign_greedily
        return (best_in_every_slot, alone) if self.repeats_ else (alone,)

    def _compose(self, values):
        return self._assignments()[0](values)

    def _share_outside(self, rewards):
        """Share of the queries whose best slate no reward tells."""
        n_outside = 0
        for numbers, rounds in rewards.examples:
            if not reaches_every_ranking(rounds) or self.repeats_:
                features, offered = rewards.features[numbers], rewards.offered[numbers]
                slates = self._compose(self._predicted(features, offered))
                n_outside += outside_range(slates, rounds).sum()
        return float(n_outside / self.n_queries_)

    def _warn_of_range(self):
        share = self.outside_range_share_
        if not share:
            return
        text = (
            f"in {share:.1%} of the queries of fit, the slate with the largest "
            "predicted sum shows candidates in slots, or in combinations, that the "
            "logger never shows. The log does not show the value of this slate. "
        )
        if self.outside_range == "avoid":
            text += (
                "To show the best slate that the logger can show, give the rounds "
                "their logging_policy. To trust the model beyond, pass "
                "outside_range='allow'."
            )
        else:
            text += "Pass outside_range='avoid', or try these slates in an experiment."
        warnings.warn(SupportWarning(text, share), stacklevel=3)

    def score(
        self, logs: SlateLogs, y: None = None, sample_weight: None = None
    ) -> NoReturn:
        """Refuse: how good a policy is on logs is an estimate of an evaluator.

        Parameters
        ----------
        logs : SlateLogs
            Any.
        y, sample_weight : None
            By the conventions of scikit-learn.

        Raises
        ------
        TypeError
            Always; it names what scores a policy.
        """
        refuse_to_score()

    def _values(self, logs):
        """Predictions for the distinct queries, and the query of every round."""
        queries = queries_of(logs, self.n_slots_, type(self).__name__)
        return self._predicted(queries.features, queries.offered), queries.index

    def _predicted(self, features, offered):
        """Predictions, -inf where a candidate cannot be shown."""
        values = np.full(offered.shape, -np.inf)
        parts = max(1, PREDICTION_CHUNK // max(1, values[0].size))
        for start in range(0, len(values), parts):
            part = slice(start, start + parts)
            if offered[part].any():
                X = design_by_slot(features[part], offered[part])
                values[part][offered[part]] = predictions_of(self.reward_model_, X)
        if not np.isfinite(values[offered]).all():
            raise ValueError(
                f"{type(self.reward_model_).__name__} predicts a value that is not "
                "finite."
            )
        return values

    def _for(self, logs):
        return DeterministicSlates(self.deterministic_slates)

    def _slots_of(self, logs):
        return self.n_slots_

    def _check_logs(self, logs):
        check_slate_logs(logs)
        check_is_fitted(self)

    def __sklearn_is_fitted__(self):
        return hasattr(self, "reward_model_")

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.requires_fit = True
        tags.input_tags.allow_nan = get_tags(self.reward_model).input_tags.allow_nan
        return tags


def design_by_slot(features, offered):
    """Rows (features of the candidate, slot) where a candidate can be shown."""
    if not offered.all():
        query, slot, candidate = np.nonzero(offered)
        return np.column_stack([features[query, candidate], slot])
    X = np.empty((*offered.shape, features.shape[2] + 1))
    X[..., :-1] = features[:, None]
    X[..., -1] = np.arange(offered.shape[1])[:, None]
    return X.reshape(-1, X.shape[-1])


def _batches(logs):
    """Return an iterator of batches."""
    if hasattr(logs, "__array__") or not hasattr(logs, "__iter__"):
        check_slate_logs(logs)
    return iter(logs)


# -- slates from a table of what every candidate is worth in every slot ----------------
# Values are of shape (n_queries, n_slots, n_candidates), -inf where a candidate cannot
# be shown; slates are of shape (n_queries, n_slots), -1 where a slot stays empty.


def assign(values):
    """Slates of the largest sum of values, without repetition."""
    from scipy.optimize import linear_sum_assignment

    slates = np.full(values.shape[:2], EMPTY)
    for slate, table in zip(slates, values, strict=True):
        can = np.isfinite(table)
        if not can.any():
            continue
        # an empty slot costs more than the worst slate without one
        low, high = table[can].min(), table[can].max()
        penalty = low - len(table) * (high - low + 1)
        slots, shown = linear_sum_assignment(np.where(can, table, penalty), True)
        slate[slots] = np.where(can[slots, shown], shown, EMPTY)
    return slates


def assign_greedily(values):
    """Slates of the best pair of slot and candidate, then of the best one left."""
    left = values.copy()
    n_queries, n_slots, n_candidates = left.shape
    slates = np.full((n_queries, n_slots), EMPTY)
    every = np.arange(n_queries)
    for _ in range(n_slots):
        best = first_best(left.reshape(n_queries, -1))
        slot, shown = np.divmod(best, n_candidates)
        rows = np.flatnonzero(left[every, slot, shown] > -np.inf)
        slates[rows, slot[rows]] = shown[rows]
        left[rows, slot[rows]] = -np.inf
        left[rows, :, shown[rows]] = -np.inf
    return slates


def best_in_every_slot(values):
    """Slates of the best candidate of every slot, which may be the same one."""
    n_queries, n_slots, n_candidates = values.shape
    best = first_best(values.reshape(-1, n_candidates)).reshape(n_queries, n_slots)
    return np.where(np.isneginf(values).all(axis=2), EMPTY, best)


# -- slates whose value the logs of a logger can tell ----------------------------------
# Rewards of the logger's slates tell the value of a slate s, if they are sums over
# slots, where :math:`1_s` lies in the range of :math:`\Gamma_x = E_\mu[1_s 1_s^T | x]`:
# there :math:`1_s^T \Gamma_x^+ \Gamma_x \phi_x = 1_s^T \phi_x`. A candidate that the
# logger never shows in a slot is outside; so is a slate of candidates that it does
# show, if it never shows enough of them together.

N_DRAWS = 200  # of the logger, where no assignment lies in its range


def reaches_every_ranking(logs):
    """Tell whether every ranking without repetition is in the logger's range."""
    return logs.logging_policy.closed_form(logs) == "uniform"


def outside_range(slates, logs):
    """Tell which slates lie outside of the range of the logger's second moments."""
    target = SlateTarget(slates, logs)
    residual = round_weights(logs.logging_policy, target, target.logs).residual
    return np.zeros(len(logs), dtype=bool) if residual is None else residual > OUTSIDE


def best_inside(values, logs, assignments):
    """Slates of a large sum of values, inside the range of the logger."""
    logger = logs.logging_policy
    values = np.where(method(logger, "slot_marginals")(logs) > 0, values, -np.inf)
    slates = np.full(values.shape[:2], EMPTY)
    left = np.arange(len(logs))
    for compose in assignments:
        found = compose(values[left])
        inside = ~outside_range(found, logs[left])
        slates[left[inside]] = found[inside]
        left = left[~inside]
        if not left.size:
            return slates
    rounds, values = logs[left], values[left]
    most = np.full(len(left), -np.inf)
    rng = np.random.RandomState(0)
    for _ in range(N_DRAWS):
        drawn = logger.sample(rounds, rng)
        total = entries(values, drawn).sum(axis=1)
        better = total > most
        slates[left[better]], most[better] = drawn[better], total[better]
    return slates
