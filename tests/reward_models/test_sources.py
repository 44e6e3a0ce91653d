# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse
from sklearn.base import BaseEstimator, clone
from sklearn.cluster import KMeans
from sklearn.ensemble import IsolationForest
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import Ridge
from sklearn.mixture import GaussianMixture
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skope_ope import (
    IPS,
    ActionRewardModel,
    BanditLogs,
    CascadeDR,
    ClassifierPolicy,
    DirectMethod,
    DoublyRobust,
    DRPolicy,
    SlateDoublyRobust,
    UniformPolicy,
)
from skope_ope.__main__ import main
from skope_ope.datasets import make_slate_logs
from skope_ope.reward_models import AdditiveSlateModel
from tests.reward_models.test_cross_fit import fitted, predictions

N = 50
RNG = np.random.RandomState(0)
X = RNG.normal(size=(N, 2))
CODE = np.arange(N) % 3
REWARD = RNG.normal(size=N)
Q_HAT = RNG.normal(size=(N, 3))
U = UniformPolicy()


def logs_of(**fields):
    return BanditLogs(X, CODE, REWARD, np.full(N, 1 / 3), **fields)


@pytest.mark.parametrize("number", [0.5, 2, np.float32(0.25), -1.0])
def test_a_number(number):
    logs = logs_of()
    assert_allclose(predictions(fitted(number, logs), logs[:4]), number)
    score = clone(DoublyRobust(reward_model=number)).fit(logs).score(U)
    table = np.full((len(logs), 3), number, dtype=float)
    expected = DoublyRobust().fit(logs, table).score(U)
    assert score == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(
    "kind", ["array", "float32", "int", "pandas", "strided", "list"]
)
def test_an_array(kind):
    logs = logs_of()
    q_hat = Q_HAT.round() if kind == "int" else Q_HAT.astype(np.float32).astype(float)
    if kind == "pandas":
        given = pytest.importorskip("pandas").DataFrame(q_hat)
    else:
        given = {"list": q_hat.tolist(), "strided": np.asfortranarray(q_hat)}.get(kind)
        if given is None:
            given = q_hat.astype(float if kind == "array" else kind)
    source = fitted(given, logs)
    for same in (logs, logs.replace(group=CODE), logs[:]):
        assert_allclose(predictions(source, same), q_hat, atol=1e-11)


def test_an_array_belongs_to_the_rows_of_fit():
    logs = logs_of()
    source = fitted(Q_HAT, logs)
    for other in (logs[:20], logs[::-1], logs_of()):
        with pytest.raises(ValueError, match="cannot predict for other logs"):
            predictions(source, other)
    with pytest.raises(ValueError, match=r"logs\.with_columns\(q_hat=\.\.\.\)"):
        DoublyRobust(reward_model=Q_HAT).fit(logs).score(U, logs[:20])


def test_a_column_travels_with_the_rows():
    logs = logs_of().with_columns(q_hat=Q_HAT)
    source = fitted("q_hat", logs)
    rows = RNG.permutation(N)[:20]
    for some, expected in ((logs, Q_HAT), (logs[rows], Q_HAT[rows])):
        assert_allclose(predictions(source, some), expected, atol=1e-11)
    with pytest.raises(ValueError, match=r"'q_hat' is not a column of the logs"):
        predictions(source, logs_of())
    with pytest.raises(ValueError, match=r"'mu' is not a column .*\['q_hat'\]"):
        fitted("mu", logs)
    with pytest.raises(ValueError, match=r"reward_model 'x' must have shape \(50, 3\)"):
        fitted("x", logs.with_columns(x=Q_HAT[:, :2]))


def test_a_column_goes_through_a_search():
    logs = logs_of().with_columns(q_hat=Q_HAT)
    seen = []

    def scorer(evaluator, held_out, y=None):
        seen.append(len(held_out))
        return evaluator.score(U, held_out)

    evaluator, grid = DoublyRobust(reward_model="q_hat"), {"cmax": [1.0, 5.0]}
    best = GridSearchCV(evaluator, grid, scoring=scorer, cv=5).fit(logs).best_estimator_
    assert seen == [10] * 10
    by_hand = DoublyRobust(reward_model=Q_HAT, cmax=best.cmax).fit(logs)
    assert best.score(U) == by_hand.score(U)


# -- models fitted beforehand -------------------------------------------------------
class Multiple(BaseEstimator):
    """A model that predicts the reward of every action itself."""

    def fit(self, X, y=None):
        self.fitted_ = True
        return self

    def predict(self, X):
        return np.column_stack([X[:, 0], X[:, 1], X.sum(axis=1)])


FITTED = ActionRewardModel(Ridge()).fit(logs_of()[:25])
MULTIPLE, RIDGE = Multiple().fit(X), Ridge().fit(X, Q_HAT)
PREFIT = {
    "ActionRewardModel": FITTED,
    "own predict": MULTIPLE,
    "many outputs": RIDGE,
    "pipeline": make_pipeline(StandardScaler(), Ridge()).fit(X, Q_HAT),
}


@pytest.mark.parametrize("model", PREFIT.values(), ids=PREFIT.keys())
def test_fitted_models_are_used_as_they_are(model):
    logs, expected, frozen = logs_of(), model.predict(X), FrozenEstimator(model)
    for given, cv in ((frozen, 5), (frozen, "prefit"), (model, "prefit")):
        source = fitted(given, logs, cv)
        assert_allclose(predictions(source, logs), expected, atol=1e-11)
        assert_allclose(predictions(source, logs[10:30]), expected[10:30], atol=1e-11)
    by_array = DoublyRobust(reward_model=expected).fit(logs).score(U)
    for evaluator in (
        DoublyRobust(reward_model=frozen).fit(logs),
        clone(DoublyRobust(reward_model=frozen)).fit(logs),
        DoublyRobust(reward_model=model, cv="prefit").fit(logs),
        DoublyRobust().fit(logs, frozen),
    ):
        assert evaluator.score(U) == pytest.approx(by_array, rel=1e-12)


@pytest.mark.parametrize(
    ("model", "error", "message"),
    [
        (np.nan, ValueError, "must be a finite number, got nan"),
        (np.inf, ValueError, "must be a finite number, got inf"),
        (Q_HAT[:-1], ValueError, r"shape \(50, 3\).*got \(49, 3\)"),
        (sparse.csr_matrix(Q_HAT), (TypeError, ValueError), "reward_model"),
        (IPS(), (TypeError, ValueError), "model"),
        (ClassifierPolicy(), TypeError, "is the policy ClassifierPolicy"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_is_no_reward_model_is_refused(model, error, message):
    """What more there is stands in tests/test_bad_input.py."""
    with pytest.raises(error, match=message):
        DoublyRobust().fit(logs_of(), model)


@pytest.mark.parametrize(
    ("model", "kind"),
    [
        (KMeans(3), "clusterer KMeans"),
        (make_pipeline(StandardScaler(), KMeans(3)), "clusterer Pipeline"),
        (IsolationForest(), "outlier detector IsolationForest"),
        (GaussianMixture(2), "density estimator GaussianMixture"),
    ],
)
def test_what_predicts_no_rewards_is_refused(model, kind):
    message = f"is the {kind}, but a reward model predicts the reward of an action"
    slates = make_slate_logs(60, random_state=0)
    for fit in (
        lambda: DirectMethod(reward_model=model).fit(logs_of()),
        lambda: IPS().fit(logs_of(), model),
        lambda: ActionRewardModel(model).fit(logs_of()),
        lambda: DirectMethod(reward_model=ActionRewardModel(model)).fit(logs_of()),
        lambda: SlateDoublyRobust(reward_model=model).fit(slates),
        lambda: AdditiveSlateModel(model).fit(slates),
        lambda: CascadeDR(reward_model=model).fit(slates),
        lambda: DRPolicy(reward_model=model).fit(logs_of()),
    ):
        with pytest.raises(TypeError, match=message):
            fit()


def test_predictions_must_be_finite():
    for bad in (np.nan, np.inf):
        q_hat = Q_HAT.copy()
        q_hat[7, 1] = bad
        logs = logs_of().with_columns(q=q_hat)
        for model in (q_hat, "q"):
            with pytest.raises(ValueError, match=r"reward_model.* at row 7"):
                DoublyRobust(reward_model=model).fit(logs).score(U)


def test_a_model_may_be_given_to_fit():
    by_fit = DoublyRobust().fit(logs_of(), Ridge()).score(U)
    assert by_fit == DoublyRobust(reward_model=Ridge()).fit(logs_of()).score(U)
    assert IPS().fit(logs_of(), Ridge()).score(U) == IPS().fit(logs_of()).score(U)


def test_unfitted_models_are_no_fitted_ones():
    for model in (Ridge(), ActionRewardModel(Ridge())):
        with pytest.raises(NotFittedError):
            fitted(FrozenEstimator(model), logs_of())
        with pytest.raises(NotFittedError):
            fitted(model, logs_of(), "prefit")
    with pytest.raises(ValueError, match="cv='prefit' needs a fitted reward_model"):
        fitted(None, logs_of(), "prefit")
    evaluator = clone(DoublyRobust(reward_model=FITTED, cv="prefit"))
    with pytest.raises(NotFittedError):  # clone unfits what is not frozen
        evaluator.fit(logs_of())


def test_a_number_or_an_array_is_prefit_anyway():
    logs = logs_of()
    for model in (0.5, Q_HAT):
        found = predictions(fitted(model, logs, "prefit"), logs)
        assert_allclose(found, np.broadcast_to(model, (N, 3)), atol=1e-11)


# -- models that the command line names -----------------------------------------------
def named(tmp_path, capsys, name, gap=False, context="x"):
    """The exit code and what `skope-ope evaluate --reward-model` says."""
    rows = [f"{i % 2},{i % 3 % 2},0.5,{i % 5}" for i in range(40)]
    rows[0] = "0,0,0.5," if gap else rows[0]
    path = tmp_path / "log.csv"
    path.write_text("\n".join(["a,r,p,x", *rows, ""]))
    words = ["--action", "a", "--reward", "r", "--propensity", "p"]
    words += ["--context", context, "--policy", "uniform", "--reward-model", name]
    code = main(["evaluate", str(path), *words])
    return code, "".join(capsys.readouterr())


UNKNOWN = "'{}' is unknown: name none, ridge, log"


@pytest.mark.parametrize(
    ("name", "gap", "context", "message"),
    [
        *(
            (one, False, "x", None)
            for one in ["none", "ridge", "logistic", "hist", "0.5", "-1"]
        ),
        *(
            (one, False, "x", UNKNOWN.format(one))
            for one in ["forest", "1_0", "nan", "inf"]
        ),
        ("ridge", False, "", "the reward model 'ridge' needs features"),
        ("logistic", True, "x", None),
        ("none", False, "", None),
        ("hist", True, "x", None),
    ],
)
def test_what_named_models_need(tmp_path, capsys, name, gap, context, message):
    code, told = named(tmp_path, capsys, name, gap, context)
    assert code == (0 if message is None else 2)
    assert message is None or message in told
