# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Formulas that no public number shows: e-values of the mean weight, uniform counts."""

from itertools import product
from math import comb, exp, log

import numpy as np
import pytest
from numpy.testing import assert_allclose

from skope_ope.evaluators.core._design import Design
from skope_ope.evaluators.core._loggers import chance_if_uniform
from skope_ope.evaluators.core._mean_weight import (
    LAMBDAS,
    bounded,
    deviations,
    evidence_above,
    evidence_below,
    log_evidence,
    surprise,
)
from skope_ope.evaluators.core._sums import sums_of_rounds


def sums_of(w, **design):
    return sums_of_rounds(Design(len(w), **design), [np.asarray(w, dtype=float)])


# weights of mean one: skewed to the right, to the left, and of three kinds
LAWS = [
    ([0.0, 2.0], [0.5, 0.5]),
    ([0.0, 20.0], [0.95, 0.05]),
    ([0.9, 10.9], [0.99, 0.01]),
    ([0.0, 1.02040816326530612], [0.02, 0.98]),
    ([0.0, 1.0, 5.0], [0.4, 0.5, 0.1]),
]


@pytest.mark.parametrize("n", [1, 4, 9])
@pytest.mark.parametrize("law", LAWS, ids=str)
def test_its_expectation_is_at_most_one(law, n):
    """By enumeration of all logs of n rounds, in both directions."""
    values, proba = map(np.array, law)
    assert values @ proba == pytest.approx(1)
    above = below = 0.0
    for counts in product(range(n + 1), repeat=len(values) - 1):
        counts = np.array([*counts, n - sum(counts)])
        if counts.min() < 0:
            continue
        ways, left = 1, n
        for k in counts.tolist():
            ways, left = ways * comb(left, k), left - k
        chance = ways * float(np.prod(proba**counts))
        w = np.repeat(values, counts)
        above += chance * exp(evidence_above(sums_of(bounded(w, n, w.max()))))
        below += chance * exp(evidence_below(sums_of(w), values.max()))
    assert above <= 1 + 1e-12
    assert below <= 1 + 1e-12


def test_weights_that_are_too_large_are_found():
    rng = np.random.RandomState(0)
    p = rng.dirichlet([1.0, 1.0, 1.0], 1000)
    action = (rng.random_sample((1000, 1)) > p.cumsum(axis=1)).sum(axis=1)
    w = 1 / p[np.arange(1000), action]  # of a policy that copies what was logged
    assert evidence_above(sums_of(bounded(w, 1000, w.max()))) > 100
    assert evidence_below(sums_of(w), w.max()) < 0
    w[7] = 1e9  # one round cannot hide the others
    assert evidence_above(sums_of(bounded(w, 1000, w.max()))) > 100


def test_the_mixture_is_near_the_best_and_a_bound_copies_nothing():
    total, square = 60.0, 200.0
    best = max(lam * total + (np.log1p(-lam) + lam) * square for lam in LAMBDAS)
    assert best - log(len(LAMBDAS)) <= log_evidence(total, square) <= best
    w = np.array([0.5, 2.0, 9.0])
    assert bounded(w, 100, 9.0) is w
    assert_allclose(bounded(w, 25, 9.0), [0.5, 2.0, 5.0])


def test_units_are_groups():
    w = np.array([0.5, 1.5, 2.0, 1.0, 0.0, 3.0])
    total, square, unit = deviations(sums_of(w))
    assert_allclose([total, square, unit], [2.0, 0.25 + 0.25 + 1 + 1 + 4, 1.0])
    cluster = np.array([0, 0, 1, 1, 1, 2])
    grouped = sums_of(w, cluster=cluster, clusters=np.arange(3))
    assert_allclose(deviations(grouped), [2.0, 0 + 0 + 4, 3.0])
    # a log whose rounds are all repeated in groups of their own tells as much
    cluster = np.repeat(np.arange(6), 2)
    twice = sums_of(np.repeat(w, 2), cluster=cluster, clusters=np.arange(6))
    assert evidence_above(twice) == pytest.approx(evidence_above(sums_of(w)))


def test_sample_weights_and_strata_count():
    w, omega = np.array([0.5, 1.5, 2.0, 3.0]), np.array([2.0, 1.0, 0.5, 0.5])
    gap = omega * (w - 1)
    found = deviations(sums_of(w, omega=omega))
    assert_allclose(found, [gap.sum(), gap @ gap, 2.0])
    stratum = np.array([0, 1, 0, 1])
    sums = sums_of(w, omega=omega, stratum=stratum, strata=["a", "b"])
    factor = np.array([0.5, 2.0])
    gap = factor[stratum] * gap
    assert_allclose(deviations(sums, factor), [gap.sum(), gap @ gap, 4.0])


def test_weights_that_may_be_negative_need_a_bound():
    w = np.tile([-1.0, 4.0], 100)
    one, more = (evidence_above(sums_of(w), lowest=low) for low in (-1.0, -3.0))
    assert more < one
    assert one == pytest.approx(log_evidence(200 * 0.5 / 2, 100 * (4 + 9) / 4))


def test_chances_of_equal_weights_and_of_uniform_counts():
    assert surprise(2.0, 10) == pytest.approx(10 * log(2))
    assert surprise(0.0, 10) == 0.0
    # two degrees of freedom: exp(-10 / 2); one: a normal value beyond 2
    assert chance_if_uniform([10, 20, 30]) == pytest.approx(np.exp(-5), rel=1e-12)
    assert chance_if_uniform([60, 40]) == pytest.approx(0.0455002638963584, rel=1e-9)
    assert chance_if_uniform([50, 50]) == 1
    assert chance_if_uniform([900, 100]) < 1e-100
    assert chance_if_uniform([7]) == 1
