# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LinearRegression

from skope_ope import ActionRewardModel, AdaptiveDR, UniformPolicy
from skope_ope.datasets import make_adaptive_logs
from skope_ope.evaluators.adaptive_logger._earlier_models import (
    EarlierMeansByAction,
    EarlierModels,
    earlier_source,
)
from tests.evaluators.adaptive_logger import _loops as loops
from tests.evaluators.adaptive_logger._tiny import plain

MEANS = [[0.2, 0.6, 0.5], [0.7, 0.3, 0.5]]


def logs_of(n_rounds=200, **fields):
    return make_adaptive_logs(n_rounds, means=MEANS, random_state=0).replace(**fields)


class LaterThan(RegressorMixin, BaseEstimator):
    """Remembers how many rounds it saw, and predicts their number."""

    def fit(self, X, y):
        self.n_seen_ = len(y)
        return self

    def predict(self, X):
        return np.full(len(X), float(self.n_seen_))


@pytest.mark.parametrize("chunk", [1, 7, 200])
def test_means_by_action_are_those_of_earlier_rounds(chunk):
    logs = logs_of()
    logs = logs.replace(reward=logs.reward * 0.5)
    source = EarlierMeansByAction(logs)
    assert source.prior == 0.5
    predict = source.bind(logs)
    found = np.vstack(
        [predict(logs[k : k + chunk], k) for k in range(0, len(logs), chunk)]
    )
    assert_allclose(found, loops.earlier_means(plain(logs), 3, 0.5), rtol=1e-12)
    assert source.n_uncovered_ == 1


def test_rewards_far_from_zero_keep_their_digits():
    logs = make_adaptive_logs(300, reward="continuous", random_state=0)
    far = logs.replace(reward=logs.reward + 1e9)
    near, found = (EarlierMeansByAction(one).bind(one)(one, 0) for one in (logs, far))
    assert_allclose(found[1:] - 1e9, near[1:], atol=3e-7)  # a digit of 1e9 is 1.2e-7


def test_a_fit_sees_the_rounds_before_those_it_predicts():
    logs = logs_of()
    model = ActionRewardModel(LaterThan(), encoding="one_hot")
    source = earlier_source(model, logs, 5)
    assert_array_equal(source.starts_, [30, 39, 59, 88, 133])
    predict = source.bind(logs)
    found = np.vstack([predict(logs[k : k + 11], k) for k in range(0, 200, 11)])
    seen = found[:, 0]
    assert source.n_uncovered_ == 30
    means = loops.earlier_means(plain(logs), 3, 0.5)[:30]
    assert_allclose(found[:30], means)
    for row in range(30, 200):
        assert seen[row] <= row
        assert row < 1.5 * seen[row] + 1
    assert_array_equal(np.unique(seen[30:]), source.starts_)


def test_rounds_that_fit_has_not_seen_have_the_model_of_all():
    logs = logs_of()
    here, there = logs[:120], logs[100:]
    source = EarlierModels(
        ActionRewardModel(LaterThan(), encoding="one_hot"),
        here,
        3,
        EarlierMeansByAction(here),
    )
    found = source.bind(there)(there, 0)[:, 0]
    assert_array_equal(found[:20], np.full(20, 80.0))  # those of fit, by an earlier one
    assert_array_equal(found[20:], np.full(80, 120.0))
    means = EarlierMeansByAction(here)
    found = means.bind(there)(there, 0)
    assert_allclose(found[:20], means.bind(here)(here, 0)[100:])
    for arm in range(3):
        mine = here.reward[here.action_index == arm].mean()
        assert_allclose(found[20:, arm], mine)


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


def test_no_prediction_follows_its_own_or_a_later_round():
    logs = logs_of()
    rng = np.random.RandomState(0)
    for at in (0, 1, 30, 77, 199):
        reward = logs.reward.copy()
        reward[at:] = rng.random_sample(200 - at)
        other = logs.replace(reward=reward)
        for model in (None, LinearRegression()):
            before, after = (
                earlier_source(model, one, 4).bind(one)(one, 0) for one in (logs, other)
            )
            assert_array_equal(before[: at + 1], after[: at + 1])
            if at == 77:
                assert np.abs(before - after).max() > 0.01
