# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import numpy as np
import pytest
from scipy.stats import binom

from skope_ope.intervals import clopper_pearson_interval


@pytest.mark.parametrize(
    ("successes", "n", "low", "high"),
    [(7, 20, 0.153909, 0.592189), (0, 20, 0, 0.168433), (20, 20, 0.831567, 1)],
)
def test_vectors(successes, n, low, high):
    found = clopper_pearson_interval(successes, n)
    assert found == pytest.approx((low, high), abs=5e-7)
    assert all(type(end) is float for end in found)


def test_half_width_of_a_replayed_log():
    """K = 20, L = 1e6, g = .05: T = 50,000 accepted rounds."""
    low, high = clopper_pearson_interval(2500, 50_000)
    assert (high - low) / 2 == pytest.approx(0.001920, abs=5e-7)


@pytest.mark.parametrize("n", [1, 2, 5, 20])
@pytest.mark.parametrize("level", [0.5, 0.9, 0.99])
def test_coverage_by_enumeration(n, level):
    """At least the level, for every probability on a grid."""
    intervals = [clopper_pearson_interval(k, n, level) for k in range(n + 1)]
    low, high = np.array(intervals).T
    for p in np.linspace(0.001, 0.999, 101):
        inside = (low <= p) & (p <= high)
        assert binom.pmf(np.arange(n + 1), n, p)[inside].sum() >= level - 1e-12


def test_the_ends_are_those_of_one_sided_tests():
    low, high = clopper_pearson_interval(7, 20, 0.9)
    assert binom.sf(6, 20, low) == pytest.approx(0.05)
    assert binom.cdf(7, 20, high) == pytest.approx(0.05)


def test_counts_of_numpy():
    assert clopper_pearson_interval(np.int64(7), np.int32(20)) == (
        clopper_pearson_interval(7, 20)
    )


def test_bad_input():
    for successes, n in ((-1, 5), (6, 5), (0, 0)):
        with pytest.raises(ValueError, match=r"successes must lie in 0\.\.n"):
            clopper_pearson_interval(successes, n)
    with pytest.raises(TypeError, match=r"successes must be a count, got 2\.5"):
        clopper_pearson_interval(2.5, 5)
    with pytest.raises(TypeError, match=r"n must be a count, got 5\.0"):
        clopper_pearson_interval(2, 5.0)
    for level in (0, 1, 95):
        with pytest.raises(ValueError, match="level must lie in"):
            clopper_pearson_interval(2, 5, level)
