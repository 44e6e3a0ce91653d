# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Slate logs from queries with graded items, whose true values are known."""

from __future__ import annotations

from collections.abc import Iterator
from numbers import Integral, Real
from typing import Any, Literal

import numpy as np
from scipy import sparse
from sklearn.utils import check_random_state

from skope_ope._sklearn import Interval, StrOptions, validate_params
from skope_ope._types import Array, ArrayLike, RandomSeed, SlatePolicyLike
from skope_ope.datasets._ranking_measures import (
    DISCOUNTS,
    best_dcg,
    dcg,
    err,
    ndcg,
    reciprocal_rank,
    slot_discounts,
)
from skope_ope.logs import SlateLogs
from skope_ope.logs._validation import EMPTY, as_numbers, check_labels
from skope_ope.policies import (
    UniformSlatePolicy,
)
from skope_ope.policies.slate._slate_policy import slate_policy

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
