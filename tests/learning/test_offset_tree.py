# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier

from skope_ope import BanditLogs, IPSPolicy, OffsetTree
from skope_ope.datasets import make_bandit_logs
from tests.learning._worlds import ByHeart, all_that_can_happen, random_world

LOGS = make_bandit_logs(300, random_state=0)
X = LOGS.context


def test_binary_problems_by_hand(monkeypatch):
    """Four actions, one context, offset 1/2 and weights |r - 1/2| / p."""
    logs = BanditLogs(
        np.zeros((8, 1)),
        [*"aabbccdd"],
        [1.0, 0, 0, 0, 1, 1, 1, 0],
        [0.5, 0.25, 0.5, 0.1, 0.5, 0.1, 0.25, 0.05],
        reward_range=(0, 1),
    )
    monkeypatch.setattr(ByHeart, "fits", ())
    policy = OffsetTree(ByHeart()).fit(logs)
    assert policy.offset_ == 0.5
    first, second, final = ByHeart.fits
    # a: won .5/.5, lost .5/.25; b: lost .5/.5 and .5/.1. Losses speak for the other.
    assert_allclose(first, [(0, 0, 1), (0, 0, 1), (0, 0, 5), (0, 1, 2)])
    # c: won .5/.5 and .5/.1; d: won .5/.25, lost .5/.05
    assert_allclose(second, [(0, 0, 1), (0, 0, 5), (0, 0, 10), (0, 1, 2)])
    # the winners, a and c; a's loss speaks for c's side
    assert_allclose(final, [(0, 0, 1), (0, 1, 1), (0, 1, 2), (0, 1, 5)])
    assert policy.predict([[0.0]]).tolist() == ["c"]
    # against the others that are offered
    offered = np.array([[1, 1, 0, 0], [0, 1, 0, 1], [1, 1, 0, 1]], dtype=bool)
    proba = policy.predict_proba(np.zeros((3, 1)), offered)
    assert_array_equal(proba, np.eye(4)[[0, 3, 3]])


@pytest.mark.few_cases
@pytest.mark.parametrize("offers", [False, True], ids=["all offered", "some"])
@pytest.mark.parametrize("n_actions", [2, 3, 5, 8])
def test_perfect_classifiers_give_the_best_policy(
    global_random_seed, offers, n_actions
):
    """In expectation over all logs, whatever the offset."""
    contexts = np.arange(6.0)[:, None]
    for seed in range(3):
        mu, q, available = random_world(
            10 * global_random_seed + seed, n_actions=n_actions, offers=offers
        )
        logs = all_that_can_happen(mu, q, available)
        best = np.where(available, q, -1).argmax(axis=1)
        for offset in ("midrange", "mean", "median", 0.0, 3.0):
            policy = OffsetTree(ByHeart(), offset=offset).fit(logs)
            proba = policy.predict_proba(contexts, available)
            assert_array_equal(proba.argmax(axis=1), best)


@pytest.mark.parametrize(
    "classifier", [LogisticRegression(), KNeighborsClassifier(3)], ids=str
)
def test_of_two_actions_it_is_the_ips_policy(classifier):
    logs = make_bandit_logs(300, n_actions=2, reward="continuous", random_state=1)
    common = {"temperature": 0.7, "epsilon": 0.1}
    policy = OffsetTree(classifier, offset="mean", **common).fit(logs)
    other = IPSPolicy(classifier, baseline="mean", **common).fit(logs)
    assert_allclose(
        policy.predict_proba(logs.context), other.predict_proba(logs.context)
    )


def test_offsets():
    real = make_bandit_logs(300, reward="continuous", random_state=0)
    for logs, offset, expected in (
        (LOGS, "midrange", 0.5),
        (LOGS.replace(reward=LOGS.reward * 0.25), "midrange", 0.5),  # of reward_range
        (real, "midrange", (real.reward.min() + real.reward.max()) / 2),
        (real, "mean", real.reward.mean()),
        (real, "median", np.sort(real.reward)[149]),
        (real, 3, 3.0),
    ):
        assert_allclose(OffsetTree(offset=offset).fit(logs).offset_, expected)


def test_draws_at_random_become_greedy_when_cold():
    logs = make_bandit_logs(1000, n_actions=6, random_state=0)
    greedy = OffsetTree().fit(logs).predict_proba(logs.context)
    assert_array_equal(np.unique(greedy), [0, 1])
    cold = OffsetTree(temperature=1e-9).fit(logs).predict_proba(logs.context)
    assert_allclose(cold, greedy, atol=1e-6)
    soft = OffsetTree(temperature=1.0).fit(logs).predict_proba(logs.context)
    assert_allclose(soft.sum(axis=1), 1)
    assert soft.min() > 0
    hot = OffsetTree(temperature=1e9).fit(logs).predict_proba(logs.context)
    # six actions in halves: 1/2 (1/2 (1/2, 1/2), 1/2)
    assert_allclose(hot, np.tile([0.125, 0.125, 0.25] * 2, (1000, 1)), atol=1e-6)


def test_one_action():
    logs = BanditLogs(np.zeros((3, 1)), ["b"] * 3, [1.0, 1, 1], [1.0] * 3)
    assert_array_equal(OffsetTree().fit(logs).predict_proba([[0.0]]), [[1.0]])
    logs = BanditLogs(
        np.zeros((3, 1)), ["b"] * 3, [1.0, 1, 1], [0.5] * 3, actions=["a", "b"]
    )
    policy = OffsetTree(epsilon=0.2).fit(logs)
    assert_allclose(policy.predict_proba([[0.0]]), [[0.1, 0.9]])
    assert_array_equal(policy.predict_proba([[0.0]], [[True, False]]), [[1.0, 0.0]])


def test_one_label_at_a_node_needs_no_classifier():
    # everybody likes b: a's failures and b's successes say the same
    logs = BanditLogs(np.zeros((4, 1)), [*"abab"], [0.0, 1, 0, 1], [0.5] * 4)
    for temperature in (None, 1.0):
        policy = OffsetTree(temperature=temperature).fit(logs)
        assert_array_equal(policy.predict_proba([[0.0]]), [[0, 1]])


def test_no_evidence_is_an_error():
    logs = BanditLogs(np.zeros((4, 1)), [0, 1, 0, 1], [0.3] * 4, [0.5] * 4)
    with pytest.raises(ValueError, match="OffsetTree cannot tell actions"):
        OffsetTree().fit(logs)
    alone = logs.replace(
        reward=[1.0, 0, 0, 1], available=np.eye(2, dtype=bool)[[0, 1] * 2]
    )
    with pytest.raises(ValueError, match="or only one action was offered"):
        OffsetTree().fit(alone)


def test_weights_of_the_logs():
    weight = 1.0 + np.arange(300) % 2
    twice = LOGS[np.repeat(np.arange(300), weight.astype(int))]
    policy = OffsetTree(LogisticRegression(tol=1e-8), temperature=1.0)
    expected = policy.fit(twice).predict_proba(X)
    policy.fit(LOGS.replace(sample_weight=weight))
    assert_allclose(policy.predict_proba(X), expected, atol=1e-4)
