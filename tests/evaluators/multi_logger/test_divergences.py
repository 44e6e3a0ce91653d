# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from skope_ope.evaluators import pooling_variance_ratio
from skope_ope.evaluators.multi_logger._divergences import floored, optimal_weights


def test_two_loggers_have_a_closed_form():
    for r, u in ((59.190707, 1.0), (0.3, 4.0), (1.0, 7.0), (1e6, 0.01)):
        expected = r * (1 + u) ** 2 / ((r + u) * (1 + u * r))
        assert_allclose(pooling_variance_ratio([r, 1], [u, 1]), expected, rtol=1e-12)
    assert pooling_variance_ratio([2, 2, 2], [5, 1, 9]) == pytest.approx(1)
    assert pooling_variance_ratio([3.0], [10]) == 1
    assert pooling_variance_ratio([1, np.inf], [5, 5]) == 0
    # a logger without rounds does not take part
    assert pooling_variance_ratio([1, np.inf, 4], [5, 0, 5]) == pytest.approx(
        pooling_variance_ratio([1, 4], [5, 5])
    )


def test_dicts_as_the_diagnostics_have_them():
    sizes = {"b": 4, "a": 1}
    expected = pooling_variance_ratio([3.0, 5.0], [1, 4])
    assert pooling_variance_ratio({"a": 3.0, "b": 5.0}, sizes) == expected


@pytest.mark.parametrize(
    ("divergences", "sizes", "match"),
    [
        ({"a": 1.0}, {"b": 1}, "dicts of the same loggers"),
        ({"a": 1.0}, [1], "dicts of the same loggers"),
        ([1, 2], [1, 2, 3], "one entry per logger"),
        ([], [], "one entry per logger"),
        ([1, 0], [1, 1], "divergences must be positive, got 0"),
        ([1, np.nan], [1, 1], "divergences must be positive"),
        ([1, 2], [1, -1], "sizes must be 0 or more"),
        ([1, 2], [0, 0], "sizes must be 0 or more"),
        ([np.inf], [3], "every logger with rounds has an infinite divergence"),
    ],
)
def test_bad_input(divergences, sizes, match):
    with pytest.raises(ValueError, match=match):
        pooling_variance_ratio(divergences, sizes)


def test_optimal_weights_sum_to_one():
    sizes = np.array([3.0, 5.0, 0.0, 2.0])
    weights = optimal_weights(np.array([1.0, 4.0, 0.1, np.inf]), sizes)
    assert_allclose(weights @ sizes, 1)
    assert weights[3] == 0
    assert_allclose(weights[0] / weights[1], 4)


def test_zeros_are_floored():
    found, low = floored(np.array([0.0, 2.0, np.inf]))
    assert_allclose(found, [2e-12, 2.0, np.inf])
    assert_array_equal(low, [True, False, False])
    found, low = floored(np.array([0.0, 0.0, np.inf]))
    assert_array_equal(found, [1.0, 1.0, np.inf])
    assert not low.any()
