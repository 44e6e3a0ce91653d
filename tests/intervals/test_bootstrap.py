# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Bootstrap intervals, and the law of the counts of their resamples.

The counts are drawn inside: no call returns them, and intervals show a wrong law of
them only beyond thousands of logs.
"""

import tracemalloc

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from skope_ope.intervals import (
    bootstrap_interval,
    normal_interval,
    percentile_interval,
    student_interval,
)
from skope_ope.intervals._bootstrap import POISSON, TILE, Draws, Resampling, seed_of

BOTH = [bootstrap_interval, percentile_interval]


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
    expected = by_hand(z, d, 0.9, function is bootstrap_interval, 300)
    assert_allclose(found, expected, rtol=1e-9)


@pytest.mark.few_cases(1)
@pytest.mark.parametrize("function", BOTH)
def test_units(function):
    """Ends scale and shift with the terms."""
    rng = np.random.default_rng(0)
    z, d = rng.gamma(1, 1, 200), rng.gamma(2, 1, 200)
    low, high = function(z, divisor=d)
    assert type(low) is type(high) is float
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
    wide = [np.diff(function(x, block_length=60))[0] for function in BOTH]
    assert np.diff(bootstrap_interval(x, block_length=1)) < 0.5 * 3.92 * true_error
    assert wide == pytest.approx([3.92 * true_error] * 2, rel=0.25)


def test_the_seed_decides():
    z = np.random.default_rng(0).gamma(1, 1, 50)
    assert bootstrap_interval(z) == bootstrap_interval(z)
    assert bootstrap_interval(z) != bootstrap_interval(z, random_state=1)
    other = bootstrap_interval(z, random_state=np.random.RandomState(0))
    assert other == bootstrap_interval(z)
    # blocks of one are rounds
    assert bootstrap_interval(z, block_length=1) == pytest.approx(bootstrap_interval(z))


@pytest.mark.thorough
def test_more_resamples_are_drawn_where_the_level_needs_them():
    z = np.random.default_rng(0).normal(size=50)
    usual = bootstrap_interval(z, 0.999)
    assert usual == bootstrap_interval(z, 0.999, n_resamples=50_000)
    assert bootstrap_interval(z) == bootstrap_interval(z, n_resamples=2000)


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
        ({"n_jobs": 0}, "n_jobs must be None or an int other than 0"),
        ({"n_jobs": 1.5}, "n_jobs must be None or an int other than 0"),
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
        ends = (*(function(z, n_resamples=500) for function in BOTH), student)
        covered += [low <= 1 <= high for low, high in ends]
    covered /= repetitions
    error = (0.05 * 0.95 / repetitions) ** 0.5
    assert abs(covered[0] - 0.95) < 4 * error
    assert covered[1] < covered[0] - 0.01 and covered[2] < covered[0]


@pytest.mark.theory
def test_many_units_agree_with_the_normal_interval():
    z = np.random.default_rng(0).normal(size=20_000)
    low, high = normal_interval(z.mean(), z.std(ddof=1) / 20_000**0.5)
    half = (high - low) / 2
    for function in BOTH:
        found = function(z, n_resamples=5000)
        assert_allclose(found, (low, high), rtol=0, atol=4 * 0.025 * half)


# Many units


@pytest.mark.parametrize(("n", "length"), [(3 * TILE + 5, None), (2 * TILE, 4)])
def test_limits_do_not_depend_on_the_number_of_workers(n, length):
    z = np.linspace(0, 1, n)
    one, *others = (
        bootstrap_interval(z, block_length=length, n_resamples=40, n_jobs=n_jobs)
        for n_jobs in (None, 1, 2, 500)
    )
    assert others == [one] * 3


@pytest.mark.thorough
def test_memory_does_not_grow_with_the_resamples():
    z = np.random.default_rng(0).random(5 * TILE)

    def peak(n_resamples):
        tracemalloc.start()
        bootstrap_interval(z, n_resamples=n_resamples)
        found = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return found

    few, many = peak(64), peak(640)
    assert many < few + 8 * 10 * 640 and many < 8 * 2**20


# The counts


def all_counts(draws, n):
    """Counts of all units by all resamples."""
    tiles = [
        np.concatenate([c.copy() for _, c in draws.of_tile(k, min(TILE, n - start))])
        for k, start in enumerate(range(0, n, TILE))
    ]
    return np.concatenate(tiles, axis=1)


def test_few_units_are_drawn_with_replacement():
    counts = all_counts(Draws(50, 4000, 0), 50)
    assert (counts.sum(axis=1) == 50).all()
    assert_allclose(counts.mean(axis=0), 1, atol=5 * (0.98 / 4000) ** 0.5)
    assert_allclose(counts.var(axis=0), 0.98, atol=5 * (2.9 / 4000) ** 0.5)
    covariance = np.cov(counts.T)[np.triu_indices(50, 1)]
    assert_allclose(covariance.mean(), -1 / 50, atol=5 * (1 / 4000 / 1225) ** 0.5)


def test_the_units_of_a_sample_stay_in_it():
    sample = np.random.default_rng(0).integers(0, 3, 3 * TILE)
    sample[:12] = 3  # few units are exact beside large samples
    counts = all_counts(Draws(len(sample), 3, 0, sample), len(sample))
    for s in range(4):
        assert (counts[:, sample == s].sum(axis=1) == (sample == s).sum()).all()
        assert s == 3 or counts[:, sample == s].max() > 3


def test_the_table_is_that_of_a_poisson_variable():
    counts = np.bincount(POISSON.astype(int)) / len(POISSON)
    k = np.arange(len(counts))
    expected = np.exp(-1) / np.cumprod([1.0, *range(1, len(counts))])
    assert_allclose(counts, expected, atol=1 / 65_536)
    assert abs(counts @ k - 1) < 1e-4 and abs(counts @ (k - 1) ** 2 - 1) < 2e-4


def test_many_units_have_poisson_counts():
    n = 2 * TILE + 5
    counts = all_counts(Draws(n, 50, 0), n)
    assert np.ptp(counts.sum(axis=1)) > 0
    assert_allclose(counts.sum(axis=1), n, rtol=5 / n**0.5)
    assert_allclose(counts.var(), 1, atol=5 * (3 / counts.size) ** 0.5)
    halves = counts[:, : n // 2].sum(axis=1), counts[:, n // 2 :].sum(axis=1)
    assert abs(np.corrcoef(halves)[0, 1]) < 5 / 50**0.5


def test_a_tile_has_its_own_numbers():
    """The first resamples stay what they are when there are more, in every tile."""
    n = 2 * TILE
    few, many = (all_counts(Draws(n, b, 7), n) for b in (40, 100))
    assert_array_equal(few, many[:40])
    assert not np.array_equal(few[:, :TILE], few[:, TILE:])
    assert not np.array_equal(few, all_counts(Draws(n, 40, 8), n))


@pytest.mark.parametrize("n", [1, 37, TILE, TILE + 1, 2 * TILE + 700])
@pytest.mark.parametrize("pieces", [1, 5])
def test_sums_are_those_of_the_counts(n, pieces):
    rng = np.random.default_rng(0)
    x = np.stack([rng.normal(size=n), np.ones(n), rng.normal(size=n)])
    x = x[[0, 1, 2, 0]]  # one of them twice
    pairs = [(0, 0), (1, 0), (1, 1), (2, 0), (3, 2)]
    found = Resampling(4, pairs, Draws(n, 40, 3))
    for piece in np.array_split(x, pieces, axis=1):
        if piece.shape[1]:
            found.add(list(piece))
    counts = np.concatenate([np.ones((1, n)), all_counts(Draws(n, 40, 3), n)])
    wanted = np.concatenate([x, [x[i] * x[j] for i, j in pairs]])
    assert_allclose(found.finish(), counts @ wanted.T, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(("n", "length"), [(30, 4), (TILE + 900, 200), (20_000, 9_000)])
def test_blocks_are_all_runs(n, length):
    rng = np.random.default_rng(0)
    x = np.stack([rng.normal(size=n), np.ones(n)])
    units, drawn = n - length + 1, round(n / length)
    found = Resampling(2, [(0, 0)], Draws(units, 20, 3, None, drawn), length)
    for piece in np.array_split(x, 7, axis=1):
        found.add(list(piece))
    runs = np.stack([np.convolve(row, np.ones(length), "valid") for row in x])
    counts = all_counts(Draws(units, 20, 3, None, drawn), units)
    assert (counts.sum(axis=1) == drawn).all()
    wanted = np.concatenate([runs, runs[:1] ** 2])
    sums = found.finish()
    assert_allclose(sums[0], wanted.sum(axis=1), rtol=1e-8, atol=1e-6)
    assert_allclose(sums[1:], counts @ wanted.T, rtol=1e-8, atol=1e-6)
