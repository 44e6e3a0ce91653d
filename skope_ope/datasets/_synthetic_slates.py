# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Slate logs whose true values are known: synthetic, or of graded documents."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import permutations, product
from math import perm
from numbers import Integral, Real
from typing import Any, Literal

import numpy as np
from scipy import sparse
from scipy.special import expit
from sklearn.utils import Bunch, check_random_state

from skope_ope._sklearn import Interval, StrOptions, validate_params
from skope_ope._texts import meant
from skope_ope._types import Array, ArrayLike, RandomSeed, SlatePolicyLike
from skope_ope.logs import SlateLogs
from skope_ope.logs._validation import EMPTY, as_numbers, check_labels
from skope_ope.policies import (
    PlackettLuceSlatePolicy,
    ProductSlatePolicy,
    UniformSlatePolicy,
)
from skope_ope.policies.slate._slate_policy import slate_policy

MOST_SUMMED_SLATES = 20_000  # of a round: over more of them no value is summed


@validate_params(
    {
        "n_rounds": [Interval(Integral, 1, None, closed="left")],
        "n_slots": [Interval(Integral, 1, None, closed="left")],
        "n_candidates": [Interval(Integral, 1, None, closed="left")],
        "n_features": [Interval(Integral, 1, None, closed="left")],
        "reward": [StrOptions({"additive", "cascade", "interaction"})],
        "logging": [StrOptions({"uniform", "plackett_luce", "product"})],
        "logging_temperature": [Interval(Real, 0, None, closed="neither")],
        "target_temperature": [Interval(Real, 0, None, closed="neither")],
        "world_random_state": ["random_state"],
        "random_state": ["random_state"],
        "return_truth": ["boolean"],
    },
    prefer_skip_nested_validation=True,
)
def make_slate_logs(
    n_rounds: int = 1000,
    *,
    n_slots: int = 3,
    n_candidates: int = 5,
    n_features: int = 3,
    reward: Literal["additive", "cascade", "interaction"] = "additive",
    logging: Literal["plackett_luce", "uniform", "product"] = "plackett_luce",
    logging_temperature: float = 1.0,
    target_temperature: float = 0.3,
    world_random_state: RandomSeed = None,
    random_state: RandomSeed = None,
    return_truth: bool = False,
) -> tuple[SlateLogs, SlatePolicyLike, Bunch]:
    r"""Generate slate logs, a policy to evaluate, and the policy's true value.

    Each slot is clicked or not, and the reward of a slate is its number of clicks.
    Contexts are independent standard normals. Read more in the
    :ref:`User Guide <datasets>`.

    Parameters
    ----------
    n_rounds : int, default=1000
        Number of logged rounds.
    n_slots : int, default=3
        Number of slots.
    n_candidates : int, default=5
        Number of candidates.
    n_features : int, default=3
        Number of context features.
    reward : {"additive", "cascade", "interaction"}, default="additive"
        How the click on a slot depends on the slate. "additive": on its own candidate
        and slot. "cascade": also on the slots before, because a reader stops at an
        attractive candidate. "interaction": also on all other slots, because
        candidates distract from each other. Only "additive" makes the value of a slate
        a sum over slots, as the pseudoinverse estimator assumes.
    logging : {"plackett_luce", "uniform", "product"}, default="plackett_luce"
        Rankings by a softmax of the logger's scores, equally likely rankings, or slots
        filled independently (with repetition) by that softmax.
    logging_temperature : float, default=1.0
        Temperature of the logger's softmax. Small values mean little exploration.
    target_temperature : float, default=0.3
        Temperature of the evaluated policy's softmax over the true attractions.
    world_random_state : int, RandomState instance or None, default=None
        Seed of the coefficients. `None`: `random_state` also draws the coefficients.
    random_state : int, RandomState instance or None, default=None
        Seed of the contexts, slates and clicks.
    return_truth : bool, default=False
        Also return the policy to evaluate and its true value.

    Returns
    -------
    logs : SlateLogs
        With `slot_reward`, `propensity`, `logging_policy` and `item_features`, which
        are the coefficients of the candidates.
    policy : slate policy
        A Plackett-Luce policy to evaluate, or a product policy if `logging` is
        "product". Only if `return_truth`.
    truth : Bunch
        Only if `return_truth`.

        value : float
            Value of `policy` on exactly these contexts. It is the expectation of
            unbiased evaluators over new draws of slates and clicks. NaN if a round has
            too many slates to sum over.
        slot_values : ndarray of shape (n_rounds, n_slots, n_candidates) or None
            Probability of a click on a candidate in a slot; None unless additive.
        expected_slot_rewards : callable
            A function of slates of shape (n_rounds, n_slots) that returns the
            probability of a click on every slot.

    Notes
    -----
    The attraction of a candidate in a slot is
    :math:`\phi(x, j, a) = d_j \sigma(x \theta_a + b_a)` with
    :math:`d_j = 1 / \log_2(j + 1)`. The probability of a click on slot j is

    - additive: :math:`\phi(x, j, s_j)`,
    - cascade: :math:`\phi(x, j, s_j) \prod_{i < j} (1 - \phi(x, i, s_i))`,
    - interaction: :math:`\phi(x, j, s_j)` times one minus half the mean attraction of
      the other slots.

    Examples
    --------
    >>> from skope_ope.datasets import make_slate_logs
    >>> logs, policy, truth = make_slate_logs(random_state=0, return_truth=True)
    >>> logs
    SlateLogs(n_rounds=1000, n_features=3, n_slots=3, n_candidates=5)
    >>> f"{truth.value:.3f} against {logs.reward.mean():.3f} under the logger"
    '1.424 against 1.235 under the logger'
    """
    repeats = logging == "product"
    if not repeats and n_slots > n_candidates:
        raise ValueError(
            f"n_slots={n_slots} is more than n_candidates={n_candidates}: rankings do "
            "not repeat candidates. Pass logging='product' or fewer slots."
        )
    rng = check_random_state(random_state)
    world_rng = rng if world_random_state is None else world_random_state
    world = _SlateWorld(n_slots, n_candidates, n_features, reward, world_rng)
    context = rng.standard_normal((n_rounds, n_features))
    empty = SlateLogs(
        context,
        np.full((n_rounds, n_slots), EMPTY),
        np.zeros(n_rounds),
        n_candidates=n_candidates,
    )
    logger = UniformSlatePolicy(n_slots)
    if logging != "uniform":
        taste = world.taste, world.taste_bias, logging_temperature
        logger = _softmax_policy(*taste, n_slots, repeats)
    slates = logger.sample(empty, rng)
    chance = world.click_proba(context, slates)
    clicks = (rng.random_sample(chance.shape) < chance).astype(float)
    logs = SlateLogs(
        context,
        slates,
        None,
        n_candidates=n_candidates,
        item_features=np.column_stack([world.theta.T, world.bias]),
        slot_reward=clicks,
        logging_policy=logger,
        propensity=logger.slate_proba(empty, slates),
        reward_range=(0.0, float(n_slots)),
    )
    if not return_truth:
        return logs
    best = world.theta, world.bias, target_temperature
    policy = _softmax_policy(*best, n_slots, repeats)
    truth = Bunch(
        value=world.value(policy, empty, repeats),
        slot_values=world.attraction(context) if reward == "additive" else None,
        expected_slot_rewards=lambda slates: world.click_proba(context, slates),
    )
    return logs, policy, truth


class SoftmaxOfContext:
    """Weights of the candidates: a softmax of scores that are linear in the context."""

    def __init__(self, theta, bias, temperature, n_slots=None):
        self.theta, self.bias, self.temperature = theta, bias, temperature
        self.n_slots = n_slots

    def __call__(self, logs):
        """Weights of the candidates of every round; rows sum to one."""
        scores = (np.asarray(logs.context) @ self.theta + self.bias) / self.temperature
        weights = np.exp(np.maximum(scores - scores.max(axis=1, keepdims=True), -500))
        weights /= weights.sum(axis=1, keepdims=True)
        if self.n_slots is None:
            return weights
        return np.repeat(weights[:, None], self.n_slots, axis=1)


def _softmax_policy(theta, bias, temperature, n_slots, repeats):
    if repeats:
        return ProductSlatePolicy(SoftmaxOfContext(theta, bias, temperature, n_slots))
    weights = SoftmaxOfContext(theta, bias, temperature)
    return PlackettLuceSlatePolicy(weights, n_slots)


class _SlateWorld:
    """Coefficients of one synthetic world."""

    def __init__(self, n_slots, n_candidates, n_features, reward, random_state):
        rng = check_random_state(random_state)
        scale = n_features**-0.5
        self.n_slots, self.n_candidates, self.reward = n_slots, n_candidates, reward
        self.theta = scale * rng.standard_normal((n_features, n_candidates))
        self.bias = rng.standard_normal(n_candidates)
        self.taste = scale * rng.standard_normal((n_features, n_candidates))
        self.taste_bias = rng.standard_normal(n_candidates)

    def attraction(self, context):
        """Return phi: (n_rounds, n_slots, n_candidates)."""
        own = expit(context @ self.theta + self.bias)
        return slot_discounts(self.n_slots)[:, None] * own[:, None]

    def click_proba(self, context, slates):
        """Probability of a click on every slot of slates."""
        slates = np.broadcast_to(slates, (len(context), self.n_slots))
        index = np.maximum(slates, 0)[:, :, None]
        phi = np.take_along_axis(self.attraction(context), index, axis=2)[:, :, 0]
        phi = np.where(slates == EMPTY, 0.0, phi)
        if self.reward == "cascade":
            phi[:, 1:] *= np.cumprod(1 - phi, axis=1)[:, :-1]
        elif self.reward == "interaction" and self.n_slots > 1:
            others = (phi.sum(axis=1, keepdims=True) - phi) / (self.n_slots - 1)
            phi = phi * (1 - others / 2)
        return phi

    def value(self, policy, rounds, repeats):
        """Mean over the rounds of the policy's expected reward."""
        policy, context = slate_policy(policy, rounds), rounds.context
        if self.reward == "additive":
            terms = policy.slot_marginals(rounds) * self.attraction(context)
            return float(terms.sum(axis=(1, 2)).mean())
        m, n_slots = self.n_candidates, self.n_slots
        if (m**n_slots if repeats else perm(m, n_slots)) > MOST_SUMMED_SLATES:
            return float("nan")
        slates = product(range(m), repeat=n_slots)
        if not repeats:
            slates = permutations(range(m), n_slots)
        total = 0.0
        for slate in slates:
            shown = np.tile(np.array(slate), (len(context), 1))
            clicks = self.click_proba(context, shown).sum(axis=1)
            total += (policy.slate_proba(rounds, shown) * clicks).mean()
        return float(total)


# -- rewards of whole slates from the grades of their items ----------------------------

DISCOUNTS = ("paper", "jarvelin")


def slot_discounts(n_slots, discount="paper"):
    r"""Return the factors of the slots' gains in DCG, shape (n_slots,)."""
    slots = np.arange(1, n_slots + 1)
    if discount == "paper":
        return 1 / np.log2(slots + 1)
    if discount == "jarvelin":
        return 1 / np.log2(np.maximum(slots, 2))
    hint = meant(discount, DISCOUNTS)
    raise ValueError(f"discount must be one of {DISCOUNTS}, got {discount!r}.{hint}")


def dcg(
    grades: ArrayLike,
    slates: ArrayLike,
    *,
    discount: Literal["paper", "jarvelin"] = "paper",
) -> Array:
    r"""Discounted cumulative gain of slates.

    .. math:: DCG(s) = \sum_j (2^{g(s_j)} - 1) / d_j

    Parameters
    ----------
    grades : array-like of shape (n_rounds, n_candidates) or (n_candidates,)
        Grades of relevance of the candidates, at least 0.
    slates : array-like of int of shape (n_rounds, n_slots)
        Candidate in every slot; -1 is an empty slot, with gain 0.
    discount : {"paper", "jarvelin"}, default="paper"
        "paper": :math:`d_j = \log_2(j + 1)` [1]_. "jarvelin": 1, 1,
        :math:`\log_2 3`, :math:`\log_2 4`, ... [2]_.

    Returns
    -------
    reward : ndarray of shape (n_rounds,)

    References
    ----------
    .. [1] Swaminathan, A., et al. (2017). Off-policy evaluation for slate
       recommendation. NeurIPS 30.
    .. [2] Järvelin, K., Kekäläinen, J. (2002). Cumulated gain-based evaluation of IR
       techniques. ACM TOIS 20.

    Examples
    --------
    >>> from skope_ope.datasets import dcg
    >>> dcg([0, 2, 1], [[1, 2], [0, 1]]).round(3)
    array([3.631, 1.893])
    """
    grades, slates = _grades_of(grades, slates)
    gains = np.where(slates == EMPTY, 0.0, 2.0 ** _in_slots(grades, slates) - 1)
    return gains @ slot_discounts(slates.shape[1], discount)


def ndcg(
    grades: ArrayLike,
    slates: ArrayLike,
    *,
    discount: Literal["paper", "jarvelin"] = "paper",
    offered: Array | None = None,
) -> Array:
    """DCG of slates, divided by the DCG of the best slate of the round.

    Parameters
    ----------
    grades : array-like of shape (n_rounds, n_candidates) or (n_candidates,)
        Grades of relevance of the candidates, at least 0.
    slates : array-like of int of shape (n_rounds, n_slots)
        Candidate in every slot; -1 is an empty slot, with gain 0.
    discount : {"paper", "jarvelin"}, default="paper"
        As in `dcg`.
    offered : ndarray of bool of shape (n_rounds, n_candidates), default=None
        Candidates that the best slate may show. `None`: all.

    Returns
    -------
    reward : ndarray of shape (n_rounds,)
        Between 0 and 1; 0 if no candidate has a positive grade.

    Examples
    --------
    >>> from skope_ope.datasets import ndcg
    >>> ndcg([0, 2, 1], [[1, 2], [0, 1]]).round(3)
    array([1.   , 0.521])
    """
    grades, slates = _grades_of(grades, slates)
    best = best_dcg(grades, slates.shape[1], discount, offered)
    reached = dcg(grades, slates, discount=discount)
    return np.divide(reached, best, out=np.zeros(len(slates)), where=best > 0)


def best_dcg(grades, n_slots, discount="paper", offered=None):
    """DCG of the best slate of every round."""
    grades = grades if offered is None else np.where(offered, grades, 0.0)
    top = -np.sort(-grades, axis=-1)[..., :n_slots]
    return (2.0**top - 1) @ slot_discounts(top.shape[-1], discount)


def err(grades: ArrayLike, slates: ArrayLike, *, max_grade: float = 4) -> Array:
    r"""Return the expected reciprocal rank of slates.

    .. math::

        ERR(s) = \sum_j \frac{R(s_j)}{j} \prod_{i < j} (1 - R(s_i)),
        \quad R(a) = \frac{2^{g(a)} - 1}{2^{g_{max}}}

    It is not a sum over slots: what a slot adds depends on the slots before it.

    Parameters
    ----------
    grades : array-like of shape (n_rounds, n_candidates) or (n_candidates,)
        Grades of relevance of the candidates, between 0 and `max_grade`.
    slates : array-like of int of shape (n_rounds, n_slots)
        Candidate in every slot; -1 is an empty slot.
    max_grade : float, default=4
        The largest possible grade.

    Returns
    -------
    reward : ndarray of shape (n_rounds,)

    References
    ----------
    .. [1] Chapelle, O., Metzler, D., Zhang, Y., Grinspan, P. (2009). Expected
       reciprocal rank for graded relevance. CIKM.

    Examples
    --------
    >>> from skope_ope.datasets import err
    >>> err([0, 2, 1], [[1, 2], [0, 1]], max_grade=2)
    array([0.78125, 0.375  ])
    """
    grades, slates = _grades_of(grades, slates)
    if grades.max() > max_grade:
        raise ValueError(
            f"a grade is {grades.max():g}, more than max_grade={max_grade:g}. Pass the "
            "largest grade there is."
        )
    stops = (2.0 ** _in_slots(grades, slates) - 1) / 2.0**max_grade
    stops = np.where(slates == EMPTY, 0.0, stops)
    reads_on = np.cumprod(1 - stops, axis=1)[:, :-1]
    stops[:, 1:] *= reads_on
    return stops @ (1 / np.arange(1, slates.shape[1] + 1))


def reciprocal_rank(grades: ArrayLike, slates: ArrayLike) -> Array:
    """Return 1 / (slot of the first candidate with a positive grade), or 0.

    Parameters
    ----------
    grades : array-like of shape (n_rounds, n_candidates) or (n_candidates,)
        Grades of relevance of the candidates, at least 0.
    slates : array-like of int of shape (n_rounds, n_slots)
        Candidate in every slot; -1 is an empty slot.

    Returns
    -------
    reward : ndarray of shape (n_rounds,)

    Examples
    --------
    >>> from skope_ope.datasets import reciprocal_rank
    >>> reciprocal_rank([0, 2, 1], [[1, 2], [0, 1]])
    array([1. , 0.5])
    """
    grades, slates = _grades_of(grades, slates)
    found = (slates != EMPTY) & (_in_slots(grades, slates) > 0)
    return np.where(found.any(axis=1), 1 / (1 + found.argmax(axis=1)), 0.0)


def _grades_of(grades, slates):
    """Return grades of shape (n_rounds, n_candidates) and the slates."""
    grades = as_numbers("grades", grades, 1 if np.ndim(grades) == 1 else 2)
    slates = np.asarray(slates)
    if slates.dtype.kind not in "iu" or slates.ndim != 2:
        raise TypeError(
            "slates must hold integers of shape (n_rounds, n_slots), got dtype "
            f"{slates.dtype}, shape {slates.shape}."
        )
    if grades.ndim == 1:
        grades = np.broadcast_to(grades, (len(slates), len(grades)))
    if len(grades) != len(slates):
        raise ValueError(
            f"grades has {len(grades)} rows, slates has {len(slates)}: one each is "
            "needed, or grades of shape (n_candidates,) for all rounds."
        )
    if grades.size and grades.min() < 0:
        raise ValueError(f"grades must be at least 0, got {grades.min():g}.")
    if slates.min() < EMPTY or slates.max() >= grades.shape[1]:
        raise ValueError(
            f"slates must hold candidates 0 to {grades.shape[1] - 1} or -1, got "
            f"{slates.min()} to {slates.max()}."
        )
    return grades, slates


def _in_slots(grades, slates):
    return np.take_along_axis(grades, np.maximum(slates, 0), axis=1)


# -- graded documents: every slate has a known reward ----------------------------------

METRICS = {"dcg", "ndcg", "err", "reciprocal_rank"}


class RankingWorld:
    """Queries with graded documents, for semi-synthetic slate logs.

    Each round is a query, drawn at random with replacement. Its candidates are the best
    documents by some score. The reward of a slate is computed from the grades, without
    noise [1]_. Read more in the :ref:`User Guide <datasets>`.

    Parameters
    ----------
    X : array or sparse matrix of shape (n_documents, n_features)
        Features of the documents for their queries.
    y : array-like of shape (n_documents,)
        Grades of relevance, at least 0.
    qid : array-like of shape (n_documents,)
        Query of every document.
    n_slots : int
        Length of the slates.
    n_candidates : int, default=None
        Candidates of a query; queries with fewer documents have fewer. `None`: all.
    scores : array-like of shape (n_documents,), default=None
        The candidates are the documents with the highest scores, best first. `None`:
        the first documents of the query.
    metric : {"ndcg", "dcg", "err", "reciprocal_rank"}, default="ndcg"
        Reward of a slate. The first two are sums over slots.
    discount : {"paper", "jarvelin"}, default="paper"
        Discount of (N)DCG, see `dcg`.
    max_grade : float, default=None
        Largest grade, for ERR. `None`: that of `y`.

    Attributes
    ----------
    queries : SlateLogs
        One round per query, with empty slates. `context` is the number of the query,
        and the column "query" is its label. `item_id` numbers the documents, and
        `item_features` holds the features of all documents.
    grades : ndarray of shape (n_queries, n_candidates)
        Grades of the candidates; 0 for candidates that a query lacks.
    n_queries, n_slots, n_candidates : int
        Sizes.

    References
    ----------
    .. [1] Swaminathan, A., et al. (2017). Off-policy evaluation for slate
       recommendation. NeurIPS 30. Section 4.1.

    Examples
    --------
    >>> import numpy as np
    >>> from skope_ope.datasets import RankingWorld
    >>> X, y = np.arange(8.0)[:, None], [0, 1, 2, 0, 0, 2, 0, 1]
    >>> world = RankingWorld(X, y, [7, 7, 7, 7, 9, 9, 9, 9], n_slots=2)
    >>> logs = world.draw(100, random_state=0)
    >>> logs
    SlateLogs(n_rounds=100, n_features=1, n_slots=2, n_candidates=4)
    >>> round(world.value(logs.logging_policy), 4)  # of the uniform logger
    0.4492
    """

    @validate_params(
        {
            "X": ["array-like", "sparse matrix"],
            "y": ["array-like"],
            "qid": ["array-like"],
            "n_slots": [Interval(Integral, 1, None, closed="left")],
            "n_candidates": [Interval(Integral, 1, None, closed="left"), None],
            "scores": ["array-like", None],
            "metric": [StrOptions(METRICS)],
            "discount": [StrOptions(set(DISCOUNTS))],
            "max_grade": [Interval(Real, 0, None, closed="left"), None],
        },
        prefer_skip_nested_validation=True,
    )
    def __init__(
        self,
        X: Any,
        y: ArrayLike,
        qid: ArrayLike,
        *,
        n_slots: int,
        n_candidates: int | None = None,
        scores: ArrayLike | None = None,
        metric: Literal["ndcg", "dcg", "err", "reciprocal_rank"] = "ndcg",
        discount: Literal["paper", "jarvelin"] = "paper",
        max_grade: float | None = None,
    ) -> None:
        y, qid = as_numbers("y", y), check_labels("qid", qid)
        X = X.toarray() if sparse.issparse(X) else as_numbers("X", X, 2)
        if not len(X) == len(y) == len(qid):
            raise ValueError(
                f"X, y and qid need one row per document, got {len(X)}, {len(y)} and "
                f"{len(qid)}."
            )
        if y.min() < 0:
            raise ValueError(f"grades y must be at least 0, got {y.min():g}.")
        labels, query = np.unique(qid, return_inverse=True)
        self.n_slots, self.metric, self.discount = n_slots, metric, discount
        self.max_grade = float(y.max()) if max_grade is None else max_grade
        self._documents, counts = _candidates(query, scores, n_candidates)
        self.n_queries, self.n_candidates = self._documents.shape
        if n_slots > self.n_candidates:
            raise ValueError(
                f"n_slots={n_slots} is more than the {self.n_candidates} candidates of "
                "the largest query."
            )
        offered = np.arange(self.n_candidates) < counts[:, None]
        if len(X) == self.n_candidates:  # of one query: rows of X are its candidates
            X = X[self._documents[0]]
        self.grades = np.where(offered, y[self._documents], 0.0)
        self._best = best_dcg(self.grades, n_slots, discount)
        self.queries = SlateLogs(
            np.arange(self.n_queries, dtype=float)[:, None],
            np.full((self.n_queries, n_slots), EMPTY),
            np.zeros(self.n_queries),
            n_candidates=self.n_candidates if offered.all() else counts,
            item_id=self._documents,
            item_features=X,
        ).with_columns(query=labels)

    def reward(self, queries: ArrayLike, slates: ArrayLike) -> Array:
        """Reward of slates.

        Parameters
        ----------
        queries : array-like of int of shape (n_rounds,)
            Numbers of the queries: ``logs.context[:, 0]``.
        slates : array-like of int of shape (n_rounds, n_slots)
            Candidate in every slot; -1: empty.

        Returns
        -------
        reward : ndarray of shape (n_rounds,)
        """
        queries = np.asarray(queries).astype(np.intp)
        grades = self.grades[queries]
        if self.metric == "err":
            return err(grades, slates, max_grade=self.max_grade)
        if self.metric == "reciprocal_rank":
            return reciprocal_rank(grades, slates)
        if self.metric == "ndcg":
            return ndcg(grades, slates, discount=self.discount)
        return dcg(grades, slates, discount=self.discount)

    def slot_values(self) -> Array | None:
        r"""Rewards of candidates in slots, whose sum is the reward of a slate.

        Returns
        -------
        phi : ndarray of shape (n_queries, n_slots, n_candidates), or None
            None if the metric is not a sum over slots.
        """
        if self.metric not in ("dcg", "ndcg"):
            return None
        gains = 2.0**self.grades - 1
        if self.metric == "ndcg":
            best = self._best[:, None]
            gains = np.divide(gains, best, out=np.zeros(gains.shape), where=best > 0)
        return slot_discounts(self.n_slots, self.discount)[:, None] * gains[:, None]

    def value(
        self,
        policy: SlatePolicyLike,
        *,
        n_samples: int = 1000,
        random_state: RandomSeed = None,
    ) -> float:
        """Value of a policy: the mean over queries of its expected reward.

        Parameters
        ----------
        policy : slate policy
            It acts on `queries`.
        n_samples : int, default=1000
            Draws per query, if the metric is not a sum over slots and the policy is
            random. All other values are exact.
        random_state : int, RandomState instance or None, default=None
            Seed of these draws.

        Returns
        -------
        value : float
        """
        policy, phi = slate_policy(policy, self.queries), self.slot_values()
        if phi is not None:
            marginals = policy.slot_marginals(self.queries)
            return float(np.einsum("qja,qja->q", phi, marginals).mean())
        every = np.arange(self.n_queries)
        slates = None
        if hasattr(policy, "deterministic_slates"):
            slates = policy.deterministic_slates(self.queries)
        if slates is not None:
            return float(self.reward(every, slates).mean())
        rng = check_random_state(random_state)
        draws = (policy.sample(self.queries, rng) for _ in range(n_samples))
        return float(np.mean([self.reward(every, slates).mean() for slates in draws]))

    def draw(
        self,
        n_rounds: int,
        logger: SlatePolicyLike = None,
        *,
        random_state: RandomSeed = None,
    ) -> SlateLogs:
        """Draw logs.

        Parameters
        ----------
        n_rounds : int
            Number of rounds.
        logger : slate policy, default=None
            Draws the slates; `None`: uniform rankings.
        random_state : int, RandomState instance or None, default=None
            Seed of the queries and of the slates.

        Returns
        -------
        logs : SlateLogs
            With `propensity` and `logging_policy`. `context`, the column "query" and
            the fields of the items are as in `queries`. There is no `group`, because
            rounds are drawn independently.
        """
        logger = UniformSlatePolicy(self.n_slots) if logger is None else logger
        rng = check_random_state(random_state)
        query = rng.randint(self.n_queries, size=n_rounds)
        rounds = self.queries[query]
        slates = logger.sample(rounds, rng)
        reward = self.reward(query, slates)
        counts = rounds.n_candidates
        # without the largest query, counts do not tell how wide the tables are
        narrow = np.max(counts) < self.n_candidates
        return SlateLogs(
            rounds.context,
            slates,
            reward,
            n_candidates=counts,
            candidates=rounds.offered if narrow else None,
            item_id=rounds.item_id,
            item_features=rounds.item_features,
            logging_policy=logger,
            propensity=logger.slate_proba(rounds, slates),
            reward_range=None if self.metric == "dcg" else (0.0, 1.0),
        ).with_columns(**rounds.columns)

    def stream(
        self,
        n_rounds: int,
        logger: SlatePolicyLike = None,
        *,
        batch_size: int = 100_000,
        random_state: RandomSeed = None,
    ) -> Iterator[Any]:
        """Yield logs in batches that fit into memory.

        Parameters
        ----------
        n_rounds : int
            Number of rounds in all batches together.
        logger : slate policy, default=None
            Draws the slates; `None`: uniform rankings.
        batch_size : int, default=100_000
            Rounds of a batch.
        random_state : int, RandomState instance or None, default=None
            Seed of all batches.

        Yields
        ------
        logs : SlateLogs
        """
        rng = check_random_state(random_state)
        for start in range(0, n_rounds, batch_size):
            size = min(batch_size, n_rounds - start)
            yield self.draw(size, logger, random_state=rng)


def _candidates(query, scores, n_candidates):
    """Documents of every query, best first, and their number."""
    if scores is None:
        order = np.argsort(query, kind="stable")
    else:
        scores = as_numbers("scores", scores)
        if len(scores) != len(query):
            raise ValueError(
                f"scores has {len(scores)} entries, there are {len(query)} documents."
            )
        order = np.lexsort((-scores, query))
    sizes = np.bincount(query)
    starts = np.cumsum(sizes) - sizes
    most = sizes.max() if n_candidates is None else min(n_candidates, sizes.max())
    counts = np.minimum(sizes, most)
    # what a smaller query lacks is never offered: any document may stand there
    places = np.minimum(np.arange(most), counts[:, None] - 1)
    return order[starts[:, None] + places], counts


def make_slate_logs_from_ranking(
    X: Any,
    y: ArrayLike,
    qid: ArrayLike,
    n_rounds: int = 1000,
    *,
    n_slots: int,
    n_candidates: int | None = None,
    scores: ArrayLike | None = None,
    metric: Literal["ndcg", "dcg", "err", "reciprocal_rank"] = "ndcg",
    discount: Literal["paper", "jarvelin"] = "paper",
    logger: SlatePolicyLike = None,
    random_state: RandomSeed = None,
) -> tuple[SlateLogs, RankingWorld]:
    """Turn graded documents into slate logs with the true reward of every slate.

    Parameters
    ----------
    X : array or sparse matrix of shape (n_documents, n_features)
        Features of the documents for their queries.
    y : array-like of shape (n_documents,)
        Grades of relevance, at least 0.
    qid : array-like of shape (n_documents,)
        Query of every document.
    n_rounds : int, default=1000
        Number of rounds.
    n_slots : int
        Length of the slates.
    n_candidates : int, default=None
        Candidates of a query. `None`: all its documents.
    scores : array-like of shape (n_documents,), default=None
        The candidates are the documents with the highest scores. `None`: the first.
    metric : {"ndcg", "dcg", "err", "reciprocal_rank"}, default="ndcg"
        Reward of a slate.
    discount : {"paper", "jarvelin"}, default="paper"
        Discount of (N)DCG, see `dcg`.
    logger : slate policy, default=None
        Draws the slates; `None`: uniform rankings.
    random_state : int, RandomState instance or None, default=None
        Seed of the queries and of the slates.

    Returns
    -------
    logs : SlateLogs
        As `RankingWorld.draw` returns them.
    world : RankingWorld
        It computes the true value of every policy and draws more logs.

    Examples
    --------
    >>> import numpy as np
    >>> from skope_ope.datasets import make_slate_logs_from_ranking
    >>> X, y = np.arange(6.0)[:, None], [0, 1, 2, 0, 0, 2]
    >>> logs, world = make_slate_logs_from_ranking(
    ...     X, y, [1, 1, 1, 2, 2, 2], 50, n_slots=2, random_state=0
    ... )
    >>> world.n_queries, len(logs)
    (2, 50)
    """
    world = RankingWorld(
        X,
        y,
        qid,
        n_slots=n_slots,
        n_candidates=n_candidates,
        scores=scores,
        metric=metric,
        discount=discount,
    )
    return world.draw(n_rounds, logger, random_state=random_state), world
