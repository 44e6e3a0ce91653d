# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from skope_ope.logs.checks._context_columns import moderate

VALUES = np.array([0.3, -1.7, 0.0, 5.5])


def test_usual_numbers_stay_the_same_object():
    for values in (VALUES, VALUES * 1e90, np.zeros(3), np.zeros(0)):
        assert moderate(values) is values


@pytest.mark.parametrize("factor", [2.0**1000, 2.0**-1000])
def test_huge_and_tiny_numbers_keep_their_digits(factor):
    found = moderate(VALUES * factor)
    assert_array_equal(found / found[0], VALUES / VALUES[0])
    assert 0.5 <= np.abs(found).max() < 1


def test_the_least_numbers_of_all_have_squares():
    found = moderate(np.array([5e-324, 0.0]))
    assert found[0] ** 2 > 0


def test_infinite_is_missing():
    assert_array_equal(moderate(np.array([np.inf, 1.0, -np.inf])), [np.nan, 1, np.nan])
    assert_array_equal(moderate(np.full(2, np.nan)), [np.nan, np.nan])
    found = moderate(np.array([np.nan, 1e300, np.inf]))
    assert np.isnan(found[[0, 2]]).all()
    assert 0.5 <= found[1] < 1
