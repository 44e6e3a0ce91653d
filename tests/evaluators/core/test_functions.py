# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import numpy as np
import pytest
from numpy.testing import assert_allclose

from skope_ope.evaluators.core._functions import (
    mean,
    mean_plus_ratio,
    ratio,
    second_mean,
)


@pytest.mark.parametrize(
    ("combine", "value"),
    [
        (mean, 0.7),
        (second_mean, -0.4),
        (ratio, -0.7 / 0.4),
        (mean_plus_ratio, 0.7 - 0.4 / 1.3),
    ],
)
def test_values_and_gradients(combine, value):
    means = np.array([0.7, -0.4, 1.3][: 2 if combine is ratio else 3])
    found, gradient = combine(means)
    assert_allclose(found, value, rtol=1e-15)
    steps = 1e-6 * np.eye(len(means))
    numeric = [(combine(means + h)[0] - combine(means - h)[0]) / 2e-6 for h in steps]
    assert_allclose(gradient, numeric, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("combine", [ratio, mean_plus_ratio])
def test_where_there_is_no_value_they_divide_by_zero(combine):
    with pytest.raises(ZeroDivisionError):
        combine([0.5, 0.0, 0.0][: 2 if combine is ratio else 3])
