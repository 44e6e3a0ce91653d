# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""The shape of a tail: right for laws whose shape is known, silent without a tail."""

import numpy as np
import pytest

from skope_ope.intervals._tail_shape import tail_shape


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
