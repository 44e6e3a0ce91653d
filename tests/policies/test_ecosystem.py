# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Models of other packages wherever a model is taken, and small ones like them."""

import re
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.ensemble import StackingClassifier, StackingRegressor
from sklearn.inspection import permutation_importance
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import (
    GridSearchCV,
    TunedThresholdClassifierCV,
    cross_val_predict,
)
from sklearn.naive_bayes import GaussianNB, MultinomialNB
from sklearn.neighbors import KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skope_ope import (
    MRDR,
    ActionRewardModel,
    BanditLogs,
    ClassifierPolicy,
    ConstantPolicy,
    DoublyRobust,
    DRns,
    DRPolicy,
    FunctionPolicy,
    IPSPolicy,
    PolicyScorer,
    PropensityEstimator,
    RewardModelPolicy,
    UniformPolicy,
)
from skope_ope.datasets import make_bandit_logs
from skope_ope.exceptions import ModelErrorWarning
from skope_ope.policies import OnlineClassifierPolicy, action_probabilities

# rounds enough to fit, too few for a value to trust
pytestmark = pytest.mark.filterwarnings(
    "ignore::skope_ope.exceptions.LowOverlapWarning"
)

BASE = make_bandit_logs(300, random_state=0)
REWARD = (np.random.RandomState(0).random_sample(300) < 0.4).astype(float)
NAMES = np.array(["ann", "bob", "cy"], dtype=object)[BASE.action_index]


def logs_of(action, reward=REWARD, **fields):
    return BanditLogs(BASE.context, action, reward, BASE.propensity, **fields)


LOGS = {
    "numbers": logs_of(BASE.action),
    "with gaps": logs_of(np.array([10, 20, 35])[BASE.action_index]),
    "texts": logs_of(NAMES),
    "never rewarded": logs_of(NAMES, np.where(NAMES == "bob", 0.0, REWARD)),
    "given order": logs_of(NAMES, actions=["cy", "ann", "bob"]),
}


# -- small models of the shapes that other packages have ------------------------------


class CodesOnly(ClassifierMixin, BaseEstimator):
    """Takes the labels 0, 1, ... without gaps, as XGBoost does."""

    def fit(self, X, y, sample_weight=None):
        found = np.unique(y)
        if found.dtype.kind != "i" or found.max() + 1 != len(found):
            raise ValueError(f"Invalid classes inferred from unique values of `y`: {y}")
        return self._fit(X, y, sample_weight)

    def _fit(self, X, y, sample_weight):
        self.inner_ = LogisticRegression().fit(X, y, sample_weight)
        self.classes_ = self.inner_.classes_
        return self

    def predict(self, X):
        return self.inner_.predict(X)

    def predict_proba(self, X):
        return self.inner_.predict_proba(X)


class ColumnOfLabels(CodesOnly):
    """Takes any labels and predicts a column of them, as CatBoost does."""

    def fit(self, X, y, sample_weight=None):
        return self._fit(X, y, sample_weight)

    def predict(self, X):
        return self.inner_.predict(X)[:, None]

    def predict_proba(self, X):
        return self.inner_.predict_proba(X)[:, None]


class ColumnOfNumbers(RegressorMixin, BaseEstimator):
    """Predicts a column, as the networks of skorch do; takes no weights."""

    def fit(self, X, y):
        self.inner_ = Ridge().fit(X, y)
        return self

    def predict(self, X):
        return self.inner_.predict(X)[:, None]


class TooManyColumns(CodesOnly):
    """Has a fixed number of outputs, whatever it has learned."""

    def predict_proba(self, X):
        return np.full((len(X), 5), 0.2)


every_shape = pytest.mark.parametrize("make", [CodesOnly, ColumnOfLabels])
every_log = pytest.mark.parametrize("logs", LOGS.values(), ids=LOGS)


@pytest.mark.few_cases
@every_log
@pytest.mark.parametrize("temperature", [None, 1.0])
@every_shape
def test_shapes_change_nothing(make, temperature, logs):
    policy, plain = (
        ClassifierPolicy(one, temperature=temperature).fit(logs)
        for one in (make(), LogisticRegression())
    )
    expected = action_probabilities(plain, logs)
    assert_allclose(action_probabilities(policy, logs), expected)
    assert_array_equal(policy.classes_, logs.actions)
    assert_array_equal(policy.predict(logs), plain.predict(logs))
    # of labelled contexts, too
    policy.set_params(temperature=None).fit(BASE.context, NAMES)
    plain.set_params(temperature=None).fit(BASE.context, NAMES)
    assert policy.classes_.tolist() == ["ann", "bob", "cy"]
    assert_array_equal(policy.predict(BASE.context), plain.predict(BASE.context))
    assert policy.score(BASE.context, NAMES) == plain.score(BASE.context, NAMES)


@pytest.mark.few_cases(1)
@every_shape
def test_learners_and_propensities(make):
    logs = LOGS["never rewarded"]
    for kind in (IPSPolicy, DRPolicy):
        found = kind(make()).fit(logs).predict_proba(logs)
        assert_allclose(found, kind(LogisticRegression()).fit(logs).predict_proba(logs))
    steps = PropensityEstimator(make()), PropensityEstimator(LogisticRegression())
    found, plain = (step.fit_transform(logs).propensity for step in steps)
    assert_allclose(found, plain)


def test_labels_in_parameters_and_in_errors():
    weight = {"ann": 100.0, "bob": 1e-3, "cy": 1e-3}
    policy = ClassifierPolicy(LogisticRegression(class_weight=weight))
    policy.fit(LOGS["texts"])
    assert (policy.predict(LOGS["texts"]) == "ann").all()
    assert policy.classifier_.classes_.tolist() == ["ann", "bob", "cy"]
    # errors of labels and columns
    with pytest.raises(ValueError, match="Negative values in data"):
        ClassifierPolicy(MultinomialNB()).fit(LOGS["texts"])
    policy = ClassifierPolicy(TooManyColumns(), temperature=1.0).fit(LOGS["texts"])
    with pytest.raises(ValueError, match=r"shape \(300, 5\) for 300 rows and the 3 cl"):
        policy.predict_proba(BASE.context)


def test_a_column_of_predicted_rewards():
    for encoding in ("per_action", "one_hot"):
        for evaluator in (DoublyRobust(), DRns(random_state=0)):
            found, plain = (
                evaluator.set_params(reward_model=ActionRewardModel(model, encoding))
                .fit(BASE)
                .score(UniformPolicy())
                for model in (ColumnOfNumbers(), Ridge())
            )
            assert_allclose(found, plain, rtol=1e-7)


@pytest.mark.thorough
def test_stacked_models():
    stack = StackingRegressor([("one", Ridge())], cv=2)
    pipeline = make_pipeline(StandardScaler(), stack)
    for model in (stack, pipeline, GridSearchCV(stack, {}, cv=2)):
        value = DoublyRobust(reward_model=model).fit(BASE).score(UniformPolicy())
        assert 0.3 < value < 1
        policy = RewardModelPolicy(model).fit(BASE)
        assert policy.predict_proba(BASE).shape == (300, 3)
    stack = StackingClassifier([("one", LogisticRegression())], cv=2)
    logs = LOGS["texts"]
    assert set(ClassifierPolicy(stack).fit(logs).predict(logs)) <= {"ann", "bob", "cy"}
    estimated = PropensityEstimator(stack, cv=2).fit_transform(logs).propensity
    assert ((estimated > 0) & (estimated < 1)).all()
    assert 0 < DoublyRobust(reward_model=stack).fit(logs).score(UniformPolicy()) < 1


def test_a_tuned_threshold_without_routing_gets_drawn_rows():
    tuned = TunedThresholdClassifierCV(LogisticRegression(), cv=2)
    two = BASE[BASE.action_index < 2]
    two = BanditLogs(two.context, two.action, REWARD[: len(two)], two.propensity)
    assert set(ClassifierPolicy(tuned).fit(two).predict(two)) <= {0, 1}


def test_regressors_without_weights_are_warned_of_once():
    told = "takes no sample_weight: .* rounds drawn in proportion"
    weighted = BASE.replace(sample_weight=np.linspace(0.5, 1.5, 300))
    for model in (KNeighborsRegressor(), ColumnOfNumbers()):
        for kind, logs in ((MRDR, BASE), (DoublyRobust, weighted)):
            with pytest.warns(ModelErrorWarning, match=told) as record:
                value = kind(reward_model=model).fit(logs).score(UniformPolicy())
            assert sum(issubclass(w.category, ModelErrorWarning) for w in record) == 1
            assert 0.3 < value < 1


# -- scikit-learn's own functions on logs ----------------------------------------------


@pytest.mark.few_cases
@every_log
@pytest.mark.parametrize("method", ["predict", "predict_proba"])
def test_cross_val_predict_takes_logs(method, logs):
    found = cross_val_predict(ClassifierPolicy(GaussianNB()), logs, method=method)
    policy = ClassifierPolicy(GaussianNB()).fit(logs[60:])
    wanted = getattr(policy, method)(logs[:60].context)
    assert_array_equal(found[:60], wanted)


def test_permutation_importance_names_the_call_that_works():
    logs = LOGS["texts"]
    policy = ClassifierPolicy().fit(logs)
    call = r"permutation_importance\(policy, logs\.context, None, scoring=.*X\)\)\)\)"
    for y, scoring in (logs.action, None), (None, PolicyScorer(DoublyRobust())):
        with pytest.raises(TypeError, match=call) as refusal:
            permutation_importance(policy, logs, y, scoring=scoring)
    named = re.search(call, str(refusal.value)).group()
    names = {"permutation_importance": permutation_importance, "policy": policy}
    names |= {"action_probabilities": action_probabilities, "replace": replace}
    for reward, matters in (logs.reward, True), (np.ones(len(logs)), False):
        fitted = DoublyRobust().fit(replace(logs, reward=reward))  # 1 for all policies
        found = eval(named, {**names, "logs": logs, "fitted": fitted}).importances_mean
        assert found.shape == (5,)
        assert (np.abs(found) > 1e-9).any() == matters  # the value, not an imitation
    label = logs.actions[0]
    names |= {"logs": logs, "fitted": DoublyRobust().fit(logs)}
    for of_labels in (
        ConstantPolicy(label),
        FunctionPolicy(lambda X: np.full(len(X), label)),
    ):
        found = eval(named, names | {"policy": of_labels}).importances_mean
        assert_array_equal(found, 0)


# -- the packages themselves -----------------------------------------------------------


def _lightgbm(kind):
    module = pytest.importorskip("lightgbm")
    return getattr(module, f"LGBM{kind}")(n_estimators=3, verbose=-1, n_jobs=1)


def _xgboost(kind):
    module = pytest.importorskip("xgboost")
    return getattr(module, f"XGB{kind}")(n_estimators=3, n_jobs=1)


def _catboost(kind):
    module = pytest.importorskip("catboost")
    return getattr(module, f"CatBoost{kind}")(
        iterations=3, verbose=0, allow_writing_files=False, thread_count=1
    )


def _skorch(kind):
    pytest.importorskip("torch")
    module = pytest.importorskip("skorch")
    from torch import nn

    class Net(nn.Module):
        def __init__(self, n_outputs=1):
            super().__init__()
            self.line = nn.LazyLinear(n_outputs)

        def forward(self, X):
            out = self.line(X.float())
            return out if kind == "Regressor" else out.softmax(-1)

    n_outputs = 1 if kind == "Regressor" else 3
    return getattr(module, f"NeuralNet{kind}")(
        Net, module__n_outputs=n_outputs, max_epochs=1, verbose=0, train_split=None
    )


PACKAGES = [_lightgbm, _xgboost, _catboost, _skorch]
# LightGBM names the columns of arrays itself, and scikit-learn then misses them.
unnamed = pytest.mark.filterwarnings("ignore:X does not have valid feature names")


@pytest.mark.few_cases
@unnamed
@pytest.mark.parametrize("package", PACKAGES)
@every_log
def test_classifiers_of_packages_act(package, logs):
    if package is _skorch and not (logs.reward[logs.action_index == 1] > 0).any():
        pytest.skip("its network has an output for an action that it never learns")
    for temperature in (None, 1.0):
        policy = ClassifierPolicy(package("Classifier"), temperature=temperature)
        proba = policy.fit(logs).predict_proba(logs)
        assert proba.shape == (300, 3)
        assert_allclose(proba.sum(axis=1), 1, rtol=1e-6)
        assert np.isin(policy.predict(logs), logs.actions).all()


@pytest.mark.thorough
@unnamed
@pytest.mark.parametrize("package", [_lightgbm, _xgboost, _catboost])
def test_classifiers_of_packages_learn(package):
    logs = LOGS["never rewarded"]
    for kind in (IPSPolicy, DRPolicy):
        policy = kind(package("Classifier")).fit(logs)
        assert action_probabilities(policy, logs).shape == (300, 3)
    step = PropensityEstimator(package("Classifier"), cv=2)
    assert (step.fit_transform(logs).propensity > 0).all()
    value = DoublyRobust(reward_model=package("Classifier")).fit(logs)
    assert 0 < value.score(UniformPolicy()) < 1
    policy = ClassifierPolicy(package("Classifier")).fit(BASE.context, NAMES)
    assert set(policy.predict(BASE.context)) <= {"ann", "bob", "cy"}


@unnamed
@pytest.mark.filterwarnings("ignore::skope_ope.exceptions.OPEWarning")
@pytest.mark.parametrize("package", [_lightgbm, _xgboost, _catboost])
def test_classifiers_of_packages_learn_online(package):
    policy = OnlineClassifierPolicy(package("Classifier"), update_every=50)
    value = DRns(horizon=20, random_state=0).fit(LOGS["texts"][:150]).score(policy)
    assert -1 < value < 2


@pytest.mark.few_cases
@unnamed
@pytest.mark.filterwarnings("ignore:.*takes no sample_weight")  # networks take none
@pytest.mark.parametrize("package", PACKAGES)
@pytest.mark.parametrize("encoding", ["per_action", "one_hot"])
def test_regressors_of_packages(package, encoding):
    model = ActionRewardModel(package("Regressor"), encoding)
    logs = LOGS["texts"]
    for evaluator in (DoublyRobust(cv=2), MRDR(cv=2)):
        evaluator.set_params(reward_model=model)
        assert -1 < evaluator.fit(logs).score(UniformPolicy()) < 2
    assert RewardModelPolicy(model).fit(logs).predict_proba(logs).shape == (300, 3)


@unnamed
@pytest.mark.parametrize("package", PACKAGES)
def test_regressors_meet_an_action_that_was_never_rewarded(package):
    logs = LOGS["texts"]
    never = logs.replace(reward=logs.reward * (logs.action_index > 0))
    model = package("Regressor")
    q_hat = ActionRewardModel(model).fit(never).predict_logs(never)
    assert abs(q_hat[:, 0]).max() < 0.5


@pytest.mark.few_cases(1)
@every_log
def test_samplers_inside_a_policy(logs):
    sampling = pytest.importorskip("imblearn.over_sampling")
    pipelines = pytest.importorskip("imblearn.pipeline")
    sampler = sampling.RandomOverSampler(random_state=0)
    pipeline = pipelines.make_pipeline(sampler, LogisticRegression())
    for kind in (ClassifierPolicy, IPSPolicy, DRPolicy):
        policy = kind(pipeline).fit(logs)
        assert set(policy.predict(logs)) <= set(logs.actions)
    nested = GridSearchCV(pipeline, {"logisticregression__C": [1.0]}, cv=2)
    assert ClassifierPolicy(nested).fit(logs).predict(logs).shape == (300,)
