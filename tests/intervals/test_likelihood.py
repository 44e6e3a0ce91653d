# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Empirical likelihood and its quadratic relative, of weights that average one.

The vectors of the fixed log stand in test_fixed_log.py.
"""

import numpy as np
import pytest
from scipy.optimize import linprog, minimize, minimize_scalar
from scipy.stats import binom
from scipy.stats import f as f_distribution

from skope_ope.intervals import (
    betting_ratio_interval,
    cressie_read_interval,
    cressie_read_value,
    empirical_likelihood_interval,
    empirical_likelihood_value,
)
from tests._worlds import W1, d8, log_of

D8 = d8()
W, R = np.take_along_axis(D8.pi, D8.action[:, None], 1)[:, 0] / D8.propensity, D8.reward
UNIT = {"reward_range": (0, 1)}
BOTH = [cressie_read_interval, empirical_likelihood_interval]
SIGNED = [*BOTH, cressie_read_value, empirical_likelihood_value]
ALL = [*SIGNED, betting_ratio_interval]


# What both share, and the betting interval of a ratio with them

KNOWN = {"max_weight": 4.0, "reward_range": (0, 1)}
W3, R3 = np.array([0.0, 2.0, 1.0]), np.array([0.0, 1.0, 0.5])
OUTSIDE = r"w has 1 entries outside .* the first"
A_RANGE = "reward_range must be two finite numbers"
BAD = [
    ({"r": [0, 1, 2]}, r"r has 1 entries outside \[0, 1\], the first 2\.0 in row 2"),
    ({"w": [0, 5, 1]}, rf"{OUTSIDE} 5\.0 in row 1"),
    ({"w": [0, -1, 1]}, rf"{OUTSIDE} -1\.0 in row 1"),
    ({"w": [0, np.nan, 1]}, "w must be finite, got nan at row 1"),
    ({"r": [0, np.nan, 1]}, "r must be finite, got nan at row 1"),
    ({"w": [], "r": []}, "at least one round"),
    ({"r": R3[:2]}, "one entry per round"),
    *(({"reward_range": b}, A_RANGE) for b in ((1, 0), (0, 0), (0, np.inf))),
    ({"reward_range": (np.nan, 1)}, A_RANGE),
    *(({"max_weight": b}, "max_weight must be finite") for b in (np.inf, np.nan)),
    ({"w": W3 * 0, "max_weight": 0.5}, "max_weight at least 1"),
    # weights that average one, none of which is above it, are all one
    ({"w": [1, 0.5, 1], "max_weight": 1}, r"the first 0\.5 in row 1"),
]
BAD_SIGNED = [
    ({"w": W3 + 2, "min_weight": 2}, "min_weight must be at most 1"),
    ({"min_weight": 0.5}, r"the first 0\.0 in row 0"),
]


every_function = pytest.mark.parametrize("function", ALL)


@every_function
def test_bad_input(function):
    for wrong, message in BAD + BAD_SIGNED * (function in SIGNED):
        with pytest.raises(ValueError, match=message):
            function(**{"w": W3, "r": R3} | KNOWN | wrong)
    for bounds in (1, (0, 1, 2), ("a", "b")):
        with pytest.raises(TypeError, match="reward_range must be a pair"):
            function(W3, R3, max_weight=4, reward_range=bounds)
    for level in (0, 1, 95, -0.1) if function.__name__.endswith("interval") else ():
        with pytest.raises(ValueError, match="level must lie in"):
            function(W3, R3, level=level, **KNOWN)


@every_function
def test_bounds_of_weights(function):
    r = np.array([0.0, 1, 1, 0, 1])
    # rounding of a weight at its bound is no fault
    at, beyond = (np.array([4 * size, 0, 0, 1, 0]) for size in (1, 1 + 1e-12))
    assert function(at, r, **KNOWN) == function(beyond, r, **KNOWN)
    if function in SIGNED:
        function([-1.0, 2.0, 1.0], R3, min_weight=-1, **KNOWN)
        # where one bound is one, all weights are
        one = np.ones(5)
        expected = function(one, r, min_weight=1, max_weight=3, **UNIT)
        assert function(one, r, max_weight=1, **UNIT) == expected
    # what is given stays as it is
    w, r = W3.copy(), R3.copy()
    function(w, r, **KNOWN)
    np.testing.assert_array_equal([w, r], [W3, R3])


@pytest.mark.parametrize("function", BOTH)
def test_units_of_the_rewards(function):
    """Scale and shift of rewards scale and shift both ends; a new sign swaps them."""
    rng = np.random.default_rng(0)
    w, r = rng.gamma(1, 1, 200), rng.random(200)
    low, high = function(w, r, max_weight=9, **UNIT)
    moved = function(w, 3 * r + 7, max_weight=9, reward_range=(7, 10))
    assert moved == pytest.approx((3 * low + 7, 3 * high + 7), abs=1e-8)
    turned = function(w, -r, max_weight=9, reward_range=(-1, 0))
    assert turned == pytest.approx((-high, -low), abs=1e-8)
    # rounds that say nothing: no match at all, a single round
    bounds = {"max_weight": 3, "reward_range": (-1, 2)}
    assert function(np.zeros(3), [0.0, 1, 1], **bounds) == (-1, 2)
    assert function([2.0], [1.0], **bounds) == (-1, 2)


@pytest.mark.theory
@pytest.mark.parametrize("function", BOTH)
def test_coverage(function):
    """In W1 with n = 500: the quadratic one at least, the likelihood near the level."""
    rng = np.random.default_rng(0)
    n, repetitions, covered = 500, 1000, 0
    for _ in range(repetitions):
        x = rng.integers(2, size=n)
        action = (rng.random((n, 1)) > W1.mu[x].cumsum(1)).sum(1)
        reward = rng.random(n) < W1.q[x, action]
        log = log_of(W1, x, action, reward)
        w = log.pi[np.arange(n), action] / log.propensity
        low, high = function(w, log.reward, max_weight=4, **UNIT)
        covered += low <= W1.value <= high
    share, error = covered / repetitions, (0.95 * 0.05 / repetitions) ** 0.5
    if function is cressie_read_interval:
        assert share >= 0.95 - 4 * error
    else:
        assert share == pytest.approx(0.95, abs=0.01 + 4 * error)


# The quadratic one


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
    known = {"min_weight": bounds[0], "max_weight": bounds[1]}
    known["reward_range"] = reward_range
    found = cressie_read_interval(W, R, level=level, **known)
    assert found == pytest.approx(np.clip(ends, low, high), abs=1e-6)
    assert low < found[0] < found[1] <= high
    middle = nearest @ np.append(W * R, added * (low + high) / 2)
    value = cressie_read_value(W, R, **known)
    assert value == pytest.approx(np.clip(middle, low, high))


def test_all_weights_one_is_the_interval_of_a_mean():
    r = np.array([0.0, 1, 1, 0, 1, 0, 0, 1, 1, 1])
    low, high = cressie_read_interval(np.ones(10), r, max_weight=1, **UNIT)
    assert 0 < low < r.mean() < high < 1
    assert high - low == pytest.approx(2 * 2.262 * r.std(ddof=1) / 10**0.5, rel=0.2)


# Empirical likelihood


def best_on(function, low, high):
    """Greatest value of a concave function on an interval."""
    how = {"xatol": 1e-11 * (high - low), "maxiter": 200}
    bounds = {"bounds": (low, high), "method": "bounded", "options": how}
    found = minimize_scalar(lambda x: -function(x), **bounds)
    return max(-found.fun, function(0.0) if low <= 0 <= high else -np.inf)


def slopes_at(g, corners):
    """Ends of the b for which no corner's term is negative."""
    rest, weight = 1 + g * corners[:, 1], corners[:, 0]
    ends = -rest[weight != 0] / weight[weight != 0]
    up = weight[weight != 0] > 0
    return ends[up].max(), ends[~up].min()


def profile(v, w, r, bounds, reward_range):
    """Loss of log-likelihood at v: the form with b and g, by nested searches."""
    z = w * r
    corners = np.array([(a - 1, a * b - v) for a in bounds for b in reward_range])

    def log_terms(b, g):
        with np.errstate(divide="ignore"):
            return np.log(np.maximum(1 + b * (w - 1) + g * (z - v), 0)).sum()

    def along(g):
        low, high = slopes_at(g, corners)
        if low == high:
            return log_terms(low, g)
        return best_on(lambda b: log_terms(b, g), low, high)

    constraint = {"A_ub": -corners, "b_ub": np.ones(4), "bounds": [(None, None)] * 2}
    low, high = (s * linprog([0, s], **constraint).fun for s in (1, -1))
    margin = 1e-12 * (high - low)
    return best_on(along, low + margin, high - margin) - along(0.0)


def primal(sign, w, r, bounds, reward_range, level):
    """Least mean of sign * w r with four atoms at the corners, by a solver."""
    n = len(w)
    weight = np.append(w, np.repeat(bounds, 2))
    reward = np.append(r, np.tile(reward_range, 2))
    loss = f_distribution.ppf(level, 1, n - 1) / 2
    law = [
        {"type": "eq", "fun": lambda q: q.sum() - 1},
        {"type": "eq", "fun": lambda q: q @ weight - 1},
    ]
    solver = {"method": "SLSQP", "bounds": [(1e-12, 1)] * (n + 4)}
    solver["options"] = {"ftol": 1e-13, "maxiter": 1000}
    equal, solver["constraints"] = np.full(n + 4, 1 / (n + 4)), law
    best = minimize(lambda q: -np.log(q[:n]).sum(), equal, **solver)  # most likely
    near = {"type": "ineq", "fun": lambda q: np.log(q[:n]).sum() + best.fun + loss}
    solver["constraints"] = [*law, near]
    found = minimize(lambda q: sign * (q @ (weight * reward)), best.x, **solver)
    return sign * found.fun


# the tests' own solver steps over its bounds in scipy 1.10, and says so
@pytest.mark.filterwarnings("ignore:Values in x were outside bounds")
def test_dual_and_primal_agree_on_the_fixed_log():
    found = empirical_likelihood_interval(W, R, max_weight=6, **UNIT)
    for end in found:
        assert profile(end, W, R, (0, 6), (0, 1)) == pytest.approx(2.795724, abs=1e-6)
    assert profile(0.5, W, R, (0, 6), (0, 1)) == pytest.approx(0.693396, abs=1e-6)
    others = [primal(s, W, R, (0, 6), (0, 1), 0.95) for s in (1, -1)]
    assert found == pytest.approx(others, abs=1e-6)


@pytest.mark.few_cases
@pytest.mark.parametrize("bounds", [(0.0, 6.0), (0.1, 4.5), (-1.0, 5.0)])
@pytest.mark.parametrize("reward_range", [(0, 1), (-1, 2)])
@pytest.mark.parametrize("level", [0.5, 0.9])
def test_dual_and_profile_agree(bounds, reward_range, level):
    """An end of the dual loses exactly what the level allows, or is a range's end."""
    known = {"min_weight": bounds[0], "max_weight": bounds[1], "level": level}
    found = empirical_likelihood_interval(W, R, reward_range=reward_range, **known)
    allowed = f_distribution.ppf(level, 1, len(W) - 1) / 2
    for end in found:
        lost = profile(end, W, R, bounds, reward_range)
        if end in reward_range:
            assert lost <= allowed + 1e-6
        else:
            assert lost == pytest.approx(allowed, abs=1e-6)
    assert min(reward_range) <= found[0] < found[1] <= max(reward_range)


@pytest.mark.parametrize("seed", range(6))
def test_dual_and_profile_agree_on_random_logs(seed):
    rng = np.random.default_rng(seed)
    n, most = int(rng.integers(5, 40)), 1 + 10 ** rng.uniform(-1, 1.5)
    w = np.minimum(rng.exponential(1, n) * (rng.random(n) < 0.7), most)
    r = (rng.random(n) < 0.5) * 1.0 if seed % 2 else rng.random(n)
    for end in empirical_likelihood_interval(w, r, max_weight=most, **UNIT):
        lost = profile(end, w, r, (0, most), (0, 1))
        if 0 < end < 1:
            allowed = f_distribution.ppf(0.95, 1, n - 1) / 2
            assert lost == pytest.approx(allowed, abs=1e-6)


def test_all_weights_one_is_the_interval_of_a_bounded_mean():
    """Whatever else weights could have been, the log tells that they are 1."""
    r = np.array([0.0, 1, 1, 0, 1, 0, 0, 1, 1, 1])
    known = empirical_likelihood_interval(np.ones(10), r, max_weight=1, **UNIT)
    likelihood = binom.logpmf(6, 10, 0.6) - binom.logpmf(6, 10, np.array(known))
    assert 2 * likelihood == pytest.approx(f_distribution.ppf(0.95, 1, 9), abs=1e-8)
    wider = empirical_likelihood_interval(np.ones(10), r, max_weight=3, **UNIT)
    assert wider == pytest.approx(known)
    value = empirical_likelihood_value(np.ones(10), r, max_weight=3, **UNIT)
    assert value == pytest.approx(0.6)


def test_no_event_has_an_upper_end():
    """100 of 200 rounds match, none is rewarded."""
    w, r = np.repeat([0.0, 2.0], 100), np.zeros(200)
    low, high = empirical_likelihood_interval(w, r, max_weight=2, **UNIT)
    assert low == 0
    assert high == pytest.approx(0.0193, abs=5e-5)
    # no match at all is valued by the middle
    bounds = {"max_weight": 3, "reward_range": (-1, 2)}
    value = empirical_likelihood_value(np.zeros(3), [0.0, 1.0, 1.0], **bounds)
    assert value == pytest.approx(0.5)


def test_repeated_rounds_are_counted():
    """Rounds that occur often are one term: the same ends, in any order."""
    rng = np.random.default_rng(0)
    w = rng.choice([0.0, 0.5, 2.0], 3000)
    r = (rng.random(3000) < 0.1) * 1.0

    def ends(w, r, most=3):
        return empirical_likelihood_interval(w, r, max_weight=most, **UNIT)

    for rows in (np.lexsort((r, w)), rng.permutation(3000)):
        assert ends(w[rows], r[rows]) == pytest.approx(ends(w, r), abs=1e-9)
    jittered = w * (1 + 1e-9 * rng.random(3000))  # no two rounds are alike
    assert ends(jittered, r, 3.1) == pytest.approx(ends(w, r, 3.1), abs=1e-7)


@pytest.mark.few_cases(1)
@pytest.mark.parametrize("seed", range(4))
def test_every_log_has_an_interval_with_the_estimate_inside(seed):
    """Bounds, levels and sizes of all magnitudes: a gap that stays would raise."""
    rng = np.random.default_rng(seed)
    for _ in range(100):
        n, most = int(10 ** rng.uniform(0.31, 3)), 1 + 10 ** rng.uniform(-3, 3.5)
        least = rng.choice([0.0, 0.3, -1.0, -most / 2])
        matched = rng.random(n) < (1 - least) / (most - least)
        w = [
            np.where(matched, most, least),
            np.clip(np.exp(rng.normal(0, 1, n)), least, most),
            np.ones(n),
            rng.uniform(least, most, n),
        ][rng.integers(4)]
        ranges = [(0, 1), (-1, 0), (-2, 5), (1e3, 1.001e3), (0, 1e-4)]
        low, high = ranges[rng.integers(5)]
        share = rng.random(n) < 10 ** rng.uniform(-3, 0)
        r = low + (high - low) * (share if rng.random() < 0.6 else rng.random(n))
        known = {"max_weight": most, "min_weight": least, "reward_range": (low, high)}
        level = rng.choice([0.5, 0.95, 0.999])
        start, end = empirical_likelihood_interval(w, r, level=level, **known)
        slack = 1e-8 * (high - low)
        value = empirical_likelihood_value(w, r, **known)
        assert low <= start <= value + slack
        assert value - slack <= end <= high


@pytest.mark.theory
def test_few_events_are_too_few():
    """Half the rounds match, one in fifty is rewarded, n = 200: by enumeration."""
    covered = 0.0
    for matched in range(60, 141):
        for rewarded in range(15):
            chance = binom.pmf(matched, 200, 0.5) * binom.pmf(rewarded, matched, 0.02)
            w = np.repeat([2.0, 0.0], [matched, 200 - matched])
            r = (np.arange(200) < rewarded) * 1.0
            low, high = empirical_likelihood_interval(w, r, max_weight=2, **UNIT)
            covered += chance * (low <= 0.02 <= high)
    assert covered == pytest.approx(0.8966, abs=5e-4)
