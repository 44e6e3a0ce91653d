# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import binom, gamma

from skope_ope.intervals import gamma_interval, student_interval
from skope_ope.intervals._gamma import DeviationBounds, deviations_of, gamma_limits


def test_no_event_has_the_upper_limit_of_half_an_unseen_one():
    low, high = gamma_interval(np.zeros(10_000), up=5.0, down=0.0)
    assert low == 0
    # -ln(alpha) in the place of -ln(alpha / 2), the "rule of three"
    assert_allclose(high, 5 * -np.log(0.05) / 10_000, rtol=1e-3)


def test_limits_solve_their_equations():
    rng = np.random.default_rng(0)
    z, b = rng.exponential(size=40), 7.0
    d = deviations_of(z, z.mean())
    low, high = gamma_limits(z.mean(), d, b, 0.0, 0.9, np.inf)
    scale = np.sqrt(40 * 39)
    shape = d.down**2 / d.down_square
    short = d.down - gamma.ppf(0.05, shape, scale=d.down_square / d.down)
    beyond = np.sqrt(((high - z.mean()) * scale) ** 2 - short**2)
    U = d.up + beyond
    with_more = (d.up + b) ** 2 / (d.up_square + b * b)
    tail = gamma.sf(U, d.up**2 / d.up_square, scale=d.up_square / d.up)
    tail += gamma.sf(U, with_more, scale=(d.up_square + b * b) / (d.up + b))
    assert_allclose(tail / 2, 0.05, rtol=1e-6)
    assert low < z.mean() < high


def test_many_events_give_students_limits():
    rng = np.random.default_rng(1)
    z = rng.normal(size=200_000)
    error = z.std(ddof=1) / np.sqrt(len(z))
    expected = student_interval(z.mean(), error, len(z) - 1)
    assert_allclose(gamma_interval(z, 6, 6), expected, atol=0.02 * error)


def test_groups_are_summed():
    rng = np.random.default_rng(2)
    z = np.repeat(rng.normal(size=300), 20)
    group = np.repeat(np.arange(300), 20)
    alone = gamma_interval(z[::20], 4, 4)
    together = gamma_interval(z, 4, 4, group=group)
    # a bound is that of one round, a twentieth of what a group may bring
    assert_allclose(together, alone, rtol=0, atol=0.05 * (alone[1] - alone[0]))
    assert np.diff(gamma_interval(z, 4, 4)) < 0.4 * np.diff(together)


@pytest.mark.few_cases
@pytest.mark.parametrize("rate", [0.002, 0.005, 0.01, 0.02, 0.03, 0.05, 0.2, 0.5])
@pytest.mark.parametrize("n", [30, 100, 1000])
def test_coverage_of_a_rate_by_enumeration(n, rate):
    """No simulation: the limits of every possible number of events."""
    k = np.arange(n + 1)
    k = k[(k > binom.ppf(1e-7, n, rate) - 1) & (k < binom.ppf(1 - 1e-7, n, rate) + 1)]
    covered = 0.0
    for count in k:
        z = np.zeros(n)
        z[:count] = 1
        value = z.mean()
        low, high = gamma_interval(z, 1 - value, value)
        covered += binom.pmf(count, n, rate) * (low <= rate <= high)
    assert covered > 0.925


def test_deviations():
    d = deviations_of(np.array([0.0, 0.0, 0.0, 4.0]), 1.0)
    assert (d.n, d.up, d.up_square, d.down, d.down_square) == (4, 3, 9, 3, 3)
    assert d.effective_events == 1  # one round above, three below
    assert_allclose(d.skewness, 27 / 12**1.5)
    hidden = deviations_of(np.array([-3.0, 0.0, 0.0, 3.0]), 0.0)
    assert_allclose(hidden.skewness, 27 / 18**1.5)  # the sides do not cancel
    nothing = deviations_of(np.ones(4), 1.0)
    assert nothing.effective_events == 0
    assert np.isnan(nothing.skewness)


@pytest.mark.parametrize("seed", range(4))
def test_bounds_of_deviations_hold_for_the_rounds(seed):
    rng = np.random.default_rng(seed)
    z = rng.lognormal(sigma=1.5, size=300) * (rng.random(300) < 0.3)
    value = z.mean()
    known, square = deviations_of(z, value), ((z - value) ** 2).sum()
    fourth = ((z - value) ** 4).sum()
    ends = z.min() - value, z.max() - value
    found = DeviationBounds.of(300, square, *ends, fourth)
    assert known.known and not found.known
    assert found.effective_events <= known.effective_events
    assert known.skewness <= found.skewness * (1 + 1e-12)
    assert_allclose(found.up_square + found.down_square, square)
    low, high = gamma_limits(value, known, 20.0, 1.0, 0.95, 299)
    limits = [
        gamma_limits(value, one, 20.0, 1.0, 0.95, 299) for one in found.possible()
    ]
    assert min(limit[0] for limit in limits) <= low
    assert max(limit[1] for limit in limits) >= high
    unknown = DeviationBounds.of(300, square, -np.inf, np.inf)
    assert unknown.skewness >= found.skewness


@pytest.mark.parametrize("seed", range(4))
def test_fourth_powers_tell_that_events_are_many(seed):
    z = np.random.default_rng(seed).normal(size=2000)
    known, square = deviations_of(z, z.mean()), ((z - z.mean()) ** 2).sum()
    fourth = ((z - z.mean()) ** 4).sum()
    far = -50.0, 50.0  # ends that may be
    told = DeviationBounds.of(2000, square, *far, fourth)
    untold = DeviationBounds.of(2000, square, *far)
    assert untold.effective_events < 10 < told.effective_events
    assert told.effective_events < known.effective_events
