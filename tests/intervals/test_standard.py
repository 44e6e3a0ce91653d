# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Intervals from errors: normal, Student, of ratios, gamma; and what an interval is.

Coverage over many logs is counted in test_coverage.py, the vectors of the fixed log
stand in test_fixed_log.py.
"""

import pickle
from copy import copy
from itertools import product

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import stats

from skope_ope import IPS, BanditLogs, ConstantPolicy, summarize
from skope_ope.exceptions import TailWarning
from skope_ope.intervals import (
    ConfidenceInterval,
    delta_ratio_interval,
    fieller_interval,
    gamma_interval,
    normal_interval,
    student_interval,
)

# The container


def test_it_is_the_tuple_of_its_limits():
    interval = ConfidenceInterval(0.25, 1, 0.9, "gamma", 4.0, "stated", (0, 1))
    low, high = interval
    assert interval == (0.25, 1.0) == (low, high)
    assert (interval.low, interval.high, interval.width) == (0.25, 1.0, 0.75)
    assert isinstance(interval.high, float)
    # it travels with what it knows
    warned = TailWarning("heavy", 0.5)
    interval = ConfidenceInterval(0, 1, 0.9, "student", warnings=[warned])
    for other in (pickle.loads(pickle.dumps(interval)), copy(interval)):
        assert other == interval
        assert (other.level, other.method) == (0.9, "student")
        assert other.warnings[0].value == 0.5
        assert other.max_weight is None
    # it prints its limits with their decimals
    interval = ConfidenceInterval(0.47681, 0.55513, 0.95, "gamma")
    told = "ConfidenceInterval(low=0.477, high=0.555, level=0.95, method='gamma')"
    assert repr(interval) == told
    none = ConfidenceInterval(float("nan"), float("nan"), 0.9, "student")
    assert repr(none).startswith("ConfidenceInterval(low=nan, high=nan, level=0.9")
    assert "- to -" in none._repr_html_()


# Normal and Student


def test_quantiles():
    for df, level in product([1, 2, 7, 1000, 10**9], [0.01, 0.5, 0.9, 0.95, 0.999]):
        expected = stats.t(df).interval(level)
        assert_allclose(student_interval(0, 1, df, level), expected, rtol=1e-9)
        found = np.array(student_interval(-3, 0.2, df, level))
        assert_allclose((found + 3) / 0.2, expected, rtol=1e-9, atol=1e-12)
        expected = stats.norm.interval(level, loc=-3, scale=0.2)
        assert_allclose(normal_interval(-3, 0.2, level), expected, rtol=1e-12)
    for low, high in (normal_interval(2, 0.5), student_interval(2, 0.5, 9)):
        assert type(low) is type(high) is float
    assert normal_interval(1.5, 0.0) == student_interval(1.5, 0.0, 9) == (1.5, 1.5)
    assert np.isnan(normal_interval(1.0, np.nan)).all()
    for unknown in ((1.0, np.nan, 9), (1.0, np.nan, 0), (np.nan, 1.0, 9)):
        assert np.isnan(student_interval(*unknown)).all()


@pytest.mark.parametrize("df", [4, 30])
def test_student_covers_normal_samples_exactly(df, global_random_seed):
    """Of normal terms Student's interval is exact at every sample size."""
    rng = np.random.RandomState(global_random_seed)
    samples = rng.normal(3, 2, size=(4000, df + 1))
    means, errors = samples.mean(axis=1), samples.std(axis=1, ddof=1) / (df + 1) ** 0.5
    quantile = stats.norm.ppf(0.95)  # with which few terms fall short
    for found, expected in (
        (student_interval(0, 1, df, 0.9), 0.9),
        (normal_interval(0, 1, 0.9), 1 - 2 * stats.t(df).sf(quantile)),
    ):  # of terms with the error 1: the ends of others are that many errors away
        covered = (np.abs(means - 3) <= found[1] * errors).mean()
        assert abs(covered - expected) < 4 * np.sqrt(expected * (1 - expected) / 4000)


# Ratios

RATIOS = (fieller_interval, delta_ratio_interval)
MOMENTS = 0.3, 1.2, 0.11, 0.25, 0.008  # a, b, their errors, the covariance


def test_limits_of_fieller_solve_its_equation():
    a, b, a_error, b_error, covariance = MOMENTS
    low, high = fieller_interval(*MOMENTS, 30, 0.9)
    t = stats.t.ppf(0.95, 30)
    for rho in (low, high):
        error = np.sqrt(a_error**2 - 2 * rho * covariance + (rho * b_error) ** 2)
        assert_allclose(abs(a - rho * b), t * error, rtol=1e-12)
    assert low < a / b < high


def test_delta_by_hand():
    low, high = delta_ratio_interval(2.0, 4.0, 0.3, 0.4, 0.05, 9, 0.9)
    error = np.sqrt(0.09 - 2 * 0.5 * 0.05 + 0.25 * 0.16) / 4
    assert_allclose((low, high), 0.5 + error * stats.t.ppf([0.05, 0.95], 9))


@pytest.mark.parametrize("interval", RATIOS)
def test_signs_levels_and_a_certain_denominator(interval):
    a, b, *errors, covariance = MOMENTS
    low, high = interval(*MOMENTS, 30)
    assert_allclose(interval(-a, -b, *errors, covariance, 30), (low, high))
    assert_allclose(interval(-a, b, *errors, -covariance, 30), (-high, -low))
    plain = np.array(student_interval(0.3, 0.1, 12))
    assert_allclose(interval(0.3, 2.0, 0.1, 0.0, 0.0, 12), plain / 2)
    for level in (0, 1, 1.5):
        with pytest.raises(ValueError, match=r"level must lie in \(0, 1\)"):
            interval(*MOMENTS, 30, level)


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


def test_a_denominator_that_may_be_zero_has_no_interval():
    t = stats.t.ppf(0.975, 20)
    for interval, moments, known in (
        (fieller_interval, (1.0, 1.0, 0.1, 1.001 / t), False),
        (fieller_interval, (1.0, 1.0, 0.1, 0.999 / t), True),
        (delta_ratio_interval, (1.0, 0.0, 0.1, 0.1), False),
        (fieller_interval, (np.nan, 1.0, 0.1, 0.1), False),
        (fieller_interval, (1.0, 1.0, np.nan, 0.1), False),
    ):
        assert (np.isfinite(interval(*moments, 0.0, 20)) == known).all()


@pytest.mark.parametrize("rates", [(0.4, 0.02), (0.04, 0.03), (0.01, 0.2)])
def test_each_limit_of_a_lift_takes_the_half_widths_that_it_depends_on(rates):
    """Of a positive ratio the lower limit needs how large the denominator may be."""
    rng = np.random.default_rng(0)
    action = rng.integers(2, size=2000)
    reward = (rng.random(2000) < np.array(rates)[action]).astype(float)
    logs = BanditLogs(np.zeros((2000, 1)), action, reward, 0.5, reward_range=(0, 1))
    ips = IPS().fit(logs)
    a, b = ips.evaluate(ConstantPolicy(0)), ips.evaluate(ConstantPolicy(1))
    gain, below = a - b, b.confidence_interval()
    covariance = a.standard_error**2 - b.standard_error**2 - gain.standard_error**2
    correlation = covariance / 2 / (b.standard_error * gain.standard_error)
    limits, found = gain.confidence_interval(), a.lift(b).confidence_interval()
    for sign, rho, limit in zip((1, -1), found, limits, strict=True):
        half = sign * (gain.value - limit)
        up = sign * gain.value > half  # is the limit itself on that side of zero
        b_half = below.high - b.value if up else b.value - below.low
        square = half**2 - 2 * rho * correlation * half * b_half
        assert_allclose(
            sign * (gain.value - rho * b.value), np.sqrt(square + (rho * b_half) ** 2)
        )
    assert [np.sign(x) for x in found] == [np.sign(x) for x in limits]


@pytest.mark.theory
def test_coverage_with_a_noisy_denominator(global_random_seed):
    """Fieller's misses alike on both sides; the delta method's ends too low."""
    rng = np.random.default_rng(global_random_seed)
    n, repetitions, truth = 25, 4000, 2.0
    b = rng.normal(1.0, 0.2 * n**0.5, (repetitions, n))
    a = truth + 0.9 * (b - 1) + rng.normal(0, 0.3, (repetitions, n))
    moments = []
    for one, other in zip(a, b, strict=True):
        covariance = np.cov(one, other) / n
        errors = np.sqrt(covariance.diagonal())
        moments.append((one.mean(), other.mean(), *errors, covariance[0, 1], n - 1))
    low, high = np.transpose([fieller_interval(*one) for one in moments])
    known = np.isfinite(low)
    assert known.mean() > 0.99
    assert 0.011 < np.mean(low[known] > truth) < 0.039
    assert 0.011 < np.mean(high[known] < truth) < 0.039
    low, high = np.transpose([delta_ratio_interval(*one) for one in moments])
    assert np.mean(high < truth) > 0.045
    assert np.mean(low > truth) < 0.005


# Gamma


def test_no_event_has_the_upper_limit_of_half_an_unseen_one():
    low, high = gamma_interval(np.zeros(10_000), up=5.0, down=0.0)
    assert low == 0
    # -ln(alpha) in the place of -ln(alpha / 2), the "rule of three"
    assert_allclose(high, 5 * -np.log(0.05) / 10_000, rtol=1e-3)


def test_gamma_limits_solve_their_equations():
    z, b = np.random.default_rng(0).exponential(size=40), 7.0
    mean, c = z.mean(), z - z.mean()
    up, down = c[c > 0], -c[c < 0]
    y, v = up.sum(), (up**2).sum()
    low, high = gamma_interval(z, b, 0.0, 0.9)
    scale = np.sqrt(40 * 39) * stats.norm.ppf(0.95) / stats.t.ppf(0.95, 39)
    shape = down.sum() ** 2 / (down**2).sum()
    short = down.sum() - stats.gamma.ppf(0.05, shape, scale=down.sum() / shape)
    U = y + np.sqrt(((high - mean) * scale) ** 2 - short**2)
    tail = stats.gamma.sf(U, y**2 / v, scale=v / y)
    v, y = v + b * b, y + b
    tail += stats.gamma.sf(U, y**2 / v, scale=v / y)
    assert_allclose(tail / 2, 0.05, rtol=1e-6)
    assert low < mean < high


def test_many_events_give_students_limits():
    z = np.random.default_rng(1).normal(size=200_000)
    error = z.std(ddof=1) / np.sqrt(len(z))
    expected = student_interval(z.mean(), error, len(z) - 1)
    assert_allclose(gamma_interval(z, 6, 6), expected, atol=0.02 * error)


def test_groups_are_summed():
    z = np.repeat(np.random.default_rng(2).normal(size=300), 20)
    group = np.repeat(np.arange(300), 20)
    alone = gamma_interval(z[::20], 4, 4)
    together = gamma_interval(z, 4, 4, group=group)
    # a bound is that of one round, a twentieth of what a group may bring
    assert_allclose(together, alone, rtol=0, atol=0.05 * (alone[1] - alone[0]))
    assert np.diff(gamma_interval(z, 4, 4)) < 0.4 * np.diff(together)


@pytest.mark.few_cases
@pytest.mark.parametrize("rate", [0.002, 0.005, 0.01, 0.02, 0.03, 0.05, 0.2, 0.5])
@pytest.mark.parametrize("n", [30, 100, 1000])
def test_gamma_coverage_of_a_rate_by_enumeration(n, rate):
    """No simulation: the limits of every possible number of events."""
    k = np.arange(n + 1)
    law = stats.binom(n, rate)
    k = k[(k > law.ppf(1e-7) - 1) & (k < law.ppf(1 - 1e-7) + 1)]
    covered = 0.0
    for count in k:
        z = np.zeros(n)
        z[:count] = 1
        value = z.mean()
        low, high = gamma_interval(z, 1 - value, value)
        covered += law.pmf(count) * (low <= rate <= high)
    assert covered > 0.925


@pytest.mark.parametrize(
    ("terms", "skewness"),
    [([0.0, 0.0, 0.0, 4.0], 27 / 12**1.5), ([-3.0, 0.0, 0.0, 3.0], 27 / 18**1.5)],
)
def test_the_skewness_of_an_unknown_range_is_that_of_the_heavier_side(terms, skewness):
    """Heavy rewards below do not hide those above."""
    logs = BanditLogs(np.zeros((4, 1)), np.zeros(4, int), terms, np.ones(4))
    with pytest.warns(TailWarning) as warned:
        IPS().fit(logs).evaluate(ConstantPolicy(0)).confidence_interval()
    assert_allclose(warned[0].message.value, skewness)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.filterwarnings("ignore::skope_ope.exceptions.OPEWarning")
def test_intervals_from_sums_are_those_of_the_rounds(seed):
    """Where no range is known, an alarm says what sums do not tell."""
    rng = np.random.default_rng(seed)
    action, policy, found = rng.integers(2, size=2000), ConstantPolicy(1), {}
    heavy = rng.lognormal(sigma=1.5, size=2000) * (rng.random(2000) < 0.3)
    for name, reward in {"heavy": heavy, "normal": rng.normal(size=2000)}.items():
        for bounds in (None, (2 * reward.min(), 2 * reward.max())):
            given = np.zeros((2000, 1)), action, reward, 0.5
            logs = BanditLogs(*given, reward_range=bounds)
            value = IPS().fit(logs).evaluate(policy).confidence_interval()
            sums = summarize(policy, logs, evaluators=["IPS"]).values()["IPS"]
            found[name, bounds is not None] = value, sums.confidence_interval()
    for rounds, sums in found.values():
        assert_allclose(sums, rounds, rtol=1e-9)
        assert sums.method == rounds.method
    assert not any(found["normal", False][k].warnings for k in (0, 1))
    [told], [untold] = (one.warnings for one in found["heavy", False])
    assert told.value > 0.22 and untold.name == "tail_of_sums"
