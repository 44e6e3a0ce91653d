# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import brentq, linprog

from skope_ope.intervals import breakdown_gamma, sensitivity_bounds


def drawn(seed, n=12, weighted=False):
    rng = np.random.default_rng(seed)
    p = rng.uniform(0.05, 1.0, n)
    pi = rng.random(n) * (rng.random(n) < 0.8)
    r = rng.choice([rng.normal(size=n), rng.integers(0, 2, n)])
    omega = rng.exponential(size=n) if weighted else None
    pi[0] = 0.5
    return pi / p, r.astype(float), p, omega


def programme(w, r, p, omega, gamma, sign):
    """Extreme of sum(omega v r) / sum(omega v), by the transform of Charnes, Cooper.

    Unknown are y = t omega v and t, with sum(y) = 1.
    """
    pi, n = w * p, len(w)
    omega = np.ones(n) if omega is None else omega
    low, high = (omega * pi * (1 + (1 / p - 1) * g) for g in (1 / gamma, gamma))
    eye = np.eye(n)
    found = linprog(
        np.append(sign * r, 0.0),
        A_ub=np.block([[eye, -high[:, None]], [-eye, low[:, None]]]),
        b_ub=np.zeros(2 * n),
        A_eq=np.append(np.ones(n), 0.0)[None],
        b_eq=[1.0],
        bounds=[(0, None)] * (n + 1),
    )
    assert found.success
    return sign * found.fun


@pytest.mark.few_cases
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("seed", range(8))
def test_bounds_are_the_optimum_of_the_programme(seed, weighted):
    w, r, p, omega = drawn(seed, weighted=weighted)
    for gamma in (1.0, 1.3, 2.0, 7.0):
        [low], [high] = sensitivity_bounds(w, r, p, gamma, sample_weight=omega)
        assert_allclose(low, programme(w, r, p, omega, gamma, 1), atol=1e-9)
        assert_allclose(high, programme(w, r, p, omega, gamma, -1), atol=1e-9)


def test_gamma_of_one_is_the_ratio_itself():
    w, r, p, omega = drawn(0, 1000, True)
    [low], [high] = sensitivity_bounds(w, r, p, 1.0, sample_weight=omega)
    assert low == pytest.approx(high, rel=1e-15)
    assert_allclose(low, omega @ (w * r) / (omega @ w), rtol=1e-14)
    for c in (1.0, 0.1, -3.7, 1e9):  # a constant reward stays what it is
        constant = np.full(1000, c)
        ends = sensitivity_bounds(w, constant, p, [1, 2, 100], sample_weight=omega)
        assert (np.array(ends) == c).all()


def test_bounds_widen_with_gamma_within_the_rewards():
    w, r, p, _ = drawn(2, 200)
    gamma = np.append(np.linspace(1, 5, 60), [1e3, 1e9])
    low, high = sensitivity_bounds(w, r, p, gamma)
    assert (np.diff(low) < 0).all() and (np.diff(high) > 0).all()
    used = r[(w > 0) & (p < 1)]
    assert_allclose([low[-1], high[-1]], [used.min(), used.max()], atol=1e-6)
    shuffled = np.random.default_rng(0).permutation(len(gamma))
    assert_allclose(sensitivity_bounds(w, r, p, gamma[shuffled])[0], low[shuffled])


def test_bounds_move_with_shifts_and_turn_with_signs():
    w, r, p, _ = drawn(3, 60)
    low, high = sensitivity_bounds(w, r, p, [1.5, 3])
    assert_allclose(sensitivity_bounds(w, -r, p, [1.5, 3]), (-high, -low))
    assert_allclose(sensitivity_bounds(w, 2 * r + 9, p, [1.5, 3])[0], 2 * low + 9)
    # a sample weight is a number of copies
    copies = np.arange(60) % 4
    expected = sensitivity_bounds(*(np.repeat(x, copies) for x in (w, r, p)), [1.5, 3])
    found = sensitivity_bounds(w, r, p, [1.5, 3], sample_weight=copies)
    assert_allclose(found, expected)


def test_certain_actions_hide_nothing():
    """An action that was taken with certainty has a weight that cannot be wrong."""
    w, r = np.array([0.2, 0.7]), np.array([1.0, 0.0])
    assert_allclose(sensitivity_bounds(w, r, [1.0, 1.0], [1, 10]), 2 / 9)
    assert breakdown_gamma(w, r, [1.0, 1.0], 0.1) == np.inf


@pytest.mark.few_cases
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("seed", range(8))
def test_breakdown_is_where_the_bound_is_the_baseline(seed, weighted):
    w, r, p, omega = drawn(seed, 30, weighted)
    [value], _ = sensitivity_bounds(w, r, p, 1, sample_weight=omega)
    used = r[(w > 0) & (p < 1)]
    for end, share in ((0, 0.3), (0, 0.8), (1, 0.3), (1, 0.8)):
        baseline = value + share * ((used.min(), used.max())[end] - value)
        found = breakdown_gamma(w, r, p, baseline, sample_weight=omega)

        def room(gamma, end=end, baseline=baseline):
            ends = sensitivity_bounds(w, r, p, gamma, sample_weight=omega)
            return ends[end][0] - baseline

        if found == 1:  # all rewards in use are alike
            assert_allclose(baseline, value)
            continue
        assert_allclose(found, brentq(room, 1, 1e6, xtol=1e-10), rtol=1e-7)


def test_breakdown_at_its_ends():
    w, r, p, _ = drawn(5, 30)
    value = w @ r / w.sum()
    assert_allclose(breakdown_gamma(w, r, p, value), 1, atol=1e-12)
    used = r[(w > 0) & (p < 1)]
    for beyond in (used.min() - 1e-6, used.max() + 1e-6):
        assert breakdown_gamma(w, r, p, beyond) == np.inf
    # the largest reward is reached in the limit only
    assert breakdown_gamma(w, r, p, used.max()) == np.inf


BAD_ODDS = [
    (0.9, ValueError, "gamma must be at least 1, got 0.9"),
    ([1, -2], ValueError, "gamma must be at least 1, got -2"),
    ([], ValueError, "gamma is empty"),
    ("2", TypeError, "gamma must hold numbers"),
    (["2"], TypeError, "gamma must hold numbers"),
    (np.nan, ValueError, "gamma"),
    ([1, np.inf], ValueError, "gamma"),
    (None, TypeError, "gamma"),
]
BAD_ROUNDS = [
    ({"w": [1.0, -1.0]}, "w is -1 in row 1"),
    ({"w": [0.0, 0.0]}, "all weights are 0"),
    ({"w": [1.0]}, "one entry per round"),
    ({"w": [], "r": [], "propensity": []}, "at least one round"),
    ({"propensity": [0.5, 0.0]}, "propensity is 0 in row 1"),
    ({"propensity": [1.5, 0.5]}, "propensity is 1.5 in row 0"),
    ({"sample_weight": [1.0, -2.0]}, "sample_weight is -2 in row 1"),
]
ROUNDS = {"w": [1.0, 2.0], "r": [0.0, 1.0], "propensity": [0.5, 0.5]}


def test_bad_input():
    for gamma, error, text in BAD_ODDS:
        with pytest.raises(error, match=text):
            sensitivity_bounds(**ROUNDS, gamma=gamma)
    for given, text in BAD_ROUNDS:
        with pytest.raises(ValueError, match=text):
            sensitivity_bounds(**ROUNDS | given, gamma=2)
        with pytest.raises(ValueError, match=text):
            breakdown_gamma(**ROUNDS | given, baseline=0.1)
    for baseline in (np.nan, np.inf, "0.1", None):
        with pytest.raises(ValueError, match="baseline must be a finite number"):
            breakdown_gamma(**ROUNDS, baseline=baseline)
