# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.linear_model import LinearRegression

from skope_ope import PlackettLuceSlatePolicy, RankingPolicy, UniformSlatePolicy
from skope_ope.datasets import RankingWorld, make_slate_logs_from_ranking
from tests.policies._slate_worlds import enumerated_distribution

QID = np.array([5, 5, 3, 3, 3, 5, 5, 3, 3])
Y = np.array([0, 1, 2, 0, 1, 3, 0, 0, 1])
X = np.column_stack([np.arange(9.0), Y + 0.5])


def world(**params):
    return RankingWorld(X, Y, QID, **{"n_slots": 2, "n_candidates": 3, **params})


def test_candidates_are_the_first_or_the_best_documents():
    assert_array_equal(world().queries.item_id, [[2, 3, 4], [0, 1, 5]])
    best = world(scores=X[:, 0])
    assert_array_equal(best.queries.item_id, [[8, 7, 4], [6, 5, 1]])
    assert_array_equal(best.grades, [[1, 0, 1], [0, 3, 1]])
    assert_array_equal(best.queries.columns["query"], [3, 5])
    assert best.queries.n_candidates == 3


def test_smaller_queries_have_fewer_candidates():
    large = world(n_candidates=None)
    assert_array_equal(large.queries.n_candidates, [5, 4])
    assert_array_equal(large.grades[1], [0, 1, 3, 0, 0])
    logs = large.draw(50, random_state=0)
    assert logs.slate[logs.columns["query"] == 5].max() <= 3


@pytest.mark.few_cases
@pytest.mark.parametrize("metric", ["ndcg", "dcg", "err", "reciprocal_rank"])
@pytest.mark.parametrize("discount", ["paper", "jarvelin"])
def test_values_equal_enumeration(metric, discount):
    own = world(metric=metric, discount=discount, n_candidates=None)
    policy = PlackettLuceSlatePolicy([1, 2, 3, 4, 5], 2)
    slates, proba = enumerated_distribution(policy, own.queries)
    possible = proba.any(axis=0)
    rewards = np.stack(
        [own.reward([0, 1], np.tile(slate, (2, 1))) for slate in slates[possible]]
    )
    want = (proba[:, possible].T * rewards).sum() / 2
    sampled = metric in ("err", "reciprocal_rank")
    value = own.value(policy, n_samples=500)
    assert value == pytest.approx(want, abs=0.1 if sampled else 1e-12)
    assert (own.slot_values() is None) == sampled
    ranker = RankingPolicy(LinearRegression(), 2).fit(X, Y)
    best = ranker.deterministic_slates(own.queries)
    assert own.value(ranker) == pytest.approx(own.reward([0, 1], best).mean())
    if metric == "ndcg":
        assert own.value(ranker) == pytest.approx(1.0)


@pytest.mark.theory
def test_logs_come_from_the_world(global_random_seed):
    own = world(metric="err", scores=X[:, 0])
    logger = RankingPolicy(LinearRegression(), 2, alpha=1.0).fit(X, -X[:, 0])
    logs = own.draw(4000, logger, random_state=global_random_seed)
    again = own.draw(4000, logger, random_state=global_random_seed)
    assert_array_equal(again.slate, logs.slate)
    query = logs.context[:, 0].astype(int)
    assert_array_equal(logs.reward, own.reward(query, logs.slate))
    assert_array_equal(logs.columns["query"], np.array([3, 5])[query])
    assert_allclose(logs.propensity, logger.slate_proba(logs))
    assert logs.logging_policy is logger
    assert len(logger.distributions(logs)) == 1
    error = logs.reward.std() / np.sqrt(4000)
    value = own.value(logger, n_samples=2000)
    assert abs(logs.reward.mean() - value) < 6 * error  # both are means over draws
    assert (np.bincount(query) > 1800).all()


def test_streams_are_drawn_in_batches():
    parts = list(world().stream(250, batch_size=100, random_state=0))
    assert [len(part) for part in parts] == [100, 100, 50]
    assert (parts[0].slate != parts[1].slate).any()
    again = world().stream(250, batch_size=100, random_state=0)
    assert_array_equal(next(again).slate, parts[0].slate)


def test_one_query_and_sparse_features():
    logs, own = make_slate_logs_from_ranking(
        sparse.csr_matrix(X[:4]),
        Y[:4],
        np.ones(4),
        30,
        n_slots=3,
        scores=[0, 3, 1, 2],
        random_state=1,
    )
    assert_array_equal(logs.item_features, X[[1, 3, 2, 0]])
    assert_array_equal(own.grades, [[1, 0, 2, 0]])
    assert logs.logging_policy.get_params() == UniformSlatePolicy(3).get_params()
    assert len(pickle.loads(pickle.dumps(own)).draw(3)) == 3


@pytest.mark.parametrize(
    ("params", "error", "message"),
    [
        ({"n_slots": 6}, ValueError, "n_slots=6 is more than the 3 candidates"),
        ({"metric": "map"}, ValueError, "metric"),
        ({"discount": "log"}, ValueError, "discount"),
        ({"scores": [1, 2]}, ValueError, "scores has 2 entries, there are 9"),
        ({"n_candidates": 0}, ValueError, "n_candidates"),
    ],
)
def test_bad_parameters(params, error, message):
    with pytest.raises(error, match=message):
        world(**params)


def test_bad_documents():
    with pytest.raises(ValueError, match="one row per document, got 9, 9 and 8"):
        RankingWorld(X, Y, QID[:8], n_slots=2)
    with pytest.raises(ValueError, match="grades y must be at least 0, got -3"):
        RankingWorld(X, -Y, QID, n_slots=2)


def test_a_draw_without_the_largest_query():
    X, y, qid = np.arange(7.0)[:, None], [0, 1, 2, 0, 0, 2, 0], [1, 1, 2, 2, 2, 2, 2]
    world = RankingWorld(X, y, qid, n_slots=3)
    batches = list(world.stream(8, batch_size=1, random_state=0))
    assert {int(logs.columns["query"][0]) for logs in batches} == {1, 2}
    for logs in batches:
        assert logs.max_candidates == 5
        assert (logs.slate == -1).sum() == (1 if logs.columns["query"][0] == 1 else 0)
        assert logs.item_id.shape == (1, 5)
        np.testing.assert_allclose(
            logs.logging_policy.slate_proba(logs), logs.propensity
        )
