# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.stats import f as f_distribution

from skope_ope.intervals import cressie_read_interval, cressie_read_value
from tests._worlds import W1, d8, log_of

D8 = d8()
W, R = np.take_along_axis(D8.pi, D8.action[:, None], 1)[:, 0] / D8.propensity, D8.reward
UNIT = {"reward_range": (0, 1)}


def test_vectors():
    assert cressie_read_value(W, R, max_weight=6, **UNIT) == pytest.approx(
        0.793805, abs=5e-7
    )
    assert cressie_read_interval(W, R, max_weight=6, **UNIT) == (0, 1)


def shares(w, z, direction, radius):
    """Least mean of direction * z over shares near to equal ones, by a solver."""
    n = len(w)
    found = minimize(
        lambda u: direction * np.mean((1 + u) * z),
        np.zeros(n),
        jac=lambda u: direction * z / n,
        method="SLSQP",
        constraints=[
            {"type": "eq", "fun": lambda u: u.sum()},
            {"type": "eq", "fun": lambda u: np.mean((1 + u) * w) - 1},
            {"type": "ineq", "fun": lambda u: radius - u @ u, "jac": lambda u: -2 * u},
        ],
        options={"ftol": 1e-12, "maxiter": 500},
    )
    return direction * found.fun if found.success else np.nan


@pytest.mark.few_cases(2)
@pytest.mark.parametrize("bounds", [(0.0, 6.0), (0.1, 4.5), (-1.0, 5.0)])
@pytest.mark.parametrize("reward_range", [(0, 1), (-1, 2)])
def test_against_a_solver(bounds, reward_range):
    """The closed form is the optimum of what the docstring says."""
    level = 0.6
    n, low, high = len(W), *reward_range
    added = max(bounds) if W.mean() < 1 else min(bounds)
    all_w = np.append(W, added)
    mean, variance = all_w.mean(), all_w.var()
    nearest = (1 + (1 - mean) * (all_w - mean) / variance) / (n + 1)
    assert nearest @ all_w == pytest.approx(1)
    radius = (n + 1) * (1 - mean) ** 2 / variance
    radius += f_distribution.ppf(level, 1, n - 1)
    ends = []
    for sign in (1, -1):
        per_weight = []
        for weight in bounds:
            term = sign * min(sign * weight * low, sign * weight * high)
            z = np.append(W * R, term)
            per_weight.append(shares(np.append(W, weight), z, sign, radius))
        ends.append(sign * np.nanmin(sign * np.array(per_weight)))
    found = cressie_read_interval(
        W,
        R,
        max_weight=bounds[1],
        min_weight=bounds[0],
        reward_range=reward_range,
        level=level,
    )
    assert found == pytest.approx(np.clip(ends, low, high), abs=1e-6)
    assert low < found[0] < found[1] <= high
    middle = nearest @ np.append(W * R, added * (low + high) / 2)
    value = cressie_read_value(
        W, R, max_weight=bounds[1], min_weight=bounds[0], reward_range=reward_range
    )
    assert value == pytest.approx(np.clip(middle, low, high))


def test_all_weights_one_is_the_interval_of_a_mean():
    r = np.array([0.0, 1, 1, 0, 1, 0, 0, 1, 1, 1])
    low, high = cressie_read_interval(np.ones(10), r, max_weight=1, **UNIT)
    assert 0 < low < r.mean() < high < 1
    assert high - low == pytest.approx(2 * 2.262 * r.std(ddof=1) / 10**0.5, rel=0.2)


def test_no_match_at_all_says_nothing():
    r = np.array([0.0, 1.0, 1.0])
    assert cressie_read_interval(np.zeros(3), r, max_weight=3, **UNIT) == (0, 1)


def test_a_single_round_says_nothing():
    assert cressie_read_interval([2.0], [1.0], max_weight=3, reward_range=(-1, 2)) == (
        -1,
        2,
    )


def test_units_of_the_rewards():
    """Scale and shift of rewards scale and shift both ends; a new sign swaps them."""
    rng = np.random.default_rng(0)
    w, r = rng.gamma(1, 1, 200), rng.random(200)
    low, high = cressie_read_interval(w, r, max_weight=9, **UNIT)
    moved = cressie_read_interval(w, 3 * r + 7, max_weight=9, reward_range=(7, 10))
    assert moved == pytest.approx((3 * low + 7, 3 * high + 7))
    turned = cressie_read_interval(w, -r, max_weight=9, reward_range=(-1, 0))
    assert turned == pytest.approx((-high, -low))


@pytest.mark.theory
def test_coverage():
    """At least the level less 4 standard errors, in W1 with n = 500."""
    rng = np.random.default_rng(0)
    n, repetitions, covered = 500, 1000, 0
    for _ in range(repetitions):
        x = rng.integers(2, size=n)
        action = (rng.random((n, 1)) > W1.mu[x].cumsum(1)).sum(1)
        reward = rng.random(n) < W1.q[x, action]
        log = log_of(W1, x, action, reward)
        w = log.pi[np.arange(n), action] / log.propensity
        low, high = cressie_read_interval(w, log.reward, max_weight=4, **UNIT)
        covered += low <= W1.value <= high
    assert covered / repetitions >= 0.95 - 4 * (0.95 * 0.05 / repetitions) ** 0.5
