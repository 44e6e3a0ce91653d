# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from skope_ope import ReorderingScavenging, SlateLogs
from skope_ope.evaluators import ReorderingPolicy
from skope_ope.exceptions import LearnedRoundsWarning
from tests._learned_share import learned_share
from tests.evaluators.scavenging._toys import SL4_SLATES, biased_pages, s6, sl4


def test_click_rates_are_learned_on_other_pages():
    policy = ReorderingPolicy().fit(sl4())
    assert_allclose(policy.scores_, (1.0, 0.25, 0.0, 0.25))
    other = sl4(slot_reward=np.zeros((4, 4)))
    assert_array_equal(policy.reorder(other), [[0, 1, 3, 2]] * 2 + [[0, 3, 1, 2]] * 2)


def test_ties_keep_the_logged_order():
    policy = ReorderingPolicy({3: 1.0}).fit(sl4())
    assert_array_equal(
        policy.reorder(sl4()), [[3, 0, 1, 2], [3, 1, 0, 2], [3, 2, 0, 1], [3, 2, 1, 0]]
    )


def test_no_scores_at_all():
    assert_array_equal(ReorderingPolicy({}).fit(sl4()).reorder(sl4()), SL4_SLATES)


def test_labels_of_items():
    names = np.array([list("abcd"), list("dcba"), list("abcd"), list("wxyz")])
    policy = ReorderingPolicy({"d": 2, "b": 1, "z": 5}).fit(sl4())
    logs = sl4(item_id=names)
    shown = np.take_along_axis(names, policy.reorder(logs), axis=1)
    # logged: abcd, cdab, cdab, zyxw
    assert ["".join(row) for row in shown] == ["dbac", "dbca", "dbca", "zyxw"]
    trained = ReorderingPolicy().fit(logs)
    assert trained.items_.tolist() == sorted(set(names.ravel()))
    # another log with other items: those that are unknown have the score 0
    assert trained.reorder(sl4(item_id=np.full((4, 4), "new"))).tolist() == (
        SL4_SLATES.tolist()
    )


def test_empty_slots():
    slate = np.array([[-1, 0, 1], [1, -1, 0], [-1, -1, -1]])
    logs = SlateLogs(np.zeros((3, 1)), slate, None, slot_reward=np.zeros((3, 3)))
    policy = ReorderingPolicy({1: 1.0}).fit(logs)
    assert_array_equal(policy.reorder(logs), [[-1, 1, 0], [1, -1, 0], [-1, -1, -1]])
    for order in ("random", {1: 1.0}):
        proba = ReorderingPolicy(order).fit(logs).slot_marginals(logs)
        assert_allclose(proba.sum(axis=2), slate >= 0)
        assert_allclose(proba.sum(axis=1)[:2], 1)


def test_marginals_of_an_order():
    policy = ReorderingPolicy().fit(sl4())
    slates = policy.reorder(sl4())
    expected = (slates[:, :, None] == np.arange(4)).astype(float)
    assert_array_equal(policy.slot_marginals(sl4()), expected)


@pytest.mark.parametrize("order", ["random", {3: 1.0}, {}])
def test_what_has_nothing_to_learn_needs_no_fit(order):
    policy = ReorderingPolicy(order)
    fitted = clone(policy).fit(sl4())
    assert_array_equal(policy.slot_marginals(sl4()), fitted.slot_marginals(sl4()))
    scavenger = ReorderingScavenging(attention=(1.0, 0.6, 0.5, 0.4)).fit(sl4())
    assert scavenger.score(policy) == scavenger.score(fitted)
    with pytest.raises(ValueError, match="order"):
        ReorderingPolicy("best").reorder(sl4())


def test_is_an_estimator():
    with pytest.raises(NotFittedError):
        ReorderingPolicy().shown_marginals(sl4())
    policy = ReorderingPolicy("random")
    copy = pickle.loads(pickle.dumps(clone(policy).fit(sl4())))
    assert_allclose(copy.shown_marginals(sl4()), 0.25)
    with pytest.raises(ValueError, match="no single slate"):
        copy.reorder(sl4())
    with pytest.raises(ValueError, match="order"):
        ReorderingPolicy("best").fit(sl4())
    with pytest.raises(TypeError, match="SlateLogs, got BanditLogs"):
        ReorderingPolicy().fit(s6())


def test_what_it_has_learned_from_is_no_test_of_it():
    """Items alike: the order of their own clicks seems to be worth more than one."""
    logs = biased_pages(2000, np.array([1.0, 0.5, 0.2]), np.full(200, 0.3), 0)
    train, test = logs[:1000], logs[1000:]
    policy = ReorderingPolicy().fit(train)
    evaluator = ReorderingScavenging(attention=[1.0, 0.5, 0.2])
    with pytest.warns(LearnedRoundsWarning, match="100.0% of these rounds"):
        own = evaluator.fit(train).evaluate(policy)
    assert own.value > 1 + 4 * own.standard_error
    held_out = evaluator.fit(test).evaluate(policy)
    assert abs(held_out.value - 1) < 4 * held_out.standard_error
    again = SlateLogs(train.context, train.slate, None, slot_reward=train.slot_reward)
    assert learned_share(policy, again) == 1  # built anew
    with pytest.warns(LearnedRoundsWarning, match="50.0% of these rounds"):
        evaluator.fit(logs).evaluate(policy)
    for order in ("random", {3: 1.0}):
        policy.set_params(order=order).fit(train)
        assert learned_share(policy, train) == 0
