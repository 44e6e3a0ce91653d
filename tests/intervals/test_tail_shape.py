# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""The shape of a tail: right for laws whose shape is known, silent without a tail."""

import numpy as np
import pytest

from skope_ope.intervals._tail_shape import is_bounded, tail_shape


@pytest.mark.parametrize("index", [0.8, 1.25, 2.0, 5.0])
def test_the_shape_of_pareto_tails(index):
    rng = np.random.RandomState(0)
    found = [tail_shape(rng.pareto(index, 20_000) + 1) for _ in range(20)]
    shapes, errors = np.transpose(found)
    # the prior pulls by its ten terms of 424
    expected = (414 / 424) / index + (10 / 424) / 2
    noise = errors.mean() / np.sqrt(20)
    assert shapes.mean() == pytest.approx(expected, abs=4 * noise + 0.02)
    assert shapes.std(ddof=1) == pytest.approx(errors.mean(), rel=0.6)


def test_bounded_terms_have_a_negative_shape():
    rng = np.random.RandomState(0)
    assert tail_shape(rng.random_sample(5000))[0] < 0
    # an exponential tail has shape 0
    shape, error = tail_shape(rng.exponential(size=20_000))
    assert abs(shape) < 4 * error


def test_zeros_do_not_enter_and_units_do_not_matter():
    draws = np.random.RandomState(0).pareto(1.5, 3000)
    padded = np.concatenate([np.zeros(9000), draws])
    assert tail_shape(padded) == tail_shape(draws)
    assert tail_shape(1e6 * draws)[0] == pytest.approx(tail_shape(draws)[0])


def test_no_shape_without_a_tail():
    assert np.isnan(tail_shape(np.zeros(100))).all()
    assert np.isnan(tail_shape(np.arange(50.0))).all()  # too few
    assert np.isnan(tail_shape(np.full(5000, 4.0))).all()  # all alike


def test_lumps_are_no_tail():
    # sizes of a few weights times rewards that hardly vary: a fit finds k above 2
    rng = np.random.RandomState(0)
    for n in (2000, 12_000):
        sizes = rng.choice([1.67, 2.86, 6.67], n) * rng.normal(1, 0.05, n)
        sizes[:20] *= 15
        assert np.isnan(tail_shape(sizes)).all()


@pytest.mark.parametrize("k", [0.9, 1.5, 2.5])
def test_heavy_tails_do_not_contradict_their_shape(k):
    rng = np.random.RandomState(0)
    found = [tail_shape(rng.pareto(1 / k, 3000)) for _ in range(200)]
    assert np.isfinite(found).all(axis=1).mean() > 0.99


def test_what_reaches_a_bound():
    assert is_bounded(np.array([0.0, 3, 3, 3, 2.8, 3, 1]))
    assert not is_bounded(np.array([0.0, 3, 3, 3, 2.6, 3, 1]))
    assert not is_bounded(np.array([3.0, 3]))  # too few
    draws = np.random.RandomState(0).pareto(1 / 0.7, (5000, 300))
    assert sum(map(is_bounded, draws)) <= 8  # 1.9 are expected
