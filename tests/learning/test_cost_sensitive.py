# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from skope_ope import BanditLogs, DRPolicy, IPSPolicy
from skope_ope.learning._ips_policy import estimated_rewards, weighted_labels
from tests.learning._worlds import ByHeart, all_that_can_happen, random_world

# three rounds: above, below, and exactly what was expected
LOGS = BanditLogs(
    [[0.0], [1.0], [2.0]],
    ["a", "b", "c"],
    [3.0, -1.0, 1.0],
    [0.5, 0.25, 0.1],
)
EVERYTHING = np.ones(3, dtype=bool)


def test_estimated_rewards_by_hand():
    assert_allclose(
        estimated_rewards(LOGS, 1.0), [[1 + 2 * 2, 1, 1], [1, 1 - 4 * 2, 1], [1] * 3]
    )
    q_hat = np.array([[1.0, 2.0, 0.0], [0.0, 1.0, 2.0], [2.0, 0.0, 1.0]])
    assert_allclose(
        estimated_rewards(LOGS, q_hat),
        [[1 + 2 * 2, 2, 0], [0, 1 - 4 * 2, 2], [2, 0, 1]],
    )
    # lam = 4: 4 w / (w^2 + 4), for w = 2 and 4
    assert_allclose(
        estimated_rewards(LOGS, 1.0, shrinkage=4),
        [[1 + 1 * 2, 1, 1], [1, 1 - 0.8 * 2, 1], [1] * 3],
    )
    assert_allclose(estimated_rewards(LOGS, q_hat, shrinkage=0), q_hat)
    for lam in (None, np.inf):
        assert_array_equal(
            estimated_rewards(LOGS, q_hat, lam), estimated_rewards(LOGS, q_hat)
        )


def test_weighted_labels_by_hand():
    rows, codes, weight = weighted_labels(estimated_rewards(LOGS, 1.0), EVERYTHING)
    # the first round speaks for its action, the second for the others, the third for
    # none
    assert rows.tolist() == [0, 1, 1]
    assert codes.tolist() == [0, 0, 2]
    assert_allclose(weight, [4, 8, 8])
    offered = np.array([[True, True, False], [True, True, False], [False, True, True]])
    rows, codes, weight = weighted_labels(
        estimated_rewards(LOGS, 1.0), offered, np.array([1.0, 0.5, 2.0])
    )
    assert [*zip(rows, codes, weight, strict=True)] == [(0, 0, 4.0), (1, 0, 4.0)]
    chance = np.array([[0.5, 0.5, 0.0], [0.25, 0.5, 0.25], [1.0, 0.0, 0.0]])
    expected = estimated_rewards(LOGS, 1.0)
    rows, codes, weight = weighted_labels(expected, EVERYTHING, chance=chance)
    assert [*zip(rows, codes, weight, strict=True)] == [(0, 0, 2), (1, 0, 2), (1, 2, 2)]
    none = weighted_labels(np.full((3, 3), 0.3), EVERYTHING)
    assert [len(part) for part in none] == [0, 0, 0]


def test_the_classifier_gets_these_examples(monkeypatch):
    monkeypatch.setattr(ByHeart, "fits", ())
    IPSPolicy(ByHeart(), baseline=1.0).fit(LOGS)
    assert ByHeart.fits == ([(0.0, "a", 4.0), (1.0, "a", 8.0), (1.0, "c", 8.0)],)


def test_weighted_accuracy_is_the_estimated_value_up_to_a_constant(global_random_seed):
    rng = np.random.RandomState(global_random_seed)
    rewards = rng.normal(size=(50, 4))
    offered = rng.random_sample((50, 4)) < 0.7
    offered[:, 2] = True
    keep = rng.random_sample(50)
    rows, codes, weight = weighted_labels(rewards, offered, keep)
    difference = []
    for _ in range(5):  # policies that choose among what is offered
        chosen = np.where(offered, rng.random_sample((50, 4)), -1).argmax(axis=1)
        accuracy = weight @ (chosen[rows] == codes)
        value = keep @ rewards[np.arange(50), chosen]
        difference.append(value - accuracy)
    assert_allclose(difference, difference[0])


@pytest.mark.few_cases(1)
@pytest.mark.parametrize("offers", [False, True], ids=["all offered", "some"])
def test_a_perfect_classifier_gives_the_best_policy(global_random_seed, offers):
    """In expectation over all logs, whatever the baseline or the model."""
    for seed in range(3):
        mu, q, available = random_world(10 * global_random_seed + seed, offers=offers)
        logs = all_that_can_happen(mu, q, available)
        wrong = np.random.RandomState(seed).normal(size=(6, 5))  # by context
        wrong = wrong[logs.context[:, 0].astype(int)]
        policies = [
            IPSPolicy(ByHeart(), baseline=0),
            IPSPolicy(ByHeart()),
            IPSPolicy(ByHeart(), baseline=-3.0),
            DRPolicy(ByHeart(), reward_model=wrong, shrinkage=None, n_steps=200),
        ]
        best = np.where(available, q, -1).argmax(axis=1)
        contexts = np.arange(6.0)[:, None]
        for policy in policies:
            proba = policy.fit(logs).predict_proba(contexts, available)
            assert_array_equal(proba.argmax(axis=1), best)


def test_the_only_logged_action_is_taken():
    for policy in (IPSPolicy(epsilon=0.2), DRPolicy(epsilon=0.2, temperature=1.0)):
        logs = BanditLogs(np.zeros((3, 1)), ["b"] * 3, [1.0, 2, 3], [1.0] * 3)
        assert_allclose(policy.fit(logs).predict_proba([[0.0]]), [[1.0]])
        logs = BanditLogs(
            np.zeros((3, 1)), ["b"] * 3, [1.0, 2, 3], [0.9] * 3, actions=["a", "b"]
        )
        assert_allclose(policy.fit(logs).predict_proba([[0.0]]), [[0.1, 0.9]])


def test_actions_never_logged_are_the_last_resort():
    rng = np.random.RandomState(0)
    action = rng.randint(2, size=60)
    logs = BanditLogs(
        rng.normal(size=(60, 2)), action, -1.0 - action, [0.5] * 60, actions=[0, 1, 2]
    )
    for policy in (IPSPolicy(), DRPolicy(), IPSPolicy(baseline=5.0)):
        proba = policy.fit(logs).predict_proba(logs.context)
        assert_allclose(proba[:, 2], 0)
        only = np.array([[False, False, True]])
        assert_allclose(policy.predict_proba(logs.context[:1], only), only)


@pytest.mark.parametrize(
    ("policy", "fields"),
    [
        (IPSPolicy(), {"reward": [0.1] * 6}),
        (DRPolicy(), {"reward": [0.1] * 6}),
        (IPSPolicy(baseline=0.1), {"reward": [0.1] * 6}),
        (IPSPolicy(baseline=0), {"reward": [0.0] * 6}),
        (IPSPolicy(), {"available": np.eye(3, dtype=bool)[[0, 1, 2] * 2]}),
    ],
    ids=str,
)
def test_no_evidence_is_an_error(policy, fields):
    fields = {"reward": np.arange(6.0), **fields}
    logs = BanditLogs(np.zeros((6, 1)), [0, 1, 2] * 2, propensity=[0.5] * 6, **fields)
    with pytest.raises(ValueError, match="cannot tell actions apart"):
        policy.fit(logs)
