# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import numpy as np
import pytest
import sklearn
from numpy.testing import assert_array_equal
from sklearn.base import clone
from sklearn.linear_model import Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skope_ope import IPS, DoublyRobust, PropensityClipper
from skope_ope.datasets import make_bandit_logs
from skope_ope.policies import action_probabilities

LOGS, POLICY, TRUTH = make_bandit_logs(
    300, logging_temperature=0.5, random_state=0, return_truth=True
)
pytestmark = pytest.mark.filterwarnings("ignore::skope_ope.exceptions.OPEWarning")


@pytest.mark.parametrize("low", [0, 0.1, 0.3, 1.0])
def test_propensities_are_bounded_from_below(low):
    step = PropensityClipper(low=low).fit(LOGS)
    out = step.transform(LOGS)
    assert_array_equal(out.propensity, np.maximum(LOGS.propensity, low))
    assert step.n_clipped_ == (LOGS.propensity < low).sum()
    assert out.propensity.min() >= low
    part = PropensityClipper(low=low).fit(LOGS[:100]).transform(LOGS[100:])
    assert_array_equal(part.propensity, np.maximum(LOGS.propensity[100:], low))


def test_what_the_step_changes_and_refuses():
    before = LOGS.propensity.copy()
    logs = LOGS.with_columns(x=np.arange(300))
    out = PropensityClipper(low=0.4).fit_transform(logs)
    assert out.context is logs.context
    assert out.logging_proba is logs.logging_proba
    assert out.row_id == logs.row_id
    assert out.columns == logs.columns
    assert_array_equal(LOGS.propensity, before)
    # it is ips with raised propensities
    pi = action_probabilities(POLICY, LOGS)[np.arange(300), LOGS.action_index]
    value = make_pipeline(PropensityClipper(low=0.25), IPS()).fit(LOGS).score(POLICY)
    weights = pi / np.maximum(LOGS.propensity, 0.25)
    assert value == pytest.approx(np.mean(weights * LOGS.reward), rel=1e-12)
    # unknown propensities are refused with the remedy
    unknown = LOGS.replace(propensity=None, logging_proba=None)
    step = PropensityClipper().fit(LOGS)
    for ask in (PropensityClipper().fit, step.transform):
        with pytest.raises(ValueError, match="Put PropensityEstimator in front of it"):
            ask(unknown)
    for low in (-0.1, 1.1, "a", None):
        with pytest.raises(ValueError, match="The 'low' parameter of PropensityClip"):
            PropensityClipper(low=low).fit(LOGS)
    # features are no business of this pipeline
    with pytest.raises(TypeError, match="cannot be converted to an array"):
        make_pipeline(StandardScaler(), IPS()).fit(LOGS)


@pytest.mark.parametrize("routing", [False, True], ids=["", "routing"])
def test_a_pipeline_hands_model_and_policy_through(routing):
    with sklearn.config_context(enable_metadata_routing=routing):
        pipeline = make_pipeline(PropensityClipper(low=0.2), DoublyRobust())
        value = pipeline.fit(LOGS, Ridge()).score(POLICY)
    clipped = PropensityClipper(low=0.2).fit_transform(LOGS)
    assert value == DoublyRobust(reward_model=Ridge()).fit(clipped).score(POLICY)


@pytest.mark.parametrize("routing", [False, True], ids=["", "routing"])
def test_a_search_over_the_bound(routing):
    seen = []

    def scorer(pipeline, logs, y=None):
        held_out = pipeline[:-1].transform(logs)
        seen.append((pipeline[0].low, len(logs), held_out.propensity.min()))
        return pipeline[-1].score(POLICY, held_out)

    pipeline = make_pipeline(PropensityClipper(), IPS())
    grid = {"propensityclipper__low": [0.0, 0.1, 0.5], "ips__cmax": [None]}
    with sklearn.config_context(enable_metadata_routing=routing):
        search = GridSearchCV(pipeline, grid, scoring=scorer, cv=3).fit(LOGS)
    assert len(seen) == 9
    assert all(n_rounds == 100 and lowest >= low for low, n_rounds, lowest in seen)
    # clipping lowers the weights, hence values of non-negative rewards
    assert search.best_params_["propensityclipper__low"] == 0.0
    assert np.diff(search.cv_results_["mean_test_score"]).max() <= 0
    best = search.best_estimator_
    assert best.score(POLICY) == IPS().fit(LOGS).score(POLICY)
    assert clone(best).get_params()["propensityclipper__low"] == 0.0
