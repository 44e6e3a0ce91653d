# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from skope_ope.datasets import make_slate_logs
from tests.policies._slate_worlds import check_moments

REWARDS = ["additive", "cascade", "interaction"]
LOGGERS = ["uniform", "plackett_luce", "product"]


@pytest.mark.few_cases
@pytest.mark.parametrize("reward", REWARDS)
@pytest.mark.parametrize("logging", LOGGERS)
def test_slate_ips_finds_the_truth(reward, logging, global_random_seed):
    logs, policy, truth = make_slate_logs(
        4000,
        n_slots=2,
        n_candidates=3,
        reward=reward,
        logging=logging,
        logging_temperature=4.0,  # weights without heavy tails
        target_temperature=2.0,
        random_state=global_random_seed,
        return_truth=True,
    )
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
    for reward in REWARDS:
        logs, policy, truth = make_slate_logs(
            50, reward=reward, random_state=1, return_truth=True
        )
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
    *_, truth = make_slate_logs(
        3, n_slots=6, n_candidates=9, reward="cascade", return_truth=True
    )
    assert np.isnan(truth.value)
    *_, truth = make_slate_logs(3, n_slots=6, n_candidates=9, return_truth=True)
    assert np.isfinite(truth.value)


def test_bad_parameters():
    with pytest.raises(ValueError, match="n_slots=4 is more than n_candidates=3"):
        make_slate_logs(n_slots=4, n_candidates=3)
    make_slate_logs(10, n_slots=4, n_candidates=3, logging="product")
    for params in ({"reward": "x"}, {"logging": "y"}, {"target_temperature": 0}):
        with pytest.raises(ValueError, match=next(iter(params))):
            make_slate_logs(**params)
