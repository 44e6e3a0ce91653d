# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import math

import numpy as np
import pytest

from skope_ope.intervals import betting_interval, betting_ratio_interval
from tests._worlds import d8

D8 = d8()
W, R = np.take_along_axis(D8.pi, D8.action[:, None], 1)[:, 0] / D8.propensity, D8.reward


def test_vectors():
    low, high = betting_interval(W * R, 4)
    assert low == 0
    assert high == pytest.approx(2.792, abs=5e-4)
    assert type(low) is type(high) is float


def capital(z, lower, upper, m, sign, alpha):
    """Greatest capital of one bet, round by round."""
    total = (lower + upper) / 2
    square, best, now = (upper - lower) ** 2 / 4, 1.0, 1.0
    for i, term in enumerate(z):
        bet = math.sqrt(2 * math.log(2 / alpha) / (len(z) * square / (i + 1)))
        bet = min(bet, 0.5 / (m - lower if sign > 0 else upper - m))
        now *= 1 + sign * bet * (term - m)
        best = max(best, now)
        total += term
        square += (term - total / (i + 2)) ** 2
    return best


@pytest.mark.parametrize("bounds", [(0.0, 4.0), (-1.0, 3.0)])
@pytest.mark.parametrize("level", [0.5, 0.9])
def test_against_capital_counted_round_by_round(bounds, level):
    rng = np.random.default_rng(0)
    z = bounds[0] + (bounds[1] - bounds[0]) * rng.beta(0.5, 1, 60)
    low, high = betting_interval(z, bounds[1], level, lower=bounds[0])
    alpha = 1 - level
    assert bounds[0] < low < high < bounds[1]
    for end, sign in ((low, 1), (high, -1)):
        for step, inside in ((sign * 1e-6, True), (-sign * 1e-6, False)):
            reached = capital(z, *bounds, end + step, sign, alpha) < 2 / alpha
            assert reached == inside


def test_the_order_of_the_rounds_counts():
    rng = np.random.default_rng(0)
    z = rng.random(50)
    assert betting_interval(z, 1) != betting_interval(z[::-1], 1)
    assert betting_interval(z, 1) == betting_interval(z, 1)


def test_sorted_rounds_are_found_out():
    z = np.repeat([0.0, 1.0], 500)
    with pytest.raises(ValueError, match=r"no value agrees .* shuffle them"):
        betting_interval(z, 1)
    with pytest.raises(ValueError, match="sorted by their rewards"):
        betting_ratio_interval(np.ones(1000), z, max_weight=1, reward_range=(0, 1))


@pytest.mark.parametrize("function", [betting_interval, betting_ratio_interval])
def test_units(function):
    """Scale and shift of terms scale and shift both ends; a new sign swaps them."""
    rng = np.random.default_rng(0)
    w, r = rng.gamma(1, 1, 300), rng.random(300)

    def interval(slope, offset):
        low, high = sorted((offset, slope + offset))
        if function is betting_interval:
            return betting_interval(slope * r + offset, high, lower=low)
        return betting_ratio_interval(
            w, slope * r + offset, max_weight=9, reward_range=(low, high)
        )

    low, high = interval(1, 0)
    assert 0 < low < high < 1
    assert interval(3, 7) == pytest.approx((3 * low + 7, 3 * high + 7))
    assert interval(-1, 0) == pytest.approx((-high, -low))


def test_weights_of_one_are_no_weights():
    rng = np.random.default_rng(0)
    r = rng.random(200)
    ratio = betting_ratio_interval(np.ones(200), r, max_weight=1, reward_range=(0, 1))
    assert ratio == pytest.approx(betting_interval(r, 1))


def test_terms_that_are_all_alike():
    """No event: an upper end that falls like 1 / n, and nothing below zero."""
    for n, most in ((1, 1.0), (100, 0.075), (10_000, 0.00075)):
        low, high = betting_interval(np.zeros(n), 1)
        assert low == 0
        assert 3 / n <= high <= most or n == 1
    low, high = betting_interval(np.ones(100), 1)
    assert (low, high) == pytest.approx((0.93, 1), abs=0.002)
    w, r = np.zeros(50), np.ones(50)
    assert betting_ratio_interval(w, r, max_weight=5, reward_range=(-1, 2)) == (-1, 2)


def test_bad_input():
    for z, upper, message in (
        ([0, 5], 4, r"z has 1 entries outside \[0, 4\], the first 5\.0 in row 1"),
        ([0, -1], 4, r"first -1\.0 in row 1"),
        ([0, np.nan], 4, "z must be finite, got nan at row 1"),
        ([], 4, "at least one term"),
        ([0.0], np.inf, "two finite numbers"),
        ([0.0], 0, "the first less than the second"),
    ):
        with pytest.raises(ValueError, match=message):
            betting_interval(z, upper)
    for level in (0, 1, 95):
        with pytest.raises(ValueError, match="level must lie in"):
            betting_interval([0.0, 1.0], 1, level)


# The chance of clicks, the chance that a round matches, the number of rounds.
WORLDS = [(0.02, 0.5, 200), (0.3, 0.1, 100), (0.9, 0.03, 500), (0.5, 1.0, 10)]


@pytest.mark.theory
@pytest.mark.parametrize(("click", "match", "n"), WORLDS)
def test_coverage_is_never_below_the_level(click, match, n):
    rng = np.random.default_rng(0)
    level, repetitions = 0.8, 2000
    covered = np.zeros(2)
    for _ in range(repetitions):
        w = (rng.random(n) < match) / match
        r = (rng.random(n) < click) * 1.0
        most = 1 / match
        intervals = (
            betting_interval(w * r, most, level),
            betting_ratio_interval(
                w, r, max_weight=most, reward_range=(0, 1), level=level
            ),
        )
        covered += [low <= click <= high for low, high in intervals]
    error = (level * (1 - level) / repetitions) ** 0.5
    assert (covered / repetitions >= level - 4 * error).all()


@pytest.mark.theory
def test_coverage_where_the_logger_learns():
    """Propensities may depend on the rounds before."""
    rng = np.random.default_rng(0)
    level, repetitions, n, covered = 0.8, 2000, 100, 0
    for _ in range(repetitions):
        z, wins = np.empty(n), 0.0
        for i in range(n):
            p = 0.5 if i < 10 else np.clip(wins / i + 0.2, 0.2, 0.8)
            match, click = rng.random() < p, rng.random() < 0.4
            z[i] = match * click / p
            wins += match * click
        low, high = betting_interval(z, 5, level)
        covered += low <= 0.4 <= high
    error = (level * (1 - level) / repetitions) ** 0.5
    assert covered / repetitions >= level - 4 * error
