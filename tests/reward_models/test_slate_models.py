# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Models of the rewards of slates: what they see, and sums over slots."""

from contextlib import nullcontext
from itertools import permutations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.base import BaseEstimator, RegressorMixin, clone
from sklearn.dummy import DummyClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
from sklearn.tree import DecisionTreeRegressor

from skope_ope import (
    BanditLogs,
    CascadeDR,
    PlackettLuceSlatePolicy,
    SlateDirectMethod,
    SlateDoublyRobust,
    SlateLogs,
    UniformSlatePolicy,
)
from skope_ope.exceptions import OPEWarning
from skope_ope.reward_models import AdditiveSlateModel
from tests._quiet import quiet

SLATES = [[0, -1], [2, 1], [1, 0]]  # the last one is held out
CONTEXT = np.array([[5.0], [6.0], [7.0]])
FEATURES = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])


class Seen(RegressorMixin, BaseEstimator):
    """Keeps what it is fitted to."""

    def fit(self, X, y, sample_weight=None):
        self.X_ = X
        return self

    def predict(self, X):
        return np.zeros(X.shape[0])


# -- what models see ------------------------------------------------------------------
def logs_with(context=CONTEXT, **fields):
    return SlateLogs(context, SLATES, [1.0, 2.0, 3.0], n_candidates=3, **fields)


def of_slates(logs):
    folds = [([0, 1], [2])]
    evaluator = SlateDirectMethod(reward_model=Seen(), cv=folds).fit(logs)
    return evaluator.reward_model_.models_[0].model_.X_


def of_slots(logs):
    return AdditiveSlateModel(Seen(), max_iter=1).fit(logs[:2]).model_.X_


def test_indicators_of_candidates():
    expected = [[5, 1, 0, 0, 0, 0, 0], [6, 0, 0, 1, 0, 1, 0]]
    assert_array_equal(of_slates(logs_with()), expected)
    X = of_slates(logs_with(sparse.csr_matrix(CONTEXT)))
    assert sparse.issparse(X)
    assert_array_equal(X.toarray(), expected)


CATALOGUE = np.concatenate([[[9.0, 9.0]], FEATURES])


def test_features_of_candidates():
    """Of candidates, of rounds, and of a catalogue."""
    expected = [[5, 1, 2, 1, 0], [6, 5, 6, 1, 0], [6, 3, 4, 0, 1]]
    for features in (FEATURES, np.stack([FEATURES] * 3), CATALOGUE):
        numbers = [[1, 2, 3]] * 3 if features is CATALOGUE else None
        logs = logs_with(item_features=features, item_id=numbers)
        assert_array_equal(of_slates(logs), [[5, 1, 2, 0, 0], [6, 5, 6, 3, 4]])
        assert_array_equal(np.sort(of_slots(logs), axis=0), np.sort(expected, axis=0))


def test_frames():
    pandas = pytest.importorskip("pandas")
    logs = logs_with(pandas.DataFrame({"age": [5.0, 6.0, 7.0]}))
    assert list(of_slates(logs).columns)[:3] == ["age", "slot_0_0", "slot_0_1"]
    one = of_slots(logs)
    names = ["age", "item_0", "item_1", "item_2", "slot_0", "slot_1"]
    assert list(one.columns) == names
    assert [6, 0, 0, 1, 1, 0] in one.to_numpy().tolist()


@pytest.mark.filterwarnings("ignore::skope_ope.exceptions.ModelErrorWarning")
@pytest.mark.frames
@pytest.mark.parametrize("make", [SlateDoublyRobust, SlateDirectMethod, CascadeDR])
def test_models_of_slates_take_contexts_of_texts(make):
    evaluator = make(reward_model=None if make is SlateDoublyRobust else Ridge())
    pandas = pytest.importorskip("pandas")
    rng = np.random.RandomState(0)
    slates = np.argsort(rng.random_sample((60, 3)), axis=1)[:, :2]
    device = rng.randint(2, size=60)
    clicks = (rng.random_sample((60, 2)) < 0.2 + 0.5 * device[:, None]).astype(int)
    policy = UniformSlatePolicy(2)
    fields = {"slot_reward": clicks, "n_candidates": 3, "logging_policy": policy}
    texts = pandas.DataFrame({"device": np.array(["phone", "desk"])[device]})
    codes = pandas.DataFrame({"phone": 1 - device, "desk": device})
    warned = pytest.warns(OPEWarning, match="Ridge was fitted behind a ContextEncoder")
    with nullcontext() if evaluator.reward_model is None else warned:
        found = evaluator.fit(SlateLogs(texts, slates, **fields)).score(policy)
    expected = evaluator.fit(SlateLogs(codes, slates, **fields)).score(policy)
    assert found == pytest.approx(expected, rel=0.02)


# -- one number for a slate -----------------------------------------------------------
def forty_logs(reward=None, n_rounds=40):
    rng = np.random.RandomState(0)
    slates = np.argsort(rng.random_sample((n_rounds, 4)), axis=1)[:, :2]
    reward = rng.random_sample(n_rounds) if reward is None else reward
    return SlateLogs(np.arange(n_rounds)[:, None], slates, reward, n_candidates=4)


class Remembers(BaseEstimator):
    """Predicts 1 for rounds that it was fitted on, by their first feature."""

    def fit(self, X, y):
        self.seen_ = X[:, 0]
        return self

    def predict(self, X):
        return np.isin(X[:, 0], self.seen_).astype(float)


def fitted(model, logs, cv=5):
    return SlateDirectMethod(reward_model=model, cv=cv).fit(logs)


def predictions(evaluator, logs, slates=None):
    slates = logs.slate if slates is None else slates
    return np.round(quiet(evaluator, slates, logs).round_values, 12)


def test_no_round_is_predicted_by_a_model_that_saw_it():
    logs = forty_logs()
    source = fitted(Remembers(), logs, 4)
    assert not predictions(source, logs).any()
    assert not predictions(source, logs[::-3]).any()  # known by their row_id
    assert not predictions(source, forty_logs()).any()  # built anew
    other = SlateLogs(logs.context, logs.slate[:, ::-1], logs.reward, n_candidates=4)
    assert predictions(source, other).all()  # the model of all rounds


def test_uncovered_rounds_get_the_mean_of_the_others():
    logs = forty_logs()
    source = fitted(LinearRegression(), logs, [(np.arange(20), np.arange(20, 40))])
    assert_allclose(predictions(source, logs)[:20], logs.reward[20:].mean())
    assert quiet(source, logs.slate).diagnostics["uncovered_rounds"] == 20


def test_what_may_stand_for_a_model():
    logs = forty_logs()
    assert_allclose(predictions(fitted(0.25, logs), logs), 0.25)
    halves = [logs.reward[20:].mean(), logs.reward[:20].mean()]
    found = predictions(fitted(None, logs, 2), logs)
    assert_allclose(found, np.repeat(halves, 20))
    more = forty_logs(n_rounds=80)
    first = [(np.arange(40), np.arange(40, 80))]
    tree = fitted(DecisionTreeRegressor(random_state=0), more, first)
    tree = tree.reward_model_.models_[0].model_
    for model, cv in ((tree, "prefit"), (FrozenEstimator(tree), 5)):
        found = predictions(fitted(model, more, cv), more[:40])
        assert_allclose(found, more.reward[:40])


def test_classifiers_model_rewards_of_zero_and_one():
    logs = forty_logs(reward=np.arange(40) % 2)
    found = predictions(fitted(LogisticRegression(), logs), logs)
    assert ((found > 0) & (found < 1)).all()
    constant = forty_logs(reward=np.zeros(40))
    for model in (DummyClassifier(), None):
        assert not predictions(fitted(model, constant), constant).any()


def test_what_is_no_model_of_slates():
    for model, cv, error, message in (
        (np.nan, 5, ValueError, "finite number"),
        ("q_hat", 5, TypeError, "must be a scikit-learn regressor"),
        (LinearRegression, 5, TypeError, "is the class LinearRegression"),
        (None, "prefit", ValueError, "needs a fitted reward_model"),
        (LinearRegression(), "twice", ValueError, "cv must be 'prefit'"),
        (LogisticRegression(), 5, ValueError, "rewards of 0 and 1"),
    ):
        with pytest.raises(error, match=message):
            fitted(model, forty_logs(), cv)


# -- sums over slots ------------------------------------------------------------------
def some_logs(n_rounds=300, seed=0):
    rng = np.random.RandomState(seed)
    slates = np.argsort(rng.random_sample((n_rounds, 4)), axis=1)[:, :3]
    return SlateLogs(rng.normal(size=(n_rounds, 2)), slates, np.zeros(n_rounds))


def slates_of(logs):
    return np.argsort(np.random.RandomState(1).random_sample((len(logs), 4)))[:, :3]


def test_it_learns_what_is_a_sum_over_slots():
    logs = some_logs()
    item, slot = np.array([1.0, 2.0, 4.0, 8.0]), np.array([0.0, 1.0, 3.0])

    def reward(slates):  # linear in indicators of candidate and slot
        return (item[slates] + slot).sum(axis=1) + 3 * logs.context[:, 0]

    logs = logs.replace(reward=reward(logs.slate))
    model = AdditiveSlateModel(LinearRegression(), max_iter=500, tol=1e-9).fit(logs)
    other = slates_of(logs)
    assert_allclose(model.predict(logs, other), reward(other), atol=1e-5)
    assert 1 < model.n_iter_ < 500
    assert model.n_features_in_ == 2


def test_it_learns_items_that_matter_by_slot():
    logs = some_logs(2000)
    # a constant context: nothing to memorise
    logs = SlateLogs(np.zeros((2000, 1)), logs.slate, logs.reward)
    phi = np.random.RandomState(0).random_sample((3, 4))
    value = phi[np.arange(3), logs.slate].sum(axis=1)
    logs = logs.replace(reward=value)
    model = AdditiveSlateModel(DecisionTreeRegressor(max_leaf_nodes=40, random_state=0))
    found = model.fit(logs).predict(logs, logs.slate)
    assert np.corrcoef(found, value)[0, 1] > 0.98


@pytest.mark.parametrize("regressor", [None, DecisionTreeRegressor(random_state=0)])
def test_its_mean_under_a_policy_comes_from_slot_marginals(regressor):
    logs = some_logs(60)
    logs = logs.replace(reward=np.random.RandomState(3).random_sample(60))
    model = AdditiveSlateModel(regressor, max_iter=3).fit(logs)
    policy = PlackettLuceSlatePolicy([1.0, 2.0, 3.0, 4.0], 3)
    expected = np.zeros(60)
    for slate in permutations(range(4), 3):
        slates = np.tile(slate, (60, 1))
        expected += policy.slate_proba(logs, slates) * model.predict(logs, slates)
    found = model.expect(logs, policy.slot_marginals(logs))
    assert_allclose(found, expected, atol=1e-12)


def test_empty_slots_add_nothing():
    slates = [[0, -1], [-1, -1], [1, 0]]
    logs = SlateLogs(np.zeros((3, 1)), slates, [1.0, 0.0, 2.0], n_candidates=2)
    model = AdditiveSlateModel(max_iter=2).fit(logs)
    assert model.predict(logs, logs.slate)[1] == model.intercept_ == 1.0
    assert_array_equal(model.predict(logs, np.full((3, 2), -1)), 1.0)
    with pytest.raises(ValueError, match="slots of the slates are empty"):
        model.fit(SlateLogs(np.zeros((1, 1)), [[-1]], [1], n_candidates=1))


def test_other_candidates_than_those_of_fit():
    logs = some_logs(20).replace(reward=np.arange(20.0))
    given = logs.context, logs.slate, logs.reward
    more = SlateLogs(*given, n_candidates=6)
    model = AdditiveSlateModel().fit(logs)
    message = r"have 6 candidates, .*fit had 4\. Without it"
    with pytest.raises(ValueError, match=message):
        model.predict(more, more.slate)
    policy = PlackettLuceSlatePolicy(np.ones(6), 3)
    with pytest.raises(ValueError, match="have 6 candidates"):
        model.expect(more, policy.slot_marginals(more))
    described = SlateLogs(*given, item_features=np.ones((4, 2)))
    with pytest.raises(ValueError, match=r"have item_features of 2 columns, .* had no"):
        model.predict(described, logs.slate)


def test_bad_input():
    logs = BanditLogs(np.zeros((2, 1)), [0, 1], [0, 1])
    with pytest.raises(TypeError, match="must be SlateLogs"):
        AdditiveSlateModel().fit(logs)
    with pytest.raises(ValueError, match="max_iter"):
        AdditiveSlateModel(max_iter=0).fit(some_logs())
    with pytest.raises(Exception, match="not fitted"):
        AdditiveSlateModel().predict(some_logs(), slates_of(some_logs()))
    assert clone(AdditiveSlateModel(tol=0.5)).tol == 0.5
