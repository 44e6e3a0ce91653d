# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Strata with given weights: loggers, each with a fixed number of rounds."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from skope_ope.evaluators.core._design import Design
from skope_ope.evaluators.core._estimate import Estimate
from skope_ope.evaluators.core._functions import mean, mean_plus_ratio, ratio
from skope_ope.evaluators.core._pooling import stratified
from skope_ope.evaluators.core._sums import Sums


def estimated(combine, terms, stratum, weights=None, step=7, cluster=None):
    """Return the estimate of terms that are added in blocks, and its design."""
    n_strata = stratum.max() + 1
    weights = np.ones(n_strata) if weights is None else weights
    clusters = None if cluster is None else np.unique(cluster)
    design = Design(
        len(stratum), None, stratum, list(range(n_strata)), cluster, clusters
    )
    sums = Sums(design)
    for low in range(0, len(stratum), step):
        high = min(low + step, len(stratum))
        sums.add(design.block(low, high), tuple(term[low:high] for term in terms))
    return Estimate(sums, combine, stratified(weights)), design


@pytest.mark.parametrize(
    ("combine", "k"), [(mean, 1), (ratio, 2), (mean_plus_ratio, 3)]
)
@pytest.mark.parametrize("offset", [0.0, 1e6])
def test_one_stratum_is_the_plain_mean(combine, k, offset):
    rng = np.random.RandomState(0)
    terms = offset + rng.random_sample((k, 50)) + 0.5
    found, _ = estimated(combine, terms, np.zeros(50, int))
    plain = Sums(Design(50))
    plain.add(plain.frame.block(0, 50), tuple(terms))
    expected = Estimate(plain, combine)
    assert_allclose(found.value, expected.value, rtol=1e-12)
    assert_allclose(found.standard_error, expected.standard_error, rtol=1e-6)
    assert found.degrees_of_freedom == 49


def test_means_of_strata_are_no_noise():
    rng = np.random.RandomState(0)
    stratum = rng.randint(0, 3, 60)
    noise = rng.normal(size=60)
    terms = noise + np.array([0.0, 1e3, -1e4])[stratum]
    found, _ = estimated(mean, (terms,), stratum)
    sizes = np.bincount(stratum)
    variances = [noise[stratum == s].var(ddof=1) for s in range(3)]
    assert_allclose(found.standard_error, np.sqrt(sizes @ variances) / 60, rtol=1e-8)
    assert_allclose(found.value, terms.mean())
    assert found.degrees_of_freedom == 57


def test_a_stratum_without_weight_does_not_count():
    rng = np.random.RandomState(0)
    stratum, terms = np.repeat([0, 1, 2], 20), rng.normal(size=60)
    found, _ = estimated(mean, (terms,), stratum, np.array([1.0, 0.0, 1.0]))
    alone, _ = estimated(mean, (terms[stratum != 1],), np.repeat([0, 1], 20))
    assert_allclose(found.value, alone.value, rtol=1e-12)
    assert_allclose(found.standard_error, alone.standard_error, rtol=1e-12)
    assert found.degrees_of_freedom == alone.degrees_of_freedom == 38


def test_a_single_unit_joins_another_stratum():
    def centres(units, weights=(1, 1, 1, 1)):
        units, weights = np.array(units), np.array(weights[: len(units)])
        return stratified(weights)(units.astype(float), units).centre

    assert_array_equal(centres([5, 1, 3, 9]), [0, 2, 2, 3])
    assert_array_equal(centres([5, 1, 1, 9]), [0, 1, 1, 3])
    assert_array_equal(centres([1, 1]), [0, 0])
    # a stratum that is left out has no spread to lend, and needs none
    assert_array_equal(centres([5, 1, 3, 9], (1, 1, 0, 1)), [0, 0, 2, 3])
    assert_array_equal(centres([5, 9, 1, 9], (1, 1, 0, 1)), [0, 1, 2, 3])
    stratum, terms = np.array([0, 0, 0, 1]), np.array([1.0, 2.0, 3.0, 7.0])
    found, design = estimated(mean, (terms,), stratum)
    z = found.round_values(terms[None], design)
    assert_allclose(found.standard_error, terms.std(ddof=1) / 2)
    assert_allclose(z.std(ddof=1) / 2, found.standard_error)
    assert_allclose(z.mean(), found.value)


def test_unequal_weights_share_a_centre_that_overstates():
    def shares(units, weights):
        units = np.array(units)
        return stratified(np.array(weights, float))(units.astype(float), units)

    assert shares([5, 1, 3], (1, 1, 1)).inflation.tolist() == [1, 1, 1]
    assert shares([5, 2, 3], (1, 9, 1)).inflation is None
    found = shares([3, 1], (1, 2))  # p: .2, .2, .2 and .4
    assert_array_equal(found.centre, [0, 0])
    smallest = 1 - 2 * 0.4 + 3 * 0.04 + 0.16
    assert_allclose(found.inflation, (1 - 1 / 4) / smallest)
    # the smallest other that is not outweighed
    assert_array_equal(shares([9, 2, 1], (1, 1, 3)).centre, [0, 1, 0])
    found = shares([2, 1, 4], (1, 9, 1))
    assert found.alone == (1,) and found.inflation is None
    # two that are unlike each join another
    found = shares([5, 1, 1], (1, 1, 2))
    assert_array_equal(found.centre, [0, 0, 0])
    assert found.alone == ()


@pytest.mark.thorough
def test_the_error_of_unequal_weights_is_above_on_average(global_random_seed):
    """Terms of different spread: the factor is the smallest of theirs."""
    rng = np.random.RandomState(global_random_seed)
    stratum, weights = np.repeat([0, 1], [3, 1]), np.array([1.0, 2.5])
    for spread in ((1.0, 1.0), (5.0, 0.1), (0.1, 5.0)):
        noise = np.array(spread)[stratum] * rng.normal(size=(400, 4))
        found = [estimated(mean, (row,), stratum, weights)[0] for row in noise]
        squares = np.array([one.standard_error**2 for one in found])
        share = weights / 5.5
        variance = 3 * (share[0] * spread[0]) ** 2 + (share[1] * spread[1]) ** 2
        noise_of_mean = squares.std(ddof=1) / 20
        assert squares.mean() > variance - 4 * noise_of_mean


def test_a_unit_that_outweighs_all_others_has_no_error_in_any_cluster():
    terms, cluster = np.arange(6.0) ** 2, np.array([0, 1, 2, 3, 3, 3])
    stratum = np.array([0, 0, 0, 0, 1, 1])  # cluster 3 crosses them
    assert np.isfinite(estimated(mean, (terms,), stratum)[0].standard_error)
    found, _ = estimated(mean, (terms,), stratum, np.array([1.0, 9.0]), cluster=cluster)
    assert np.isnan(found.standard_error)


def test_a_stratum_of_one_cluster_joins_another():
    terms, cluster = np.arange(8.0) ** 2, np.array([0, 0, 1, 1, 2, 2, 3, 3])
    stratum = np.array([0, 0, 0, 0, 0, 0, 1, 1])
    found, design = estimated(mean, (terms,), stratum, cluster=cluster)
    sums = np.bincount(cluster, terms - terms.mean())
    assert_allclose(found.standard_error, np.sqrt(sums @ sums * 4 / 3) / 8)
    z = found.round_values(terms[None], design) - found.value
    sums = np.bincount(cluster, z)
    assert_allclose(np.sqrt(sums @ sums / 8 / 7), found.standard_error)


def test_a_stratum_without_rounds_needs_no_spread():
    rng = np.random.RandomState(0)
    terms, stratum = rng.normal(size=20), np.repeat([0, 2], 10)
    found, _ = estimated(mean, (terms,), stratum, np.array([1.0, 5.0, 1.0]))
    alone, _ = estimated(mean, (terms,), np.repeat([0, 1], 10))
    assert_allclose(found.standard_error, alone.standard_error, rtol=1e-12)


def test_all_weight_on_one_round_has_no_error():
    terms = (np.array([1.0, 2.0, 5.0]),)
    found, _ = estimated(mean, terms, np.array([0, 1, 1]), np.array([1.0, 0.0]))
    assert found.value == 1
    assert np.isnan(found.standard_error)
    found, _ = estimated(mean, (np.array([2.0]),), np.array([0]))
    assert np.isnan(found.standard_error)


def test_no_weight_at_all_has_no_value():
    terms = (np.array([1.0, 2.0, 5.0]),)
    found, _ = estimated(mean, terms, np.array([0, 1, 1]), np.zeros(2))
    assert np.isnan([found.value, found.standard_error]).all()
