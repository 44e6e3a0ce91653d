# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Models that users give: how weights reach them, and what they may predict."""

import numpy as np
import pytest
import sklearn
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin, clone
from sklearn.compose import TransformedTargetRegressor
from sklearn.ensemble import (
    AdaBoostClassifier,
    BaggingClassifier,
    HistGradientBoostingRegressor,
    StackingClassifier,
    StackingRegressor,
)
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import GridSearchCV, TunedThresholdClassifierCV
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler

from skope_ope import ActionRewardModel, BanditLogs, ClassifierPolicy
from skope_ope.exceptions import ModelErrorWarning

RNG = np.random.RandomState(0)
X = RNG.normal(size=(80, 3))
Y = (X[:, 0] + RNG.normal(size=80) > 0).astype(float)
WEIGHT = RNG.random_sample(80)
SCALED = make_pipeline(StandardScaler(), Ridge())
LOGISTIC = LogisticRegression()


@pytest.fixture(params=[False, True], ids=["", "routing"])
def routing(request):
    with sklearn.config_context(enable_metadata_routing=request.param):
        yield
        assert sklearn.get_config()["enable_metadata_routing"] == request.param


def fitted(model, weight=WEIGHT, X=X, y=Y):
    """What a model of all rounds, which took the one action, became."""
    logs = BanditLogs(X, np.zeros(len(X)), y)
    return ActionRewardModel(model).fit(logs, sample_weight=weight).models_[0]


def answers(model):
    return getattr(model, "predict_proba", model.predict)(X)


# -- weights --------------------------------------------------------------------------
@pytest.mark.few_cases
@pytest.mark.parametrize(
    ("model", "name"),
    [
        (Ridge(), "sample_weight"),
        (HistGradientBoostingRegressor(max_iter=3), "sample_weight"),
        (SCALED, "ridge__sample_weight"),
        (make_pipeline(StandardScaler(), SCALED), "pipeline__ridge__sample_weight"),
        (GridSearchCV(Ridge(), {"alpha": [1.0, 2.0]}, cv=2), "sample_weight"),
        (GridSearchCV(SCALED, {"ridge__alpha": [1.0]}, cv=2), "ridge__sample_weight"),
        (TransformedTargetRegressor(Ridge()), "sample_weight"),
    ],
    ids=str,
)
def test_weights_reach_the_model(model, name, routing):
    with sklearn.config_context(enable_metadata_routing=False):
        by_hand = clone(model).fit(X, Y, **{name: WEIGHT}).predict(X)
        plain = clone(model).fit(X, Y).predict(X)
    assert_allclose(fitted(model).predict(X), by_hand)
    assert np.abs(by_hand - plain).max() > 1e-6


SCALED_LOGISTIC = make_pipeline(StandardScaler(), LOGISTIC)


@pytest.mark.few_cases(3)
@pytest.mark.parametrize(
    "model",
    [
        LOGISTIC,
        SCALED_LOGISTIC,
        TunedThresholdClassifierCV(LOGISTIC, cv=2),
        TunedThresholdClassifierCV(SCALED_LOGISTIC, cv=2),
        GridSearchCV(LOGISTIC, {"C": [1.0]}, cv=2, scoring="accuracy"),
        StackingClassifier([("one", LOGISTIC)], cv=2),
        StackingRegressor([("one", Ridge())], Ridge(), cv=2),
        BaggingClassifier(LOGISTIC, 2, random_state=0),
    ],
    ids=str,
)
def test_weights_are_routed(model):
    before = repr(model.get_params())
    with sklearn.config_context(enable_metadata_routing=True):
        weighted, plain = fitted(model), fitted(model, None)
        assert not LOGISTIC.get_metadata_routing().fit.requests["sample_weight"]
    assert np.abs(answers(weighted) - answers(plain)).max() > 1e-6
    assert repr(model.get_params()) == before  # nothing of the user's is written to


def test_requests_of_the_user_stay():
    with sklearn.config_context(enable_metadata_routing=True):
        asks = StandardScaler().set_fit_request(sample_weight=True)
        scaled = fitted(make_pipeline(asks, clone(LOGISTIC)))
        plain = fitted(make_pipeline(StandardScaler(), clone(LOGISTIC)))
    scale = StandardScaler().fit(X, sample_weight=WEIGHT)
    assert_allclose(scaled[0].mean_, scale.mean_)
    assert abs(scale.mean_ - X.mean(axis=0)).max() > 1e-3
    assert_allclose(plain[0].mean_, X.mean(axis=0))


class Plain(RegressorMixin, BaseEstimator):
    """Takes no weights, and gives the mean."""

    def fit(self, X, y):
        self.mean_ = np.mean(y)
        return self

    def predict(self, X):
        return np.full(len(X), self.mean_)


def unasked():
    return LogisticRegression().set_fit_request(sample_weight=False)


@pytest.mark.parametrize(
    "make",
    [
        unasked,
        lambda: make_pipeline(StandardScaler(), unasked()),
        lambda: AdaBoostClassifier(n_estimators=2),  # refuses while routing is on
        Plain,
        lambda: make_pipeline(StandardScaler(), Plain()),
        KNeighborsRegressor,
        lambda: TransformedTargetRegressor(KNeighborsRegressor()),
    ],
)
def test_what_refuses_weights_gets_rows_in_their_proportion(make):
    first = np.where(np.arange(80) < 40, 1.0, 0.0)
    told = pytest.warns(ModelErrorWarning, match="takes no sample_weight")
    with sklearn.config_context(enable_metadata_routing=True), told:
        found = fitted(make(), first)
    # it is fitted to these rows, and to none with a weight of zero
    drawn = np.sort(np.random.RandomState(0).choice(80, 80, p=first / 40))
    with sklearn.config_context(enable_metadata_routing=True):
        by_hand = make().fit(X[drawn], Y[drawn])
    assert_allclose(answers(found), answers(by_hand))


def test_weights_that_are_none_or_zero_are_left_out():
    plain = KNeighborsRegressor().fit(X, Y).predict(X)
    for weight in (None, np.zeros(80)):
        assert_allclose(fitted(KNeighborsRegressor(), weight).predict(X), plain)
    some = np.where(np.arange(80) < 40, 1.0, 0.0)
    part = LogisticRegression().fit(X[:40], Y[:40])
    assert_allclose(answers(fitted(LOGISTIC, some)), answers(part), atol=1e-3)


@pytest.mark.filterwarnings("ignore:FrozenEstimator takes no sample_weight")
def test_a_frozen_model_is_not_written_to():
    inner = LogisticRegression().fit(X, Y)
    with sklearn.config_context(enable_metadata_routing=True):
        fitted(FrozenEstimator(inner))
        assert not inner.get_metadata_routing().fit.requests["sample_weight"]


def test_a_classifier_policy_needs_a_classifier():
    logs = BanditLogs(X, np.arange(80) % 2, Y, np.full(80, 0.5))
    with pytest.raises((TypeError, ValueError), match="classifier"):
        ClassifierPolicy(Ridge()).fit(logs)
    with pytest.raises((TypeError, ValueError), match="model"):
        ActionRewardModel(Pipeline([("only", "passthrough")])).fit(logs)


def test_a_classifier_without_weights_learns_the_proportions_of_rewards():
    # action 0 was rewarded seven times as much as action 1 in the same contexts
    x = np.repeat(X[:40], 50, axis=0)
    action = np.arange(2000) % 2
    logs = BanditLogs(x, action, np.where(action == 0, 0.7, 0.1), np.full(2000, 0.5))
    policy = ClassifierPolicy(KNeighborsClassifier(50), temperature=1.0).fit(logs)
    share = policy.classifier_.predict_proba(X[:40])[:, 0].mean()
    assert abs(share - 7 / 8) < 4 * (7 / 64 / 2000) ** 0.5


# -- what models predict --------------------------------------------------------------
class Given(BaseEstimator):
    """Gives what it was made of."""

    def __init__(self, output):
        self.output = output

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        return self

    def predict(self, X):
        return self.output


class GivenClassifier(ClassifierMixin, Given):
    def predict_proba(self, X):
        return self.output


def predictions(model):
    logs = BanditLogs(X[:4], np.zeros(4), [0.0, 1.0, 0.0, 1.0])
    return ActionRewardModel(model).fit(logs).predict(X[:4])[:, 0]


def test_shapes_and_names_of_predictions():
    for shape in ((4,), (4, 1)):
        output = np.arange(4.0).reshape(shape)
        for given in (output, output.tolist()):
            assert_array_equal(predictions(Given(given)), np.arange(4.0))
    for shape in ((4, 2), (1, 4), (3,), (4, 1, 1)):
        with pytest.raises(ValueError, match=r"Given predicts an array .* 4 r"):
            predictions(Given(np.zeros(shape)))
    # a probability per class
    proba = np.arange(8.0).reshape(4, 2) / 8
    for shape in ((4, 2), (4, 1, 2), (4, 2, 1)):
        found = predictions(GivenClassifier(proba.reshape(shape)))
        assert_array_equal(found, proba[:, 1])
    for shape in ((4, 3), (4,), (3, 2), (2, 2, 2)):
        with pytest.raises(ValueError, match="its classes_ and its columns must agree"):
            predictions(GivenClassifier(np.zeros(shape)))
    # columns of a frame are matched by name
    pandas = pytest.importorskip("pandas")
    given = pandas.DataFrame(proba[:, ::-1], columns=[1, 0])
    assert_array_equal(predictions(GivenClassifier(given)), proba[:, 1])
    given.columns = ["a", "b"]
    with pytest.raises(ValueError, match=r"output of GivenC.*predict_proba are \['a'"):
        predictions(GivenClassifier(given))
