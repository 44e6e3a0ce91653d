# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Sums over slots, fitted by backfitting."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.linear_model import LinearRegression
from sklearn.tree import DecisionTreeRegressor

from skope_ope import BanditLogs, PlackettLuceSlatePolicy, SlateLogs
from skope_ope.reward_models import AdditiveSlateModel, _additive_slate_model


def some_logs(n_rounds=300, seed=0):
    rng = np.random.RandomState(seed)
    slates = np.argsort(rng.random_sample((n_rounds, 4)), axis=1)[:, :3]
    return SlateLogs(rng.normal(size=(n_rounds, 2)), slates, np.zeros(n_rounds))


def slates_of(logs):
    return np.argsort(np.random.RandomState(1).random_sample((len(logs), 4)))[:, :3]


def test_it_learns_what_is_a_sum_over_slots():
    logs = some_logs()
    item, slot = np.array([1.0, 2.0, 4.0, 8.0]), np.array([0.0, 1.0, 3.0])

    def reward(slates):  # linear in indicators of candidate and slot
        return (item[slates] + slot).sum(axis=1) + 3 * logs.context[:, 0]

    logs = logs.replace(reward=reward(logs.slate))
    model = AdditiveSlateModel(LinearRegression(), max_iter=500, tol=1e-9).fit(logs)
    other = slates_of(logs)
    np.testing.assert_allclose(model.predict(logs, other), reward(other), atol=1e-5)
    assert 1 < model.n_iter_ < 500
    assert model.n_features_in_ == 2


def test_it_learns_items_that_matter_by_slot():
    logs = some_logs(2000)
    # a constant context: nothing to memorise
    logs = SlateLogs(np.zeros((2000, 1)), logs.slate, logs.reward)
    phi = np.random.RandomState(0).random_sample((3, 4))
    value = phi[np.arange(3), logs.slate].sum(axis=1)
    logs = logs.replace(reward=value)
    model = AdditiveSlateModel(DecisionTreeRegressor(max_leaf_nodes=40, random_state=0))
    found = model.fit(logs).predict(logs, logs.slate)
    assert np.corrcoef(found, value)[0, 1] > 0.98


@pytest.mark.parametrize("regressor", [None, DecisionTreeRegressor(random_state=0)])
def test_its_mean_under_a_policy_comes_from_slot_marginals(regressor):
    from itertools import permutations

    logs = some_logs(60)
    logs = logs.replace(reward=np.random.RandomState(3).random_sample(60))
    model = AdditiveSlateModel(regressor, max_iter=3).fit(logs)
    policy = PlackettLuceSlatePolicy([1.0, 2.0, 3.0, 4.0], 3)
    expected = np.zeros(60)
    for slate in permutations(range(4), 3):
        slates = np.tile(slate, (60, 1))
        expected += policy.slate_proba(logs, slates) * model.predict(logs, slates)
    found = model.expect(logs, policy.slot_marginals(logs))
    np.testing.assert_allclose(found, expected, atol=1e-12)


def test_empty_slots_add_nothing():
    logs = SlateLogs(
        np.zeros((3, 1)), [[0, -1], [-1, -1], [1, 0]], [1.0, 0.0, 2.0], n_candidates=2
    )
    model = AdditiveSlateModel(max_iter=2).fit(logs)
    assert model.predict(logs, logs.slate)[1] == model.intercept_ == 1.0
    nothing = np.full((3, 2), -1)
    np.testing.assert_array_equal(model.predict(logs, nothing), 1.0)
    with pytest.raises(ValueError, match="slots of the slates are empty"):
        AdditiveSlateModel().fit(
            SlateLogs(np.zeros((1, 1)), [[-1]], [1], n_candidates=1)
        )


def test_bad_input():
    logs = BanditLogs(np.zeros((2, 1)), [0, 1], [0, 1])
    with pytest.raises(TypeError, match="must be SlateLogs"):
        AdditiveSlateModel().fit(logs)
    with pytest.raises(ValueError, match="max_iter"):
        AdditiveSlateModel(max_iter=0).fit(some_logs())
    with pytest.raises(Exception, match="not fitted"):
        AdditiveSlateModel().predict(some_logs(), slates_of(some_logs()))
    assert clone(AdditiveSlateModel(tol=0.5)).tol == 0.5


def test_other_candidates_than_those_of_fit():
    logs = some_logs(20)
    logs = logs.replace(reward=np.arange(20.0))
    more = SlateLogs(logs.context, logs.slate, logs.reward, n_candidates=6)
    model = AdditiveSlateModel().fit(logs)
    with pytest.raises(
        ValueError, match=r"have 6 candidates, .*fit had 4\. Without it"
    ):
        model.predict(more, more.slate)
    policy = PlackettLuceSlatePolicy(np.ones(6), 3)
    with pytest.raises(ValueError, match="have 6 candidates"):
        model.expect(more, policy.slot_marginals(more))
    described = SlateLogs(
        logs.context, logs.slate, logs.reward, item_features=np.ones((4, 2))
    )
    with pytest.raises(ValueError, match=r"have item_features of 2 columns, .* had no"):
        model.predict(described, logs.slate)


def test_predictions_take_little_memory_at_once(monkeypatch):
    class Watched(LinearRegression):
        def predict(self, X):
            seen.append(X.shape)
            return super().predict(X)

    logs = some_logs(300)
    logs = logs.replace(reward=np.random.RandomState(0).random_sample(300))
    seen = []
    model = AdditiveSlateModel(Watched(), max_iter=2).fit(logs)
    policy = PlackettLuceSlatePolicy([1.0, 2.0, 3.0, 4.0], 3)
    marginals = policy.slot_marginals(logs)
    seen.clear()
    whole = model.expect(logs, marginals)
    assert seen == [(3600, 9)]  # two features, four candidates, three slots
    # room for a hundred rows of 9 columns
    monkeypatch.setattr(_additive_slate_model, "DESIGN_BYTES", 24 * 9 * 100)
    seen.clear()
    np.testing.assert_allclose(model.expect(logs, marginals), whole)
    assert seen == [(100, 9)] * 36
    seen.clear()
    model.predict(logs, logs.slate)
    assert seen == [(100, 9)] * 9
