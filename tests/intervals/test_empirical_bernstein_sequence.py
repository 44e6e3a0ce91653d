# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import math
from itertools import product

import numpy as np
import pytest

from skope_ope.intervals._sequences import (
    EmpiricalBernsteinBound,
    gamma_mixture_boundary,
)
from tests._worlds import W1
from tests.intervals._sequence_worlds import (
    learning_rounds,
    logged_rounds,
    share_missed_at_most,
)

NEEDED = math.log(40)


def variation(z):
    """Squares about the predictions, round by round; and the predictions."""
    known, total, sums = [], 0.5, []
    for i, one in enumerate(z):
        known.append(min(total / (i + 1), 1.0))
        total += one
        sums.append((one - known[-1]) ** 2)
    return np.cumsum(sums), np.array(known)


def test_limits_from_sums_counted_round_by_round():
    z = np.random.default_rng(0).exponential(2, size=300)
    limits = EmpiricalBernsteinBound(NEEDED, 3.0).take(z, np.arange(1, 301))
    v, known = variation(z)
    assert known.max() == 1  # the cut is at work
    far = gamma_mixture_boundary(v, NEEDED, 3.0)
    np.testing.assert_allclose(limits, (np.cumsum(z) - far) / np.arange(1, 301))


def test_parts_of_any_size_give_the_same_limits_to_the_last_digit():
    z = np.random.default_rng(0).exponential(size=1000)
    whole = EmpiricalBernsteinBound(NEEDED).take(z, np.array([1, 500, 1000]))
    parts, bound = [], EmpiricalBernsteinBound(NEEDED)
    for start, stop in ((0, 1), (1, 500), (500, 1000)):
        parts.extend(bound.take(z[start:stop], np.array([stop - start])))
    assert parts == whole.tolist()


def cells(world):
    """Probability and term of every cell of a world."""
    for x, a, r in product(range(2), range(3), range(2)):
        p = world.p_context[x] * world.mu[x, a]
        p *= world.q[x, a] if r else 1 - world.q[x, a]
        yield p, world.pi[x, a] / world.mu[x, a] * r


@pytest.mark.parametrize("bet", [0.1, 0.5, 0.9, 0.99])
@pytest.mark.parametrize("known", [0.0, 0.5, 1.0])
def test_a_round_adds_nothing_to_the_expected_capital(bet, known):
    """By enumeration; so that the process is a supermartingale for every bet."""
    assert expected_growth(bet, known) <= 1


def test_predictions_above_one_would_add_to_it():
    assert expected_growth(0.9, 3.0) == pytest.approx(1.0457, abs=1e-4)


def expected_growth(bet, known):
    cost = -math.log(1 - bet) - bet
    return sum(
        p * math.exp(bet * (z - W1.value) - cost * (z - known) ** 2)
        for p, z in cells(W1)
    )


@pytest.mark.theory
@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("draw", [logged_rounds, learning_rounds])
@pytest.mark.parametrize("side", ["low", "high"])
def test_limits_hold_at_every_round_of_ten_thousand(seed, draw, side):
    rng = np.random.default_rng(seed)
    w, r = draw(rng, 300, 10_000)
    truth = W1.value if draw is logged_rounds else 0.4
    z, truth = (w * r, truth) if side == "low" else (w * (1 - r), 1 - truth)
    after, alpha = np.arange(1, 10_001), 0.1
    missed = np.array(
        [
            (EmpiricalBernsteinBound(-math.log(alpha)).take(one, after) > truth).any()
            for one in z
        ]
    )
    assert share_missed_at_most(missed, alpha)
