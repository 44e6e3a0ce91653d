# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn import config_context, get_config
from sklearn.base import BaseEstimator, RegressorMixin, clone
from sklearn.ensemble import (
    AdaBoostClassifier,
    BaggingClassifier,
    StackingClassifier,
    StackingRegressor,
)
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import GridSearchCV, TunedThresholdClassifierCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skope_ope._sklearn import weight_request
from skope_ope.propensities._weighted_fit import (
    fit_weighted,
    routes_weights,
    takes_weights,
    with_requests,
)

RNG = np.random.RandomState(0)
X = RNG.normal(size=(80, 3))
Y = (X[:, 0] + RNG.normal(size=80) > 0).astype(int)
WEIGHT = RNG.random_sample(80)
MODEL = LogisticRegression()


@pytest.fixture(autouse=True)
def routing():
    with config_context(enable_metadata_routing=True):
        yield
        assert get_config()["enable_metadata_routing"]


class Plain(RegressorMixin, BaseEstimator):
    """Takes no weights."""

    def fit(self, X, y):
        self.n_ = len(y)
        return self


@pytest.mark.few_cases(3)
@pytest.mark.parametrize(
    "model",
    [
        MODEL,
        make_pipeline(StandardScaler(), MODEL),
        TunedThresholdClassifierCV(MODEL, cv=2),
        TunedThresholdClassifierCV(make_pipeline(StandardScaler(), MODEL), cv=2),
        GridSearchCV(MODEL, {"C": [1.0]}, cv=2, scoring="accuracy"),
        GridSearchCV(MODEL, {"C": [1.0]}, cv=2, scoring=["accuracy"], refit=False),
        StackingClassifier([("one", MODEL)], cv=2),
        BaggingClassifier(MODEL, 2, random_state=0),
    ],
    ids=str,
)
def test_weights_are_routed(model):
    assert routes_weights(model)
    assert takes_weights(model)
    before = repr(model.get_params())
    fitted = fit_weighted(clone(model), X, Y, WEIGHT)
    assert fitted.__sklearn_is_fitted__() if hasattr(fitted, "steps") else True
    assert repr(model.get_params()) == before  # nothing of the user's is written to
    assert weight_request(MODEL, "fit") == "open"


def test_a_router_is_given_the_weights_that_its_part_asks_for():
    tuned = TunedThresholdClassifierCV(MODEL, cv=2, refit=True)
    fitted = fit_weighted(clone(tuned), X, Y, WEIGHT)
    inner = LogisticRegression().fit(X, Y, sample_weight=WEIGHT)
    assert_allclose(fitted.estimator_.coef_, inner.coef_)


def test_requests_of_the_user_stay():
    scaled = make_pipeline(
        StandardScaler().set_fit_request(sample_weight=True), clone(MODEL)
    )
    fitted = fit_weighted(clone(scaled), X, Y, WEIGHT)
    scale = StandardScaler().fit(X, sample_weight=WEIGHT)
    assert_allclose(fitted[0].mean_, scale.mean_)
    assert abs(scale.mean_ - X.mean(axis=0)).max() > 1e-3
    plain = fit_weighted(make_pipeline(StandardScaler(), clone(MODEL)), X, Y, WEIGHT)
    assert_allclose(plain[0].mean_, X.mean(axis=0))


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
    ],
    ids=[
        "refused",
        "refused in a pipeline",
        "no routing",
        "none",
        "none in a pipeline",
    ],
)
def test_what_refuses_weights_gets_rows_in_their_proportion(make):
    model = make()
    assert not routes_weights(model)
    first = np.where(np.arange(80) < 40, 1.0, 0.0)
    fitted = fit_weighted(clone(model), X, Y, first)
    assert fitted is not None
    if isinstance(model, LogisticRegression):
        drawn = np.sort(np.random.RandomState(0).choice(80, 80, p=first / 40))
        by_hand = LogisticRegression().fit(X[drawn], Y[drawn])
        assert_allclose(fitted.coef_, by_hand.coef_)


def test_a_frozen_model_is_not_written_to():
    inner = LogisticRegression().fit(X, Y)
    with_requests(FrozenEstimator(inner))
    assert weight_request(inner, "fit") == "open"


def test_a_stack_of_regressors():
    stack = StackingRegressor([("one", Ridge())], Ridge(), cv=2)
    plain = clone(stack).fit(X, X[:, 0] + Y)
    fitted = fit_weighted(clone(stack), X, X[:, 0] + Y, WEIGHT)
    assert np.abs(fitted.predict(X) - plain.predict(X)).max() > 1e-6
