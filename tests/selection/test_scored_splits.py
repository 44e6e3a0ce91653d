# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""What the candidates of OPESearchCV share, and that nothing else changes by it."""

import pickle

import joblib
import numpy as np
import pytest
from joblib import parallel_config
from sklearn.base import clone
from sklearn.exceptions import FitFailedWarning
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import Lasso, LogisticRegression, Ridge
from sklearn.model_selection import (
    GridSearchCV,
    GroupKFold,
    KFold,
    ParameterGrid,
    ShuffleSplit,
    cross_validate,
)
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler

from skope_ope import (
    IPS,
    MRDR,
    ActionRewardModel,
    ClassifierPolicy,
    ConstantPolicy,
    DirectMethod,
    DoublyRobust,
    DRns,
    DRos,
    EpsilonGreedy,
    EvaluatorScorer,
    IPSPolicy,
    MultiLoggerDR,
    OPESearchCV,
    PolicyScorer,
    PropensityClipper,
    PropensityEstimator,
    RejectionSampling,
    SlateDirectMethod,
    SlateDoublyRobust,
    SubGaussianDR,
    SwitchDR,
    UniformPolicy,
    in_order,
    one_standard_error,
)
from skope_ope.datasets import make_slate_logs
from skope_ope.exceptions import OPEWarning
from tests.selection._logs import losses_of, problem

ignore = pytest.mark.filterwarnings("ignore::skope_ope.exceptions.OPEWarning")


class CountingRidge(Ridge):
    """Counts its fits, in a file: workers are other processes."""

    def __init__(self, alpha=1.0, path=None):
        super().__init__(alpha)
        self.path = path

    def fit(self, X, y, sample_weight=None):
        with open(self.path, "a") as file:
            file.write(f"{self.alpha} {len(y)}\n")
        return super().fit(X, y, sample_weight)


def count(path):
    found = len(path.read_text().splitlines()) if path.exists() else 0
    path.unlink(missing_ok=True)
    return found


# -- how often models are fitted ------------------------------------------------------
@pytest.mark.few_cases(1)
@pytest.mark.parametrize("backend", [None, "loky", "threading"])
def test_every_distinct_model_is_fitted_once_a_fold(tmp_path, backend):
    logs, policy = problem(n_actions=3)
    path = tmp_path / "fits"
    models = [CountingRidge(a, str(path)) for a in (1, 2)]
    grid = {"lam": [1, 10, 100], "reward_model": models}
    scorer = EvaluatorScorer(policy, DoublyRobust(reward_model=0.5))
    how = {"scoring": scorer, "cv": 3, "refit": False}
    search = OPESearchCV(DRos(cv=2), grid, n_jobs=2 if backend else None, **how)
    with parallel_config(backend or "loky"):
        search.fit(logs)
    assert count(path) == 3 * 2 * 2 * 3  # folds, models, inner folds, actions
    plain = GridSearchCV(DRos(cv=2), grid, **how).fit(logs)
    assert count(path) == 3 * 6 * 2 * 3  # scikit-learn's own shares nothing
    np.testing.assert_allclose(losses_of(search), losses_of(plain), rtol=1e-12)


def test_models_that_differ_in_anything_unknown_are_fitted_anew(tmp_path):
    logs, policy = problem(n_actions=3)
    path = tmp_path / "fits"

    class Widened(DoublyRobust):
        """A parameter of which nothing is known."""

        def __init__(self, *, reward_model=None, cmax=None, cv=5, width=1.0):
            super().__init__(reward_model=reward_model, cmax=cmax, cv=cv)
            self.width = width

    evaluator = Widened(reward_model=CountingRidge(1.0, str(path)), cv=2)
    grid = {"cmax": [None, 1.0], "width": [1.0, 2.0]}
    search = OPESearchCV(evaluator, grid, scoring=EvaluatorScorer(policy), cv=3)
    search.set_params(refit=False).fit(logs)
    assert count(path) == 3 * 2 * 2 * 3  # one per width


def assert_same(estimator, grid, scorer, logs, rtol=1e-12, cv=3):
    """Assert that both searches find the same losses, which are returned."""
    how = {"scoring": scorer, "cv": cv, "error_score": "raise", "refit": False}
    found, plain = (
        losses_of(search(estimator, grid, **how).fit(logs))
        for search in (OPESearchCV, GridSearchCV)
    )
    np.testing.assert_allclose(found, plain, rtol=rtol)
    return found


def test_steps_in_front_are_fitted_once_for_a_model():
    logs, policy = problem()
    fits = []

    class Counting(PropensityEstimator):
        def fit_transform(self, logs, y=None):
            fits.append(1)
            return super().fit_transform(logs, y)

    unknown = logs.replace(propensity=None, logging_proba=None)
    pipe = Pipeline([("p", Counting(cv=2)), ("ev", DRos(cv=2))])
    grid = {"ev__lam": [1.0, 10.0, 100.0]}
    assert_same(pipe, grid, EvaluatorScorer(policy), unknown)
    assert len(fits) == 3 + 3 * 3  # scikit-learn's own shares nothing


class CountingPolicy(ConstantPolicy):
    calls = 0

    def predict_proba(self, X, available=None):
        type(self).calls += 1
        return super().predict_proba(X, available)


def test_one_table_of_probabilities_and_one_validator_per_part():
    logs, _ = problem()
    policy = CountingPolicy(logs.actions[0]).fit(logs)
    CountingPolicy.calls = 0
    grid = {"lam": [1, 10, 100], "cv": [2, 3]}
    OPESearchCV(DRos(), grid, scoring=EvaluatorScorer(policy), cv=3).fit(logs)
    assert CountingPolicy.calls == 3 * 2


# -- the same results as without ------------------------------------------------------
SHUFFLED = ShuffleSplit(2, train_size=0.5, random_state=0)
INNER = {"scoring": EvaluatorScorer(UniformPolicy()), "cv": 2}
EVERY = {"ev": [IPS(), DirectMethod(), DoublyRobust(), MRDR()]}
SEARCHED = {
    "static": (DRos(reward_model=Ridge(), cv=2), {"lam": [1.0, 100.0]}),
    "sequential": (
        DRns(random_state=0, cv=2),
        {"q": [0.05, 0.5], "reward_model": [Ridge(), LogisticRegression()]},
    ),
    "no model": (IPS(), {"cmax": [None, 1.0, 0.5]}),
    "pipeline": (
        Pipeline([("clip", PropensityClipper()), ("ev", SwitchDR(cv=2))]),
        {"ev__tau": [1.0, 10.0], "clip__low": [0.0, 0.3]},
    ),
    "choice of evaluators": (Pipeline([("ev", IPS())]), EVERY),
    "pipeline in the model": (
        DoublyRobust(reward_model=make_pipeline(StandardScaler(), Ridge()), cv=2),
        {"reward_model__ridge__alpha": [0.1, 10.0], "cmax": [None, 1.0]},
    ),
    "search inside": (
        OPESearchCV(DRos(), {"lam": [1.0, 9.0]}, **INNER),
        {"estimator__cv": [2, 3]},
    ),
}


# Whether there are jobs does not matter to a splitter: each meets one of the two.
@pytest.mark.few_cases(4)
@ignore
@pytest.mark.parametrize("name", SEARCHED)
@pytest.mark.parametrize(
    ("cv", "n_jobs"),
    [(3, 2), (SHUFFLED, None)],
    ids=["3, jobs", "shuffled"],
)
def test_results_are_those_of_scikit_learn(name, cv, n_jobs):
    logs, policy = problem()
    how = {"scoring": EvaluatorScorer(policy), "refit": True, "cv": cv}
    plain = GridSearchCV(*SEARCHED[name], error_score="raise", **how).fit(logs)
    search = OPESearchCV(*SEARCHED[name], error_score="raise", n_jobs=n_jobs, **how)
    with parallel_config("threading"):
        found = search.fit(logs)
    assert np.isfinite(losses_of(found)).all()
    np.testing.assert_allclose(losses_of(found), losses_of(plain), rtol=1e-10)
    assert found.best_params_ == plain.best_params_
    assert set(found.cv_results_) == set(plain.cv_results_)
    for key, expected in plain.cv_results_.items():
        if "time" in key or key == "params":
            continue
        assert found.cv_results_[key].dtype == expected.dtype, key
        if not key.startswith("param_"):
            np.testing.assert_allclose(found.cv_results_[key], expected)
    if name != "search inside":
        value = plain.best_estimator_.score(policy)
        assert found.best_estimator_.score(policy) == value
        assert np.isfinite(value)


@pytest.mark.thorough
def test_slates():
    drawn = {"logging": "uniform", "random_state": 0}
    logs, policy, _ = make_slate_logs(100, return_truth=True, **drawn)
    grid, scorer = {"cmax": [None, 1.0]}, EvaluatorScorer(policy)
    assert_same(SlateDoublyRobust(), grid, scorer, logs, rtol=1e-10)


@ignore
def test_policies_that_learn():
    logs, _ = problem(900, n_actions=2, logging_temperature=np.inf)
    cv, learner = in_order(SHUFFLED), EpsilonGreedy()
    walk, by_walk = DRns(horizon=20, random_state=0), RejectionSampling(horizon=20)
    for estimator, grid, scorer in (
        (walk, {"q": [0.0, 0.2]}, EvaluatorScorer(learner)),
        (learner, {"epsilon": [0.1, 0.5]}, PolicyScorer(by_walk)),
    ):
        found = assert_same(estimator, grid, scorer, logs, rtol=0, cv=cv)
        assert np.isfinite(found).all()


@pytest.mark.few_cases(1)
@ignore
@pytest.mark.parametrize(
    "evaluator", [IPS(), DirectMethod(), DRns(), MRDR(), DoublyRobust(cmax="auto")]
)
def test_policies_share_the_evaluator_that_values_them(evaluator):
    logs, _ = problem()
    grid = {"policy__epsilon": [0.0, 0.5], "clip__low": [0.0, 0.1]}
    pipe = Pipeline([("clip", PropensityClipper()), ("policy", ClassifierPolicy())])
    assert_same(pipe, grid, PolicyScorer(evaluator), logs)


@pytest.mark.thorough
@ignore
def test_missing_propensities_are_estimated_by_the_steps_of_each_candidate():
    logs, policy = problem()
    unknown = logs.replace(propensity=None, logging_proba=None)
    scorers = {IPS(): EvaluatorScorer(policy), IPSPolicy(): PolicyScorer(IPS())}
    for last, scorer in scorers.items():
        pipe = Pipeline([("p", PropensityEstimator()), ("last", last)])
        found = assert_same(pipe, {"p__cv": [2, 3]}, scorer, unknown)
        assert np.diff(found).any()


def value_of_uniform(estimator, logs):
    return estimator.score(UniformPolicy(), logs)


@pytest.mark.parametrize("n_jobs", [None, 2])
def test_any_callable_scores(n_jobs):
    logs, _ = problem()
    grid = {"lam": [1.0, 100.0]}
    found, plain = (
        search(DRos(), grid, scoring=value_of_uniform, cv=3, refit=True).fit(logs)
        for search in (OPESearchCV, GridSearchCV)
    )
    np.testing.assert_allclose(losses_of(found), losses_of(plain), rtol=1e-12)
    assert found.score(logs) == value_of_uniform(found.best_estimator_, logs)
    assert OPESearchCV(IPS(), {}, scoring=value_of_uniform).fit(logs).n_splits_ == 5


# -- nothing is left behind -----------------------------------------------------------
@ignore
def test_a_search_leaves_logs_scorer_and_estimator_as_they_were():
    logs, policy = problem()
    scorer = EvaluatorScorer(policy, DoublyRobust())
    estimator = DRns(random_state=0, cv=2, reward_model=Ridge())
    search = OPESearchCV(estimator, {"q": [0.0, 0.1]}, scoring=scorer, cv=3)
    before = [joblib.hash(one) for one in (logs, scorer, estimator)]
    pickled, attributes = pickle.dumps(logs), dict(vars(scorer))
    search.fit(logs)
    assert [joblib.hash(one) for one in (logs, scorer, estimator)] == before
    assert pickle.dumps(logs) == pickled and vars(scorer) == attributes
    best = search.best_estimator_
    alone = clone(estimator).set_params(**search.best_params_).fit(logs)
    assert vars(best).keys() == vars(alone).keys()
    assert type(best.reward_model_) is type(alone.reward_model_)
    rows = np.arange(40)
    assert logs[rows] is not logs[rows]


# -- failures, choices, messages ------------------------------------------------------
def test_errors_of_a_candidate_follow_error_score():
    logs, policy = problem()
    grid = {"cmax": [None, -1.0]}
    search = OPESearchCV(
        DoublyRobust(), grid, scoring=EvaluatorScorer(policy), cv=3, error_score=-7.0
    )
    with pytest.warns(FitFailedWarning, match=r"3 fits failed out of a total of 6.*-7"):
        scores = -losses_of(search.fit(logs))
    assert (scores[:, 1] == -7).all() and (scores[:, 0] > -7).all()
    first = search.set_params(param_grid={"cmax": [-1.0, None]})  # fails before others
    with pytest.warns(FitFailedWarning):
        np.testing.assert_array_equal(-losses_of(first.fit(logs)), scores[:, ::-1])
    with pytest.warns(FitFailedWarning):
        search.set_params(error_score=np.nan, refit=True).fit(logs)
    assert search.best_index_ == 1
    assert search.cv_results_["rank_test_score"].tolist() == [2, 1]
    with pytest.raises(ValueError, match="'cmax' parameter of DoublyRobust"):
        search.set_params(error_score="raise").fit(logs)
    with pytest.raises(ValueError, match=r"all 3 fits failed(.|\n)*'cmax' parameter"):
        search.set_params(error_score=0.0, param_grid={"cmax": [-1.0]}).fit(logs)


def test_errors_of_scoring_follow_error_score():
    logs, policy = problem()
    how = {"scoring": EvaluatorScorer("pi"), "cv": 3, "refit": True}
    search = OPESearchCV(IPS(), {"cmax": [None]}, **how)
    with (
        pytest.warns(OPEWarning, match=r"3 of 3 scores failed and are nan(.|\n)*'pi'"),
        pytest.raises(ValueError, match=r"none of 1 .* split 0: ValueError: .*'pi'"),
    ):
        search.fit(logs)
    with pytest.raises(ValueError, match="'pi' is not a column"):
        search.set_params(error_score="raise").fit(logs)
    search.set_params(estimator=policy, param_grid={"epsilon": [0.1]})
    with pytest.raises(TypeError, match="scores evaluators, got the policy"):
        search.fit(logs)


def last(results):
    return len(results["params"]) - 1


def test_refit():
    logs, policy = problem()
    scorer, grid = EvaluatorScorer(policy), {"lam": [1.0, 10.0, 100.0]}
    search = OPESearchCV(DRos(), grid, scoring=scorer, cv=4).fit(logs)
    assert search.best_index_ == one_standard_error(search.cv_results_)
    assert search.n_splits_ == 4 and search.refit_time_ > 0
    assert search.score(logs[:100]) == scorer(search.best_estimator_, logs[:100])
    assert cross_validate(search, logs, cv=2)["test_score"].shape == (2,)
    assert search.set_params(refit=last).fit(logs).best_index_ == 2
    assert search.best_score_ == search.cv_results_["mean_test_score"][2]
    assert search.best_estimator_.lam == 100.0 and search.best_estimator_.logs_ is logs
    search.set_params(refit=True).fit(logs)
    assert search.best_index_ == search.cv_results_["mean_test_score"].argmax()
    without = clone(search).set_params(refit=False).fit(logs)
    assert without.best_params_ == search.best_params_
    assert not hasattr(without, "best_estimator_")
    assert not hasattr(without, "refit_time_")
    with pytest.raises(TypeError, match="index of a candidate, got str"):
        search.set_params(refit=lambda results: "first").fit(logs)
    with pytest.raises(IndexError, match="one of 3 candidates, got 3"):
        search.set_params(refit=lambda results: 3).fit(logs)


def test_folds():
    logs, policy = problem()
    scorer = EvaluatorScorer(policy)
    search = OPESearchCV(IPS(), {"cmax": [None, 1.0]}, scoring=scorer, cv=3)
    grouped = logs.replace(group=np.arange(len(logs)) // 10)
    by_group = list(GroupKFold(3).split(logs, groups=grouped.group))
    expected = losses_of(clone(search).set_params(cv=by_group).fit(grouped))
    np.testing.assert_array_equal(losses_of(search.fit(grouped)), expected)
    by_row = list(KFold(3).split(logs))
    split = losses_of(clone(search).set_params(cv=by_row).fit(grouped))
    assert not np.array_equal(split, expected)
    generator = KFold(3).split(logs)
    found = clone(search).set_params(cv=list(generator)).fit(logs)
    np.testing.assert_array_equal(losses_of(found), losses_of(search.fit(logs)))
    for cv, message in (
        ([(np.arange(9), np.arange(5, 20))], "row 5 into the training and the test"),
        ([(np.arange(9), [])], "no test round in fold 0"),
        ([], "no test round"),
    ):
        with pytest.raises(ValueError, match=message):
            search.set_params(cv=cv).fit(logs)


def test_it_tells_what_it_does(capsys):
    logs, policy = problem()
    grid, scorer = {"lam": [1.0, 2.0], "cv": [2, 3]}, EvaluatorScorer(policy)
    OPESearchCV(DRos(), grid, scoring=scorer, cv=3, verbose=2).fit(logs)
    told = capsys.readouterr().out.splitlines()
    assert told[0] == (
        "Fitting 2 distinct models of 4 candidates on each of 3 splits, 6 fits in all"
    )
    assert len(told) == 1 + 4 * 3 and told[1].startswith("[split 0] cv=2, lam=1.0: sc")


# -- models kept on disk --------------------------------------------------------------
@pytest.mark.few_cases(1)
@pytest.mark.parametrize("encoding", ["per_action", "one_hot"])
def test_a_memory_shares_fits_between_searches(tmp_path, encoding):
    logs, policy = problem(n_actions=3)
    path, folder = tmp_path / "fits", tmp_path / "models"
    model = CountingRidge(1.0, str(path))
    scorer = EvaluatorScorer(policy, IPS())

    def losses(memory):
        model_of_all = ActionRewardModel(model, encoding, memory=memory)
        estimator = DRos(reward_model=model_of_all, cv=3)
        search = GridSearchCV(estimator, {"lam": [1, 10]}, scoring=scorer, cv=3)
        return losses_of(search.set_params(refit=False).fit(logs))

    n_models = 3 if encoding == "per_action" else 1
    expected = losses(None)
    assert count(path) == 2 * 3 * 3 * n_models
    for memory in (folder, str(folder), joblib.Memory(str(folder), verbose=0)):
        np.testing.assert_array_equal(losses(memory), expected)
        # once in all: three folds, three inner ones
        assert count(path) == (3 * 3 * n_models if memory is folder else 0)


# -- what tells models apart ----------------------------------------------------------
FROZEN = Ridge().fit([[0.0], [1.0]], [0.0, 1.0])


class FirstScoreError(Exception):
    """All that was asked has been told."""


def stop(estimator, logs):
    raise FirstScoreError


def in_pipe(last):
    return Pipeline([("ev", last)])


def clipped(name):
    return Pipeline([(name, PropensityClipper()), ("ev", DRos())])


RIDGES = [DRos(reward_model=Ridge(a), lam=b) for a in (1, 2) for b in (1, 2)]


@pytest.mark.parametrize(
    ("n_models", "estimator", "grid"),
    [
        (1, DRns(), {"q": [0, 0.1], "cmax": [1.0, 2.0], "random_state": [0, 1]}),
        (2, DRns(), {"q": [0, 0.1], "cv": [2, 3]}),
        (1, SwitchDR(), {"tau": [1.0, 2.0]}),
        (1, SubGaussianDR(), {"lam": [0.1, 0.2]}),
        (1, MultiLoggerDR(), {"pooling": ["naive", "balanced"]}),
        (1, SlateDoublyRobust(), {"cmax": [None, 1.0]}),
        (1, SlateDirectMethod(), {"n_samples": [1, 2], "random_state": [0, 1]}),
        (1, IPS(), {"cmax": [None, 1.0]}),
        (2, MRDR(), {"cv": [2, 3]}),
        (2, DirectMethod(reward_model=Ridge()), {"reward_model__alpha": [1, 2]}),
        (1, in_pipe(DRos()), {"ev__lam": [1, 2]}),
        (2, clipped("clip"), {"ev__lam": [1, 2], "clip__low": [0, 0.1]}),
        # of another step, and of the model: they only bear the same names
        (2, clipped("lam"), {"lam__low": [0, 1]}),
        (2, DRns(reward_model=DRos()), {"reward_model__lam": [1, 2]}),
        (4, DRns(), {"reward_model": [0, 0.0, False, "0"]}),
        (1, in_pipe(IPS()), {"ev": [DRos(), DRos()], "ev__lam": [1, 2]}),
        # all of one class, or of classes that fit their model alike
        (1, in_pipe(IPS()), {"ev": [DRos(), DoublyRobust(), SwitchDR()]}),
        (4, in_pipe(IPS()), {"ev": [DRos(), DRns(), MRDR(), IPS()]}),
        (2, in_pipe(IPS()), {"ev": [DRos(cv=2), DoublyRobust(cv=3)]}),
        (2, in_pipe(IPS()), {"ev": RIDGES}),
        (2, in_pipe(RIDGES[0]), {"ev__reward_model__alpha": [1, 2], "ev__lam": [1, 2]}),
        (3, DRos(), {"reward_model": [Ridge(), Ridge(1.0), Ridge(2), Lasso()]}),
        (2, DRos(), {"reward_model": [FrozenEstimator(FROZEN) for _ in range(2)]}),
        (2, ClassifierPolicy(), {"epsilon": [0, 0.1]}),
    ],
)
def test_what_tells_models_apart(n_models, estimator, grid, capsys):
    n_candidates = len(ParameterGrid(grid))
    search = OPESearchCV(estimator, grid, scoring=stop, cv=2, verbose=1)
    # the numbers are told before the first fit, which some candidates refuse
    with pytest.raises((FirstScoreError, AttributeError, TypeError, ValueError)):
        search.set_params(error_score="raise").fit(problem(20)[0])
    told = f"Fitting {n_models} distinct models of {n_candidates} candidates"
    assert told in capsys.readouterr().out


def test_ranks_of_scores_that_are_missing():
    scores = {1.0: 0.5, 2.0: np.nan, 3.0: 0.7, 4.0: 0.5, 5.0: np.nan, 6.0: -np.inf}
    grid, how = {"cmax": list(scores)}, {"cv": 2, "refit": True}
    search = OPESearchCV(IPS(), grid, scoring=lambda one, logs: scores[one.cmax], **how)
    search.fit(problem(20)[0])
    assert search.cv_results_["rank_test_score"].tolist() == [2, 4, 1, 2, 4, 4]
    assert search.best_index_ == 2
