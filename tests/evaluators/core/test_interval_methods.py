# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Intervals by name: their options, one-sided bounds, and what they rest on."""

import pickle
import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import t
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import Ridge

from skope_ope import (
    IPS,
    SNIPS,
    BanditLogs,
    ConstantPolicy,
    DoublyRobust,
    LogSmoothing,
    PropensityClipper,
    PropensityEstimator,
    Replay,
    SlateIPS,
    SlateLogs,
    UniformPolicy,
    evaluate,
)
from skope_ope.exceptions import FewEventsWarning, SupportWarning, TailWarning
from skope_ope.intervals import (
    betting_interval,
    betting_ratio_interval,
    clopper_pearson_interval,
    cressie_read_interval,
    empirical_bernstein_interval,
    empirical_likelihood_interval,
    hoeffding_interval,
    log_smoothing_interval,
)
from tests.evaluators.core._asked import bare_logs, interval_of, logged_value, quietly

BOUNDED = ["betting", "empirical_likelihood", "cressie_read"]
METHODS = [*BOUNDED, "clopper_pearson", "log_smoothing"]
MEANS = ["hoeffding", "empirical_bernstein"]
N = 600


def make_logs(seed=0, known=True, uniform=False, **fields):
    """Logs of three actions; the logger depends on the context."""
    rng = np.random.default_rng(seed)
    mu = rng.dirichlet([4, 4, 4], N)
    if uniform:
        mu = np.full((N, 3), 1 / 3)
    action = (rng.random((N, 1)) > mu.cumsum(axis=1)).sum(axis=1)
    reward = (rng.random(N) < np.array([0.2, 0.5, 0.3])[action]) * 1.0
    fields = {"reward": reward, "reward_range": (0, 1)} | fields
    return bare_logs(
        action,
        propensity=mu[np.arange(N), action],
        logging_proba=mu if known else None,
        **fields,
    )


def value_of(evaluator, logs=None, policy=None, **fields):
    logs = make_logs(**fields) if logs is None else logs
    return evaluator.fit(logs).evaluate(ConstantPolicy(1) if policy is None else policy)


def refuses(value, method, match, **given):
    with pytest.raises(ValueError, match=match):
        value.confidence_interval(method=method, **given)


def weights(logs, action=1):
    return (logs.action == action) / logs.propensity


@pytest.mark.parametrize("method", BOUNDED)
@pytest.mark.parametrize("evaluator", [IPS(), SNIPS()])
def test_the_functions_answer_with_what_is_known(method, evaluator):
    logs = make_logs()
    value = value_of(evaluator, logs)
    found = value.confidence_interval(0.9, method)
    w, most = weights(logs), 1 / logs.logging_proba[:, 1].min()
    known = {"max_weight": most, "reward_range": (0, 1), "level": 0.9}
    if method == "betting" and type(evaluator) is IPS:
        expected = betting_interval(w * logs.reward, most, 0.9)
    else:
        expected = {
            "betting": betting_ratio_interval,
            "empirical_likelihood": empirical_likelihood_interval,
            "cressie_read": cressie_read_interval,
        }[method](w, logs.reward, **known)
    assert found == pytest.approx(np.clip(expected, 0, 1))
    assert 0 <= found.low < found.high <= 1
    assert (found.method, found.level) == (method, 0.9)
    assert found.max_weight == pytest.approx(most)
    assert found.max_weight_from == "logging_proba"
    assert found.reward_range == (0, 1)


@pytest.mark.parametrize("turned", [False, True])
def test_means_of_bounded_terms(turned):
    """Terms of rewards in (-1, 0) lie between minus the largest weight and 0."""
    logs = make_logs()
    if turned:
        logs = make_logs(reward=-logs.reward, reward_range=(-1, 0))
    value = value_of(IPS(), logs)
    z, most = weights(logs) * logs.reward, 1 / logs.logging_proba[:, 1].min()
    ends = {"lower": -most, "upper": 0.0} if turned else {"upper": most}
    for method, function in zip(
        MEANS, (hoeffding_interval, empirical_bernstein_interval), strict=True
    ):
        found = value.confidence_interval(0.9, method)
        expected = function(z, level=0.9, **ends)
        assert found == pytest.approx(np.clip(expected, *logs.reward_range))
        assert found.max_weight == pytest.approx(most)


@pytest.mark.parametrize("evaluator", [IPS(), SNIPS()])
def test_log_smoothing_needs_no_bound(evaluator):
    logs = make_logs(known=False)
    value = value_of(evaluator, logs)
    found = value.confidence_interval(0.9, "log_smoothing")
    w, known = weights(logs), {"reward_range": (0, 1), "level": 0.9}
    assert found == log_smoothing_interval(w, logs.reward, **known)
    assert found.max_weight is None and found.reward_range == (0, 1)


@pytest.mark.parametrize("method", [*MEANS, "betting"])
def test_what_the_logger_never_does_may_bring_anything(method):
    """A fifth of the policy is on an action that is never logged."""
    rng = np.random.default_rng(0)
    action, reward = rng.integers(2, size=N), (rng.random(N) < 0.5) * 1.0
    logs = bare_logs(action, reward, 0.5, actions=[0, 1, 2], reward_range=(0, 1))
    with pytest.warns(SupportWarning):
        value = IPS().fit(logs).evaluate(np.tile([0.8, 0.0, 0.2], (N, 1)))
    found = value.confidence_interval(method=method)
    function = {"betting": betting_interval} | dict(
        zip(MEANS, (hoeffding_interval, empirical_bernstein_interval), strict=True)
    )
    low, high = function[method](1.6 * (action == 0) * reward, 1.6)
    assert found == pytest.approx(np.clip((low - 0.2, high + 0.2), 0, 1))


@pytest.mark.parametrize("method", BOUNDED)
def test_a_bound_that_is_not_known_must_be_stated(method):
    logs = make_logs(known=False)
    value, w = value_of(SNIPS(), logs), weights(logs)
    refuses(value, method, r"[pP]ass max_weight=\.\.\.")
    found = value.confidence_interval(method=method, max_weight=40)
    assert (found.max_weight, found.max_weight_from) == (40, "stated")
    row = f"weight of row {np.argmax(w)}, {w.max():.6g}"
    refuses(value, method, row, max_weight=2)


NO_RANGE = {"reward": np.random.default_rng(0).normal(size=N), "reward_range": None}
NOT_ONE = {  # values that are not of weighted rewards
    "IPS": IPS(cmax=2.0),
    "SNIPS": SNIPS(cmax=100.0),
    "LogSmoothing": LogSmoothing(),
    "DoublyRobust": DoublyRobust(reward_model=Ridge()),
}


@pytest.mark.parametrize("method", [*METHODS, *MEANS])
def test_what_methods_need_of_logs_and_values(method):
    if method in METHODS:
        refuses(value_of(SNIPS(), **NO_RANGE), method, r"reward_range=\(low, high\)")
        for name, evaluator in NOT_ONE.items():
            refuses(value_of(evaluator, uniform=True), method, f"of {name} is not one")
    value = value_of(IPS(), uniform=True)
    groups = value_of(IPS(), uniform=True, group=np.arange(N) // 2)
    refuses(groups, method, "independent rounds, and these logs have groups")
    unequal = value_of(IPS(), uniform=True, sample_weight=1.0 + np.arange(N) % 2)
    refuses(unequal, method, "sample weights that differ")
    value.confidence_interval(method=method)  # which pickles can no longer give
    far = pickle.loads(pickle.dumps(value))
    refuses(far, method, "weights of the rounds, and values do not keep")


@pytest.mark.parametrize("method", METHODS)
def test_differences_and_groups_refuse(method):
    logs = make_logs(uniform=True)
    value = value_of(IPS(), logs)
    gain = value - IPS().fit(logs).evaluate(UniformPolicy())
    for other in (gain, value.by(np.arange(N) % 2)[0]):
        refuses(other, method, r"is not one\. Use 'auto'")


@pytest.mark.parametrize("method", METHODS)
def test_values_of_a_table_keep_their_weights(method):
    logs = make_logs(uniform=True)
    value = value_of(IPS(), logs)
    table = evaluate(ConstantPolicy(1), logs)
    expected = value.confidence_interval(method=method)
    assert table["IPS"].confidence_interval(method=method) == expected


@pytest.mark.filterwarnings("ignore::skope_ope.exceptions.OPEWarning")
@pytest.mark.parametrize("method", [*MEANS, "betting", "log_smoothing"])
def test_propensities_that_are_not_the_loggers_refuse(method):
    # clipped at 0.4 the interval would be (0.09, 0.49) for a value near 0.5
    logs, target = make_logs(), np.tile([0.1, 0.3, 0.6], (N, 1))
    bound = {} if method == "log_smoothing" else {"max_weight": 1e4}
    clipped = PropensityClipper(low=0.4).fit_transform(logs)
    estimated = PropensityEstimator(DummyClassifier()).fit_transform(logs)
    for changed, found in ((clipped, "they are clipped"), (estimated, "estimated")):
        refuses(value_of(IPS(), changed, target), method, found, **bound)
        logged_value(changed).confidence_interval(method=method)  # needs none
    # without the table: those of the actions together are above 1, and bound nothing
    of_actions = make_logs(known=False, uniform=True)
    clipped = PropensityClipper(low=0.4).fit_transform(of_actions)
    if method != "log_smoothing":
        refuses(value_of(IPS(), clipped, target), method, "the logs give none")
    unchanged = PropensityClipper(low=0.0).fit_transform(logs)
    value_of(IPS(), unchanged, target).confidence_interval(method=method)


@pytest.mark.parametrize("method", [*METHODS, *MEANS])
def test_rounds_of_no_weight_do_not_count(method):
    """Sample weights of 0 and 2 are those of a log without the rounds of 0."""
    logs = make_logs(uniform=True)
    kept = np.arange(N) % 3 > 0
    weighted = IPS().fit(logs).evaluate(ConstantPolicy(1), sample_weight=2.0 * kept)
    alone = IPS().fit(logs[kept]).evaluate(ConstantPolicy(1))
    found, expected = (
        value.confidence_interval(method=method) for value in (weighted, alone)
    )
    assert found == pytest.approx(expected)


@pytest.mark.parametrize("method", BOUNDED)
@pytest.mark.parametrize("known", [True, False])
def test_weights_that_cannot_average_one_refuse(method, known):
    """A third of the policy is on an action that the logger never takes."""
    logs = make_logs()
    mu = np.tile([0.5, 0.5, 0.0], (N, 1))
    other = BanditLogs(
        logs.context,
        np.arange(N) % 2,
        logs.reward,
        np.full(N, 0.5),
        actions=[0, 1, 2],
        logging_proba=mu if known else None,
        reward_range=(0, 1),
    )
    with pytest.warns(SupportWarning):
        value = IPS().fit(other).evaluate(np.tile([0.4, 0.3, 0.3], (N, 1)))
    refuses(value, method, r"none can be larger than 0\.8: the policy")


def test_shares_have_an_exact_interval():
    """0/1 rewards and one weight that is not zero: w k / n, and k of T."""
    logs = make_logs(uniform=True)
    matched = logs.action == 1
    rewarded = int(logs.reward[matched].sum())
    ips = IPS().fit(logs).evaluate(ConstantPolicy(1))
    assert ips.value == pytest.approx(3 * rewarded / N)
    found = ips.confidence_interval(method="clopper_pearson")
    assert found == pytest.approx(3 * np.array(clopper_pearson_interval(rewarded, N)))
    snips = SNIPS().fit(logs).evaluate(ConstantPolicy(1))
    found = snips.confidence_interval(method="clopper_pearson")
    expected = clopper_pearson_interval(rewarded, int(matched.sum()))
    assert found == pytest.approx(expected)
    assert found.method == "clopper_pearson"
    mean = logged_value(logs).confidence_interval(method="clopper_pearson")
    assert mean == clopper_pearson_interval(int(logs.reward.sum()), N)


def test_the_interval_of_no_click_is_that_of_replay():
    logs = make_logs(uniform=True, reward=np.zeros(N))
    snips = SNIPS().fit(logs).evaluate(ConstantPolicy(1))
    replay = Replay().fit(logs).evaluate(ConstantPolicy(1))
    low, high = snips.confidence_interval(method="clopper_pearson")
    n_matched = int((logs.action == 1).sum())
    assert (low, high) == clopper_pearson_interval(0, n_matched)
    accepted = replay.confidence_interval(method="clopper_pearson")
    assert (low, high) == accepted


def test_other_values_are_no_shares():
    policy = ConstantPolicy(1)
    half = np.random.default_rng(0).integers(3, size=N) / 2
    for logs, target, found in (
        (make_logs(), policy, "other weights"),
        (make_logs(uniform=True, reward=half), policy, "other rewards"),
        (make_logs(uniform=True, reward_range=(0, 5)), policy, "other rewards"),
        (make_logs(uniform=True), np.tile([0.2, 0.3, 0.5], (N, 1)), "other weights"),
    ):
        refuses(value_of(SNIPS(), logs, target), "clopper_pearson", f"it has {found}")
    value = value_of(SNIPS(), uniform=True)
    refuses(value, "clopper_pearson", "it has other weights", max_weight=7)


@pytest.mark.parametrize("method", METHODS)
def test_rounds_that_say_nothing_give_the_whole_range(method):
    logs = make_logs(uniform=True)
    other = logs[logs.action != 1]
    value = quietly(value_of, SNIPS(), other)
    assert np.isnan(value.value)
    found = interval_of(value, method=method)
    assert found == (0, 1)
    assert found.method == method


@pytest.mark.parametrize("method", ["empirical_likelihood", "cressie_read"])
def test_few_events_warn_where_the_coverage_is_asymptotic(method):
    reward = (np.arange(N) % 200 == 0) * 1.0
    value = IPS().fit(make_logs(reward=reward)).evaluate(UniformPolicy())
    with pytest.warns(FewEventsWarning, match=f"'{method}' holds for many rounds"):
        found = value.confidence_interval(method=method)
    assert found.warnings[0].value < 10


def test_betting_on_rewards_below_zero():
    """The terms of IPS lie between both products of the weight and the range."""
    logs = make_logs()
    turned = make_logs(reward=-logs.reward, reward_range=(-1, 0))
    first, second = (
        value_of(IPS(), some).confidence_interval(method="betting")
        for some in (logs, turned)
    )
    assert second == pytest.approx((-first.high, -first.low))


def make_slates():
    rng = np.random.default_rng(0)
    slate = np.array([[0, 1], [1, 0], [0, 2], [2, 0], [1, 2], [2, 1]])
    drawn = rng.integers(6, size=N)
    return SlateLogs(
        np.zeros((N, 1)),
        slate[drawn],
        (rng.random(N) < 0.3) * 1.0,
        n_candidates=3,
        propensity=np.full(N, 1 / 6),
    )


@pytest.mark.parametrize("self_normalized", [True, False])
def test_slates(self_normalized):
    logs = make_slates()
    evaluator = SlateIPS(self_normalized=self_normalized).fit(logs)
    value = evaluator.evaluate(np.tile([0, 1], (N, 1)))
    matched = (logs.slate == [0, 1]).all(axis=1)
    rewarded = int(logs.reward[matched].sum())
    exact = value.confidence_interval(method="clopper_pearson")
    if self_normalized:
        expected = clopper_pearson_interval(rewarded, int(matched.sum()))
    else:
        expected = 6 * np.array(clopper_pearson_interval(rewarded, N))
    assert exact == pytest.approx(expected)
    for method in BOUNDED:
        refuses(value, method, r"[pP]ass max_weight=\.\.\.")
        found = value.confidence_interval(method=method, max_weight=6)
        assert 0 <= found.low < value.value < found.high <= 1


# -- options and one-sided bounds -----------------------------------------------------
RESAMPLED = ("bootstrap", "percentile")
NAMES = ["auto", "gamma", "student", "normal", *MEANS, *METHODS, *RESAMPLED]
USERS = {  # which methods use an option
    "max_weight": ("auto", "gamma", *MEANS, *BOUNDED, "clopper_pearson"),
    "n_resamples": RESAMPLED,
    "n_jobs": RESAMPLED,
    "block_length": RESAMPLED,
}


def make_value(evaluator=None, rate=0.4):
    reward = (np.random.default_rng(0).random(N) < rate) * 1.0
    given = {"uniform": True, "known": False, "reward": reward}
    return quietly(value_of, evaluator or IPS(), **given)


# The jackknife leaves out groups, and has tests of its own.
@pytest.mark.few_cases(5)
@pytest.mark.parametrize("method", NAMES)
def test_bounds_are_ends_of_the_interval_with_the_same_tails(method):
    value = make_value()
    interval = value.confidence_interval(0.9, method)
    low, high = value.lower_bound(0.95, method), value.upper_bound(0.95, method)
    assert (low, high) == pytest.approx((interval.low, interval.high), abs=1e-12)
    assert type(low) is type(high) is float
    assert low < value.value < high
    assert (
        value.lower_bound(0.99, method) < low < high < value.upper_bound(0.99, method)
    )


@pytest.mark.parametrize("bound", ["lower_bound", "upper_bound"])
def test_a_one_sided_level_is_above_a_half(bound):
    value = make_value()
    for level in (0.5, 0.05):
        with pytest.raises(
            ValueError, match=r"must lie in \(0\.5, 1\), got 0\.\d+: at"
        ):
            getattr(value, bound)(level)
    for level in (0, 1, 95, "95%"):
        with pytest.raises(ValueError, match=r"level must lie in \(0, 1\), got"):
            getattr(value, bound)(level)


def test_bounds_warn_and_take_options():
    value = make_value(rate=0.01)
    with pytest.warns(FewEventsWarning) as caught:
        value.lower_bound()
    assert caught[0].filename == __file__
    narrow, wide = (
        value.upper_bound(method="hoeffding", max_weight=most) for most in (3, 30)
    )
    assert narrow < wide


@pytest.mark.few_cases
@pytest.mark.parametrize("option", USERS)
@pytest.mark.parametrize("method", [*NAMES, "jackknife"])
def test_options_that_a_method_does_not_use_are_refused(option, method):
    value, given = make_value(), {option: 500 if option == "n_resamples" else 3}
    if method in USERS[option]:
        value.confidence_interval(method=method, **given)
        return
    refuses(value, method, f"method='{method}' does not use {option}", **given)


def test_options_that_nothing_uses_are_named():
    with pytest.raises(TypeError, match="take no 'alpha'; they take max_weight, n_res"):
        make_value().lower_bound(0.9, alpha=0.1)


@pytest.mark.parametrize("method", [*NAMES, "jackknife"])
def test_one_round(method):
    """Limits are those of the range, unknown, or refused; none is a number too many."""
    logs = BanditLogs([[0.0]], [0], [0.0], [0.5], actions=[0, 1], reward_range=(0, 1))
    value = IPS().fit(logs).evaluate(np.array([[1.0, 0.0]]))
    options = {"max_weight": 2.0} if method in USERS["max_weight"] else {}
    refusing = ("bootstrap", "percentile", "empirical_bernstein", "jackknife")
    if method in refusing:
        refuses(value, method, r"got 1: every|got one|these rounds have none")
        return
    found = interval_of(value, method=method, **options)
    if method in ("student", "normal"):
        assert np.isnan(found).all()
    else:
        assert found == (0, 1)


def test_finite_sample_methods_refuse_ratios():
    value = make_value(SNIPS())
    for method in ("hoeffding", "empirical_bernstein"):
        refuses(value, method, r"of SNIPS is a ratio of two\. Use 'betting'")
    assert 0 <= value.confidence_interval(method="log_smoothing").low < value.value


@pytest.mark.parametrize("method", ["student", "normal"])
def test_no_width_is_warned_of(method):
    value = make_value(rate=0.0)
    with pytest.warns(TailWarning, match="the interval has no width"):
        assert value.confidence_interval(method=method) == (0.0, 0.0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert make_value().confidence_interval(method=method).width > 0


# -- the jackknife --------------------------------------------------------------------
def grouped_logs(n=120):
    rng = np.random.default_rng(0)
    p, action = rng.uniform(0.2, 0.8, n), rng.integers(3, size=n)
    fields = {"actions": range(3), "group": np.arange(n) % 17}
    logs = bare_logs(action, rng.random(n) + action, p, **fields)
    pi, other = rng.dirichlet(np.ones(3), n), rng.dirichlet(np.ones(3), n)
    return logs.with_columns(pi=pi, other=other)


GROUPED = grouped_logs()


def jackknife_error(value):
    """What its limits are, in quantiles of Student's distribution."""
    low, high = value.confidence_interval(method="jackknife")
    assert_allclose((low + high) / 2, value.value)
    return (high - low) / 2 / t.ppf(0.975, value.degrees_of_freedom)


def error_by_leaving_out(score, n_groups=17):
    """Return the error from estimates on the rounds of all groups but one."""
    values = np.array(
        [score(GROUPED[GROUPED.group != group]) for group in range(n_groups)]
    )
    return np.sqrt((n_groups - 1) / n_groups * ((values - values.mean()) ** 2).sum())


@pytest.mark.filterwarnings("ignore::skope_ope.exceptions.OPEWarning")
@pytest.mark.parametrize("evaluator", [IPS(), SNIPS()])
def test_the_jackknife_leaves_out_one_group_at_a_time(evaluator):
    value = evaluator.fit(GROUPED).evaluate("pi")
    expected = error_by_leaving_out(lambda logs: evaluator.fit(logs).score("pi"))
    assert_allclose(jackknife_error(value), expected, rtol=1e-11)
    if isinstance(evaluator, IPS) and not isinstance(evaluator, SNIPS):
        assert abs(expected / value.standard_error - 1) < 0.05


@pytest.mark.filterwarnings("ignore::skope_ope.exceptions.OPEWarning")
def test_of_a_difference_both_leave_out_the_same_group():
    def gain(logs):
        fitted = SNIPS().fit(logs)
        return fitted.score("pi") - fitted.score("other")

    fitted = SNIPS().fit(GROUPED)
    found = fitted.evaluate("pi") - fitted.evaluate("other")
    assert_allclose(jackknife_error(found), error_by_leaving_out(gain), rtol=1e-11)


@pytest.mark.filterwarnings("ignore::skope_ope.exceptions.OPEWarning")
def test_the_jackknife_needs_groups_and_a_function_of_sums():
    alone = IPS().fit(GROUPED.replace(group=None)).evaluate("pi")
    refuses(alone, "jackknife", "these rounds have none")
    one = IPS().fit(GROUPED.replace(group=np.zeros(120))).evaluate("pi")
    assert np.isnan(one.confidence_interval(method="jackknife")).all()
