# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import numpy as np
import pytest
from numpy.testing import assert_allclose

from skope_ope.intervals import (
    bootstrap_interval,
    normal_interval,
    percentile_interval,
    student_interval,
)
from skope_ope.intervals._bootstrap import Draws, seed_of
from tests._worlds import d8

D8 = d8()
W, R = np.take_along_axis(D8.pi, D8.action[:, None], 1)[:, 0] / D8.propensity, D8.reward
BOTH = [bootstrap_interval, percentile_interval]


def test_the_fixed_log():
    """SNIPS of eight rounds: its resamples are few, and steps apart."""
    found = bootstrap_interval(W * R, divisor=W, n_resamples=20_000)
    assert found == pytest.approx((-1.109, 1.661), abs=0.08)
    assert type(found[0]) is type(found[1]) is float


def by_hand(z, d, level, studentized, n_resamples):
    """Draw the same resamples, one at a time."""
    n, draws = len(z), Draws(len(z), n_resamples, seed_of(0))
    value, found = z.sum() / d.sum(), []
    for _, counts in draws.of_tile(0, n):
        for count in counts.astype(int):
            a, b = np.repeat(z, count), np.repeat(d, count)
            one = a.sum() / b.sum()
            influence = (a - one * b) / b.sum()
            found.append((one, np.sqrt((influence**2).sum())))
    values, errors = np.transpose(found)
    tails = [(1 - level) / 2, (1 + level) / 2]
    if not studentized:
        return np.quantile(values, tails, method="weibull")
    error = np.sqrt((((z - value * d) / d.sum()) ** 2).sum())
    t = np.quantile((values - value) / errors, tails[::-1], method="weibull")
    return value - t * error


@pytest.mark.parametrize("function", BOTH)
@pytest.mark.parametrize("ratio", [False, True])
def test_by_hand(function, ratio):
    rng = np.random.default_rng(0)
    z, d = rng.gamma(1, 1, 40), rng.gamma(2, 1, 40) if ratio else np.ones(40)
    given = {"divisor": d} if ratio else {}
    found = function(z, 0.9, n_resamples=300, **given)
    assert_allclose(
        found, by_hand(z, d, 0.9, function is bootstrap_interval, 300), rtol=1e-9
    )


@pytest.mark.few_cases(1)
@pytest.mark.parametrize("function", BOTH)
def test_units(function):
    """Ends scale and shift with the terms."""
    rng = np.random.default_rng(0)
    z, d = rng.gamma(1, 1, 200), rng.gamma(2, 1, 200)
    low, high = function(z, divisor=d)
    assert_allclose(function(3 * z + 2 * d, divisor=d), (3 * low + 2, 3 * high + 2))
    assert_allclose(function(5 * z, divisor=5 * d), (low, high))
    assert_allclose(function(-z, divisor=d), (-high, -low), atol=0.01)


def test_skewed_terms_move_the_interval():
    """It reaches further where the tail is: a sample lacks the largest terms."""
    z = np.random.default_rng(0).exponential(size=100)
    low, high = bootstrap_interval(z)
    assert high - z.mean() > 1.15 * (z.mean() - low)
    low, high = percentile_interval(z)
    assert high - z.mean() < 1.15 * (z.mean() - low)


@pytest.mark.parametrize("function", BOTH)
def test_groups(function):
    """Copies of a round in a group say what the round says."""
    z = np.random.default_rng(0).gamma(1, 1, 60)
    copies, labels = np.repeat(z, 4), np.repeat([f"user {i:02}" for i in range(60)], 4)
    assert_allclose(function(copies, group=labels), function(z))
    narrow = np.diff(function(copies))
    assert narrow < 0.6 * np.diff(function(z))


def test_blocks_know_that_rounds_depend_on_those_before():
    rng = np.random.default_rng(0)
    x = np.zeros(3000)
    for i, noise in enumerate(rng.normal(size=2999)):
        x[i + 1] = 0.8 * x[i] + noise
    true_error = 5 / 3000**0.5
    widths = [
        np.diff(function(x, block_length=length))[0]
        for function in BOTH
        for length in (1, 60)
    ]
    assert widths[0] < 0.5 * 3.92 * true_error
    assert widths[1] == pytest.approx(3.92 * true_error, rel=0.25)
    assert widths[3] == pytest.approx(3.92 * true_error, rel=0.25)


def test_blocks_of_one_are_rounds():
    z = np.random.default_rng(0).gamma(1, 1, 60)
    assert bootstrap_interval(z, block_length=1) == pytest.approx(bootstrap_interval(z))


@pytest.mark.thorough
def test_more_resamples_are_drawn_where_the_level_needs_them():
    z = np.random.default_rng(0).normal(size=50)
    usual = bootstrap_interval(z, 0.999)
    assert usual == bootstrap_interval(z, 0.999, n_resamples=50_000)
    assert bootstrap_interval(z) == bootstrap_interval(z, n_resamples=2000)


def test_the_seed_decides():
    z = np.random.default_rng(0).gamma(1, 1, 50)
    assert bootstrap_interval(z) == bootstrap_interval(z)
    assert bootstrap_interval(z) != bootstrap_interval(z, random_state=1)
    other = bootstrap_interval(z, random_state=np.random.RandomState(0))
    assert other == bootstrap_interval(z)


@pytest.mark.parametrize("function", BOTH)
def test_bad_input(function):
    z = np.arange(10.0)
    for given, message in (
        ({"z": [1.0]}, "needs two rounds at least, got 1"),
        ({"z": []}, "needs two rounds at least, got 0"),
        ({"z": [1.0, np.nan]}, "z must be finite, got nan at row 1"),
        ({"divisor": np.ones(9)}, r"one entry per term \(10\), got 9"),
        ({"divisor": np.zeros(10)}, "a positive sum, got 0"),
        ({"group": np.zeros(10)}, "needs two groups at least, got 1"),
        ({"group": np.arange(10), "block_length": 2}, "not both"),
        ({"block_length": 6}, "block_length=6 is too long for 10 rounds"),
        ({"block_length": 2.5}, "must be a number of rounds"),
        ({"n_resamples": 39}, "n_resamples=39 are too few"),
        ({"n_resamples": 2.0}, "n_resamples must be a positive int"),
        ({"level": 95}, "level must lie in"),
    ):
        with pytest.raises(ValueError, match=message):
            function(**{"z": z} | given)


@pytest.mark.theory
def test_coverage():
    """Of means of 30 exponentials: studentised within .02 of .95, percentile below."""
    rng = np.random.default_rng(0)
    covered, repetitions = np.zeros(3), 500
    for _ in range(repetitions):
        z = rng.exponential(size=30)
        student = student_interval(z.mean(), z.std(ddof=1) / 30**0.5, 29)
        for k, (low, high) in enumerate(
            (bootstrap_interval(z), percentile_interval(z), student)
        ):
            covered[k] += low <= 1 <= high
    covered /= repetitions
    error = (0.05 * 0.95 / repetitions) ** 0.5
    assert abs(covered[0] - 0.95) < 4 * error
    assert covered[1] < covered[0] - 0.01 and covered[2] < covered[0]


@pytest.mark.theory
def test_many_units_agree_with_the_normal_interval():
    rng = np.random.default_rng(0)
    z = rng.normal(size=40_000)
    expected = normal_interval(z.mean(), z.std(ddof=1) / 200)
    half = (expected[1] - expected[0]) / 2
    for function in BOTH:
        found = function(z, n_resamples=5000)
        assert_allclose(found, expected, rtol=0, atol=4 * 0.025 * half)
