# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Sums of the parts of a log are the sums of the whole."""

import io
import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from skope_ope._dot import dot
from skope_ope.evaluators.core._design import Design
from skope_ope.evaluators.core._estimate import Estimate
from skope_ope.evaluators.core._functions import mean, mean_plus_ratio, ratio
from skope_ope.evaluators.core._pooling import pooled, stratified
from skope_ope.evaluators.core._stratum_sums import LONGEST
from skope_ope.evaluators.core._sums import Sums
from skope_ope.logs._labels import label_hash
from tests.evaluators.core._samples import Sample, drawn_sample, summed

MOVES = {mean: -1, ratio: 1, mean_plus_ratio: -1}


def shifted(terms, combine, offset):
    """Terms of rewards less a constant."""
    out = terms.copy()
    out[0] -= offset * (terms[MOVES[combine]] if combine is ratio else 1.0)
    return out


def numbers(sums, combine, pooling):
    found = Estimate(sums, combine, pooling)
    return (
        found.value,
        found.standard_error,
        found.independent_error,
        found.degrees_of_freedom,
    )


def about_zero(sums):
    """All sums about the origin 0 of rewards as they are, by labels of the cells."""
    first, second, totals = sums.about([0.0] * sums.n_terms, 0.0)
    frame = sums.frame
    order = np.argsort(frame.strata)
    cells = {}
    if totals is not None:
        for j in np.flatnonzero(frame.cell_count):
            key = frame.strata[frame.cell_stratum[j]]
            cells[key, frame.clusters[frame.cell_cluster[j]].item()] = totals[:, j]
    return first[order], second[order], frame.count[order], cells


def assert_equal_sums(found, expected):
    parts, whole = about_zero(found), about_zero(expected)
    for part, full in zip(parts[:3], whole[:3], strict=True):
        assert_allclose(part, full, rtol=1e-12, atol=1e-12 * abs(full).max())
    assert set(parts[3]) == set(whole[3])
    for key, total in whole[3].items():
        size = max(abs(total).max(), 1)
        assert_allclose(parts[3][key], total, rtol=1e-12, atol=1e-12 * size)


@pytest.mark.few_cases(40)
@pytest.mark.parametrize("seed", range(200))
def test_parts_add_up_to_the_whole(seed):
    """Whatever the partition, its order, its blocks, its origins and its offsets."""
    rng = np.random.RandomState(seed)
    combine = list(MOVES)[seed % 3]
    strata = rng.randint(1, 4)
    sample = drawn_sample(
        rng,
        combine,
        weighted=bool(rng.randint(2)),
        strata=strata,
        clusters=[None, "nested", "crossing"][rng.randint(3)],
        n=rng.randint(12, 200),
    )
    if rng.randint(2):  # far from zero: parts choose origins
        sample.terms[0] += 50
    pooling = pooled if strata == 1 else stratified(np.linspace(1, 2, strata))
    whole = summed(sample.design(), sample.terms, moves=MOVES[combine])
    part_of = rng.randint(rng.randint(1, 6), size=sample.n_rounds)
    parts = []
    for part in rng.permutation(np.unique(part_of)):
        rows = rng.permutation(np.flatnonzero(part_of == part))
        offset = rng.choice([0.0, 0.5, -3.0])
        terms = shifted(sample.terms[:, rows], combine, offset)
        step = rng.randint(1, len(rows) + 1)
        about = {"offset": offset, "moves": MOVES[combine]}
        parts.append(summed(_with_strata(sample, rows), terms, step, **about))
    merged = sum(parts)
    assert_equal_sums(merged, whole)
    order = [merged.frame.strata.index(s) for s in whole.frame.strata]
    assert sorted(order) == list(range(strata))
    if strata > 1:
        weights = np.linspace(1, 2, strata)
        pooling = stratified(weights[merged.frame.strata])
    assert_allclose(
        numbers(merged, combine, pooling),
        numbers(
            whole,
            combine,
            pooled if strata == 1 else stratified(np.linspace(1, 2, strata)),
        ),
        rtol=1e-11,
    )


def _with_strata(sample, rows):
    """The design of some rounds; one stratum has the label that the whole gives it."""
    design = sample.design(rows)
    if sample.stratum is None:
        return design
    if design.n_strata == 1:  # its only stratum keeps its label
        design = design.with_strata(np.zeros(len(rows), int), design.strata)
    return design


@pytest.mark.parametrize("clusters", [None, "nested", "crossing"])
@pytest.mark.parametrize("strata", [1, 3])
def test_tables_hold_everything(strata, clusters, global_random_seed):
    rng = np.random.RandomState(global_random_seed)
    sample = drawn_sample(rng, ratio, weighted=True, strata=strata, clusters=clusters)
    sums = summed(sample.design(), sample.terms, 7, offset=0.25, moves=1)
    pooling = pooled if strata == 1 else stratified(np.ones(strata))
    file = io.BytesIO()
    np.savez(file, **sums.to_table())
    file.seek(0)
    with np.load(file) as stored:
        again = Sums.from_table(dict(stored))
    expected = numbers(sums, ratio, pooling)
    assert_allclose(numbers(again, ratio, pooling), expected, rtol=1e-14)
    assert_equal_sums(sum([again, sums]), sum([sums, again]))
    pickled = pickle.loads(pickle.dumps(sums))
    assert numbers(pickled, ratio, pooling) == expected


def test_buckets_of_clusters(global_random_seed):
    rng = np.random.RandomState(global_random_seed)
    sample = drawn_sample(rng, ratio, weighted=True, strata=1, clusters="nested", n=300)
    sums = summed(sample.design(), sample.terms, 50, moves=1)
    found = sums.bucketed(5)
    assert len(found.frame.clusters) <= 5
    bucket = label_hash(sample.cluster) % 5
    by_bucket = summed(
        Sample(sample.terms, sample.omega, None, bucket).design(),
        sample.terms,
        moves=1,
    )
    assert_equal_sums(found, by_bucket)
    assert_allclose(
        numbers(found, ratio, pooled), numbers(by_bucket, ratio, pooled), rtol=1e-12
    )
    many = Estimate(sums.bucketed(1 << 20), ratio)  # none share a bucket
    assert_allclose(many.standard_error, Estimate(sums, ratio).standard_error)


def test_buckets_merge():
    rng = np.random.RandomState(0)
    sample = drawn_sample(rng, mean, weighted=False, strata=1, clusters="nested", n=90)
    whole = summed(sample.design(), sample.terms, moves=-1).bucketed(7)
    parts = [
        summed(sample.design(rows), sample.terms[:, rows], moves=-1).bucketed(7)
        for rows in np.split(np.arange(90), [20, 60])
    ]
    assert_equal_sums(sum(parts), whole)


def test_other_origins_and_offsets(global_random_seed):
    rng = np.random.RandomState(global_random_seed)
    sample = drawn_sample(rng, ratio, weighted=True, strata=3, clusters="crossing")
    design = sample.design()
    sums = summed(design, sample.terms, 11, moves=1)
    origin, offset = [0.7, -2.0], 1.5
    first, second, totals = sums.about(origin, offset)
    moved = shifted(sample.terms, ratio, offset) - np.array(origin)[:, None]
    x = design.omega * np.vstack([moved, np.ones(design.n_rounds)])
    for s in range(3):
        own = x[:, design.stratum == s]
        assert_allclose(first[s], own.sum(axis=1), rtol=1e-12, atol=1e-10)
        assert_allclose(second[s], own @ own.T, rtol=1e-12, atol=1e-10)
    for cell in range(totals.shape[1]):
        own = x[:, design.cell == cell].sum(axis=1)
        assert_allclose(totals[:, cell], own, rtol=1e-12, atol=1e-10)


# -- what cannot be added --------------------------------------------------------------
def test_sums_of_different_terms_are_refused():
    one, two = (summed(Design(4), np.ones((k, 4))) for k in (1, 2))
    with pytest.raises(ValueError, match="of 1 and 2 terms are of different evaluat"):
        one + two
    with pytest.raises(ValueError, match="of 1 and 1 terms are of different evaluat"):
        one + summed(Design(4), np.ones((1, 4)), moves=-1)
    with pytest.raises(TypeError, match="unsupported operand"):
        one + 1.0
    assert sum([one]) is one


def test_offsets_that_the_terms_do_not_follow_are_refused():
    plain = summed(Design(4), np.ones((1, 4)))
    with pytest.raises(ValueError, match="do not follow a shift of the rewards"):
        plain + summed(Design(4), np.ones((1, 4)), offset=2.0)


def test_groups_in_one_part_alone_are_refused():
    clustered = Design(4, cluster=np.array([0, 0, 1, 1]), clusters=np.arange(2))
    with pytest.raises(ValueError, match="give both logs their groups, or neither"):
        summed(Design(4), np.ones((1, 4))) + summed(clustered, np.ones((1, 4)))


def test_sums_without_products():
    sums = summed(Design(4), np.arange(8.0).reshape(2, 4), products=False)
    assert_allclose(np.add(sums.first, 4 * np.array(sums.origin)), [6, 22])
    with pytest.raises(ValueError, match="without products of their terms"):
        sums.product(0, 0)


# -- sums that jobs share --------------------------------------------------------------
@pytest.mark.parametrize("strata", [1, 3])
def test_an_array_of_two_jobs_is_summed_once(strata):
    rng = np.random.RandomState(0)
    sample = drawn_sample(rng, ratio, weighted=True, strata=strata, clusters="crossing")
    design = sample.design()
    gain, weight = sample.terms
    first, second = Sums(design), Sums(design, summed=1)
    for low in range(0, 60, 20):
        block, rows = design.block(low, low + 20), slice(low, low + 20)
        g, w = gain[rows], weight[rows]
        first.add(block, (g, w))
        second.add(block, (g, 2 * w))
    alone = summed(design, (gain, weight), 20)
    assert_allclose(first.totals, alone.totals, rtol=1e-13)
    assert_allclose(second.totals[0], alone.totals[0], rtol=1e-13)
    assert second.totals[1] is None  # not asked for
    assert_allclose(second.first[1], 2 * np.array(first.first[1]), rtol=1e-13)


@pytest.mark.parametrize("n", [0, 3, LONGEST, 2 * LONGEST + 7])
def test_dot_products_of_any_length(n):
    a, b = np.random.RandomState(0).normal(size=(2, n))
    found = dot(a, b)
    assert type(found) is float
    assert_allclose(found, (a * b).sum(), atol=1e-9)


def test_products_of_entries():
    sample = drawn_sample(
        np.random.RandomState(1), ratio, weighted=True, strata=1, clusters=None
    )
    sums = summed(sample.design(), sample.terms, 9)
    near = np.array([*sums.origin, 0.0])[:, None]
    x = sample.omega * (np.vstack([sample.terms, np.ones(60)]) - near)
    found = [[sums.product(i, j) for j in range(3)] for i in range(3)]
    assert_allclose(found, x @ x.T, rtol=1e-12)
    assert_array_equal(found, np.transpose(found))


@pytest.mark.parametrize("parts", [(0,), (1,), (0, 1)], ids=str)
def test_jobs_that_shared_an_array_and_no_longer_do(parts):
    """Weights that a job changes where they are large: one array, then two."""
    rng = np.random.RandomState(0)
    cluster, w = rng.randint(7, size=60), rng.rand(60)
    design = Design(60, cluster=cluster, clusters=np.arange(7))
    both = Sums(design), Sums(design)
    expected = np.zeros((2, 60))
    for low in (0, 20, 40):
        block, common = design.block(low, low + 20), w[low : low + 20]
        for number, sums in enumerate(both):
            changed = low == 20 and number in parts
            term = (number + 2) * common if changed else common
            sums.add(block, (term,))
            expected[number, low : low + 20] = term
    for sums, terms in zip(both, expected, strict=True):
        _, _, totals = sums.about([0.0], 0.0)
        assert_allclose(totals[0], np.bincount(cluster, terms, 7), rtol=1e-12)


@pytest.mark.parametrize("clustered", [False, True])
@pytest.mark.parametrize("spread", [1.0, 1e-3])
def test_a_numerator_far_from_zero_is_measured_from_its_divisor(spread, clustered):
    rng = np.random.default_rng(0)
    n = 3000
    w, v = rng.exponential(size=n), rng.random(n)
    near = spread * rng.normal(size=n)
    cluster = rng.integers(0, 50, n) if clustered else None
    exact = Sample(np.stack([v, w * near, w]), cluster=cluster)
    exact = Estimate(summed(exact.design(), exact.terms), mean_plus_ratio)
    whole = Sample(np.stack([v, w * (1e6 + near), w]), cluster=cluster)
    parts = [
        summed(whole.design(rows), whole.terms[:, rows], along=[(1, 2)])
        for rows in np.split(np.arange(n), [70, 1000])
    ]
    table = io.BytesIO()
    np.savez(table, **sum(parts).to_table())
    table.seek(0)
    found = Estimate(Sums.from_table(np.load(table)), mean_plus_ratio)
    assert_allclose(found.value, exact.value + 1e6, rtol=1e-14)
    assert_allclose(found.standard_error, exact.standard_error, rtol=1e-9 / spread)
