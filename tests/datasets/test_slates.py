# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Worlds of slates: synthetic ones, those of graded documents, and their rewards."""

import pickle
from itertools import permutations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.linear_model import LinearRegression

from skope_ope import PlackettLuceSlatePolicy, RankingPolicy, UniformSlatePolicy
from skope_ope.datasets import (
    RankingWorld,
    dcg,
    err,
    make_slate_logs,
    make_slate_logs_from_ranking,
    ndcg,
    reciprocal_rank,
)
from tests.policies._slate_worlds import check_moments, enumerated_distribution

# Synthetic slates
REWARDS = ["additive", "cascade", "interaction"]
LOGGERS = ["uniform", "plackett_luce", "product"]


@pytest.mark.few_cases
@pytest.mark.parametrize("reward", REWARDS)
@pytest.mark.parametrize("logging", LOGGERS)
def test_slate_ips_finds_the_truth(reward, logging, global_random_seed):
    params = {"n_slots": 2, "n_candidates": 3, "reward": reward, "logging": logging}
    params |= {"logging_temperature": 4.0, "target_temperature": 2.0}  # no heavy tails
    params |= {"random_state": global_random_seed, "return_truth": True}
    logs, policy, truth = make_slate_logs(4000, **params)
    assert_allclose(logs.propensity, logs.logging_policy.slate_proba(logs))
    assert_array_equal(logs.reward, logs.slot_reward.sum(axis=1))
    weight = policy.slate_proba(logs) / logs.propensity
    terms = weight * logs.reward
    assert abs(terms.mean() - truth.value) < 5 * terms.std() / np.sqrt(len(logs))
    chance = truth.expected_slot_rewards(logs.slate)
    error = np.sqrt((chance * (1 - chance)).sum(axis=0)) / len(logs)
    assert (abs((logs.slot_reward - chance).mean(axis=0)) < 5 * error).all()
    check_moments(policy, logs[:3])
    check_moments(logs.logging_policy, logs[:3])
    assert (truth.slot_values is None) == (reward != "additive")


def test_only_additive_slates_are_sums_over_slots():
    given = {"random_state": 1, "return_truth": True}
    for reward in REWARDS:
        logs, policy, truth = make_slate_logs(50, reward=reward, **given)
        # exchange the last slots of two slates: a sum over slots stays the same
        a, b = np.array([[0, 1, 2]] * 50), np.array([[3, 4, 1]] * 50)
        c, d = np.array([[0, 1, 1]] * 50), np.array([[3, 4, 2]] * 50)
        value = [truth.expected_slot_rewards(s).sum(axis=1) for s in (a, b, c, d)]
        gap = np.abs(value[0] + value[1] - value[2] - value[3]).max()
        assert (gap < 1e-12) == (reward == "additive")
        if reward == "additive":
            marginals = policy.slot_marginals(logs)
            want = (marginals * truth.slot_values).sum(axis=(1, 2)).mean()
            assert truth.value == pytest.approx(want, abs=1e-12)


def test_worlds_and_seeds():
    one = make_slate_logs(5, world_random_state=0, random_state=1)
    two = make_slate_logs(5, world_random_state=0, random_state=2)
    assert_array_equal(one.item_features, two.item_features)
    assert (one.context != two.context).any()
    again = make_slate_logs(5, world_random_state=0, random_state=1)
    assert_array_equal(one.slate, again.slate)
    copy = pickle.loads(pickle.dumps(one))
    assert_array_equal(copy.logging_policy.slate_proba(copy), one.propensity)


def test_too_many_slates_for_an_exact_value():
    params = {"n_slots": 6, "n_candidates": 9, "return_truth": True}
    assert np.isnan(make_slate_logs(3, reward="cascade", **params)[2].value)
    assert np.isfinite(make_slate_logs(3, **params)[2].value)


def test_bad_synthetic_slates():
    with pytest.raises(ValueError, match="n_slots=4 is more than n_candidates=3"):
        make_slate_logs(n_slots=4, n_candidates=3)
    make_slate_logs(10, n_slots=4, n_candidates=3, logging="product")
    for params in ({"reward": "x"}, {"logging": "y"}, {"target_temperature": 0}):
        with pytest.raises(ValueError, match=next(iter(params))):
            make_slate_logs(**params)


# Graded documents
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
    rewards = [own.reward([0, 1], np.tile(s, (2, 1))) for s in slates[possible]]
    want = (proba[:, possible].T * np.stack(rewards)).sum() / 2
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
    given = (sparse.csr_matrix(X[:4]), Y[:4], np.ones(4), 30)
    logs, own = make_slate_logs_from_ranking(
        *given, n_slots=3, scores=[0, 3, 1, 2], random_state=1
    )
    assert_array_equal(logs.item_features, X[[1, 3, 2, 0]])
    assert_array_equal(own.grades, [[1, 0, 2, 0]])
    assert logs.logging_policy.get_params() == UniformSlatePolicy(3).get_params()
    assert len(pickle.loads(pickle.dumps(own)).draw(3)) == 3


def test_bad_parameters_and_documents():
    for params, message in (
        ({"n_slots": 6}, "n_slots=6 is more than the 3 candidates"),
        ({"metric": "map"}, "metric"),
        ({"discount": "log"}, "discount"),
        ({"scores": [1, 2]}, "scores has 2 entries, there are 9"),
        ({"n_candidates": 0}, "n_candidates"),
    ):
        with pytest.raises(ValueError, match=message):
            world(**params)
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
        assert_allclose(logs.logging_policy.slate_proba(logs), logs.propensity)


# Rewards of slates
GRADES = [0, 2, 1, 4]
SLATES = np.array([[3, 1, 2], [0, 2, 3], [1, -1, 3]])
LOG3 = np.log2(3)


def test_discounts_of_both_conventions():
    """A document of grade 1 has the gain 1: its DCG is the discount of its slot."""
    slates = np.where(np.eye(5) == 1, 0, np.arange(1, 6))
    for discount, first in (("paper", [1]), ("jarvelin", [1, 1])):
        expected = [*first, *1 / np.log2(np.arange(3, 8))][:5]
        found = dcg([1, 0, 0, 0, 0, 0], slates, discount=discount)
        assert_allclose(found, expected)
    with pytest.raises(ValueError, match=r"discount must be one of .* got 'log'"):
        dcg(GRADES, SLATES, discount="log")


def test_dcg_by_hand():
    want = [15 + 3 / LOG3 + 1 / 2, 0 + 1 / LOG3 + 15 / 2, 3 + 15 / 2]
    assert_allclose(dcg(GRADES, SLATES), want)
    want = [15 + 3 + 1 / LOG3, 1 + 15 / LOG3, 3 + 15 / LOG3]
    assert_allclose(dcg(GRADES, SLATES, discount="jarvelin"), want)


def test_ndcg_by_hand():
    best = 15 + 3 / LOG3 + 1 / 2
    want = [1, (1 / LOG3 + 7.5) / best, 10.5 / best]
    assert_allclose(ndcg(GRADES, SLATES), want)
    assert_array_equal(ndcg([0, 0, 0], [[0, 1]]), [0])
    offered = np.array([[True, True, True, False]])
    assert_allclose(ndcg(GRADES, [[1, 2]], offered=offered), 1)
    rows = ndcg([[0, 2, 1, 4], [4, 0, 0, 0], [0, 0, 0, 0]], SLATES)
    assert_allclose(rows, [1, 1, 0])


@pytest.mark.parametrize("discount", ["paper", "jarvelin"])
def test_the_best_ranking_has_ndcg_one(discount, global_random_seed):
    grades = np.random.default_rng(global_random_seed).integers(0, 5, 5)
    slates = np.array(list(permutations(range(5), 3)))
    values = ndcg(grades, slates, discount=discount)
    assert values.max() == pytest.approx(1.0 if grades.any() else 0.0)
    assert values.min() >= 0


def test_err_by_hand():
    R = (2.0 ** np.array(GRADES) - 1) / 16
    want = [
        R[3] + (1 - R[3]) * R[1] / 2 + (1 - R[3]) * (1 - R[1]) * R[2] / 3,
        R[2] / 2 + (1 - R[2]) * R[3] / 3,
        R[1] + (1 - R[1]) * R[3] / 3,
    ]
    assert_allclose(err(GRADES, SLATES), want)
    with pytest.raises(ValueError, match="a grade is 4, more than max_grade=3"):
        err(GRADES, SLATES, max_grade=3)


def test_reciprocal_rank_by_hand():
    assert_array_equal(reciprocal_rank(GRADES, SLATES), [1, 1 / 2, 1])
    assert_array_equal(reciprocal_rank([0, 0, 1], [[0, 1], [-1, 2]]), [0, 1 / 2])


def test_bad_grades_and_slates():
    for error, grades, slates, message in (
        (ValueError, [-1, 0], [[0, 1]], "grades must be at least 0, got -1"),
        (ValueError, [1, 0], [[0, 2]], "candidates 0 to 1 or -1, got 0 to 2"),
        (ValueError, [1, 0], [[-2, 1]], "got -2 to 1"),
        (TypeError, [1, 0], [[0.0, 1.0]], "slates must hold integers"),
        (TypeError, [1, 0], [0, 1], r"shape \(2,\)"),
        (ValueError, [[1, 0]] * 3, [[0, 1]] * 2, "grades has 3 rows, slates has 2"),
        (ValueError, [np.nan, 0], [[0, 1]], "grades must be finite"),
    ):
        for reward in (dcg, ndcg, err, reciprocal_rank):
            with pytest.raises(error, match=message):
                reward(grades, np.array(slates))
