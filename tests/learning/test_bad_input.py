# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Bad input of learned policies raises, and the message names the remedy."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.base import BaseEstimator, clone
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

from skope_ope import (
    ActionRewardModel,
    BanditLogs,
    ClassifierPolicy,
    DoublyRobust,
    DRPolicy,
    IPSPolicy,
    RewardModelPolicy,
    SoftmaxPolicy,
    UniformPolicy,
)

N = 12
X = np.random.RandomState(0).normal(size=(N, 2))
LOGS = BanditLogs(X, [*"abc"] * 4, np.arange(N) / 4.0, np.full(N, 1 / 3))
UNKNOWN = LOGS.replace(propensity=None)
INF, NAN = float("inf"), float("nan")


class NoClassifier(BaseEstimator):
    def fit(self, X, y, sample_weight=None):
        return self

    def predict(self, X):
        return np.zeros(len(X))


POLICIES = [IPSPolicy(), DRPolicy(cv=3), RewardModelPolicy(Ridge())]
every_policy = pytest.mark.parametrize(
    "policy", POLICIES, ids=lambda policy: type(policy).__name__
)
WEIGHTED = [*POLICIES[:2], RewardModelPolicy(Ridge(), weight="inverse_propensity")]


# -- logs -----------------------------------------------------------------------------
@every_policy
@pytest.mark.parametrize("logs", [X, None, [LOGS, LOGS], X.tolist()], ids=type)
def test_what_are_no_logs(policy, logs):
    name = type(policy).__name__
    with pytest.raises(
        TypeError, match=rf"{name} learns from BanditLogs, got.*search\.fit.*fit\(X"
    ):
        clone(policy).fit(logs)


@every_policy
def test_labels_beside_the_logs_and_no_rounds(policy):
    name = type(policy).__name__
    for given, error, message in (
        ((X, LOGS.action), TypeError, r"use ClassifierPolicy\(\).fit\(X, y\)"),
        ((LOGS, LOGS.action[1:]), ValueError, "takes no y beside logs, which hold"),
        ((LOGS[:0],), ValueError, f"the logs are empty: {name} needs at least"),
    ):
        with pytest.raises(error, match=message):
            clone(policy).fit(*given)


@pytest.mark.parametrize("policy", WEIGHTED, ids=lambda policy: type(policy).__name__)
def test_no_propensities(policy):
    name = type(policy).__name__
    match = f"{name} needs the propensities of .* estimate them with PropensityEstimat"
    with pytest.raises(ValueError, match=match):
        clone(policy).fit(UNKNOWN)


@every_policy
def test_scaling_in_front(policy):
    with pytest.raises(TypeError, match="Put feature transformers inside"):
        make_pipeline(StandardScaler(), clone(policy)).fit(LOGS)


# -- acting and scoring ---------------------------------------------------------------
FITTED = [clone(policy).fit(LOGS) for policy in POLICIES]
every_fitted = pytest.mark.parametrize(
    "policy", FITTED, ids=lambda policy: type(policy).__name__
)


@every_fitted
def test_logs_in_place_of_contexts(policy):
    for call in (policy.predict, policy.predict_proba):
        assert_array_equal(call(LOGS), call(LOGS.context))


@every_fitted
def test_other_uses(policy):
    for unfit_or_not in (clone(policy), policy):
        with pytest.raises(TypeError, match=r"scoring=PolicyScorer\(evaluator\)"):
            unfit_or_not.score(LOGS)
    with pytest.raises(NotFittedError):
        DoublyRobust().fit(LOGS).evaluate(clone(policy))
    other = BanditLogs(X[:, :1], LOGS.action, LOGS.reward, LOGS.propensity)
    with pytest.raises(ValueError, match="fitted on 2 features, the logs have 1"):
        DoublyRobust().fit(other).evaluate(policy)
    for available in (np.ones((N, 2), dtype=bool), np.ones((N, 3))):
        with pytest.raises(ValueError, match="available must be a boolean array of"):
            policy.predict_proba(X, available)


def test_a_learned_policy_is_no_reward_model():
    policy = IPSPolicy().fit(LOGS)
    with pytest.raises(TypeError, match="reward_model is the policy IPSPolicy"):
        DoublyRobust().fit(LOGS, policy)
    with pytest.raises(TypeError, match="reward_model is the policy IPSPolicy"):
        DRPolicy(reward_model=IPSPolicy()).fit(LOGS)


# -- parameters -----------------------------------------------------------------------
@pytest.mark.parametrize(
    "policy",
    [
        *(
            clone(policy).set_params(**parameter)
            for policy in POLICIES
            for parameter in (
                {"epsilon": 1.5},
                {"epsilon": -0.1},
                {"epsilon": "a"},
                {"temperature": 0},
                {"temperature": INF},
            )
        ),
        *(type(policy)(classifier=3) for policy in POLICIES[:2]),
        IPSPolicy(baseline="average"),
        IPSPolicy(baseline=NAN),
        IPSPolicy(baseline=INF),
        IPSPolicy(baseline=None),
        IPSPolicy(shrinkage=0),
        IPSPolicy(shrinkage=-1.0),
        DRPolicy(shrinkage=-1.0),
        DRPolicy(shrinkage="none"),
        RewardModelPolicy(None),
        RewardModelPolicy(3),
        RewardModelPolicy(Ridge(), weight="propensity"),
        RewardModelPolicy(Ridge(), weight=None),
    ],
    ids=lambda policy: repr(policy),
)
def test_bad_parameters(policy):
    name = type(policy).__name__
    with pytest.raises(ValueError, match=f"The '[a-z_]*' parameter of {name} must be"):
        policy.fit(LOGS)


@pytest.mark.parametrize(
    ("policy", "error", "match"),
    [
        (IPSPolicy(NoClassifier()), TypeError, "NoClassifier is not a classifier"),
        (IPSPolicy(LogisticRegression), TypeError, "Cannot clone object"),
        (DRPolicy(reward_model="q"), ValueError, "'q' is not a column of the logs"),
        (DRPolicy(reward_model=np.ones((5, 3))), ValueError, r"got \(5, 3\)"),
        (DRPolicy(reward_model=NAN), ValueError, "must be a finite number, got nan"),
        (DRPolicy(reward_model=Ridge), TypeError, "the class Ridge; make an instance"),
        (DRPolicy(cv=1), ValueError, "'cv' parameter of DRPolicy must be an int"),
        (DRPolicy(cv="prefit"), ValueError, "'prefit' needs a fitted reward_model"),
        (
            DRPolicy(reward_model=LogisticRegression()),
            ValueError,
            "rewards only if they are 0 or 1, got 0.75 at row 0",  # of a training part
        ),
        (RewardModelPolicy(Ridge), TypeError, "the class Ridge; make an instance"),
        (RewardModelPolicy(UniformPolicy()), TypeError, "is the policy UniformPolicy"),
        (
            RewardModelPolicy(ClassifierPolicy()),
            TypeError,
            "reward_model is the policy ClassifierPolicy, but a model of the rewards",
        ),
        (
            RewardModelPolicy(FrozenEstimator(Ridge())),
            TypeError,
            "FrozenEstimator around a fitted model.* Pass the model itself",
        ),
        (RewardModelPolicy(LinearSVC()), TypeError, "LinearSVC has no predict_proba"),
        (
            RewardModelPolicy(LogisticRegression()),
            ValueError,
            "rewards only if they are 0 or 1, got 0.25",
        ),
        (
            RewardModelPolicy(ActionRewardModel(Ridge(), encoding="action_context")),
            ValueError,
            "needs logs with action_context",
        ),
    ],
    ids=lambda value: repr(value)[:60],
)
def test_wrong_things_inside(policy, error, match):
    with pytest.raises(error, match=match):
        policy.fit(LOGS)


@pytest.mark.parametrize("policy", [DRPolicy(), SoftmaxPolicy()], ids=repr)
def test_predicted_rewards_that_are_not_finite(policy):
    q_hat = np.zeros((N, 3))
    q_hat[4, 1] = NAN
    policy = clone(policy).set_params(reward_model=q_hat)
    with pytest.raises(
        ValueError, match="reward_model must be finite, got nan at row 4"
    ):
        policy.fit(LOGS)


@pytest.mark.parametrize("policy", [*POLICIES, SoftmaxPolicy()], ids=repr)
def test_rounds_without_weight(policy):
    logs = LOGS.replace(sample_weight=np.r_[np.zeros(6), np.ones(6)])[:6]
    with pytest.raises(ValueError, match="sample_weight is zero everywhere"):
        clone(policy).fit(logs)


@pytest.mark.parametrize("policy", POLICIES[:2], ids=lambda policy: repr(policy))
def test_a_temperature_needs_probabilities(policy):
    policy = clone(policy).set_params(classifier=LinearSVC(), temperature=1.0)
    with pytest.raises(ValueError, match=r"needs predict_proba.* Use temperature=None"):
        policy.fit(LOGS).predict_proba(X)  # or in fit, where it compares what it does


@every_policy
def test_a_grid_on_parameters_that_do_not_exist(policy):
    def scorer(policy, logs, y=None):
        return 0.0

    search = GridSearchCV(policy, {"lam": [1]}, scoring=scorer, cv=2)
    with pytest.raises(ValueError, match="Invalid parameter 'lam' for estimator"):
        search.fit(LOGS)
