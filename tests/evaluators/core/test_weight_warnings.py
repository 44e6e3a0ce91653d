# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""What the weights of a policy tell: found where it matters, quiet on right logs."""

from itertools import product
from math import comb

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.special import softmax
from scipy.stats import norm

from skope_ope import (
    IPS,
    SNIPS,
    BanditLogs,
    DirectMethod,
    DoublyRobust,
    IndependentSlotIPS,
    MultiLoggerIPS,
    PropensityEstimator,
    PseudoInverse,
    SlateIPS,
    SlateLogs,
    UniformPolicy,
    UniformSlatePolicy,
)
from skope_ope.exceptions import LowOverlapWarning, PropensityWarning, SupportWarning
from tests.evaluators.core._asked import NEVER, bare_logs, quietly, value_of


def logs_of_weights(w, reward=None, **fields):
    """Logs, and the probabilities of the logged actions that give these weights."""
    w = np.asarray(w, dtype=float)
    n, p = len(w), np.minimum(0.5, 1 / np.maximum(w, 1e-9))
    reward = np.random.RandomState(0).normal(size=n) if reward is None else reward
    logs = bare_logs(np.arange(n) % 2, reward, p, **fields)
    return logs, np.minimum(w * p, 1.0)


def of_kind(kind, value, word=""):
    """Warnings of a class whose text holds a word."""
    return [w for w in value.warnings if isinstance(w, kind) and word in str(w)]


def weighing(w, **given):
    return value_of(IPS(), *logs_of_weights(w, **given))


def rung(w):
    """Alarms of weights: list of (class, value)."""
    told = weighing(w).warnings
    low = LowOverlapWarning
    found = [one for one in told if isinstance(one, low) or "importance w" in str(one)]
    return [(type(one), one.value) for one in found]


# -- overlap --------------------------------------------------------------------------
def one_heavy(n, others, weight):
    w = np.full(n, others)
    w[3] = weight
    return w


def test_weights_that_ring_nothing_and_that_ring():
    for w in (
        np.ones(1000),
        np.tile([0.5, 1.5], 500),
        # one round in ten has all the weight: 200 effective rounds of 2000
        np.tile([10.0] + [0.0] * 9, 200),
        np.ones(5),  # few rounds alone are no lack of overlap
        [0.8, 1.2, 1.0, 0.9, 1.1],
        # 20% of ten rounds is twice an equal share, no more
        one_heavy(10, 0.9, 2.0),
        1.45 - np.tile([1.4, 1.6], 500) / 3,  # .95: too little is missing to matter
        np.full(2, 2.0),  # two rounds of one action are no wonder
        [1.0],
        [7.0],
    ):
        assert rung(w) == []
    for w, kind, number in (
        (np.tile([10.0] + [0.0] * 9, 20), LowOverlapWarning, 20),
        # below five in a hundred, however many they are
        (np.tile([25.0] + [0.0] * 24, 2000), LowOverlapWarning, 2000),
        # 2.5 of 5 would do
        ([3.4, 0.4, 0.4, 0.4, 0.4], LowOverlapWarning, 25 / 12.2),
        (one_heavy(100, 0.9, 12.0), LowOverlapWarning, 12 / 101.1),
        # a fifth of all weight, but still 25 effective rounds
        (one_heavy(1000, 0.8, 200.0), LowOverlapWarning, 24.4),
        # no spread is no excuse: an array that is not the policy's probabilities
        (np.full(100, 1.5), PropensityWarning, 1.5),
    ):
        [(found, value)] = rung(w)
        assert found is kind
        assert value == pytest.approx(number, rel=0.01 if number == 24.4 else 1e-9)


def test_a_low_mean_weight_is_no_fault_where_large_weights_may_be_missing():
    w = 2 - np.tile([1.4, 1.6], 500)
    [(kind, evidence)] = rung(2 - w)  # of one that is too high
    assert kind is PropensityWarning and evidence > 100
    logs, pi = logs_of_weights(w)
    p = logs.propensity.copy()
    p[0] = 1e-3  # so small ones exist
    value = value_of(IPS(), logs.replace(propensity=p), np.minimum(w * p, pi))
    [told] = of_kind(LowOverlapWarning, value)
    assert told.value == pytest.approx(0.5) and not of_weights(value)


@pytest.mark.parametrize(
    "low, high, rare, n", [(0, 2, 0.5, 40), (0, 20, 0.05, 60), (0.9, 10.9, 0.01, 60)]
)
def test_right_logs_ring_in_one_of_a_thousand(low, high, rare, n):
    """By enumeration of all logs whose weights have mean one."""
    values, proba = np.array([low, high]) * 1.0, np.array([1 - rare, rare])
    assert values @ proba == pytest.approx(1)
    chances = []
    for k in range(n + 1):
        found = of_weights(weighing(np.repeat(values, [n - k, k])))
        if found and not found[0].startswith("All importance"):
            chances.append(comb(n, k) * np.prod(proba ** [n - k, k]))
    assert chances and sum(chances) <= 1e-3


# -- the mean weight in its standard errors -------------------------------------------
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("clustered", [False, True])
def test_the_mean_weight_in_its_errors(clustered, weighted):
    """It is the value of rewards of one, and knows groups and weights as values do."""
    rng = np.random.RandomState(0)
    w, fields = rng.gamma(2.0, 0.5, size=90), {"reward": np.ones(90)}
    if weighted:
        fields["sample_weight"] = rng.choice([0.0, 1.0, 2.0], 90)
    if clustered:
        fields["group"] = np.arange(90) // 3
    value = weighing(w, **fields)
    assert_allclose(value.diagnostics["mean_weight"], value.value, rtol=1e-12)
    z = (value.value - 1) / value.standard_error
    assert_allclose(value.diagnostics["mean_weight_z"], z, rtol=1e-10)


@pytest.mark.parametrize("n", [2, 500])
def test_weights_that_are_alike(n):
    def z_of(w, **fields):
        return weighing(w, **fields).diagnostics["mean_weight_z"]

    assert z_of(np.ones(n)) == 0
    # the normal deviate of 1.5^-n, the chance by Markov's bound, from above
    z = z_of(np.full(n, 1.5))
    assert_allclose(z, np.sqrt(2 * n * np.log(1.5)))
    assert z > -norm.ppf(1.5**-n)
    assert_allclose(z_of(np.full(n, 1 / 1.5)), -z)
    assert np.isnan(z_of(np.full(n, 1.5), group=np.zeros(n, int)))
    near = 1 + 1e-15 * np.random.RandomState(0).normal(size=n)  # by rounding
    assert z_of(near) == 0
    assert np.isnan(z_of(np.ones(1)))


# -- support --------------------------------------------------------------------------
@pytest.mark.parametrize(
    "evaluator",
    [IPS(), SNIPS(), DoublyRobust(reward_model=0.3), DirectMethod(reward_model=0.3)],
)
def test_the_share_of_a_policy_that_was_never_logged(evaluator):
    """Less than half a percent warns of nothing."""
    for share in (0.0, 1e-10, 2e-5, 4e-3, 0.0051, 0.25, 1 / 3):
        half = (1 - share) / 2
        value = value_of(evaluator, NEVER, np.tile([half, half, share], (400, 1)))
        told = of_kind(SupportWarning, value)
        assert len(told) == (share > 5e-3)
        for one in told:
            assert one.value == pytest.approx(share)
            assert f"{share:.2%} of" in str(one)
        if not isinstance(evaluator, DirectMethod):
            assert value.diagnostics["unsupported_mass"] == pytest.approx(share)


def test_mass_that_is_missing_lowers_the_mean_weight_by_itself():
    logs = NEVER.replace(reward=np.random.RandomState(0).normal(size=400))
    told = value_of(IPS(), logs, np.tile([0.4, 0.1, 0.5], (400, 1))).warnings
    assert [type(one) for one in told] == [SupportWarning]
    # a logger that never takes an action is named
    old, place = np.arange(400) % 2 == 0, np.arange(400)
    action, p = np.where(old, 0, place // 2 % 2), np.where(old, 1.0, 0.5)
    loggers = {"logger": np.where(old, "old", "new")}
    loggers["logger_proba"] = np.tile([0.5, 1.0], (400, 1))
    logs = bare_logs(action, 1.0, p, **loggers)
    value = value_of(MultiLoggerIPS(), logs, np.tile([0.5, 0.5], (400, 1)))
    [told] = of_kind(SupportWarning, value)
    assert "logger 'old' never took" in str(told)
    assert "pooling='balanced'" in str(told)


# -- slates ---------------------------------------------------------------------------
@pytest.mark.parametrize("by_slot", [False, True])
def test_slates_compare_what_the_log_allows(by_slot):
    rng = np.random.default_rng(0)
    slate = rng.permuted(np.tile(np.arange(6), (600, 1)), axis=1)[:, :3]
    rewards = {"slot_reward": rng.random((600, 3))} if by_slot else {}
    rewards = rewards or {"reward": rng.random(600)}
    about = {"n_candidates": 6, "logging_policy": UniformSlatePolicy(3)} | rewards
    logs, policy = SlateLogs(np.zeros((600, 1)), slate, **about), slate[[0] * 600]
    [told] = of_kind(LowOverlapWarning, value_of(SlateIPS(), logs, policy))
    assert "evaluate(policy, logs)" in str(told)
    assert ("IndependentSlotIPS needs the fewest" in str(told)) == by_slot
    last = "If they are far apart, collect logs closer to the policy."
    assert str(told).endswith(last)
    for evaluator in (PseudoInverse(), IndependentSlotIPS())[: 1 + by_slot]:
        assert not of_kind(LowOverlapWarning, value_of(evaluator, logs, policy))


# -- weights that do not average to one ------------------------------------------------
def a_log(n=2000, n_actions=4, temperature=1.0, seed=0):
    """Return logs of a softmax logger, and its probabilities."""
    rng = np.random.RandomState(seed)
    X = rng.normal(size=(n, 3))
    mu = softmax(X @ rng.normal(size=(3, n_actions)) * temperature, axis=1)
    action = (rng.random_sample((n, 1)) > mu.cumsum(axis=1)).sum(axis=1)
    action = np.minimum(action, n_actions - 1)
    reward = (rng.random_sample(n) < 0.2 + 0.1 * action).astype(float)
    p = mu[np.arange(n), action]
    return BanditLogs(X, action, reward, p, actions=range(n_actions)), mu


def of_weights(value):
    """Return the warnings about weights that do not average to one."""
    return [str(w) for w in of_kind(PropensityWarning, value, "importance weight")]


def copied(logs):
    """Return the policy that copies what was logged."""
    return np.eye(logs.n_actions)[logs.action_index]


@pytest.mark.parametrize("temperature", [1.0, 3.0])
def test_a_policy_that_copied_the_logged_action(temperature):
    logs, _ = a_log(temperature=temperature)
    for policy in (copied(logs), np.ones(len(logs))):  # of all actions, of the logged
        value = value_of(IPS(), logs, policy)
        assert value.value > 1.5 * logs.reward.mean()  # far too high
        [told] = of_weights(value)
        first = told[told.index("(1)") : told.index("(2)")]
        assert ("from the logged actions" in first) == (policy.ndim == 2)
        assert ("does not hold pi(a_i | x_i)" in first) == (policy.ndim == 1)
    # the advice is not circular
    value = value_of(DoublyRobust(), logs, copied(logs))
    assert not any("DoublyRobust" in str(w) for w in value.warnings)
    [told] = of_weights(value)
    assert "PropensityEstimator" in told
    unknown = logs.replace(propensity=None)
    estimated = quietly(PropensityEstimator().fit_transform, unknown)
    [told] = of_weights(value_of(IPS(), estimated, copied(estimated)))
    assert "PropensityEstimator" not in told and "does not overfit" in told


@pytest.mark.thorough
def test_right_logs_are_quiet():
    """Heavy tails, few rounds, groups: a mean below one is what they have."""
    below = 0
    for seed, n in product(range(20), (50, 300, 2000)):
        logs, mu = a_log(n, 10, temperature=3.0, seed=seed)
        for one in (logs, logs.replace(group=np.arange(n) // 5)):
            for policy in (UniformPolicy(), np.roll(mu, 1, axis=1)):
                value = value_of(SNIPS(), one, policy)
                assert of_weights(value) == []
                below += value.diagnostics["mean_weight_z"] < -4
    assert below > 20  # where a normal quantile would ring


def test_weights_that_are_all_alike():
    n = 300
    logs = bare_logs(np.arange(n) % 3, np.random.RandomState(0).rand(n), 1 / 3)
    for policy in (copied(logs), np.ones(n)):
        [told] = of_weights(value_of(IPS(), logs, policy))
        assert told.startswith("All importance weights are 3,")
    half = value_of(IPS(), logs, np.full(n, 0.5 / 3))
    assert "All importance weights are 0.5" in of_weights(half)[0]
    assert half.diagnostics["mean_weight_z"] < -3
    # two digits of 1/3 change no decision, and a policy of its own has other weights
    rounded = logs.replace(propensity=np.full(n, 0.33))
    for policy, one in product((UniformPolicy(), np.full(n, 1 / 3)), (logs, rounded)):
        assert of_weights(value_of(IPS(), one, policy)) == []
    # by chance: the policy does what the logger did: 2^-8, and (2/3)^-2 for what it
    # may have done
    few = bare_logs([0, 1] * 4, 1.0, 0.5)
    assert of_weights(value_of(IPS(), few, copied(few))) == []
    # a logger that hardly ever leaves its choice, and a policy that does more often
    firm = BanditLogs(np.arange(40)[:, None], [0, 1] * 20, np.ones(40), [0.98] * 40)
    assert of_weights(value_of(IPS(), firm, np.full(40, 0.9))) == []


def test_a_mean_far_below_one_that_no_rare_weight_explains():
    logs, _ = a_log(3000, temperature=1.0)
    clipped = logs.replace(propensity=np.maximum(logs.propensity, 0.2))
    [told] = of_weights(value_of(IPS(), clipped, UniformPolicy()))
    assert "do not explain it" in told
    # in half of the contexts the logger never takes what the policy wants
    X, n, rng = logs.context, len(logs), np.random.RandomState(1)
    action = np.where(X[:, 0] > 0, rng.randint(2, size=n), 2 + rng.randint(2, size=n))
    pairs = BanditLogs(X, action, np.ones(n), np.full(n, 0.5))
    for policy in (UniformPolicy(), np.tile([0.4, 0.1, 0.2, 0.3], (n, 1))):
        value = value_of(IPS(), pairs, policy)
        assert value.diagnostics["unsupported_mass"] == 0  # every action was logged
        [told] = of_weights(value)
        assert told.index("never takes the policy's actions") < told.index("too large")
        assert value.diagnostics["mean_weight"] == pytest.approx(0.5, abs=0.02)
