# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import numpy as np
import pytest
from scipy import sparse
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import Pipeline

from skope_ope import (
    IPS,
    BanditLogs,
    EpsilonGreedy,
    PropensityClipper,
    PropensityEstimator,
    UniformPolicy,
)
from skope_ope._inside import fitted_part
from skope_ope.selection._candidates import (
    check_policy_of_search,
    is_adaptive,
    is_logs,
    refuse_others,
    with_propensities,
)
from tests.selection._logs import problem


class SlatePolicy:
    """It has no predict_proba."""

    def slot_marginals(self, logs):
        return None


def test_policies_that_may_be_searched_with():
    good = (
        "pi",
        UniformPolicy(),
        EpsilonGreedy(),
        FrozenEstimator(UniformPolicy()),
        SlatePolicy(),
    )
    for policy in good:
        check_policy_of_search(policy, "X")


def test_those_that_may_not():
    logs, _ = problem(20)
    for array in (np.ones(3), [1.0], (0.5,), sparse.csr_matrix(np.eye(3))):
        with pytest.raises(TypeError, match=r"^X got an array.*with_columns"):
            check_policy_of_search(array, "X")
    with pytest.raises(TypeError, match="expected, got BanditLogs"):
        check_policy_of_search(logs, "X")
    with pytest.raises(TypeError, match=r"evaluator IPS.*PolicyScorer"):
        check_policy_of_search(IPS(), "X")
    with pytest.raises(TypeError, match="got the class UniformPolicy"):
        check_policy_of_search(UniformPolicy, "X")


def test_parts():
    logs, policy = problem(60)
    evaluator = IPS().fit(logs)
    assert fitted_part(evaluator) == (evaluator, None)
    pipe = Pipeline([("clip", PropensityClipper(0.5)), ("ev", IPS())]).fit(logs)
    last, found = fitted_part(pipe)
    assert last is pipe[-1] and found is pipe
    assert with_propensities(logs, pipe) is logs  # they are known
    unknown = logs.replace(propensity=None, logging_proba=None)
    estimating = Pipeline([("p", PropensityEstimator(cv=2)), ("ev", IPS())])
    estimating.fit(unknown)
    assert with_propensities(unknown, estimating).propensity is not None
    for nothing in (None, Pipeline([("ev", IPS())])):
        assert with_propensities(unknown, nothing) is unknown
    search = GridSearchCV(pipe, {"clip__low": [0.1]})
    search.best_estimator_ = pipe
    assert fitted_part(search) == (pipe[-1], pipe)
    refuse_others(last)
    with pytest.raises(TypeError, match="got the policy"):
        refuse_others(policy)


def test_kinds():
    logs, policy = problem(20)
    assert is_logs(logs) and not is_logs(logs.context) and not is_logs(None)
    assert isinstance(logs, BanditLogs)
    assert is_adaptive(EpsilonGreedy()) and not is_adaptive(policy)
    assert not is_adaptive(FrozenEstimator(EpsilonGreedy()))  # it learns no more
    assert not is_adaptive("pi")
