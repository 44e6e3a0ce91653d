# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Values, errors and diagnostics by hand, and the laws of both evaluators."""

import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.linear_model import Ridge
from sklearn.model_selection import KFold
from sklearn.utils import get_tags

from skope_ope import (
    IPS,
    SNDR,
    SNIPS,
    BanditLogs,
    DoublyRobust,
    MultiLoggerDR,
    MultiLoggerIPS,
)
from skope_ope.evaluators import pooling_variance_ratio
from skope_ope.exceptions import FewGroupsWarning
from tests.evaluators.core._asked import bare_logs
from tests.evaluators.multi_logger._logs import POOLINGS, several
from tests.evaluators.multi_logger._toy import (
    DELTA,
    LOGGERS,
    TARGET,
    VALUE,
    exact_moments,
    ml4,
    score,
)

pytestmark = pytest.mark.filterwarnings("ignore::skope_ope.exceptions.OPEWarning")
GIVEN = {0: 1.0, 1: 2.0, 2: 5.0}
Q = np.random.RandomState(0).random_sample((300, 4))


def evaluators(pooling, model=False, **params):
    """The evaluator with a pooling, without or with a model."""
    return (MultiLoggerDR if model else MultiLoggerIPS)(pooling=pooling, **params)


def assert_same(found, expected):
    assert_allclose(found.value, expected.value, rtol=1e-10)
    assert_allclose(found.standard_error, expected.standard_error, rtol=1e-9)
    assert_allclose(found.round_values, expected.round_values, rtol=1e-8)


def check_rounds(result, rtol=1e-9):
    """Mean and spread of the round values are those of the result."""
    z = result.round_values
    assert_allclose(z.mean(), result.value, rtol=1e-12)
    error = z.std(ddof=1) / np.sqrt(len(z))
    assert_allclose(error, result.standard_error, rtol=rtol)


every_pooling = pytest.mark.parametrize("pooling", POOLINGS)
with_model = pytest.mark.parametrize("model", [False, True], ids=["IPS", "DR"])
normalizing = pytest.mark.parametrize("normalized", [False, True])


# -- the paper's numbers ------------------------------------------------------------
ORACLE = {"pooling": "weighted", "divergences": (252.81, 4.2711111111)}


@pytest.mark.parametrize(
    ("params", "expected"),
    [
        ({}, 14.5069444444),
        ({"pooling": "balanced"}, 11.0202020202),
        (ORACLE, 9.0755641324),
        ({"pooling": "weighted"}, 8.9479069237),
        ({"self_normalized": True}, 9.6267281106),
        ({"self_normalized": True, "pooling": "balanced"}, 9.1680672269),
        ({"self_normalized": True, **ORACLE}, 9.9794479045),
    ],
)
def test_four_rows(params, expected):
    logs, pi = ml4()
    assert_allclose(MultiLoggerIPS(**params).fit(logs).score(pi), expected, rtol=1e-9)


def residual_divergences():
    """Divergences of the terms of DR with the model 5.5."""
    squares = [0.5 * ((TARGET * (DELTA - 5.5)) ** 2 / mu).sum() for mu in LOGGERS]
    return np.array(squares) - (VALUE - 5.5) ** 2


@pytest.mark.parametrize(
    ("pooling", "variance"),
    [("naive", 18.4331), ("balanced", 4.56405), ("weighted", 12.0724)],
)
def test_the_toy_with_a_constant_model(pooling, variance):
    evaluator = MultiLoggerDR(
        pooling=pooling, reward_model=5.5, divergences=residual_divergences()
    )
    mean, found = exact_moments(score(evaluator))
    assert_allclose(mean, VALUE, rtol=1e-12)
    assert_allclose(found, variance, rtol=1e-5)


# -- laws ---------------------------------------------------------------------------
@pytest.mark.parametrize("named", [False, True])
@every_pooling
@normalizing
@with_model
def test_a_single_logger(model, normalized, pooling, named):
    logs, pi = several(m=1)
    if not named:
        rows = logs.context, logs.action, logs.reward, logs.propensity
        logs = BanditLogs(*rows, actions=range(4))
    found = evaluators(pooling, model, self_normalized=normalized)
    plain = (SNDR if model else SNIPS) if normalized else DoublyRobust if model else IPS
    found, expected = (one.fit(logs, Q).evaluate(pi) for one in (found, plain()))
    assert_same(found, expected)
    size = expected.effective_sample_size
    assert_allclose(found.effective_sample_size, size, rtol=1e-10)
    if not model:
        interval = expected.confidence_interval()
        assert found.confidence_interval() == pytest.approx(interval)


@every_pooling
@normalizing
def test_a_model_of_zero_is_ips(pooling, normalized):
    logs, pi = several()
    pair = (evaluators(pooling, m, self_normalized=normalized) for m in (True, False))
    assert_same(*(one.fit(logs, 0.0).evaluate(pi) for one in pair))


@every_pooling
@normalizing
@with_model
def test_laws_with_several_loggers(model, normalized, pooling):
    logs, pi = several(seed=1 + model)
    evaluator = evaluators(pooling, model, self_normalized=normalized)

    def found(logs, pi=pi, q=Q, weight=None):
        return evaluator.fit(logs, q).evaluate(pi, sample_weight=weight)

    expected = found(logs)
    check_rounds(expected)
    order = np.random.RandomState(0).permutation(300)
    other = found(logs[order], pi[order], Q[order])
    assert_allclose(other.value, expected.value, rtol=1e-12)
    assert_allclose(other.round_values, expected.round_values[order], rtol=1e-9)
    times = np.random.RandomState(1).randint(0, 4, 300)
    rows = np.repeat(np.arange(300), times)
    repeated = found(logs[rows], pi[rows], Q[rows]).value
    assert_allclose(found(logs, weight=times).value, repeated, rtol=1e-10)
    check_rounds(found(logs, weight=times + 0.5))
    tripled = found(logs.replace(reward=3 * logs.reward), q=3 * Q)
    assert_allclose(tripled.value, 3 * expected.value, rtol=1e-10)
    follows = get_tags(evaluator).shift_equivariant
    assert follows or not model
    for shift in (2.0, 1e7) if follows else ():
        moved = found(logs.replace(reward=logs.reward + shift), q=Q + shift)
        assert_allclose(moved.value - shift, expected.value, rtol=1e-7)
        assert_allclose(moved.standard_error, expected.standard_error, rtol=1e-6)
    if model:
        same = found(logs.replace(reward=np.full(300, 3.0)), q=3.0)
        assert_allclose([same.value, same.standard_error], [3, 0], atol=1e-12)
    stored = pickle.loads(pickle.dumps(expected))
    assert_array_equal(stored.round_values, expected.round_values)
    assert stored.diagnostics["logger_shares"] == expected.diagnostics["logger_shares"]


def test_the_mixture_of_the_loggers_is_worth_the_mean_reward():
    rng = np.random.RandomState(0)
    mu, logger = rng.dirichlet(np.ones(3), 2), np.arange(100) % 2
    action, reward = rng.randint(0, 3, 100), rng.random_sample(100)
    known = {"logger": logger, "logger_proba": mu[:, action].T}
    logs = bare_logs(action, reward, actions=range(3), **known)
    mixture = np.tile(mu.mean(axis=0), (100, 1))
    for pooling, pi in (("balanced", mixture), ("naive", mu[logger])):
        value = MultiLoggerIPS(pooling=pooling).fit(logs).score(pi)
        assert_allclose(value, reward.mean())


# -- values and errors by hand, with and without groups -----------------------------
LAWS = {
    "none": lambda u, g: np.arange(len(u)),
    "nested": lambda u, g: u % 50 + 50 * g,
    "crossing": lambda u, g: u % 80,
}
laws = pytest.mark.parametrize("law", LAWS)


def grouped(law, n=600, **given):
    """Logs in which users have a few rounds each, and the users."""
    logs, pi = several(n=n, **given)
    users = LAWS[law](np.random.RandomState(1).randint(0, 10_000, n), logs.logger)
    return logs.replace(group=None if law == "none" else users), pi, users


def by_hand(logs, pi, pooling, law, users, given=GIVEN):
    """Value and clustered standard error, with loops over loggers and groups."""
    target, code = pi[np.arange(len(logs)), logs.action_index], logs.logger_index
    sizes = np.bincount(code)
    p = logs.propensity
    if pooling == "balanced":
        p = logs.logger_proba @ (sizes / len(logs))
    t, lam = target / p * logs.reward, np.full(len(sizes), 1 / len(logs))
    if pooling == "weighted":
        lam = 1 / np.array(list(given.values()))
        lam /= sizes @ lam
    influence = np.zeros(len(logs))
    for k in range(len(sizes)):
        own = code == k
        influence[own] = lam[k] * (t[own] - t[own].mean())
        if law != "crossing":  # loggers are samples of their own
            G = len(np.unique(users[own]))
            influence[own] *= np.sqrt(G / (G - 1))
    if law == "crossing":
        G = len(np.unique(users))
        influence *= np.sqrt(G / (G - 1))
    sums = np.bincount(users, influence)
    return (lam[code] * t).sum(), np.sqrt(sums @ sums)


@laws
@every_pooling
@pytest.mark.parametrize("m", [2, 3, 12])
def test_against_loops(pooling, law, m, global_random_seed):
    logs, pi, users = grouped(law, m=m, seed=global_random_seed)
    given = dict(enumerate(np.linspace(1, 4, m)))
    evaluator = MultiLoggerIPS(pooling=pooling, divergences=given)
    result = evaluator.fit(logs).evaluate(pi)
    value, error = by_hand(logs, pi, pooling, law, users, given)
    assert_allclose(result.value, value, rtol=1e-12)
    assert_allclose(result.standard_error, error, rtol=1e-10)
    if law == "none":
        check_rounds(result, rtol=1e-10)
        return
    groups = len(np.unique(users))
    assert result.diagnostics["n_groups"] == groups
    assert result.degrees_of_freedom == groups - (m if law == "nested" else 1)
    independent = evaluator.fit(logs.replace(group=None)).evaluate(pi)
    effect = (error / independent.standard_error) ** 2
    assert_allclose(result.diagnostics["design_effect"], effect, rtol=1e-9)


@laws
@every_pooling
def test_a_difference_is_paired_within_loggers_and_groups(pooling, law):
    logs, pi, users = grouped(law)
    other = np.roll(pi, 1, axis=1)
    fitted = MultiLoggerIPS(pooling=pooling, divergences=GIVEN).fit(logs)
    difference = fitted.evaluate(pi) - fitted.evaluate(other)
    # IPS is linear in the policy
    value, error = by_hand(logs, pi - other, pooling, law, users)
    assert_allclose(difference.value, value, rtol=1e-9)
    assert_allclose(difference.standard_error, error, rtol=1e-9)


def test_a_logger_with_one_group_joins_another():
    logs, pi = several(n=300)

    def value_of(others):
        group = np.where(logs.logger_index == 1, 1000, others)
        with pytest.warns(FewGroupsWarning) as caught:
            value = MultiLoggerIPS().fit(logs.replace(group=group)).evaluate(pi)
        assert len(caught) == 1
        return value

    assert np.isfinite(value_of(np.arange(300) // 2).standard_error)
    assert value_of(0).degrees_of_freedom <= 2


def test_values_of_rows_keep_groups_and_weights():
    logs, pi, _ = grouped("crossing")
    key = np.arange(600) % 2
    rows = np.flatnonzero(key == 0)
    for pooling in ("naive", "weighted"):
        evaluator = MultiLoggerIPS(pooling=pooling, divergences=GIVEN)
        found = evaluator.fit(logs).evaluate(pi).by(key)[0]
        expected = evaluator.fit(logs[rows]).evaluate(pi[rows])
        assert_allclose(found.value, expected.value, rtol=1e-12)
        assert_allclose(found.standard_error, expected.standard_error, rtol=1e-9)
        assert found.degrees_of_freedom == expected.degrees_of_freedom


# -- weights of loggers -------------------------------------------------------------
def test_cross_fitting_follows_the_rows_of_each_logger():
    logs, pi = several(n=101)
    for divergences in ("pooled", "per_logger"):
        given = {"pooling": "weighted", "divergences": divergences}
        evaluator = MultiLoggerIPS(cross_fit=4, **given)
        result = evaluator.fit(logs).evaluate(pi)
        plain = MultiLoggerIPS(**given).fit(logs).evaluate(pi)
        assert result.value != plain.value
        assert_allclose(result.value, plain.value, atol=4 * plain.standard_error)
        assert_allclose(result.round_values.mean(), result.value, rtol=1e-12)
        assert_allclose(sum(result.diagnostics["logger_shares"].values()), 1)
        # the loggers one after the other: the same folds
        order = np.argsort(logs.logger_index, kind="stable")
        again = evaluator.fit(logs[order]).score(pi[order])
        assert_allclose(again, result.value, rtol=1e-12)


@pytest.mark.parametrize("divergences", ["pooled", "per_logger", {0: 1.0, 1: 2, 2: 5}])
@pytest.mark.parametrize("cross_fit", [None, 3])
def test_weighted_far_from_zero_has_an_error(divergences, cross_fit):
    """Rewards r + 1e6: divergences are those of the rewards themselves."""
    logs, pi = several()
    far = logs.replace(reward=logs.reward + 1e6)
    given = {"divergences": divergences, "cross_fit": cross_fit}
    evaluator = MultiLoggerIPS(pooling="weighted", self_normalized=True, **given)
    result = evaluator.fit(far).evaluate(pi)
    shares = np.array(list(result.diagnostics["logger_shares"].values()))
    if cross_fit is None:
        # the ratio by hand, of rewards that have their digits
        w = pi[np.arange(300), logs.action_index] / logs.propensity
        code, sizes = logs.logger_index, np.bincount(logs.logger_index)
        s2 = np.array(list(result.diagnostics["logger_divergences"].values()))
        lam = 1 / s2 / (sizes / s2).sum()
        if divergences == "per_logger":
            own = [(w * far.reward)[code == k].var(ddof=1) for k in range(3)]
            assert_allclose(s2, own, rtol=1e-9)
        value = (lam[code] * w * logs.reward).sum() / (lam[code] * w).sum()
        line = w * (logs.reward - value) / (lam[code] * w).sum()
        spread = [line[code == k].var(ddof=1) for k in range(3)]
        variance = lam**2 * sizes @ spread
        assert_allclose(result.value - 1e6, value, rtol=1e-8)
        assert_allclose(result.standard_error, np.sqrt(variance), rtol=1e-8)
        assert_allclose(shares, lam * sizes, rtol=1e-9)
    assert 0.01 < result.standard_error < 1
    check_rounds(result, rtol=1e-6)


def test_a_logger_that_is_left_out_gives_no_degrees_of_freedom():
    logs, pi = several()
    evaluator = MultiLoggerIPS(pooling="weighted", divergences=[1.0, np.inf, 2.0])
    result = evaluator.fit(logs).evaluate(pi)
    count = np.bincount(logs.logger_index)
    assert result.degrees_of_freedom == count[0] + count[2] - 2
    for name in ("logger_rounds", "logger_weights", "logger_unsupported_mass"):
        assert list(result.diagnostics[name]) == [0, 1, 2]
    assert result.diagnostics["logger_shares"][1] == 0
    rows = np.flatnonzero(logs.logger != 1)
    alone = MultiLoggerIPS(pooling="weighted", divergences={0: 1.0, 1: 9.0, 2: 2.0})
    alone = alone.fit(logs[rows]).evaluate(pi[rows])
    assert_allclose(result.value, alone.value, rtol=1e-12)
    assert_allclose(result.standard_error, alone.standard_error, rtol=1e-12)
    assert result.degrees_of_freedom == alone.degrees_of_freedom


def test_pooled_divergences_of_the_terms():
    logs, pi = ml4()
    fitted = MultiLoggerDR(pooling="weighted", reward_model=5.5).fit(logs)
    found = fitted.evaluate(pi).diagnostics["logger_divergences"]
    x, a = logs.context[:, 0].astype(int), logs.action
    mixture = logs.logger_proba.mean(axis=1)
    for k in (0, 1):
        z = 5.5 + TARGET[x, a] / LOGGERS[k][x, a] * (logs.reward - 5.5)
        u = LOGGERS[k][x, a] / mixture
        mean = np.average(z, weights=u)
        expected = np.average((z - mean) ** 2, weights=u)
        assert_allclose(found[k], expected, rtol=1e-10)
    # estimated from the own rounds: sample variances of these terms
    logs, pi = several()
    given = {"pooling": "weighted", "divergences": "per_logger", "reward_model": 1.5}
    for normalized in (False, True):
        evaluator = MultiLoggerDR(self_normalized=normalized, **given)
        found = evaluator.fit(logs).evaluate(pi).diagnostics["logger_divergences"]
        w = pi[np.arange(300), logs.action_index] / logs.propensity
        terms = 1.5 + w * (logs.reward - 1.5)
        for k in range(3):
            own = terms[logs.logger == k].var(ddof=1)
            assert_allclose(found[k], own, rtol=1e-9)


def test_a_fitted_model_and_cross_fitting():
    logs, pi = several(n=600)
    robust = MultiLoggerDR(pooling="weighted", reward_model=Ridge(), cv=3, cross_fit=3)
    result = robust.fit(logs).evaluate(pi)
    plain = MultiLoggerIPS(pooling="weighted").fit(logs).evaluate(pi)
    assert result.standard_error < plain.standard_error
    assert_allclose(result.value, plain.value, atol=4 * plain.standard_error)
    assert {"model_r2", "correction", "logger_shares"} <= set(result.diagnostics)


@pytest.mark.theory
def test_loggers_that_act_one_after_the_other_do_not_bias_the_balanced_estimate(
    global_random_seed,
):
    """One model for all: folds by time would give each specialist another one."""
    rng = np.random.RandomState(global_random_seed)
    p_right = np.array([[0.95, 0.5], [0.5, 0.95]])  # by logger and context
    logger, errors = np.repeat([0, 1], 40), []
    for _ in range(200):
        x = rng.randint(2, size=80)
        right = rng.random_sample(80) < p_right[logger, x]
        action = np.where(right, x, 1 - x)
        reward = (rng.random_sample(80) < np.where(right, 0.9, 0.2)).astype(float)
        proba = np.where(right[:, None], p_right.T[x], 1 - p_right.T[x])
        known = {"actions": [0, 1], "logger": logger, "logger_proba": proba}
        logs = BanditLogs(x[:, None].astype(float), action, reward, **known)
        pi = np.eye(2)[x]  # always right: 0.9
        both = (MultiLoggerDR(pooling="balanced", cv=cv) for cv in (2, KFold(2)))
        errors.append([one.fit(logs).score(pi) - 0.9 for one in both])
    errors = np.array(errors)
    z = errors.mean(axis=0) / errors.std(axis=0) * np.sqrt(200)
    assert abs(z[0]) < 4 < abs(z[1])


# -- other logs, diagnostics -------------------------------------------------------
def test_other_logs_and_logged_probabilities_alone():
    logs, pi = several()
    given, rows = pi[np.arange(300), logs.action_index], np.arange(0, 300, 2)
    for pooling in POOLINGS:
        fitted = MultiLoggerIPS(pooling=pooling).fit(logs)
        assert fitted.score(given) == fitted.score(pi)
        other = MultiLoggerIPS(pooling=pooling).fit(logs[rows]).score(pi[rows])
        assert fitted.score(pi[rows], logs[rows]) == other


def test_diagnostics_by_logger():
    logs, pi = ml4()
    pooled = {0: 372.369421, 1: 1.966210}
    for pooling in POOLINGS:
        result = MultiLoggerIPS(pooling=pooling).fit(logs).evaluate(pi)
        found = result.diagnostics
        assert found["logger_divergences"] == pytest.approx(pooled, rel=1e-6)
        assert found["logger_rounds"] == {0: 2, 1: 2}
        gamma = pooling_variance_ratio(list(pooled.values()), [2, 2])
        assert found["predicted_variance_ratio"] == pytest.approx(gamma, rel=1e-6)
        if pooling != "weighted":
            assert found["logger_weights"] == {0: 0.25, 1: 0.25}
            assert found["logger_shares"] == {0: 0.5, 1: 0.5}
        else:
            assert found["logger_weights"][1] > 0.49


def test_weights_as_they_enter():
    logs, pi = several()
    i = np.arange(300)
    target = pi[i, logs.action_index]
    naive = target / logs.propensity
    sizes = np.bincount(logs.logger_index)
    lam = np.array([1, 0.5, 0.2]) / (sizes @ np.array([1, 0.5, 0.2]))
    for pooling, w in (
        ("naive", naive),
        ("balanced", target / (logs.logger_proba @ (sizes / 300))),
        ("weighted", 300 * lam[logs.logger_index] * naive),
    ):
        fitted = MultiLoggerIPS(pooling=pooling, divergences=[1.0, 2.0, 5.0]).fit(logs)
        result = fitted.evaluate(pi)
        found = result.diagnostics
        assert_allclose(result.effective_sample_size, w.sum() ** 2 / (w * w).sum())
        assert_allclose(found["max_weight"], w.max())
        assert_allclose(found["mean_weight"], w.mean())
        z = (w.mean() - 1) / (w.std(ddof=1) / np.sqrt(300))
        if pooling != "weighted":
            assert_allclose(found["mean_weight_z"], z)
        assert_allclose(found["large_weight_mass"], (w * (w > 20)).mean())
        assert_allclose(found["altered_rows"], 0)
        own = [naive[logs.logger == k] for k in range(3)]
        sizes = list(found["logger_effective_sample_size"].values())
        assert_allclose(sizes, [v.sum() ** 2 / (v * v).sum() for v in own])
