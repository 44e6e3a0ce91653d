# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause


import numpy as np
import pytest
from scipy.stats import t
from sklearn.base import clone
from sklearn.linear_model import Ridge
from sklearn.model_selection import cross_validate
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from skope_ope import (
    IPS,
    SNIPS,
    UCB1,
    BanditLogs,
    DirectMethod,
    DoublyRobust,
    DRns,
    DRos,
    EpsilonGreedy,
    EvaluatorScorer,
    PolicyScorer,
    SlopeSearch,
)
from skope_ope.exceptions import OPEWarning
from tests._worlds import d8_logs
from tests.selection._logs import problem

PATH = {"cmax": [4.0, 3.0, 2.0, 1.0, 0.5]}
SCORING = EvaluatorScorer("pi")


def test_vectors_of_d8():
    logs = d8_logs()
    for method in ("slope", "slope++"):
        wide = SlopeSearch(IPS(), PATH, scoring=SCORING, method=method, width=1.0)
        narrow = clone(wide).set_params(width=0.35)
        assert wide.fit(logs).best_params_ == {"cmax": 0.5}
        assert narrow.fit(logs).best_params_ == {"cmax": 2.0}
    values, widths = (wide.cv_results_[name] for name in ("value", "width"))
    np.testing.assert_allclose(values, [0.9625, 0.8375, 0.5875, 0.3375, 0.2125])
    expected = [0.563275, 0.473732, 0.311036, 0.150454, 0.075313]
    np.testing.assert_allclose(widths, expected, atol=1e-6)
    assert narrow.cv_results_["agrees"].tolist() == [True, True, True, False, False]
    assert narrow.cv_results_["rank_test_score"].tolist() == [3, 2, 1, 4, 4]


def slope_by_pairs(values, widths):
    chosen = 0
    for i in range(len(values)):
        width = [max(widths[k:]) for k in range(len(values))]
        pairs = ((j, k) for j in range(i + 1) for k in range(j))
        gaps = (abs(values[j] - values[k]) / (width[j] + width[k]) for j, k in pairs)
        if max(gaps, default=0) > 2:
            break
        chosen = i
    return chosen


def slope_plus_plus_by_pairs(values, widths):
    for i in range(len(values)):
        for j in range(i):
            if abs(values[i] - values[j]) > widths[i] + (6**0.5 - 1) * widths[j]:
                return i - 1
    return len(values) - 1


@pytest.mark.filterwarnings("ignore::skope_ope.exceptions.OPEWarning")
@pytest.mark.parametrize(
    ("method", "by_pairs"),
    [("slope", slope_by_pairs), ("slope++", slope_plus_plus_by_pairs)],
)
def test_against_loops(method, by_pairs):
    chosen = set()
    for seed in range(15):
        rng = np.random.RandomState(seed)
        p = np.where(rng.random_sample(60) < 0.1, 0.05, 0.5)
        action = np.arange(60) % 2
        logs = BanditLogs(np.zeros((60, 1)), action, rng.normal(size=60), p)
        logs = logs.with_columns(pi=np.tile([0.5, 0.5], (60, 1)))
        path = {"cmax": [30.0, 10.0, 4.0, 2.0, 0.8, 0.3]}
        search = SlopeSearch(IPS(), path, scoring=SCORING, method=method, width=0.4)
        found = search.set_params(refit=False).fit(logs)
        results = found.cv_results_
        assert found.best_index_ == by_pairs(results["value"], results["width"])
        chosen.add(found.best_index_)
    assert len(chosen) > 2


def test_widths():
    logs = d8_logs()
    errors = SlopeSearch(IPS(), PATH, scoring=SCORING).fit(logs).cv_results_
    np.testing.assert_array_equal(errors["width"], errors["standard_error"])
    plus = SlopeSearch(IPS(), PATH, scoring=SCORING, method="slope++").fit(logs)
    wanted = t.ppf(0.9, 7) * errors["standard_error"]
    np.testing.assert_allclose(plus.cv_results_["width"], wanted)


def test_attributes_are_those_of_a_search():
    logs, policy = problem()
    scorer = EvaluatorScorer(policy)
    path = {"lam": [float("inf"), 100.0, 1.0, 0.01]}
    search = SlopeSearch(DRos(reward_model=Ridge(), cv=2), path, scoring=scorer)
    assert search.fit(logs) is search
    check_is_fitted(search)
    results = search.cv_results_
    assert results["params"][search.best_index_] == search.best_params_
    assert results["param_lam"].tolist() == path["lam"]
    assert search.best_score_ == results["mean_test_score"][search.best_index_]
    assert search.best_score_ == results["mean_test_score"].max()
    assert results["rank_test_score"][search.best_index_] == 1
    assert np.array_equal(search.best_estimator_.logs_.reward, logs.reward)
    assert search.best_estimator_.lam == search.best_params_["lam"]
    assert search.n_splits_ == 1 and search.refit_time_ > 0
    assert search.scorer_ is scorer
    assert search.score(logs[:100]) == scorer(search.best_estimator_, logs[:100])
    assert cross_validate(search, logs, cv=2)["test_score"].shape == (2,)
    assert clone(search).get_params()["scoring"] is not None
    assert not hasattr(clone(search), "best_estimator_")
    assert not hasattr(clone(search).set_params(refit=False).fit(logs), "refit_time_")


class CountingRidge(Ridge):
    """Counts its fits."""

    n_fits = 0

    def fit(self, X, y, sample_weight=None):
        CountingRidge.n_fits += 1
        return super().fit(X, y, sample_weight)


def test_candidates_share_the_fits_of_a_reward_model():
    logs, policy = problem(n_actions=3)
    CountingRidge.n_fits = 0
    evaluator = DoublyRobust(reward_model=CountingRidge(), cv=2)
    grid, scorer = {"cmax": [None, 2.0, 1.0]}, EvaluatorScorer(policy)
    search = SlopeSearch(evaluator, grid, scoring=scorer).fit(logs)
    assert CountingRidge.n_fits == 3 * 2
    fresh = clone(search.best_estimator_).fit(logs).evaluate(policy)
    assert search.best_estimator_.score(policy) == fresh.value
    assert search.cv_results_["value"][search.best_index_] == fresh.value
    # rows that were seen in fit are predicted out of fold in whatever object they come
    assert search.best_estimator_.score(policy, logs=logs) == fresh.value


def test_path_of_different_evaluators():
    logs, policy = problem()
    path = [{"ev": [DoublyRobust()]}, {"ev": [DRos()], "ev__lam": [1.0, 0.1]}]
    pipe, scorer = Pipeline([("ev", IPS())]), EvaluatorScorer(policy)
    search = SlopeSearch(pipe, path, scoring=scorer).fit(logs)
    assert search.cv_results_["param_ev__lam"].mask.tolist() == [True, False, False]
    path.append({"ev": [DirectMethod()]})
    assert len(search.set_params(param_grid=path).fit(logs).cv_results_["value"]) == 4


def test_order_is_checked():
    logs = d8_logs()
    backwards = {"cmax": PATH["cmax"][::-1]}
    with pytest.raises(ValueError, match=r"rise from 0\.07531 at .*0\.5.*Reverse"):
        SlopeSearch(IPS(), backwards, scoring=SCORING).fit(logs)
    plus = SlopeSearch(IPS(), backwards, scoring=SCORING, method="slope++", width=0.35)
    assert plus.fit(logs).best_params_ == {"cmax": 2.0}
    mixed = {"cmax": [4.0, 2.0, 3.0, 1.0, 0.5]}
    with pytest.warns(OPEWarning, match="a narrower interval than a later") as caught:
        SlopeSearch(IPS(), mixed, scoring=SCORING).fit(logs)
    assert caught[0].message.value == 1


def two_arms(seed=2, n_rounds=4000):
    """A rare arm is the better one, which a policy that learns would take."""
    rng = np.random.RandomState(seed)
    rare = rng.random_sample(n_rounds) < 0.1
    reward = rng.random_sample(n_rounds) < np.where(rare, 0.8, 0.2)
    p = np.where(rare, 0.1, 0.9)
    return BanditLogs(np.zeros((n_rounds, 1)), rare.astype(int), reward * 1.0, p)


def test_a_history_that_keeps_much_out_is_not_chosen():
    # q = .5 was: .789 +- .040 beside .620 +- .047, with 88% of the policy kept out
    logs, policy = two_arms(), UCB1()
    evaluator = DRns(horizon=20, random_state=0, reward_model=0.0, normalize=True)
    grid = {"q": [0.0, 0.01, 0.05, 0.2, 0.5]}
    search = SlopeSearch(evaluator, grid, scoring=EvaluatorScorer(policy))
    with pytest.warns(OPEWarning, match="2 of 5 candidates have a large bias mass"):
        search.fit(logs)
    assert search.best_params_ == {"q": 0.05}
    results = search.cv_results_
    assert results["bias_alarm"].tolist() == [False, False, False, True, True]
    assert results["agrees"].tolist() == [True, True, True, False, False]
    assert results["rank_test_score"].tolist() == [1, 1, 1, 4, 4]
    grid = {"q": [0.2, 0.5]}
    with pytest.raises(ValueError, match=r"all 2 candidates have a large bias .* q,"):
        search.set_params(param_grid=grid).fit(logs)


def test_where_no_acceptance_biases_nothing_is_left_out():
    """The same bias mass; but R / C of a policy that does not learn allows for it."""
    logs = two_arms()
    logs = logs.with_columns(pi=np.full((len(logs), 2), [0.1, 0.9]))
    evaluator = DRns(random_state=0, reward_model=0.0)
    search = SlopeSearch(evaluator, {"q": [0.05, 0.5]}, scoring=EvaluatorScorer("pi"))
    results = search.fit(logs).cv_results_
    assert not results["bias_alarm"].any()
    biased = evaluator.set_params(q=0.5).fit(logs).evaluate("pi")
    assert biased.bias_mass > 0.5


@pytest.mark.filterwarnings("ignore::skope_ope.exceptions.OPEWarning")
def test_the_reason_is_told_where_there_is_no_value():
    logs = d8_logs().with_columns(never=np.tile([0.0, 0.0, 1.0], (8, 1)))
    never = logs[logs.action_index != 2]
    search = SlopeSearch(IPS(), PATH, scoring=EvaluatorScorer("never"))
    with pytest.raises(ValueError, match=r"5 of 5 candidates have no value.*NaN"):
        search.set_params(estimator=SNIPS()).fit(never)


@pytest.mark.filterwarnings("ignore::skope_ope.exceptions.OPEWarning")
def test_bad_input():
    logs, policy = problem()
    scorer, learner = EvaluatorScorer(policy), EvaluatorScorer(EpsilonGreedy())
    qs, horizons = {"q": [0.0, 0.1]}, {"horizon": [10, 20]}
    needs = "needs scoring=EvaluatorScorer"
    none_left = "2 of 2 candidates have no value or no stand"
    for evaluator, path, scoring, error, message in (
        *((IPS(), PATH, one, TypeError, needs) for one in (policy, "accuracy")),
        (IPS(), PATH, PolicyScorer(IPS()), TypeError, "Search policies with OPESearc"),
        (IPS(), [], scorer, ValueError, "param_grid is empty"),
        (DRns(), qs, learner, ValueError, "DRns has no horizon"),
        (DRns(), horizons, learner, ValueError, r"have the horizons \[10, 20\]"),
        (DRns(horizon=200), qs, learner, ValueError, none_left),
    ):
        with pytest.raises(error, match=message):
            SlopeSearch(evaluator, path, scoring=scoring).fit(logs)
    with pytest.raises(ValueError, match="'method' parameter of SlopeSearch"):
        SlopeSearch(IPS(), PATH, scoring=scorer, method="lepski").fit(logs)
