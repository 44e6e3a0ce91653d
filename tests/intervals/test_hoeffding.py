# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

from itertools import product

import numpy as np
import pytest
from numpy.testing import assert_allclose

from skope_ope.intervals import hoeffding_interval

# terms of IPS on the fixed log of eight rounds
Z = np.array([0, 1 / 3, 4, 0.2, 0, 1 / 6, 3, 0])


def test_the_fixed_log():
    found = hoeffding_interval(Z, 4)
    assert_allclose(found, (-0.958146, 2.883146), rtol=0, atol=6e-7)
    assert all(type(end) is float for end in found)


def test_units():
    """Scale and shift of terms and bounds are those of the ends; a sign swaps them."""
    low, high = hoeffding_interval(Z, 4, 0.8)
    assert_allclose(
        hoeffding_interval(2 * Z + 3, 11, 0.8, lower=3), (2 * low + 3, 2 * high + 3)
    )
    assert_allclose(hoeffding_interval(-Z, 0, 0.8, lower=-4), (-high, -low))


def test_the_width_is_that_of_the_range():
    """It does not fall where all terms are equal, and falls like 1 / sqrt(n)."""
    spread, same = np.tile([0.0, 1.0], 50), np.full(100, 0.5)
    widths = [np.diff(hoeffding_interval(z, 1))[0] for z in (spread, same)]
    assert widths[0] == pytest.approx(widths[1])
    one, four = (np.diff(hoeffding_interval(np.zeros(n), 1))[0] for n in (1, 4))
    assert one == pytest.approx(2 * four)


def test_every_sample_of_a_lottery():
    """Exact coverage of a mean of .1 with n = 6: the sum over all samples."""
    p, level = 0.1, 0.6
    covered = 0.0
    for sample in product((0, 1), repeat=6):
        low, high = hoeffding_interval(sample, 1, level)
        k = sum(sample)
        covered += (low <= p <= high) * p**k * (1 - p) ** (6 - k)
    assert level <= covered < 1


def test_bad_input():
    for z, upper, message in (
        ([0, 5], 4, r"z has 1 entries outside \[0, 4\], the first 5\.0 in row 1"),
        ([0, np.nan], 4, "z must be finite, got nan at row 1"),
        ([], 4, "at least one term"),
        ([0.0], np.inf, "two finite numbers"),
    ):
        with pytest.raises(ValueError, match=message):
            hoeffding_interval(z, upper)
    for level in (0, 1, 95):
        with pytest.raises(ValueError, match="level must lie in"):
            hoeffding_interval(Z, 4, level)
