# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Values of ratios on a fixed log, and exact bias and variance in a tiny world."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.base import clone
from sklearn.tree import DecisionTreeRegressor

from skope_ope import (
    IPS,
    MRDR,
    SNDR,
    SNIPS,
    DirectMethod,
    DoublyRobust,
    DRos,
    LogSmoothing,
    SubGaussianIPS,
    SwitchDR,
)
from tests._worlds import W1, bandit_logs, d8, exact_moments, log_of

# a log of two rounds overlaps with nothing
pytestmark = pytest.mark.filterwarnings("ignore::skope_ope.exceptions.OPEWarning")

# name: evaluator, exact bias and n * variance in W1
TABLE = {
    "IPS": (IPS(), 0.0, 1.556766667),
    "IPS(cmax=2)": (IPS(cmax=2.0), -0.22, 0.541166667),
    "DM": (DirectMethod(), -0.05, 0.0004),
    "DR": (DoublyRobust(), 0.0, 0.564816667),
    "DR(cmax=2)": (DoublyRobust(cmax=2.0), -0.03, 0.218316667),
    "SwitchDR(tau=2)": (SwitchDR(tau=2.0), -0.07, 0.062316667),
    "DRos(lam=4)": (DRos(lam=4.0), -0.047420, 0.058059234),
    "SubGaussianIPS": (SubGaussianIPS(lam=0.2), -0.172275, 0.693898622),
    "LogSmoothing(.5)": (LogSmoothing(lam=0.5), -0.237362, 0.520024027),
}


def evaluate(evaluator, log, **fields):
    logs = bandit_logs(log, **fields)
    return clone(evaluator).fit(logs, log.q_hat).evaluate(log.pi)


@pytest.mark.parametrize(
    ("evaluator", "value", "error"),
    [(SNIPS(), 0.804878048780, 0.175273), (SNDR(), 0.792648083624, 0.146031)],
)
def test_self_normalised_values_and_errors_on_the_fixed_log(evaluator, value, error):
    found = evaluate(evaluator, d8())
    assert_allclose(found.value, value, rtol=0, atol=6e-13)
    assert_allclose(found.standard_error, error, rtol=0, atol=6e-7)
    assert_allclose(found.effective_sample_size, 3.328, rtol=0, atol=6e-4)


@pytest.mark.few_cases
@pytest.mark.parametrize("n_rounds", [1, 2])
@pytest.mark.parametrize("name", TABLE)
def test_exact_bias_and_variance(name, n_rounds):
    """And of two rounds the squared standard error has the variance as expectation."""
    evaluator, bias, n_variance = TABLE[name]

    def value_and_square(log):
        result = evaluate(evaluator, log)
        return result.value, result.standard_error**2

    (mean, square), (variance, _) = exact_moments(W1, n_rounds, value_and_square)
    assert_allclose(mean - W1.value, bias, rtol=0, atol=6e-7)
    if bias == 0:
        assert_allclose(mean, W1.value, rtol=1e-13)
    assert_allclose(n_rounds * variance, n_variance, rtol=0, atol=6e-10)
    if n_rounds == 2:  # a single round has no standard error
        assert_allclose(square, n_variance / 2, rtol=0, atol=6e-10)


def test_exact_bias_of_snips():
    mean, _ = exact_moments(W1, 2, lambda log: evaluate(SNIPS(), log).value)
    assert_allclose(mean - W1.value, -0.186960, rtol=0, atol=6e-7)


def test_the_true_model_reaches_the_efficiency_bound():
    _, variance = exact_moments(W1, 1, lambda log: true_model(DoublyRobust(), log))
    assert_allclose(variance, W1.efficiency_bound, rtol=1e-12)
    mean, _ = exact_moments(W1, 1, lambda log: true_model(DirectMethod(), log))
    assert_allclose(mean, W1.value, rtol=1e-13)


def true_model(evaluator, log):
    log.q_hat = W1.q[log.x]
    return evaluate(evaluator, log).value


@pytest.mark.parametrize("wrong", ["propensity", "model"])
def test_doubly_robust_survives_one_wrong_part(wrong):
    def value(log):
        if wrong == "propensity":
            log.q_hat = W1.q[log.x]
            log.propensity = np.sqrt(log.propensity)
        else:
            log.q_hat = log.q_hat**3 - 5
        return evaluate(DoublyRobust(), log).value

    mean, _ = exact_moments(W1, 1, value)
    assert_allclose(mean, W1.value, rtol=1e-12)


def test_mrdr_of_a_saturated_table_is_the_plug_in():
    # Two folds that hold the same rounds: cells are fitted on their copies, so the
    # weights of MRDR cancel within a cell and no residual is left in any of them.
    log = d8()
    twice = log_of(W1, *(np.tile(v, 2) for v in (log.x, log.action, log.reward)))
    folds = [(np.arange(8), np.arange(8, 16)), (np.arange(8, 16), np.arange(8))]
    model = DecisionTreeRegressor(random_state=0)
    fitted = MRDR(reward_model=model, cv=folds).fit(bandit_logs(twice))
    result = fitted.evaluate(twice.pi)
    cell = log.x * 3 + log.action
    means = np.bincount(cell, log.reward) / np.bincount(cell)
    expected = (log.pi * means.reshape(2, 3)[log.x]).sum(axis=1).mean()
    assert_allclose(result.value, expected, rtol=1e-12)
