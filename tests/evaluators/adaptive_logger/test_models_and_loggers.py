# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Models of earlier rounds, and what evaluators know of the logger at a round."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LinearRegression

from skope_ope import (
    ActionRewardModel,
    AdaptiveDR,
    BanditLogs,
    ConstantPolicy,
    UniformPolicy,
)
from skope_ope.datasets import make_adaptive_logs
from tests.evaluators.adaptive_logger import _loops as loops
from tests.evaluators.adaptive_logger._tiny import plain

pytestmark = pytest.mark.filterwarnings("ignore::skope_ope.exceptions.OPEWarning")
THREE = [[0.2, 0.6, 0.5], [0.7, 0.3, 0.5]]
MEANS = [[0.2, 0.6], [0.7, 0.3]]


def logs_of(n_rounds=200):
    return make_adaptive_logs(n_rounds, means=THREE, random_state=0)


def predictions(logs, model=None, n_refits=5, part=None):
    """What the model tells of every action, which the terms of one action show."""
    fitted = AdaptiveDR(reward_model=model, n_refits=n_refits).fit(logs)
    on, found = logs if part is None else part, []
    for k in range(logs.n_actions):
        g = fitted.evaluate(ConstantPolicy(k), part).round_values
        p, took = on.propensity, on.action_index == k
        found.append(np.where(took, (g - on.reward / p) / (1 - 1 / p), g))
    return np.column_stack(found)


class LaterThan(RegressorMixin, BaseEstimator):
    """Remembers how many rounds it saw, and predicts their number."""

    def fit(self, X, y):
        self.n_seen_ = len(y)
        return self

    def predict(self, X):
        return np.full(len(X), float(self.n_seen_))


LATER = ActionRewardModel(LaterThan(), encoding="one_hot")


def test_means_by_action_are_those_of_earlier_rounds():
    logs = logs_of()
    logs = logs.replace(reward=logs.reward * 0.5)
    expected = loops.earlier_means(plain(logs), 3, 0.5)
    assert_allclose(predictions(logs), expected, rtol=1e-10, atol=1e-14)
    found = AdaptiveDR().fit(logs).evaluate(UniformPolicy()).diagnostics
    assert found["uncovered_rounds"] == 1
    # rewards far from zero keep their digits
    logs = make_adaptive_logs(300, reward="continuous", random_state=0)
    far = logs.replace(reward=logs.reward + 1e9)
    other = logs.action_index[1:, None] != np.arange(2)  # which the terms show as it is
    near, found = (predictions(one)[1:][other] for one in (logs, far))
    assert_allclose(found - 1e9, near, atol=3e-7)  # a digit of 1e9 is 1.2e-7


def test_a_fit_sees_the_rounds_before_those_it_predicts():
    logs = logs_of()
    seen = predictions(logs, LATER, 5).round(8)
    assert_allclose(seen[:30], loops.earlier_means(plain(logs), 3, 0.5)[:30])
    seen = seen[:, 0]
    for row in range(30, 200):
        assert seen[row] <= row
        assert row < 1.5 * seen[row] + 1
    assert_array_equal(np.unique(seen[30:]), [30, 39, 59, 88, 133])
    fitted = AdaptiveDR(reward_model=LATER, n_refits=5).fit(logs)
    found = fitted.evaluate(UniformPolicy()).diagnostics
    assert found["uncovered_rounds"] == 30


def test_rounds_that_fit_has_not_seen_have_the_model_of_all():
    logs = logs_of()
    here, there = logs[:120], logs[100:]
    found = predictions(here, LATER, 3, there)[:, 0]
    assert_allclose(found[:20], np.full(20, 80.0))  # those of fit, by an earlier one
    assert_allclose(found[20:], np.full(80, 120.0))
    assert_allclose(predictions(here, LATER, 3, logs[110:115]), 80)
    found = predictions(here, part=there)
    assert_allclose(found[:20], predictions(here)[100:])
    for arm in range(3):
        mine = here.reward[here.action_index == arm].mean()
        assert_allclose(found[20:, arm], mine)


@pytest.mark.parametrize("model", [None, LinearRegression()])
def test_no_prediction_follows_its_own_or_a_later_round(model):
    logs = logs_of()
    rng = np.random.RandomState(0)
    before = predictions(logs, model, 4)
    for at in (0, 1, 30, 77, 199):
        reward = logs.reward.copy()
        reward[at:] = rng.random_sample(200 - at)
        after = predictions(logs.replace(reward=reward), model, 4)
        assert_allclose(before[: at + 1], after[: at + 1], rtol=1e-9, atol=1e-12)
        if at == 77:
            assert np.abs(before - after).max() > 0.01


def test_few_rounds_and_one():
    for n in (1, 2, 3, 40):
        logs = logs_of(n)
        for model in (None, LinearRegression()):
            found = AdaptiveDR(reward_model=model).fit(logs).evaluate(UniformPolicy())
            assert np.isfinite(found.value)
            assert np.isfinite(found.standard_error) == (n > 1)


def test_what_may_stand_for_a_model():
    logs = logs_of().with_columns(q_hat=np.full((200, 3), 0.3))
    model = ActionRewardModel(LinearRegression()).fit(logs)
    expected = AdaptiveDR().fit(logs, 0.3).score(UniformPolicy())
    for given in ("q_hat", np.full((200, 3), 0.3)):
        found = AdaptiveDR(reward_model=given).fit(logs).score(UniformPolicy())
        assert_allclose(found, expected)
    frozen = AdaptiveDR(reward_model=FrozenEstimator(model)).fit(logs)
    assert frozen.evaluate(UniformPolicy()).diagnostics["uncovered_rounds"] == 0
    with pytest.raises(TypeError, match="the class"):
        AdaptiveDR(reward_model=LinearRegression).fit(logs)


# -- the logger at a round ----------------------------------------------------------
def with_context(logs, context):
    rounds = context, logs.action, logs.reward, logs.propensity
    return BanditLogs(*rounds, logging_proba=logs.logging_proba)


def ignores_context(logs):
    """Whether weights that need the logger do without it."""
    evaluator = AdaptiveDR(weighting="stable_variance", reward_model=0.0).fit(logs)
    try:
        evaluator.evaluate(UniformPolicy())
    except ValueError as error:
        assert "logger=f" in str(error)
        return False
    return True


@pytest.mark.few_cases
@pytest.mark.parametrize("logger", ["thompson", "epsilon_greedy"])
@pytest.mark.parametrize("seed", range(3))
def test_loggers_that_ignored_the_context_are_known(logger, seed):
    given = {"logger": logger, "random_state": seed}
    logs = make_adaptive_logs(600, means=[0.8, 0.2], **given)
    assert ignores_context(logs)
    noise = np.random.RandomState(seed).normal(size=(600, 3))
    for context in (noise, noise[:, :0]):
        assert ignores_context(with_context(logs, context))
    logs = make_adaptive_logs(600, means=MEANS, floor_decay=0.3, **given)
    for rounds in (logs, logs[:40]):  # of a logger that looked at it
        assert not ignores_context(rounds)


def test_a_trend_hides_no_context():
    """Probabilities that move far with time, and a little with the context."""
    rng = np.random.RandomState(0)
    x = rng.normal(size=2000)
    for tilt in (x, np.abs(x)):
        e = 0.2 + 0.6 * np.arange(2000) / 2000 + 0.02 * np.tanh(tilt)
        proba, action = np.column_stack([e, 1 - e]), 1 * (rng.random_sample(2000) > e)
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
    proba = logs.logging_proba
    evaluator.set_params(logger=lambda t, X: np.tile(proba[t], (len(X), 1)))
    first = expected - evaluator.fit(logs).score(UniformPolicy())
    assert abs(first) < 0.05  # the first round had another prior


def by_context(n_rounds):
    """The log of a logger that looked at the context, and that logger."""
    about = {"means": MEANS, "random_state": 0, "return_truth": True}
    logs, truth = make_adaptive_logs(n_rounds, **about)
    return logs, truth.logger


def test_a_logger_that_is_not_that_of_the_log_is_refused():
    logs, at = by_context(200)
    for rounds, logger, match in (
        (logs, lambda t, X: at(max(t - 1, 0), X), "Count rounds from 0"),
        (logs, lambda t, X: at(199, X), "learn only from the rows before t"),
        (logs, lambda t, X: at(t, X)[:, :1], r"shape \(1, 2\)"),
        (logs, lambda t, X: 2 * at(t, X), "sum to 1"),
        (logs[50:], at, "row 0"),  # round 0 is row 50
    ):
        for weighting in ("stable_variance", "cadr"):
            evaluator = AdaptiveDR(weighting=weighting, logger=logger).fit(rounds)
            with pytest.raises(ValueError, match=match):
                evaluator.evaluate(UniformPolicy())


def test_frames_and_sparse_contexts_go_to_the_logger_as_they_are():
    pd = pytest.importorskip("pandas")
    logs, at = by_context(120)
    frame = with_context(logs, pd.DataFrame({"segment": logs.context[:, 0]}))
    rows = with_context(logs, sparse.csr_array(logs.context))
    expected, *others = (
        AdaptiveDR(weighting="stable_variance", logger=logger).fit(rounds)
        for rounds, logger in (
            (logs, at),
            (frame, lambda t, X: at(t, X[["segment"]])),
            (rows, lambda t, X: at(t, X.toarray())),
        )
    )
    expected = expected.evaluate(UniformPolicy())
    for found in (one.evaluate(UniformPolicy()) for one in others):
        assert_allclose(found.value, expected.value)
        assert_allclose(found.standard_error, expected.standard_error)
