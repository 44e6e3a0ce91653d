# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import numpy as np
import pytest
from numpy.testing import assert_allclose

from skope_ope import AdaptiveDR, BanditLogs, UniformPolicy
from skope_ope.datasets import make_adaptive_logs
from skope_ope.evaluators.adaptive_logger._logger_at import (
    ContextFreeLogger,
    ContextualLogger,
    ignores_context,
)

MEANS = [[0.2, 0.6], [0.7, 0.3]]
pytestmark = pytest.mark.filterwarnings("ignore::skope_ope.exceptions.OPEWarning")


def with_context(logs, context):
    return BanditLogs(
        context,
        logs.action,
        logs.reward,
        logs.propensity,
        logging_proba=logs.logging_proba,
    )


def test_both_loggers_know_the_same_variances():
    logs, truth = make_adaptive_logs(30, random_state=0, return_truth=True)
    square = np.random.RandomState(0).dirichlet([1, 1], 30) ** 2
    square[0] = [0, 1]
    expected = [[(s / e).sum() for s in square] for e in logs.logging_proba]
    X = logs.context
    for logger in (
        ContextFreeLogger(logs.logging_proba),
        ContextualLogger(truth.logger, logs),
    ):
        found = logger.variances(slice(0, 30), square, X)
        assert_allclose(found, expected)
        assert_allclose(logger.variances(slice(3, 5), square, X), expected[3:5])


def test_an_action_that_cannot_be_taken_has_an_infinite_variance():
    proba = np.array([[1.0, 0.0], [0.5, 0.5]])
    logs = BanditLogs(
        np.zeros((2, 1)), [0, 1], [0, 1], proba[[0, 1], [0, 1]], logging_proba=proba
    )
    square = np.array([[1.0, 0.0], [0.25, 0.25]])
    for logger in (
        ContextFreeLogger(proba),
        ContextualLogger(lambda t, X: np.tile(proba[t], (len(X), 1)), logs),
    ):
        found = logger.variances(slice(0, 2), square, logs.context)
        assert_allclose(found, [[1, np.inf], [2, 1]])


@pytest.mark.few_cases
@pytest.mark.parametrize("logger", ["thompson", "epsilon_greedy"])
@pytest.mark.parametrize("seed", range(3))
def test_loggers_that_ignored_the_context_are_known(logger, seed):
    rng = np.random.RandomState(seed)
    given = {"means": [0.8, 0.2], "logger": logger, "random_state": seed}
    logs = make_adaptive_logs(600, **given)
    assert ignores_context(logs)
    assert ignores_context(with_context(logs, rng.normal(size=(600, 3))))
    assert ignores_context(with_context(logs, np.empty((600, 0))))


@pytest.mark.few_cases
@pytest.mark.parametrize("logger", ["thompson", "epsilon_greedy"])
@pytest.mark.parametrize("seed", range(3))
def test_loggers_that_looked_at_the_context_are_not(logger, seed):
    given = {"logger": logger, "floor_decay": 0.3, "random_state": seed}
    logs = make_adaptive_logs(600, means=MEANS, **given)
    assert not ignores_context(logs)
    assert not ignores_context(logs[:40])


def test_a_trend_hides_no_context():
    """Probabilities that move far with time, and a little with the context."""
    rng = np.random.RandomState(0)
    x = rng.normal(size=2000)
    for tilt in (x, np.abs(x)):
        e = 0.2 + 0.6 * np.arange(2000) / 2000 + 0.02 * np.tanh(tilt)
        proba = np.column_stack([e, 1 - e])
        action = (rng.random_sample(2000) > e).astype(int)
        p = proba[np.arange(2000), action]
        logs = BanditLogs(x[:, None], action, p, p, logging_proba=proba)
        assert not ignores_context(logs)


def test_the_sentence_that_refuses_says_what_to_pass():
    rng = np.random.RandomState(0)
    logs = make_adaptive_logs(40, logger="epsilon_greedy", random_state=0)
    expected = AdaptiveDR(weighting="stable_variance").fit(logs).score(UniformPolicy())
    logs = with_context(logs, rng.normal(size=(40, 2)))
    evaluator = AdaptiveDR(weighting="stable_variance", reward_model=None)
    with pytest.raises(ValueError, match=r"np.tile\(logs.logging_proba\[t\]"):
        evaluator.fit(logs).evaluate(UniformPolicy())
    evaluator.set_params(
        logger=lambda t, X: np.tile(logs.logging_proba[t], (len(X), 1))
    )
    first = expected - evaluator.fit(logs).score(UniformPolicy())
    assert abs(first) < 0.05  # the first round had another prior


def test_a_logger_that_is_not_that_of_the_log_is_refused():
    logs, truth = make_adaptive_logs(
        200, means=MEANS, random_state=0, return_truth=True
    )
    policy = UniformPolicy()

    def refused(logger, match):
        evaluator = AdaptiveDR(weighting="stable_variance", logger=logger)
        with pytest.raises(ValueError, match=match):
            evaluator.fit(logs).evaluate(policy)

    refused(lambda t, X: truth.logger(max(t - 1, 0), X), "Count rounds from 0")
    refused(lambda t, X: truth.logger(199, X), "learn only from the rows before t")
    refused(lambda t, X: truth.logger(t, X)[:, :1], r"shape \(1, 2\)")
    refused(lambda t, X: 2 * truth.logger(t, X), "sum to 1")
    evaluator = AdaptiveDR(weighting="cadr", logger=truth.logger)
    with pytest.raises(ValueError, match="row 0"):
        evaluator.fit(logs[50:]).evaluate(policy)  # round 0 is row 50


def test_frames_and_sparse_contexts_go_to_the_logger_as_they_are():
    pd = pytest.importorskip("pandas")
    from scipy import sparse

    logs, truth = make_adaptive_logs(
        120, means=MEANS, random_state=0, return_truth=True
    )
    evaluator = AdaptiveDR(weighting="stable_variance", logger=truth.logger)
    expected = evaluator.fit(logs).evaluate(UniformPolicy())

    frame = with_context(logs, pd.DataFrame({"segment": logs.context[:, 0]}))
    evaluator.set_params(logger=lambda t, X: truth.logger(t, X[["segment"]]))
    found = evaluator.fit(frame).evaluate(UniformPolicy())
    assert_allclose(found.value, expected.value)
    assert_allclose(found.standard_error, expected.standard_error)

    rows = with_context(logs, sparse.csr_array(logs.context))
    evaluator.set_params(logger=lambda t, X: truth.logger(t, X.toarray()))
    assert_allclose(evaluator.fit(rows).score(UniformPolicy()), expected.value)
