# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import tracemalloc

import joblib
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.base import BaseEstimator, RegressorMixin, clone
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestClassifier
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import (
    LinearRegression,
    LogisticRegression,
    Ridge,
    SGDRegressor,
)
from sklearn.model_selection import GridSearchCV
from sklearn.naive_bayes import BernoulliNB
from sklearn.neighbors import KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.svm import LinearSVC

from skope_ope import ActionRewardModel, BanditLogs
from skope_ope.exceptions import ModelErrorWarning
from tests._frames import every_library, frame_of

RNG = np.random.RandomState(0)
N = 120
X = RNG.normal(size=(N, 3))
CODE = RNG.randint(3, size=N)
ACTION = np.array(list("cab"))[CODE]
ORDER = ["b", "z", "c", "a"]  # labels in an order of their own; z was never logged
REWARD = RNG.normal(size=N) + X[:, 0] * CODE
BINARY = (REWARD > 0).astype(float)
FEATURES = RNG.normal(size=(4, 2))
BY_ROUND = RNG.normal(size=(N, 4, 2))
NEW = RNG.normal(size=(7, 3))


def logs_of(reward=REWARD, context=X, rows=slice(None), **fields):
    fields = {"actions": ORDER, **fields}
    return BanditLogs(context, ACTION, reward, **fields)[rows]


def rounds_of(context, **fields):
    n = len(context)
    return BanditLogs(context, ["a"] * n, np.zeros(n), **{"actions": ORDER} | fields)


# -- the three encodings -----------------------------------------------------------
every_container = pytest.mark.parametrize("container", [np.asarray, sparse.csr_matrix])


@every_container
def test_per_action_is_one_model_per_action(container):
    logs = logs_of(context=container(X))
    model = ActionRewardModel(Ridge()).fit(logs)
    expected = np.full((7, 4), REWARD.mean())
    for column in (0, 2, 3):
        rows = ORDER[column] == ACTION
        expected[:, column] = Ridge().fit(X[rows], REWARD[rows]).predict(NEW)
    assert_allclose(model.predict(container(NEW)), expected, rtol=1e-6)
    assert model.mean_reward_ == pytest.approx(REWARD.mean())
    assert model.models_[1] is None
    assert model.actions_.tolist() == ORDER


@every_container
def test_one_hot_is_one_model_of_context_and_indicators(container):
    logs = logs_of(context=container(X))
    model = ActionRewardModel(Ridge(), encoding="one_hot").fit(logs)
    by_hand = Ridge().fit(np.hstack([X, np.eye(4)[logs.action_index]]), REWARD)
    hot = [np.hstack([NEW, np.tile(one, (7, 1))]) for one in np.eye(4)]
    expected = np.column_stack([by_hand.predict(one) for one in hot])
    assert_allclose(model.predict(container(NEW)), expected, rtol=1e-5)


@every_container
@pytest.mark.parametrize(
    "features", [FEATURES, BY_ROUND], ids=["by action", "by round"]
)
def test_action_context_is_one_model_of_both_features(container, features):
    logs = logs_of(context=container(X), action_context=features)
    model = ActionRewardModel(Ridge(), "action_context").fit(logs)
    of_round = np.broadcast_to(features, (N, 4, 2))
    logged = of_round[np.arange(N), logs.action_index]
    by_hand = Ridge().fit(np.hstack([X, logged]), REWARD)
    expected = np.column_stack(
        [by_hand.predict(np.hstack([X, of_round[:, k]])) for k in range(4)]
    )
    assert_allclose(model.predict_logs(logs), expected, rtol=1e-5, atol=1e-8)
    if features.ndim == 2:
        assert_allclose(model.predict(container(X)), expected, rtol=1e-5, atol=1e-8)
    else:
        with pytest.raises(ValueError, match="vary by round: call predict_logs"):
            model.predict(X)


def test_other_rounds_bring_the_features_of_their_actions():
    model = ActionRewardModel(Ridge(), "action_context")
    model.fit(logs_of(action_context=FEATURES))
    given = NEW, ["a", "c"] * 3 + ["a"], np.zeros(7)
    other = BanditLogs(*given, action_context=FEATURES[[3, 2]])
    assert other.actions.tolist() == ["a", "c"]
    assert_allclose(model.predict_logs(other), model.predict(NEW)[:, [3, 2]])
    with pytest.raises(ValueError, match="needs logs with action_context"):
        model.predict_logs(rounds_of(NEW))


@pytest.mark.parametrize("encoding", ["per_action", "one_hot"])
def test_actions_are_matched_by_label(encoding):
    model = ActionRewardModel(Ridge(), encoding).fit(logs_of())
    full = model.predict(NEW)
    for labels in (["a", "b", "c", "z"], ["z", "a"], ["a"], ORDER):
        columns = [ORDER.index(label) for label in labels]
        q_hat = model.predict_logs(rounds_of(NEW, actions=labels))
        assert_array_equal(q_hat, full[:, columns])
    message = r"action 'q' .* unknown in fit, which saw \['b"
    with pytest.raises(ValueError, match=message):
        model.predict_logs(rounds_of(NEW, actions=["a", "q"]))
    for features in (FEATURES, BY_ROUND):  # which are not asked for
        model.fit(logs_of(action_context=features))
        assert_array_equal(model.predict(NEW), full)


# -- frames ------------------------------------------------------------------------


CITY = np.array(["Paris", "Rome"])[RNG.randint(2, size=N)]


def context_of(library, rows=slice(None)):
    columns = {name: X[rows, j] for j, name in enumerate("uvw")}
    return frame_of(library, {**columns, "city": CITY[rows]})


def encoder(*categories, numbers="uvw"):
    steps = [
        ("categories", OneHotEncoder(handle_unknown="ignore"), [*categories]),
        ("numbers", StandardScaler(), [*numbers]),
    ]
    return make_pipeline(ColumnTransformer(steps), Ridge())


PARIS = (CITY == "Paris")[:, None] == [True, False]


@every_library
def test_a_column_transformer_sees_names_and_the_action(library):
    logs = logs_of(context=context_of(library))
    model = ActionRewardModel(encoder("city", "action"), "column").fit(logs)
    labels, scaled = np.array(["a", "b", "c"]), StandardScaler().fit_transform(X)
    by_hand = Ridge().fit(np.hstack([PARIS, ACTION[:, None] == labels, scaled]), REWARD)
    every = (np.full((N, 3), k == labels) for k in np.array(ORDER))
    expected = [by_hand.predict(np.hstack([PARIS, one, scaled])) for one in every]
    expected = np.column_stack(expected)
    assert_allclose(model.predict_logs(logs), expected, rtol=1e-6)
    assert_allclose(model.predict(logs.context), expected, rtol=1e-6)
    rows = [5, 3, 3]
    assert_allclose(model.predict(context_of(library, rows)), expected[rows], rtol=1e-6)


@every_library
def test_a_column_transformer_per_action_and_with_features_of_actions(library):
    logs = logs_of(context=context_of(library))
    model = ActionRewardModel(encoder("city")).fit(logs)
    rows = ACTION == "c"
    whole = np.hstack([PARIS, StandardScaler().fit(X[rows]).transform(X)])
    expected = Ridge().fit(whole[rows], REWARD[rows]).predict(whole)
    assert_allclose(model.predict_logs(logs)[:, 2], expected, rtol=1e-6)
    logs = logs_of(context=context_of(library), action_context=FEATURES)
    names = ["u", "action_context_0", "action_context_1"]
    model = ActionRewardModel(encoder("city", numbers=names), "action_context")
    assert model.fit(logs).predict_logs(logs).shape == (N, 4)
    inner = model.models_[0][0].named_transformers_["numbers"]
    logged = FEATURES[logs.action_index]
    assert_allclose(inner.mean_, [X[:, 0].mean(), *logged.mean(axis=0)])


# -- classifiers -------------------------------------------------------------------
@pytest.mark.parametrize("encoding", ["per_action", "one_hot"])
def test_classifiers_predict_the_probability_of_one(encoding):
    rows, design, new = ACTION == "c", X, NEW
    if encoding == "one_hot":
        rows, hot = slice(None), np.eye(4)
        design = np.hstack([X, hot[logs_of().action_index]])
        new = np.hstack([NEW, np.tile(hot[2], (7, 1))])
    by_hand = LogisticRegression().fit(design[rows], BINARY[rows])
    for dtype in (float, int, bool):
        logs = logs_of(BINARY.astype(dtype))
        model = ActionRewardModel(LogisticRegression(), encoding).fit(logs)
        assert_allclose(model.predict(NEW)[:, 2], by_hand.predict_proba(new)[:, 1])


def test_pipelines_and_searches_of_classifiers_are_classifiers():
    pipeline = make_pipeline(StandardScaler(), LogisticRegression())
    search = GridSearchCV(LogisticRegression(), {"C": [0.1, 1.0]}, cv=2)
    for classifier in (pipeline, search):
        q_hat = ActionRewardModel(classifier).fit(logs_of(BINARY)).predict(NEW)
        rows = ACTION == "a"
        by_hand = clone(classifier).fit(X[rows], BINARY[rows])
        assert_allclose(q_hat[:, 3], by_hand.predict_proba(NEW)[:, 1])


def test_one_class_is_predicted():
    reward = np.where(ACTION == "a", 1.0, np.where(ACTION == "b", 0.0, BINARY))
    q_hat = ActionRewardModel(LogisticRegression()).fit(logs_of(reward)).predict(NEW)
    assert_array_equal(q_hat[:, 3], 1)
    assert_array_equal(q_hat[:, 0], 0)
    assert_array_equal(q_hat[:, 1], reward.mean())
    for value in (0.0, 1.0):
        for encoding in ("per_action", "one_hot"):
            model = ActionRewardModel(LogisticRegression(), encoding)
            q_hat = model.fit(logs_of(np.full(N, value))).predict(NEW)
            assert_array_equal(q_hat, np.full((7, 4), value))


def test_classifiers_need_rewards_of_zero_and_one():
    halves = BINARY.copy()
    halves[[4, 9]] = 0.5
    for model, reward, error, message in (
        (LogisticRegression(), halves, ValueError, r"0\.5 at row 4 \(2 .*Use a reg"),
        (RandomForestClassifier(), BINARY * 2 - 1, ValueError, "only if they are 0 or"),
        (LinearSVC(), BINARY, TypeError, r"LinearSVC has no predict_proba.*Calibrated"),
    ):
        with pytest.raises(error, match=message):
            ActionRewardModel(model).fit(logs_of(reward))


# -- weights -----------------------------------------------------------------------


WEIGHT = 1.0 + np.arange(N) % 3


@pytest.mark.parametrize("encoding", ["per_action", "one_hot"])
@pytest.mark.parametrize("model", [LinearRegression(), LogisticRegression()], ids=str)
def test_weight_two_is_a_round_twice(encoding, model):
    weight = 1.0 + (np.arange(N) % 2)
    twice = np.repeat(np.arange(N), weight.astype(int))
    logs = logs_of(BINARY)
    weighted = ActionRewardModel(model, encoding).fit(logs, sample_weight=weight)
    repeated = ActionRewardModel(model, encoding).fit(logs[twice])
    assert_allclose(weighted.predict(NEW), repeated.predict(NEW), rtol=1e-3, atol=1e-4)


def test_only_drawn_rounds_are_learned_from():
    weight = np.where(np.arange(N) < N // 2, 1.0, 0.0)
    model = ActionRewardModel(KNeighborsRegressor(1), "one_hot")
    with pytest.warns(ModelErrorWarning, match="takes no sample_weight"):
        model.fit(logs_of(), sample_weight=weight)
    assert np.isin(model.models_[0]._y, REWARD[: N // 2]).all()


# -- in parts ----------------------------------------------------------------------
class Steps(RegressorMixin, BaseEstimator):
    """Learns in parts what it would learn at once: a line, from sums."""

    def fit(self, X, y, sample_weight=None):
        self.sums_ = 0.0
        return self.partial_fit(X, y, sample_weight)

    def partial_fit(self, X, y, sample_weight=None):
        X = np.asarray(X.toarray() if sparse.issparse(X) else X)
        z = np.column_stack([X, np.ones(len(X)), y])
        w = np.ones(len(X)) if sample_weight is None else sample_weight
        self.sums_ = getattr(self, "sums_", 0.0) + z.T @ (w[:, None] * z)
        return self

    def predict(self, X):
        A, b = self.sums_[:-1, :-1] + 1e-3 * np.eye(len(self.sums_) - 1), self.sums_
        beta = np.linalg.solve(A, b[:-1, -1])
        X = X.toarray() if sparse.issparse(X) else X
        return np.column_stack([X, np.ones(len(X))]) @ beta


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("container", [np.asarray, sparse.csr_matrix])
@pytest.mark.parametrize("encoding", ["per_action", "one_hot", "action_context"])
def test_parts_teach_what_the_whole_teaches(encoding, container, weighted):
    fields = {"context": container(X), "action_context": FEATURES}
    logs = logs_of(**fields, **({"sample_weight": WEIGHT} if weighted else {}))
    whole = ActionRewardModel(Steps(), encoding).fit(logs)
    parts = ActionRewardModel(Steps(), encoding)
    for low, high in ((0, 1), (1, 40), (40, N)):
        parts.partial_fit(logs[low:high])
    assert_allclose(parts.predict_logs(logs), whole.predict_logs(logs), rtol=1e-6)
    assert parts.mean_reward_ == pytest.approx(whole.mean_reward_, rel=1e-12)


def test_parts_match_actions_by_label():
    logs = logs_of()
    in_turn = ActionRewardModel(Steps()).partial_fit(logs[:50])
    for rows in (slice(50, 70), slice(70, N)):
        part = BanditLogs(X[rows], ACTION[rows], REWARD[rows], actions=list("abcz"))
        in_turn.partial_fit(part)
    whole = ActionRewardModel(Steps()).fit(logs)
    assert in_turn.actions_.tolist() == ORDER
    assert_allclose(in_turn.predict(NEW), whole.predict(NEW), rtol=1e-9)
    hot = ActionRewardModel(Steps(), "one_hot").partial_fit(logs[:50])
    part = BanditLogs(X[50:], ACTION[50:], REWARD[50:], actions=list("abcz"))
    whole = ActionRewardModel(Steps(), "one_hot").fit(logs)
    assert_allclose(hot.partial_fit(part).predict(NEW), whole.predict(NEW), rtol=1e-9)
    with pytest.raises(ValueError, match="action 'q' of the logs was unknown"):
        hot.partial_fit(BanditLogs(X[:2], ["a", "q"], [0.0, 1.0]))


@pytest.mark.parametrize("encoding", ["per_action", "one_hot"])
def test_classifiers_learn_in_parts(encoding):
    logs = logs_of(BINARY)
    model = ActionRewardModel(BernoulliNB(), encoding)
    for rows in (BINARY == 1, BINARY == 0):  # one class at a time
        model.partial_fit(logs[rows])
    whole = ActionRewardModel(BernoulliNB(), encoding).fit(logs)
    assert_allclose(model.predict(NEW), whole.predict(NEW), rtol=1e-9)
    with pytest.raises(ValueError, match="only if they are 0 or 1"):
        model.partial_fit(logs_of())


def test_only_models_that_can_learn_in_parts_do():
    assert hasattr(ActionRewardModel(SGDRegressor()), "partial_fit")
    assert not hasattr(ActionRewardModel(Ridge()), "partial_fit")
    with pytest.raises(AttributeError, match="partial_fit"):
        ActionRewardModel(Ridge()).partial_fit(logs_of())


def test_fit_begins_anew():
    logs = logs_of()
    first, rest = (
        ActionRewardModel(Steps()).fit(part).predict(NEW)
        for part in (logs[:30], logs[30:])
    )
    model = ActionRewardModel(Steps()).partial_fit(logs[:30]).fit(logs[30:])
    assert_allclose(model.predict(NEW), rest)
    model.partial_fit(logs[:30])  # is not continued, either
    assert_allclose(model.predict(NEW), first)


def test_parts_without_weight_teach_nothing():
    weight = np.where(np.arange(N) < 40, 0.0, 1.0)
    model = ActionRewardModel(SGDRegressor(random_state=0))
    model.partial_fit(logs_of()[:40], sample_weight=weight[:40])
    assert model.models_ == [None] * 4
    assert model.mean_reward_ == pytest.approx(REWARD[:40].mean())
    assert_allclose(model.predict(NEW), model.mean_reward_)
    model.partial_fit(logs_of()[40:], sample_weight=weight[40:])
    assert model.mean_reward_ == pytest.approx(REWARD[40:].mean())


# -- the estimator -----------------------------------------------------------------
def test_too_few_rounds_for_a_model_are_explained():
    few = logs_of(rows=slice(0, 12))
    with pytest.raises(ValueError) as info:
        ActionRewardModel(KNeighborsRegressor(9)).fit(few).predict(NEW)
    assert "In the reward model of action" in info.value.__notes__[0]
    assert "encoding='one_hot'" in info.value.__notes__[0]
    search = GridSearchCV(Ridge(), {"alpha": [1.0]}, cv=9)
    with pytest.raises(ValueError) as info:
        ActionRewardModel(search).fit(few)
    assert "fitted on" in info.value.__notes__[0]


def test_clone_and_nested_parameters():
    model = ActionRewardModel(Ridge(alpha=2.0), "one_hot").fit(logs_of())
    other = clone(model).set_params(model__alpha=5.0, encoding="per_action")
    assert model.get_params()["model__alpha"] == 2.0
    assert not hasattr(other, "models_")
    assert other.fit(logs_of()).models_[0].alpha == 5.0
    assert other.model is not other.models_[0]
    with pytest.raises(NotFittedError):
        clone(model).predict(NEW)


def test_bad_parameters_and_logs_are_refused():
    for model, encoding, logs, error, message in (
        (Ridge(), "hashing", logs_of(), ValueError, "'encoding' p"),
        (None, "one_hot", logs_of(), ValueError, "The 'model' parameter of ActionRew"),
        (0.5, "one_hot", logs_of(), ValueError, "The 'model' parameter of ActionRew"),
        (Ridge(), "one_hot", logs_of()[:0], ValueError, "the logs are empty"),
        (Ridge(), "one_hot", X, TypeError, "logs must be BanditLogs, got ndarray"),
    ):
        with pytest.raises(error, match=message):
            ActionRewardModel(model, encoding).fit(logs)


@pytest.mark.parametrize("encoding", ["per_action", "one_hot", "action_context"])
def test_predictions_need_no_design_of_rounds_times_actions(encoding):
    n, k, d = 5_000, 40, 10
    given = np.ones((n, d)), np.arange(n) % k, np.arange(n) % 7.0
    logs = BanditLogs(*given, action_context=np.ones((k, 3)))
    model = ActionRewardModel(Ridge(), encoding).fit(logs)
    model.predict_logs(logs[:10])
    tracemalloc.start()
    q_hat = model.predict_logs(logs)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < q_hat.nbytes + 3 * n * (d + k) * 8  # designs of one action at a time
    assert peak < n * k * d * 8 / 2


def test_a_memory_travels_and_is_checked(tmp_path):
    rng = np.random.RandomState(0)
    logs = BanditLogs(rng.normal(size=(40, 2)), rng.randint(2, size=40), rng.rand(40))
    for memory in (None, tmp_path, str(tmp_path), joblib.Memory(None)):
        model = ActionRewardModel(Ridge(), memory=memory)
        again = clone(model).get_params()["memory"]
        assert type(again) is type(memory) and str(again) == str(memory)
        expected = ActionRewardModel(Ridge()).fit(logs).predict_logs(logs)
        for _ in range(2):
            found = clone(model).fit(logs).predict_logs(logs)
            np.testing.assert_array_equal(found, expected)
    with pytest.raises(ValueError, match="'memory' parameter of ActionRewardModel"):
        ActionRewardModel(Ridge(), memory=3).fit(logs)


def test_a_regressor_that_refuses_equal_targets_predicts_them():
    """A Poisson loss refuses an action that was never rewarded."""
    model = HistGradientBoostingRegressor(loss="poisson", max_iter=2)
    for encoding, rewarded in (("per_action", BINARY), ("one_hot", np.zeros(N))):
        logs = logs_of(rewarded * (ACTION != "a"))
        q_hat = ActionRewardModel(model, encoding).fit(logs).predict_logs(logs)
        assert_array_equal(q_hat[:, logs.actions.tolist().index("a")], 0.0)
        assert q_hat.max() > 0 or encoding == "one_hot"
    with pytest.raises(ValueError, match="poisson"):  # other errors are raised
        ActionRewardModel(model).fit(logs_of(-1 - BINARY))
