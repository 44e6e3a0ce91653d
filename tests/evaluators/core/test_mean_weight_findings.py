# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Weights that do not average to one: found where it matters, quiet on right logs."""

import numpy as np
import pytest

from skope_ope import (
    IPS,
    SNIPS,
    BanditLogs,
    DoublyRobust,
    PropensityEstimator,
    UniformPolicy,
)
from skope_ope.exceptions import PropensityWarning
from tests._quiet import quiet


def a_log(n=2000, n_actions=4, temperature=1.0, seed=0):
    """Return logs of a softmax logger, and its probabilities."""
    rng = np.random.RandomState(seed)
    X = rng.normal(size=(n, 3))
    logits = X @ rng.normal(size=(3, n_actions)) * temperature
    mu = np.exp(logits - logits.max(axis=1, keepdims=True))
    mu /= mu.sum(axis=1, keepdims=True)
    action = (rng.random_sample((n, 1)) > mu.cumsum(axis=1)).sum(axis=1)
    action = np.minimum(action, n_actions - 1)
    reward = (rng.random_sample(n) < 0.2 + 0.1 * action).astype(float)
    p = mu[np.arange(n), action]
    return BanditLogs(X, action, reward, p, actions=range(n_actions)), mu


def of_weights(value):
    """Return the warnings about weights that do not average to one."""
    return [
        str(w)
        for w in value.warnings
        if isinstance(w, PropensityWarning) and "importance weight" in str(w)
    ]


def copied(logs):
    """Return the policy that copies what was logged."""
    return np.eye(logs.n_actions)[logs.action_index]


@pytest.mark.parametrize("temperature", [1.0, 3.0])
def test_a_policy_that_copied_the_logged_action(temperature):
    logs, _ = a_log(temperature=temperature)
    for policy in (copied(logs), np.ones(len(logs))):  # of all actions, of the logged
        value = quiet(IPS().fit(logs), policy)
        assert value.value > 1.5 * logs.reward.mean()  # far too high
        [told] = of_weights(value)
        first = told[told.index("(1)") : told.index("(2)")]
        assert ("from the logged actions" in first) == (policy.ndim == 2)
        assert ("does not hold pi(a_i | x_i)" in first) == (policy.ndim == 1)


@pytest.mark.thorough
def test_right_logs_are_quiet():
    """Heavy tails, few rounds, groups: a mean below one is what they have."""
    below = 0
    for seed in range(20):
        for n in (50, 300, 2000):
            logs, mu = a_log(n, 10, temperature=3.0, seed=seed)
            grouped = logs.replace(group=np.arange(n) // 5)
            for one in (logs, grouped):
                for policy in (UniformPolicy(), np.roll(mu, 1, axis=1)):
                    value = quiet(SNIPS().fit(one), policy)
                    assert of_weights(value) == []
                    below += value.diagnostics["mean_weight_z"] < -4
    assert below > 20  # where a normal quantile would ring


def test_weights_that_are_all_alike():
    n = 300
    rng = np.random.RandomState(0)
    logs = BanditLogs(
        rng.normal(size=(n, 2)),
        np.arange(n) % 3,
        rng.random_sample(n),
        np.full(n, 1 / 3),
    )
    for policy in (copied(logs), np.ones(n)):
        [told] = of_weights(quiet(IPS().fit(logs), policy))
        assert told.startswith("All importance weights are 3,")
    half = quiet(IPS().fit(logs), np.full(n, 0.5 / 3))
    assert "All importance weights are 0.5" in of_weights(half)[0]
    assert half.diagnostics["mean_weight_z"] < -3
    # two digits of 1/3 change no decision, and a policy of its own has other weights
    rounded = logs.replace(propensity=np.full(n, 0.33))
    for policy in (UniformPolicy(), np.full(n, 1 / 3)):
        assert of_weights(quiet(IPS().fit(rounded), policy)) == []
        assert of_weights(quiet(IPS().fit(logs), policy)) == []


def test_weights_alike_by_chance_are_quiet():
    # the policy does what the logger did: 2^-8, and (2/3)^-2 for what it may have done
    few = BanditLogs(np.zeros((8, 1)), [0, 1] * 4, np.ones(8), np.full(8, 0.5))
    assert of_weights(quiet(IPS().fit(few), copied(few))) == []
    # a logger that hardly ever leaves its choice, and a policy that does more often
    n = 40
    logs = BanditLogs(
        np.arange(n)[:, None], np.arange(n) % 2, np.ones(n), np.full(n, 0.98)
    )
    assert of_weights(quiet(IPS().fit(logs), np.full(n, 0.9))) == []


def test_a_mean_far_below_one_that_no_rare_weight_explains():
    logs, _ = a_log(3000, temperature=1.0)
    clipped = logs.replace(propensity=np.maximum(logs.propensity, 0.2))
    [told] = of_weights(quiet(IPS().fit(clipped), UniformPolicy()))
    assert "do not explain it" in told
    # in half of the contexts the logger never takes what the policy wants
    X, n = logs.context, len(logs)
    rng = np.random.RandomState(1)
    action = np.where(X[:, 0] > 0, rng.randint(2, size=n), 2 + rng.randint(2, size=n))
    pairs = BanditLogs(X, action, np.ones(n), np.full(n, 0.5))
    for policy in (UniformPolicy(), np.tile([0.4, 0.1, 0.2, 0.3], (n, 1))):
        value = quiet(IPS().fit(pairs), policy)
        assert value.diagnostics["unsupported_mass"] == 0  # every action was logged
        [told] = of_weights(value)
        assert told.index("never takes the policy's actions") < told.index("too large")
        assert value.diagnostics["mean_weight"] == pytest.approx(0.5, abs=0.02)


def test_advice_is_not_circular():
    logs, _ = a_log()
    value = quiet(DoublyRobust().fit(logs), copied(logs))
    assert not any("DoublyRobust" in str(w) for w in value.warnings)
    [told] = of_weights(value)
    assert "PropensityEstimator" in told
    estimated = PropensityEstimator().fit_transform(logs.replace(propensity=None))
    if hasattr(estimated, "propensity_estimated"):
        [told] = of_weights(quiet(IPS().fit(estimated), copied(estimated)))
        assert "PropensityEstimator" not in told
        assert "does not overfit" in told
