# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import norm

from skope_ope.datasets import make_adaptive_logs
from skope_ope.datasets._adaptive_logs import AdaptiveWorld, simulate_histories

MEANS = [[0.2, 0.6, 0.4], [0.7, 0.3, 0.5]]


def test_fields_and_truth():
    logs, truth = make_adaptive_logs(
        100, means=MEANS, random_state=0, return_truth=True
    )
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
    same = make_adaptive_logs(100, means=MEANS, random_state=0)
    assert_array_equal(same.reward, logs.reward)


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
    world = AdaptiveWorld([0.5, 0.5], "thompson", 50.0, 20, "binary")
    proba = simulate_histories(world, 1, 60, np.random.RandomState(0)).proba[0, :, 0]
    steps = np.abs(np.diff(proba[2:], axis=0)).max(axis=1) > 1e-9
    assert_array_equal(np.flatnonzero(steps) + 3, [20, 40])


@pytest.mark.parametrize("reward", ["binary", "continuous"])
def test_the_log_of_a_learner_is_unlucky_with_its_arms(reward):
    """Their mean reward is too low; propensities repair it."""
    world = AdaptiveWorld([0.5, 0.5], "epsilon_greedy", 0.7, 1, reward, noise=0.5)
    found = simulate_histories(world, 2000, 100, np.random.RandomState(0))
    mine = found.action == 0
    means = (found.reward * mine).sum(axis=1) / np.maximum(mine.sum(axis=1), 1)
    means = means[mine.any(axis=1)]
    assert means.mean() < 0.5 - 4 * means.std() / np.sqrt(len(means))
    ips = (found.reward * mine / found.proba[:, :, 0, 0]).mean(axis=1)
    assert abs(ips.mean() - 0.5) < 4 * ips.std() / np.sqrt(len(ips))


def test_bad_input():
    with pytest.raises(ValueError, match="means of binary rewards"):
        make_adaptive_logs(10, means=[0.5, 1.5])
    with pytest.raises(ValueError, match="means"):
        make_adaptive_logs(10, means=[[[0.5]]])
    with pytest.raises(ValueError, match="logger"):
        make_adaptive_logs(10, logger="ucb")
    one = make_adaptive_logs(1, means=[0.5], random_state=0)
    assert len(one) == 1 and one.propensity[0] == 1
