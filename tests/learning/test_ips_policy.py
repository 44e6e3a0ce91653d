# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier

from skope_ope import BanditLogs, ClassifierPolicy, IPSPolicy
from skope_ope.datasets import make_bandit_logs

LOGS = make_bandit_logs(300, random_state=0)
REAL = make_bandit_logs(300, reward="continuous", random_state=0)
X = LOGS.context


@pytest.mark.parametrize(
    "classifier", [LogisticRegression(), GaussianNB(), KNeighborsClassifier(3)], ids=str
)
def test_without_baseline_and_negative_rewards_it_is_the_classifier_policy(classifier):
    policy = IPSPolicy(classifier, baseline=0, temperature=1.0).fit(LOGS)
    other = ClassifierPolicy(classifier, temperature=1.0).fit(LOGS)
    assert_allclose(policy.predict_proba(X), other.predict_proba(X), rtol=1e-6)


def test_baselines():
    weighted = REAL.replace(sample_weight=1.0 + np.arange(300) % 2)
    middle = (REAL.reward.min() + REAL.reward.max()) / 2
    for logs, where, expected in (
        (REAL, "mean", REAL.reward.mean()),
        (weighted, "mean", np.average(REAL.reward, weights=weighted.sample_weight)),
        (REAL, "median", np.sort(REAL.reward)[149]),
        (REAL, "midrange", middle),
        (LOGS, "midrange", 0.5),
        (REAL, -2, -2.0),
    ):
        policy = IPSPolicy(baseline=where).fit(logs)
        assert_allclose(policy.baseline_, expected)


def test_where_rewards_start_does_not_matter():
    moved = REAL.replace(reward=REAL.reward - 7.5)
    for where in ("mean", "median", "midrange"):
        policy = IPSPolicy(baseline=where, temperature=1.0)
        before = policy.fit(REAL).predict_proba(X)
        assert_allclose(policy.fit(moved).predict_proba(X), before, atol=1e-4)


def test_infinite_shrinkage_is_none():
    policy = IPSPolicy(temperature=1.0)
    expected = policy.fit(REAL).predict_proba(X)
    policy.set_params(shrinkage=np.inf).fit(REAL)
    assert_allclose(policy.predict_proba(X), expected)
    policy.set_params(shrinkage=1e9).fit(REAL)
    assert_allclose(policy.predict_proba(X), expected, atol=1e-3)
    policy.set_params(shrinkage=0.5).fit(REAL)
    assert np.abs(policy.predict_proba(X) - expected).max() > 0.01


def test_shrinkage_tames_a_round_of_tiny_propensity():
    # one lucky round of an action that loses on average
    x, action = np.zeros((101, 1)), np.r_[np.arange(100) % 2, 1]
    reward = np.r_[1.0 - np.arange(100) % 2, 1.0]
    logs = BanditLogs(x, action, reward, np.r_[np.full(100, 0.5), 1e-3])
    assert IPSPolicy(baseline=0.5).fit(logs).predict(x[:1]) == [1]
    assert IPSPolicy(baseline=0.5, shrinkage=10).fit(logs).predict(x[:1]) == [0]


def test_a_round_of_weight_two_is_the_round_twice():
    weight = 1.0 + np.arange(300) % 2
    twice = REAL[np.repeat(np.arange(300), weight.astype(int))]
    for where in ("mean", "median", "midrange"):
        classifier = LogisticRegression(tol=1e-8)
        policy = IPSPolicy(classifier, baseline=where, temperature=1.0)
        expected = policy.fit(twice).predict_proba(X)
        policy.fit(REAL.replace(sample_weight=weight))
        assert_allclose(policy.predict_proba(X), expected, atol=1e-4)
