# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from skope_ope.evaluators.core import _moments
from skope_ope.evaluators.multi_logger._stratified import StratifiedMoments, joined


def filled(cells, terms, weights=None, omega=None, step=7):
    moments = StratifiedMoments(cells, cells.max() + 1, weights)
    for start in range(0, len(cells), step):
        rows = slice(start, start + step)
        part = None if omega is None else omega[rows]
        moments.add(start, tuple(term[rows] for term in terms), part)
    return moments


@pytest.mark.parametrize(
    ("combine", "k"),
    [(_moments.mean, 1), (_moments.ratio, 2), (_moments.mean_plus_ratio, 3)],
)
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("offset", [0.0, 1e6])
def test_one_stratum_is_the_plain_mean(combine, k, weighted, offset):
    rng = np.random.RandomState(0)
    terms = offset + rng.random_sample((k, 50)) + 0.5
    omega = 0.5 + rng.random_sample(50) if weighted else None
    if weighted:
        omega /= omega.mean()
    plain = _moments.Moments()
    plain.add(0, tuple(terms), omega)
    expected = plain.estimate(combine)
    found = filled(np.zeros(50, int), terms, omega=omega).estimate(combine)
    assert_allclose(found[0], expected[0], rtol=1e-12)
    assert_allclose(found[1], expected[1], rtol=1e-6)
    assert_allclose(
        found[2](found[0], terms, omega),
        expected[2](expected[0], terms, omega),
        rtol=1e-9,
    )
    assert found[2].degrees_of_freedom == 49


def test_means_of_strata_are_no_noise():
    rng = np.random.RandomState(0)
    cells = rng.randint(0, 3, 60)
    noise = rng.normal(size=60)
    terms = (noise + np.array([0.0, 1e3, -1e4])[cells],)
    value, error, linearise = filled(cells, terms).estimate(_moments.mean)
    sizes = np.bincount(cells)
    variances = [noise[cells == c].var(ddof=1) for c in range(3)]
    assert_allclose(error, np.sqrt(sizes @ variances) / 60, rtol=1e-8)
    assert_allclose(value, terms[0].mean())
    assert linearise.degrees_of_freedom == 57


def test_a_single_round_joins_another_stratum():
    ones = np.ones(4)
    assert_array_equal(joined(np.array([5, 1, 3, 9]), ones), [0, 2, 2, 3])
    assert_array_equal(joined(np.array([5, 1, 1, 9]), ones), [0, 1, 1, 3])
    assert_array_equal(joined(np.array([1, 1]), np.ones(2)), [0, 0])
    # a logger that is left out has no spread to lend, and needs none
    weights = np.array([1.0, 1.0, 0.0, 1.0])
    assert_array_equal(joined(np.array([5, 1, 3, 9]), weights), [0, 0, 2, 3])
    assert_array_equal(joined(np.array([5, 9, 1, 9]), weights), [0, 1, 2, 3])
    cells = np.array([0, 0, 0, 1])
    terms = (np.array([1.0, 2.0, 3.0, 7.0]),)
    value, error, linearise = filled(cells, terms).estimate(_moments.mean)
    z = linearise(value, np.array(terms))
    assert_allclose(error, terms[0].std(ddof=1) / 2)
    assert_allclose(z.std(ddof=1) / 2, error)
    assert_allclose(z.mean(), value)


def test_all_weight_on_one_round_has_no_error():
    cells, terms = np.array([0, 1, 1]), (np.array([1.0, 2.0, 5.0]),)
    moments = filled(cells, terms, np.array([1.0, 0.0]))
    value, error, _ = moments.estimate(_moments.mean)
    assert value == 1
    assert np.isnan(error)
    lone = filled(np.array([0]), (np.array([2.0]),))
    assert np.isnan(lone.estimate(_moments.mean)[1])


def test_variances_of_groups_of_strata():
    rng = np.random.RandomState(0)
    cells = rng.randint(0, 4, 80)
    terms = rng.normal(size=(2, 80))
    moments = filled(cells, terms)
    line = terms[0] - 2 * terms[1]
    found = moments.variances((1.0, -2.0), np.array([[1, 1, 0, 0], [0, 0, 1, 1.0]]))
    expected = [line[cells < 2].var(ddof=1), line[cells >= 2].var(ddof=1)]
    assert_allclose(found, expected)
    assert_allclose(moments.variances((1.0, -2.0))[0], line[cells == 0].var(ddof=1))
