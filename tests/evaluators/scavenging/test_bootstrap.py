# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import numpy as np
from joblib import parallel_config
from numpy.testing import assert_array_equal

from skope_ope.evaluators.scavenging._bootstrap import bootstrap, draw_pages, seeds_of


def mean(pages, rng):
    omega = draw_pages(rng, len(pages))
    return float(omega @ pages / omega.sum())


def test_draws():
    drawn = draw_pages(np.random.RandomState(0), 50)
    assert drawn.shape == (50,) and drawn.sum() == 50


def test_the_number_of_workers_does_not_matter():
    pages = np.random.RandomState(0).randn(40)
    seeds = seeds_of(np.random.RandomState(1), 6)
    expected = bootstrap(mean, pages, seeds)
    with parallel_config(backend="threading", n_jobs=2):
        assert_array_equal(bootstrap(mean, pages, seeds), expected)
    assert_array_equal(bootstrap(mean, pages, seeds[:3]), expected[:3])
    assert len(np.unique(expected)) == 6


def test_spread_of_a_mean(global_random_seed):
    rng = np.random.RandomState(global_random_seed)
    pages = rng.randn(400)
    found = bootstrap(mean, pages, seeds_of(rng, 400)).std(ddof=1)
    assert abs(found / (pages.std() / 20) - 1) < 4 / np.sqrt(2 * 400)
