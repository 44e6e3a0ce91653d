# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Limits of the formulas, their tags and refusals, and the models that they use.

test_parity.py compares them with loops, and tests/test_loops.py these with values, bias
and variance in a tiny world.
"""

import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import KFold
from sklearn.neighbors import KNeighborsRegressor
from sklearn.utils import get_tags

from skope_ope import (
    IPS,
    MRDR,
    SNDR,
    SNIPS,
    BanditLogs,
    DirectMethod,
    DoublyRobust,
    DRos,
    LogSmoothing,
    SubGaussianDR,
    SubGaussianIPS,
    SwitchDR,
    UniformPolicy,
)
from skope_ope.exceptions import ModelErrorWarning
from tests._worlds import FOUR_LOGS as LOGS
from tests._worlds import FOUR_PI as PI
from tests._worlds import FOUR_Q as Q
from tests._worlds import W1, d8, enumerate_logs, exact_moments, one_log

pytestmark = pytest.mark.filterwarnings("ignore::skope_ope.exceptions.OPEWarning")

W = np.array([2, 1, 0.5, 0])
V, RESIDUAL = np.array([1.2, 0, 2.6, 2]), np.array([2, -1, -1, -2])
CLICKS = LOGS.replace(reward=[3, 1, 4, 7])  # none is negative
WR = np.array([6, 1, 2, 0])
INF = np.inf


def score(evaluator, model=None, logs=LOGS, policy=PI):
    return evaluator.fit(logs, model).score(policy)


def in_world(evaluator, log):
    x, rows = log.x.reshape(-1, 1), (log.action, log.reward, log.propensity)
    return evaluator.fit(BanditLogs(x, *rows, actions=[0, 1, 2])).evaluate(log.pi)


@pytest.mark.parametrize(
    ("tau", "kept"),
    [(0, []), (0.4, []), (0.5, [2]), (1.5, [1, 2]), (2, [0, 1, 2]), (INF, [0, 1, 2])],
)
def test_switch_by_hand(tau, kept):
    result = SwitchDR(tau=tau).fit(LOGS, Q).evaluate(PI)
    expected = V.copy()
    expected[kept] += (W * RESIDUAL)[kept]
    assert_allclose(result.round_values, expected, rtol=1e-12, atol=1e-15)
    assert result.diagnostics["altered_rows"] == (3 - len(kept)) / 4


def test_log_smoothing_by_hand():
    result = LogSmoothing(lam=0.25).fit(CLICKS).evaluate(PI)
    assert_allclose(result.round_values, 4 * np.log1p(WR / 4), rtol=1e-12)
    default = score(LogSmoothing(), logs=CLICKS)  # 1 / sqrt(4)
    assert default == score(LogSmoothing(lam=0.5), logs=CLICKS)
    values = [score(LogSmoothing(lam=lam), logs=CLICKS) for lam in (2, 1, 0.1, 0)]
    assert values == sorted(values)  # pessimistic
    assert values[-1] == score(IPS(), logs=CLICKS)


def test_weights_of_mean_one_are_doubly_robust():
    mean_one = LOGS.replace(propensity=LOGS.propensity * 3.5 / 4)
    for evaluator in (SNDR(), DoublyRobust()):
        assert_allclose(score(evaluator, Q, mean_one), score(SNDR(), Q), rtol=1e-12)
    for constant in (2.5, 0):  # a model that says nothing
        model = SNDR(reward_model=constant)
        assert_allclose(score(model), score(SNIPS()), rtol=1e-12)
    tiny = LOGS.replace(propensity=np.full(4, 1e-9))  # weights are bounded
    assert abs(score(SubGaussianIPS(lam=0.1), logs=tiny)) <= 10 * LOGS.reward.max()


def test_self_normalised_values_stay_within_the_rewards(global_random_seed):
    rng = np.random.RandomState(global_random_seed)
    for _ in range(20):
        reward = rng.normal(size=4)
        value = score(SNIPS(), logs=LOGS.replace(reward=reward))
        assert reward[:3].min() - 1e-12 <= value <= reward[:3].max() + 1e-12


@pytest.mark.parametrize(
    ("evaluator", "tags"),
    [
        *((IPS(cmax=c), "on_policy_mean") for c in (None, 1.0, 5.0)),
        (IPS(cmax=0.9), ""),
        *((DoublyRobust(cmax=c), "on_policy_mean shift") for c in (None, 1)),
        *((DoublyRobust(cmax=c), "shift") for c in (0.9, 0)),
        *((SwitchDR(tau=t), "on_policy_mean shift") for t in (10, 1)),
        (SwitchDR(tau=0.9), "shift"),
        (DRos(lam=INF), "on_policy_mean shift"),
        (DRos(), "shift"),  # a weight of one is shrunk, too
        (SubGaussianIPS(), "on_policy_mean"),
        (SubGaussianDR(), "on_policy_mean shift"),
    ],
    ids=str,
)
def test_tags(evaluator, tags):
    """Clipping above one keeps the weights of the logger itself."""
    found = get_tags(evaluator)
    held = {"on_policy_mean": found.on_policy_mean, "shift": found.shift_equivariant}
    assert [name for name, holds in held.items() if holds] == tags.split()
    assert found.scale_equivariant and not found.refits_reward_model
    assert not get_tags(LogSmoothing()).scale_equivariant
    assert get_tags(LogSmoothing(lam=0)).scale_equivariant
    assert get_tags(DRos()).constant_reward
    assert get_tags(MRDR()).refits_reward_model


@pytest.mark.parametrize(
    ("cls", "name", "wrong"),
    [
        (IPS, "cmax", (0, -1, INF, np.nan, "2", "best")),
        (SwitchDR, "tau", (-1, np.nan, None, "10")),
        (DRos, "lam", (-1, np.nan, None, "10")),
        (SubGaussianIPS, "lam", (-0.1, 1.1, np.nan, None)),
        (SubGaussianDR, "lam", (-0.1, 1.1, np.nan, None)),
        (LogSmoothing, "lam", (-1, np.nan, "auto")),
    ],
)
def test_wrong_parameters(cls, name, wrong):
    for number in wrong:
        message = f"'{name}' parameter of {cls.__name__} must be a float"
        with pytest.raises(ValueError, match=message):
            cls(**{name: number}).fit(CLICKS)


# -- bias and bounds ----------------------------------------------------------------
def test_the_true_model_reaches_the_efficiency_bound():
    """And one wrong part, propensities or model, leaves no bias."""

    def value(evaluator, log, q_hat):
        return in_world(evaluator.set_params(reward_model=q_hat), log).value

    def right(evaluator):
        return exact_moments(W1, 1, lambda log: value(evaluator, log, W1.q[log.x]))

    def wrong_propensity(log):
        log.propensity = np.sqrt(log.propensity)
        return value(DoublyRobust(), log, W1.q[log.x])

    def wrong_model(log):
        return value(DoublyRobust(), log, log.q_hat**3 - 5)

    assert_allclose(right(DoublyRobust())[1], W1.efficiency_bound, rtol=1e-12)
    means = [exact_moments(W1, 1, one)[0] for one in (wrong_propensity, wrong_model)]
    assert_allclose([right(DirectMethod())[0], *means], W1.value, rtol=1e-12)


def test_clipping_and_smoothing_bias_towards_zero():
    """Exactly, over all logs of a round, and less the higher the bound is.

    A value is the mean of its rounds: more of them have the same expectation.
    """

    def mean(evaluator, n=1):
        return exact_moments(W1, n, lambda log: in_world(evaluator, log).value)[0]

    means = [mean(IPS(cmax=cmax)) for cmax in (0.5, 1.0, 2.0, 4.0, None)]
    assert means == sorted(means)
    assert_allclose(means[-2:], W1.value, rtol=1e-12)  # no weight is above 4
    # lam falls as rounds are added
    assert mean(LogSmoothing()) < mean(LogSmoothing(), 2) < W1.value


@pytest.mark.few_cases(1)
@pytest.mark.parametrize("delta", [0.9, 0.5, 0.1])
def test_the_bound_holds_in_the_tiny_world(delta):
    probability, logs = enumerate_logs(W1, 2)
    failed = 0.0
    for i in np.flatnonzero(probability > 0):
        result = in_world(IPS(), one_log(logs, i))
        radius = result.deviation_bound(delta, max_weight=4.0, reward_bound=1.0)
        failed += probability[i] * (abs(result.value - W1.value) > radius)
    assert failed <= delta


KNOWN = {"max_weight": 8.0, "reward_bound": 7.0}


@pytest.mark.parametrize(
    ("evaluator", "fields", "given", "message"),
    [
        (SNIPS(), {}, {}, "no theorem bounds the deviation of SNIPS"),
        (IPS(cmax=2.0), {}, {}, "does not cover clipped weights"),
        (IPS(), {"group": [0, 0, 1, 1]}, {}, "these logs have groups"),
        (IPS(), {"sample_weight": [1, 2, 1, 1]}, {}, "weights that differ"),
        (IPS(), {}, {"max_weight": 0.1}, r"max_weight=0\.1 is below the importance"),
        (IPS(), {}, {"reward_bound": 0.5}, r"reward_bound=0\.5 is not a bound on"),
    ],
)
def test_the_bound_refuses_what_it_does_not_cover(evaluator, fields, given, message):
    value = evaluator.fit(LOGS.replace(**fields)).evaluate(PI)
    with pytest.raises(ValueError, match=message):
        value.deviation_bound(**KNOWN | given)


def test_the_bound_counts_rounds_of_positive_weight():
    rows = np.array([0, 1, 2, 3, 0, 1])
    value = IPS().fit(LOGS[rows]).evaluate(PI[rows], sample_weight=[1, 1, 1, 1, 0, 0])
    alone = IPS().fit(LOGS).evaluate(PI)
    assert value.deviation_bound(**KNOWN) == alone.deviation_bound(**KNOWN)
    with pytest.raises(ValueError, match="pickled value does not keep"):
        pickle.loads(pickle.dumps(alone)).deviation_bound(**KNOWN)


def test_negative_rewards_need_a_known_lower_bound():
    negative = LOGS.replace(reward=CLICKS.reward - 5)
    with pytest.raises(ValueError, match=r"got -4 at row 1\. Pass reward_range"):
        LogSmoothing().fit(negative)
    with pytest.raises(ValueError, match="at row 1"):
        LogSmoothing().fit(CLICKS).evaluate(PI, negative)

    def ranged(logs, *limits):
        rows = logs.context, logs.action, logs.reward, logs.propensity
        return BanditLogs(*rows, reward_range=limits)

    for lam, expected in ((0.25, 4 * np.log1p(WR / 4)), (0, WR)):
        result = LogSmoothing(lam=lam).fit(ranged(negative, -5, 2)).evaluate(PI)
        assert_allclose(result.round_values, expected - 5, rtol=1e-12)
    # a positive bound is not subtracted
    expected = score(LogSmoothing(), logs=CLICKS)
    assert score(LogSmoothing(), logs=ranged(CLICKS, 1, 7)) == expected


# -- models -------------------------------------------------------------------------
def test_a_model_that_is_right_leaves_no_noise(global_random_seed):
    """Linear rewards without noise and a linear model: DR is the mean of v."""
    rng = np.random.RandomState(global_random_seed)
    X, action = rng.normal(size=(200, 2)), rng.randint(2, size=200)
    q = np.column_stack([X @ [1, 2], X @ [-1, 0.5] + 3])
    logs = BanditLogs(X, action, q[np.arange(200), action], np.full(200, 0.5))
    fitted = DoublyRobust(reward_model=LinearRegression()).fit(logs)
    result = fitted.evaluate(UniformPolicy())
    assert_allclose(result.value, q.mean(), rtol=1e-9)
    ips = IPS().fit(logs).evaluate(UniformPolicy())
    assert result.standard_error < 0.8 * ips.standard_error
    assert_allclose(result.round_values, q.mean(axis=1), rtol=1e-8, atol=1e-8)


def test_columns_travel_where_arrays_cannot():
    logs = LOGS.with_columns(pi=PI, q_hat=Q)
    part = logs[[3, 1]]
    expected = score(DoublyRobust(), Q[[3, 1]], part, PI[[3, 1]])
    assert DoublyRobust(reward_model="q_hat").fit(logs).score("pi", part) == expected
    with pytest.raises(ValueError, match=r"cannot predict for other logs.*q_hat"):
        DoublyRobust().fit(LOGS, Q).evaluate(PI[:2], LOGS[:2])


@pytest.mark.parametrize(
    "evaluator", [SwitchDR(tau=3), DRos(lam=2), SubGaussianDR(lam=0.5)], ids=str
)
def test_a_bias_that_shrinking_lets_in_is_told(evaluator, global_random_seed):
    rng = np.random.RandomState(global_random_seed)
    n = 5000
    action = (rng.random_sample(n) < 0.1).astype(int)  # rare, with weight five
    X, p = np.zeros((n, 1)), np.array([0.9, 0.1])
    reward = rng.random_sample(n) < 0.5
    logs = BanditLogs(X, action, reward, p[action])
    wrong, right = np.tile([0.5, 0.9], (n, 1)), np.full((n, 2), 0.5)
    result = evaluator.fit(logs, wrong).evaluate(UniformPolicy())
    whole = DoublyRobust().fit(logs, wrong).evaluate(UniformPolicy())
    [warning] = [w for w in result.warnings if type(w) is ModelErrorWarning]
    assert "leaves that bias out" in str(warning)
    gap = whole - result  # in pairs: what was taken away
    assert warning.value == pytest.approx(gap.value / gap.standard_error)
    # the right model takes nothing away on average, and DR itself leaves nothing out
    for quiet in (evaluator.fit(logs, right).evaluate(UniformPolicy()), whole):
        assert ModelErrorWarning not in map(type, quiet.warnings)


N = 40
RNG = np.random.RandomState(0)
UNKNOWN = BanditLogs(RNG.normal(size=(N, 2)), np.arange(N) % 2, RNG.random_sample(N))
KNOWN_LOGS = UNKNOWN.replace(propensity=np.full(N, 0.5))


def direct(evaluator, logs=UNKNOWN, part=None):
    with pytest.warns(ModelErrorWarning, match="leaves out the error of the reward"):
        return evaluator.fit(logs).evaluate(UniformPolicy(), part)


def test_a_model_alone_ignores_propensities():
    result = direct(DirectMethod(), KNOWN_LOGS)
    assert result.value == direct(DirectMethod()).value
    assert np.isnan(result.effective_sample_size)
    assert result.diagnostics["model_error_included"] is False
    assert "max_weight" not in result.diagnostics
    number = direct(DirectMethod(reward_model=0.25))
    assert_allclose(number.value, 0.25, rtol=1e-12)
    assert number.standard_error < 1e-15


# -- a model that is fitted to the policy -------------------------------------------
class Spy(RegressorMixin, BaseEstimator):
    """Records the row weights of its fits by the first feature."""

    seen: dict = {}

    def fit(self, X, y, sample_weight=None):
        Spy.seen.update(zip(X[:, 0].tolist(), sample_weight.tolist(), strict=True))
        return self

    def predict(self, X):
        return np.zeros(len(X))


def numbered(n=60, **fields):
    rng, rows = np.random.RandomState(0), np.arange(n)
    rounds = rng.random_sample(n), 0.2 + 0.6 * rng.random_sample(n)
    logs = BanditLogs(rows[:, None] * 1.0, rows % 2, *rounds, **fields)
    return logs.with_columns(pi=rng.dirichlet(np.ones(2), n))


def test_the_model_is_fitted_with_the_weights_of_the_policy():
    logs = numbered(sample_weight=np.linspace(1, 2, 60))
    fitted = MRDR(reward_model=Spy(), cv=3).fit(logs)
    for pi in (logs.columns["pi"], np.tile([0.3, 0.7], (60, 1))):
        Spy.seen = {}
        fitted.evaluate(pi)
        p = logs.propensity
        expected = pi[np.arange(60), logs.action_index] * (1 - p) / p**2
        expected = expected * logs.sample_weight
        assert_allclose([Spy.seen[i] for i in range(60)], expected, rtol=1e-12)
    log, Spy.seen = d8(), {}
    x, folds = np.arange(8.0)[:, None], KFold(2)
    logs = BanditLogs(x, log.action, log.reward, log.propensity, actions=[0, 1, 2])
    MRDR(reward_model=Spy(), cv=folds).fit(logs).evaluate(log.pi)
    expected = [0.2, 7 / 9, 16, 0.2, 1 / 9, 1 / 9, 12, 6]
    assert_allclose([Spy.seen[i] for i in range(8)], expected, rtol=1e-12)


def test_a_certain_logger_leaves_no_variance():
    logs = numbered().replace(propensity=np.ones(60))
    plain = DoublyRobust(cv=3).fit(logs).score("pi")  # any model will do
    assert_allclose(MRDR(cv=3).fit(logs).score("pi"), plain, rtol=1e-12)


def test_other_logs_are_scored_by_a_model_of_the_rounds_of_fit():
    half = np.full((60, 2), 0.5)
    logs = numbered().with_columns(uniform=half)
    here, there = logs[:40], logs[40:]
    fitted = MRDR(cv=3).fit(here)
    by_object = fitted.score(UniformPolicy(), there)
    assert MRDR(cv=3).fit(here).score("uniform", there) == by_object
    with pytest.raises(ValueError, match="the policy, or the name of a column"):
        fitted.evaluate(half[:20], there)
    other = there.with_columns(mu=half[:20])
    with pytest.raises(ValueError, match="'mu' is not a column of the logs"):
        fitted.evaluate("mu", other)


def test_models_without_weights_get_drawn_rounds():
    fitted = MRDR(reward_model=KNeighborsRegressor(2), cv=3).fit(numbered())
    told = "KNeighborsRegressor takes no sample_weight: .* rounds drawn in proportion"
    with pytest.warns(ModelErrorWarning, match=told):
        value = fitted.evaluate(UniformPolicy())
    assert np.isfinite(value.value)


def test_equal_weights_are_doubly_robust():
    """Uniform logging and target: all row weights are equal."""
    logs = numbered().replace(propensity=np.full(60, 0.5))
    folds, policy = list(KFold(3).split(logs)), UniformPolicy()
    pair = MRDR(cv=folds), DoublyRobust(cv=folds)
    found, plain = (one.fit(logs).score(policy) for one in pair)
    assert_allclose(found, plain, rtol=1e-12)
    with pytest.raises(ValueError, match="cannot use cv='prefit'"):
        MRDR(reward_model=Spy(), cv="prefit").fit(logs)
