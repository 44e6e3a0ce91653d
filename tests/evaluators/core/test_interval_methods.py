# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Intervals by name: their options, one-sided bounds, and what they rest on."""

import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import t
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import Ridge

from skope_ope import (
    IPS,
    SNIPS,
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
from skope_ope.exceptions import FewEventsWarning, SupportWarning
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

FUNCTIONS = {
    "betting": betting_interval,
    "hoeffding": hoeffding_interval,
    "empirical_bernstein": empirical_bernstein_interval,
    "empirical_likelihood": empirical_likelihood_interval,
    "cressie_read": cressie_read_interval,
}
BOUNDED = ["betting", "empirical_likelihood", "cressie_read"]
METHODS = [*BOUNDED, "clopper_pearson", "log_smoothing"]
MEANS = ["hoeffding", "empirical_bernstein"]
N = 600
ALWAYS = ConstantPolicy(1)


def make_logs(known=True, uniform=False, **fields):
    """Logs of three actions; the logger depends on the context."""
    rng = np.random.default_rng(0)
    mu = rng.dirichlet([4, 4, 4], N)
    if uniform:
        mu = np.full((N, 3), 1 / 3)
    action = (rng.random((N, 1)) > mu.cumsum(axis=1)).sum(axis=1)
    reward = (rng.random(N) < np.array([0.2, 0.5, 0.3])[action]) * 1.0
    fields = {"reward": reward, "reward_range": (0, 1)} | fields
    fields["logging_proba"] = mu if known else None
    return bare_logs(action, propensity=mu[np.arange(N), action], **fields)


def tiled(*row):
    """The policy with these probabilities in every round."""
    return np.tile(row, (N, 1))


def value_of(evaluator, logs=None, policy=ALWAYS, **fields):
    """The value, which warns, unlike that of `_asked`."""
    logs = make_logs(**fields) if logs is None else logs
    return evaluator.fit(logs).evaluate(policy)


def refuses(value, method, match, **given):
    with pytest.raises(ValueError, match=match):
        value.confidence_interval(method=method, **given)


def weights(logs, action=1):
    return (logs.action == action) / logs.propensity


@pytest.mark.parametrize("method", BOUNDED)
@pytest.mark.parametrize("evaluator", [IPS(), SNIPS()])
def test_the_functions_answer_with_what_is_known(method, evaluator):
    logs = make_logs()
    found = value_of(evaluator, logs).confidence_interval(0.9, method)
    w, most = weights(logs), 1 / logs.logging_proba[:, 1].min()
    known = {"max_weight": most, "reward_range": (0, 1), "level": 0.9}
    if method != "betting":
        expected = FUNCTIONS[method](w, logs.reward, **known)
    elif type(evaluator) is IPS:
        expected = betting_interval(w * logs.reward, most, 0.9)
    else:
        expected = betting_ratio_interval(w, logs.reward, **known)
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
    for method in MEANS:
        found = value.confidence_interval(0.9, method)
        expected = FUNCTIONS[method](z, level=0.9, **ends)
        assert found == pytest.approx(np.clip(expected, *logs.reward_range))
        assert found.max_weight == pytest.approx(most)
    if turned:  # betting mirrors its own limits
        pair = (value_of(IPS(), one) for one in (logs, make_logs()))
        found, other = (one.confidence_interval(method="betting") for one in pair)
        assert found == pytest.approx((-other.high, -other.low))


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
        value = value_of(IPS(), logs, tiled(0.8, 0.0, 0.2))
    low, high = FUNCTIONS[method](1.6 * (action == 0) * reward, 1.6)
    expected = np.clip((low - 0.2, high + 0.2), 0, 1)
    assert value.confidence_interval(method=method) == pytest.approx(expected)


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
def test_differences_and_groups_refuse_and_tables_answer(method):
    logs = make_logs(uniform=True)
    value = value_of(IPS(), logs)
    gain = value - value_of(IPS(), logs, UniformPolicy())
    for other in (gain, value.by(np.arange(N) % 2)[0]):
        refuses(other, method, r"is not one\. Use 'auto'")
    row, expected = evaluate(ALWAYS, logs)["IPS"], value
    found, expected = (v.confidence_interval(method=method) for v in (row, expected))
    assert found == expected


@pytest.mark.filterwarnings("ignore::skope_ope.exceptions.OPEWarning")
@pytest.mark.parametrize("method", [*MEANS, "betting", "log_smoothing"])
def test_propensities_that_are_not_the_loggers_refuse(method):
    # clipped at 0.4 the interval would be (0.09, 0.49) for a value near 0.5
    logs, target = make_logs(), tiled(0.1, 0.3, 0.6)
    bound = {} if method == "log_smoothing" else {"max_weight": 1e4}
    clipper, estimator = PropensityClipper(0.4), PropensityEstimator(DummyClassifier())
    for step, found in ((clipper, "they are clipped"), (estimator, "estimated")):
        changed = step.fit_transform(logs)
        refuses(value_of(IPS(), changed, target), method, found, **bound)
        logged_value(changed).confidence_interval(method=method)  # needs none
    # without the table: those of the actions together are above 1, and bound nothing
    clipped = clipper.fit_transform(make_logs(known=False, uniform=True))
    if method != "log_smoothing":
        refuses(value_of(IPS(), clipped, target), method, "the logs give none")
    unchanged = PropensityClipper(low=0.0).fit_transform(logs)
    value_of(IPS(), unchanged, target).confidence_interval(method=method)


@pytest.mark.parametrize("method", [*METHODS, *MEANS])
def test_rounds_of_no_weight_do_not_count(method):
    """Sample weights of 0 and 2 are those of a log without the rounds of 0."""
    logs, kept = make_logs(uniform=True), np.arange(N) % 3 > 0
    weighted = IPS().fit(logs).evaluate(ALWAYS, sample_weight=2.0 * kept)
    alone = value_of(IPS(), logs[kept])
    found, expected = (v.confidence_interval(method=method) for v in (weighted, alone))
    assert found == pytest.approx(expected)


@pytest.mark.parametrize("method", BOUNDED)
@pytest.mark.parametrize("known", [True, False])
def test_weights_that_cannot_average_one_refuse(method, known):
    """A third of the policy is on an action that the logger never takes."""
    fields = {"actions": [0, 1, 2], "reward_range": (0, 1)}
    if known:
        fields["logging_proba"] = tiled(0.5, 0.5, 0.0)
    logs = bare_logs(np.arange(N) % 2, make_logs().reward, 0.5, **fields)
    with pytest.warns(SupportWarning):
        value = value_of(IPS(), logs, tiled(0.4, 0.3, 0.3))
    refuses(value, method, r"none can be larger than 0\.8: the policy")


def exact(value, **given):
    return value.confidence_interval(method="clopper_pearson", **given)


def test_shares_have_an_exact_interval():
    """0/1 rewards and one weight that is not zero: w k / n, and k of T."""
    logs = make_logs(uniform=True)
    matched = logs.action == 1
    rewarded, n_matched = int(logs.reward[matched].sum()), int(matched.sum())
    ips = value_of(IPS(), logs)
    assert ips.value == pytest.approx(3 * rewarded / N)
    share = np.array(clopper_pearson_interval(rewarded, N))
    assert exact(ips) == pytest.approx(3 * share)
    found = exact(value_of(SNIPS(), logs))
    assert found == pytest.approx(clopper_pearson_interval(rewarded, n_matched))
    assert found.method == "clopper_pearson"
    mean = exact(logged_value(logs))
    assert mean == clopper_pearson_interval(int(logs.reward.sum()), N)
    without = make_logs(uniform=True, reward=np.zeros(N))  # a click, as replay
    for evaluator in (SNIPS(), Replay()):
        found = exact(value_of(evaluator, without))
        assert found == clopper_pearson_interval(0, n_matched)


def test_other_values_are_no_shares():
    policy, half = ALWAYS, np.random.default_rng(0).integers(3, size=N) / 2
    for logs, target, found in (
        (make_logs(), policy, "other weights"),
        (make_logs(uniform=True, reward=half), policy, "other rewards"),
        (make_logs(uniform=True, reward_range=(0, 5)), policy, "other rewards"),
        (make_logs(uniform=True), tiled(0.2, 0.3, 0.5), "other weights"),
    ):
        refuses(value_of(SNIPS(), logs, target), "clopper_pearson", f"it has {found}")
    value = value_of(SNIPS(), uniform=True)
    refuses(value, "clopper_pearson", "it has other weights", max_weight=7)


@pytest.mark.parametrize("method", METHODS)
def test_rounds_that_say_nothing_give_the_whole_range(method):
    logs = make_logs(uniform=True)
    value = quietly(value_of, SNIPS(), logs[logs.action != 1])
    assert np.isnan(value.value)
    found = interval_of(value, method=method)
    assert (found, found.method) == ((0, 1), method)


@pytest.mark.parametrize("method", ["empirical_likelihood", "cressie_read"])
def test_few_events_warn_where_the_coverage_is_asymptotic(method):
    reward = (np.arange(N) % 200 == 0) * 1.0
    value = IPS().fit(make_logs(reward=reward)).evaluate(UniformPolicy())
    with pytest.warns(FewEventsWarning, match=f"'{method}' holds for many rounds"):
        found = value.confidence_interval(method=method)
    assert found.warnings[0].value < 10


@pytest.mark.parametrize("self_normalized", [True, False])
def test_slates(self_normalized):
    rng = np.random.default_rng(0)
    slate = np.array([[0, 1], [1, 0], [0, 2], [2, 0], [1, 2], [2, 1]])
    drawn, reward = rng.integers(6, size=N), (rng.random(N) < 0.3) * 1.0
    fields = {"n_candidates": 3, "propensity": np.full(N, 1 / 6)}
    logs = SlateLogs(np.zeros((N, 1)), slate[drawn], reward, **fields)
    value = value_of(SlateIPS(self_normalized=self_normalized), logs, tiled(0, 1))
    matched = (logs.slate == [0, 1]).all(axis=1)
    n, factor = (int(matched.sum()), 1) if self_normalized else (N, 6)
    share = clopper_pearson_interval(int(reward[matched].sum()), n)
    assert exact(value) == pytest.approx(factor * np.array(share))
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
    assert value.lower_bound(0.99, method) < low < value.value
    assert value.value < high < value.upper_bound(0.99, method)


@pytest.mark.parametrize("bound", ["lower_bound", "upper_bound"])
def test_a_one_sided_level_is_above_a_half(bound):
    ask, above = getattr(make_value(), bound), r"lie in \(0\.5, 1\), got 0\.\d+: at"
    for level in (0.5, 0.05, 0, 1, 95, "95%"):
        match = above if level in (0.5, 0.05) else r"level must lie in \(0, 1\), got"
        with pytest.raises(ValueError, match=match):
            ask(level)


def test_bounds_warn_and_take_options():
    value = make_value(rate=0.01)
    with pytest.warns(FewEventsWarning) as caught:
        value.lower_bound()
    assert caught[0].filename == __file__
    given = {"method": "hoeffding"}
    narrow, wide = (value.upper_bound(max_weight=most, **given) for most in (3, 30))
    assert narrow < wide
    with pytest.raises(TypeError, match="take no 'alpha'; they take max_weight, n_res"):
        value.lower_bound(0.9, alpha=0.1)
    ratio = make_value(SNIPS())
    for method in MEANS:
        refuses(ratio, method, r"of SNIPS is a ratio of two\. Use 'betting'")
    assert 0 <= ratio.confidence_interval(method="log_smoothing").low < ratio.value


@pytest.mark.few_cases
@pytest.mark.parametrize("option", USERS)
@pytest.mark.parametrize("method", [*NAMES, "jackknife"])
def test_options_that_a_method_does_not_use_are_refused(option, method):
    value, given = make_value(), {option: 500 if option == "n_resamples" else 3}
    if method in USERS[option]:
        value.confidence_interval(method=method, **given)
        return
    refuses(value, method, f"method='{method}' does not use {option}", **given)


@pytest.mark.parametrize("method", [*NAMES, "jackknife"])
def test_one_round(method):
    """Limits are those of the range, unknown, or refused; none is a number too many."""
    logs = bare_logs([0], 0.0, 0.5, actions=[0, 1], reward_range=(0, 1))
    value = value_of(IPS(), logs, np.array([[1.0, 0.0]]))
    options = {"max_weight": 2.0} if method in USERS["max_weight"] else {}
    if method in (*RESAMPLED, "empirical_bernstein", "jackknife"):
        refuses(value, method, r"got 1: every|got one|these rounds have none")
        return
    found = interval_of(value, method=method, **options)
    unknown = method in ("student", "normal")
    assert np.isnan(found).all() if unknown else found == (0, 1)


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


def error_by_leaving_out(score, n=17):
    """Return the error from estimates on the rounds of all groups but one."""
    values = [score(GROUPED[GROUPED.group != group]) for group in range(n)]
    return np.sqrt((n - 1) * np.var(values))


@pytest.mark.filterwarnings("ignore::skope_ope.exceptions.OPEWarning")
@pytest.mark.parametrize("evaluator", [IPS(), SNIPS()])
def test_the_jackknife_leaves_out_one_group_at_a_time(evaluator):
    value = value_of(evaluator, GROUPED, "pi")
    expected = error_by_leaving_out(lambda logs: evaluator.fit(logs).score("pi"))
    assert_allclose(jackknife_error(value), expected, rtol=1e-11)
    if type(evaluator) is IPS:
        assert abs(expected / value.standard_error - 1) < 0.05


@pytest.mark.filterwarnings("ignore::skope_ope.exceptions.OPEWarning")
def test_differences_leave_out_the_same_group_and_all_need_groups():
    def gain(logs):
        fitted = SNIPS().fit(logs)
        return fitted.score("pi") - fitted.score("other")

    fitted = SNIPS().fit(GROUPED)
    found = fitted.evaluate("pi") - fitted.evaluate("other")
    assert_allclose(jackknife_error(found), error_by_leaving_out(gain), rtol=1e-11)
    logs = (GROUPED.replace(group=group) for group in (None, np.zeros(120)))
    none, one = (value_of(IPS(), some, "pi") for some in logs)
    refuses(none, "jackknife", "these rounds have none")
    assert np.isnan(one.confidence_interval(method="jackknife")).all()
