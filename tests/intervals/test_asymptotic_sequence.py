# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import math

import numpy as np
import pytest
from scipy import stats

from skope_ope.intervals import asymptotic_sequence
from skope_ope.intervals._asymptotic_sequence import AsymptoticBounds
from tests._worlds import W1
from tests.intervals._sequence_worlds import logged_rounds, share_missed_at_most


def test_the_formula():
    z = np.random.default_rng(0).exponential(size=500)
    low, high = asymptotic_sequence(z, 0.9, start=100)
    assert np.isnan(low[:99]).all() and np.isnan(high[:99]).all()
    best, alpha = 100 * math.log(100), 0.1
    rho = math.sqrt(
        (2 * math.log(1 / alpha) + math.log(1 + 2 * math.log(1 / alpha))) / best
    )
    for t in (100, 237, 500):
        grown = t * rho**2 + 1
        half = z[:t].std() * math.sqrt(
            2 * grown / (t * rho) ** 2 * math.log(math.sqrt(grown) / alpha)
        )
        assert low[t - 1] == pytest.approx(z[:t].mean() - half)
        assert high[t - 1] == pytest.approx(z[:t].mean() + half)


def test_terms_far_from_zero_keep_their_digits():
    z = np.random.default_rng(0).exponential(size=2000)
    ends = np.array(asymptotic_sequence(z, after=[2000]))
    far = np.array(asymptotic_sequence(z + 1e9, after=[2000])) - 1e9
    np.testing.assert_allclose(far, ends, atol=1e-5)


def test_parts_of_any_size_give_the_same_limits_to_the_last_digit():
    z = np.random.default_rng(0).exponential(size=3000)
    whole = np.array(AsymptoticBounds(0.95).take(z, np.array([1, 1500, 3000])))
    parts, bounds = [], AsymptoticBounds(0.95)
    for start, stop in ((0, 1), (1, 1500), (1500, 3000)):
        parts.append(np.array(bounds.take(z[start:stop], np.array([stop - start]))))
    np.testing.assert_array_equal(np.hstack(parts), whole)


def test_skewness_of_the_mean():
    z = 5 + np.random.default_rng(0).exponential(size=900)
    bounds = AsymptoticBounds(0.95)
    for part in np.array_split(z, 7):
        bounds.take(part, np.array([len(part)]))
    assert bounds.skewness == pytest.approx(stats.skew(z) / 30)
    alike = AsymptoticBounds(0.95)
    alike.take(np.full(900, 0.1), np.array([900]))
    assert np.isnan(alike.skewness)


@pytest.mark.parametrize("start", [1, 0, 10.5, None])
def test_a_start_that_is_none(start):
    with pytest.raises(ValueError, match="start must be a whole number"):
        asymptotic_sequence([1.0, 2.0], start=start)


@pytest.mark.theory
@pytest.mark.parametrize("seed", range(3))
def test_limits_hold_at_every_round_after_the_start(seed):
    rng = np.random.default_rng(seed)
    w, r = logged_rounds(rng, 400, 10_000)
    missed = []
    for z in w * r:
        low, high = asymptotic_sequence(z, 0.9, start=1000)
        missed.append(((low > W1.value) | (high < W1.value)).any())
    assert share_missed_at_most(np.array(missed), 0.1)
