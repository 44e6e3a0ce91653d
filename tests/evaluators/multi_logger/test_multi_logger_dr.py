# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause


import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.linear_model import Ridge
from sklearn.model_selection import KFold
from sklearn.utils import get_tags

from skope_ope import SNDR, BanditLogs, DoublyRobust, MultiLoggerDR, MultiLoggerIPS
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


@pytest.mark.parametrize("pooling", POOLINGS)
@pytest.mark.parametrize("normalized", [False, True])
def test_a_model_of_zero_is_ips(pooling, normalized):
    logs, pi = several()
    params = {"pooling": pooling, "self_normalized": normalized}
    found = MultiLoggerDR(reward_model=0.0, **params).fit(logs).evaluate(pi)
    expected = MultiLoggerIPS(**params).fit(logs).evaluate(pi)
    assert_allclose(found.value, expected.value, rtol=1e-10)
    assert_allclose(found.standard_error, expected.standard_error, rtol=1e-9)
    assert_allclose(found.round_values, expected.round_values, rtol=1e-8)


@pytest.mark.parametrize("pooling", POOLINGS)
@pytest.mark.parametrize("normalized", [False, True])
def test_a_single_logger(pooling, normalized):
    logs, pi = several(m=1)
    q_hat = np.random.RandomState(0).random_sample((300, 4))
    evaluator = MultiLoggerDR(pooling=pooling, self_normalized=normalized)
    found = evaluator.fit(logs, q_hat).evaluate(pi)
    expected = (SNDR() if normalized else DoublyRobust()).fit(logs, q_hat).evaluate(pi)
    assert_allclose(found.value, expected.value, rtol=1e-12)
    assert_allclose(found.standard_error, expected.standard_error, rtol=1e-10)
    assert_allclose(found.round_values, expected.round_values, rtol=1e-9)


@pytest.mark.parametrize("pooling", POOLINGS)
@pytest.mark.parametrize("normalized", [False, True])
def test_laws_with_several_loggers(pooling, normalized):
    logs, pi = several(seed=2)
    q_hat = np.random.RandomState(0).random_sample((300, 4))
    evaluator = MultiLoggerDR(pooling=pooling, self_normalized=normalized)
    expected = evaluator.fit(logs, q_hat).evaluate(pi)
    z = expected.round_values
    assert_allclose(z.mean(), expected.value, rtol=1e-12)
    assert_allclose(z.std(ddof=1) / np.sqrt(300), expected.standard_error, rtol=1e-9)
    assert get_tags(evaluator).shift_equivariant
    for shift in (2.0, 1e7):
        moved = evaluator.fit(logs.replace(reward=logs.reward + shift), q_hat + shift)
        moved = moved.evaluate(pi)
        assert_allclose(moved.value - shift, expected.value, rtol=1e-7)
        assert_allclose(moved.standard_error, expected.standard_error, rtol=1e-6)
    same = logs.replace(reward=np.full(300, 3.0))
    result = evaluator.fit(same, 3.0).evaluate(pi)
    assert_allclose(result.value, 3.0)
    assert_allclose(result.standard_error, 0, atol=1e-12)
    times = np.random.RandomState(1).randint(0, 4, 300)
    rows = np.repeat(np.arange(300), times)
    assert_allclose(
        evaluator.fit(logs, q_hat).score(pi, sample_weight=times),
        evaluator.fit(logs[rows], q_hat[rows]).score(pi[rows]),
        rtol=1e-10,
    )


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
    for normalized in (False, True):
        evaluator = MultiLoggerDR(
            pooling="weighted",
            reward_model=1.5,
            divergences="per_logger",
            self_normalized=normalized,
        )
        found = evaluator.fit(logs).evaluate(pi).diagnostics["logger_divergences"]
        w = pi[np.arange(300), logs.action_index] / logs.propensity
        terms = 1.5 + w * (logs.reward - 1.5)
        for k in range(3):
            own = terms[logs.logger == k].var(ddof=1)
            assert_allclose(found[k], own, rtol=1e-9)


def test_a_fitted_model_and_cross_fitting():
    logs, pi = several(n=600)
    evaluator = MultiLoggerDR(
        pooling="weighted", reward_model=Ridge(), cv=3, cross_fit=3
    )
    result = evaluator.fit(logs).evaluate(pi)
    plain = MultiLoggerIPS(pooling="weighted").fit(logs).evaluate(pi)
    assert result.standard_error < plain.standard_error
    assert_allclose(result.value, plain.value, atol=4 * plain.standard_error)
    assert {"model_r2", "correction", "logger_shares"} <= set(result.diagnostics)


@pytest.mark.theory
@pytest.mark.filterwarnings("ignore::skope_ope.exceptions.OPEWarning")
def test_loggers_that_act_one_after_the_other_do_not_bias_the_balanced_estimate(
    global_random_seed,
):
    """One model for all: folds by time would give each specialist another one."""
    rng = np.random.RandomState(global_random_seed)
    p_right = np.array([[0.95, 0.5], [0.5, 0.95]])  # by logger and context
    errors = {2: [], KFold(2): []}
    for _ in range(200):
        logger = np.repeat([0, 1], 40)
        x = rng.randint(2, size=80)
        right = rng.random_sample(80) < p_right[logger, x]
        action = np.where(right, x, 1 - x)
        reward = (rng.random_sample(80) < np.where(right, 0.9, 0.2)).astype(float)
        proba = np.where(right[:, None], p_right.T[x], 1 - p_right.T[x])
        logs = BanditLogs(
            x[:, None].astype(float),
            action,
            reward,
            actions=[0, 1],
            logger=logger,
            logger_proba=proba,
        )
        pi = np.eye(2)[x]  # always right: 0.9
        for cv, found in errors.items():
            evaluator = MultiLoggerDR(pooling="balanced", cv=cv)
            found.append(evaluator.fit(logs).score(pi) - 0.9)
    z = [np.mean(e) / (np.std(e) / np.sqrt(len(e))) for e in errors.values()]
    assert abs(z[0]) < 4
    assert abs(z[1]) > 4
