# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import numpy as np
import pytest
from joblib import parallel_config
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import Ridge
from sklearn.model_selection import ShuffleSplit
from sklearn.pipeline import Pipeline

from skope_ope import (
    IPS,
    ConstantPolicy,
    DirectMethod,
    DoublyRobust,
    DRns,
    EpsilonGreedy,
    EvaluatorScorer,
    OPESearchCV,
    PropensityEstimator,
    SlopeSearch,
    one_standard_error,
)
from tests._worlds import d8_logs
from tests.selection._logs import losses_of, problem


def test_shares_and_losses_by_hand():
    logs = d8_logs()
    how = {"scoring": EvaluatorScorer("pi", IPS()), "n_splits": 3, "random_state": 0}
    search = OPESearchCV(IPS(), {"cmax": [None, 1.0]}, **how).fit(logs)
    # standard errors on D8: .563275 unclipped, .150454 clipped at 1
    own, theirs = np.array([0.563275, 0.150454]) ** 2, 0.563275**2
    shares = own / (own + theirs)
    np.testing.assert_allclose(search.cv_results_["train_share"], shares, atol=1e-6)
    seed = np.random.RandomState(0).randint(2**31 - 1)
    w = logs.columns["pi"][range(8), logs.action]
    for k, (share, cmax) in enumerate(zip(shares, (np.inf, 1.0), strict=True)):
        size = max(round(share * 8), 1)
        sizes = {"train_size": size, "test_size": 8 - size, "random_state": seed}
        for j, (train, test) in enumerate(ShuffleSplit(3, **sizes).split(logs)):
            whole = w / logs.propensity * logs.reward
            clipped = np.minimum(w / logs.propensity, cmax) * logs.reward
            loss = (clipped[train].mean() - whole[test].mean()) ** 2
            assert losses_of(search)[j, k] == pytest.approx(loss)
    assert search.best_index_ == one_standard_error(search.cv_results_)


def test_a_seed_and_jobs():
    logs, policy = problem()
    search = OPESearchCV(
        IPS(), {"cmax": [None, 1.0]}, scoring=EvaluatorScorer(policy), n_splits=2
    )
    one = losses_of(clone(search).set_params(random_state=1).fit(logs))
    with parallel_config(backend="threading"):  # processes take seconds to start
        two = losses_of(clone(search).set_params(random_state=1, n_jobs=2).fit(logs))
    other = losses_of(clone(search).set_params(random_state=2).fit(logs))
    np.testing.assert_array_equal(one, two)
    assert not np.array_equal(one, other)


def test_share_of_candidates_without_variance_is_one_half():
    logs, _ = problem()
    same = logs.replace(reward=np.full(len(logs), 0.5))
    scorer = EvaluatorScorer(ConstantPolicy(0), DoublyRobust(reward_model=0.5))
    how = {"scoring": scorer, "n_splits": 2, "random_state": 0}
    search = OPESearchCV(DirectMethod(reward_model=0.5), [{}], **how).fit(same)
    assert search.cv_results_["train_share"].tolist() == [0.5]
    np.testing.assert_allclose(losses_of(search), 0, atol=1e-30)


@pytest.mark.filterwarnings("ignore::skope_ope.exceptions.OPEWarning")
def test_pipelines_and_policies_that_learn():
    logs, policy = problem()
    unknown = logs.replace(propensity=None, logging_proba=None)
    pipe = Pipeline([("p", PropensityEstimator(cv=2)), ("ev", IPS())])
    grid = {"ev": [IPS(), DoublyRobust(), DirectMethod()]}
    how = {"n_splits": 2, "random_state": 0, "error_score": "raise"}
    search = OPESearchCV(pipe, grid, scoring=EvaluatorScorer(policy), **how)
    assert np.isfinite(losses_of(search.fit(unknown))).all()
    logs, _ = problem(800, n_actions=2, logging_temperature=np.inf)
    evaluator = DRns(horizon=20, random_state=0)
    scorer = EvaluatorScorer(EpsilonGreedy())
    search = OPESearchCV(evaluator, {"q": [0.0, 0.1]}, scoring=scorer, **how).fit(logs)
    assert np.isfinite(losses_of(search)).all()
    assert (search.cv_results_["train_share"] > 0).all()


class Whole(IPS):
    """Notes how many rows of each group it is fitted to, and whether in order."""

    seen = ()

    def fit(self, logs, reward_model=None):
        x = logs.columns["row"]
        sizes = np.unique(logs.group, return_counts=True)[1]
        Whole.seen = (*Whole.seen, (set(sizes), len(sizes), (np.diff(x) > 0).all()))
        return super().fit(logs, reward_model)


def test_groups_stay_together():
    logs, policy = problem()
    logs = logs.replace(group=np.repeat(np.arange(30), 10))
    logs = logs.with_columns(row=np.arange(300))
    how = {"scoring": EvaluatorScorer(policy, Whole()), "n_splits": 3, "refit": False}
    search = OPESearchCV(Whole(), {"cmax": [1.0, None]}, error_score="raise", **how)
    search.fit(logs)
    sizes, numbers, ordered = zip(*Whole.seen, strict=True)
    assert set().union(*sizes) == {10} and all(ordered)
    assert min(numbers) < 30 and np.isfinite(search.best_score_)


@pytest.mark.parametrize("make", [SlopeSearch, OPESearchCV])
def test_bad_input_of_both_searches(make):
    logs, policy = problem()
    scorer, grid = EvaluatorScorer(policy), {"cmax": [1.0]}
    search = make(IPS(), grid, scoring=scorer)
    nope = make(IPS(), {"nope": [1]}, scoring=scorer)
    of_policies = make(policy, {"epsilon": [0.1]}, scoring=scorer)
    if make is OPESearchCV:
        of_policies.set_params(error_score="raise")
    for one, given, error, message in (
        (make(IPS(), grid), (logs,), TypeError, "needs scoring=EvaluatorScorer"),
        (make(IPS(), grid), (logs,), TypeError, "got NoneType: an evaluator's error"),
        (search, (logs.context,), TypeError, "searches on logs, got ndarray"),
        (search, (logs, Ridge()), TypeError, r"takes no y.*Got Ridge"),
        (nope, (logs,), ValueError, "Invalid parameter 'nope' for estimator IPS"),
        (of_policies, (logs,), TypeError, "scores evaluators, got the policy"),
    ):
        with pytest.raises(error, match=message):
            one.fit(*given)
    with pytest.raises(TypeError, match=r"best_estimator_\.score\(policy\)"):
        search.fit(logs).score(policy)


def test_bad_input():
    logs, policy = problem()
    one_group = logs.replace(group=np.zeros(len(logs)))
    how = {"scoring": EvaluatorScorer(policy), "n_splits": 2}
    search = OPESearchCV(IPS(), {"cmax": [1.0]}, **how)
    named = OPESearchCV(IPS(), {"cmax": [1.0]}, scoring="accuracy")
    for one, given, error, message in (
        (search, logs[:1], ValueError, "two rounds"),
        (search, one_group, ValueError, "two groups"),
        (OPESearchCV(IPS(), {"cmax": [-1]}, **how), logs, ValueError, "fits failed"),
        (named, logs, TypeError, r"got str.*PolicyScorer"),
    ):
        with pytest.raises(error, match=message):
            one.fit(given)


@pytest.mark.parametrize("search", [SlopeSearch, OPESearchCV])
def test_unfitted_and_repr(search):
    logs, policy = problem(20)
    one = search(IPS(), {"cmax": [1.0]}, scoring=EvaluatorScorer(policy))
    with pytest.raises(NotFittedError):
        one.score(logs)
    assert type(one).__name__ in repr(one)
    assert "EvaluatorScorer" in one._repr_html_()
    assert one.get_params()["estimator__cmax"] is None
