# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Exact expectations over all histories of a learner, and the formulas as loops."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.linear_model import Ridge

from skope_ope import (
    IPS,
    AdaptiveDR,
    AdaptiveIPS,
    BanditLogs,
    ConstantPolicy,
    DoublyRobust,
    EpsilonGreedy,
    FunctionPolicy,
    UniformPolicy,
    evaluate,
)
from skope_ope.datasets import make_adaptive_logs
from skope_ope.exceptions import LogsWarning, SupportWarning
from tests.evaluators.adaptive_logger import _loops as loops
from tests.evaluators.adaptive_logger import _tiny as tiny

pytestmark = pytest.mark.filterwarnings("ignore::skope_ope.exceptions.OPEWarning")


def expectation(statistic, n_rounds, contextual):
    total = [p * statistic(logs) for p, logs in tiny.histories(n_rounds, contextual)]
    return float(np.sum(total))


def value_by(evaluator):
    return lambda logs: evaluator.fit(logs).evaluate(tiny.target(logs)).value


RIDGE = AdaptiveDR(reward_model=Ridge())


# The two share their code: by default each of them meets one of the loggers.
@pytest.mark.few_cases(1)
@pytest.mark.parametrize(
    ("evaluator", "contextual"),
    [
        (AdaptiveIPS(), False),
        (AdaptiveDR(), True),
        pytest.param(AdaptiveIPS(), True, marks=pytest.mark.theory),
        pytest.param(AdaptiveDR(), False, marks=pytest.mark.theory),
        pytest.param(RIDGE, True, marks=pytest.mark.theory),
    ],
)
def test_equal_weights_are_exactly_unbiased(evaluator, contextual):
    found = expectation(value_by(evaluator), 3, contextual)
    assert_allclose(found, tiny.VALUE, rtol=1e-12)


@pytest.mark.theory
def test_a_model_that_saw_later_rounds_biases_the_value():
    """The world can tell: cross-fitting, and means of the logged rounds, are off."""

    def cross_fitted(logs):
        return DoublyRobust(cv=3).fit(logs).evaluate(np.eye(2)[[0] * 3]).value

    found = expectation(cross_fitted, 3, True)
    assert_allclose(found - tiny.Q[:, 0].mean(), -0.00415375, atol=1e-10)

    def mean_of_first_arm(logs):
        mine = logs.reward[logs.action_index == 0]
        return mine.mean() if mine.size else tiny.Q[:, 0].mean()

    found = expectation(mean_of_first_arm, 3, False)
    assert abs(found - tiny.Q[:, 0].mean()) > 0.01


def some_logs(contextual, n_rounds=9, seed=3):
    rng = np.random.RandomState(seed)
    cells, proba = [], []
    for _ in range(n_rounds):
        x = rng.randint(2)
        e = tiny.greedy(cells, x, 2 if contextual else 1)
        a = int(rng.random_sample() < e[1])
        cells.append((x, a, int(rng.random_sample() < tiny.Q[x, a])))
        proba.append(e)
    return tiny.log_of(cells, np.array(proba))


def assert_matches(result, expected):
    value, error = expected
    n = result.n_rounds
    assert_allclose(result.value, value, rtol=1e-12)
    assert_allclose(result.standard_error, error * np.sqrt(n / (n - 1)), rtol=1e-9)
    assert_allclose(result.round_values.mean(), value, rtol=1e-9)
    spread = result.round_values.std(ddof=1) / np.sqrt(n)
    assert_allclose(result.standard_error, spread, rtol=1e-9)


@pytest.mark.parametrize("contextual", [False, True])
@pytest.mark.parametrize("weighting", ["min_variance", "stable_variance", "cadr"])
@pytest.mark.parametrize("model", [True, False])
def test_weightings_are_the_formulas(weighting, contextual, model):
    logs = some_logs(contextual)
    logger, at = tiny.logger_of(logs, contextual)
    pi, lists = tiny.target(logs).tolist(), tiny.plain(logs)
    q = loops.earlier_means(lists, 2) if model else np.zeros((9, 2)).tolist()
    g = loops.scores(lists, pi, q)
    cls = AdaptiveDR if model else AdaptiveIPS
    result = cls(weighting=weighting, logger=logger).fit(logs).evaluate(np.array(pi))
    if weighting == "cadr":
        expected = loops.weighted_value(loops.cadr_weights(lists, at, pi, q), g)
    else:
        power = 1 if weighting == "min_variance" else 0.5
        expected = loops.contextual_value(lists, at, pi, g, power)
    assert_matches(result, expected)


@pytest.mark.parametrize("arm", [0, 1])
@pytest.mark.parametrize("decay", [0.0, 0.7])
def test_two_point_is_the_formula(arm, decay):
    logs, truth = make_adaptive_logs(40, random_state=arm, return_truth=True)
    lists = tiny.plain(logs)
    pi = np.eye(2)[[arm] * 40].tolist()
    q = loops.earlier_means(lists, 2, first=0.5)
    h = loops.two_point_weights(logs.logging_proba[:, arm].tolist(), decay)
    assert_allclose(np.sum(np.square(h) / logs.logging_proba[:, arm]), 1)
    setting = {"weighting": "two_point", "floor_decay": decay, "logger": truth.logger}
    result = AdaptiveDR(**setting).fit(logs).evaluate(ConstantPolicy(arm))
    assert_matches(result, loops.weighted_value(h, loops.scores(lists, pi, q)))


@pytest.mark.parametrize(
    ("weighting", "arm", "value", "error"),
    [
        ("uniform", 0, 1.10513077280081, 0.06450182772842623),
        ("uniform", 1, 0.5077889719571559, 0.30415039487287604),
        ("two_point", 0, 1.0759811757459863, 0.05443857594013137),
        ("two_point", 1, 0.4303293644994775, 0.2805631272620535),
        ("stable_variance", 0, 1.0659439528822439, 0.053095243012053824),
        ("stable_variance", 1, 0.49276519197514834, 0.19889770269109883),
    ],
)
def test_values_and_errors_of_the_code_of_hadad_et_al(weighting, arm, value, error):
    """From gsbDBI/adaptive-confidence-intervals, without our factor n / (n - 1).

    Constant allocation, sqrt(e), is "stable_variance" of one arm.
    """
    n, rng = 400, np.random.RandomState(0)
    t = np.arange(1, n + 1)
    floor = t**-0.7 / 2
    e = np.where(rng.uniform(size=n) < 0.8, 1 - floor, floor)
    e = np.where(t <= 20, 0.5, e)
    e = np.column_stack([e, 1 - e])
    action = (rng.uniform(size=n) >= e[:, 0]).astype(int)
    reward = rng.normal([1.0, 0.5], 1, size=(n, 2))[np.arange(n), action]
    took = np.eye(2)[action]
    sums = np.cumsum(took * reward[:, None], axis=0)
    means = sums / np.maximum(np.cumsum(took, axis=0), 1)
    rounds = np.zeros((n, 1)), action, reward, e[np.arange(n), action]
    logs = BanditLogs(*rounds, logging_proba=e)
    model = np.vstack([[0, 0], means[:-1]])  # of earlier rounds
    evaluator = AdaptiveDR(weighting=weighting, floor_decay=0.7, reward_model=model)
    found = evaluator.fit(logs).evaluate(ConstantPolicy(arm))
    assert_allclose(found.value, value, rtol=1e-10)
    assert_allclose(found.standard_error, error * np.sqrt(n / (n - 1)), rtol=1e-10)


@pytest.mark.parametrize(
    ("weighting", "value", "error"),
    [
        ("min_variance", 0.45399247464355685, 0.09216444092470824),
        ("stable_variance", 0.44848477228409644, 0.09105968022894756),
    ],
)
def test_values_and_errors_of_the_code_of_zhan_et_al(weighting, value, error):
    """From gsbDBI/contextual_bandits_evaluation, without our factor n / (n - 1).

    By its source CRAN's banditsCI has the same values, and h_s(x_t) / Z(x_t) for
    h_t(x_s) / Z(x_s) in its errors, which are then .0921 and .0910.
    """
    n, rng = 200, np.random.RandomState(1)
    x = rng.randint(3, size=n)
    X = x[:, None].astype(float)

    def logger(t, X):
        e = np.clip(0.5 + 0.4 * np.sin(t / 15 + np.asarray(X)[:, 0]), 0.05, 0.95)
        return np.column_stack([e, 1 - e])

    e = np.vstack([logger(t, X[t : t + 1]) for t in range(n)])
    action = (rng.uniform(size=n) >= e[:, 0]).astype(int)
    reward = rng.normal(size=n) + 0.5 * (action == x % 2)
    logs = BanditLogs(X, action, reward, e[np.arange(n), action], logging_proba=e)
    pi, model = np.where(x == 1, 0.3, 0.8), np.tile([0, 0.2], (n, 1))
    evaluator = AdaptiveDR(weighting=weighting, logger=logger, reward_model=model)
    found = evaluator.fit(logs).evaluate(np.column_stack([pi, 1 - pi]))
    assert_allclose(found.value, value, rtol=1e-10)
    assert_allclose(found.standard_error, error * np.sqrt(n / (n - 1)), rtol=1e-10)


@pytest.mark.parametrize("weighting", ["min_variance", "stable_variance", "cadr"])
def test_other_ways_to_the_same_value(weighting):
    """None is a logger that ignores the context; IPS is DR with a model of zero."""
    logs, truth = make_adaptive_logs(300, random_state=0, return_truth=True)
    pi = np.random.RandomState(1).dirichlet([1, 1], 300)
    about = {"weighting": weighting}
    for one, other in (
        (AdaptiveDR(**about), AdaptiveDR(**about, logger=truth.logger)),
        (AdaptiveIPS(**about), AdaptiveDR(**about, reward_model=0.0)),
    ):
        found, expected = (a.fit(logs).evaluate(pi) for a in (one, other))
        assert_allclose(found.value, expected.value, rtol=1e-10)
        assert_allclose(found.standard_error, expected.standard_error)
        assert_allclose(found.round_values, expected.round_values, rtol=1e-7)


def test_a_fixed_logger_makes_all_weights_equal():
    rng = np.random.RandomState(0)
    proba = np.tile([0.3, 0.7], (50, 1))
    action = (rng.random_sample(50) < 0.7).astype(int)
    reward = rng.normal(size=50)
    p = proba[np.arange(50), action]
    logs = BanditLogs(rng.normal(size=(50, 2)), action, reward, p, logging_proba=proba)
    pi = np.tile(rng.dirichlet([1, 1]), (50, 1))
    expected = AdaptiveDR().fit(logs).evaluate(pi)
    for weighting in ("min_variance", "stable_variance"):
        found = AdaptiveDR(weighting=weighting).fit(logs).evaluate(pi)
        assert_allclose(found.value, expected.value)
        assert_allclose(found.round_values, expected.round_values)


@pytest.mark.parametrize("weighting", ["stable_variance", "cadr"])
def test_differences_groups_and_names(weighting):
    logs = make_adaptive_logs(400, random_state=0)
    fitted = AdaptiveDR(weighting=weighting).fit(logs)
    one, two = (fitted.evaluate(ConstantPolicy(arm)) for arm in (0, 1))
    gain = one - two
    assert_allclose(gain.value, one.value - two.value)
    change = one.round_values - two.round_values
    assert_allclose(gain.standard_error, change.std(ddof=1) / 20)
    day = np.arange(400) // 100
    if weighting == "cadr":
        assert list(one.by(day)) == [0, 1, 2, 3]
    else:
        for value in (one, gain):
            with pytest.raises(ValueError, match="weighting='uniform'"):
                value.by(day)
    table = evaluate(UniformPolicy(), logs, evaluators=["AdaptiveDR"], cv=3)
    expected = AdaptiveDR().fit(logs).score(UniformPolicy())
    assert_allclose(table["AdaptiveDR"].value, expected)
    value = AdaptiveIPS().fit(logs).evaluate(ConstantPolicy(0))
    for k, found in value.by(day).items():
        rows = slice(100 * k, 100 * k + 100)
        expected = IPS().fit(logs[rows]).evaluate(ConstantPolicy(0))
        assert_allclose(found.value, expected.value)


def test_auto_stays_in_the_range_and_knows_the_largest_weight():
    logs = make_adaptive_logs(300, means=[0.7, 0.1], floor_decay=0.9, random_state=0)
    fitted = AdaptiveDR(weighting="stable_variance").fit(logs)
    value = fitted.evaluate(ConstantPolicy(1))
    found = value.confidence_interval()
    assert 0 <= found.low < found.high <= 1
    largest = 1 / logs.logging_proba[:, 1].min()
    if found.max_weight is not None:
        assert_allclose(found.max_weight, largest)
    stated = value.confidence_interval(method="gamma", max_weight=10 * largest)
    assert stated.high >= found.high


def test_equal_weights_are_ips():
    logs = make_adaptive_logs(200, random_state=0)
    # of the logger itself they give the mean reward
    on_policy = AdaptiveDR().fit(logs, 0.3).evaluate(logs.logging_proba)
    assert_allclose(on_policy.value, logs.reward.mean())
    ips = IPS().fit(logs).evaluate(ConstantPolicy(1))
    found = AdaptiveIPS().fit(logs).evaluate(ConstantPolicy(1))
    for name in ("value", "standard_error", "round_values", "effective_sample_size"):
        assert_allclose(getattr(found, name), getattr(ips, name), err_msg=name)


# -- what it refuses and what it warns of ---------------------------------------------
def made(n=200, **given):
    return make_adaptive_logs(n, random_state=0, return_truth=True, **given)


BY_ARM, BY_CONTEXT = made()[0], made(means=[[0.2, 0.6], [0.7, 0.3]])
LOGGER = BY_CONTEXT[1].logger
BARE = BY_CONTEXT[0].replace(logging_proba=None)
LOGGED, FIRST = np.full(200, 0.5), ConstantPolicy(0)
WEIGHTINGS = ("two_point", "min_variance", "stable_variance", "cadr")
TWO_POINT = {"weighting": "two_point", "floor_decay": 0.5}


@pytest.mark.parametrize(
    ("given", "logs", "policy", "match"),
    [
        ({}, BARE.replace(group=np.arange(200) // 2), FIRST, r"place\(group=None\)"),
        ({}, BARE.replace(sample_weight=np.arange(1, 201)), FIRST, "weight"),
        *(({"weighting": name}, BARE, FIRST, "logging_proba") for name in WEIGHTINGS),
        *(({"weighting": x}, BY_CONTEXT[0], FIRST, "logger=f") for x in WEIGHTINGS[1:]),
        ({}, BARE.replace(propensity=None), FIRST, "propensit"),
        ({"weighting": "best"}, BARE, FIRST, "weighting"),
        ({"floor_decay": 1.0}, BARE, FIRST, "floor_decay"),
        ({}, BARE, LOGGED, "all actions"),
        ({"weighting": "two_point"}, BY_ARM, FIRST, "floor_decay, a number"),
        (TWO_POINT, BY_ARM, UniformPolicy(), "same action in all rounds"),
        (TWO_POINT, BY_ARM, np.eye(2)[np.arange(200) % 2], "same action in all rounds"),
        (TWO_POINT, BY_CONTEXT[0], FIRST, "logger=f"),
        ({**TWO_POINT, "logger": LOGGER}, BY_CONTEXT[0], FIRST, "ignore the context"),
    ],
)
def test_what_is_refused(given, logs, policy, match):
    with pytest.raises(ValueError, match=match):
        AdaptiveDR(**given).fit(logs).evaluate(policy)


def test_what_else_is_refused():
    fitted = AdaptiveDR().fit(BARE)
    assert np.isfinite(fitted.score(FIRST))  # equal weights ask for no distribution
    assert np.isfinite(AdaptiveIPS().fit(BARE).score(LOGGED))
    by_context = AdaptiveIPS(weighting="min_variance", logger=LOGGER)
    with pytest.raises(ValueError, match="all actions"):
        by_context.fit(BY_CONTEXT[0]).evaluate(LOGGED)
    with pytest.raises(TypeError, match="learns while it acts"):
        fitted.evaluate(EpsilonGreedy())
    with pytest.raises(ValueError, match="sample_weight"):
        fitted.evaluate(FIRST, sample_weight=np.arange(1.0, 201))
    # rounds out of order
    logs, back = BY_ARM, np.arange(200)[::-1]
    for late, message in (
        (logs[back], "shuffle=False"),
        (logs.replace(timestamp=back), "timestamp decreases"),
    ):
        with pytest.warns(LogsWarning, match=message):
            AdaptiveDR().fit(late).evaluate(ConstantPolicy(0))


def test_what_the_logger_never_does_is_said():
    """No round is like the policy: NaN, not zero; some mass is missing: a warning."""
    proba, reward = np.tile([1.0, 0.0], (60, 1)), np.arange(60.0) % 2
    rounds = np.zeros((60, 1)), np.zeros(60, int), reward, np.ones(60)
    logs = BanditLogs(*rounds, actions=[0, 1], logging_proba=proba)
    for evaluator in (AdaptiveIPS(), AdaptiveDR(weighting="min_variance")):
        with pytest.warns(SupportWarning):
            found = evaluator.fit(logs).evaluate(ConstantPolicy(1))
        assert np.isnan(found.value) and np.isnan(found.standard_error)
    with pytest.warns(SupportWarning, match="50.00%"):
        AdaptiveIPS().fit(logs).evaluate(UniformPolicy())


def test_effective_rounds_are_those_that_count():
    """Of an arm that loses most of them come early, and weights know that."""
    logs = make_adaptive_logs(1000, means=[0.8, 0.3], floor_decay=0.9, random_state=0)
    both = (AdaptiveDR(weighting=name) for name in ("uniform", "min_variance"))
    plain, weighted = (one.fit(logs).evaluate(ConstantPolicy(1)) for one in both)
    for found, h in ((plain, np.ones(1000)), (weighted, logs.logging_proba[:, 1])):
        counted = h * (logs.action_index == 1) / logs.propensity
        expected = counted.sum() ** 2 / (counted @ counted)
        assert_allclose(found.effective_sample_size, expected)
        assert_allclose(found.diagnostics["effective_share"], expected / 1000)
    assert weighted.effective_sample_size > 3 * plain.effective_sample_size
    assert any("other weightings" in str(w) for w in plain.warnings)


@pytest.mark.parametrize("weighting", ["uniform", "min_variance"])
def test_rounds_in_which_an_action_could_not_be_taken(weighting):
    """They count nothing where weights know of them."""
    logs = make_adaptive_logs(100, random_state=0)
    proba, action = logs.logging_proba.copy(), logs.action_index.copy()
    proba[:20], action[:20] = [1.0, 0.0], 0
    rounds = np.zeros((100, 1)), action, logs.reward, proba[np.arange(100), action]
    logs = BanditLogs(*rounds, logging_proba=proba, actions=[0, 1])
    evaluator = AdaptiveDR(weighting=weighting, reward_model=0.5)
    found = evaluator.fit(logs).evaluate(ConstantPolicy(1))
    late = evaluator.fit(logs[20:]).evaluate(ConstantPolicy(1))
    if weighting == "uniform":
        assert_allclose(found.value, 0.2 * 0.5 + 0.8 * late.value)
    else:
        assert_allclose(found.value, late.value)


def test_policies_that_follow_the_context():
    logs, truth = made(600, means=[[0.2, 0.6], [0.7, 0.3]], floor_decay=0.3)
    best = FunctionPolicy(lambda X: np.eye(2)[1 - X[:, 0].astype(int)]).fit(logs)
    for weighting in ("uniform", "min_variance", "stable_variance", "cadr"):
        evaluator = AdaptiveDR(weighting=weighting, logger=truth.logger)
        found = evaluator.fit(logs).evaluate(best)
        assert abs(found.value - 0.65) < 4 * found.standard_error
