# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import pickle
from itertools import product

import numpy as np
import pytest
from numpy.testing import assert_allclose

from skope_ope import (
    IPS,
    SNIPS,
    BanditLogs,
    ConstantPolicy,
    DirectMethod,
    DoublyRobust,
    EpsilonGreedy,
    MultiLoggerIPS,
    PseudoInverse,
    RejectionSampling,
    SlateLogs,
    UniformPolicy,
)
from skope_ope.datasets import make_bandit_logs
from skope_ope.exceptions import (
    OPEWarning,
    SingleTrajectoryWarning,
    SupportWarning,
    ZeroBaselineWarning,
)
from skope_ope.intervals import delta_ratio_interval, fieller_interval
from skope_ope.policies import EmpiricalSlatePolicy
from tests.evaluators.core._asked import (
    bare_logs,
    interval_of,
    logged_value,
    quietly,
    value_of,
)

N = 400
LOGS, POLICY = make_bandit_logs(N, random_state=3, return_truth=True)[:2]
GROUPED = LOGS.replace(group=np.arange(N) // 4)


def pair(evaluator=None, logs=LOGS):
    evaluator = evaluator or SNIPS()
    return tuple(value_of(evaluator, logs, p) for p in (POLICY, UniformPolicy()))


def limits(lift, level=0.95):
    """The intervals of all methods, in silence."""
    return [interval_of(lift, level, method) for method in METHODS]


METHODS = ("auto", "fieller", "delta")


def logs_of(reward=LOGS.reward, **fields):
    """The same rounds, without a known range."""
    return BanditLogs(LOGS.context, LOGS.action, reward, LOGS.propensity, **fields)


def covariance_of(gain, base):
    """That of the mean gain and the mean of the baseline."""
    changes = (v.round_values - v.value for v in (gain, base))
    return np.dot(*changes) / (N * (N - 1))


TWO_LOGGERS = {"logger": np.arange(N) % 2}


@pytest.mark.parametrize(
    "evaluator, logs",
    [
        (IPS(), LOGS),
        (SNIPS(), LOGS),
        (DoublyRobust(), LOGS),
        (SNIPS(), GROUPED),
        (MultiLoggerIPS(pooling="naive"), logs_of(**TWO_LOGGERS)),
        (MultiLoggerIPS(pooling="naive"), logs_of(**TWO_LOGGERS, group=GROUPED.group)),
    ],
)
def test_moments_are_those_of_round_values(evaluator, logs):
    new, base = pair(evaluator, logs)
    lift = quietly(new.lift, base)
    assert_allclose(lift.value, new.value / base.value - 1)
    # the linearised ratio, round by round
    change = new.round_values - new.value
    change = change - new.value / base.value * (base.round_values - base.value)
    if logs.group is not None:
        change = np.bincount(logs.group_index, change)
    error = np.sqrt((change @ change) / N / (N - 1))
    assert_allclose(lift.standard_error, error / base.value)
    assert lift.degrees_of_freedom == (new - base).degrees_of_freedom


def test_intervals_are_the_pure_functions():
    new, base = pair()
    lift, gain = new.lift(base), new - base
    moments = gain.value, base.value, gain.standard_error, base.standard_error
    numbers = *moments, covariance_of(gain, base), gain.degrees_of_freedom, 0.9
    _, found, delta = limits(lift, 0.9)
    assert_allclose(found, fieller_interval(*numbers))
    assert (found.level, found.method) == (0.9, "fieller")
    assert_allclose(delta, delta_ratio_interval(*numbers))
    # the default is Fieller's where both intervals are Student's
    assert lift.confidence_interval().method == "gamma"
    known = {"logging_proba": LOGS.logging_proba}  # nothing may be lacking
    new, base = pair(logs=logs_of(LOGS.reward + np.linspace(0, 1, N), **known))
    default, fieller, _ = limits(new.lift(base))
    assert default.method == "fieller"
    assert_allclose(default, fieller, rtol=1e-12)


@pytest.mark.parametrize("evaluator", [IPS(), SNIPS(), DoublyRobust()])
def test_zero_is_inside_where_it_is_inside_the_gain(evaluator):
    """Fieller's with Student's interval, the default with the default one."""
    new, base = pair(evaluator, LOGS[:120])[0], logged_value(LOGS[:120])
    found = set()
    for one, other in ((new, base), (base, new)):
        gain, lift = one - other, one.lift(other)
        for level in 1 - np.geomspace(1e-9, 0.95, 40):
            for method, of_gain in (("fieller", "student"), ("auto", "auto")):
                low, high = quietly(gain.confidence_interval, level, of_gain)
                rel_low, rel_high = quietly(lift.confidence_interval, level, method)
                if np.isnan(rel_low):  # the baseline may be zero at such a level
                    continue
                assert (rel_low > 0, rel_high < 0) == (low > 0, high < 0)
                found.add((method, bool(low <= 0 <= high)))
    assert len(found) == 4


def test_a_number_as_baseline_is_certain():
    new, _ = pair()
    lift = new.lift(0.4)
    assert_allclose(lift.value, new.value / 0.4 - 1)
    assert_allclose(lift.standard_error, new.standard_error / 0.4)
    for method, plain in (("fieller", "student"), ("auto", "auto")):
        expected = np.array(new.confidence_interval(method=plain)) / 0.4 - 1
        assert_allclose(lift.confidence_interval(method=method), expected)
    assert (lift.gain, lift.baseline) == (new.value - 0.4, 0.4)
    assert_allclose(new.lift(np.float64(0.4)).value, lift.value)
    for low, high in limits(new.lift(1e-200)):  # its square is no number
        assert low < new.value / 1e-200 < high


def test_a_negative_baseline_keeps_the_sign_of_the_gain():
    new, base = pair(logs=logs_of(LOGS.reward - 2))
    assert base.value < new.value < 0
    lift, gain, number = new.lift(base), new - base, new.lift(-2.0)
    assert_allclose(lift.value, gain.value / -base.value)
    assert lift.value > 0 and number.value > 0
    for low, high in limits(lift):
        assert low < lift.value < high
    low, high = interval_of(number)
    assert low < number.value < high
    # the same numbers with both signs turned, and a gain with its sign turned
    moments = gain.value, -base.value, gain.standard_error, base.standard_error
    found = fieller_interval(*moments, -covariance_of(gain, base), N - 1)
    assert_allclose(limits(lift)[1], found)


def test_a_baseline_that_may_be_zero_has_no_lift():
    reward = np.random.default_rng(0).normal(0, 1, N)
    logs = logs_of(reward - reward.mean())
    base, new = logged_value(logs), value_of(SNIPS(), logs, POLICY)
    with pytest.warns(ZeroBaselineWarning, match="the baseline may be zero") as caught:
        lift = new.lift(base)
    assert caught[0].message.value < 0
    assert np.isnan([lift.value, lift.standard_error, *interval_of(lift)]).all()
    for method in METHODS:
        with pytest.warns(OPEWarning) as caught:
            interval = lift.confidence_interval(0.5, method)
        assert isinstance(caught[0].message, ZeroBaselineWarning)
        assert np.isnan(interval).all()
    assert lift.gain == new.value - base.value
    assert "nan" in repr(lift) and "may be zero" in lift._repr_html_()
    # nor has a log without a click
    logs = bare_logs(np.arange(100) % 2, 0.0, 0.5, reward_range=(0, 1))
    with pytest.warns(ZeroBaselineWarning):
        lift = value_of(SNIPS(), logs, ConstantPolicy(1)).lift(logged_value(logs))
    assert np.isnan(lift.value)


def test_at_a_higher_level_the_baseline_may_be_zero():
    logs = logs_of(np.random.default_rng(0).normal(0.16, 1, N))
    new, base = value_of(SNIPS(), logs, POLICY), logged_value(logs)
    assert base.confidence_interval(0.95).low > 0 > base.confidence_interval(0.999).low
    lift = new.lift(base)
    assert np.isfinite(interval_of(lift)).all()
    *others, delta = limits(lift, 0.999)
    for found in others:
        assert np.isnan(found).all() and "99.9% interval" in str(found.warnings[0])
    assert np.isfinite(delta).all()  # whose limits are always bounded


def test_policies_that_act_alike_have_a_lift_of_zero_and_no_value_has_none():
    new, _ = pair()
    lift = new.lift(new)
    assert (lift.value, lift.standard_error) == (0.0, 0.0)
    assert lift.confidence_interval(method="fieller") == (0.0, 0.0)
    only = np.zeros(N, dtype=int)
    logs = BanditLogs(LOGS.context, only, LOGS.reward, np.ones(N), actions=[0, 1])
    new = value_of(SNIPS(), logs, ConstantPolicy(1))
    lift = quietly(new.lift, logged_value(logs))
    assert np.isnan([lift.value, lift.standard_error]).all()
    assert np.isnan(interval_of(lift, method="fieller")).all()


def test_values_of_the_common_rounds():
    order, x = np.arange(N) % 2, np.arange(N) % 3
    slate = np.where(order[:, None] == 0, [0, 1], [1, 0])
    noise = np.random.default_rng(1).normal(0, 0.3, N)
    reward = 1 + (x == 0) + 0.5 * (order == 0) + noise
    logger = EmpiricalSlatePolicy([[0, 1], [1, 0]])
    given = {"n_candidates": 4, "logging_policy": logger}
    logs = SlateLogs(x[:, None], slate, reward, **given)
    target = np.where(x[:, None] == 0, [2, 3], [0, 1])  # unknown where x is 0
    new = value_of(PseudoInverse(self_normalized=True), logs, target)
    base = logged_value(logs)
    with pytest.warns(SupportWarning, match="rounds are common"):
        lift = new.lift(base)
    known = x != 0
    assert lift.n_rounds == known.sum()
    assert_allclose(lift.baseline, reward[known].mean())
    assert_allclose(lift.value, lift.gain / lift.baseline)
    assert_allclose(lift.gain, quietly(lambda: new - base).value)


def test_what_a_policy_that_learns_or_a_model_leaves_open():
    logs = LOGS.replace(propensity=np.full(N, 1 / LOGS.n_actions), logging_proba=None)
    walk = RejectionSampling(random_state=0)
    new, base = (value_of(walk, logs, p) for p in (EpsilonGreedy(), UniformPolicy()))
    with pytest.warns(SingleTrajectoryWarning, match="no standard error"):
        lift = new.lift(base)
    assert np.isfinite(lift.value) and np.isnan(lift.standard_error)
    assert np.isnan(interval_of(lift, method="fieller")).all()
    new, base = pair(DirectMethod())
    lift = quietly(new.lift, base)
    assert lift.leaves_bias_out == (new - base).leaves_bias_out != False  # noqa: E712
    assert "leaves_bias_out" in repr(lift) and "it leaves out" in lift._repr_html_()


def test_what_is_no_baseline():
    new, base = pair()
    _, other = pair(logs=make_bandit_logs(N, random_state=4))
    kinds = ("logger", None, True, [0.1], 1 + 2j)
    for wrong, error, match in (
        *((x, TypeError, "must be a PolicyValue from the same") for x in kinds),
        *((x, ValueError, "that is not zero") for x in (0, 0.0, np.nan, np.inf)),
        (other, ValueError, "the two values come from different rounds"),
    ):
        with pytest.raises(error, match=match):
            new.lift(wrong)
    for method in ("student", 3, None):
        with pytest.raises(ValueError, match="'auto', 'fieller', 'delta'"):
            new.lift(base).confidence_interval(method=method)
    for level, method in product((0, 1, -0.5, "95%", None), METHODS):
        for lift in (new.lift(base), new.lift(0.5)):
            with pytest.raises(ValueError, match=r"level must lie in \(0, 1\)"):
                lift.confidence_interval(level, method)


def test_it_is_a_number_with_looks():
    new, base = pair()
    lift = new.lift(base)
    assert float(lift) == lift.value
    assert f"{lift:+.1%}" == f"{lift.value:+.1%}"
    assert str(lift) == f"{lift}" == repr(lift)
    page = lift._repr_html_()
    assert f"{lift.value:+.1%}" in page and "95% interval" in page
    assert_allclose(pickle.loads(pickle.dumps(lift)).value, lift.value)


@pytest.mark.theory
def test_limits_miss_alike_on_both_sides(global_random_seed):
    """Few clicks of both policies; the delta method's upper limit is too low."""
    rng = np.random.default_rng(global_random_seed)
    n, repetitions, rates = 500, 600, np.array([0.05, 0.07])
    found = []
    for _ in range(repetitions):
        action = rng.integers(0, 2, n)
        logs = bare_logs(action, (rng.random(n) < rates[action]).astype(float), 0.5)
        new, base = (value_of(SNIPS(), logs, ConstantPolicy(a)) for a in (1, 0))
        found.append(limits(quietly(new.lift, base)))
    missed, ends = {}, np.transpose(found, (1, 2, 0))
    for method, (low, high) in zip(METHODS, ends, strict=True):
        known = np.isfinite(low)
        missed[method] = np.mean(low[known] > 0.4), np.mean(high[known] < 0.4)
        assert method == "delta" or known.sum() > 0.95 * repetitions
    for method in ("auto", "fieller"):
        assert max(missed[method]) < 0.055 and sum(missed[method]) > 0.005
    assert missed["delta"][1] > missed["fieller"][1] + 0.01
