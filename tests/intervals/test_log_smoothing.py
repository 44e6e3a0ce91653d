# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

from itertools import product
from math import exp, log, sqrt

import numpy as np
import pytest

from skope_ope.intervals import log_smoothing_interval, normal_interval
from tests._worlds import W1

RANGE = {"reward_range": (0, 1)}


def sample(n=400, seed=0):
    rng = np.random.default_rng(seed)
    return rng.gamma(0.5, 2, n), rng.random(n)


def test_the_formula():
    w, r = sample(50)
    lam, alpha, n = 0.3, 0.1, 50
    smoothed = np.mean([log(1 + lam * a * b) / lam for a, b in zip(w, r, strict=True)])
    expected = (exp(lam * smoothed - log(2 / alpha) / n) - 1) / lam
    low, high = log_smoothing_interval(w, r, level=0.9, lam=lam, **RANGE)
    assert low == pytest.approx(expected)
    turned, _ = log_smoothing_interval(w, 1 - r, level=0.9, lam=lam, **RANGE)
    assert high == pytest.approx(1 - turned)
    assert type(low) is type(high) is float
    usual = log_smoothing_interval(w, r, **RANGE)
    assert usual == log_smoothing_interval(w, r, lam=1 / sqrt(n), **RANGE)


def test_units():
    """Ends move with the rewards and their range; a new sign swaps them."""
    w, r = sample()
    low, high = log_smoothing_interval(w, r, **RANGE)
    assert 0 < low < high < 1
    moved = log_smoothing_interval(w, 7 * r - 2, reward_range=(-2, 5))
    assert moved == pytest.approx((7 * low - 2, 7 * high - 2))
    turned = log_smoothing_interval(w, -r, reward_range=(-1, 0))
    assert turned == pytest.approx((-high, -low))


def test_a_range_that_is_known_on_one_side():
    w, r = sample()
    low, high = log_smoothing_interval(w, r, reward_range=(0, np.inf))
    assert high == np.inf
    assert low == log_smoothing_interval(w, r, **RANGE)[0]
    ends = log_smoothing_interval(w, -r, reward_range=(-np.inf, 0))
    assert ends == (-np.inf, -low)


def test_weights_of_any_size():
    w, r = sample()
    w[0] = 100.0
    low, high = log_smoothing_interval(w, r, **RANGE)
    assert 0 <= low < 0.5 < high <= 1
    w[0] = 1e9
    with pytest.raises(ValueError, match=r"no value agrees .* average 2\.5e\+06"):
        log_smoothing_interval(w, r, **RANGE)


def test_rounds_that_say_nothing():
    assert log_smoothing_interval(np.zeros(9), np.ones(9), **RANGE) == (0, 1)
    low, high = log_smoothing_interval([1.0], [0.5], **RANGE)
    assert (low, high) == (0, 1)


def cells_of(world):
    """Probability, weight and reward of the outcomes of a round, and their bounds."""
    w = world.pi / world.mu
    p = world.p_context[:, None] * world.mu
    chance = np.concatenate([(p * (1 - world.q)).ravel(), (p * world.q).ravel()])
    reward = np.repeat([0.0, 1.0], w.size)
    return chance, np.tile(w.ravel(), 2), reward


@pytest.mark.theory
def test_exact_miscoverage_of_the_lower_bound():
    """All logs of five rounds: .0024 for .1; the normal bound misses .0455."""
    chance, w, r = cells_of(W1)
    n, delta, missed = 5, 0.1, np.zeros(2)
    places = np.array(list(product(range(len(chance)), repeat=n)))
    z = (w * r)[places]
    lam = 1 / sqrt(n)
    lows = np.expm1(np.log1p(lam * z).mean(axis=1) - log(1 / delta) / n) / lam
    # the function gives these, one-sided at .9 as two-sided at .8
    for k in (0, 1000, len(places) - 1):
        some = w[places[k]], r[places[k]]
        low, _ = log_smoothing_interval(*some, level=1 - 2 * delta, **RANGE)
        assert low == pytest.approx(max(lows[k], 0.0))
    error = z.std(axis=1, ddof=1) / sqrt(n)
    normal = z.mean(axis=1) + normal_interval(0, 1, 1 - 2 * delta)[0] * error
    missed = [
        (chance[places].prod(axis=1) * (one > W1.value)).sum() for one in (lows, normal)
    ]
    assert missed[0] == pytest.approx(0.0024, abs=5e-5)
    assert missed[1] == pytest.approx(0.0455, abs=5e-5)


@pytest.mark.theory
def test_coverage_without_a_bound_and_without_support():
    """Weights with an infinite variance, and a tenth of the policy never logged."""
    rng = np.random.default_rng(0)
    level, repetitions, missed = 0.8, 1000, 0
    value = 0.9 * 0.5 + 0.1 * 0.9
    for _ in range(repetitions):
        w = 0.9 * (rng.pareto(1.5, 300) + 1) / 3
        r = (rng.random(300) < 0.5) * 1.0
        low, high = log_smoothing_interval(w, r, level=level, **RANGE)
        missed += not low <= value <= high
    error = (level * (1 - level) / repetitions) ** 0.5
    assert missed / repetitions <= 1 - level + 4 * error


def test_bad_input():
    for w, r, about, message in (
        ([1, -1], [0, 1], RANGE, r"w has 1 entries outside .* first -1\.0 in row 1"),
        ([1, 1], [0, 2], RANGE, r"r has 1 entries outside \[0, 1\], the first 2\.0"),
        ([1, 1], [0], RANGE, "one entry per round"),
        ([], [], RANGE, "at least one round"),
        ([1], [0], {"reward_range": (-np.inf, np.inf)}, "at least one of them finite"),
        ([1], [0], {"reward_range": (1, 0)}, "the first less than the second"),
        ([1], [0], RANGE | {"lam": 0}, "lam must be a positive number"),
        ([1], [0], RANGE | {"level": 1}, "level must lie in"),
    ):
        with pytest.raises(ValueError, match=message):
            log_smoothing_interval(w, r, **about)
    with pytest.raises(TypeError, match=r"reward_range must be a pair"):
        log_smoothing_interval([1], [0], reward_range=1)
