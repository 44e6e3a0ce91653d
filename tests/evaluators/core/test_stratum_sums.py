# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from skope_ope.evaluators.core._stratum_sums import (
    FEW,
    LONGEST,
    indicators,
    partial_sums,
)


@pytest.mark.parametrize("n", [0, 50, LONGEST, 2 * LONGEST + 7])
@pytest.mark.parametrize("n_codes", [1, 2, FEW, FEW + 1, 300])
def test_partial_sums(n_codes, n):
    rng = np.random.RandomState(1)
    codes, values = rng.randint(0, n_codes, n), rng.normal(size=(3, n))
    sums = partial_sums(codes, n_codes)
    expected = np.array([np.bincount(codes, row, n_codes) for row in values])
    found = [sums(row) for row in values]
    assert_allclose(found, expected, atol=1e-10)
    rows = indicators(codes, n_codes)
    assert_array_equal(rows.sum(axis=0), 1)
    assert_array_equal(rows[codes, np.arange(n)], 1)
