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


def by_class(policies):
    return pytest.mark.parametrize("policy", policies, ids=lambda p: type(p).__name__)


every_policy = by_class(POLICIES)
WEIGHTED = [*POLICIES[:2], RewardModelPolicy(Ridge(), weight="inverse_propensity")]


# -- logs -----------------------------------------------------------------------------


@every_policy
def test_what_are_no_logs(policy):
    name, labels = type(policy).__name__, LOGS.action
    no_logs = rf"{name} learns from BanditLogs, got.*search\.fit.*fit\(X"
    for given, error, message in (
        *(
            ((logs,), TypeError, no_logs)
            for logs in (X, None, [LOGS, LOGS], X.tolist())
        ),
        ((X, labels), TypeError, r"use ClassifierPolicy\(\).fit\(X, y\)"),
        ((LOGS, labels[1:]), ValueError, "takes no y beside logs, which hold"),
        ((LOGS[:0],), ValueError, f"the logs are empty: {name} needs at least"),
    ):
        with pytest.raises(error, match=message):
            clone(policy).fit(*given)
    with pytest.raises(TypeError, match="Put transformers and samplers inside"):
        make_pipeline(StandardScaler(), clone(policy)).fit(LOGS)


@by_class(WEIGHTED)
def test_no_propensities(policy):
    name = type(policy).__name__
    match = f"{name} needs the propensities of .* estimate them with PropensityEstimat"
    with pytest.raises(ValueError, match=match):
        clone(policy).fit(UNKNOWN)


# -- acting and scoring ---------------------------------------------------------------
FITTED = [clone(policy).fit(LOGS) for policy in POLICIES]


@by_class(FITTED)
def test_other_uses(policy):
    for call in (policy.predict, policy.predict_proba):
        assert_array_equal(call(LOGS), call(LOGS.context))
    for unfit_or_not in (clone(policy), policy):
        with pytest.raises(AttributeError, match=r"scoring=PolicyScorer\(evaluator\)"):
            unfit_or_not.score(LOGS)
        with pytest.raises(TypeError, match="no scoring is specified"):
            GridSearchCV(unfit_or_not, {"epsilon": [0, 0.1]}).fit(LOGS)
    with pytest.raises(NotFittedError):
        DoublyRobust().fit(LOGS).evaluate(clone(policy))
    other = BanditLogs(X[:, :1], LOGS.action, LOGS.reward, LOGS.propensity)
    with pytest.raises(ValueError, match="fitted on 2 features, the logs have 1"):
        DoublyRobust().fit(other).evaluate(policy)
    for available in (np.ones((N, 2), dtype=bool), np.ones((N, 3))):
        with pytest.raises(ValueError, match="available must be a boolean array of"):
            policy.predict_proba(X, available)


# -- parameters -----------------------------------------------------------------------
BAD_OF_ALL = {"epsilon": (1.5, -0.1, "a"), "temperature": (0, INF)}
BAD_OF_ONE = [
    IPSPolicy(classifier=3),
    DRPolicy(classifier=3),
    *(IPSPolicy(baseline=bad) for bad in ("average", NAN, INF, None)),
    *(IPSPolicy(shrinkage=bad) for bad in (0, -1.0)),
    *(DRPolicy(shrinkage=bad) for bad in (-1.0, "none")),
    *(RewardModelPolicy(bad) for bad in (None, 3)),
    *(RewardModelPolicy(Ridge(), weight=bad) for bad in ("propensity", None)),
]


def test_bad_parameters():
    bad = [
        clone(policy).set_params(**{name: value})
        for policy in POLICIES
        for name, values in BAD_OF_ALL.items()
        for value in values
    ]
    for policy in bad + BAD_OF_ONE:
        match = f"The '[a-z_]*' parameter of {type(policy).__name__} must be"
        with pytest.raises(ValueError, match=match):
            policy.fit(LOGS)


FROZEN, LOGISTIC = FrozenEstimator(Ridge()), LogisticRegression()
OF_ACTIONS = ActionRewardModel(Ridge(), encoding="action_context")
PREFIT = "'prefit' needs a fitted reward_model"
NO_MODEL = "reward_model is the policy ClassifierPolicy, but a model of the rewards"
AROUND = "FrozenEstimator around a fitted model.* Pass the model itself"

NOT_BINARY = "rewards only if they are 0 or 1, got "


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
        (DRPolicy(cv="prefit"), ValueError, PREFIT),
        # of a training part
        (DRPolicy(reward_model=LOGISTIC), ValueError, NOT_BINARY + "0.75 at row 0"),
        (RewardModelPolicy(Ridge), TypeError, "the class Ridge; make an instance"),
        (RewardModelPolicy(UniformPolicy()), TypeError, "is the policy UniformPolicy"),
        (RewardModelPolicy(ClassifierPolicy()), TypeError, NO_MODEL),
        (RewardModelPolicy(FROZEN), TypeError, AROUND),
        (RewardModelPolicy(LinearSVC()), TypeError, "LinearSVC has no predict_proba"),
        (RewardModelPolicy(LOGISTIC), ValueError, NOT_BINARY + "0.25"),
        (RewardModelPolicy(OF_ACTIONS), ValueError, "needs logs with action_context"),
    ],
    ids=lambda value: repr(value)[:60],
)
def test_wrong_things_inside(policy, error, match):
    with pytest.raises(error, match=match):
        policy.fit(LOGS)


def test_weights_rewards_and_models_that_are_refused():
    logs = LOGS.replace(sample_weight=np.r_[np.zeros(6), np.ones(6)])[:6]
    for policy in (*POLICIES, SoftmaxPolicy()):
        with pytest.raises(ValueError, match="sample_weight is zero everywhere"):
            clone(policy).fit(logs)
    # predicted rewards that are not finite
    q_hat = np.zeros((N, 3))
    q_hat[4, 1] = NAN
    for policy in (DRPolicy(), SoftmaxPolicy()):
        match = "reward_model must be finite, got nan at row 4"
        with pytest.raises(ValueError, match=match):
            policy.set_params(reward_model=q_hat).fit(LOGS)
    # a temperature needs probabilities
    for policy in POLICIES[:2]:
        policy = clone(policy).set_params(classifier=LinearSVC(), temperature=1.0)
        match = r"needs predict_proba.* Use temperature=None"
        with pytest.raises(ValueError, match=match):  # in fit, if it compares policies
            policy.fit(LOGS).predict_proba(X)
    # a learned policy is no reward model
    for learn in (
        lambda: DoublyRobust().fit(LOGS, IPSPolicy().fit(LOGS)),
        lambda: DRPolicy(reward_model=IPSPolicy()).fit(LOGS),
    ):
        with pytest.raises(TypeError, match="reward_model is the policy IPSPolicy"):
            learn()


@every_policy
def test_a_grid_on_parameters_that_do_not_exist(policy):
    def scorer(policy, logs, y=None):
        return 0.0

    search = GridSearchCV(policy, {"lam": [1]}, scoring=scorer, cv=2)
    with pytest.raises(ValueError, match="Invalid parameter 'lam' for estimator"):
        search.fit(LOGS)
