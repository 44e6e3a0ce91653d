# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

from itertools import product

import numpy as np
import pytest
from numpy.testing import assert_allclose

from skope_ope import BanditLogs, ExplorationScavenging
from skope_ope.evaluators.scavenging._arms import Arms
from skope_ope.evaluators.scavenging._bounds import (
    check_method,
    history_bound,
    reward_span,
    uniform_bound,
)
from skope_ope.exceptions import SupportWarning
from tests.evaluators.scavenging._toys import S6_X, s6

TARGET = np.eye(2)[S6_X]
TABLE = {  # counts: Theorem 3, half of it, Theorem 5, with ln(2 / delta)
    (50, 50): (1.199146, 0.599573, 0.592083, 0.543241),
    (500, 500): (0.425014, 0.212507, 0.187233, 0.171788),
    (900, 100): (0.633573, 0.316786, 0.187233, 0.171788),
    (5000, 5000): (0.147471, 0.073736, 0.059208, 0.054324),
    (2500,) * 4: (0.427615, 0.213807, 0.127438, 0.108648),
}


def evaluate(logs, policy=TARGET, **settings):
    return ExplorationScavenging(**settings).fit(logs).evaluate(policy)


@pytest.mark.parametrize("counts", TABLE, ids=str)
def test_table_of_bounds(counts):
    n, k = sum(counts), len(counts)
    found = (
        *(history_bound(counts, n, k, 0.05, m) for m in ("azuma", "hoeffding")),
        *(uniform_bound(n, k, 0.05, m) for m in ("azuma", "hoeffding")),
    )
    assert_allclose(found, TABLE[counts], rtol=0, atol=5.1e-7)


def test_an_arm_that_was_never_logged_has_no_bound():
    assert history_bound([10, 0], 10, 2, 0.05) == np.inf


def test_span_includes_zero_which_unwanted_rounds_count_as():
    reward = np.array([2.0, 3.0])
    assert reward_span(reward, (1, 4)) == 4
    assert reward_span(reward, (-1, 4)) == 5
    assert reward_span(reward / 4, None) == 1
    with pytest.raises(ValueError, match=r"from 2 to 3\. Pass reward_range"):
        reward_span(reward, None)


def test_methods():
    with pytest.raises(ValueError, match="'azuma' or 'hoeffding', got 'freedman'"):
        check_method("freedman")


def in_turn(counts, seen):
    """Choose the arm that was logged least, whatever happened."""
    return int(np.argmin(counts))


def while_alike(counts, seen):
    """Choose in turn while all rewards are alike, then arm 0: it looks at the past."""
    return int(np.argmin(counts)) if len(set(seen)) < 2 else 0


@pytest.mark.parametrize(
    ("n_arms", "n_rounds", "delta", "logger"),
    [
        (1, 3, 0.2, in_turn),
        (1, 12, 0.14, in_turn),
        (2, 10, 0.0019, in_turn),
        (2, 10, 0.0019, while_alike),
    ],
)
def test_the_constant_of_the_bound(n_arms, n_rounds, delta, logger):
    """All outcomes: the bound fails with probability delta at most, half of it above.

    What counts of a round is a fair coin, the widest there is; the truth is one half
    per arm.
    """
    errors, bounds = [], []
    for coins in product((0, 1), repeat=n_rounds):
        counts, code = [0] * n_arms, []
        for t in range(n_rounds):
            code.append(logger(counts, coins[:t]))
            counts[code[-1]] += 1
        wanted = np.array(coins, dtype=float)  # with one arm: its rewards
        arms = Arms(np.array(code), n_arms, wanted, np.ones(n_rounds))
        errors.append(abs(arms.estimate().value - n_arms / 2))
        bounds.append(history_bound(counts, n_rounds, n_arms, delta, "hoeffding"))
    errors, bounds = np.array(errors), np.array(bounds)
    assert np.mean(errors > bounds) <= delta < np.mean(errors > bounds / 2)


def test_a_uniform_target_does_not_make_the_short_form_valid():
    """Means (.9, .1), nine in ten rounds of arm 0: the 1/k estimator misses V = .5."""
    code = np.repeat([0, 1], [9, 1])
    mean = np.array([0.9, 0.1])[code]
    half = np.full(10, 0.5)
    assert_allclose(2 * np.mean(half * mean), 0.82)
    assert_allclose(Arms(code, 2, half, mean).estimate().value, 0.5)


def test_bounds_of_theorems():
    result = evaluate(s6(actions=[0, 1, 2]), np.column_stack([TARGET, np.zeros(6)]))
    assert result.deviation_bound(0.05) == np.inf  # action 2 was never logged
    k, n = 3, 6
    expected = 2 * np.sqrt(2 * np.log(2 * k * n / 0.05) / 3)
    assert_allclose(result.deviation_bound(0.05, arms=[0, 1]), expected)
    assert_allclose(
        result.deviation_bound(0.05, arms=[0, 1], method="hoeffding"), expected / 2
    )
    scaled = evaluate(s6(reward=np.arange(6.0), reward_range=(0, 5)))
    plain = evaluate(s6())
    assert_allclose(scaled.deviation_bound(0.1), 5 * plain.deviation_bound(0.1))
    assert_allclose(
        plain.deviation_bound(0.1, reward_range=(-1, 1)),
        2 * plain.deviation_bound(0.1),
    )


def test_bounds_sum_over_arms_that_are_played_and_were_never_logged():
    pi = np.full((6, 3), 1 / 3)
    with pytest.warns(SupportWarning, match="33.33%"):
        result = evaluate(s6(actions=[0, 1, 2]), pi)
    assert result.deviation_bound(0.05) == np.inf
    assert result.deviation_bound(0.05, arms=[0, 1, 2]) == np.inf
    with pytest.raises(ValueError, match="leaves out 2, which the policy plays"):
        result.deviation_bound(0.05, arms=[0, 1])


@pytest.mark.parametrize("propensity", [1.0, 0.9, 0.51])
def test_the_short_form_needs_the_propensities_of_uniform_logging(propensity):
    value = evaluate(s6(propensity=np.full(6, propensity)))
    with pytest.raises(ValueError, match=f"row 0 has {propensity:g}, not 1/2"):
        value.deviation_bound(0.05, form="1/k", uniform_logging=True)
    thirds = evaluate(
        s6(actions=[0, 1, 2], propensity=np.full(6, 0.3333)),
        np.column_stack([TARGET, np.zeros(6)]),
    )
    assert np.isfinite(thirds.deviation_bound(0.05, form="1/k", uniform_logging=True))


def test_the_short_form_needs_uniform_logging():
    plain = evaluate(s6())
    with pytest.raises(ValueError, match="uniform_logging=True if it did"):
        plain.deviation_bound(0.05, form="1/k")
    bound = plain.deviation_bound(0.05, form="1/k", uniform_logging=True)
    assert_allclose(bound, 2 * np.sqrt(2 * np.log(4 / 0.05) / 6))
    assert_allclose(
        plain.diagnostics["uniform_value"],
        2 * np.mean(TARGET[np.arange(6), s6().action] * s6().reward),
    )
    code = np.repeat([0, 1], [900, 100])
    uneven = evaluate(
        BanditLogs(np.zeros((1000, 1)), code, np.zeros(1000)), np.full((1000, 2), 0.5)
    )
    with pytest.raises(ValueError, match=r"contradicts the logs: .* 100 to 900"):
        uneven.deviation_bound(0.05, form="1/k", uniform_logging=True)
    tilted = evaluate(s6(propensity=[0.4, 0.6, 0.6, 0.4, 0.6, 0.4]))
    with pytest.raises(ValueError, match="contradicts the recorded propensities"):
        tilted.deviation_bound(0.05, form="1/k", uniform_logging=True)


@pytest.mark.parametrize(
    ("settings", "asked", "match"),
    [
        ({"self_normalized": True}, {}, "do not cover self_normalized=True"),
        ({"strata": "x"}, {}, "do not cover strata"),
        ({}, {"form": "short"}, "form must be 'arms' or '1/k'"),
        ({}, {"method": "markov"}, "'azuma' or 'hoeffding'"),
        ({}, {"arms": [7]}, r"one or more of \[0, 1\], got \[7\]"),
        ({}, {"arms": []}, r"one or more of \[0, 1\], got \[\]"),
        ({}, {"arms": [0]}, r"arms=\[0\] leaves out 1, which the policy plays"),
        ({}, {"n_actions": 2}, "knows no 'n_actions'"),
    ],
)
def test_bounds_that_do_not_hold(settings, asked, match):
    value = evaluate(s6().with_columns(x=S6_X), **settings)
    with pytest.raises(ValueError, match=match):
        value.deviation_bound(0.05, **asked)


def test_rewards_outside_of_the_unit_interval_have_no_bound():
    value = evaluate(s6(reward=np.arange(6.0)))
    with pytest.raises(
        ValueError, match=r"rewards in \[0, 1\]; these reach from 0 to 5"
    ):
        value.deviation_bound(0.05)
    weighted = ExplorationScavenging().fit(s6()).evaluate(TARGET, None, np.arange(6.0))
    with pytest.raises(ValueError, match="do not cover sample weights"):
        weighted.deviation_bound(0.05)
