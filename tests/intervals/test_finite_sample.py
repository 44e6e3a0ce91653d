# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Intervals that hold for any number of rounds: of bounded terms, counts, weights.

The vectors of the fixed log stand in test_fixed_log.py.
"""

import math
from itertools import product

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import binom

from skope_ope.intervals import (
    betting_interval,
    betting_ratio_interval,
    clopper_pearson_interval,
    empirical_bernstein_interval,
    hoeffding_interval,
    log_smoothing_interval,
    normal_interval,
)
from tests._worlds import W1

# terms of IPS on the fixed log of eight rounds
Z = np.array([0, 1 / 3, 4, 0.2, 0, 1 / 6, 3, 0])
UNIT = {"reward_range": (0, 1)}
OF_TERMS = [hoeffding_interval, empirical_bernstein_interval, betting_interval]


def drawn(n=400):
    """Weights and rewards."""
    rng = np.random.default_rng(0)
    return rng.gamma(0.5, 2, n), rng.random(n)


def of_rewards(function, w, r, low, high):
    """An interval of rewards in [low, high]."""
    if function in OF_TERMS:
        return function(r, high, lower=low)
    most = {"max_weight": 30} if function is betting_ratio_interval else {}
    return function(w, r, reward_range=(low, high), **most)


EVERY = [*OF_TERMS, betting_ratio_interval, log_smoothing_interval]


@pytest.mark.parametrize("function", EVERY)
def test_units(function):
    """Scale and shift of terms scale and shift both ends; a new sign swaps them."""
    w, r = drawn()
    low, high = of_rewards(function, w, r, 0, 1)
    assert 0 < low < high < 1 and type(low) is type(high) is float
    moved = of_rewards(function, w, 7 * r - 2, -2, 5)
    assert moved == pytest.approx((7 * low - 2, 7 * high - 2))
    turned = of_rewards(function, w, -r, -1, 0)
    assert turned == pytest.approx((-high, -low))


BAD_TERMS = [
    ([0, 5], 4, r"z has 1 entries outside \[0, 4\], the first 5\.0 in row 1"),
    ([0, -1], 4, r"first -1\.0 in row 1"),
    ([0, np.nan], 4, "z must be finite, got nan at row 1"),
    ([], 4, "at least one term"),
    ([0.0], np.inf, "two finite numbers"),
    ([0.0], 0, "the first less than the second"),
]
BAD_ROUNDS = [
    ([1, -1], [0, 1], {}, r"w has 1 entries outside .* first -1\.0 in row 1"),
    ([1, 1], [0, 2], {}, r"r has 1 entries outside \[0, 1\], the first 2\.0"),
    ([1, 1], [0], {}, "one entry per round"),
    ([], [], {}, "at least one round"),
    ([1], [0], {"reward_range": (-np.inf, np.inf)}, "at least one of them finite"),
    ([1], [0], {"reward_range": (1, 0)}, "the first less than the second"),
    ([1], [0], {"lam": 0}, "lam must be a positive number"),
    ([1], [0], {"level": 1}, "level must lie in"),
]
BAD_COUNTS = [
    (-1, 5, ValueError, r"successes must lie in 0\.\.n"),
    (6, 5, ValueError, r"successes must lie in 0\.\.n"),
    (0, 0, ValueError, r"successes must lie in 0\.\.n"),
    (2.5, 5, TypeError, r"successes must be a count, got 2\.5"),
    (2, 5.0, TypeError, r"n must be a count, got 5\.0"),
]


@pytest.mark.parametrize("function", OF_TERMS)
def test_bad_terms(function):
    for z, upper, message in BAD_TERMS:
        with pytest.raises(ValueError, match=message):
            function(z, upper)
    for level in (0, 1, 95):
        with pytest.raises(ValueError, match="level must lie in"):
            function(Z, 4, level)
    if function is empirical_bernstein_interval:
        with pytest.raises(ValueError, match=r"at least two terms, got one"):
            function([0.5], 1)


def test_bad_rounds():
    for w, r, about, message in BAD_ROUNDS:
        with pytest.raises(ValueError, match=message):
            log_smoothing_interval(w, r, **UNIT | about)
    with pytest.raises(TypeError, match=r"reward_range must be a pair"):
        log_smoothing_interval([1], [0], reward_range=1)


def test_bad_counts():
    for successes, n, error, message in BAD_COUNTS:
        with pytest.raises(error, match=message):
            clopper_pearson_interval(successes, n)
    for level in (0, 1, 95):
        with pytest.raises(ValueError, match="level must lie in"):
            clopper_pearson_interval(2, 5, level)


# Clopper and Pearson


def test_half_width_of_a_replayed_log():
    """K = 20, L = 1e6, g = .05: T = 50,000 accepted rounds."""
    low, high = clopper_pearson_interval(2500, 50_000)
    assert (high - low) / 2 == pytest.approx(0.001920, abs=5e-7)
    # the ends are those of one-sided tests
    low, high = clopper_pearson_interval(np.int64(7), np.int32(20), 0.9)
    assert type(low) is type(high) is float
    assert binom.sf(6, 20, low) == pytest.approx(0.05)
    assert binom.cdf(7, 20, high) == pytest.approx(0.05)


# Hoeffding, and Maurer and Pontil


def test_the_width_is_that_of_the_range():
    """It does not fall where all terms are equal, and falls like 1 / sqrt(n)."""
    spread, same = np.tile([0.0, 1.0], 50), np.full(100, 0.5)
    widths = [np.diff(hoeffding_interval(z, 1))[0] for z in (spread, same)]
    assert widths[0] == pytest.approx(widths[1])
    one, four = (np.diff(hoeffding_interval(np.zeros(n), 1))[0] for n in (1, 4))
    assert one == pytest.approx(2 * four)


def test_every_sample_of_a_lottery():
    """Exact coverage of a mean of .1 with n = 6: the sum over all samples."""
    covered = 0.0
    for sample in product((0, 1), repeat=6):
        low, high = hoeffding_interval(sample, 1, 0.6)
        covered += (low <= 0.1 <= high) * np.prod(np.where(sample, 0.1, 0.9))
    assert 0.6 <= covered < 1
    # of a rate it is at least the level, for every probability on a grid
    for n, level in product((1, 2, 5, 20), (0.5, 0.9, 0.99)):
        intervals = [clopper_pearson_interval(k, n, level) for k in range(n + 1)]
        low, high = np.array(intervals).T
        for p in np.linspace(0.001, 0.999, 101):
            inside = (low <= p) & (p <= high)
            assert binom.pmf(np.arange(n + 1), n, p)[inside].sum() >= level - 1e-12


def test_small_spreads_pay():
    """With many rounds and a small spread it is narrower than Hoeffding's."""
    z = 100.0 * (np.random.default_rng(0).random(100_000) < 0.01)
    both = empirical_bernstein_interval, hoeffding_interval
    ours, theirs = (np.diff(function(z, 100))[0] for function in both)
    our_few, their_few = (np.diff(function(Z, 4))[0] for function in both)
    assert ours < theirs / 2 and our_few > their_few


def test_terms_that_are_all_alike_leave_the_range():
    low, high = empirical_bernstein_interval(np.zeros(101), 1)
    assert high == -low == pytest.approx(7 * np.log(80) / 300)


def holds(covered, level):
    """Whether covered shares of logs are, up to four errors, not below the level."""
    error = (level * (1 - level) / len(covered)) ** 0.5
    return (np.mean(covered, axis=0) >= level - 4 * error).all()


@pytest.mark.theory
def test_coverage_of_empirical_bernstein_is_never_below_the_level():
    rng = np.random.default_rng(0)
    terms = 10.0 * (rng.random((2000, 200)) < 0.05)
    ends = np.array([empirical_bernstein_interval(z, 10, 0.8) for z in terms])
    assert holds((ends[:, 0] <= 0.5) & (ends[:, 1] >= 0.5), 0.8)


# Betting


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
    z = np.random.default_rng(0).random(50)
    assert betting_interval(z, 1) != betting_interval(z[::-1], 1)
    assert betting_interval(z, 1) == betting_interval(z, 1)


def test_sorted_rounds_are_found_out():
    z = np.repeat([0.0, 1.0], 500)
    with pytest.raises(ValueError, match=r"no value agrees .* shuffle them"):
        betting_interval(z, 1)
    with pytest.raises(ValueError, match="sorted by their rewards"):
        betting_ratio_interval(np.ones(1000), z, max_weight=1, reward_range=(0, 1))


def test_weights_of_one_are_no_weights():
    r = np.random.default_rng(0).random(200)
    ratio = betting_ratio_interval(np.ones(200), r, max_weight=1, reward_range=(0, 1))
    assert ratio == pytest.approx(betting_interval(r, 1))


def test_bets_on_terms_that_are_all_alike():
    """No event: an upper end that falls like 1 / n, and nothing below zero."""
    for n, most in ((1, 1.0), (100, 0.075), (10_000, 0.00075)):
        low, high = betting_interval(np.zeros(n), 1)
        assert low == 0
        assert 3 / n <= high <= most or n == 1
    low, high = betting_interval(np.ones(100), 1)
    assert (low, high) == pytest.approx((0.93, 1), abs=0.002)
    w, r = np.zeros(50), np.ones(50)
    assert betting_ratio_interval(w, r, max_weight=5, reward_range=(-1, 2)) == (-1, 2)


# The chance of clicks, the chance that a round matches, the number of rounds.
WORLDS = [(0.02, 0.5, 200), (0.3, 0.1, 100), (0.9, 0.03, 500), (0.5, 1.0, 10)]


@pytest.mark.theory
@pytest.mark.parametrize(("click", "match", "n"), WORLDS)
def test_coverage_of_bets_is_never_below_the_level(click, match, n):
    rng = np.random.default_rng(0)
    level, covered = 0.8, []
    for _ in range(1000):
        w = (rng.random(n) < match) / match
        r = (rng.random(n) < click) * 1.0
        most = 1 / match
        intervals = (
            betting_interval(w * r, most, level),
            betting_ratio_interval(w, r, max_weight=most, level=level, **UNIT),
        )
        covered.append([low <= click <= high for low, high in intervals])
    assert holds(covered, level)


@pytest.mark.theory
def test_coverage_of_bets_where_the_logger_learns():
    """Propensities may depend on the rounds before."""
    rng = np.random.default_rng(0)
    n_logs, n = 1000, 100
    z, wins = np.empty((n_logs, n)), np.zeros(n_logs)
    for i in range(n):
        p = np.clip(wins / i + 0.2, 0.2, 0.8) if i >= 10 else np.full(n_logs, 0.5)
        won = (rng.random(n_logs) < p) & (rng.random(n_logs) < 0.4)
        z[:, i] = won / p
        wins += won
    ends = np.array([betting_interval(one, 5, 0.8) for one in z])
    assert holds((ends[:, 0] <= 0.4) & (ends[:, 1] >= 0.4), 0.8)


# Logarithmic smoothing


def test_the_formula_of_log_smoothing():
    w, r = drawn(50)
    lam, alpha, n = 0.3, 0.1, 50
    smoothed = np.log1p(lam * w * r).mean() / lam
    expected = (math.exp(lam * smoothed - math.log(2 / alpha) / n) - 1) / lam
    low, high = log_smoothing_interval(w, r, level=0.9, lam=lam, **UNIT)
    assert low == pytest.approx(expected)
    turned, _ = log_smoothing_interval(w, 1 - r, level=0.9, lam=lam, **UNIT)
    assert high == pytest.approx(1 - turned)
    usual = log_smoothing_interval(w, r, **UNIT)
    assert usual == log_smoothing_interval(w, r, lam=1 / math.sqrt(n), **UNIT)


def test_a_range_that_is_known_on_one_side():
    w, r = drawn()
    low, high = log_smoothing_interval(w, r, reward_range=(0, np.inf))
    assert high == np.inf
    assert low == log_smoothing_interval(w, r, **UNIT)[0]
    ends = log_smoothing_interval(w, -r, reward_range=(-np.inf, 0))
    assert ends == (-np.inf, -low)
    # weights of any size
    w[0] = 100.0
    low, high = log_smoothing_interval(w, r, **UNIT)
    assert 0 <= low < 0.5 < high <= 1
    w[0] = 1e9
    with pytest.raises(ValueError, match=r"no value agrees .* average 2\.5e\+06"):
        log_smoothing_interval(w, r, **UNIT)
    # rounds that say nothing
    assert log_smoothing_interval(np.zeros(9), np.ones(9), **UNIT) == (0, 1)
    assert log_smoothing_interval([1.0], [0.5], **UNIT) == (0, 1)


@pytest.mark.theory
def test_exact_miscoverage_of_the_lower_bound():
    """All logs of five rounds: .0024 for .1; the normal bound misses .0455."""
    logged = W1.p_context[:, None] * W1.mu
    chance = np.concatenate([(logged * (1 - W1.q)).ravel(), (logged * W1.q).ravel()])
    w, r = np.tile((W1.pi / W1.mu).ravel(), 2), np.repeat([0.0, 1.0], logged.size)
    n, delta = 5, 0.1
    places = np.array(list(product(range(len(chance)), repeat=n)))
    z = (w * r)[places]
    lam = 1 / math.sqrt(n)
    lows = np.expm1(np.log1p(lam * z).mean(axis=1) - math.log(1 / delta) / n) / lam
    # the function gives these, one-sided at .9 as two-sided at .8
    for k in (0, 1000, len(places) - 1):
        some = w[places[k]], r[places[k]]
        low, _ = log_smoothing_interval(*some, level=1 - 2 * delta, **UNIT)
        assert low == pytest.approx(max(lows[k], 0.0))
    error = z.std(axis=1, ddof=1) / math.sqrt(n)
    normal = z.mean(axis=1) + normal_interval(0, 1, 1 - 2 * delta)[0] * error
    of_logs = chance[places].prod(axis=1)
    missed = [(of_logs * (one > W1.value)).sum() for one in (lows, normal)]
    assert_allclose(missed, (0.0024, 0.0455), rtol=0, atol=5e-5)


@pytest.mark.theory
def test_coverage_without_a_bound_and_without_support():
    """Weights with an infinite variance, and a tenth of the policy never logged."""
    rng = np.random.default_rng(0)
    level, value, covered = 0.8, 0.9 * 0.5 + 0.1 * 0.9, []
    for _ in range(1000):
        w = 0.9 * (rng.pareto(1.5, 300) + 1) / 3
        r = (rng.random(300) < 0.5) * 1.0
        low, high = log_smoothing_interval(w, r, level=level, **UNIT)
        covered.append(low <= value <= high)
    assert holds(covered, level)
