# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import numpy as np
import pytest
from numpy.testing import assert_allclose

from skope_ope import BanditLogs, DirectMethod, UniformPolicy
from skope_ope.exceptions import ModelErrorWarning, SupportWarning

N = 40
RNG = np.random.RandomState(0)
LOGS = BanditLogs(RNG.normal(size=(N, 2)), np.arange(N) % 2, RNG.random_sample(N))
PI = RNG.dirichlet(np.ones(2), N)
Q = RNG.random_sample((N, 2))


def evaluate(evaluator, policy=PI, model=None, logs=LOGS):
    with pytest.warns(ModelErrorWarning, match="leaves out the error of the reward"):
        return evaluator.fit(logs, model).evaluate(policy)


def test_by_hand():
    result = evaluate(DirectMethod(), model=Q)
    terms = (PI * Q).sum(axis=1)
    assert_allclose(result.value, terms.mean(), rtol=1e-12)
    assert_allclose(result.standard_error, terms.std(ddof=1) / N**0.5, rtol=1e-12)
    assert_allclose(result.round_values, terms, rtol=1e-12)


def test_it_needs_no_propensities_and_ignores_those_there_are():
    known = LOGS.replace(propensity=np.full(N, 0.5))
    assert evaluate(DirectMethod(), logs=known).value == evaluate(DirectMethod()).value
    result = evaluate(DirectMethod(), logs=known)
    assert np.isnan(result.effective_sample_size)
    assert result.diagnostics["model_error_included"] is False
    assert "max_weight" not in result.diagnostics


def test_a_number_is_the_value():
    result = evaluate(DirectMethod(reward_model=0.25))
    assert_allclose(result.value, 0.25, rtol=1e-12)
    assert result.standard_error < 1e-15


def test_the_default_is_the_mean_of_other_rounds():
    evaluator = DirectMethod(cv=[(np.arange(20, N), np.arange(20))])
    part = LOGS[np.arange(20)]
    with pytest.warns(ModelErrorWarning):
        result = evaluator.fit(LOGS).evaluate(UniformPolicy(), part)
    means = [LOGS.reward[20:][LOGS.action[20:] == a].mean() for a in (0, 1)]
    assert_allclose(result.value, np.mean(means), rtol=1e-12)


@pytest.mark.parametrize("propensity", [None, np.full(N, 0.5)])
def test_actions_that_were_never_logged_warn(propensity):
    rounds = LOGS.context, LOGS.action, LOGS.reward, propensity
    logs = BanditLogs(*rounds, actions=range(3))
    with pytest.warns(SupportWarning, match=r"33\.33% of its probability") as caught:
        evaluate(DirectMethod(), UniformPolicy(), logs=logs)
    values = [w.message.value for w in caught if w.category is SupportWarning]
    assert values == [pytest.approx(1 / 3)]


def test_the_logged_action_alone_is_not_enough():
    with pytest.raises(ValueError, match="DirectMethod needs the policy's prob"):
        DirectMethod().fit(LOGS).evaluate(PI[:, 0])
