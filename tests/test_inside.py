# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import Pipeline

from skope_ope import IPS, BanditLogs, EvaluatorScorer, PropensityClipper, UniformPolicy
from skope_ope._inside import fitted_evaluator, fitted_part, inside

LOGS = BanditLogs(np.zeros((8, 1)), [0, 1] * 4, [1.0, 0.0] * 4, [0.1, 0.9] * 4)
SCORING = EvaluatorScorer(UniformPolicy(), validator=IPS())
CLIP = Pipeline([("clip", PropensityClipper(0.3)), ("ev", IPS())])


def search_over(estimator, **options):
    name = "ev__cmax" if hasattr(estimator, "steps") else "cmax"
    return GridSearchCV(estimator, {name: [2.0]}, scoring=SCORING, cv=2, **options)


def test_inside_needs_no_fit():
    evaluator = IPS()
    assert inside(evaluator) is evaluator
    assert inside(Pipeline([("ev", evaluator)])) is evaluator
    assert inside(search_over(Pipeline([("ev", evaluator)]))) is evaluator
    assert inside(search_over(IPS()).fit(LOGS)).cmax == 2.0


def test_fitted_part_of_a_search_at_the_end_of_a_pipeline():
    last, pipeline = fitted_part(IPS())
    assert isinstance(last, IPS)
    assert pipeline is None
    outer = Pipeline([("outer", PropensityClipper(0.2)), ("s", search_over(CLIP))])
    outer.fit(LOGS)
    last, pipeline = fitted_part(outer)
    assert last is outer[-1].best_estimator_[-1]
    assert [step.low for _, step in pipeline.steps[:-1]] == [0.2, 0.3]
    assert outer.steps[-1][0] == "s"  # the user's stays as it is


def test_fitted_evaluator_and_its_rounds():
    fitted = search_over(CLIP).fit(LOGS)
    last, logs = fitted_evaluator(fitted)
    assert logs is None
    assert last.logs_.propensity.min() == 0.3
    assert fitted_evaluator(fitted, LOGS[:4])[1].propensity.min() == 0.3
    alone = Pipeline([("ev", IPS())]).fit(LOGS)
    assert fitted_evaluator(alone, LOGS)[1] is LOGS


def test_what_has_no_evaluator_inside():
    with pytest.raises(NotFittedError, match="GridSearchCV instance is not fitted"):
        fitted_evaluator(search_over(IPS()))
    with pytest.raises(TypeError, match="no best_estimator_: with refit=False"):
        fitted_evaluator(search_over(IPS(), refit=False).fit(LOGS))
