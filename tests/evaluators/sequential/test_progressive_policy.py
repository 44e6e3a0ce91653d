# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import pickle
import warnings
from itertools import pairwise

import numpy as np
import pytest
from sklearn.base import clone

from skope_ope import IPS, DRns, EpsilonGreedy, UniformPolicy
from skope_ope.datasets import make_bandit_logs
from skope_ope.exceptions import OPEWarning
from skope_ope.policies import (
    OnlineClassifierPolicy,
    SegmentedPolicy,
    action_probabilities,
)
from tests._learners import RulePolicy, greedy_rule


def evaluated(policy, n=300, **parameters):
    logs = make_bandit_logs(n, n_actions=3, random_state=0)
    fitted = DRns(reward_model=0.4, random_state=0, **parameters).fit(logs)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", OPEWarning)
        return logs, fitted.evaluate(policy)


def test_weights_are_shares_of_the_scored_rounds():
    """c_t |B(t)| / C, the trailing partial block among them."""
    logs, result = evaluated(EpsilonGreedy())
    weights = result.progressive_policy_.weights_
    c, accepted = result.acceptance_ratios, result.accepted
    assert weights.sum() == pytest.approx(1, abs=1e-14)
    assert len(weights) == len(accepted) + 1
    starts = [0, *(accepted + 1), len(logs)]
    expected = [c[a:b].sum() / c.sum() for a, b in pairwise(starts)]
    np.testing.assert_allclose(weights, expected, rtol=1e-12, atol=1e-16)


def test_probabilities_are_those_of_the_histories_in_the_mean():
    rule = greedy_rule(3)
    logs, result = evaluated(RulePolicy(rule))
    progressive = result.progressive_policy_
    rows = result.accepted
    history = [(None, logs.action_index.item(k), logs.reward.item(k)) for k in rows]
    expected = sum(
        weight * np.array(rule(history[:t], None))
        for t, weight in enumerate(progressive.weights_)
    )
    found = action_probabilities(progressive, logs[:5])
    np.testing.assert_allclose(found, np.tile(expected, (5, 1)), rtol=1e-12)


def test_it_is_a_policy_like_any_other():
    logs, result = evaluated(EpsilonGreedy())
    progressive = result.progressive_policy_
    other = make_bandit_logs(200, n_actions=3, random_state=1)
    value = IPS().fit(other).evaluate(progressive)
    assert np.isfinite(value.value)
    assert clone(progressive) is progressive
    assert progressive.fit(other) is progressive
    assert progressive.classes_.tolist() == logs.actions.tolist()
    back = pickle.loads(pickle.dumps(progressive))
    np.testing.assert_array_equal(
        back.predict_proba(other.context), progressive.predict_proba(other.context)
    )


def test_samples_are_the_policies_of_the_histories(global_random_seed):
    rule = greedy_rule(3)
    logs, result = evaluated(RulePolicy(rule), n=60)
    progressive = result.progressive_policy_
    lengths = []
    for seed in range(200):
        drawn = progressive.sample(np.random.RandomState([global_random_seed, seed]))
        history = drawn.policy.history
        lengths.append(len(history))
        rows = result.accepted[: len(history)]
        assert [row[1] for row in history] == logs.action_index[rows].tolist()
        expected = rule(history, None)
        np.testing.assert_allclose(drawn.predict_proba(logs.context[:1])[0], expected)
    weights = progressive.weights_
    mean = np.arange(len(weights)) @ weights
    error = np.sqrt(np.arange(len(weights)) ** 2 @ weights - mean**2) / np.sqrt(200)
    assert abs(np.mean(lengths) - mean) < 4 * error


def test_policies_that_learn_now_and_then_or_by_segment():
    for policy in (
        OnlineClassifierPolicy(update_every=7),
        SegmentedPolicy(EpsilonGreedy(), lambda X: np.asarray(X)[:, 0] > 0),
    ):
        logs, result = evaluated(policy)
        proba = result.progressive_policy_.predict_proba(logs.context)
        np.testing.assert_allclose(proba.sum(axis=1), 1)


def test_only_a_single_trace_has_one():
    for policy, parameters in (
        (EpsilonGreedy(), {"horizon": 10}),
        (EpsilonGreedy(), {"normalize": False}),
        (UniformPolicy(), {}),
    ):
        _, result = evaluated(policy, **parameters)
        assert not hasattr(result, "progressive_policy_")
