# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Options of intervals, and one-sided bounds."""

import warnings

import numpy as np
import pytest

from skope_ope import IPS, SNIPS, BanditLogs, ConstantPolicy
from skope_ope.evaluators.core._intervals import NAMES, USERS
from skope_ope.exceptions import FewEventsWarning, TailWarning

N = 400


def make_value(evaluator=None, rate=0.4):
    rng = np.random.default_rng(0)
    action = rng.integers(3, size=N)
    reward = (rng.random(N) < rate) * 1.0
    logs = BanditLogs(
        np.zeros((N, 1)), action, reward, np.full(N, 1 / 3), reward_range=(0, 1)
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return (evaluator or IPS()).fit(logs).evaluate(ConstantPolicy(1))


# The jackknife leaves out groups, and has tests of its own.
@pytest.mark.few_cases(5)
@pytest.mark.parametrize("method", [name for name in NAMES if name != "jackknife"])
def test_bounds_are_ends_of_the_interval_with_the_same_tails(method):
    value = make_value()
    interval = value.confidence_interval(0.9, method)
    low, high = value.lower_bound(0.95, method), value.upper_bound(0.95, method)
    assert (low, high) == pytest.approx((interval.low, interval.high), abs=1e-12)
    assert type(low) is type(high) is float
    assert low < value.value < high
    assert (
        value.lower_bound(0.99, method) < low < high < value.upper_bound(0.99, method)
    )


@pytest.mark.parametrize("bound", ["lower_bound", "upper_bound"])
def test_a_one_sided_level_is_above_a_half(bound):
    value = make_value()
    for level in (0.5, 0.05):
        with pytest.raises(
            ValueError, match=r"must lie in \(0\.5, 1\), got 0\.\d+: at"
        ):
            getattr(value, bound)(level)
    for level in (0, 1, 95, "95%"):
        with pytest.raises(ValueError, match=r"level must lie in \(0, 1\), got"):
            getattr(value, bound)(level)


def test_bounds_warn_and_take_options():
    value = make_value(rate=0.01)
    with pytest.warns(FewEventsWarning) as caught:
        value.lower_bound()
    assert caught[0].filename == __file__
    narrow, wide = (
        value.upper_bound(method="hoeffding", max_weight=most) for most in (3, 30)
    )
    assert narrow < wide


@pytest.mark.few_cases
@pytest.mark.parametrize("option", USERS)
@pytest.mark.parametrize("method", NAMES)
def test_options_that_a_method_does_not_use_are_refused(option, method):
    value, given = make_value(), {option: 500 if option == "n_resamples" else 3}
    if method in USERS[option]:
        value.confidence_interval(method=method, **given)
        return
    with pytest.raises(ValueError, match=f"method='{method}' does not use {option}"):
        value.confidence_interval(method=method, **given)


def test_options_that_nothing_uses_are_named():
    with pytest.raises(TypeError, match="take no 'alpha'; they take max_weight, n_res"):
        make_value().lower_bound(0.9, alpha=0.1)


@pytest.mark.parametrize("method", NAMES)
def test_one_round(method):
    """Limits are those of the range, unknown, or refused; none is a number too many."""
    logs = BanditLogs([[0.0]], [0], [0.0], [0.5], actions=[0, 1], reward_range=(0, 1))
    value = IPS().fit(logs).evaluate(np.array([[1.0, 0.0]]))
    options = {"max_weight": 2.0} if method in USERS["max_weight"] else {}
    refusing = ("bootstrap", "percentile", "empirical_bernstein", "jackknife")
    if method in refusing:
        told = r"got 1: every|got one|these rounds have none"
        with pytest.raises(ValueError, match=told):
            value.confidence_interval(method=method)
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = value.confidence_interval(method=method, **options)
    if method in ("student", "normal"):
        assert np.isnan(found).all()
    else:
        assert found == (0, 1)


def test_finite_sample_methods_refuse_ratios():
    value = make_value(SNIPS())
    for method in ("hoeffding", "empirical_bernstein"):
        with pytest.raises(
            ValueError, match=r"of SNIPS is a ratio of two\. Use 'betting'"
        ):
            value.confidence_interval(method=method)
    assert 0 <= value.confidence_interval(method="log_smoothing").low < value.value


@pytest.mark.parametrize("method", ["student", "normal"])
def test_no_width_is_warned_of(method):
    value = make_value(rate=0.0)
    with pytest.warns(TailWarning, match="the interval has no width"):
        assert value.confidence_interval(method=method) == (0.0, 0.0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert make_value().confidence_interval(method=method).width > 0
