# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Confidence sequences. That parts of any size give the same stands with the class."""

import math
from itertools import product

import numpy as np
import pytest
from scipy import stats
from scipy.integrate import quad

from skope_ope import BanditLogs, ConfidenceSequence
from skope_ope.exceptions import TailWarning
from skope_ope.intervals import (
    asymptotic_sequence,
    betting_sequence,
    empirical_bernstein_sequence,
)
from tests._worlds import W1

METHODS = {"betting": betting_sequence}
METHODS["empirical_bernstein"] = empirical_bernstein_sequence
UNIT = {"reward_range": (0, 1)}
END = np.array([2000])


def logged_rounds(rng, n_logs, n_rounds, *others):
    """Return weights and rewards, of shape (n_logs, n_rounds), of a small world.

    Weights of other policies, arrays like `W1.pi`, stand between the two.
    """
    world, n_actions = W1, W1.mu.shape[1]
    law = (world.p_context[:, None] * world.mu).ravel()
    cell = rng.choice(len(law), p=law, size=(n_logs, n_rounds))
    x, action = np.divmod(cell, n_actions)
    reward = (rng.random(cell.shape) < world.q[x, action]).astype(float)
    weights = (pi[x, action] / world.mu[x, action] for pi in (world.pi, *others))
    return *weights, reward


def learning_rounds(rng, n_logs, n_rounds, means=(0.5, 0.4), target=1, exponent=0.5):
    """Return the same for a greedy logger whose floor falls, and one fixed action.

    The logger takes the action that paid best so far, and each other action with the
    probability t**-exponent / 2 in round t; weights grow without bound.
    """
    means = np.asarray(means)
    weight, reward = np.empty((2, n_logs, n_rounds))
    total, count = np.zeros((2, n_logs, len(means)))
    rows = np.arange(n_logs)
    for t in range(n_rounds):
        best = np.argmax((total + 0.5) / (count + 1), axis=1)
        floor = (t + 1.0) ** -exponent / len(means)
        other = rng.random(n_logs) < floor * (len(means) - 1)
        shift = 1 + rng.integers(len(means) - 1, size=n_logs)
        action = np.where(other, (best + shift) % len(means), best)
        p = np.where(action == best, 1 - floor * (len(means) - 1), floor)
        reward[:, t] = rng.random(n_logs) < means[action]
        weight[:, t] = (action == target) / p
        total[rows, action] += reward[:, t]
        count[rows, action] += 1
    return weight, reward


def share_missed_at_most(missed, alpha):
    """Whether a share of misses is within four errors of what is allowed."""
    missed = np.asarray(missed)
    return missed.mean() <= alpha + 4 * np.sqrt(alpha * (1 - alpha) / len(missed))


@pytest.fixture(scope="module")
def rounds():
    """Weights and rewards of one log."""
    w, r = logged_rounds(np.random.default_rng(0), 1, 2000)
    return w[0], r[0]


# Betting: the capital of the docstring, counted bet by bet

POWERS = np.arange(-14, 7)
BETS, SHARES = 2.0**POWERS, 1 / (1 + (POWERS + 4) ** 2 / 9)
SHARES /= SHARES.sum()


def capital(y, mean, offset=0.0):
    """Capital after each round."""
    factors = (1 + BETS[:, None] * y) / (1 + BETS[:, None] * (offset + mean))
    return SHARES @ np.cumprod(factors, axis=1)


def test_limits_are_where_the_capital_is_reached(rounds):
    y = np.random.default_rng(0).exponential(size=80)
    limits, _ = betting_sequence(y, np.ones(80), **UNIT)
    for t in (20, 50, 80):
        low = limits[t - 1]
        assert 0 < low < y[:t].mean()
        assert capital(y[:t], low)[-1] == pytest.approx(40)
    # a largest weight takes half the capital
    w, r = rounds
    [low], [high] = betting_sequence(w, r, **UNIT, max_weight=4, after=END)
    half = capital(w * r, low)[-1] / 2
    half += capital(4 - w * (1 - r), low, 3.0)[-1] / 2
    assert half == pytest.approx(40)
    plain = betting_sequence(w, r, **UNIT, after=END)
    assert high - low < 0.95 * np.ptp(plain)
    assert low < W1.value < high
    with pytest.raises(ValueError, match="max_weight is the largest"):
        betting_sequence(w, r, **UNIT, max_weight=3.5)


def test_expected_capital_is_one_by_enumeration():
    """All logs of three rounds of a small world; values that change, too."""
    p, z = np.array(list(cells())).T
    assert p @ z == pytest.approx(W1.value)
    for scale in ((1.0, 1.0, 1.0), (0.2, 1.0, 0.6)):  # rewards thinned over time
        average = W1.value * np.mean(scale)
        expected = np.ones(len(BETS))
        for one in scale:  # 1 + v w r where a reward is kept with a probability
            expected *= (1 + BETS * (p @ z) * one) / (1 + BETS * average)
        assert (expected <= 1 + 1e-12).all()
        assert np.allclose(expected, 1) == (scale[0] == scale[1])


@pytest.mark.theory
@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("draw", [logged_rounds, learning_rounds])
@pytest.mark.parametrize("side", ["low", "high"])
def test_bets_hold_at_every_round_of_ten_thousand(seed, draw, side):
    """A limit misses at some round exactly where the capital at the truth is large."""
    w, r = draw(np.random.default_rng(seed), 400, 10_000)
    truth = W1.value if draw is logged_rounds else 0.4
    y, truth = (w * r, truth) if side == "low" else (w * (1 - r), 1 - truth)
    missed = [(capital(one, truth) >= 10).any() for one in y]
    assert share_missed_at_most(missed, 0.1)


# Empirical Bernstein: the mixture of the docstring, by quadrature


def with_variation(v, n):
    """Terms whose squares about their predictions sum to v."""
    z = [0.5 + math.sqrt(v)]
    for i in range(1, n):  # as predicted
        z.append(min((sum(z) + 0.5) / (i + 1), 1.0))
    return np.array(z)


def boundary(v, n, rho):
    """How far the sum of n terms with a variation may rise above its expectation."""
    z = with_variation(v, n)
    [low], _ = empirical_bernstein_sequence(z, np.ones(n), **UNIT, rho=rho, after=[n])
    assert low > 0  # otherwise it is cut
    return z.sum() - n * low


def mixture(s, v, rho):
    """Average of exp(lambda s - psi(lambda) v), by quadrature over 1 - lambda."""

    def density(x):  # of 1 - lambda: a gamma law of shape and rate rho, cut at 1
        return x ** (rho - 1) * math.exp(-rho * x)

    def grown(x):
        return density(x) * math.exp((1 - x) * s - (-math.log(x) - (1 - x)) * v)

    return quad(grown, 0, 1)[0] / quad(density, 0, 1)[0]


@pytest.mark.parametrize("rho", [0.7, 1.0, 10.0])
@pytest.mark.parametrize("v", [0.0, 0.3, 5.0, 40.0])
def test_the_boundary_is_where_the_mixture_reaches_the_capital(rho, v):
    assert mixture(boundary(v, 100, rho), v, rho) == pytest.approx(40, rel=1e-7)


def test_vectors_of_the_boundary():
    """Of vw-estimators 0.2.2, whose capital at these sums is 20 to 1e-9."""
    for v, expected in ((0.1, 5.20850062), (10.0, 13.1571731), (1e4, 403.222295)):
        assert boundary(v, 600, 1.0) == pytest.approx(expected, rel=1e-8)


def test_limits_from_sums_counted_round_by_round():
    z = np.random.default_rng(0).exponential(2, size=60)
    limits, _ = empirical_bernstein_sequence(z, np.ones(60), **UNIT, rho=3.0)
    known, total = [], 0.5
    for i, one in enumerate(z):
        known.append(min(total / (i + 1), 1.0))
        total += one
    assert max(known) == 1  # the cut is at work
    v, s = np.cumsum((z - known) ** 2), np.cumsum(z) - limits * np.arange(1, 61)
    seen = np.flatnonzero((limits > 0) & (limits < 1))
    assert len(seen) > 20
    for t in seen:
        assert mixture(s[t], v[t], 3.0) == pytest.approx(40, rel=1e-7)


def cells():
    """Probability and term of every cell of a world."""
    for x, a, r in product(range(2), range(3), range(2)):
        p = W1.p_context[x] * W1.mu[x, a] * (W1.q[x, a] if r else 1 - W1.q[x, a])
        yield p, W1.pi[x, a] / W1.mu[x, a] * r


def test_a_round_adds_nothing_to_the_expected_capital():
    """By enumeration: a supermartingale for every bet, if predictions are cut at 1."""

    def growth(bet, known):
        cost = -math.log(1 - bet) - bet
        return sum(
            p * math.exp(bet * (z - W1.value) - cost * (z - known) ** 2)
            for p, z in cells()
        )

    assert max(growth(*g) for g in product((0.1, 0.5, 0.9, 0.99), (0, 0.5, 1))) <= 1
    assert growth(0.9, 3.0) == pytest.approx(1.0457, abs=1e-4)


@pytest.mark.theory
@pytest.mark.parametrize("draw", [logged_rounds, learning_rounds])
def test_empirical_bernstein_holds_at_every_round_of_ten_thousand(draw):
    w, r = draw(np.random.default_rng(0), 300, 10_000)
    truth = W1.value if draw is logged_rounds else 0.4
    logs, how = zip(w, r, strict=True), {"level": 0.8} | UNIT
    found = [empirical_bernstein_sequence(*one, **how) for one in logs]
    low, high = np.transpose(found, (1, 0, 2))
    for missed in (~(low <= truth), ~(high >= truth)):  # NaN is a miss
        assert share_missed_at_most(missed.any(axis=1), 0.1)


# What both have in common


every_method = pytest.mark.parametrize("method", METHODS)


@every_method
def test_rewards_on_another_scale_and_costs(method, rounds):
    w, r = rounds
    low, high = METHODS[method](w, r, **UNIT, after=END)
    moved = METHODS[method](w, 4 * r - 1, reward_range=(-1, 3), after=END)
    np.testing.assert_allclose(moved, (4 * low - 1, 4 * high - 1))
    costs = METHODS[method](w, 1 - r, **UNIT, after=END)
    np.testing.assert_allclose(costs, (1 - high, 1 - low))
    # gains of a fair choice of two actions mirror those of costs
    rng = np.random.default_rng(0)
    action = rng.integers(2, size=2000)
    reward = (rng.random(2000) < 0.3 + 0.4 * action) * 1.0
    policy, gains = np.tile([0.1, 0.9], (2000, 1)), []
    for one in (reward, 1 - reward):
        logs = BanditLogs(np.zeros((2000, 1)), action, one, 0.5, **UNIT)
        sequence = ConfidenceSequence(method=method, baseline="logger")
        gains.append(sequence.update(logs, policy).interval_)
    low, high = gains
    np.testing.assert_allclose(low, (-high[1], -high[0]))
    assert low[0] > 0


@every_method
def test_weights_that_average_too_much_or_little(method, rounds):
    found = METHODS[method](np.zeros(100), np.full(100, 3.0), reward_range=(2, 5))
    np.testing.assert_array_equal(found, np.repeat([[2], [5]], 100, axis=1))
    # the policy takes one in two decisions where the logger never does: what is never
    # logged may bring anything between 0 and 1
    r = np.tile([1.0, 0.0, 1.0, 1.0], 5000)
    low, high = METHODS[method](np.full(len(r), 0.5), r, **UNIT, after=[len(r)])
    assert low[0] < 0.5 * 0.75 and high[0] > 0.5 * 0.75 + 0.5
    # weights that average too much leave no value
    w, r = rounds
    low, high = METHODS[method](2 * w, r, **UNIT, after=[10, 2000])
    assert low[0] <= high[0]
    assert np.isnan([low[1], high[1]]).all()


@every_method
def test_bad_input(method, rounds):
    given = dict(zip("wr", rounds, strict=True)) | UNIT
    for wrong, message in (
        ({"level": 1.0}, "level must lie"),
        ({"after": [0]}, "after must lie between 1"),
        ({"after": [3, 2]}, "rising numbers of rounds"),
        ({"after": [2.5]}, "rising numbers of rounds"),
        ({"after": [2001]}, "between 1 and 2000"),
        ({"reward_range": (0, 0.5)}, "r has .* entries outside"),
        ({"reward_range": None}, "reward_range must be a pair"),
        ({"w": [1.0, -0.1], "r": [0.0, 1.0]}, "w has 1 entries outside"),
        ({"w": [], "r": []}, "at least one round"),
    ):
        with pytest.raises((ValueError, TypeError), match=message):
            METHODS[method](**given | wrong)
    with pytest.raises(ValueError, match="rho must be"):
        empirical_bernstein_sequence([1.0], [1.0], **UNIT, rho=0)


def test_vectors_of_another_library():
    """Of vw-estimators 0.2.2, which has rho = 1 and does not cut its predictions.

    Weights of at most 1 keep them below 1, so that the constructions agree.
    """
    w = np.tile([0.2, 0.9, 0.0, 1.0, 0.6], 60)
    r = np.tile([1.0, 0.0, 1.0], 100)
    found = empirical_bernstein_sequence(w, r, **UNIT, rho=1.0, after=[10, 300])
    expected = [[0.0, 0.2701412634442784], [1.0, 0.8960687859619108]]
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-9)


UNIFORM = np.full_like(W1.pi, 1 / 3)
KEPT = np.linspace(1, 0.2, 4000)  # rewards that get rarer along the log
AVERAGE_KEPT = np.cumsum(KEPT) / np.arange(1, 4001)


@pytest.mark.theory
@pytest.mark.parametrize("max_weight", [None, 4.0])
@every_method
def test_values_are_covered_at_all_times(method, max_weight):
    """The average so far is covered."""
    w, r = logged_rounds(np.random.default_rng(0), 200, 4000)
    r = r * (np.random.default_rng(1).random(r.shape) < KEPT)
    known = {"max_weight": max_weight} if method == "betting" else {}
    after, missed = np.arange(1, 4001, 9), []
    now = (W1.value * AVERAGE_KEPT)[after - 1]
    for one in zip(w, r, strict=True):
        low, high = METHODS[method](*one, **UNIT, level=0.9, after=after, **known)
        missed.append(((low > now) | (high < now)).any())
    assert share_missed_at_most(missed, 0.1)


@pytest.mark.theory
@pytest.mark.parametrize("max_weight", [None, 4.0])
@pytest.mark.filterwarnings("ignore:the value changed along the log")
@pytest.mark.parametrize("baseline", ["logger", "uniform"])
@every_method
def test_gains_are_covered_at_all_times(method, baseline, max_weight):
    """The average so far is covered."""
    if baseline == "uniform" and max_weight is None:
        max_weight = 5.0  # a policy as the baseline needs one
    other = W1.mu if baseline == "logger" else UNIFORM
    rng, missed = np.random.default_rng(0), []
    truth = W1.value - float(W1.p_context @ (other * W1.q).sum(axis=1))
    truth = truth * AVERAGE_KEPT
    for _ in range(200):
        x = rng.choice(len(W1.p_context), p=W1.p_context, size=4000)
        action = (rng.random((4000, 1)) > W1.mu[x].cumsum(1)).sum(1)
        reward = (rng.random(4000) < W1.q[x, action] * KEPT).astype(float)
        given = np.zeros((4000, 1)), action, reward, W1.mu[x, action]
        logs = BanditLogs(*given, actions=range(3), **UNIT)
        logs = logs.with_columns(pi=W1.pi[x], uniform=UNIFORM[x])
        how = {"level": 0.9, "baseline": baseline, "max_weight": max_weight, "every": 9}
        found = ConfidenceSequence(method, **how).update(logs, "pi").intervals_
        now = truth[found["n_rounds"] - 1]
        missed.append(((found["low"] > now) | (found["high"] < now)).any())
    assert share_missed_at_most(missed, 0.1)


# Asymptotic


def test_the_formula():
    z = np.random.default_rng(0).exponential(size=500)
    low, high = asymptotic_sequence(z, 0.9, start=100)
    assert np.isnan(low[:99]).all() and np.isnan(high[:99]).all()
    best, alpha = 100 * math.log(100), 0.1
    rho = math.sqrt(
        (2 * math.log(1 / alpha) + math.log(1 + 2 * math.log(1 / alpha))) / best
    )
    for t in (100, 237, 500):
        grown = t * rho**2 + 1
        half = z[:t].std() * math.sqrt(
            2 * grown / (t * rho) ** 2 * math.log(math.sqrt(grown) / alpha)
        )
        assert low[t - 1] == pytest.approx(z[:t].mean() - half)
        assert high[t - 1] == pytest.approx(z[:t].mean() + half)


def test_terms_far_from_zero_keep_their_digits():
    z = np.random.default_rng(0).exponential(size=2000)
    ends = np.array(asymptotic_sequence(z, after=[2000]))
    far = np.array(asymptotic_sequence(z + 1e9, after=[2000])) - 1e9
    np.testing.assert_allclose(far, ends, atol=1e-5)
    for start in (1, 0, 10.5, None):
        with pytest.raises(ValueError, match="start must be a whole number"):
            asymptotic_sequence([1.0, 2.0], start=start)


def test_skewness_of_the_mean_warns():
    z = 5 + np.random.default_rng(0).exponential(size=900) ** 3
    logs = BanditLogs(np.zeros((900, 1)), np.zeros(900, int), z, np.ones(900))
    sequence = ConfidenceSequence("asymptotic", start=900)
    for part in np.array_split(np.arange(900), 7)[:-1]:
        sequence.update(logs[part], np.ones((len(part), 1)))
    with pytest.warns(TailWarning) as warned:
        sequence.update(logs[part[-1] + 1 :], np.ones((128, 1)))
    assert warned[0].message.value == pytest.approx(stats.skew(z) / 30)
    alike = ConfidenceSequence("asymptotic", start=100)
    with pytest.warns(TailWarning, match="all weighted rewards so far are equal"):
        alike.update(logs.replace(reward=np.full(900, 0.1)), np.ones((900, 1)))
    assert np.isnan(alike.warnings_[0].value)


@pytest.mark.theory
def test_limits_hold_at_every_round_after_the_start():
    w, r = logged_rounds(np.random.default_rng(0), 400, 10_000)
    missed = []
    for z in w * r:
        low, high = asymptotic_sequence(z, 0.9, start=1000)
        missed.append(((low > W1.value) | (high < W1.value)).any())
    assert share_missed_at_most(missed, 0.1)
