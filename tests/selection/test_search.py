# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import pytest
from sklearn.exceptions import NotFittedError

from skope_ope import IPS, EvaluatorScorer, OPESearchCV, PolicyScorer, SlopeSearch
from tests.selection._logs import problem


@pytest.mark.parametrize("search", [SlopeSearch, OPESearchCV])
def test_unfitted_and_repr(search):
    logs, policy = problem(20)
    one = search(IPS(), {"cmax": [1.0]}, scoring=EvaluatorScorer(policy))
    with pytest.raises(NotFittedError):
        one.score(logs)
    assert type(one).__name__ in repr(one)
    assert "EvaluatorScorer" in one._repr_html_()
    assert one.get_params()["estimator__cmax"] is None


def test_a_search_without_scoring_says_what_is_missing():
    logs, _ = problem(20)
    for search in (SlopeSearch, OPESearchCV):
        with pytest.raises(TypeError, match="got NoneType: an evaluator's error"):
            search(IPS(), {"cmax": [1.0]}).fit(logs)
    with pytest.raises(TypeError, match=r"got str.*PolicyScorer"):
        OPESearchCV(IPS(), {"cmax": [1.0]}, scoring="accuracy").fit(logs)
    with pytest.raises(TypeError, match="Search policies with OPESearchCV"):
        SlopeSearch(IPS(), {"cmax": [1.0]}, scoring=PolicyScorer(IPS())).fit(logs)
