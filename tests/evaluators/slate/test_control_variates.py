# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Estimates with control variates as functions of means."""

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression

from skope_ope.evaluators.core._design import Design
from skope_ope.evaluators.core._estimate import (
    MANY_TERMS,
    Estimate,
    estimate_of_rounds,
)
from skope_ope.evaluators.core._sums import Sums
from skope_ope.evaluators.slate._control_variates import regression_terms


def some_parts(seed=0, n_rounds=200):
    rng = np.random.RandomState(seed)
    parts = rng.normal(size=(n_rounds, 3)) @ rng.normal(size=(3, 3))
    return parts, (1 + parts.sum(axis=1)) * rng.random_sample(n_rounds)


def value_of(gain, parts, **kind):
    terms, combine = regression_terms(gain, parts, **kind)
    return combine([term.mean() for term in terms])


def test_the_formulas_for_independent_slots():
    parts, gain = some_parts()
    total = parts.sum(axis=1)
    single, _ = value_of(gain, parts, single=True, independent=True)
    beta = (gain * total).sum() / (parts**2).sum()
    assert single == pytest.approx(gain.mean() - beta * total.mean())
    multiple, _ = value_of(gain, parts, single=False, independent=True)
    beta = (gain[:, None] * parts).sum(axis=0) / (parts**2).sum(axis=0)
    assert multiple == pytest.approx(gain.mean() - beta @ parts.mean(axis=0))


@pytest.mark.parametrize("single", [False, True])
def test_least_squares_for_others(single):
    parts, gain = some_parts()
    columns = parts.sum(axis=1, keepdims=True) if single else parts
    model = LinearRegression(fit_intercept=False).fit(columns, gain)
    expected = gain.mean() - columns.mean(axis=0) @ model.coef_
    found, _ = value_of(gain, parts, single=single, independent=False)
    assert found == pytest.approx(expected)


@pytest.mark.parametrize("independent", [False, True])
@pytest.mark.parametrize("single", [False, True])
def test_gradients(single, independent):
    parts, gain = some_parts()
    terms, combine = regression_terms(
        gain, parts, single=single, independent=independent
    )
    means = np.array([term.mean() for term in terms])
    value, gradient = combine(means)
    assert len(gradient) == len(terms)
    for k, slope in enumerate(gradient):
        moved = means.copy()
        moved[k] += 1e-6
        assert (combine(moved)[0] - value) / 1e-6 == pytest.approx(slope, abs=1e-4)


def test_parts_that_are_zero_change_nothing():
    _, gain = some_parts()
    value, gradient = value_of(
        gain, np.full((200, 3), 1e-16), single=False, independent=False
    )
    assert value == gain.mean()
    assert not any(gradient[1:])
    terms, combine = regression_terms(
        gain, np.zeros((200, 3)), single=True, independent=True
    )
    assert np.isnan(combine([np.nan] * len(terms))[0])


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("grouped", [False, True])
def test_errors_without_products_are_those_with_them(weighted, grouped):
    parts, gain = some_parts()
    terms, combine = regression_terms(gain, parts, single=False, independent=False)
    assert len(terms) > MANY_TERMS
    rng = np.random.RandomState(1)
    omega = rng.randint(3, size=200) / 1.0 if weighted else None
    groups = (rng.randint(50, size=200), np.arange(50)) if grouped else (None, None)
    design = Design(200, omega, None, None, *groups)
    found = estimate_of_rounds(design, terms, combine)
    sums = Sums(design)
    sums.add(design.block(0, 200), terms)
    expected = Estimate(sums, combine)
    for name in ("value", "standard_error", "independent_error", "degrees_of_freedom"):
        assert getattr(found, name) == pytest.approx(getattr(expected, name), rel=1e-12)
    with pytest.raises(ValueError, match="without products"):
        found.sums.product(0, 1)
    with pytest.raises(ValueError, match="without products"):
        found.sums + found.sums


def test_constant_terms_have_no_error():
    parts, _ = some_parts()
    terms, combine = regression_terms(
        np.full(200, 0.1), 0 * parts, single=False, independent=False
    )
    found = estimate_of_rounds(Design(200), terms, combine)
    assert found.standard_error == 0
    assert found.value == pytest.approx(0.1)
