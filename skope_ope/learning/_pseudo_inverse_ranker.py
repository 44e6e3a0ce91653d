# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Rankings learned from the rewards of whole slates, imputed for their slots."""

from __future__ import annotations

import warnings
from hashlib import blake2b
from typing import Any, Literal, NamedTuple

import numpy as np
from sklearn.base import MetaEstimatorMixin, clone
from sklearn.utils import get_tags
from sklearn.utils.validation import check_is_fitted

from skope_ope._sklearn import HasMethods, StrOptions
from skope_ope._types import Array
from skope_ope.evaluators.core._slate_target import SlateTarget, method
from skope_ope.evaluators.slate._base import check_logged_slates
from skope_ope.evaluators.slate._pseudo_inverse import OUTSIDE
from skope_ope.evaluators.slate._pseudo_inverse_weights import (
    by_distribution,
    round_weights,
    solve,
)
from skope_ope.exceptions import SupportWarning
from skope_ope.logs import SlateLogs
from skope_ope.logs._validation import EMPTY, check_y, column_weights
from skope_ope.policies._base import first_best
from skope_ope.policies._classifier_policy import refuse_to_score
from skope_ope.policies._learned_rounds import remember_rows
from skope_ope.policies.slate._slate_base import (
    BaseSlatePolicy,
    check_slate_logs,
    distinct_rows,
    entries,
    offered_slots,
)
from skope_ope.policies.slate._slate_policy import DeterministicSlates
from skope_ope.propensities._model_fits import (
    fit_weighted,
    predictions_of,
    takes_weights,
)

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

    score = property(refuse_to_score)

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


# -- rewards of slots, imputed from the rewards of whole slates ------------------------
# With the second moments :math:`\Gamma_x` of the logger, :math:`r\,\Gamma_x^+ 1_s` has
# the mean :math:`\Gamma_x^+ \Gamma_x \phi_x` wherever the reward is a sum over slots:
# the part of :math:`\phi_x` that slates of the logger can tell, which gives all of
# these slates their value. It is linear in :math:`r\,1_s`, so that only the sums of
# that are kept, one table per query, however many rounds were logged.

UNIFORM_BYTES = 2**25  # of one table (rounds, candidates), where nothing is inverted


class Queries(NamedTuple):
    """Distinct sets of candidates among rounds."""

    first: np.ndarray  # A round of every query
    index: np.ndarray  # query of every round
    features: np.ndarray  # features of the candidates
    # Who can be shown where; the last slots of a query with too few candidates show
    # nobody
    offered: np.ndarray


def queries_of(logs, n_slots, user):
    """Find the queries: rounds with equal features of equal candidates."""
    features = logs.item_features
    if features is None:
        raise ValueError(
            f"{user} learns from the features of candidates, and the logs have none: "
            "pass SlateLogs(..., item_features=...)."
        )
    offered = offered_slots(logs, n_slots)
    tables = [] if len(offered) == 1 else [offered.reshape(len(logs), -1)]
    if features.ndim == 3:
        tables.append(features.reshape(len(logs), -1))
    elif len(features) != logs.max_candidates:
        tables.append(logs.item_id)
    index = np.zeros(len(logs), dtype=np.intp)
    for table in tables:
        first, other = distinct_rows(table)
        index = index * len(first) + other
    _, first, index = np.unique(index, return_index=True, return_inverse=True)
    rounds = logs[first]
    features = rounds._per_candidate(rounds.item_features)
    features = np.broadcast_to(features, (len(first), *features.shape[1:]))
    offered = offered_slots(rounds, n_slots)
    n_offered = offered.any(axis=1).sum(axis=1)[:, None, None]
    fillable = np.arange(n_slots)[:, None] < n_offered
    shape = (len(first), n_slots, offered.shape[2])
    offered = np.broadcast_to(offered & fillable, shape)
    return Queries(first, index.reshape(-1), features, offered)


def distinct_laws(logs, query):
    """Return rounds of every pair of a query and a logging distribution."""
    # rounds of one query may have several distributions, and each of them in several
    # orders of the candidates
    drawn = logs.logging_policy.distributions(logs)
    orders, order = distinct_rows(drawn.order)
    keys = (query * len(drawn) + drawn.index) * len(orders) + order
    _, first, index = np.unique(keys, return_index=True, return_inverse=True)
    return first, index.reshape(-1)


class ImputedRewards:
    """Mean imputed reward of every slot and candidate, query by query."""

    def __init__(self, user):
        self.user = user
        self.n_slots, self.n_rounds = None, 0
        self.repeats, self.examples = False, []
        self._number = {}

    def add(self, logs):
        """Add the rounds of a batch of logs."""
        self._check(logs)
        weight = column_weights(logs)
        if weight is not None and not weight.all():
            logs = logs[np.flatnonzero(weight)]  # a query of such rounds has no mean
        form = logs.logging_policy.closed_form(logs)
        self.repeats |= form == "product" or _some_repeat(logs.slate)
        if form == "uniform":
            step = max(1, UNIFORM_BYTES // (8 * logs.max_candidates))
            for start in range(0, len(logs), step):
                self._add_uniform(logs[start : start + step])
        else:
            kept = {}
            for rows in by_distribution(logs.logging_policy, logs):
                self._add(logs[rows], kept)
        self.n_rounds += len(logs)

    def mean(self):
        """Return the means, of shape (n_queries, n_slots, n_candidates)."""
        return self.totals / self.counts[:, None, None]

    def _check(self, logs):
        logger = logs.logging_policy
        if logger is None:
            raise ValueError(
                f"{self.user} needs the policy that chose the logged slates. Pass "
                "SlateLogs(..., logging_policy=...). If all rankings were equally "
                "likely, use "
                "logs.replace(logging_policy=UniformSlatePolicy(n_slots))."
            )
        if not hasattr(logger, "distributions"):
            raise TypeError(
                f"the logging_policy {type(logger).__name__} does not give the "
                "probabilities of pairs of slots and candidates. Derive it from "
                "BaseSlatePolicy, or wrap it in SampledSlatePolicy, which takes "
                "means over draws."
            )
        check_logged_slates(logs)
        shape = (logs.n_slots, logs.max_candidates)
        if self.n_slots is None:
            self.n_slots, self.n_candidates = shape
        elif shape != (self.n_slots, self.n_candidates):
            raise ValueError(
                "batches of logs must have the same numbers of slots and candidates, "
                f"got {shape} after {(self.n_slots, self.n_candidates)}. The field "
                "`candidates` says which ones a round lacks."
            )

    def _add_uniform(self, rounds):
        queries = queries_of(rounds, self.n_slots, self.user)
        sums = _query_sums(rounds, queries.index, len(queries.first))
        offered = offered_slots(rounds[queries.first], self.n_slots)[:, 0]
        imputed = _apply_uniform(sums, offered)
        self._gather(rounds, queries, queries.first, imputed, queries.offered)

    def _add(self, rounds, kept):
        queries = queries_of(rounds, self.n_slots, self.user)
        first, index = distinct_laws(rounds, queries.index)
        sums = _query_sums(rounds, index, len(first))
        imputed = _apply_inverse(sums, rounds[first], kept)
        shown = method(rounds.logging_policy, "slot_marginals")(rounds[first]) > 0
        self._gather(rounds, queries, first, imputed, shown)

    def _gather(self, rounds, queries, first, imputed, shown):
        """Add sums, which belong to the queries of some rounds."""
        known = len(self._number)
        numbers = self._numbers(queries)
        new = numbers >= known
        if new.any():
            self.examples.append((numbers[new], rounds[queries.first[new]]))
        np.add.at(self.totals, numbers[queries.index[first]], imputed)
        np.logical_or.at(self.shown, numbers[queries.index[first]], shown)
        met, weight = numbers[queries.index], column_weights(rounds)
        self.counts += np.bincount(met, weight, minlength=len(self.counts))

    def _numbers(self, queries):
        """Return the numbers of queries among all, and number new ones."""
        known = len(self._number)
        tables = zip(queries.features, queries.offered, strict=True)
        keys = (_key_of(features, offered) for features, offered in tables)
        numbers = np.array(
            [self._number.setdefault(key, len(self._number)) for key in keys]
        )
        new = np.flatnonzero(numbers >= known)
        fields = {
            "features": queries.features[new],
            "offered": queries.offered[new],
            "totals": np.zeros((len(new), self.n_slots, self.n_candidates)),
            "shown": np.zeros((len(new), self.n_slots, self.n_candidates), dtype=bool),
            "counts": np.zeros(len(new)),
        }
        for name, values in fields.items():
            old = [getattr(self, name)] if known else []
            setattr(self, name, np.concatenate([*old, values]))
        return numbers


def _some_repeat(slates):
    """Tell whether a slate shows a candidate twice."""
    ordered = np.sort(slates, axis=1)
    return bool(((ordered[:, 1:] == ordered[:, :-1]) & (ordered[:, 1:] != EMPTY)).any())


def _key_of(*tables):
    """Return 16 bytes that tell tables apart: their own bytes would fill the memory."""
    digest = blake2b(digest_size=16)
    for table in tables:
        digest.update(np.ascontiguousarray(table))
    return digest.digest()


def _query_sums(rounds, index, n_sums):
    """Return sums of r 1_s, of shape (n_sums, n_slots, n_candidates)."""
    shape = (n_sums, rounds.n_slots, rounds.max_candidates)
    rows, slots = np.nonzero(rounds.slate != EMPTY)
    cells = np.ravel_multi_index((index[rows], slots, rounds.slate[rows, slots]), shape)
    weight = column_weights(rounds)
    gain = rounds.reward if weight is None else rounds.reward * weight
    weights = gain[rows]
    return np.bincount(cells, weights, minlength=np.prod(shape)).reshape(shape)


def _apply_inverse(sums, rounds, kept):
    """Apply the rounds' pseudoinverses to vectors in their ranges."""
    drawn = rounds.logging_policy.distributions(rounds)
    table = solve(drawn, drawn.marginals(sums), kept).table
    place = np.broadcast_to(drawn.place, (len(sums), drawn.place.shape[1]))
    return np.take_along_axis(table, place[:, None], axis=2)


def _apply_uniform(sums, offered):
    r"""Apply the pseudoinverse of uniform rankings."""
    # With m candidates and l filled slots it takes :math:`1_s` to
    #
    # .. math::
    #
    #     \frac 1 l + (m-1) \Bigl[1(s_j = a) - \frac{c_a}{l}\Bigr]
    #     + \frac{m(m-1)}{m-l} \Bigl[\frac{c_a}{l} - \frac 1 m\Bigr],
    #
    # :math:`c_a` being 1 where a is in s, without the last term where l = m. Of sums of
    # :math:`r\,1_s` every slot sums to the same sum of r.
    n_slots = sums.shape[1]
    m = offered.sum(axis=1)[:, None, None]
    length = np.minimum(n_slots, m)
    shown = sums.sum(axis=1, keepdims=True) / np.maximum(length, 1)
    total = sums[:, :1].sum(axis=2, keepdims=True)
    out = total / np.maximum(length, 1) + (m - 1) * (sums - shown)
    spare = np.where(m > length, m * (m - 1) / np.maximum(m - length, 1), 0.0)
    out += spare * (shown - total / np.maximum(m, 1))
    filled = np.arange(n_slots)[:, None] < length
    return np.where(offered[:, None] & filled, out, 0.0)
