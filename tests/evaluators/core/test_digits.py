# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""What floating point does not hold is NaN, for the reason that is the right one."""

from fractions import Fraction
from math import sqrt

import numpy as np
import pytest
from numpy.testing import assert_allclose

from skope_ope import (
    IPS,
    MRDR,
    SNDR,
    SNIPS,
    BanditLogs,
    DoublyRobust,
    DRns,
    DRos,
    MultiLoggerIPS,
    RejectionSampling,
    SwitchDR,
)
from skope_ope.exceptions import LowOverlapWarning, PropensityWarning
from tests._quiet import quiet

N = 400
RNG = np.random.RandomState(0)
ACTION = RNG.randint(2, size=N)
REWARD = (RNG.random_sample(N) < 0.4).astype(float)
PI = np.tile([0.5, 0.5], (N, 1))


def a_log(smallest, reward_there=1.0, rows=(3,)):
    """Return logs of a fair coin, and one propensity, or more, that is none."""
    p, reward = np.full(N, 0.5), REWARD.copy()
    p[list(rows)], reward[list(rows)] = smallest, reward_there
    return BanditLogs(np.zeros((N, 1)), ACTION, reward, p)


def in_fractions(w, r):
    """Value and standard error of SNIPS, rounded once."""
    w, r = ([Fraction(x) for x in some.tolist()] for some in (w, r))
    n, total = len(w), sum(w)
    value = sum(a * b for a, b in zip(w, r, strict=True)) / total
    square = sum((a * (b - value)) ** 2 for a, b in zip(w, r, strict=True))
    return float(value), sqrt(square / total**2 * n / (n - 1))


def exact_snips(logs):
    return in_fractions(0.5 / logs.propensity, logs.reward)


@pytest.mark.parametrize("reward_there", [0.0, 1.0])
@pytest.mark.parametrize("smallest", [1e-6, 1e-9, 1e-12, 1e-15])
def test_the_error_of_snips_is_right_as_long_as_floats_hold_it(smallest, reward_there):
    logs = a_log(smallest, reward_there, rows=(3, 5))
    found = quiet(SNIPS().fit(logs), PI)
    value, error = exact_snips(logs)
    assert found.value == pytest.approx(value, rel=1e-9)
    assert error > 0
    assert found.standard_error == pytest.approx(error, rel=1e-3)


def told(value):
    return [str(w) for w in value.warnings if "Row 3 (action " in str(w)]


@pytest.mark.parametrize("smallest", [1e-20, 1e-30, 1e-70])
def test_an_error_that_drowned_is_nan(smallest):
    found = quiet(SNIPS().fit(a_log(smallest)), PI)
    assert found.value == 1.0
    assert np.isnan(found.standard_error)
    [text] = told(found)
    assert f"has propensity {smallest:.3g}" in text
    # where all rewards are the same there is nothing to drown
    same = a_log(smallest, rows=(3, 5)).replace(reward=np.ones(N))
    found = quiet(SNIPS().fit(same), PI)
    assert (found.value, found.standard_error) == (1.0, 0.0)
    assert told(found) == []


@pytest.mark.parametrize("smallest", [1e-6, 1e-12])
def test_one_round_of_nearly_all_the_weight_has_no_error(smallest):
    """That of the others is tiny, and not how far another such round may lie."""
    logs = a_log(smallest)
    assert exact_snips(logs)[1] < 1e-3
    found = quiet(SNIPS().fit(logs), PI)
    assert np.isnan(found.standard_error)


@pytest.mark.parametrize("smallest", [1e-100, 1e-200, 1e-307])
@pytest.mark.parametrize(
    "evaluator", [IPS(), SNIPS(), DoublyRobust(), SNDR(), MultiLoggerIPS(), DRns()]
)
def test_weights_whose_squares_no_float_holds(evaluator, smallest):
    logs = a_log(smallest, reward_there=100.0)
    found = quiet(evaluator.fit(logs), PI)
    assert np.isnan(found.standard_error)
    [text] = told(found)
    assert "too large for a float" in text
    assert not any("no logged round" in str(w) for w in found.warnings)
    assert not any("All importance weights" in str(w) for w in found.warnings)
    low, high = found.confidence_interval()
    assert np.isnan([low, high]).all() or (low, high) == (-np.inf, np.inf)


def test_evaluators_that_drop_such_weights_are_as_sure_as_ever():
    plain, tiny = a_log(0.5), a_log(1e-200)
    for evaluator in (SwitchDR(), DRos(), SNIPS(cmax=10.0)):
        near, found = (quiet(evaluator.fit(logs), PI) for logs in (plain, tiny))
        assert found.value == pytest.approx(near.value, abs=0.05)
        assert found.standard_error == pytest.approx(near.standard_error, rel=0.5)
        assert told(found) == []


def test_a_model_that_cannot_be_weighted_is_refused():
    with pytest.raises(ValueError, match=r"row 3 by .* its propensity is 1e-200"):
        quiet(MRDR().fit(a_log(1e-200)), PI)


@pytest.mark.filterwarnings("ignore::skope_ope.exceptions.PropensityWarning")
def test_rounds_are_not_accepted_because_of_the_ratio():
    fitted = RejectionSampling(random_state=0).fit(a_log(1e-9))
    with (
        pytest.warns(PropensityWarning, match="Row 3 has propensity 1e-09"),
        pytest.warns(LowOverlapWarning, match="acceptance ratio is 1e-09"),
    ):
        found = fitted.evaluate(PI)
    assert np.isnan(found.value)


def test_a_propensity_that_has_no_inverse_is_refused():
    with pytest.raises(ValueError, match=r"got 4\.94065646e-324 at row 3"):
        a_log(5e-324)


def test_model_values_that_cancel_are_no_weight_that_drowns_others():
    """Rewards alike and the policy that is the logger: propensities were doubted."""
    n = 20
    action = np.arange(n) % 2
    q = np.random.default_rng(0).normal(size=(n, 2))
    for reward in (np.zeros(n), np.ones(n)):
        logs = BanditLogs(np.empty((n, 0)), action, reward, np.ones(n))
        logs = logs.with_columns(pi=np.eye(2)[action], q=q)
        value = SNDR(reward_model="q").fit(logs).evaluate("pi")
        assert value.value == pytest.approx(reward[0], abs=1e-14)
        assert value.standard_error < 1e-15


# -- rewards far from zero, or all alike ----------------------------------------------
def far_world(n=300, weighted=False):
    rng = np.random.RandomState(0)
    mu = 0.6 * rng.dirichlet(np.ones(3), n) + 0.4 / 3
    pi = 0.6 * rng.dirichlet(np.ones(3), n) + 0.4 / 3
    action = rng.randint(3, size=n)
    return BanditLogs(
        rng.normal(size=(n, 2)),
        action,
        rng.normal(size=n),
        mu[np.arange(n), action],
        sample_weight=rng.random_sample(n) + 0.5 if weighted else None,
    ).with_columns(pi=pi, q_hat=rng.normal(size=(n, 3)))


@pytest.mark.filterwarnings("ignore::skope_ope.exceptions.OPEWarning")
@pytest.mark.parametrize("offset", [0.0, 1e5])
def test_two_tiny_propensities(offset):
    """Two such rounds have all of the weight; what the others tell is not lost."""
    logs = far_world()
    p = logs.propensity.copy()
    p[[4, 5]] = 1e-12
    reward = offset + np.round(64 * logs.reward) / 64
    reward[5] = reward[4]
    logs = logs.replace(propensity=p, reward=reward)
    w = logs.columns["pi"][np.arange(300), logs.action] / p
    value, error = in_fractions(w, reward)
    result = SNIPS().fit(logs).evaluate("pi")
    assert result.value == pytest.approx(value, rel=1e-15)
    assert 0 < error < 1e-8
    # rewards of 1e5 are told apart from the value by 1e-11 of its own rounding
    assert_allclose(result.standard_error, error, rtol=1e-9 if not offset else 0.1)


@pytest.mark.filterwarnings("ignore::skope_ope.exceptions.OPEWarning")
@pytest.mark.parametrize("weighted", [False, True], ids=["", "weighted"])
@pytest.mark.parametrize("constant", [0.0, 0.1, 1e6])
@pytest.mark.parametrize(
    "evaluator", [SNIPS(), SNIPS(cmax=2.0), SNDR(reward_model="constant")], ids=repr
)
def test_constant_rewards_have_no_error(evaluator, constant, weighted):
    table = np.full((300, 3), constant)
    logs = far_world(weighted=weighted).with_columns(constant=table)
    logs = logs.replace(reward=np.full(300, constant))
    result = evaluator.fit(logs).evaluate("pi")
    assert_allclose(result.value, constant, rtol=1e-14)
    if isinstance(evaluator, SNIPS):
        assert result.standard_error == 0
    else:  # the model's value of the policy is rounded, sum_a pi(a) times the constant
        assert result.standard_error <= 1e-16 * constant
