# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import GridSearchCV
from sklearn.tree import DecisionTreeRegressor
from sklearn.utils.validation import check_is_fitted

from skope_ope import PlackettLuceSlatePolicy, RankingPolicy, SlateLogs
from tests.evaluators.slate._worlds import showed
from tests.policies._slate_worlds import rounds

X = np.array([[0.0], [3.0], [1.0], [2.0]])
y = X[:, 0] / 2


def fitted(**params):
    return RankingPolicy(LinearRegression(), 2, **params).fit(X, y)


def test_the_best_candidates_in_order():
    logs = rounds(3, 2, 4, item_features=X)
    policy = fitted()
    assert_array_equal(policy.deterministic_slates(logs), [[1, 3]] * 3)
    assert_array_equal(policy.sample(logs, 0), [[1, 3]] * 3)
    assert_array_equal(policy.slot_marginals(logs).argmax(axis=2), [[1, 3]] * 3)
    given = np.array([[1, 3], [1, 2], [3, 1]])
    assert_array_equal(policy.slate_proba(logs, given), [1, 0, 0])
    assert_array_equal(policy.prefix_proba(logs, given), [[1, 1], [1, 0], [0, 0]])
    assert len(policy.distributions(logs)) == 1
    # ties go to the lowest index
    logs = rounds(1, 4, 4).with_columns(score=[[1.0, 2.0, 2.0 + 1e-13, 2.0]])
    slates = RankingPolicy("score", 4).deterministic_slates(logs)
    assert_array_equal(slates, [[1, 2, 3, 0]])
    # only offered candidates are ranked
    mask = np.array([[True, False, True, True], [True, False, False, False]])
    logs = rounds(2, 2, 4, item_features=X, candidates=mask)
    assert_array_equal(fitted().deterministic_slates(logs), [[3, 2], [0, -1]])
    by_slot = np.stack([mask, ~mask], axis=1)
    logs = rounds(2, 2, 4, item_features=X, candidates=by_slot)
    assert_array_equal(fitted().deterministic_slates(logs), [[3, 1], [0, 1]])
    # features of rounds and of a catalogue
    numbers = np.array([[0, 2], [3, 1], [2, 2]])
    by_round = rounds(3, 2, 2, item_features=X[numbers])
    catalogue = rounds(3, 2, 2, item_features=X, item_id=numbers)
    assert_allclose(policy.scores(by_round), y[numbers])
    assert_allclose(policy.scores(catalogue), y[numbers])
    want = [[1, 0], [1, 0], [0, 1]]
    assert_array_equal(policy.deterministic_slates(by_round), want)
    assert_array_equal(policy.deterministic_slates(catalogue), want)
    assert_array_equal(policy.deterministic_slates(catalogue[[1]]), want[1:2])


def test_softmax_rankings():
    logs = rounds(2, 2, 4, item_features=X)
    own = PlackettLuceSlatePolicy(np.exp(y / 0.5), 2)
    assert_allclose(
        fitted(temperature=0.5).slot_marginals(logs), own.slot_marginals(logs)
    )
    cold = fitted(temperature=1e-3)  # the third and fourth underflow: not shown
    logs = rounds(2, 2, 4, item_features=X * [[1.0], [1], [0.1], [2.9 / 2]])
    assert_array_equal(cold.sample(logs, 0), [[1, 3]] * 2)
    assert_allclose(cold.slot_marginals(logs).sum(axis=2), 1)
    with pytest.raises(ValueError, match=r"temperature=1e-06 is too small for the sc"):
        fitted(temperature=1e-6).sample(logs, 0)
    mask = np.array([[False] * 4, [True, True, False, False]])
    logs = rounds(2, 2, 4, item_features=X, candidates=mask)
    assert_array_equal(cold.sample(logs, 0), [[-1, -1], [1, 0]])
    # the multinomial distribution of ranks
    logs = rounds(2, 2, 4, item_features=X)
    own = PlackettLuceSlatePolicy.from_ranks([4, 1, 3, 2], 2, alpha=1.5)
    want = own.slot_marginals(logs)
    assert_allclose(fitted(alpha=1.5).slot_marginals(logs), want)
    assert_allclose(fitted(alpha=0).slot_marginals(logs), 0.25)
    mask = np.array([[True, False, True, True]])
    logs = rounds(1, 2, 4, item_features=X, candidates=mask)
    own = PlackettLuceSlatePolicy.from_ranks([3, 9, 2, 1], 2, alpha=1.5)
    assert_allclose(fitted(alpha=1.5).slot_marginals(logs), own.slot_marginals(logs))


def test_softmax_rankings_by_slot():
    # scores of one slot are far above those of the other
    scores = np.array([[8.0], [7.0], [0.0], [-1.0]])
    by_slot = np.array([[[1, 1, 0, 0], [0, 0, 1, 1]]], dtype=bool)
    logs = rounds(1, 2, 4, item_features=scores, candidates=by_slot)
    cold = RankingPolicy(LinearRegression(), 2, temperature=0.01)
    cold.fit(scores, scores[:, 0])
    assert_allclose(
        cold.slot_marginals(logs)[0], [[1, 0, 0, 0], [0, 0, 1, 0]], atol=1e-12
    )
    assert_array_equal(cold.sample(logs, 0), [[0, 2]])
    assert_allclose(cold.slate_proba(logs, [[0, 2]]), 1)
    # 1 may be gone, and 2 and 3 are too far below it to be told apart
    shared = np.array([[[1, 1, 0, 0], [0, 1, 1, 1]]], dtype=bool)
    logs = rounds(1, 2, 4, item_features=scores, candidates=shared)
    with pytest.raises(ValueError, match="too small for the scores of row 0"):
        cold.slot_marginals(logs)
    # by enumeration: the second slot has what the first one left of its own
    warm = RankingPolicy(LinearRegression(), 2, temperature=2.0)
    warm.fit(scores, scores[:, 0])
    w = np.exp(scores[:, 0] / 2)
    first = np.array([w[0], w[1]]) / (w[0] + w[1])
    want = first[0] * w * [0, 1, 1, 1] / w[1:].sum()
    want += first[1] * w * [0, 0, 1, 1] / w[2:].sum()
    assert_allclose(warm.slot_marginals(logs)[0, 1], want)
    slates = [[0, 1], [0, 2], [0, 3], [1, 2], [1, 3]]
    each = [warm.slate_proba(logs, [slate])[0] for slate in slates]
    assert_allclose(sum(each), 1)
    # nothing is offered in a slot
    none = np.array([[[1, 1, 0, 0], [0, 0, 0, 0]]], dtype=bool)
    logs = rounds(1, 2, 4, item_features=scores, candidates=none)
    assert_array_equal(cold.sample(logs, 0), [[0, -1]])
    # what nearly underflows is no candidate for a slot
    # weights 1, 1e-289 and 1e-434: the third never comes before the second
    scores = np.array([[1000.0], [1000 - 289 * np.log(10)], [0.0]])
    logs = rounds(1, 2, 3, item_features=scores)
    policy = RankingPolicy(LinearRegression(), 2, temperature=1.0)
    policy.fit(scores, scores[:, 0])
    assert_allclose(policy.slot_marginals(logs)[0, 1], [0, 1, 0], atol=1e-12)


def test_fit_on_logs_learns_from_slot_rewards():
    numbers = np.array([[0, 2], [3, 1], [2, 1]])
    clicks = [[0.0, 1.0], [3.0, 0.0], [1.0, 0.0]]
    shown = [[0, 1], [1, -1], [0, -1]]
    fields = {"n_candidates": 2, "slot_reward": clicks}
    for features, ids in ((X[numbers], None), (X, numbers)):
        logs = showed(shown, item_features=features, item_id=ids, **fields)
        policy = RankingPolicy(LinearRegression(), 2).fit(logs)
        assert_allclose(policy.scores(logs), X[numbers, 0], atol=1e-12)
    logs = showed([[0, 1]], slot_reward=[[1, 0]], item_features=[[1.0], [0.0]])
    scores = RankingPolicy(LinearRegression(), 1).fit(logs).scores(logs)
    assert_allclose(scores, [[1, 0]], atol=1e-12)
    bare = SlateLogs(np.zeros((1, 1)), [[0, 1]], [1.0])
    with pytest.raises(ValueError, match="PseudoInverseRanker"):
        RankingPolicy(LinearRegression(), 2).fit(bare)


def test_any_regressor_and_nested_parameters():
    frozen = FrozenEstimator(LinearRegression().fit(X, y))  # needs no fit
    assert_array_equal(RankingPolicy(frozen, 2).deterministic_slates(FEW), [[1, 3]])
    search = GridSearchCV(DecisionTreeRegressor(), {"max_depth": [3]}, cv=2)
    policy = RankingPolicy(search, 2)
    policy.set_params(regressor__estimator__random_state=0)
    policy.fit(X, y, sample_weight=np.ones(4))
    assert policy.deterministic_slates(FEW).shape == (1, 2)


FEW = rounds(1, 2, 4, item_features=X)


class Broken(LinearRegression):
    def predict(self, X):
        return np.full(len(X), np.nan)


def test_parameters_that_cannot_be():
    for params, message in (
        ({"temperature": 1, "alpha": 2}, "pass one of them, got 1 and 2"),
        ({"temperature": 0}, "temperature"),
        ({"n_slots": 5}, "n_slots=5 is more than the 4 candidates"),
        ({"regressor": Broken()}, "Broken predicts a score that is not finite"),
    ):
        policy = RankingPolicy(LinearRegression(), 2).set_params(**params)
        with pytest.raises(ValueError, match=message):
            policy.fit(X, y).deterministic_slates(FEW)
    with pytest.raises(NotFittedError):
        RankingPolicy(LinearRegression(), 2).deterministic_slates(FEW)
    with pytest.raises(ValueError, match="y is missing"):
        RankingPolicy(LinearRegression(), 2).fit(X)
    with pytest.raises(ValueError, match="the logs have none: pass"):
        fitted().scores(rounds(1, 2, 4))


def test_scores_that_the_logs_hold():
    logs = rounds(3, 2, 4, item_features=X)
    named = SlateLogs(
        logs.context, logs.slate, logs.reward, n_candidates=4,
        item_features=np.hstack([-X, X]), item_feature_names=["price", "score"],
    )  # fmt: skip
    policy = RankingPolicy("score", 2)
    check_is_fitted(policy)
    assert policy.fit(named) is policy
    assert_array_equal(policy.deterministic_slates(named), [[1, 3]] * 3)
    assert_array_equal(clone(policy).deterministic_slates(named), [[1, 3]] * 3)
    want = fitted(temperature=0.5).slot_marginals(logs)
    given = RankingPolicy("half", 2, temperature=0.5)
    by_page = named.with_columns(half=np.tile(y, (3, 1)))
    assert_allclose(given.slot_marginals(by_page), want)
    with pytest.raises(ValueError, match=r"neither a feature .* Did you mean 'score'"):
        RankingPolicy("scores", 2).deterministic_slates(named)
    with pytest.raises(ValueError, match="a score for each of the 4 candidates"):
        RankingPolicy("few", 2).scores(named.with_columns(few=np.ones((3, 2))))
