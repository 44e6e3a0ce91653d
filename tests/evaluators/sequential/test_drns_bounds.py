# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Theorem 1 as a function; Theorem 2 is tested with DR-ns itself."""

from itertools import product

import numpy as np
import pytest

from skope_ope.evaluators import drns_sum_bias_bound
from tests._learners import spec_rule

MU = (0.25, 0.75)


@pytest.mark.parametrize("horizon", [1, 2, 17, 300])
@pytest.mark.parametrize("mass", [0.0, 0.1, 0.5, 0.99])
def test_the_formula_of_the_paper(horizon, mass):
    paper = horizon * (horizon + 1) / 2 * mass / (1 - mass)
    bound = drns_sum_bias_bound(mass, horizon)
    assert isinstance(bound, float)
    assert bound == pytest.approx(paper, rel=1e-14)


def test_other_ranges():
    # scaled
    assert drns_sum_bias_bound(0.1, 5, reward_range=(0, 4)) == pytest.approx(
        4 * drns_sum_bias_bound(0.1, 5)
    )
    # by hand: T = 3, (3 * 2 + 3 * 3) * 1 / 9
    assert drns_sum_bias_bound(0.1, 3, reward_range=(1, 3)) == pytest.approx(15 / 9)
    assert drns_sum_bias_bound(0.1, 3, reward_range=(-3, -1)) == pytest.approx(15 / 9)


def sums(q, c, n_rounds, history=()):
    """E[sum c R_B(t)] and E_pi[sum r] at a constant c, and the largest bias mass.

    A block gives V(h) / P(accept) in expectation (Wald), and its accepted round has the
    law min(mu, c pi) / P(accept).
    """
    pi = spec_rule([(0, *row) for row in history], 0)
    accept = [min(MU[a], c * pi[a]) for a in (0, 1)]
    chance, value = sum(accept), float(np.dot(pi, q))
    mass = 1 - chance / c
    if len(history) + 1 == n_rounds:
        return c * value / chance, mass
    total = c * value / chance
    for a, r in product((0, 1), repeat=2):
        of_reward = q[a] if r else 1 - q[a]
        rest, inner = sums(q, c, n_rounds, (*history, (a, r)))
        total += accept[a] / chance * of_reward * rest
        mass = max(mass, inner)
    return total, mass


def online(q, n_rounds, history=()):
    pi = spec_rule([(0, *row) for row in history], 0)
    total = float(np.dot(pi, q))
    if len(history) + 1 == n_rounds:
        return total
    for a, r in product((0, 1), repeat=2):
        of_reward = q[a] if r else 1 - q[a]
        total += pi[a] * of_reward * online(q, n_rounds, (*history, (a, r)))
    return total


@pytest.mark.parametrize("low", [0.0, -1.0, 2.0])
@pytest.mark.parametrize("c", [0.2, 0.3125, 0.4, 0.6, 1.0])
def test_the_bound_holds(c, low):
    """Rewards `low` and `low` + 1 with the probabilities q, exactly."""
    for q in ((1.0, 1.0), (0.9, 0.1), (0.3, 0.8)):
        estimate, mass = sums(q, c, 4)
        truth = online(q, 4)
        if low:  # the same blocks, all of whose rewards are higher by `low`
            lengths = blocks(q, c, 4)
            estimate, truth = estimate + low * lengths, truth + 4 * low
        bound = drns_sum_bias_bound(mass, 4, reward_range=(low, low + 1))
        assert abs(estimate - truth) <= bound + 1e-12
        if c <= 0.3125:  # mu >= c pi throughout
            assert mass == pytest.approx(0, abs=1e-12)
            assert estimate == pytest.approx(truth, abs=1e-12)
    if c == 1.0:
        assert abs(estimate - truth) > 0.2  # there is something to bound


def blocks(q, c, n_rounds, history=()):
    """E[sum c |B(t)|]."""
    pi = spec_rule([(0, *row) for row in history], 0)
    accept = [min(MU[a], c * pi[a]) for a in (0, 1)]
    chance = sum(accept)
    total = c / chance
    if len(history) + 1 < n_rounds:
        for a, r in product((0, 1), repeat=2):
            of_reward = q[a] if r else 1 - q[a]
            rest = blocks(q, c, n_rounds, (*history, (a, r)))
            total += accept[a] / chance * of_reward * rest
    return total


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        ((1.0, 5), r"'bias_mass' parameter .* range \[0.0, 1.0\)"),
        ((-0.1, 5), "'bias_mass' parameter"),
        ((np.nan, 5), "'bias_mass' parameter"),
        ((0.1, 0), "'horizon' parameter"),
        ((0.1, 2.5), "'horizon' parameter"),
    ],
)
def test_bad_input(arguments, match):
    with pytest.raises(ValueError, match=match):
        drns_sum_bias_bound(*arguments)


@pytest.mark.parametrize("bounds", [(1, 0), (0, 0), (0, np.inf), (0, np.nan), (0,)])
def test_bad_ranges(bounds):
    with pytest.raises(ValueError, match="reward_range must be \\(low, high\\)"):
        drns_sum_bias_bound(0.1, 5, reward_range=bounds)
