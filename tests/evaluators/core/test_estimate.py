# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Values and errors of sums, against loops over the rounds."""

import pickle
from fractions import Fraction
from math import sqrt

import numpy as np
import pytest
from numpy.testing import assert_allclose

from skope_ope.evaluators.core._design import Design
from skope_ope.evaluators.core._estimate import (
    FEW_CLUSTERS,
    MANY_TERMS,
    Estimate,
    GivenEstimate,
    error_of,
    estimate_of_rounds,
    spread_estimate,
)
from skope_ope.evaluators.core._functions import mean, mean_plus_ratio, ratio
from skope_ope.evaluators.core._pooling import Shares, pooled, stratified
from tests.evaluators.core._samples import (
    N_TERMS,
    Sample,
    by_loops,
    drawn_sample,
    summed,
)


def estimated(sample, combine, weights=None, step=7):
    """Return the estimate of a sample, and the error of its round values."""
    design = sample.design()
    pooling = pooled if weights is None else stratified(weights)
    found = Estimate(summed(design, sample.terms, step), combine, pooling)
    z = found.round_values(sample.terms, design)
    return found, error_of(z, found.value, design.cluster)


# -- one unit has all that a ratio is divided by ---------------------------------------
@pytest.mark.few_cases
@pytest.mark.parametrize("clusters", [None, "crossing"])
@pytest.mark.parametrize("strata", [1, 3])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("combine", [ratio, mean_plus_ratio])
def test_one_unit_of_all_the_weight_has_no_error(combine, weighted, strata, clusters):
    found = set()
    for heavy in np.geomspace(1, 1e6, 25):
        rng = np.random.RandomState(3)
        sample = drawn_sample(
            rng, combine, weighted=weighted, strata=strata, clusters=clusters
        )
        terms = np.array(sample.terms)
        terms[-1] = 5 + rng.random_sample(terms.shape[1])  # about an origin
        row = 7 if sample.omega is None else int(np.argmax(sample.omega))
        terms[-1, row] *= heavy
        sample.terms = terms
        pooling = None if strata == 1 else [1.0, 2.5, 0.5]
        estimate, _ = estimated(sample, combine, pooling)
        parts = terms[-1] if sample.omega is None else sample.omega * terms[-1]
        if strata > 1:
            codes = np.unique(sample.stratum, return_inverse=True)[1]
            parts = parts * np.array(pooling)[codes]
        if clusters:
            codes = np.unique(sample.cluster, return_inverse=True)[1]
            parts = np.bincount(codes, parts)
        alone = parts.sum() ** 2 < 1.02 * (parts @ parts)
        assert estimate.rests_on_one == alone
        assert np.isnan(estimate.standard_error) == alone
        again = estimate_of_rounds(sample.design(), terms, combine, estimate.pooling)
        assert again.rests_on_one == alone
        found.add(bool(alone))
    assert found == {False, True}


def test_many_terms_are_asked_as_well():
    """They are kept without products: the rounds tell."""
    terms = np.ones((MANY_TERMS + 1, 20))

    def last_ratio(m):
        return ratio([m[0], m[-1]])[0], (0.0,) * len(m)

    last_ratio.divisor = -1
    for heavy, alone in ((1.0, False), (1e5, True)):
        terms[-1, 4] = heavy
        found = estimate_of_rounds(Design(20), tuple(terms), last_ratio)
        assert found.rests_on_one == alone


# -- independent rounds and clusters, by hand ------------------------------------------
@pytest.mark.few_cases
@pytest.mark.parametrize("clusters", [None, "nested", "crossing"])
@pytest.mark.parametrize("strata", [1, 3])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("combine", N_TERMS)
def test_by_hand(combine, weighted, strata, clusters, global_random_seed):
    """Groups of unequal size, in one stratum or several; rounds of weight zero."""
    rng = np.random.RandomState(global_random_seed)
    sample = drawn_sample(
        rng, combine, weighted=weighted, strata=strata, clusters=clusters
    )
    weights = None if strata == 1 else [1.0, 2.5, 0.5]
    found, of_round_values = estimated(sample, combine, weights)
    value, error, freedom = by_loops(sample, combine, weights)
    assert_allclose(found.value, value, rtol=1e-12)
    assert_allclose(found.standard_error, error, rtol=1e-11)
    assert_allclose(of_round_values, error, rtol=1e-11)
    if clusters:  # fewer than 40 effective ones
        freedom = min(freedom, sample.design().effective_clusters)
    assert_allclose(found.degrees_of_freedom, freedom)
    alone = Sample(sample.terms, sample.omega, sample.stratum)
    _, independent, _ = by_loops(alone, combine, weights)
    assert_allclose(found.independent_error, independent, rtol=1e-11)
    assert_allclose(found.design_effect, (error / independent) ** 2, rtol=1e-10)


@pytest.mark.parametrize("combine", N_TERMS)
def test_a_stratum_of_weight_zero_does_not_count(combine, global_random_seed):
    rng = np.random.RandomState(global_random_seed)
    sample = drawn_sample(rng, combine, weighted=True, strata=3, clusters="crossing")
    found, of_round_values = estimated(sample, combine, [1.0, 0.0, 2.0])
    value, error, _ = by_loops(sample, combine, [1.0, 0.0, 2.0])
    assert_allclose((found.value, found.standard_error), (value, error), rtol=1e-11)
    assert_allclose(of_round_values, error, rtol=1e-11)


@pytest.mark.few_cases
@pytest.mark.parametrize("step", [1, 7, 100, 1000])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("combine", N_TERMS)
def test_blocks_of_any_size(combine, weighted, step, global_random_seed):
    rng = np.random.RandomState(global_random_seed)
    sample = drawn_sample(
        rng, combine, weighted=weighted, strata=1, clusters=None, n=1000
    )
    design = sample.design()
    found = Estimate(summed(design, sample.terms, step), combine)
    omega = np.ones(1000) if sample.omega is None else sample.omega
    share = omega / omega.sum()
    means = sample.terms @ share
    value, gradient = combine(means)
    changes = share * (np.array(gradient) @ (sample.terms - means[:, None]))
    n = np.count_nonzero(omega)
    expected = value, sqrt((changes**2).sum() * n / (n - 1))
    assert_allclose((found.value, found.standard_error), expected, rtol=1e-11)
    z = found.round_values(sample.terms, design)
    assert_allclose(z.mean(), value, rtol=1e-12)


def test_clusters_of_single_rounds_change_nothing(global_random_seed):
    rng = np.random.RandomState(global_random_seed)
    sample = drawn_sample(rng, ratio, weighted=True, strata=1, clusters=None)
    plain, _ = estimated(sample, ratio)
    sample.cluster = rng.permutation(60)
    found, _ = estimated(sample, ratio)
    assert_allclose(found.standard_error, plain.standard_error, rtol=1e-12)
    assert found.design_effect == pytest.approx(1)


def test_rounds_that_are_copied_within_clusters(global_random_seed):
    """Every round m times over, in a cluster: the error of the rounds alone."""
    rng = np.random.RandomState(global_random_seed)
    sample = drawn_sample(rng, ratio, weighted=False, strata=1, clusters=None)
    plain, _ = estimated(sample, ratio)
    copies = Sample(np.repeat(sample.terms, 5, axis=1), cluster=np.arange(300) // 5)
    found, _ = estimated(copies, ratio)
    assert_allclose(found.value, plain.value, rtol=1e-12)
    assert_allclose(found.standard_error, plain.standard_error, rtol=1e-12)
    assert found.design_effect == pytest.approx(5 * 60 / 59 * 299 / 300)


# -- few clusters ----------------------------------------------------------------------
def test_one_cluster_has_no_error():
    sample = Sample(np.arange(5.0)[None], cluster=np.zeros(5, dtype=int))
    found, _ = estimated(sample, mean)
    assert found.value == 2
    assert np.isnan(found.standard_error)
    assert found.independent_error > 0
    assert found.degrees_of_freedom == 0
    # the other cluster has no round of positive weight
    sample = Sample(
        np.arange(5.0)[None], np.array([1.0, 1, 1, 1, 0]), None, np.arange(5) // 4
    )
    assert np.isnan(estimated(sample, mean)[0].standard_error)


def each_needed(mass, units):
    """Arms: every stratum has a mean of its own, and needs a spread."""
    weight = np.full(len(units), 1 / len(units)) / mass
    return Shares(weight, np.arange(len(units)), np.ones(len(units), dtype=bool))


def test_a_stratum_of_one_cluster_has_no_error_where_it_needs_one():
    terms, stratum = np.arange(8.0)[None] ** 2, np.repeat([0, 1], 4)
    for cluster, formed in (
        ([0, 0, 1, 1, 2, 2, 2, 2], False),
        ([0, 0, 1, 1, 2, 2, 3, 3], True),
        ([0, 0, 1, 1, 1, 1, 1, 1], True),  # it belongs to the sample of the other
    ):
        sample = Sample(terms, None, stratum, np.array(cluster))
        found = Estimate(summed(sample.design(), terms), mean, each_needed)
        assert found.value == np.mean([terms[0, :4].mean(), terms[0, 4:].mean()])
        assert np.isfinite(found.standard_error) == formed
        assert np.isfinite(found.independent_error)


@pytest.mark.parametrize("n_clusters", [FEW_CLUSTERS - 1, FEW_CLUSTERS])
def test_few_clusters_give_the_degrees_of_freedom(n_clusters):
    rng = np.random.RandomState(0)
    cluster = np.repeat(np.arange(n_clusters), 3)
    sample = Sample(rng.normal(size=(1, len(cluster))), cluster=cluster)
    found, _ = estimated(sample, mean)
    assert found.degrees_of_freedom == n_clusters - 1
    # one cluster of many rounds leaves few effective ones
    cluster = np.concatenate([cluster, np.zeros(200, dtype=int)])
    sample = Sample(rng.normal(size=(1, len(cluster))), cluster=cluster)
    sizes = np.bincount(cluster)
    found, _ = estimated(sample, mean)
    expected = sizes.sum() ** 2 / (sizes @ sizes)
    assert_allclose(found.degrees_of_freedom, expected)
    assert expected < 5


# -- digits ----------------------------------------------------------------------------
@pytest.mark.parametrize("step", [50, 1000])
@pytest.mark.parametrize("centre", [1e3, -1e6, 1e9])
def test_terms_far_from_zero(centre, step, global_random_seed):
    """Their squares have no digits left for the spread."""
    terms = centre + np.random.RandomState(global_random_seed).randn(1, 1000)
    spread = (terms - centre).std(ddof=1)  # exact: the digits that are left
    found, _ = estimated(Sample(terms), mean, step=step)
    assert_allclose(found.value, terms.mean(), rtol=1e-14)
    assert_allclose(found.standard_error, spread / sqrt(1000), rtol=1e-9)


def test_terms_that_drift_away(global_random_seed):
    rng = np.random.RandomState(global_random_seed)
    terms = np.concatenate([rng.randn(100), 1e6 + rng.randn(900)])[None]
    found, _ = estimated(Sample(terms), mean, step=100)
    expected = terms.mean(), terms.std(ddof=1) / sqrt(1000)
    assert_allclose((found.value, found.standard_error), expected, rtol=1e-11)


def exact_ratio_error(numerator, denominator):
    """Standard error of a ratio of sums in fractions, as a float."""
    y, w = ([Fraction(v) for v in term.tolist()] for term in (numerator, denominator))
    n, value = len(y), sum(y) / sum(w)
    square = sum((a - value * b) ** 2 for a, b in zip(y, w, strict=True))
    return float(value), sqrt(square / sum(w) ** 2 * n / (n - 1))


@pytest.mark.parametrize("offsets", [(1e6, 1e6 - 0.5, 1e6 + 2), (1e6 + 1,) * 3])
def test_parts_of_rewards_far_from_zero_in_fractions(offsets, global_random_seed):
    rng = np.random.RandomState(global_random_seed)
    w, r = rng.gamma(1.0, size=90), 1e6 + rng.choice([-1.0, 1.0], 90)
    parts = [
        summed(
            Design(30),
            np.array([w[rows] * (r[rows] - offset), w[rows]]),
            offset=offset,
            moves=1,
        )
        for offset, rows in zip(offsets, np.split(rng.permutation(90), 3), strict=True)
    ]
    found = Estimate(sum(parts), ratio)
    value, error = exact_ratio_error(w * (r - 1e6), w)
    assert_allclose(found.value, 1e6 + value, rtol=1e-15)
    assert_allclose(found.standard_error, error, rtol=1e-9)


@pytest.mark.parametrize("clustered", [False, True])
@pytest.mark.parametrize("factor", [0.0, 0.1, -3.0, 1e7])
def test_proportional_terms_have_no_spread(factor, clustered, global_random_seed):
    w = np.random.RandomState(global_random_seed).gamma(0.3, size=1000)
    cluster = np.arange(1000) // 4 if clustered else None
    sample = Sample(np.stack([factor * w, w]), cluster=cluster)
    found, _ = estimated(sample, ratio, step=64)
    assert_allclose(found.value, factor, rtol=1e-13)
    assert found.standard_error == 0
    assert found.lost == (factor != 0)  # of zeros, nothing is lost in rounding
    assert np.isnan(found.design_effect)


@pytest.mark.parametrize("constant", [0.0, 0.1, 1 / 3, -1e5])
def test_constant_terms_have_no_spread(constant):
    found, _ = estimated(Sample(np.full((1, 1000), constant)), mean, step=64)
    assert found.value == pytest.approx(constant, rel=1e-14)
    assert found.standard_error == 0
    assert not found.lost


def test_one_round_has_no_standard_error():
    found, _ = estimated(Sample(np.array([[2.5]])), mean)
    assert found.value == 2.5
    assert np.isnan(found.standard_error)
    assert found.degrees_of_freedom == 0


def test_a_ratio_of_nothing_is_not_a_number():
    found, of_round_values = estimated(Sample(np.zeros((2, 5))), ratio)
    assert np.isnan([found.value, found.standard_error, of_round_values]).all()
    # as many rounds as one likes, of weight zero
    sample = Sample(np.ones((1, 5)), np.zeros(5))
    found, _ = estimated(sample, mean)
    assert np.isnan([found.value, found.standard_error]).all()


# -- many terms ------------------------------------------------------------------------
@pytest.mark.parametrize("clusters", [None, "crossing"])
@pytest.mark.parametrize("strata", [1, 3])
def test_many_terms_need_no_products(strata, clusters, global_random_seed):
    """Their error is the spread of the influences of the rounds."""
    rng = np.random.RandomState(global_random_seed)
    sample = drawn_sample(rng, ratio, weighted=True, strata=strata, clusters=clusters)
    slopes = rng.normal(size=MANY_TERMS + 1)
    terms = rng.normal(size=(MANY_TERMS + 1, 60)) + sample.terms[0]
    weights = None if strata == 1 else [1.0, 2.5, 0.5]
    pooling = pooled if weights is None else stratified(weights)

    def combination(m):
        return float(slopes @ m), tuple(slopes)

    found = estimate_of_rounds(sample.design(), terms, combination, pooling)
    one = Sample((slopes @ terms)[None], sample.omega, sample.stratum, sample.cluster)
    value, error, _ = by_loops(one, mean, weights)
    assert_allclose((found.value, found.standard_error), (value, error), rtol=1e-11)


# -- estimates that are given ----------------------------------------------------------
def test_a_spread_of_round_values(global_random_seed):
    rng = np.random.RandomState(global_random_seed)
    z = rng.normal(size=100)
    found = spread_estimate(z.mean(), z, Design(100))
    assert_allclose(found.standard_error, z.std(ddof=1) / 10, rtol=1e-12)
    assert found.degrees_of_freedom == 99
    assert spread_estimate(z.mean(), z, Design(100), 7).degrees_of_freedom == 7
    cluster = np.arange(100) // 2
    design = Design(100, cluster=cluster, clusters=np.arange(50))
    found = spread_estimate(z.mean(), z, design)
    sums = np.bincount(cluster, z - z.mean())
    error = sqrt(sums @ sums * 50 / 49) / 100
    assert_allclose(found.standard_error, error, rtol=1e-12)
    assert found.degrees_of_freedom == 49
    # round values of an estimate hold the factor 50 / 49
    found_scaled = spread_estimate(z.mean(), z, design, scaled=True)
    error = sqrt(sums @ sums / 9900)
    assert_allclose(found_scaled.standard_error, error, rtol=1e-12)
    assert_allclose(found.independent_error, z.std(ddof=1) / 10, rtol=1e-12)
    assert_allclose(
        found.design_effect, (found.standard_error / found.independent_error) ** 2
    )
    one = Design(100, cluster=np.zeros(100, int), clusters=np.arange(1))
    assert np.isnan(spread_estimate(z.mean(), z, one).standard_error)
    few = Design(100, cluster=np.arange(100) // 10, clusters=np.arange(10))
    assert spread_estimate(z.mean(), z, few).degrees_of_freedom == 9


def test_errors_of_round_values():
    assert np.isnan(error_of(np.zeros(1), 0.0))
    assert_allclose(error_of(np.array([-1.0, 1.0]), 0.0), 1.0)
    assert_allclose(error_of(np.array([-1.0, 1.0]), 0.0, np.zeros(2, dtype=int)), 0.0)


def test_changes_make_another_estimate():
    sample = Sample(np.arange(5.0)[None])
    found, _ = estimated(sample, mean)
    assert np.isnan(found.without_error().standard_error)
    assert found.without_error().value == 2
    assert np.isnan(found.without_value().value)
    assert found.with_freedom(2).degrees_of_freedom == 2
    assert found.with_freedom(9).degrees_of_freedom == 4
    assert found.with_error(0.25).standard_error == 0.25
    assert (found.value, found.degrees_of_freedom) == (2, 4)
    assert found.standard_error == pytest.approx(sqrt(0.5))
    given = GivenEstimate(1.0, 0.5, 3, np.ones(5), Design(5))
    assert given.round_values(None, None).tolist() == [1.0] * 5
    assert np.isnan(given.without_value().value)


@pytest.mark.parametrize("combine", [ratio, mean_plus_ratio])
def test_pickling(combine):
    rng = np.random.RandomState(0)
    sample = drawn_sample(rng, combine, weighted=True, strata=3, clusters="crossing")
    found, _ = estimated(sample, combine, [1.0, 2.0, 3.0])
    again = pickle.loads(pickle.dumps(found))
    assert again.value == found.value
    assert again.standard_error == found.standard_error
    z = found.round_values(sample.terms, sample.design())
    assert (again.round_values(sample.terms, sample.design()) == z).all()
