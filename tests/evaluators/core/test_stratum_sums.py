# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from skope_ope.evaluators.core._stratum_sums import indicators, partial_sums


@pytest.mark.parametrize("n_codes", [1, 2, 8, 9, 300])
def test_partial_sums(n_codes):
    rng = np.random.RandomState(1)
    codes, values = rng.randint(0, n_codes, 50), rng.normal(size=(30, 50))
    sums = partial_sums(codes, n_codes)
    expected = np.array([np.bincount(codes, row, n_codes) for row in values])
    assert_allclose(sums(values), expected, atol=1e-12)
    assert_allclose(sums(values[0]), expected[0], atol=1e-12)
    assert_array_equal(indicators(codes, n_codes).argmax(axis=0), codes)
