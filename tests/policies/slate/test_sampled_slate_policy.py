# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from skope_ope import (
    PlackettLuceSlatePolicy,
    PseudoInverse,
    SlateLogs,
    UniformSlatePolicy,
)
from skope_ope.policies import MixtureSlatePolicy, SampledSlatePolicy
from tests.evaluators.slate._worlds import additive, quietly, rankings, world
from tests.policies._slate_worlds import moments_of_distributions, rounds


def draw(logs, rng):
    return np.stack([rng.permutation(3)[:2] for _ in range(len(logs))])


def test_marginals_are_means_over_draws(global_random_seed):
    logs = rounds(3, 2, 3)
    policy = SampledSlatePolicy(draw, n_samples=2000, random_state=global_random_seed)
    marginals = policy.slot_marginals(logs)
    assert_allclose(marginals.sum(axis=2), 1)
    # 18 shares for 100 seeds: five standard errors
    assert np.abs(marginals - 1 / 3).max() < 5 * np.sqrt(2 / 9 / 2000)
    assert_array_equal(policy.slot_marginals(logs), marginals)
    shown = policy.sample(logs, 0)
    rows = np.arange(3)[:, None]
    want = marginals[rows, [0, 1], shown]
    assert_array_equal(policy.marginal_proba(logs, shown), want)


def test_what_can_only_be_sampled_has_no_distribution():
    policy = SampledSlatePolicy(draw, n_samples=3)
    logs = SlateLogs(np.zeros((2, 1)), [[0, 1], [2, 0]], [0, 1])
    for method in (policy.distributions, policy.slate_proba):
        with pytest.raises(TypeError, match=r"Do not use it as a logger"):
            method(logs)


def test_second_moments_of_a_policy(global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    weights = rng.uniform(0.2, 1, (4, 4))
    weights[3] = [1, 2, 2, 1]  # exchangeable candidates share their counts
    logs = rounds(4, 2, 4).with_columns(w=weights)
    inner = PlackettLuceSlatePolicy("w", 2)
    policy = SampledSlatePolicy(inner, n_samples=4000, random_state=global_random_seed)
    gamma, want = (
        moments_of_distributions(policy, logs),
        moments_of_distributions(inner, logs),
    )
    error = np.sqrt(want * (1 - want) / 4000)
    # some 250 entries for 100 seeds
    assert (np.abs(gamma - want) <= 5.5 * error + 1e-15).all()
    slates = inner.sample(logs, 0)
    assert_array_equal(
        policy.slate_proba(logs, slates), inner.slate_proba(logs, slates)
    )
    assert_allclose(
        moments_of_distributions(policy, logs[[3, 1]]),
        gamma[[3, 1]],
        rtol=0,
        atol=1e-15,
    )
    mixed = MixtureSlatePolicy([policy, UniformSlatePolicy(2)], [0.5, 0.5])
    exact = MixtureSlatePolicy([inner, UniformSlatePolicy(2)], [0.5, 0.5])
    difference = moments_of_distributions(mixed, logs) - moments_of_distributions(
        exact, logs
    )
    assert np.abs(difference).max() < 0.05


def test_moments_of_an_instance_are_those_of_the_same_draws():
    """Rounds may be taken in parts, and their moments be asked for again."""
    logs = rounds(3, 2, 3)
    rng = np.random.RandomState(0)
    inner = PlackettLuceSlatePolicy([3.0, 2.0, 1.0], 2)
    policy = SampledSlatePolicy(inner, n_samples=100, random_state=rng)
    first = moments_of_distributions(policy, logs)
    assert_array_equal(moments_of_distributions(policy, logs[1:]), first[1:])
    assert_array_equal(policy.slot_marginals(logs), policy.slot_marginals(logs))
    assert rng.randint(10**6) == np.random.RandomState(0).randint(10**6)


def sampled_targets(policy):
    """Logs of all slates, their shares, a policy's value by each slate it may draw."""
    slates = rankings(3, 4)
    phi = np.random.RandomState(0).random_sample((3, 4))
    logs, proba = world(
        PlackettLuceSlatePolicy([4.0, 3.0, 2.0, 1.0], 3),
        slates,
        additive(slates, phi),
        4,
    )

    def always(slate):
        def draw(logs, rng):
            return np.tile(slate, (len(logs), 1))

        return SampledSlatePolicy(draw, n_samples=1)

    values = [
        quietly(PseudoInverse(), always(slate), logs, proba).value for slate in slates
    ]
    chance = policy.slate_proba(logs, slates)
    truth = chance @ additive(slates, phi)
    return logs, proba, np.array(values), chance, truth


def test_a_target_that_is_sampled_is_unbiased():
    """Equation 6: the mean over all that may be drawn is the policy's value."""
    policy = PlackettLuceSlatePolicy([1.0, 6.0, 3.0, 1.0], 3)
    logs, proba, values, chance, truth = sampled_targets(policy)
    exact = quietly(PseudoInverse(), policy, logs, proba).value
    assert chance @ values == pytest.approx(exact, rel=1e-12)
    assert exact == pytest.approx(truth, rel=1e-12)


@pytest.mark.few_cases(1)
@pytest.mark.parametrize("known", [True, False])
def test_the_value_of_draws_is_their_mean(known, global_random_seed):
    policy = PlackettLuceSlatePolicy([1.0, 6.0, 3.0, 1.0], 3)
    logs, proba, values, chance, truth = sampled_targets(policy)
    spread = np.sqrt(chance @ (values - truth) ** 2)

    def one_slate(logs, rng):
        return np.repeat(policy.sample(logs[:1], rng), len(logs), axis=0)

    # either way all rounds, which share a distribution, have the same draws
    drawn = SampledSlatePolicy(
        policy if known else one_slate, n_samples=4000, random_state=global_random_seed
    )
    found = quietly(PseudoInverse(), drawn, logs, proba).value
    tolerance = 5 * spread / np.sqrt(4000)
    assert abs(found - truth) < tolerance
    # what other policies would give does not pass
    uniform = quietly(PseudoInverse(), UniformSlatePolicy(3), logs, proba).value
    assert abs(uniform - truth) > tolerance
    assert (abs(values - truth) > tolerance).mean() > 0.9


@pytest.mark.parametrize(
    ("policy", "n_samples", "error", "message"),
    [
        (3, 10, TypeError, "must have sample"),
        (draw, 0, ValueError, "n_samples must be a positive integer, got 0"),
        (lambda logs, rng: np.zeros((2, 2)), 2, TypeError, "must hold integers"),
        (lambda logs, rng: draw(logs, rng)[:, :1], 2, ValueError, "has 1 slots"),
        (lambda logs, rng: draw(logs, rng) + 2, 2, ValueError, "candidates are 0 to 2"),
    ],
)
def test_bad_samplers(policy, n_samples, error, message):
    with pytest.raises(error, match=message):
        SampledSlatePolicy(policy, n_samples=n_samples).slot_marginals(rounds(2, 2, 3))
