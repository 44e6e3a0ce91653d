# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import numpy as np
import pytest

from skope_ope.readers._table_logs import rounding


@pytest.mark.parametrize("digits", range(2, 7))
def test_the_fewest_digits_and_their_bound(digits):
    proba = np.array([[0.1, 10.0**-digits]])
    assert rounding(proba) == (digits, pytest.approx(10.0**-digits, rel=1e-5))


def test_no_digits_and_many_actions():
    assert rounding(np.array([[1 / 3, 2 / 3]])) == (None, 0.0)
    assert rounding(np.full((1, 100), 0.01)) == (2, pytest.approx(0.05))
