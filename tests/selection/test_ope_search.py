# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import numpy as np
import pytest
from joblib import parallel_config
from sklearn.base import clone
from sklearn.linear_model import Ridge
from sklearn.model_selection import ShuffleSplit, cross_validate
from sklearn.pipeline import Pipeline

from skope_ope import (
    IPS,
    ConstantPolicy,
    DirectMethod,
    DoublyRobust,
    DRns,
    DRos,
    EpsilonGreedy,
    EvaluatorScorer,
    OPESearchCV,
    PropensityEstimator,
    in_order,
    one_standard_error,
)
from skope_ope.datasets import make_bandit_logs
from skope_ope.selection._ope_search import shares_of
from tests._worlds import d8_logs
from tests.selection._logs import losses_of, problem


def test_shares_and_losses_by_hand():
    logs = d8_logs()
    scorer = EvaluatorScorer("pi", IPS())
    search = OPESearchCV(
        IPS(), {"cmax": [None, 1.0]}, scoring=scorer, n_splits=3, random_state=0
    ).fit(logs)
    # standard errors on D8: .563275 unclipped, .150454 clipped at 1
    own, theirs = np.array([0.563275, 0.150454]) ** 2, 0.563275**2
    shares = own / (own + theirs)
    np.testing.assert_allclose(search.cv_results_["train_share"], shares, atol=1e-6)
    seed = np.random.RandomState(0).randint(2**31 - 1)
    w, r = np.minimum(logs.columns["pi"][range(8), logs.action], 1), logs.reward
    w = w / logs.propensity
    for k, (share, cmax) in enumerate(zip(shares, (np.inf, 1.0), strict=True)):
        size = max(round(share * 8), 1)
        splits = ShuffleSplit(
            3, train_size=size, test_size=8 - size, random_state=seed
        ).split(logs)
        for j, (train, test) in enumerate(splits):
            value = (np.minimum(w, cmax) * r)[train].mean()
            loss = (value - (w * r)[test].mean()) ** 2
            assert losses_of(search)[j, k] == pytest.approx(loss)
    assert search.best_index_ == one_standard_error(search.cv_results_)


@pytest.mark.thorough
def test_attributes_are_those_of_a_search():
    logs, policy = problem()
    scorer = EvaluatorScorer(policy)
    search = OPESearchCV(
        DRos(reward_model=Ridge(), cv=2),
        {"lam": [0.1, 100.0]},
        scoring=scorer,
        n_splits=3,
        random_state=0,
    ).fit(logs)
    results = search.cv_results_
    assert results["params"][search.best_index_] == search.best_params_
    assert results["param_lam"].tolist() == [0.1, 100.0]
    assert {"mean_fit_time", "std_test_score", "rank_test_score"} <= set(results)
    assert search.best_score_ == pytest.approx(
        results["mean_test_score"][search.best_index_]
    )
    assert search.best_estimator_.logs_ is logs
    assert search.n_splits_ == 3 and search.refit_time_ > 0
    assert search.score(logs[:100]) == scorer(search.best_estimator_, logs[:100])
    assert cross_validate(search, logs, cv=2)["test_score"].shape == (2,)
    again = clone(search)
    assert not hasattr(again, "best_estimator_")
    np.testing.assert_array_equal(losses_of(again.fit(logs)), losses_of(search))
    plain = clone(search).set_params(refit=True).fit(logs)
    assert plain.best_index_ == losses_of(plain).mean(axis=0).argmin()
    assert not hasattr(clone(search).set_params(refit=False).fit(logs), "refit_time_")


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
    search = OPESearchCV(
        DirectMethod(reward_model=0.5),
        [{}],
        scoring=EvaluatorScorer(ConstantPolicy(0), DoublyRobust(reward_model=0.5)),
        n_splits=2,
        random_state=0,
    ).fit(same)
    assert search.cv_results_["train_share"].tolist() == [0.5]
    np.testing.assert_allclose(losses_of(search), 0, atol=1e-30)


@pytest.mark.filterwarnings("ignore::skope_ope.exceptions.OPEWarning")
def test_pipelines_and_choice_of_evaluators():
    logs, policy = problem()
    unknown = logs.replace(propensity=None, logging_proba=None)
    pipe = Pipeline([("p", PropensityEstimator(cv=2)), ("ev", IPS())])
    search = OPESearchCV(
        pipe,
        {"ev": [IPS(), DoublyRobust(), DirectMethod()]},
        scoring=EvaluatorScorer(policy),
        n_splits=2,
        random_state=0,
        error_score="raise",
    ).fit(unknown)
    assert np.isfinite(losses_of(search)).all()


def test_groups_stay_together():
    logs, policy = problem()
    group = np.repeat(np.arange(30), 10)
    logs = logs.replace(group=group)
    for share, n_train in ((0.5, 15), (0.01, 1), (0.999, 29)):
        splits = list(shares_of(share, logs, 3, seed=0).split(logs))
        assert len(splits) == 3
        for train, test in splits:
            assert len(np.unique(group[train])) == n_train
            assert not np.intersect1d(group[train], group[test]).size
            np.testing.assert_array_equal(np.sort(train), train)
    search = OPESearchCV(
        DoublyRobust(),
        {"cmax": [1.0, None]},
        scoring=EvaluatorScorer(policy),
        n_splits=3,
        error_score="raise",
    ).fit(logs)
    assert np.isfinite(search.best_score_)


@pytest.mark.filterwarnings("ignore::skope_ope.exceptions.OPEWarning")
def test_policies_that_learn():
    logs = make_bandit_logs(
        800, n_actions=2, logging_temperature=np.inf, random_state=0
    )
    search = OPESearchCV(
        DRns(horizon=20, random_state=0),
        {"q": [0.0, 0.1]},
        scoring=EvaluatorScorer(EpsilonGreedy()),
        n_splits=2,
        random_state=0,
        error_score="raise",
    ).fit(logs)
    assert np.isfinite(losses_of(search)).all()
    assert (search.cv_results_["train_share"] > 0).all()
    assert repr(in_order(3)) == "in_order(KFold(n_splits=3, random_state=None, " + (
        "shuffle=False))"
    )


def test_bad_input():
    logs, policy = problem()
    scorer = EvaluatorScorer(policy)
    with pytest.raises(TypeError, match="needs scoring=EvaluatorScorer"):
        OPESearchCV(IPS(), {"cmax": [1.0]}).fit(logs)
    with pytest.raises(TypeError, match="searches on logs"):
        OPESearchCV(IPS(), {"cmax": [1.0]}, scoring=scorer).fit(logs.context)
    with pytest.raises(TypeError, match=r"takes no y.*Got Ridge"):
        OPESearchCV(IPS(), {"cmax": [1.0]}, scoring=scorer).fit(logs, Ridge())
    with pytest.raises(ValueError, match="two rounds"):
        OPESearchCV(IPS(), {"cmax": [1.0]}, scoring=scorer).fit(logs[:1])
    with pytest.raises(ValueError, match="two groups"):
        search = OPESearchCV(IPS(), {"cmax": [1.0]}, scoring=scorer)
        search.fit(logs.replace(group=np.zeros(len(logs))))
    with pytest.raises(ValueError, match="Invalid parameter 'nope' for estimator IPS"):
        OPESearchCV(IPS(), {"nope": [1.0]}, scoring=scorer).fit(logs)
    with pytest.raises(TypeError, match="scores evaluators, got the policy"):
        OPESearchCV(
            policy, {"epsilon": [0.1]}, scoring=scorer, error_score="raise"
        ).fit(logs)
    with pytest.raises(ValueError, match="fits failed"):
        OPESearchCV(IPS(), {"cmax": [-1.0]}, scoring=scorer, n_splits=2).fit(logs)
    with pytest.raises(TypeError, match=r"best_estimator_\.score\(policy\)"):
        OPESearchCV(IPS(), {"cmax": [1.0]}, scoring=scorer, n_splits=2).fit(logs).score(
            policy
        )
