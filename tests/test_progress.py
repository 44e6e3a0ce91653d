# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Callbacks of scikit-learn (1.9 and later) hear how far our fits are."""

import pickle
import warnings
from importlib.util import find_spec

import joblib
import numpy as np
import pytest
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import Ridge, SGDRegressor
from sklearn.model_selection import GridSearchCV, cross_validate
from sklearn.pipeline import make_pipeline

import skope_ope as ope
from skope_ope.datasets import make_bandit_logs, make_slate_logs
from skope_ope.reward_models import AdditiveSlateModel
from tests import test_common
from tests.test_persistence import ESTIMATORS, logs_for

pytestmark = pytest.mark.filterwarnings("ignore::skope_ope.exceptions.OPEWarning")
LOGS = make_bandit_logs(300, random_state=0)
POLICY = ope.UniformPolicy().fit(LOGS)
CONTEXT = [f"context_{k}" for k in range(LOGS.n_features)]
FOLDS = [(1, "reward model", 0)] * 5
RIDGE, SCORER = ope.DoublyRobust(reward_model=Ridge()), ope.EvaluatorScorer(POLICY)


class Recorder:
    """Keep (depth, name, number of subtasks) of every task that begins."""

    max_propagation_depth = 1

    def __init__(self):
        self.began, self.open, self.calls = [], [], []

    def setup(self, estimator, context):
        self.calls.append("setup")

    def teardown(self, estimator, context):
        self.calls.append("teardown")

    def on_fit_task_begin(self, estimator, context, *, X):
        assert X is not None or context.estimator_name == "GridSearchCV"
        depth, above = 0, context.parent
        while above is not None:
            depth, above = depth + 1, above.parent
        self.began.append((depth, context.task_name, context.max_subtasks))
        self.open.append((depth, context.task_name))

    def on_fit_task_end(self, estimator, context):
        assert self.open.pop()[1] == context.task_name

    def names(self):
        return [name for _, name, _ in self.began]


class Unfit(Ridge):
    def fit(self, X, y, sample_weight=None):
        raise ArithmeticError("of the model")


@pytest.fixture
def recorder():
    pytest.importorskip("sklearn.callback")
    return Recorder()


def lazy_of(folder, n_parts):
    pytest.importorskip("pyarrow")
    frame = LOGS.to_frame()
    for k in range(n_parts):
        frame.iloc[k::n_parts].to_parquet(folder / f"{k}.parquet")
    roles = {name: name for name in ("action", "reward", "propensity")}
    return ope.scan_logs(folder, **roles, context=CONTEXT, actions=LOGS.actions)


@pytest.fixture(scope="module")
def lazy(tmp_path_factory):
    return lazy_of(tmp_path_factory.mktemp("four"), 4)


def fitted(estimator, recorder, logs=LOGS):
    """Fit with a recorder; all that it was told of must have ended."""
    out = estimator.set_callbacks(recorder).fit(logs)
    assert out is estimator
    assert recorder.calls == ["setup", "teardown"]
    assert recorder.open == []
    return out


def test_without_callbacks_of_scikit_learn_nothing_is_there():
    there = find_spec("sklearn.callback") is not None
    assert hasattr(ope.IPS(), "set_callbacks") == there


@pytest.mark.parametrize("n_jobs", [None, 2])
@pytest.mark.parametrize("evaluator", [ope.DoublyRobust, ope.DRns])
def test_every_fold_is_a_subtask(recorder, evaluator, n_jobs):
    with joblib.parallel_config(n_jobs=n_jobs):
        fitted(evaluator(reward_model=Ridge()), recorder)
    assert recorder.began == [(0, "fit", 5), *FOLDS]


def test_fits_of_slates_refits_and_many_parts(recorder, tmp_path):
    fitted(ope.AdaptiveDR(reward_model=Ridge(), n_refits=4), recorder)
    assert recorder.began == [(0, "fit", 4), *FOLDS[:4]]
    logs, model = make_slate_logs(200, random_state=0), AdditiveSlateModel(Ridge())
    recorder.began, recorder.calls = [], []
    fitted(ope.SlateDoublyRobust(reward_model=model), recorder, logs)
    assert recorder.began == [(0, "fit", 5), *FOLDS]
    recorder.calls = []
    fitted(ope.DoublyRobust(), recorder, lazy_of(tmp_path, 40))  # many parts, few tasks
    assert recorder.names().count("partial sum") == 16


FROZEN = FrozenEstimator(ope.ActionRewardModel(Ridge()).fit(LOGS))


@pytest.mark.parametrize(
    "evaluator",
    [
        *(ope.IPS(), ope.ExplorationScavenging(), ope.DoublyRobust()),
        *(ope.DoublyRobust(reward_model=0.5), ope.DoublyRobust(reward_model=FROZEN)),
    ],
)
def test_what_fits_no_model_has_no_subtasks(recorder, evaluator):
    fitted(evaluator, recorder)
    assert recorder.began == [(0, "fit", 0)]


@pytest.mark.parametrize("n_jobs", [None, 2])
@pytest.mark.parametrize(
    ("model", "name", "n"), [(Ridge(), "reward model", 5), (None, "partial sum", 4)]
)
def test_lazy_logs_tell_of_folds_and_sums(recorder, lazy, model, name, n, n_jobs):
    with joblib.parallel_config(n_jobs=n_jobs):
        fitted(ope.DoublyRobust(reward_model=model), recorder, lazy)
    assert recorder.began == [(0, "fit", 2), (1, f"{name}s", n), *[(2, name, 0)] * n]


@pytest.mark.parametrize(
    ("n_jobs", "told"), [(None, "partition"), (2, "share of reward model")]
)
def test_models_that_learn_part_by_part_tell_of_it(
    recorder, lazy, monkeypatch, n_jobs, told
):
    monkeypatch.setattr("skope_ope.reward_models._part_models.N_SAMPLE", 10)
    model = SGDRegressor(random_state=0)
    with joblib.parallel_config(n_jobs=n_jobs):
        one = fitted(ope.DoublyRobust(reward_model=model), recorder, lazy)
        other = ope.DoublyRobust(reward_model=model).fit(lazy)
    names = recorder.names()
    assert names.count("partial sum") == 4
    assert names.count(told) == (4 if n_jobs is None else 2)
    assert one.score(POLICY) == other.score(POLICY)


def test_searches_and_cross_validation_pass_callbacks_on(recorder):
    search = GridSearchCV(RIDGE, {"cv": [2, 3]}, scoring=SCORER, cv=2)
    fitted(search, recorder)
    names = recorder.names()
    assert names.count("reward model") == 2 * (2 + 3) + search.best_params_["cv"]
    assert max(depth for depth, _, _ in recorder.began) == 3
    recorder.began, recorder.calls = [], []
    evaluator = clone(RIDGE).set_callbacks(recorder)
    found = cross_validate(evaluator, LOGS, scoring=SCORER, cv=3)
    assert np.isfinite(found["test_score"]).all()
    assert recorder.calls == ["setup", "teardown"] * 3
    assert recorder.began == [(0, "fit", 5), *FOLDS] * 3


@pytest.mark.parametrize(
    ("n_jobs", "name", "n"), [(None, "split", 3), (2, "model on a split", 6)]
)
def test_a_search_tells_of_its_tasks(recorder, n_jobs, name, n):
    grid = {"cv": [2, 3], "cmax": [1.0, 2.0]}
    search = ope.OPESearchCV(RIDGE, grid, scoring=SCORER, cv=3, n_jobs=n_jobs)
    fitted(search, recorder)
    refit = [(1, "fit", n_folds := search.best_params_["cv"])]
    refit += [(2, "reward model", 0)] * n_folds
    assert recorder.began == [(0, "fit", n + 1), *[(1, name, 0)] * n, *refit]
    assert_no_context(search)
    assert_no_context(search.best_estimator_)


@pytest.mark.parametrize(
    ("search", "name"),
    [
        (ope.OPESearchCV(ope.IPS(), {"cmax": [1.0]}, cv=3, refit=False), "split"),
        (ope.SlopeSearch(ope.IPS(), {"cmax": [4.0, 2.0, 1.0]}), "candidate"),
    ],
)
def test_a_search_without_refit_and_one_by_intervals(recorder, search, name):
    fitted(clone(search).set_params(scoring=SCORER), recorder)
    assert recorder.began == [(0, "fit", 3), *[(1, name, 0)] * 3]


@pytest.mark.parametrize("n_jobs", [None, 2])
def test_a_fit_that_raises_tears_callbacks_down(recorder, n_jobs):
    unfit, policy = ope.DoublyRobust(reward_model=Unfit()), ope.ConstantPolicy(9)
    how = {"scoring": SCORER, "error_score": "raise", "cv": 3}
    search = ope.OPESearchCV(unfit, {"cmax": [1.0]}, **how)
    for one, error in (search, ArithmeticError), (policy, ValueError):
        with pytest.raises(error):
            one.set_callbacks(recorder).fit(LOGS)
        assert recorder.calls == ["setup", "teardown"]
        assert_no_context(one)
        recorder.calls = []
    evaluator = clone(unfit).set_callbacks(recorder)
    with joblib.parallel_config(n_jobs=n_jobs), pytest.raises(ArithmeticError):
        evaluator.fit(LOGS)
    assert recorder.calls == ["setup", "teardown"]
    assert_no_context(evaluator)
    evaluator.set_params(reward_model=Ridge()).fit(LOGS)
    assert recorder.calls == ["setup", "teardown"] * 2


def assert_no_context(evaluator):
    """No attribute, and nothing that is reached by pickling, is of a fit's course."""
    assert not {name for name in vars(evaluator) if "ctx" in name or "down" in name}
    assert b"CallbackContext" not in pickle.dumps(evaluator)


def test_nothing_of_the_course_is_kept(recorder):
    evaluator = fitted(ope.DoublyRobust(reward_model=Ridge()), recorder)
    plain = ope.DoublyRobust(reward_model=Ridge()).fit(LOGS)
    assert_no_context(evaluator)
    assert set(vars(evaluator)) - set(vars(plain)) == {"_skl_callbacks"}
    assert evaluator.score(POLICY) == plain.score(POLICY)
    assert_no_context(clone(evaluator))
    again = pickle.loads(pickle.dumps(evaluator.set_callbacks()))
    assert set(vars(again)) == set(vars(plain))


def test_progress_bar(capsys):
    pytest.importorskip("sklearn.callback")
    pytest.importorskip("rich")
    from sklearn.callback import ProgressBar

    ope.DoublyRobust(reward_model=Ridge()).set_callbacks(ProgressBar()).fit(LOGS)
    assert "100%" in capsys.readouterr().out


# -- policies, models and steps -------------------------------------------------------
@pytest.mark.parametrize("estimator", ESTIMATORS, ids=test_common.without_addresses)
def test_every_fit_begins_and_ends(recorder, estimator):
    one = clone(estimator)
    fitted(one, recorder, logs_for(one))
    began = recorder.began
    assert began[0][:2] == (0, "fit")
    n_steps = None if getattr(one, "_has_steps", False) else 0
    assert began[0][2] == n_steps or hasattr(one, "evaluate")
    assert_no_context(one)


class TwoFits(ope.ConstantPolicy):
    """A user's policy, whose fit is that of its parent and more."""

    def fit(self, X, y=None):
        super().fit(X, y)
        warnings.warn("of my own", UserWarning, stacklevel=2)
        return self


def test_policies_of_users_tell_too(recorder):
    with pytest.warns(UserWarning, match="of my own"):
        fitted(TwoFits(0), recorder)
    assert recorder.began == [(0, "fit", 0)]
    with pytest.warns(UserWarning, match="of my own"):
        TwoFits(0).set_callbacks(recorder).fit(X=LOGS)
    assert recorder.began == [(0, "fit", 0)] * 2
    policy = TwoFits(0)  # without callbacks a fit is the method itself
    assert policy.fit.__func__ is TwoFits.fit
    with pytest.warns(UserWarning, match="of my own") as caught:
        policy.fit(LOGS)
    assert caught[0].filename == __file__


@pytest.mark.parametrize(
    ("estimator", "names"),
    [
        (ope.PropensityEstimator(cv=3), ["propensity model"] * 3),
        (ope.ActionRewardModel(Ridge()), ["model of an action"] * 3),
        (ope.ActionRewardModel(Ridge(), encoding="one_hot"), []),
        (ope.RewardModelPolicy(Ridge()), ["fit", *["model of an action"] * 3]),
        (ope.MixturePolicy([POLICY, POLICY], [0.5, 0.5]), ["fit", "fit"]),
    ],
)
def test_steps(recorder, estimator, names):
    fitted(estimator, recorder)
    assert recorder.names() == ["fit", *names]


def test_every_iteration_is_a_step(recorder):
    policy = fitted(ope.SoftmaxPolicy(), recorder)
    assert recorder.names() == ["fit", *["iteration"] * policy.n_iter_]
    logs = make_slate_logs(200, random_state=0)
    recorder.began, recorder.calls = [], []
    model = fitted(AdditiveSlateModel(Ridge()), recorder, logs)
    assert recorder.names() == ["fit", *["iteration"] * model.n_iter_]


@pytest.mark.few_cases(2)
@pytest.mark.parametrize(
    "policy",
    [
        *(ope.UniformPolicy(), ope.ClassifierPolicy(), ope.IPSPolicy()),
        ope.SoftmaxPolicy(),
        ope.RewardModelPolicy(Ridge()),
        make_pipeline(ope.PropensityEstimator(cv=2), ope.ClassifierPolicy()),
    ],
    ids=repr,
)
def test_a_search_over_policies_shows_its_steps(recorder, policy, capsys):
    pytest.importorskip("rich")
    from sklearn.callback import ProgressBar

    # warnings are errors: scikit-learn warns of what takes no callbacks
    search = GridSearchCV(policy, {}, scoring=ope.PolicyScorer(ope.IPS()), cv=2)
    search.set_callbacks(ProgressBar(max_propagation_depth=None)).fit(LOGS)
    assert "GridSearchCV - fit" in capsys.readouterr().out
    fitted(search.set_callbacks(), recorder)
    assert recorder.names().count("fit") >= 4
    assert_no_context(search.best_estimator_)
