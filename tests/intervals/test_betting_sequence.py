# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import math
from itertools import product

import numpy as np
import pytest

from skope_ope.intervals._sequences import BETS, SHARES, BettingBound
from tests._worlds import W1
from tests.intervals._sequence_worlds import (
    learning_rounds,
    logged_rounds,
    share_missed_at_most,
)

NEEDED = math.log(40)


def capital(y, mean, offset=0.0):
    """Capital after each round, counted bet by bet."""
    factors = (1 + BETS[:, None] * y) / (1 + BETS[:, None] * (offset + mean))
    return SHARES @ np.cumprod(factors, axis=1)


def test_the_shares_are_a_whole():
    assert SHARES.sum() == pytest.approx(1)
    assert (BETS[1:] / BETS[:-1] == 2).all()


def test_limits_are_where_the_capital_is_reached():
    y = np.random.default_rng(0).exponential(size=80)
    limits = BettingBound(NEEDED).take([y], np.arange(1, 81))
    for t in (20, 50, 80):
        low = limits[t - 1]
        assert 0 < low < y[:t].mean()
        assert capital(y[:t], low)[-1] == pytest.approx(40)


def test_two_kinds_of_terms_share_the_capital():
    rng = np.random.default_rng(0)
    y = rng.random(200)
    other = 3 - rng.random(200)
    [low] = BettingBound(NEEDED, [0.0, 2.0]).take([y, other], np.array([200]))
    half = capital(y, low)[-1] / 2 + capital(other, low, 2.0)[-1] / 2
    assert half == pytest.approx(40)


def test_parts_of_any_size_give_the_same_limits():
    y = np.random.default_rng(0).exponential(size=10_000)
    whole = BettingBound(NEEDED).take([y], np.array([3, 5000, 9999, 10_000]))
    parts, bound = [], BettingBound(NEEDED)
    for start, stop in ((0, 3), (3, 5000), (5000, 9999), (9999, 10_000)):
        parts.extend(bound.take([y[start:stop]], np.array([stop - start])))
    np.testing.assert_allclose(parts, whole, rtol=1e-11)


def test_terms_of_zero_say_nothing_from_below():
    assert BettingBound(NEEDED).take([np.zeros(50)], np.array([50])) == [0.0]


def test_expected_capital_is_one_by_enumeration():
    """All logs of three rounds of a small world; values that change, too."""
    cells = []
    for x, a, r in product(range(2), range(3), range(2)):
        p = W1.p_context[x] * W1.mu[x, a] * (W1.q[x, a] if r else 1 - W1.q[x, a])
        cells.append((p, W1.pi[x, a] / W1.mu[x, a], r))
    p, w, r = np.array(cells).T
    assert p @ (w * r) == pytest.approx(W1.value)
    for scale in ((1.0, 1.0, 1.0), (0.2, 1.0, 0.6)):  # rewards thinned over time
        average = W1.value * np.mean(scale)
        expected = np.ones(len(BETS))
        for one in scale:
            grown = scale_law(p, w, r, one)
            expected *= grown / (1 + BETS * average)
        same = scale[0] == scale[1]
        assert (expected <= 1 + 1e-12).all()
        assert np.allclose(expected, 1) == same


def scale_law(p, w, r, share):
    """Expected 1 + v w r where a reward is kept with a probability."""
    return 1 + BETS * (p @ (w * r)) * share


@pytest.mark.theory
@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("draw", [logged_rounds, learning_rounds])
@pytest.mark.parametrize("side", ["low", "high"])
def test_limits_hold_at_every_round_of_ten_thousand(seed, draw, side):
    """A limit misses at some round exactly where the capital at the truth is large."""
    rng = np.random.default_rng(seed)
    w, r = draw(rng, 400, 10_000)
    truth = W1.value if draw is logged_rounds else 0.4
    y, truth = (w * r, truth) if side == "low" else (w * (1 - r), 1 - truth)
    alpha = 0.1
    missed = np.array([(capital(one, truth) >= 1 / alpha).any() for one in y])
    assert share_missed_at_most(missed, alpha)
