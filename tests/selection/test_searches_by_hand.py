# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Searches over evaluators of every kind of logs, against loops by hand."""

import numpy as np
import pytest
from joblib import parallel_config
from sklearn.linear_model import Ridge
from sklearn.model_selection import GridSearchCV, KFold, ShuffleSplit

from skope_ope import (
    IPS,
    BanditLogs,
    DoublyRobust,
    DRns,
    EpsilonGreedy,
    EvaluatorScorer,
    FunctionPolicy,
    MultiLoggerDR,
    MultiLoggerIPS,
    OPESearchCV,
    PolicyScorer,
    PseudoInverse,
    in_order,
)
from skope_ope.datasets import make_slate_logs
from tests.selection._logs import losses_of, problem


def cell(source, name="rule"):
    """What a cell of a notebook defines."""
    scope = {"__name__": "__main__", "np": np}
    exec(source, scope)
    return scope[name]


SHUFFLED = ShuffleSplit(2, train_size=0.5, random_state=0)


def by_hand(candidates, validator, logs, policy, folds):
    """Losses of candidates as the formula says, nothing shared."""
    found = []
    for train, test in folds:
        truth = validator.fit(logs[test]).score(policy)
        values = [one.fit(logs[train]).score(policy) for one in candidates]
        found.append([(value - truth) ** 2 for value in values])
    return found


def with_loggers(logs, in_blocks=False):
    codes = np.arange(len(logs)) * 3 // len(logs) if in_blocks else np.arange(len(logs))
    logger = np.array(["a", "b", "c"])[codes % 3]
    given = (logs.context, logs.action, logs.reward, logs.propensity)
    return BanditLogs(*given, actions=logs.actions, logger=logger)


def assert_by_hand(candidates, validator, grid, logs, policy):
    """Compare a search that starts at the first candidate with the formula."""
    scorer = EvaluatorScorer(policy, validator)
    search = GridSearchCV(candidates[0], grid, scoring=scorer, cv=3)
    found = losses_of(search.set_params(error_score="raise").fit(logs))
    folds = KFold(3).split(logs)
    expected = by_hand(candidates, validator, logs, policy, folds)
    np.testing.assert_allclose(found, expected, rtol=1e-10)
    return np.diff(expected)


@pytest.mark.few_cases(1)
@pytest.mark.filterwarnings("ignore::skope_ope.exceptions.OPEWarning")
@pytest.mark.parametrize("evaluator", [MultiLoggerIPS, MultiLoggerDR])
@pytest.mark.parametrize("in_blocks", [False, True])  # a fold of one logger only
def test_poolings(evaluator, in_blocks):
    logs, policy = problem()
    logs, poolings = with_loggers(logs, in_blocks), ("naive", "weighted")
    assert len(set(logs[:100].logger)) == (1 if in_blocks else 3)
    candidates = [evaluator(pooling=p, divergences="per_logger") for p in poolings]
    grid = {"pooling": poolings}
    assert assert_by_hand(candidates, MultiLoggerDR(), grid, logs, policy).any()


@pytest.mark.filterwarnings("ignore::skope_ope.exceptions.OPEWarning")
def test_slates():
    logs, policy, _ = make_slate_logs(300, random_state=0, return_truth=True)
    candidates = [PseudoInverse(), PseudoInverse(cmax=1.0)]
    grid = {"cmax": [None, 1.0]}
    assert assert_by_hand(candidates, PseudoInverse(), grid, logs, policy).all()


@pytest.mark.few_cases(1)
@pytest.mark.parametrize("kind", ["model", "array"])
def test_a_model_given_to_fit_survives_shuffled_rows(kind):
    logs, policy = problem()
    model = Ridge(0.01)
    if kind == "array":
        model = np.random.RandomState(0).uniform(size=(len(logs), logs.n_actions))

    def losses(cv, **given):
        search = GridSearchCV(
            DRns(random_state=0), {"q": [0.05]}, scoring=EvaluatorScorer(policy), cv=cv
        )
        return losses_of(search.fit(logs, **given))

    found = losses(SHUFFLED, reward_model=model)
    expected = losses(in_order(SHUFFLED), reward_model=model)
    np.testing.assert_array_equal(found, expected)
    without = losses(SHUFFLED)
    np.testing.assert_array_equal(without, losses(in_order(SHUFFLED)))
    assert not np.array_equal(found, without)


def test_histories_of_policies_happen_in_order():
    logs, _ = problem(600)
    scorer, grid = PolicyScorer(DRns(horizon=20)), {"epsilon": [0.1]}
    search = GridSearchCV(EpsilonGreedy(), grid, scoring=scorer, cv=SHUFFLED)
    found = search.fit(logs).best_score_
    assert search.set_params(cv=in_order(SHUFFLED)).fit(logs).best_score_ == found


@pytest.mark.few_cases(1)
@pytest.mark.parametrize("search", [GridSearchCV, OPESearchCV])
@pytest.mark.parametrize("n_jobs", [None, 2])
def test_an_edited_policy_is_scored_anew(n_jobs, search):
    logs, _ = problem()

    def losses(source, search=search, n_jobs=n_jobs):
        scorer = EvaluatorScorer(FunctionPolicy(cell(source)))
        grid = {"cmax": [None, 1.0]}
        found = search(IPS(), grid, scoring=scorer, cv=3, n_jobs=n_jobs)
        return losses_of(found.fit(logs))

    one, other = (
        f"def rule(X): return np.tile(np.eye({logs.n_actions})[{k}], (len(X), 1))"
        for k in (0, 1)
    )
    before = losses(one)
    after = losses(other)
    np.testing.assert_allclose(after, losses(other, GridSearchCV, None), rtol=1e-12)
    assert not np.array_equal(before, after)


MODEL = """
from sklearn.linear_model import Ridge
class EditedRidge(Ridge):
    def predict(self, X): return {} * super().predict(X)
"""


@pytest.mark.parametrize(
    "backend", ["threading", pytest.param("loky", marks=pytest.mark.thorough)]
)
def test_an_edited_model_is_fitted_anew(backend):
    logs, policy = problem()
    scorer = EvaluatorScorer(policy)

    def losses(factor, search, n_jobs=None):
        model = cell(MODEL.format(factor), "EditedRidge")()
        estimator = DoublyRobust(reward_model=model)
        grid = {"cmax": [None, 1.0]}
        found = search(estimator, grid, scoring=scorer, cv=3, n_jobs=n_jobs)
        return losses_of(found.fit(logs))

    with parallel_config(backend):
        before = losses(1, OPESearchCV, 2)
        after = losses(2, OPESearchCV, 2)
    np.testing.assert_allclose(after, losses(2, GridSearchCV), rtol=1e-10)
    assert not np.array_equal(before, after)
