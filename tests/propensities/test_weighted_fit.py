# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import numpy as np
import pytest
import sklearn
from numpy.testing import assert_allclose
from sklearn.base import clone
from sklearn.compose import TransformedTargetRegressor
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler

from skope_ope.propensities._weighted_fit import (
    fit_classifier,
    fit_weighted,
    weight_parameter,
)

RNG = np.random.RandomState(0)
X, Y = RNG.normal(size=(40, 2)), RNG.random_sample(40)
WEIGHT = RNG.random_sample(40)
SCALED = make_pipeline(StandardScaler(), Ridge())
TARGET = TransformedTargetRegressor(Ridge(), func=np.sqrt, inverse_func=np.square)
MODELS = [  # model, name of its parameter
    (Ridge(), "sample_weight"),
    (HistGradientBoostingRegressor(max_iter=3), "sample_weight"),
    (SCALED, "ridge__sample_weight"),
    (make_pipeline(StandardScaler(), SCALED), "pipeline__ridge__sample_weight"),
    (GridSearchCV(Ridge(), {"alpha": [1.0, 2.0]}, cv=2), "sample_weight"),
    (GridSearchCV(SCALED, {"ridge__alpha": [1.0]}, cv=2), "ridge__sample_weight"),
    (TARGET, "sample_weight"),
]


@pytest.mark.few_cases
@pytest.mark.parametrize(("model", "name"), MODELS, ids=str)
@pytest.mark.parametrize("routing", [False, True], ids=["", "routing"])
def test_weights_reach_the_model(model, name, routing):
    assert weight_parameter(model) == name
    by_hand = clone(model).fit(X, Y, **{name: WEIGHT}).predict(X)
    with sklearn.config_context(enable_metadata_routing=routing):
        fitted = fit_weighted(clone(model), X, Y, WEIGHT)
        assert sklearn.get_config()["enable_metadata_routing"] == routing
    assert_allclose(fitted.predict(X), by_hand)
    assert np.abs(by_hand - clone(model).fit(X, Y).predict(X)).max() > 1e-6


@pytest.mark.parametrize(
    "model",
    [
        KNeighborsRegressor(),
        make_pipeline(StandardScaler(), KNeighborsRegressor()),
        GridSearchCV(KNeighborsRegressor(), {}),
        Pipeline([("only", "passthrough")]),
        TransformedTargetRegressor(KNeighborsRegressor()),
        "not a model",
    ],
    ids=str,
)
def test_models_without_weights(model):
    assert weight_parameter(model) is None


def test_weights_that_are_none_or_zero_are_left_out():
    plain = KNeighborsRegressor().fit(X, Y).predict(X)
    for weight in (None, np.zeros(40)):
        fitted = fit_weighted(KNeighborsRegressor(), X, Y, weight)
        assert_allclose(fitted.predict(X), plain)


def test_some_weights_may_be_zero():
    weight = np.where(np.arange(40) < 20, 1.0, 0.0)
    fitted = fit_weighted(LogisticRegression(), X, Y > 0.5, weight)
    part = LogisticRegression().fit(X[:20], Y[:20] > 0.5)
    assert_allclose(fitted.predict_proba(X), part.predict_proba(X), atol=1e-3)


ROWS = np.repeat(np.arange(40), 2)
LABELS = np.where(RNG.random_sample(80) < 0.5, "a", "b")
MASS = RNG.random_sample(80)


def test_a_classifier_of_weighted_rows():
    fitted, labels = fit_classifier(LogisticRegression(), X, ROWS, LABELS, MASS)
    assert labels.tolist() == ["a", "b"]
    by_hand = LogisticRegression().fit(X[ROWS], LABELS, sample_weight=MASS)
    assert_allclose(fitted.predict_proba(X), by_hand.predict_proba(X))


def test_a_classifier_without_weights_gets_rows_in_their_proportion():
    rows, labels = np.repeat(np.arange(40), 100), np.tile([*"aabb"], 1000)
    mass = np.tile([0.7, 0.0, 0.2, 0.1], 1000)
    model = KNeighborsClassifier(100)
    fitted, _ = fit_classifier(model, X, rows, labels, mass)
    assert fitted.n_samples_fit_ == 4000
    share = fitted.predict_proba(X)[:, 0].mean()
    assert abs(share - 0.7) < 4 * (0.7 * 0.3 / 4000) ** 0.5
    again, _ = fit_classifier(KNeighborsClassifier(100), X, rows, labels, mass)
    assert_allclose(again.predict_proba(X), fitted.predict_proba(X))


@pytest.mark.parametrize("model", [LogisticRegression(), KNeighborsClassifier()])
def test_one_label_needs_no_classifier(model):
    fitted, _ = fit_classifier(model, X, ROWS, np.full(80, "b"), MASS)
    assert {*fitted.predict(X)} == {"b"}


def test_a_regressor_is_no_classifier():
    with pytest.raises(TypeError, match="Ridge is not a classifier"):
        fit_classifier(Ridge(), X, ROWS, (LABELS == "a").astype(int), MASS)
