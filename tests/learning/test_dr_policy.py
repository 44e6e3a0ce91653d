# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
from sklearn.model_selection import KFold
from sklearn.neighbors import KNeighborsClassifier

from skope_ope import ActionRewardModel, DRPolicy, IPSPolicy
from skope_ope.datasets import make_bandit_logs
from tests.learning._worlds import ByHeart

LOGS = make_bandit_logs(300, reward="continuous", random_state=0)
X = LOGS.context


@pytest.mark.parametrize("constant", [0.0, 1.5])
@pytest.mark.parametrize("shrinkage", [None, 5.0])
@pytest.mark.parametrize(
    "classifier", [LogisticRegression(), KNeighborsClassifier(3)], ids=str
)
def test_with_a_constant_model_it_is_the_ips_policy(constant, shrinkage, classifier):
    common = {"shrinkage": shrinkage, "temperature": 1.0}
    policy = DRPolicy(classifier, reward_model=constant, **common).fit(LOGS)
    other = IPSPolicy(classifier, baseline=constant, **common).fit(LOGS)
    assert_array_equal(policy.predict_proba(X), other.predict_proba(X))


def test_infinite_shrinkage_is_none():
    policy = DRPolicy(reward_model=Ridge(), temperature=1.0)
    expected = policy.fit(LOGS).predict_proba(X)
    policy.set_params(shrinkage=np.inf).fit(LOGS)
    assert_array_equal(policy.predict_proba(X), expected)


def test_zero_shrinkage_trusts_the_model(monkeypatch):
    q_hat = np.random.RandomState(0).normal(size=(300, 3))
    monkeypatch.setattr(ByHeart, "fits", ())
    DRPolicy(ByHeart(), reward_model=q_hat, shrinkage=0).fit(LOGS)
    gap = q_hat - q_hat.min(axis=1, keepdims=True)
    expected = [(X[i, 0], a, gap[i, a]) for i, a in zip(*gap.nonzero(), strict=True)]
    assert ByHeart.fits == (sorted(expected),)


def test_the_model_never_sees_the_reward_that_it_is_corrected_by(monkeypatch):
    """A model that learns every reward by heart would leave nothing to correct."""
    folds = KFold(3)
    monkeypatch.setattr(ByHeart, "fits", ())
    DRPolicy(ByHeart(), reward_model=LinearRegression(), cv=folds).fit(LOGS)
    q_hat = np.empty((300, 3))
    for train, test in folds.split(X):
        model = ActionRewardModel(LinearRegression()).fit(LOGS[train])
        q_hat[test] = model.predict(X[test])
    rows = np.arange(300), LOGS.action_index
    rewards = q_hat.copy()
    rewards[rows] += (LOGS.reward - q_hat[rows]) / LOGS.propensity
    gap = rewards - rewards.min(axis=1, keepdims=True)
    expected = [(X[i, 0], a, gap[i, a]) for i, a in zip(*gap.nonzero(), strict=True)]
    assert_allclose(ByHeart.fits[0], sorted(expected))


def test_columns_and_encodings_stand_for_models():
    q_hat = np.random.RandomState(0).normal(size=(300, 3))
    expected = DRPolicy(reward_model=q_hat).fit(LOGS).predict_proba(X)
    logs = LOGS.with_columns(q_hat=q_hat)
    policy = DRPolicy(reward_model="q_hat").fit(logs)
    assert_array_equal(policy.predict_proba(X), expected)
    model = ActionRewardModel(Ridge(), encoding="one_hot")
    assert DRPolicy(reward_model=model).fit(LOGS).predict_proba(X).shape == (300, 3)
    with pytest.raises(ValueError, match="'nothing' is not a column"):
        DRPolicy(reward_model="nothing").fit(logs)
