# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Normal and Student intervals; their coverage is counted in test_coverage.py."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import stats

from skope_ope.intervals import normal_interval, student_interval

# terms of IPS on the fixed log of eight rounds
Z = np.array([0, 1 / 3, 4, 0.2, 0, 1 / 6, 3, 0])
ERROR = Z.std(ddof=1) / np.sqrt(8)


def test_the_fixed_log():
    normal = normal_interval(Z.mean(), ERROR)
    assert_allclose(normal, (-0.141500, 2.066500), rtol=0, atol=6e-7)
    student = student_interval(Z.mean(), ERROR, 7)
    assert_allclose(student, (-0.369435, 2.294435), rtol=0, atol=6e-7)


@pytest.mark.parametrize("level", [0.01, 0.5, 0.9, 0.95, 0.999])
@pytest.mark.parametrize("df", [1, 2, 7, 1000, 10**9])
def test_quantiles(level, df):
    expected = stats.t(df).interval(level)
    assert_allclose(student_interval(0, 1, df, level), expected, rtol=1e-9)
    expected = stats.norm.interval(level, loc=-3, scale=0.2)
    assert_allclose(normal_interval(-3, 0.2, level), expected, rtol=1e-12)


def test_student_tends_to_normal_from_outside():
    widths = [np.diff(student_interval(0, 1, df))[0] for df in (1, 5, 50, 5000, 10**8)]
    assert widths == sorted(widths, reverse=True)
    assert_allclose(widths[-1], np.diff(normal_interval(0, 1))[0], rtol=1e-7)


def test_floats_symmetric_around_the_value():
    for low, high in (normal_interval(2, 0.5), student_interval(2, 0.5, 9)):
        assert type(low) is type(high) is float
        assert_allclose(2 - low, high - 2, rtol=1e-12)


def test_no_error_no_width():
    assert normal_interval(1.5, 0.0) == (1.5, 1.5)
    assert student_interval(1.5, 0.0, 9) == (1.5, 1.5)


def test_what_is_unknown_stays_unknown():
    for interval in (
        normal_interval(1.0, np.nan),
        student_interval(1.0, np.nan, 9),
        student_interval(1.0, np.nan, 0),
        student_interval(np.nan, 1.0, 9),
    ):
        assert np.isnan(interval).all()


@pytest.mark.parametrize("df", [4, 30])
def test_student_covers_normal_samples_exactly(df, global_random_seed):
    """Of normal terms Student's interval is exact at every sample size."""
    rng = np.random.RandomState(global_random_seed)
    samples = rng.normal(3, 2, size=(4000, df + 1))
    means, errors = samples.mean(axis=1), samples.std(axis=1, ddof=1) / (df + 1) ** 0.5
    low, high = np.transpose(
        [student_interval(m, e, df, 0.9) for m, e in zip(means, errors, strict=True)]
    )
    covered = ((low <= 3) & (high >= 3)).mean()
    assert abs(covered - 0.9) < 4 * np.sqrt(0.9 * 0.1 / 4000)
    if df == 4:  # where the normal one falls short
        low, high = np.transpose(
            [normal_interval(m, e, 0.9) for m, e in zip(means, errors, strict=True)]
        )
        expected = 1 - 2 * stats.t(df).sf(stats.norm.ppf(0.95))
        covered = ((low <= 3) & (high >= 3)).mean()
        assert abs(covered - expected) < 4 * np.sqrt(expected * (1 - expected) / 4000)
