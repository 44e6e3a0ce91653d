# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import numpy as np
import pytest
from numpy.testing import assert_allclose

from skope_ope.evaluators.core._moments import (
    LONGEST,
    Moments,
    dot,
    mean,
    mean_plus_ratio,
    ratio,
)

COMBINE = {mean: 1, ratio: 2, mean_plus_ratio: 3}


def moments(terms, block, omega=None):
    """Add the terms in blocks."""
    sums = Moments()
    for start in range(0, terms.shape[1], block):
        rows = slice(start, start + block)
        weight = None if omega is None else omega[rows]
        sums.add(start, tuple(terms[:, rows]), weight)
    return sums


def by_hand(terms, combine, omega=None):
    """Value and standard error from round values, all rounds at once."""
    n = terms.shape[1]
    omega = np.ones(n) if omega is None else omega / omega.mean()
    means = terms @ omega / n
    value, gradient = combine(means)
    changes = omega * (np.array(gradient) @ (terms - means[:, None]))
    return value, np.sqrt((changes**2).sum() / (n - 1) / n)


def draw_terms(combine, seed, n_rounds=1000):
    rng = np.random.RandomState(seed)
    return rng.gamma(2.0, size=(COMBINE[combine], n_rounds)) + 0.1


@pytest.mark.parametrize("combine", COMBINE)
def test_gradients(combine):
    means = np.array([0.7, -0.4, 1.3][: COMBINE[combine]])
    _, gradient = combine(means)
    steps = 1e-6 * np.eye(len(means))
    numeric = [(combine(means + h)[0] - combine(means - h)[0]) / 2e-6 for h in steps]
    assert_allclose(gradient, numeric, rtol=1e-7)


@pytest.mark.parametrize("block", [1, 7, 100, 1000])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("combine", COMBINE)
def test_sums_of_blocks(combine, weighted, block, global_random_seed):
    terms = draw_terms(combine, global_random_seed)
    omega = np.random.RandomState(1).rand(1000) + 0.5 if weighted else None
    omega = None if omega is None else omega / omega.mean()
    value, error, linearise = moments(terms, block, omega).estimate(combine)
    assert_allclose((value, error), by_hand(terms, combine, omega), rtol=1e-11)
    round_values = linearise(value, terms, omega)
    assert_allclose(round_values.mean(), value, rtol=1e-12)
    assert_allclose(round_values.std(ddof=1) / np.sqrt(1000), error, rtol=1e-11)


@pytest.mark.parametrize("block", [50, 1000])
@pytest.mark.parametrize("centre", [1e3, -1e6, 1e9])
def test_terms_far_from_zero(centre, block, global_random_seed):
    """Their squares have no digits left for the spread."""
    noise = np.random.RandomState(global_random_seed).randn(1, 1000)
    terms = centre + noise
    spread = (terms - centre).std(ddof=1)  # exact: the digits that are left
    value, error, _ = moments(terms, block).estimate(mean)
    assert_allclose(value, terms.mean(), rtol=1e-14)
    assert_allclose(error, spread / np.sqrt(1000), rtol=1e-9)


def test_terms_that_drift_away(global_random_seed):
    rng = np.random.RandomState(global_random_seed)
    terms = np.concatenate([rng.randn(100), 1e6 + rng.randn(900)])[None]
    value, error, _ = moments(terms, 100).estimate(mean)
    assert_allclose((value, error), by_hand(terms, mean), rtol=1e-11)


@pytest.mark.parametrize("factor", [0.0, 0.1, -3.0, 1e7])
def test_proportional_terms_have_no_spread(factor, global_random_seed):
    w = np.random.RandomState(global_random_seed).gamma(0.3, size=1000)
    value, error, _ = moments(np.stack([factor * w, w]), 64).estimate(ratio)
    assert_allclose(value, factor, rtol=1e-13)
    assert error == 0


@pytest.mark.parametrize("constant", [0.0, 0.1, 1 / 3, -1e5])
def test_constant_terms_have_no_spread(constant):
    value, error, _ = moments(np.full((1, 1000), constant), 64).estimate(mean)
    assert_allclose(value, constant, rtol=1e-14)
    assert error == 0


def test_one_round_has_no_standard_error():
    value, error, _ = moments(np.array([[2.5]]), 1).estimate(mean)
    assert value == 2.5
    assert np.isnan(error)


def test_a_ratio_of_nothing_is_not_a_number():
    value, error, linearise = moments(np.zeros((2, 5)), 5).estimate(ratio)
    assert np.isnan([value, error]).all()
    assert np.isnan(linearise(value, np.zeros((2, 5)))).all()


@pytest.mark.parametrize("n", [0, 3, LONGEST, 2 * LONGEST + 7])
def test_dot_products_of_any_length(n):
    a, b = np.random.RandomState(0).normal(size=(2, n))
    found = dot(a, b)
    assert type(found) is float
    assert_allclose(found, (a * b).sum(), atol=1e-9)
