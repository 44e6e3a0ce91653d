# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause


import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skope_ope import ActionRewardModel, BanditLogs, DoublyRobust
from skope_ope.datasets import make_bandit_logs
from tests._frames import LIBRARIES, every_library, frame_of

X = np.array([[0.5, 1.5], [2.5, 3.5], [4.5, 5.5]])
FEATURES = np.array([[10.0, 20.0], [30.0, 40.0], [50.0, 60.0]])
BY_ROUND = np.arange(18.0).reshape(3, 3, 2)
CODES = np.array([2, 0, 1])


class Seen(RegressorMixin, BaseEstimator):
    """Keeps what it is fitted to."""

    def fit(self, X, y):
        self.X_ = X
        return self

    def predict(self, X):
        return np.zeros(X.shape[0])


def design(logs, encoding):
    """What one model for all actions is fitted to."""
    model = ActionRewardModel(Seen(), encoding).fit(logs)
    assert not model.predict_logs(logs).any()
    return model.models_[0].X_


def logs_of(context=X, **fields):
    return BanditLogs(context, ["c", "a", "b"], np.ones(3), **fields)


def context_of(library, names=("u", "v")):
    return frame_of(library, {name: X[:, j] for j, name in enumerate(names)})


def column_of(frame, name):
    return np.asarray(frame[name]).tolist()


def test_indicators_follow_the_given_order():
    logs = logs_of(actions=["z", "b", "a", "c"])
    out = design(logs, "one_hot")
    assert_array_equal(out[:, 2:], [[0, 0, 0, 1], [0, 0, 1, 0], [0, 1, 0, 0]])


def test_labels_keep_their_type_in_frames():
    frame = context_of("pandas")
    for labels in ([7, 8, 9], [0.5, 1.5, 2.5], [True, False, True]):
        logs = BanditLogs(frame, labels, np.ones(3))
        out = design(logs, "column")
        assert out["action"].tolist() == labels
        assert out["action"].dtype == logs.actions.dtype
    frame.index = [5, 5, 0]  # rows stay together
    out = design(logs_of(frame), "column")
    assert out["action"].tolist() == ["c", "a", "b"]
    assert out.index.tolist() == [5, 5, 0]


@every_library
def test_a_context_column_of_that_name_is_refused(library):
    for names, encoding, message in (
        (("action", "v"), "column", r"already has a column 'action'.*Rename"),
        (("u", "action_context_1"), "action_context", "a column 'action_context_1'"),
        (("action = b", "v"), "one_hot", "already has a column 'action = b'"),
    ):
        logs = logs_of(context_of(library, names), action_context=FEATURES)
        with pytest.raises(ValueError, match=message):
            design(logs, encoding)


def test_what_encodings_need():
    with pytest.raises(ValueError, match=r"needs logs with action_context.*one_hot"):
        design(logs_of(), "action_context")
    with pytest.raises(ValueError, match=r"context is ndarray\. Use encoding='one_h"):
        design(logs_of(), "column")


# -- indicators, whatever the container and the labels -----------------------------
@every_library
def test_frames_get_an_indicator_per_action(library):
    out = design(logs_of(context_of(library)), "one_hot")
    assert out.shape == (3, 5)
    assert column_of(out, "action = a") == [0.0, 1.0, 0.0]
    assert column_of(out, "action = b") == [0.0, 0.0, 1.0]
    assert column_of(out, "action = c") == [1.0, 0.0, 0.0]


@pytest.mark.parametrize("encoding", ["one_hot", "action_context"])
def test_numbered_columns_of_pandas_are_named_by_texts(encoding):
    frame = pytest.importorskip("pandas").DataFrame(X)
    logs = logs_of(frame, action_context=FEATURES)
    assert design(logs, encoding).columns[:2].tolist() == ["0", "1"]
    assert frame.columns.tolist() == [0, 1]
    model = ActionRewardModel(LinearRegression(), encoding)
    assert np.isfinite(model.fit(logs).predict_logs(logs)).all()


def test_labels_that_read_alike_are_quoted():
    pandas = pytest.importorskip("pandas")
    labels = np.array([1, "1", "x"], dtype=object)
    frame = pandas.DataFrame({"u": [0.0, 1.0, 2.0]})
    logs = BanditLogs(frame, labels, np.ones(3), actions=labels)
    names = list(design(logs, "one_hot").columns)
    assert names == ["u", "action = 1", "action = '1'", "action = 'x'"]
    names = list(design(BanditLogs(frame[1:], labels[1:], [0, 1]), "one_hot").columns)
    assert names == ["u", "action = 1", "action = x"]


CONTAINERS = ["array", "sparse", *LIBRARIES]
LABELS = [[0, 1, 2], [10, 20, 35], [2, 1, 0], ["a", "b", "c"], ["c", "b", "a"]]


@pytest.mark.few_cases
@pytest.mark.parametrize("container", CONTAINERS)
@pytest.mark.parametrize("labels", LABELS, ids=str)
@pytest.mark.parametrize("given", [False, True], ids=["sorted", "as given"])
def test_values_do_not_change_by_labels_or_containers(container, labels, given):
    logs = make_bandit_logs(200, random_state=0)
    policy = np.tile([0.5, 0.2, 0.3], (200, 1))
    model = ActionRewardModel(Ridge(fit_intercept=False, solver="cholesky"), "one_hot")
    wanted = DoublyRobust(reward_model=model).fit(logs).score(policy)
    X, order = logs.context, np.arange(3) if given else np.argsort(labels)
    if container == "sparse":
        X = sparse.csr_matrix(X)
    elif container != "array":
        X = frame_of(container, {f"f{j}": column for j, column in enumerate(X.T)})
    labels = np.array(labels)
    given = X, labels[logs.action_index], logs.reward, logs.propensity
    relabelled = BanditLogs(*given, actions=labels[order])
    found = DoublyRobust(reward_model=model).fit(relabelled).score(policy[:, order])
    assert_allclose(found, wanted, rtol=0, atol=1e-9)


def world(n, k):
    rng = np.random.default_rng(0)
    action, reward = rng.integers(0, k, n), rng.integers(0, 2, n).astype(float)
    return BanditLogs(rng.normal(size=(n, 2)), action, reward, actions=np.arange(k))


@pytest.mark.parametrize("model", [Ridge(), LogisticRegression()], ids=str)
def test_linear_models_read_indicators_as_sparse_matrices(model, monkeypatch):
    logs = world(50, 6)
    fitted = ActionRewardModel(model, "one_hot").fit(logs)
    [inner] = fitted.models_
    name = "predict_proba" if hasattr(inner, "predict_proba") else "predict"
    predict, read = getattr(type(inner), name), []
    whole = [np.hstack([logs.context, np.tile(row, (50, 1))]) for row in np.eye(6)]
    whole = [predict(inner, X).reshape(50, -1)[:, -1] for X in whole]

    def watched(self, X):
        read.append((sparse.issparse(X), X.shape))
        return predict(self, X)

    monkeypatch.setattr(type(inner), name, watched)
    assert_allclose(fitted.predict_logs(logs), np.transpose(whole), rtol=1e-12)
    assert read == [(True, (50, 8))] * 6


@pytest.mark.parametrize("dtype", [np.float16, np.float32, int, bool])
def test_contexts_of_any_numbers(dtype):
    plain = world(20, 3)
    logs = BanditLogs(plain.context.astype(dtype), plain.action, plain.reward)
    X = np.hstack([logs.context, np.tile([0.0, 1.0, 0.0], (20, 1))])
    for model in (Ridge(), make_pipeline(StandardScaler(), Ridge())):
        fitted = ActionRewardModel(model, "one_hot").fit(logs)
        found = fitted.predict_logs(logs)[:, 1]
        assert_allclose(found, fitted.models_[0].predict(X), rtol=1e-6)
