# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Models of the reward of a slate, out of fold."""

import numpy as np
import pytest
from sklearn.base import BaseEstimator
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.tree import DecisionTreeRegressor

from skope_ope import SlateLogs
from skope_ope.reward_models._slate_reward_models import (
    FrozenSlateModel,
    MeanSlateModel,
    SlateModel,
    any_slate_model,
    slate_reward_source,
)


def some_logs(n_rounds=40, reward=None):
    rng = np.random.RandomState(0)
    slates = np.argsort(rng.random_sample((n_rounds, 4)), axis=1)[:, :2]
    reward = rng.random_sample(n_rounds) if reward is None else reward
    return SlateLogs(np.arange(n_rounds)[:, None], slates, reward, n_candidates=4)


class Remembers(BaseEstimator):
    """Predicts 1 for rounds that it was fitted on, by their first feature."""

    def fit(self, X, y):
        self.seen_ = X[:, 0]
        return self

    def predict(self, X):
        return np.isin(X[:, 0], self.seen_).astype(float)


def logged(model, rounds, rows):
    return model.predict(rounds, rounds.slate)


def test_no_round_is_predicted_by_a_model_that_saw_it():
    logs = some_logs()
    source = slate_reward_source(Remembers(), logs, 4, SlateModel)
    assert not source.predict(logs, logged).any()
    assert not source.predict(logs[::-3], logged).any()  # known by their row_id
    assert not source.predict(some_logs(), logged).any()  # built anew
    other = SlateLogs(logs.context, logs.slate[:, ::-1], logs.reward, n_candidates=4)
    assert source.predict(other, logged).all()  # the model of all rounds


def test_uncovered_rounds_get_the_mean_of_the_others():
    logs = some_logs()
    folds = [(np.arange(20), np.arange(20, 40))]
    source = slate_reward_source(LinearRegression(), logs, folds, SlateModel)
    assert source.n_uncovered_ == 20
    np.testing.assert_allclose(
        source.predict(logs, logged)[:20], logs.reward[20:].mean()
    )


def test_what_may_stand_for_a_model():
    logs = some_logs()
    number = slate_reward_source(0.25, logs, 5, SlateModel)
    np.testing.assert_array_equal(number.predict(logs, logged), 0.25)
    none = slate_reward_source(None, logs, 2, any_slate_model)
    np.testing.assert_allclose(
        none.predict(logs, logged),
        np.repeat([logs.reward[20:].mean(), logs.reward[:20].mean()], 20),
    )
    tree = SlateModel(DecisionTreeRegressor(random_state=0)).fit(logs)
    frozen = slate_reward_source(tree.model_, logs, "prefit", SlateModel)
    assert isinstance(frozen, FrozenSlateModel)
    np.testing.assert_array_equal(frozen.predict(logs, logged), logs.reward)


def test_classifiers_model_rewards_of_zero_and_one():
    logs = some_logs(reward=np.arange(40) % 2)
    model = SlateModel(LogisticRegression()).fit(logs)
    found = model.predict(logs, logs.slate)
    assert ((found > 0) & (found < 1)).all()
    with pytest.raises(ValueError, match="rewards of 0 and 1"):
        SlateModel(LogisticRegression()).fit(some_logs())
    constant = some_logs(reward=np.zeros(40))
    from sklearn.dummy import DummyClassifier

    never = SlateModel(DummyClassifier()).fit(constant)
    assert not never.predict(constant, constant.slate).any()
    assert MeanSlateModel().fit(constant).predict(constant, None).tolist() == [0.0] * 40


@pytest.mark.parametrize(
    ("model", "cv", "error", "message"),
    [
        (np.nan, 5, ValueError, "finite number"),
        ("q_hat", 5, TypeError, "must be a scikit-learn regressor"),
        (LinearRegression, 5, TypeError, "is the class LinearRegression"),
        (None, "prefit", ValueError, "needs a fitted reward_model"),
        (LinearRegression(), "twice", ValueError, "cv must be 'prefit'"),
    ],
)
def test_bad_input(model, cv, error, message):
    with pytest.raises(error, match=message):
        slate_reward_source(model, some_logs(), cv, SlateModel)
