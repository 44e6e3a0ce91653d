# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import numpy as np
import pytest
from numpy.testing import assert_allclose

from skope_ope.intervals import empirical_bernstein_interval, hoeffding_interval

# terms of IPS on the fixed log of eight rounds
Z = np.array([0, 1 / 3, 4, 0.2, 0, 1 / 6, 3, 0])


def test_the_fixed_log():
    found = empirical_bernstein_interval(Z, 4)
    assert_allclose(found, (-6.5477, 8.4727), rtol=0, atol=6e-5)
    assert all(type(end) is float for end in found)


def test_units():
    """Scale and shift of terms and bounds are those of the ends; a sign swaps them."""
    low, high = empirical_bernstein_interval(Z, 4, 0.8)
    moved = empirical_bernstein_interval(2 * Z + 3, 11, 0.8, lower=3)
    assert_allclose(moved, (2 * low + 3, 2 * high + 3))
    turned = empirical_bernstein_interval(-Z, 0, 0.8, lower=-4)
    assert_allclose(turned, (-high, -low))


def test_small_spreads_pay():
    """With many rounds and a small spread it is narrower than Hoeffding's."""
    rng = np.random.default_rng(0)
    z = 100.0 * (rng.random(100_000) < 0.01)
    ours, theirs = (
        np.diff(function(z, 100))[0]
        for function in (empirical_bernstein_interval, hoeffding_interval)
    )
    assert ours < theirs / 2
    few = Z, 4
    assert np.diff(empirical_bernstein_interval(*few)) > np.diff(
        hoeffding_interval(*few)
    )


def test_terms_that_are_all_alike_leave_the_range():
    low, high = empirical_bernstein_interval(np.zeros(101), 1)
    assert high == -low == pytest.approx(7 * np.log(80) / 300)


def test_bad_input():
    with pytest.raises(ValueError, match=r"at least two terms, got one"):
        empirical_bernstein_interval([0.5], 1)
    with pytest.raises(ValueError, match=r"first 5\.0 in row 1"):
        empirical_bernstein_interval([0, 5], 4)
    with pytest.raises(ValueError, match="level must lie in"):
        empirical_bernstein_interval(Z, 4, 0)


@pytest.mark.theory
def test_coverage_is_never_below_the_level():
    rng = np.random.default_rng(0)
    level, repetitions, covered = 0.8, 2000, 0
    for _ in range(repetitions):
        z = 10.0 * (rng.random(200) < 0.05)
        low, high = empirical_bernstein_interval(z, 10, level)
        covered += low <= 0.5 <= high
    error = (level * (1 - level) / repetitions) ** 0.5
    assert covered / repetitions >= level - 4 * error
