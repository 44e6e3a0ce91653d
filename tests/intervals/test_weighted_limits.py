# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import numpy as np
import pytest

from skope_ope.intervals import betting_sequence, empirical_bernstein_sequence
from skope_ope.intervals._sequences import WeightedLimits
from tests._worlds import W1
from tests.intervals._sequence_worlds import logged_rounds, share_missed_at_most

VW_LIMITS = [[0.0, 0.2701412634442784], [1.0, 0.8960687859619108]]
METHODS = {
    "betting": betting_sequence,
    "empirical_bernstein": empirical_bernstein_sequence,
}
END = np.array([2000])


@pytest.fixture(scope="module")
def rounds():
    """Weights and rewards of one log."""
    w, r = logged_rounds(np.random.default_rng(0), 1, 2000)
    return w[0], r[0]


@pytest.mark.parametrize("method", METHODS)
def test_rewards_on_another_scale(method, rounds):
    w, r = rounds
    low, high = METHODS[method](w, r, reward_range=(0, 1), after=END)
    moved = METHODS[method](w, 4 * r - 1, reward_range=(-1, 3), after=END)
    np.testing.assert_allclose(moved, (4 * low - 1, 4 * high - 1))


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("gain", [False, True])
def test_costs_mirror_gains(method, gain, rounds):
    w, r = rounds
    weight, bound = (w - 1, 1.0) if gain else (w, None)
    make = lambda: WeightedLimits(method, 0.9, (0, 1), None, bound)  # noqa: E731
    low, high = make().take(weight, r, END)
    cost_low, cost_high = make().take(weight, 1 - r, END)
    whole = 0.0 if gain else 1.0
    np.testing.assert_allclose([cost_low, cost_high], [whole - high, whole - low])


@pytest.mark.parametrize("method", METHODS)
def test_without_a_weight_nothing_is_known(method):
    found = METHODS[method](np.zeros(100), np.full(100, 3.0), reward_range=(2, 5))
    np.testing.assert_array_equal(found[0], 2)
    np.testing.assert_array_equal(found[1], 5)


@pytest.mark.parametrize("method", METHODS)
def test_actions_that_are_never_logged_leave_the_limits_around_the_value(method):
    """The policy takes one in two decisions where the logger never does."""
    r = np.tile([1.0, 0.0, 1.0, 1.0], 5000)
    w = np.full(len(r), 0.5)
    low, high = METHODS[method](w, r, reward_range=(0, 1), after=[len(r)])
    # what is never logged may bring anything between 0 and 1
    assert low[0] < 0.5 * 0.75 and high[0] > 0.5 * 0.75 + 0.5


@pytest.mark.parametrize("method", METHODS)
def test_weights_that_average_too_much_leave_no_value(method, rounds):
    w, r = rounds
    low, high = METHODS[method](2 * w, r, reward_range=(0, 1), after=[10, 2000])
    assert low[0] <= high[0]
    assert np.isnan([low[1], high[1]]).all()


def test_a_known_largest_weight_narrows(rounds):
    w, r = rounds
    plain = betting_sequence(w, r, reward_range=(0, 1), after=END)
    known = betting_sequence(w, r, reward_range=(0, 1), max_weight=4, after=END)
    assert np.ptp(known) < 0.95 * np.ptp(plain)
    assert known[0] < W1.value < known[1]


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"level": 1.0}, "level must lie"),
        ({"after": [0]}, "after must lie between 1"),
        ({"after": [3, 2]}, "rising numbers of rounds"),
        ({"after": [2.5]}, "rising numbers of rounds"),
        ({"after": [2001]}, "between 1 and 2000"),
        ({"reward_range": (0, 0.5)}, "r has .* entries outside"),
        ({"reward_range": None}, "reward_range must be a pair"),
    ],
)
def test_bad_input(method, wrong, message, rounds):
    with pytest.raises((ValueError, TypeError), match=message):
        METHODS[method](*rounds, **{"reward_range": (0, 1)} | wrong)


@pytest.mark.parametrize("method", METHODS)
def test_bad_weights(method):
    with pytest.raises(ValueError, match="w has 1 entries outside"):
        METHODS[method]([1.0, -0.1], [0.0, 1.0], reward_range=(0, 1))
    with pytest.raises(ValueError, match="at least one round"):
        METHODS[method]([], [], reward_range=(0, 1))


def test_a_weight_above_the_known_largest(rounds):
    with pytest.raises(ValueError, match="max_weight is the largest"):
        betting_sequence(*rounds, reward_range=(0, 1), max_weight=3.5)


def test_rho():
    with pytest.raises(ValueError, match="rho must be"):
        empirical_bernstein_sequence([1.0], [1.0], reward_range=(0, 1), rho=0)


def test_vectors_of_another_library():
    """Of vw-estimators 0.2.2, which has rho = 1 and does not cut its predictions.

    Weights of at most 1 keep them below 1, so that the constructions agree.
    """
    w = np.tile([0.2, 0.9, 0.0, 1.0, 0.6], 60)
    r = np.tile([1.0, 0.0, 1.0], 100)
    found = empirical_bernstein_sequence(
        w, r, reward_range=(0, 1), rho=1.0, after=[10, 300]
    )
    np.testing.assert_allclose(found, VW_LIMITS, rtol=0, atol=1e-9)


UNIFORM = np.full_like(W1.pi, 1 / 3)
BASELINES = {
    "value": (0 * W1.mu, None),
    "logger": (W1.mu, 1.0),
    "uniform": (UNIFORM, 2),
}


@pytest.mark.theory
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("max_weight", [None, 4.0])
@pytest.mark.parametrize("baseline", BASELINES)
def test_values_and_gains_are_covered_at_all_times(method, max_weight, baseline):
    """Of rewards that get rarer along the log; the average so far is covered."""
    other, bound = BASELINES[baseline]
    w, w0, r = logged_rounds(np.random.default_rng(0), 200, 4000, other)
    kept = np.linspace(1, 0.2, 4000)
    r = r * (np.random.default_rng(1).random(r.shape) < kept)
    truth = W1.value - float(W1.p_context @ (other * W1.q).sum(axis=1))
    truth = truth * np.cumsum(kept) / np.arange(1, 4001)
    after, missed = np.arange(1, 4001, 9), []
    for weight, reward in zip(w - w0, r, strict=True):
        limits = WeightedLimits(method, 0.9, (0, 1), max_weight, bound)
        low, high = limits.take(weight, reward, after)
        missed.append(((low > truth[after - 1]) | (high < truth[after - 1])).any())
    assert share_missed_at_most(np.array(missed), 0.1)
