# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.pipeline import make_pipeline

from skope_ope import (
    IPS,
    BanditLogs,
    IPSPolicy,
    MultiLoggerIPS,
    PolicyScorer,
    PropensityClipper,
    PropensityEstimator,
)
from skope_ope.exceptions import PropensityWarning
from skope_ope.propensities import LoggerPropensityEstimator


def two_loggers(n=400, seed=0):
    """Logs without propensities, the target and the true probabilities."""
    rng = np.random.RandomState(seed)
    X = rng.normal(size=(n, 2))
    logger = np.where(rng.random_sample(n) < 0.6, "old", "new")
    p1 = {k: 1 / (1 + np.exp(-s * X[:, 0])) for k, s in (("new", 1.0), ("old", -1.0))}
    own = np.where(logger == "new", p1["new"], p1["old"])
    action = (rng.random_sample(n) < own).astype(int)
    reward = action * X[:, 0] + rng.normal(size=n)
    logs = BanditLogs(X, action, reward, logger=logger)
    truth = np.column_stack(
        [np.where(action == 1, p1[k], 1 - p1[k]) for k in ("new", "old")]
    )
    return logs, np.column_stack([1 - p1["new"], p1["new"]]), truth


def test_each_logger_is_estimated_from_its_own_rounds():
    logs, _, _ = two_loggers()
    found = LoggerPropensityEstimator(LogisticRegression(), cv=3).fit_transform(logs)
    for k, label in enumerate(["new", "old"]):
        own, others = (np.flatnonzero((logs.logger == label) == x) for x in (1, 0))
        alone = PropensityEstimator(LogisticRegression(), cv=3).fit(logs[own])
        assert_array_equal(
            found.logger_proba[own, k], alone.transform(logs[own]).propensity
        )
        model = LogisticRegression().fit(logs.context[own], logs.action[own])
        proba = model.predict_proba(logs.context[others])
        assert_allclose(
            found.logger_proba[others, k],
            proba[np.arange(len(others)), logs.action[others]],
        )
    rows = np.arange(len(logs))
    assert_array_equal(found.propensity, found.logger_proba[rows, logs.logger_index])
    # no round explains itself
    flipped = np.array(logs.action)
    flipped[0] = 1 - flipped[0]
    first, second = (
        LoggerPropensityEstimator(cv=KFold(4)).fit_transform(
            BanditLogs(logs.context, action, logs.reward, logger=logs.logger)
        )
        for action in (logs.action, flipped)
    )
    assert_allclose(first.propensity[0] + second.propensity[0], 1)


def test_values_are_those_of_the_truth():
    logs, pi, truth = two_loggers(6000)
    rows = np.arange(len(logs))
    known = logs.replace(logger_proba=truth, propensity=truth[rows, logs.logger_index])
    found = LoggerPropensityEstimator().fit_transform(logs)
    assert_allclose(found.logger_proba, truth, atol=0.1)
    for pooling in ("naive", "balanced", "weighted"):
        evaluator = MultiLoggerIPS(pooling=pooling)
        expected = clone(evaluator).fit(known).evaluate(pi)
        value = evaluator.fit(found).score(pi)
        assert abs(value - expected.value) < 4 * expected.standard_error


def test_deterministic_loggers_together_explore():
    rng = np.random.RandomState(0)
    X = rng.normal(size=(600, 2))
    logger = np.arange(600) % 2
    action = logger.copy()  # each always does the same
    logs = BanditLogs(X, action, action + rng.normal(size=600), logger=logger)
    found = LoggerPropensityEstimator().fit_transform(logs)
    assert_array_equal(found.propensity, 1.0)
    assert_allclose(found.logger_proba[logger == 0, 1], 1e-3)
    value = MultiLoggerIPS(pooling="balanced").fit(found)
    result = value.evaluate(np.full((600, 2), 0.5))
    assert_allclose(result.value, 0.5, atol=4 * result.standard_error)
    with pytest.raises(ValueError, match="looks deterministic"):
        PropensityEstimator().fit(logs[np.flatnonzero(logger == 0)].replace())


def test_other_logs():
    logs, _, _ = two_loggers()
    step = LoggerPropensityEstimator().fit(logs[:300])
    rest = step.transform(logs[300:])
    assert rest.logger_proba.shape == (100, 2)
    assert step.transform("anything else") == "anything else"
    given = logs.context, logs.action, logs.reward
    renamed = BanditLogs(*given, logger=["third"] * 400)
    with pytest.raises(ValueError, match="logger 'third' of the logs was unknown"):
        step.transform(renamed)
    one = BanditLogs(*given, logger=["old"] * 400)
    assert step.transform(one).logger_proba.shape == (400, 1)
    nameless = BanditLogs(*given)
    with pytest.raises(ValueError, match="needs logs with logger"):
        LoggerPropensityEstimator().fit(nameless)
    with pytest.raises(ValueError, match="the logs have no logger"):
        step.transform(nameless)
    single = BanditLogs(*given, logger=["old"] * 399 + ["new"])
    with pytest.raises(ValueError, match=r"logger 'new' has 1 round: .*shuffle=True"):
        LoggerPropensityEstimator().fit(single)


def test_loggers_of_the_catalogue_that_did_not_act():
    logs, pi, _ = two_loggers()
    part = logs[np.flatnonzero(logs.logger == "old")]
    step = LoggerPropensityEstimator().fit(part)
    assert step.loggers_.tolist() == ["old"]
    found = step.transform(part)
    assert_array_equal(found.logger_proba[:, 0], 0.0)  # "new"
    alone = PropensityEstimator().fit_transform(part)
    assert_array_equal(found.propensity, alone.propensity)
    rows = np.flatnonzero(logs.logger == "old")
    balanced = MultiLoggerIPS(pooling="balanced").fit(found).score(pi[rows])
    assert_allclose(balanced, IPS().fit(alone).score(pi[rows]))
    with pytest.raises(ValueError, match=r"'new' .*in a search pass cv=KFold"):
        step.transform(logs)
    # the step for one logger warns of several
    logs, _, _ = two_loggers()
    with pytest.warns(PropensityWarning, match="Use LoggerPropensityEst") as warned:
        PropensityEstimator().fit(logs)
    assert warned[0].message.value == 2
    assert warned[0].filename == __file__
    part = logs[np.flatnonzero(logs.logger == "old")]
    PropensityEstimator().fit(part)  # warnings are errors
    with pytest.raises(ValueError, match="Put LoggerPropensityEstimator in front"):
        PropensityClipper().fit_transform(logs)


@pytest.mark.thorough
def test_a_search_over_loggers_one_after_the_other():
    logs, _, _ = two_loggers(300)
    logs = logs[np.argsort(logs.logger, kind="stable")]
    steps = make_pipeline(LoggerPropensityEstimator(), IPSPolicy(LogisticRegression()))
    grid = {"ipspolicy__classifier__C": [0.1, 1.0]}
    scoring = PolicyScorer(MultiLoggerIPS(pooling="balanced"))
    how = {"scoring": scoring, "cv": KFold(2), "error_score": "raise"}
    search = GridSearchCV(steps, grid, **how)
    with pytest.raises(ValueError, match=r"'new' .*in a search pass cv=KFold"):
        search.fit(logs)
    search.set_params(cv=KFold(2, shuffle=True, random_state=0)).fit(logs)
    assert np.isfinite(search.best_score_)
