# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from skope_ope.evaluators.core._weights import clip, harmonic, shrink, switch

W = np.array([0.0, 0.2, 1.0, 1 / 3, 4.0, 1e6])
W.flags.writeable = False  # the engine shares weights between evaluators


def test_clip():
    assert clip(W, None) is W
    assert_array_equal(clip(W, 2.0), [0, 0.2, 1, 1 / 3, 2, 2])
    assert_array_equal(clip(W, 0), np.zeros(6))
    assert_array_equal(clip(W, np.inf), W)


def test_switch_keeps_what_is_at_the_threshold():
    assert_array_equal(switch(W, 1.0), [0, 0.2, 1, 1 / 3, 0, 0])
    assert_array_equal(switch(W, 0), np.zeros(6))
    assert_array_equal(switch(W, np.inf), W)


def test_shrink():
    assert_allclose(shrink(W, 4.0)[:5], [0, 0.8 / 4.04, 0.8, 12 / 37, 0.8], rtol=1e-15)
    assert_allclose(shrink(W, 4.0)[5], 4e-6, rtol=1e-11)  # large weights vanish
    assert_array_equal(shrink(W, 0), np.zeros(6))
    assert_array_equal(shrink(W, np.inf), W)
    assert_allclose(shrink(W, 1e30), W, rtol=1e-15)  # the limits are limits
    assert_allclose(shrink(W, 1e-30), np.zeros(6), atol=1e-29)


def test_harmonic():
    assert_allclose(harmonic(W, 0.5)[:5], [0, 1 / 3, 1, 0.5, 1.6], rtol=1e-15)
    assert (harmonic(W, 0.5) < 2).all()  # bounded by 1 / lam
    assert_array_equal(harmonic(W, 0), W)
    assert_array_equal(harmonic(W, 1), [0, 1, 1, 1, 1, 1])
    assert_allclose(harmonic(W, 1e-15), W, rtol=1e-8)
    assert_allclose(harmonic(W[1:], 1 - 1e-12), np.ones(5), rtol=1e-10)


@pytest.mark.parametrize(
    ("transform", "parameter"),
    [(clip, 2.0), (switch, 2.0), (shrink, 4.0), (harmonic, 0.3)],
)
def test_no_transform_raises_a_weight_above_one(transform, parameter):
    assert (transform(W, parameter)[W >= 1] <= W[W >= 1]).all()
    assert (transform(W, parameter) >= 0).all()


@pytest.mark.parametrize("transform", [clip, shrink, harmonic])
def test_on_policy_weights(transform):
    """One stays one, but for shrinkage, which makes it lam / (1 + lam)."""
    ones = np.ones(3)
    expected = 4.0 / 5.0 if transform is shrink else 1.0
    assert_allclose(
        transform(ones, 4.0 if transform is not harmonic else 0.4), expected
    )
