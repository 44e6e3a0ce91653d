# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Counts of resamples have the law that they should, and sums are those of counts."""

import tracemalloc

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from skope_ope.intervals import _bootstrap as _resampling
from skope_ope.intervals._bootstrap import POISSON, TILE, Draws, Resampling


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
    counts = all_counts(Draws(len(sample), 3, 0, sample), len(sample))
    for s in range(3):
        assert (counts[:, sample == s].sum(axis=1) == (sample == s).sum()).all()
        assert counts[:, sample == s].max() > 3


def test_samples_of_few_units_are_exact_beside_large_ones():
    sample = np.zeros(2 * TILE, dtype=int)
    sample[::4000] = 1
    counts = all_counts(Draws(len(sample), 40, 0, sample), len(sample))
    n_few = int(sample.sum())
    assert (counts[:, sample == 1].sum(axis=1) == n_few).all()


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


@pytest.mark.thorough
def test_memory_does_not_grow_with_the_resamples(monkeypatch):
    def peak(n_resamples, n=5 * TILE):
        tracemalloc.start()
        sums = Resampling(2, [(0, 0)], Draws(n, n_resamples, 0))
        for _ in range(0, n, TILE):
            sums.add([np.ones(TILE), np.ones(TILE)])
        sums.finish()
        found = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return found

    few, many = peak(64), peak(640)
    assert many < few + 8 * 3 * 640 * 3 and many < 8 * 2**20
    monkeypatch.setattr(_resampling, "CHUNK", 640)
    assert peak(640) > 3 * many


@pytest.mark.parametrize(("n", "length"), [(3 * TILE + 5, 1), (900, 1), (2 * TILE, 4)])
def test_sums_do_not_depend_on_the_number_of_workers(n, length):
    columns = [np.linspace(0, 1, n), np.ones(n)]
    units, drawn = n - length + 1, None if length == 1 else n // length
    found = []
    for n_jobs in (None, 1, 2, 500):
        draws = Draws(units, 40, 3, None, drawn)
        sums = Resampling(2, [(0, 0)], draws, length, n_jobs)
        sums.add(columns)
        found.append(sums.finish())
    for one in found[1:]:
        assert_array_equal(one, found[0])


@pytest.mark.parametrize("n_jobs", [0, 1.5, "two"])
def test_a_number_of_workers_is_an_int(n_jobs):
    with pytest.raises(ValueError, match="n_jobs must be None or an int other than 0"):
        Resampling(2, [], Draws(50, 40, 3), 1, n_jobs)
