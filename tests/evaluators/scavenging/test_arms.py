# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from numpy.testing import assert_allclose

from skope_ope.evaluators.core._design import Design
from skope_ope.evaluators.scavenging._arms import Arms
from tests.evaluators.scavenging._toys import S6_X, enumerate_rounds

ROUND_ROBIN = np.array([0, 1, 0, 1])


def worth(x, arm):
    """h(x) = x earns .3 in context 0 and .2 in context 1; V = .25."""
    return np.where(arm == x, np.where(x == 0, 0.3, 0.2), 0.6)


def moments_of(arms, reward_probability, estimate):
    """Exact mean and variance of an estimate, and the mean of its square error."""
    rows = [
        (chance, *estimate(x, reward))
        for chance, x, reward in enumerate_rounds(arms, reward_probability)
    ]
    chance, value, square = np.array(rows).T
    assert_allclose(chance.sum(), 1)
    mean = chance @ value
    return mean, chance @ value**2 - mean**2, chance @ square


def scavenge(code, **settings):
    def estimate(x, reward):
        found = Arms(code, 2, (code == x).astype(float), reward, **settings).estimate()
        return found.value, found.standard_error**2

    return estimate


def test_unbiased_where_the_counts_are_fixed():
    mean, variance, square = moments_of(ROUND_ROBIN, worth, scavenge(ROUND_ROBIN))
    assert_allclose(mean, 0.25, rtol=1e-12)
    assert_allclose(variance, 0.10875, rtol=1e-12)
    # every arm wanted in one round only has a spread all the same
    assert_allclose(square, 0.10875, rtol=1e-12)


@pytest.mark.theory
def test_missing_arms_add_nothing_under_independent_logging():
    total = 0.0
    for code in product((0, 1), repeat=4):
        code = np.array(code)
        value = [
            chance * scavenge(code)(x, reward)[0]
            for chance, x, reward in enumerate_rounds(code, worth)
        ]
        total += np.sum(value) / 16
    assert_allclose(total, 0.234375, rtol=1e-12)


def greedy(reward):
    """After one pull of each arm always the better one, arm 1 among equals."""
    code = [0, 1]
    for t in range(2, len(reward)):
        past = np.array(code)
        means = [reward[:t][past == arm].mean() for arm in (0, 1)]
        code.append(int(means[1] >= means[0]))
    return np.array(code)


@pytest.mark.few_cases(1)
@pytest.mark.parametrize(("n_rounds", "expected"), [(3, 0.2213125), (5, 0.188085625)])
def test_a_logger_that_looks_at_the_past_biases_downwards(n_rounds, expected):
    """Consistent, not unbiased: h(x) = x is worth .25."""
    table = np.array([[0.3, 0.9], [0.6, 0.2]])  # by context and arm
    mean = total = 0.0
    for x in product((0, 1), repeat=n_rounds):
        x = np.array(x)
        for reward in product((0.0, 1.0), repeat=n_rounds):
            reward = np.array(reward)
            code = greedy(reward)
            q = table[x, code]
            chance = np.where(reward == 1, q, 1 - q).prod() / 2**n_rounds
            mean += chance * scavenge(code)(x, reward)[0]
            total += chance
    assert_allclose([total, mean], [1, expected], rtol=1e-12)


def action_of(x, logger):
    """Both loggers agree in context 0."""
    return np.where(x == 0, 0, logger)


def test_matching_actions_beats_matching_labels():
    loggers = ROUND_ROBIN

    def earned(x, logger):
        return np.where(x == 0, 0.3, np.where(logger == 1, 0.2, 0.9))

    def by_action(x, reward):
        action = action_of(x, loggers)
        under = np.stack([action_of(x, g) == action for g in (0, 1)], axis=1)
        wanted = (action_of(x, x) == action).astype(float)  # G(x) = x
        found = Arms(loggers, 2, wanted, reward, under=under.astype(float)).estimate()
        return found.value, found.standard_error**2

    label = moments_of(loggers, earned, scavenge(loggers))
    action = moments_of(loggers, earned, by_action)
    assert_allclose(label, (0.25, 0.10875, 0.10875), rtol=1e-12)
    assert_allclose(action, (0.25, 0.069375, 0.069375), rtol=1e-12)


def test_constant_policies_make_the_mixture_the_plain_form():
    rng = np.random.RandomState(0)
    code, wanted, reward = rng.randint(3, size=50), rng.rand(50), rng.rand(50)
    plain = Arms(code, 3, wanted, reward).estimate()
    mixed = Arms(code, 3, wanted, reward, under=np.eye(3)[code]).estimate()
    assert_allclose(mixed.value, plain.value)
    assert_allclose(mixed.standard_error, plain.standard_error)
    assert_allclose(mixed.round_values(), plain.round_values())


def test_round_values_carry_the_stratified_error():
    code = np.array([0, 1, 1, 0, 1, 0])
    reward = np.array([1.0, 1, 0, 0, 1, 1])
    found = Arms(code, 2, (code == S6_X).astype(float), reward).estimate()
    assert_allclose(found.value, 4 / 3)
    assert_allclose(found.standard_error, 0.4714045208, rtol=1e-9)
    assert_allclose(found.round_values().mean(), 4 / 3)
    y = reward * (code == S6_X)
    square = sum(y[code == a].var(ddof=1) / 3 for a in (0, 1))
    assert_allclose(found.standard_error**2, square)


def test_strata_are_weighted_by_their_shares():
    rng = np.random.RandomState(1)
    code, stratum = rng.randint(2, size=60), rng.randint(3, size=60)
    wanted, reward = rng.rand(60), rng.rand(60)
    found = Arms(code, 2, wanted, reward, stratum=stratum).estimate()
    parts = [
        (rows.mean(), Arms(code[rows], 2, wanted[rows], reward[rows]).estimate())
        for rows in (stratum == s for s in range(3))
    ]
    assert_allclose(found.value, sum(share * part.value for share, part in parts))
    assert_allclose(
        found.standard_error**2,
        sum((share * part.standard_error) ** 2 for share, part in parts),
    )


def test_many_strata_are_numbered_anew():
    stratum = np.arange(3000) * 1000 // 3000  # three rounds each
    code = np.arange(3000) % 3
    arms = Arms(code, 2000, np.ones(3000), np.arange(3000.0), stratum=stratum)
    cell, of_cell = arms.cells()
    assert len(of_cell) == 3000 == len(np.unique(cell))
    assert_allclose(arms.estimate().value, np.arange(3000).sum() / 1000)


@pytest.mark.parametrize("self_normalized", [False, True])
def test_groups_are_estimates_of_their_own(self_normalized):
    rng = np.random.RandomState(2)
    arms = Arms(
        rng.randint(2, size=40),
        2,
        rng.rand(40),
        rng.rand(40),
        stratum=rng.randint(2, size=40),
        design=Design(40, 0.5 + rng.rand(40)),
        self_normalized=self_normalized,
    )
    rows = np.arange(0, 40, 2)
    taken = arms.take(rows)
    assert taken.self_normalized is self_normalized
    again = Arms(
        arms.code[rows],
        2,
        arms.wanted[rows],
        arms.reward[rows],
        stratum=arms.stratum[rows],
        design=Design(20, arms.omega[rows]),
        self_normalized=self_normalized,
    )
    assert taken.estimate().value == again.estimate().value


def test_an_arm_of_one_round_has_no_spread():
    code, reward = np.array([0, 0, 0, 1]), np.array([1.0, 0, 1, 1])
    wanted = np.ones(4)
    assert np.isnan(Arms(code, 2, wanted, reward).estimate().standard_error)
    wanted = np.array([1.0, 1, 1, 0])  # not here; but may be in the rounds of arm 0
    sought = np.array([True, True, True, True])
    found = Arms(code, 2, wanted, reward, sought=sought).estimate()
    assert np.isnan(found.standard_error) and found.n_alone == 1
    sought[3] = False  # nor does it need one where h never goes
    found = Arms(code, 2, wanted, reward, sought=sought).estimate()
    assert np.isfinite(found.standard_error) and found.n_alone == 0


def test_a_mean_weight_against_what_it_should_be():
    under = np.full((400, 1), 0.5)
    code, ones = np.zeros(400, int), np.ones(400)
    half = Arms(code, 1, ones / 4, ones, under=under)  # all weights 1/2
    assert_allclose(half.mean_weight_z(), -20)
    assert half.mean_weight_z(0.5) == 0
    assert_allclose(replace(half, wanted=ones).mean_weight_z(), 20)
    omega = np.repeat([2.0, 0.0], 200)  # two hundred rounds
    assert_allclose(
        replace(half, design=Design(400, omega)).mean_weight_z(), -np.sqrt(200)
    )
    wanted = np.tile([0.0, 1.0], 200)  # weights 0 and 2
    assert replace(half, wanted=wanted).mean_weight_z() == 0


def test_self_normalisation_of_nothing():
    found = Arms(np.zeros(3, int), 1, np.zeros(3), np.ones(3), self_normalized=True)
    assert np.isnan(found.estimate().value)


def test_mass_of_arms_that_were_never_logged():
    code = np.array([0, 1, 0, 1, 1])
    arms = Arms(code, 2, np.array([0.5, 0.2, 0.5, 0.2, 0.2]), np.arange(5.0))
    assert_allclose(arms.unseen_mass(), 0.3)
    assert_allclose(replace(arms, self_normalized=True).unseen_mass(), 0.3)
    assert replace(arms, wanted=np.where(code == 0, 0.5, 0.5)).unseen_mass() == 0
    # one less 0.95, but within the noise of the contexts
    noisy = np.array([0.9, 0.1, 0.1, 0.5, 0.4])
    assert replace(arms, wanted=noisy).unseen_mass() == 0


def test_clusters_that_cross_arms_are_summed():
    rng = np.random.RandomState(4)
    code, wanted, reward = rng.randint(2, size=60), rng.rand(60), rng.rand(60)
    user = rng.randint(12, size=60)
    design = Design(60, cluster=user, clusters=np.arange(12))
    found = Arms(code, 2, wanted, reward, design=design).estimate()
    y, counts = wanted * reward, np.bincount(code)
    means = np.bincount(code, y) / counts
    influence = (y - means[code]) / counts[code]
    of_user = np.bincount(user, influence)
    assert_allclose(found.value, means.sum())
    assert_allclose(found.standard_error**2, 12 / 11 * (of_user**2).sum())
    assert found.degrees_of_freedom <= 11
