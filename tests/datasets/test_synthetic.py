# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Worlds of rounds whose truth is known, logged by fixed and by learning loggers."""

import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import expit, softmax
from scipy.stats import norm, sem
from sklearn.base import clone

from skope_ope.datasets import make_adaptive_logs, make_bandit_logs
from skope_ope.policies import action_probabilities


def truly(n_rounds, **params):
    """Return logs, a policy and the truth about both."""
    given = {"random_state": 0, "return_truth": True} | params
    return make_bandit_logs(n_rounds, **given)


def test_shapes_and_fields():
    logs = make_bandit_logs(50, n_features=4, n_actions=6, random_state=0)
    assert logs.context.shape == (50, 4)
    assert_array_equal(logs.actions, np.arange(6))
    assert logs.logging_proba.shape == (50, 6)
    assert_allclose(logs.logging_proba.sum(axis=1), 1)
    taken = logs.logging_proba[np.arange(50), logs.action_index]
    assert_array_equal(logs.propensity, taken)
    assert set(logs.reward.tolist()) == {0.0, 1.0}
    assert logs.reward_range == (0.0, 1.0)


@pytest.mark.parametrize("reward", ["binary", "continuous"])
def test_same_seed_same_logs_with_and_without_truth(reward):
    params = {"n_rounds": 30, "reward": reward, "random_state": 3}
    first = make_bandit_logs(**params)
    second, _, _ = make_bandit_logs(**params, return_truth=True)
    for field in ("context", "action", "reward", "propensity", "logging_proba"):
        assert_array_equal(getattr(first, field), getattr(second, field))
    other = make_bandit_logs(**{**params, "random_state": 4})
    assert not np.array_equal(first.context, other.context)


def test_truth_is_the_policy_over_the_expected_rewards():
    logs, policy, truth = truly(200)
    pi = action_probabilities(policy, logs)
    assert_array_equal(policy.classes_, logs.actions)
    value = (pi * truth.expected_rewards).sum(axis=1).mean()
    assert_allclose(value, truth.value, rtol=1e-13)
    assert truth.expected_rewards.min() > 0
    assert truth.expected_rewards.max() < 1
    assert truth.value > truth.expected_rewards.mean()  # it is worth finding
    for copy in (clone(policy).fit(logs), pickle.loads(pickle.dumps(policy))):
        assert_array_equal(action_probabilities(copy, logs), pi)


def test_one_world_many_logs():
    worlds = [truly(40, world_random_state=1, random_state=seed) for seed in (0, 1)]
    (logs_a, policy_a, truth_a), (logs_b, policy_b, truth_b) = worlds
    assert not np.array_equal(logs_a.context, logs_b.context)
    # the policy of one log acts in the other as that log's own
    own, other = (one.predict_proba(logs_b.context) for one in (policy_b, policy_a))
    assert_array_equal(other, own)
    gap = abs(truth_a.population_value - truth_b.population_value)
    assert gap < 6 * np.hypot(truth_a.population_error, truth_b.population_error)
    _, policy_c, _ = truly(40, world_random_state=2)
    own, other = (one.predict_proba(logs_a.context) for one in (policy_a, policy_c))
    assert not np.allclose(own, other)


@pytest.mark.parametrize("reward", ["binary", "continuous"])
def test_propensities_and_values_agree(reward, global_random_seed):
    # IPS is unbiased for the value on these contexts, given the logged propensities
    logs, policy, truth = truly(20_000, reward=reward, random_state=global_random_seed)
    pi = action_probabilities(policy, logs)[np.arange(len(logs)), logs.action_index]
    terms = pi / logs.propensity * logs.reward
    assert abs(terms.mean() - truth.value) < 5 * sem(terms)
    # the contexts are a sample of the population
    spread = truth.population_error * 2**8.5 / np.sqrt(len(logs))
    assert abs(truth.value - truth.population_value) < 5 * spread
    # E[1 / p] is the number of actions
    inverse = 1 / logs.propensity
    assert abs(inverse.mean() - logs.n_actions) < 5 * sem(inverse)


def test_rewards_have_their_expectation(global_random_seed):
    rows, seed = np.arange(10_000), global_random_seed
    logs, _, truth = truly(10_000, random_state=seed)
    mean = truth.expected_rewards[rows, logs.action_index]
    z = (logs.reward - mean).sum() / np.sqrt((mean * (1 - mean)).sum())
    assert abs(z) < 4.5
    params = {"reward": "continuous", "noise": 0.3, "random_state": seed}
    logs, _, truth = truly(10_000, **params)
    residual = logs.reward - truth.expected_rewards[rows, logs.action_index]
    assert abs(residual.mean()) < 4.5 * 0.3 / 100
    assert abs(residual.std() - 0.3) < 4.5 * 0.3 / np.sqrt(2 * 10_000)
    assert logs.reward.min() < 0
    assert logs.reward_range is None


@pytest.mark.parametrize("reward", ["binary", "continuous"])
def test_no_effect_world(reward):
    logs, _, truth = truly(100, reward=reward, effect=0.0)
    expected = truth.expected_rewards
    assert_allclose(expected, np.repeat(expected[:, :1], 3, axis=1), rtol=1e-14)
    assert_allclose(truth.value, expected[:, 0].mean(), rtol=1e-12)
    assert np.ptp(expected[:, 0]) > 0.1  # contexts still matter
    assert logs.n_actions == 3


def test_documented_formulas():
    params = {"reward": "continuous", "target_temperature": 0.3}
    worlds = [truly(20, effect=effect, **params) for effect in (0.0, 1.0, 2.5)]
    base, one, more = (truth.expected_rewards for *_, truth in worlds)
    assert_allclose(more - base, 2.5 * (one - base), rtol=1e-12, atol=1e-12)
    # the policy is a softmax of the true effects
    logs, policy, _ = worlds[-1]
    pi = action_probabilities(policy, logs)
    assert_allclose(pi, softmax((one - base) / 0.3, axis=1), rtol=1e-10)
    # a temperature divides the logger's scores
    warm = make_bandit_logs(20, logging_temperature=2.0, random_state=0)
    log_odds = np.diff(np.log(logs.logging_proba), axis=1)
    assert_allclose(np.diff(np.log(warm.logging_proba), axis=1), log_odds / 2)


def test_noise_free_rewards_and_scores():
    logs, _, truth = truly(50, reward="continuous", noise=0.0)
    q = truth.expected_rewards
    assert_array_equal(logs.reward, q[np.arange(50), logs.action_index])
    assert_allclose(truly(50)[2].expected_rewards, expit(q), rtol=1e-13)


def test_temperatures():
    uniform = make_bandit_logs(20, logging_temperature=np.inf, random_state=0)
    assert_allclose(uniform.propensity, 1 / 3, rtol=1e-15)
    sharp = make_bandit_logs(20, logging_temperature=1e-300, random_state=0)
    assert_array_equal(sharp.propensity, 1.0)
    logs, greedy, truth = truly(20, target_temperature=0)
    pi = action_probabilities(greedy, logs)
    assert_array_equal(pi.argmax(axis=1), truth.expected_rewards.argmax(axis=1))
    assert_array_equal(pi.max(axis=1), 1.0)
    assert_allclose(truth.value, truth.expected_rewards.max(axis=1).mean())
    logs, flat, _ = truly(20, target_temperature=np.inf)
    assert_allclose(action_probabilities(flat, logs), 1 / 3, rtol=1e-15)
    logs, policy, truth = truly(1, n_features=1, n_actions=1)  # the smallest problem
    assert_array_equal(logs.propensity, 1.0)
    assert_allclose(truth.value, truth.expected_rewards[0, 0])
    assert_array_equal(action_probabilities(policy, logs), [[1.0]])


def test_bad_parameters():
    for name, value in (
        *(("n_rounds", 0), ("n_actions", 0), ("n_features", 2.5), ("reward", "gamma")),
        *(("effect", -1.0), ("noise", -0.1), ("target_temperature", -1.0)),
        *(("logging_temperature", 0.0), ("logging_temperature", float("nan"))),
        ("random_state", "seed"),
    ):
        with pytest.raises((ValueError, TypeError), match=name):
            make_bandit_logs(**{name: value})


# Loggers that learn
MEANS = [[0.2, 0.6, 0.4], [0.7, 0.3, 0.5]]


def test_fields_and_truth():
    given = {"means": MEANS, "random_state": 0}
    logs, truth = make_adaptive_logs(100, **given, return_truth=True)
    assert logs.logging_proba.shape == (100, 3)
    assert_allclose(logs.logging_proba.sum(axis=1), 1)
    taken = logs.logging_proba[np.arange(100), logs.action_index]
    assert_array_equal(logs.propensity, taken)
    assert_array_equal(logs.timestamp, np.arange(100))
    assert logs.reward_range == (0, 1)
    assert_allclose(truth.action_values, [0.45, 0.45, 0.45])
    segment = logs.context[:, 0].astype(int)
    assert_array_equal(truth.expected_rewards, np.array(MEANS)[segment])
    logger = pickle.loads(pickle.dumps(truth.logger))
    for t in (0, 50, 99):
        both = logger(t, np.array([[0.0], [1.0]]))
        assert_array_equal(both[segment[t]], logs.logging_proba[t])
    assert_array_equal(make_adaptive_logs(100, **given).reward, logs.reward)


def test_probabilities_follow_the_rounds_before_them():
    """Thompson sampling of two arms is a normal probability of the past."""
    logs = make_adaptive_logs(60, floor_decay=0.5, random_state=1)
    for t in (0, 1, 7, 59):
        sums = np.zeros((2, 2))
        for a, r in zip(logs.action_index[:t], logs.reward[:t], strict=True):
            sums[a] += [r, 1]
        mean = (sums[:, 0] + 0.5) / (sums[:, 1] + 1)
        sd = 0.5 / np.sqrt(sums[:, 1] + 1)
        best = norm.cdf((mean[0] - mean[1]) / np.hypot(*sd))
        floor = (t + 1) ** -0.5 / 2
        expected = floor + (1 - 2 * floor) * best
        assert_allclose(logs.logging_proba[t, 0], expected, atol=2e-3)


def test_greedy_with_a_floor():
    logs = make_adaptive_logs(50, logger="epsilon_greedy", random_state=0)
    floor = np.arange(1, 51) ** -0.5 / 2
    low = logs.logging_proba.min(axis=1)
    assert_allclose(low[1:], np.where(low[1:] == 0.5, 0.5, floor[1:]))
    assert (np.isclose(low, floor)).mean() > 0.8


def test_it_learns_when_it_says():
    logs = make_adaptive_logs(60, update_every=20, floor_decay=0.0, random_state=0)
    assert_allclose(logs.logging_proba, 0.5)  # floor 1/K leaves nothing to learn
    logs = make_adaptive_logs(60, update_every=20, floor_decay=50.0, random_state=0)
    steps = np.abs(np.diff(logs.logging_proba[2:], axis=0)).max(axis=1) > 1e-9
    assert_array_equal(np.flatnonzero(steps) + 3, [20, 40])


@pytest.mark.parametrize("reward", ["binary", "continuous"])
def test_the_log_of_a_learner_is_unlucky_with_its_arms(reward):
    """Their mean reward is too low; propensities repair it."""
    means, ips = [], []
    world = {"means": [0.5, 0.5], "logger": "epsilon_greedy", "floor_decay": 0.7}
    for seed in range(300):
        world |= {"reward": reward, "noise": 0.5, "random_state": seed}
        logs = make_adaptive_logs(20, **world)
        mine = logs.action_index == 0
        ips.append((logs.reward * mine / logs.propensity).mean())
        if mine.any():
            means.append(logs.reward[mine].mean())
    assert np.mean(means) < 0.5 - 4 * np.std(means) / np.sqrt(len(means))
    assert abs(np.mean(ips) - 0.5) < 4 * np.std(ips) / np.sqrt(len(ips))


def test_bad_adaptive_logs():
    for given, message in (
        ({"means": [0.5, 1.5]}, "means of binary rewards"),
        ({"means": [[[0.5]]]}, "means"),
        ({"logger": "ucb"}, "logger"),
    ):
        with pytest.raises(ValueError, match=message):
            make_adaptive_logs(10, **given)
    one = make_adaptive_logs(1, means=[0.5], random_state=0)
    assert len(one) == 1 and one.propensity[0] == 1
