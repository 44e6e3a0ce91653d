# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import t as student

from skope_ope.intervals import (
    delta_ratio_interval,
    fieller_interval,
    student_interval,
)
from skope_ope.intervals._ratio import ratio_limits

MOMENTS = 0.3, 1.2, 0.11, 0.25, 0.008  # a, b, their errors, the covariance


def test_limits_of_fieller_solve_its_equation():
    a, b, a_error, b_error, covariance = MOMENTS
    low, high = fieller_interval(*MOMENTS, 30, 0.9)
    t = student.ppf(0.95, 30)
    for rho in (low, high):
        error = np.sqrt(a_error**2 - 2 * rho * covariance + (rho * b_error) ** 2)
        assert_allclose(abs(a - rho * b), t * error, rtol=1e-12)
    assert low < a / b < high


def test_delta_by_hand():
    low, high = delta_ratio_interval(2.0, 4.0, 0.3, 0.4, 0.05, 9, 0.9)
    error = np.sqrt(0.09 - 2 * 0.5 * 0.05 + 0.25 * 0.16) / 4
    assert_allclose((low, high), 0.5 + error * student.ppf([0.05, 0.95], 9))


def test_signs_of_both_may_turn():
    a, b, *errors, covariance = MOMENTS
    for interval in (fieller_interval, delta_ratio_interval):
        low, high = interval(*MOMENTS, 30)
        assert_allclose(interval(-a, -b, *errors, covariance, 30), (low, high))
        assert_allclose(interval(-a, b, *errors, -covariance, 30), (-high, -low))


def test_fieller_holds_zero_where_students_does():
    rng = np.random.default_rng(0)
    found = set()
    for _ in range(400):
        a, freedom = rng.normal(0, 2), rng.integers(3, 50)
        moments = a, 9.0, 1.0, 1.5, rng.uniform(-1, 1) * 1.5
        low, high = fieller_interval(*moments, freedom, 0.8)
        holds = low <= 0 <= high
        plain = student_interval(a, 1.0, freedom, 0.8)
        assert holds == (plain[0] <= 0 <= plain[1])
        found.add(bool(holds))
    assert found == {False, True}


def test_a_certain_denominator_scales_students_interval():
    plain = np.array(student_interval(0.3, 0.1, 12))
    for interval in (fieller_interval, delta_ratio_interval):
        assert_allclose(interval(0.3, 2.0, 0.1, 0.0, 0.0, 12), plain / 2)


def test_a_denominator_that_may_be_zero_has_no_interval():
    t = student.ppf(0.975, 20)
    assert np.isnan(fieller_interval(1.0, 1.0, 0.1, 1.001 / t, 0.0, 20)).all()
    assert np.isfinite(fieller_interval(1.0, 1.0, 0.1, 0.999 / t, 0.0, 20)).all()
    assert np.isnan(delta_ratio_interval(1.0, 0.0, 0.1, 0.1, 0.0, 20)).all()
    assert np.isnan(fieller_interval(np.nan, 1.0, 0.1, 0.1, 0.0, 20)).all()
    assert np.isnan(fieller_interval(1.0, 1.0, np.nan, 0.1, 0.0, 20)).all()


@pytest.mark.parametrize("level", [0, 1, 1.5])
def test_levels_are_checked(level):
    for interval in (fieller_interval, delta_ratio_interval):
        with pytest.raises(ValueError, match=r"level must lie in \(0, 1\)"):
            interval(*MOMENTS, 30, level)


def test_uneven_limits_keep_the_sign_of_the_numerator():
    rng = np.random.default_rng(1)
    for _ in range(300):
        a, b = rng.normal(), rng.exponential() + 0.1
        below, above = rng.exponential(size=2)
        b_limits = b * rng.random(), b * (1 + 4 * rng.exponential())
        correlation = rng.uniform(-1, 1)
        low, high = ratio_limits(a, b, (a - below, a + above), b_limits, correlation)
        assert low <= a / b <= high
        assert (low > 0) == (a > below) and (high < 0) == (a + above < 0)
        turned = ratio_limits(-a, b, (-a - above, -a + below), b_limits, -correlation)
        assert_allclose(turned, (-high, -low), atol=1e-12)


def test_each_limit_takes_the_half_widths_that_it_depends_on():
    """Of a positive ratio the lower limit needs how large the denominator may be."""
    correlation = 0.3
    for a, b_half in ((2.0, 1.5), (0.5, 0.4)):  # above its lower limit, or below
        low, _ = ratio_limits(a, 1.0, (a - 1, a + 3), (0.6, 2.5), correlation)
        square = 1 - 2 * low * correlation * b_half + (low * b_half) ** 2
        assert_allclose(a - low, np.sqrt(square))
    for a, b_half in ((0.5, 0.4), (-4.0, 1.5)):
        _, high = ratio_limits(a, 1.0, (a - 1, a + 3), (0.6, 2.5), correlation)
        square = 9 - 2 * high * correlation * 3 * b_half + (high * b_half) ** 2
        assert_allclose(high - a, np.sqrt(square))


def test_with_independent_even_limits_it_is_the_equation_of_fieller():
    a, b, a_error, b_error, _ = MOMENTS
    t = student.ppf(0.975, 30)
    limits = [(x - t * e, x + t * e) for x, e in ((a, a_error), (b, b_error))]
    expected = fieller_interval(a, b, a_error, b_error, 0.0, 30)
    assert_allclose(ratio_limits(a, b, *limits, 0.0), expected)


@pytest.mark.theory
def test_coverage_with_a_noisy_denominator(global_random_seed):
    """Fieller's misses alike on both sides; the delta method's ends too low."""
    rng = np.random.default_rng(global_random_seed)
    n, repetitions, truth = 25, 4000, 2.0
    b = rng.normal(1.0, 0.2 * n**0.5, (repetitions, n))
    a = truth + 0.9 * (b - 1) + rng.normal(0, 0.3, (repetitions, n))
    found = {fieller_interval: [], delta_ratio_interval: []}
    for one, other in zip(a, b, strict=True):
        covariance = np.cov(one, other) / n
        errors = np.sqrt(covariance.diagonal())
        moments = one.mean(), other.mean(), *errors, covariance[0, 1], n - 1
        for interval, limits in found.items():
            limits.append(interval(*moments))
    low, high = np.array(found[fieller_interval]).T
    known = np.isfinite(low)
    assert known.mean() > 0.99
    assert 0.011 < np.mean(low[known] > truth) < 0.039
    assert 0.011 < np.mean(high[known] < truth) < 0.039
    low, high = np.array(found[delta_ratio_interval]).T
    assert np.mean(high < truth) > 0.045
    assert np.mean(low > truth) < 0.005
