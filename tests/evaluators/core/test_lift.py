# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import pickle

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
from tests.evaluators.core._asked import bare_logs, interval_of, logged_value, quietly

N = 400
LOGS, POLICY = make_bandit_logs(N, random_state=3, return_truth=True)[:2]
GROUPED = LOGS.replace(group=np.arange(N) // 4)


def pair(evaluator=None, logs=LOGS):
    evaluator = (evaluator or SNIPS()).fit(logs)
    new, base = (quietly(evaluator.evaluate, p) for p in (POLICY, UniformPolicy()))
    return new, base


def logs_of(reward=LOGS.reward, **fields):
    """The same rounds, without a known range."""
    about = LOGS.context, LOGS.action, reward, LOGS.propensity
    return BanditLogs(*about, **fields)


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
    n = N * (N - 1)
    covariance = (gain.round_values - gain.value) @ (base.round_values - base.value) / n
    moments = gain.value, base.value, gain.standard_error, base.standard_error
    numbers = *moments, covariance, gain.degrees_of_freedom, 0.9
    found = lift.confidence_interval(0.9, "fieller")
    assert_allclose(found, fieller_interval(*numbers))
    assert (found.level, found.method) == (0.9, "fieller")
    assert_allclose(
        lift.confidence_interval(0.9, "delta"), delta_ratio_interval(*numbers)
    )


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


def test_default_is_fieller_where_both_intervals_are_students():
    logs = logs_of(LOGS.reward + np.linspace(0, 1, N))
    new, base = pair(logs=logs)
    lift = new.lift(base)
    default = quietly(lift.confidence_interval)
    assert default.method == "fieller"
    covariance_of_halves = quietly(lift.confidence_interval, method="fieller")
    assert_allclose(default, covariance_of_halves, rtol=1e-12)
    assert pair()[0].lift(pair()[1]).confidence_interval().method == "gamma"


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
    for method in ("fieller", "delta", "auto"):  # its square is no number
        low, high = new.lift(1e-200).confidence_interval(method=method)
        assert low < new.value / 1e-200 < high


def test_a_negative_baseline_keeps_the_sign_of_the_gain():
    logs = logs_of(LOGS.reward - 2)
    new, base = pair(logs=logs)
    assert base.value < new.value < 0
    lift = new.lift(base)
    assert_allclose(lift.value, (new.value - base.value) / -base.value)
    assert lift.value > 0
    for method in ("auto", "fieller", "delta"):
        low, high = quietly(lift.confidence_interval, 0.95, method)
        assert low < lift.value < high
    # the same numbers with both signs turned, and a gain with its sign turned
    n = N * (N - 1)
    change = base.round_values - base.value
    covariance = ((new - base).round_values - (new - base).value) @ change / n
    errors = (new - base).standard_error, base.standard_error
    found = fieller_interval(
        (new - base).value, -base.value, *errors, -covariance, N - 1
    )
    assert_allclose(lift.confidence_interval(method="fieller"), found)
    number = new.lift(-2.0)
    assert number.value > 0
    low, high = quietly(number.confidence_interval)
    assert low < number.value < high


def test_a_baseline_that_may_be_zero_has_no_lift():
    rng = np.random.default_rng(0)
    reward = rng.normal(0, 1, N)
    logs = logs_of(reward - reward.mean())
    base = logged_value(logs)
    new = SNIPS().fit(logs).evaluate(POLICY)
    with pytest.warns(ZeroBaselineWarning, match="the baseline may be zero") as caught:
        lift = new.lift(base)
    assert caught[0].message.value < 0
    assert np.isnan([lift.value, lift.standard_error, *interval_of(lift)]).all()
    for method in ("auto", "fieller", "delta"):
        with pytest.warns(OPEWarning) as caught:
            interval = lift.confidence_interval(0.5, method)
        assert isinstance(caught[0].message, ZeroBaselineWarning)
        assert np.isnan(interval).all()
    assert lift.gain == new.value - base.value
    assert "nan" in repr(lift) and "may be zero" in lift._repr_html_()


def test_at_a_higher_level_the_baseline_may_be_zero():
    rng = np.random.default_rng(0)
    logs = logs_of(rng.normal(0.16, 1, N))
    new, base = SNIPS().fit(logs).evaluate(POLICY), logged_value(logs)
    assert base.confidence_interval(0.95).low > 0 > base.confidence_interval(0.999).low
    lift = new.lift(base)
    assert np.isfinite(quietly(lift.confidence_interval)).all()
    for method in ("auto", "fieller"):
        found = quietly(lift.confidence_interval, 0.999, method)
        assert np.isnan(found).all() and "99.9% interval" in str(found.warnings[0])
    # the delta method's limits are always bounded
    assert np.isfinite(lift.confidence_interval(0.999, "delta")).all()


def test_a_log_without_a_click_has_no_lift():
    logs = bare_logs(np.arange(100) % 2, 0.0, 0.5, reward_range=(0, 1))
    new = quietly(SNIPS().fit(logs).evaluate, ConstantPolicy(1))
    with pytest.warns(ZeroBaselineWarning):
        assert np.isnan(new.lift(logged_value(logs)).value)


def test_policies_that_act_alike_have_a_lift_of_zero():
    new, _ = pair()
    lift = new.lift(new)
    assert (lift.value, lift.standard_error) == (0.0, 0.0)
    assert lift.confidence_interval(method="fieller") == (0.0, 0.0)


def test_a_value_that_cannot_be_formed_has_no_lift():
    only = np.zeros(N, dtype=int)
    logs = BanditLogs(LOGS.context, only, LOGS.reward, np.ones(N), actions=[0, 1])
    new = quietly(SNIPS().fit(logs).evaluate, ConstantPolicy(1))
    lift = quietly(new.lift, logged_value(logs))
    assert np.isnan([lift.value, lift.standard_error]).all()
    assert np.isnan(quietly(lift.confidence_interval, method="fieller")).all()


def test_values_of_the_common_rounds():
    order = np.arange(N) % 2
    x = np.arange(N) % 3
    rng = np.random.default_rng(1)
    slate = np.where(order[:, None] == 0, [0, 1], [1, 0])
    reward = 1 + (x == 0) + 0.5 * (order == 0) + rng.normal(0, 0.3, N)
    logs = SlateLogs(
        x[:, None],
        slate,
        reward,
        n_candidates=4,
        logging_policy=EmpiricalSlatePolicy([[0, 1], [1, 0]]),
    )
    evaluator = PseudoInverse(self_normalized=True).fit(logs)
    target = np.where(x[:, None] == 0, [2, 3], [0, 1])  # unknown where x is 0
    new, base = quietly(evaluator.evaluate, target), logged_value(logs)
    with pytest.warns(SupportWarning, match="rounds are common"):
        lift = new.lift(base)
    known = x != 0
    assert lift.n_rounds == known.sum()
    assert_allclose(lift.baseline, reward[known].mean())
    assert_allclose(lift.value, lift.gain / lift.baseline)
    assert_allclose(lift.gain, quietly(lambda: new - base).value)


def test_what_a_policy_that_learns_leaves_open():
    logs = LOGS.replace(propensity=np.full(N, 1 / LOGS.n_actions), logging_proba=None)
    evaluator = RejectionSampling(random_state=0).fit(logs)
    new = quietly(evaluator.evaluate, EpsilonGreedy())
    base = quietly(evaluator.evaluate, UniformPolicy())
    with pytest.warns(SingleTrajectoryWarning, match="no standard error"):
        lift = new.lift(base)
    assert np.isfinite(lift.value) and np.isnan(lift.standard_error)
    assert np.isnan(quietly(lift.confidence_interval, method="fieller")).all()


def test_a_bias_that_is_left_out_is_told():
    new, base = pair(DirectMethod())
    lift = quietly(new.lift, base)
    assert lift.leaves_bias_out == (new - base).leaves_bias_out != False  # noqa: E712
    assert "leaves_bias_out" in repr(lift) and "it leaves out" in lift._repr_html_()


def test_what_is_no_baseline():
    new, base = pair()
    for other in ("logger", None, True, [0.1], 1 + 2j):
        with pytest.raises(TypeError, match="must be a PolicyValue from the same"):
            new.lift(other)
    for other in (0, 0.0, np.nan, np.inf):
        with pytest.raises(ValueError, match="a baseline that is not zero"):
            new.lift(other)
    _, other = pair(logs=make_bandit_logs(N, random_state=4))
    with pytest.raises(ValueError, match="the two values come from different rounds"):
        new.lift(other)
    for method in ("student", 3, None):
        with pytest.raises(ValueError, match="'auto', 'fieller', 'delta'"):
            new.lift(base).confidence_interval(method=method)
    for level in (0, 1, -0.5, "95%", None):
        for method in ("auto", "fieller", "delta"):
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
    methods, n, repetitions = ("auto", "fieller", "delta"), 500, 600
    rates, below = np.array([0.05, 0.07]), {method: [] for method in methods}
    above = {method: [] for method in methods}
    for _ in range(repetitions):
        action = rng.integers(0, 2, n)
        reward = (rng.random(n) < rates[action]).astype(float)
        logs = bare_logs(action, reward, 0.5)
        evaluator = SNIPS().fit(logs)
        new, base = (quietly(evaluator.evaluate, ConstantPolicy(a)) for a in (1, 0))
        lift = quietly(new.lift, base)
        for method in methods:
            low, high = interval_of(lift, 0.95, method)
            if np.isfinite(low):
                below[method].append(low > 0.4)
                above[method].append(high < 0.4)
    for method in ("auto", "fieller"):
        assert len(below[method]) > 0.95 * repetitions
        assert np.mean(below[method]) < 0.055 and np.mean(above[method]) < 0.055
        assert np.mean(below[method]) + np.mean(above[method]) > 0.005
    assert np.mean(above["delta"]) > np.mean(above["fieller"]) + 0.01
