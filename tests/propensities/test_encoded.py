# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import os
from contextlib import nullcontext
from datetime import datetime, timedelta
from pathlib import Path

import joblib
import numpy as np
import pytest
import sklearn
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import TransformedTargetRegressor, make_column_transformer
from sklearn.ensemble import (
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestRegressor,
)
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

from skope_ope import (
    ActionRewardModel,
    BanditLogs,
    ClassifierPolicy,
    ContextEncoder,
    DoublyRobust,
    DRns,
    DRPolicy,
    IPSPolicy,
    LinUCB,
    PropensityEstimator,
    RewardModelPolicy,
    SlateDirectMethod,
    SlateLogs,
    SoftmaxPolicy,
    UniformPolicy,
    UniformSlatePolicy,
    evaluate,
)
from skope_ope.exceptions import ModelErrorWarning, OPEWarning
from skope_ope.policies import EpochGreedy
from skope_ope.propensities import LoggerPropensityEstimator
from skope_ope.reward_models import AdditiveSlateModel
from tests._frames import LIBRARIES, frame_of

pytestmark = pytest.mark.frames

RNG = np.random.RandomState(0)
N = 240
CITY, ITEM = (RNG.choice(labels, N) for labels in (["ulm", "bonn"], list("abc")))
CLICK = (RNG.rand(N) < np.where((CITY == "ulm") == (ITEM == "a"), 0.8, 0.2)).astype(int)
AGE = [None if one < 20 else float(one) for one in RNG.randint(15, 80, N)]
WHEN = [datetime(2026, 1, 1) + timedelta(hours=7 * one) for one in range(N)]


def encoding_told(model):
    """A context in which one warning says that a model is behind an encoder."""
    said = f"{type(model).__name__} was fitted behind a ContextEncoder, because"
    return pytest.warns(OPEWarning, match=said)


def logs_in(library):
    """A log whose context has a text, a date, gaps and a truth."""
    member = (np.arange(N) % 2 == 0).tolist()
    columns = {"age": AGE, "city": CITY.tolist(), "when": WHEN, "member": member}
    return BanditLogs(frame_of(library, columns), ITEM, CLICK, 1 / 3)


@pytest.mark.few_cases
@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize(
    "model",
    [
        Ridge(),
        LogisticRegression(),
        HistGradientBoostingRegressor(max_iter=5),
        KNeighborsRegressor(3),
        GridSearchCV(Ridge(), {"alpha": [1, 10]}, cv=2),
        ActionRewardModel(Ridge(), encoding="one_hot"),
    ],
    ids=lambda model: type(model).__name__,
)
def test_reward_models_run_on_any_frame(library, model):
    with encoding_told(getattr(model, "model", model)) as told:
        table = evaluate(UniformPolicy(), logs_in(library), reward_model=model)
    assert len([one for one in told if "behind" in str(one.message)]) == 1
    assert np.isfinite(table["DoublyRobust"].value)


@pytest.mark.few_cases
@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize(
    "policy",
    [
        ClassifierPolicy(),
        ClassifierPolicy(LogisticRegression(max_iter=1000), epsilon=0.1),
        ClassifierPolicy(HistGradientBoostingClassifier(max_iter=3)),
        ClassifierPolicy(KNeighborsClassifier(), temperature=1.0),
        ClassifierPolicy(CalibratedClassifierCV(GaussianNB(), cv=2)),
        IPSPolicy(LogisticRegression(max_iter=1000)),
        DRPolicy(n_steps=1),
        DRPolicy(LogisticRegression(max_iter=1000), n_steps=1),
        SoftmaxPolicy(),
        RewardModelPolicy(Ridge()),
    ],
    ids=str,
)
def test_policies_run_on_any_frame(library, policy):
    logs = logs_in(library)
    given = policy.get_params(deep=False)
    model = given.get("classifier", given.get("reward_model"))
    with nullcontext() if model is None else encoding_told(model):
        policy.fit(logs[: N // 2])
    test = logs[N // 2 :]
    assert -1 < DoublyRobust().fit(test).score(policy) < 2
    proba = policy.predict_proba(test[:3].context)
    assert_allclose(proba, policy.predict_proba(test.context)[:3])


def test_texts_are_learned_from():
    logs, logistic = logs_in("pandas"), LogisticRegression(max_iter=1000)
    with encoding_told(logistic):
        policy = ClassifierPolicy(logistic).fit(logs)
    chosen = policy.predict(logs.context)
    assert (chosen[CITY == "ulm"] == "a").mean() > 0.7
    assert (chosen[CITY == "bonn"] == "a").mean() < 0.3
    again = make_pipeline(ContextEncoder(sparse_output="auto"), logistic)
    by_hand = ClassifierPolicy(again).fit(logs).predict_proba(logs.context)
    assert_array_equal(policy.predict_proba(logs.context), by_hand)
    with encoding_told(logistic):
        direct = ClassifierPolicy(logistic).fit(logs.context, ITEM)
    assert direct.n_features_in_ == 4


@pytest.mark.thorough
def test_a_policy_that_learns_while_it_acts():
    logs = logs_in("pandas")
    policy = EpochGreedy(Ridge(), random_state=0)
    with encoding_told(Ridge()):
        assert np.isfinite(DRns(horizon=10).fit(logs).score(policy))


def test_linucb_takes_a_fitted_encoder():
    logs = logs_in("pandas")
    past, logs = logs[: N // 2], logs[N // 2 :]
    encoder = ContextEncoder().fit(past.context)
    policy = LinUCB(features=FrozenEstimator(encoder))
    found = DRns(horizon=10).fit(logs).evaluate(policy)
    X = encoder.transform(logs.context).toarray()
    by_hand = BanditLogs(X, logs.action, logs.reward, logs.propensity)
    assert found.value == DRns(horizon=10).fit(by_hand).score(LinUCB())
    acting = policy.fit(logs)
    acting.update(logs[:1].context, 0, 1.0, 1.0)
    assert acting.coef_.shape == (3, X.shape[1])
    assert acting.predict(logs.context).shape == (N - N // 2,)
    with pytest.raises(TypeError, match=r"LinUCB\(features=FrozenEstimator"):
        LinUCB().fit(logs).predict(logs.context)
    with pytest.raises(NotFittedError, match="features of LinUCB must be fitted"):
        LinUCB(features=ContextEncoder()).fit(logs)


# -- gaps that a part of the log does not have ----------------------------------------
def with_one_gap(library="pandas", row=3, value=np.nan):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(RNG.rand(N, 2), columns=["x", "h"])
    if isinstance(value, str):
        frame["x"] = frame["x"].round(2).astype(str)
    frame.loc[row, "x"] = value
    if library == "polars":
        frame = pytest.importorskip("polars").from_pandas(frame)
    return BanditLogs(frame, ITEM, CLICK, 1 / 3)


def types_of(models):
    return {type(one).__name__ for model in models for one in model.models_}


@pytest.mark.few_cases
@pytest.mark.parametrize("library", ["pandas", "polars"])
@pytest.mark.parametrize("value", [np.nan, "B7"])
@pytest.mark.parametrize("encoding", ["per_action", "one_hot", "column"])
def test_a_gap_of_one_row(library, value, encoding):
    logs = with_one_gap(library, value=value)
    model = ActionRewardModel(Ridge(), encoding=encoding)
    with encoding_told(Ridge()):
        evaluator = DoublyRobust(reward_model=model).fit(logs)
    assert 0 < evaluator.score(UniformPolicy()) < 1
    assert types_of(evaluator.reward_model_.models_.values()) == {"Pipeline"}


def test_models_that_take_gaps_are_left_alone():
    tree, forest = HistGradientBoostingRegressor(max_iter=3), RandomForestRegressor(3)
    for model in (tree, forest):
        evaluator = DoublyRobust(reward_model=model).fit(with_one_gap())
        assert np.isfinite(evaluator.score(UniformPolicy()))
        models = types_of(evaluator.reward_model_.models_.values())
        assert models == {type(model).__name__}


@pytest.mark.thorough
@pytest.mark.parametrize("package", ["lightgbm", "xgboost", "catboost"])
def test_other_libraries_take_gaps_and_no_texts(package):
    module = pytest.importorskip(package)
    name = {"lightgbm": "LGBM", "xgboost": "XGB", "catboost": "CatBoost"}[package]
    few = {"verbose": False, "allow_writing_files": False, "iterations": 3}
    if package != "catboost":
        few = {"n_estimators": 3, "verbosity": -1 if package == "lightgbm" else 0}
    model = getattr(module, f"{name}Regressor")(**few)
    evaluator = DoublyRobust(reward_model=model).fit(with_one_gap())
    assert np.isfinite(evaluator.score(UniformPolicy()))
    models = types_of(evaluator.reward_model_.models_.values())
    assert models == {f"{name}Regressor"}
    with encoding_told(model):
        evaluator = DoublyRobust(reward_model=model).fit(logs_in("pandas"))
    assert 0 < evaluator.score(UniformPolicy()) < 1


def test_policies_with_a_gap_that_they_do_not_learn_from():
    row = int(np.flatnonzero(CLICK == 0)[0])  # no policy learns from it
    logs = with_one_gap(row=row)
    policy = ClassifierPolicy(LogisticRegression())
    with encoding_told(LogisticRegression()):
        proba = policy.fit(logs).predict_proba(logs.context)
    assert_allclose(proba.sum(axis=1), 1)
    assert isinstance(policy.classifier_[0], ContextEncoder)
    with encoding_told(LogisticRegression()):
        estimated = PropensityEstimator(LogisticRegression()).fit_transform(logs)
    assert np.isfinite(estimated.propensity).all()


def test_gaps_of_one_logger_and_later_ones():
    logs = with_one_gap()
    policy = ClassifierPolicy(LogisticRegression()).fit(logs[10:])
    assert type(policy.classifier_) is LogisticRegression
    soft = ClassifierPolicy(LogisticRegression(), temperature=1.0).fit(logs[10:])
    for ask in (policy.predict, soft.predict_proba):
        with pytest.raises(ValueError, match="contains NaN") as info:
            ask(logs.context)
        [note] = info.value.__notes__
        assert "Fit it in a Pipeline that fills them: make_pipeline(Context" in note
    # a gap of one logger
    logger = np.repeat(["old", "new"], N // 2)
    logs = BanditLogs(logs.context, ITEM, CLICK, logger=logger)
    with encoding_told(LogisticRegression()) as told:
        step = LoggerPropensityEstimator(LogisticRegression()).fit(logs)
    assert len(told) == 1  # of two loggers and their folds
    assert np.isfinite(step.transform(logs).logger_proba).all()
    for one in step.estimators_.values():
        assert isinstance(one.classifier_[0], ContextEncoder)
        assert not hasattr(one, "odd")


@pytest.mark.parametrize("model", [Ridge(), AdditiveSlateModel(Ridge())], ids=str)
def test_a_gap_of_one_page(model):
    context = with_one_gap().context
    slate = np.array([RNG.permutation(4)[:2] for _ in range(N)])
    logging = UniformSlatePolicy(2)
    logs = SlateLogs(context, slate, CLICK, n_candidates=4, logging_policy=logging)
    with encoding_told(Ridge()):
        evaluator = SlateDirectMethod(reward_model=model, cv=2).fit(logs)
    with pytest.warns(ModelErrorWarning, match="leaves out the error of the reward"):
        assert 0 < evaluator.score(logging) < 1
    for fitted in evaluator.reward_model_.models_.values():
        assert isinstance(fitted.model_[0], ContextEncoder)


def test_when_the_encoder_is_of_no_help():
    """A gap of a round that is not learned from would call for an encoder."""
    logs = with_one_gap(row=int(np.flatnonzero(CLICK == 0)[0]))

    class Raises(LogisticRegression):
        error = ValueError("never")

        def predict(self, X):
            raise self.error

    class Warns(Raises):
        error = UserWarning("of these rows")

    for model in (Raises(), Warns(), HistGradientBoostingClassifier(max_iter=3)):
        policy = ClassifierPolicy(model).fit(logs)  # warnings are errors
        assert type(policy.classifier_) is type(model)


# -- what is left alone ---------------------------------------------------------------
def fitted(context, model, reward=CLICK):
    """What a model of all rounds became."""
    n = len(reward)
    logs = BanditLogs(context, np.zeros(n), reward, np.ones(n))
    return ActionRewardModel(model).fit(logs).models_[0]


def test_what_works_and_other_errors_stay():
    X = logs_in("pandas").context
    with pytest.raises(ValueError, match="'alpha' parameter of Ridge"):
        fitted(X, Ridge(alpha=-1))
    pandas = pytest.importorskip("pandas")
    lists = pandas.DataFrame({"x": [[1], [2]]})
    with pytest.raises(TypeError, match="'x' of the context holds values") as info:
        fitted(lists, Ridge(), [0, 1])
    assert isinstance(info.value.__cause__, (TypeError, ValueError))
    # what works stays as it is
    numbers = pandas.DataFrame({"x": RNG.rand(N), "z": RNG.rand(N) < 0.5})
    categories = numbers.assign(city=pandas.Categorical(CITY))
    for X, model in (
        (numbers, Ridge()),
        (numbers.to_numpy(dtype=float), Ridge()),
        (categories, HistGradientBoostingRegressor(max_iter=3)),
    ):
        assert type(fitted(X, model)) is type(model)

    # a warning that is an error is no refusal
    class Fails(Ridge):
        def fit(self, X, y):
            raise UserWarning("no number, did not convert")

    with pytest.raises(UserWarning, match="did not convert"):
        fitted(logs_in("pandas").context, Fails())


def typo(X):
    return X[["age"]].fillnaa(0)


def wrong_value(X):
    raise ValueError("an age of 200")


AGE_FIRST = make_column_transformer(("passthrough", ["age"]), remainder="passthrough")


class OutOfMemory(Ridge):
    def fit(self, X, y, sample_weight=None):
        raise MemoryError("Unable to allocate 9 TiB for an array with data type float")


class Misspelt(Ridge):
    def fit(self, X, y, sample_weight=None):
        return self.fitt(X, y)


@pytest.mark.parametrize(
    "model, error",
    [
        (make_pipeline(FunctionTransformer(typo), Ridge()), AttributeError),
        (make_pipeline(FunctionTransformer(wrong_value), Ridge()), ValueError),
        (make_pipeline(StandardScaler(), Ridge()), ValueError),
        (make_pipeline(AGE_FIRST, Ridge()), ValueError),
        (GridSearchCV(make_pipeline(AGE_FIRST, Ridge()), {}), ValueError),
        (TransformedTargetRegressor(Ridge(), transformer=StandardScaler()), ValueError),
        (OutOfMemory(), MemoryError),
        (Misspelt(), AttributeError),
        (Ridge(alpha=-1), ValueError),
    ],
)
def test_no_other_model_stands_in_for_one_that_failed(model, error):
    logs = logs_in("pandas")
    for ask in (
        lambda: DoublyRobust(reward_model=model).fit(logs).score(UniformPolicy()),
        lambda: evaluate(UniformPolicy(), logs, reward_model=model),
        lambda: RewardModelPolicy(model).fit(logs),
    ):
        with pytest.raises(error):
            ask()


@pytest.mark.parametrize("backend", [None, "threading", "loky"])
def test_a_call_warns_once(backend):
    logs, policy = logs_in("pandas"), UniformPolicy()
    engine = nullcontext() if backend is None else joblib.parallel_config(backend)
    jobs = None if backend is None else 2
    with engine, encoding_told(Ridge()) as told:
        table = evaluate(policy, logs, reward_model=Ridge(), cv=2, n_jobs=jobs)
    assert (len(told) == 1 and backend) or told[0].filename == __file__
    assert "(ValueError: could not convert string to float: " in str(told[0].message)
    assert told[0].message.name == "encoded_model"
    # as the warning says; Ridge has a solver for sparse matrices and one for others
    auto = "auto" if Ridge().__sklearn_tags__().input_tags.sparse else False
    model = make_pipeline(ContextEncoder(sparse_output=auto), Ridge())
    by_hand = evaluate(policy, logs, reward_model=model, cv=2)
    assert by_hand["DoublyRobust"].value == table["DoublyRobust"].value
    with encoding_told(Ridge()) as told:  # and so does the next call
        DoublyRobust(reward_model=Ridge()).fit(logs)
    assert len(told) == 1


def test_policies_say_whether_they_take_gaps():
    bare = LogisticRegression()  # is put behind an encoder, a Pipeline is not
    pairs = (None, True), (bare, True), (make_pipeline(StandardScaler(), bare), False)
    for classifier, allows in pairs:
        tags = ClassifierPolicy(classifier).__sklearn_tags__()
        assert tags.input_tags.allow_nan is allows


# -- the default classifier -----------------------------------------------------------
@pytest.mark.parametrize("output", ["default", "pandas"])
def test_the_default_takes_contexts_of_every_kind(output):
    with sklearn.config_context(transform_output=output):
        dense = RNG.rand(N, 3) * [1, 1e4, 1e-3]
        model = ClassifierPolicy().fit(dense, ITEM).classifier_
        assert isinstance(model[0].transform(dense), np.ndarray)
        thin = sparse.random(N, 50, 0.05, format="csr", random_state=0)
        model = ClassifierPolicy().fit(thin, ITEM).classifier_
        assert sparse.issparse(model[0].transform(thin))


DATA = Path(os.environ.get("SKOPE_OPE_DATA", "")) / "hillstrom_email_part1.csv.gz"


@pytest.mark.skipif(
    not DATA.is_file(), reason="SKOPE_OPE_DATA names no folder with Hillstrom's log"
)
def test_defaults_converge_on_a_real_log():
    frame = pytest.importorskip("pandas").read_csv(DATA).head(20_000)
    columns = ["recency", "history", "mens", "womens", "newbie"]
    roles = {"action": "segment", "reward": "visit"}
    for context in (columns, [*columns, "zip_code", "channel"]):
        logs = BanditLogs.from_frame(frame, **roles, context=context)
        estimated = PropensityEstimator().fit_transform(logs)  # warnings are errors
        assert_allclose(estimated.propensity.mean(), 1 / 3, rtol=0.01)
        ClassifierPolicy().fit(logs)
        SoftmaxPolicy().fit(estimated)
