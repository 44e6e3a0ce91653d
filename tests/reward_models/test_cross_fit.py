# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""No round is predicted by a model that saw its reward, wherever it turns up."""

import os
import warnings

import numpy as np
import pytest
from joblib import parallel_config
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import (
    KFold,
    LeaveOneOut,
    ShuffleSplit,
    TimeSeriesSplit,
)
from sklearn.neighbors import KNeighborsRegressor

from skope_ope import (
    ActionRewardModel,
    BanditLogs,
    ConstantPolicy,
    DirectMethod,
    DoublyRobust,
    UniformPolicy,
    evaluate,
)
from skope_ope.exceptions import ModelErrorWarning
from tests._quiet import quiet

pytestmark = pytest.mark.filterwarnings("ignore:.*leaves out the error")
N = 60
RNG = np.random.RandomState(0)
X = np.arange(N, dtype=float)[:, None]  # the round's own number is its context
CODE = RNG.randint(3, size=N)
REWARD = RNG.normal(size=N)


class Memory(RegressorMixin, BaseEstimator):
    """Knows by heart which rounds it was trained on: predicts 1 for them, else 0."""

    def fit(self, X, y):
        self.seen_ = set(np.asarray(X)[:, 0].tolist())
        return self

    def predict(self, X):
        return np.array([float(x in self.seen_) for x in np.asarray(X)[:, 0]])


MODELS = [ActionRewardModel(Memory()), ActionRewardModel(Memory(), "one_hot")]


def logs_of(**fields):
    return BanditLogs(X, CODE, REWARD, **fields)


def other_logs():
    """Other rounds of the same contexts: in each of them another action was taken."""
    return BanditLogs(X, (CODE + 1) % 3, REWARD)


def fitted(model, logs, cv=5):
    return DirectMethod(reward_model=model, cv=cv).fit(logs)


def valued(model, logs, cv, n_jobs):
    """A value whose models are fitted by several workers."""
    given = {"evaluators": ["DirectMethod"], "reward_model": model, "cv": cv}
    return evaluate(UniformPolicy(), logs, n_jobs=n_jobs, **given)


def predictions(evaluator, logs):
    """All predictions for some rounds: the round values of doing one action."""
    logs = logs.replace(sample_weight=None, group=None)  # of which values are made
    values = (quiet(evaluator, ConstantPolicy(one), logs) for one in logs.actions)
    return np.round(np.column_stack([value.round_values for value in values]), 12)


# -- no round is predicted by a model that saw its reward ---------------------------
every_model = pytest.mark.parametrize("model", MODELS, ids=["per action", "one hot"])
ODD = np.arange(N) % 2 == 1
SPLITTERS = [2, 5, None, KFold(4, shuffle=True, random_state=0), LeaveOneOut()]
SPLITTERS += [ShuffleSplit(60, random_state=0), list(KFold(3).split(X))]
SPLITTERS += [[(ODD, ~ODD), (range(0, N, 2), range(1, N, 2))]]


@pytest.mark.few_cases
@pytest.mark.parametrize("cv", SPLITTERS)
@every_model
def test_no_round_is_predicted_by_a_model_that_saw_it(model, cv):
    logs = logs_of()
    source = fitted(model, logs, cv)
    q_hat = predictions(source, logs)
    assert q_hat[np.arange(N), CODE].max() == 0
    # nor for the actions it did not take, by the model of all actions
    assert model.encoding == "per_action" or q_hat.max() == 0
    assert_array_equal(predictions(source, logs_of()), q_hat)  # built anew
    # a model of all training rounds would know them
    full = predictions(source, other_logs())
    assert full[np.arange(N), CODE].min() == 1


def test_uncovered_rounds_get_means_and_are_counted_in_the_diagnostics():
    logs = logs_of(timestamp=np.arange(N))
    q_hat = predictions(fitted(MODELS[1], logs, TimeSeriesSplit(4)), logs)
    assert not q_hat[N // 5 :].any()
    covered = np.arange(N) >= N // 5
    means = [REWARD[covered & (k == CODE)].mean() for k in range(3)]
    assert_allclose(q_hat[: N // 5], [means] * (N // 5))
    logs = logs_of(propensity=1 / 3)
    for cv, n_uncovered in ((TimeSeriesSplit(4), N // 5), (5, 0)):
        evaluator = DoublyRobust(reward_model=Ridge(), cv=cv).fit(logs)
        diagnostics = evaluator.evaluate(UniformPolicy()).diagnostics
        assert diagnostics["uncovered_rounds"] == n_uncovered


# Splitters, groups, copies and rows in other objects: tests/logs/test_folds.py
def test_the_model_of_all_rounds_is_fitted_when_others_ask():
    fits = []

    class Counting(Ridge):
        def fit(self, X, y, sample_weight=None):
            fits.append(len(y))
            return super().fit(X, y, sample_weight)

    source = fitted(ActionRewardModel(Counting(), "one_hot"), logs_of(), 3)
    predictions(source, logs_of())  # the rounds of fit, built anew
    assert fits == [40] * 3
    predictions(source, other_logs())
    predictions(source, other_logs())
    assert fits == [40, 40, 40, 60]
    # what several evaluators share is fitted once
    fits.clear()
    logs = logs_of(propensity=np.full(N, 1 / 3))
    names = ["DoublyRobust", "SNDR", "DirectMethod"]
    evaluate(UniformPolicy(), logs, evaluators=names, reward_model=Counting())
    assert len(fits) == 15  # three actions in five folds


# -- actions that a fold never saw --------------------------------------------------
def test_an_action_missing_from_a_fold_warns_and_gets_the_mean_reward():
    code = np.arange(10) % 2
    code[9] = 2  # logged once, in the last fold
    logs = BanditLogs(X[:10], code, REWARD[:10], actions=[0, 1, 2, 3])
    with pytest.warns(ModelErrorWarning) as record:
        source = fitted(Ridge(), logs, 5)
    assert [w.message.value for w in record] == [1]
    for text in (
        "1 action(s) have no round in the training part of a fold ([2]; 1 in fold 4)",
        "the mean reward of that part",
    ):
        assert text in str(record[0].message)
    q_hat = predictions(source, logs)
    assert_allclose(q_hat[8:, 2], REWARD[:8].mean())
    # an action that was logged nowhere gets the mean as well, and no warning
    assert_allclose(q_hat[8:, 3], REWARD[:8].mean())
    assert_allclose(q_hat[:2, 3], REWARD[2:10].mean())
    # all logged once: every fold lacks two of them, and one warning tells
    logs = BanditLogs(X[:10], np.arange(10), REWARD[:10])
    with pytest.warns(ModelErrorWarning) as record:
        fitted(ActionRewardModel(Ridge()), logs, 5)
    [message] = [str(w.message) for w in record]
    assert message.startswith("10 action(s) have no round in the training part of a")
    assert "([0, 1, 2, 3, 4, ...]; 2 in fold 0, 2 in fold 1, " in message
    with pytest.warns(ModelErrorWarning, match=r"1 in fold 4, \.\.\.\)") as record:
        fitted(ActionRewardModel(Ridge()), logs, 10)
    assert [w.message.value for w in record] == [10]


@pytest.mark.parametrize("n_jobs", [None, 2])
def test_folds_without_weights_warn_once(n_jobs):
    weighted = logs_of(sample_weight=np.linspace(1, 2, N))
    with warnings.catch_warnings(record=True) as told, parallel_config("threading"):
        warnings.simplefilter("always")
        valued(KNeighborsRegressor(1), weighted, 5, n_jobs)
    told = [one for one in told if "takes no sample_weight" in str(one.message)]
    assert len(told) == 1


def test_one_model_for_all_actions_says_what_it_does_instead():
    logs = BanditLogs(X[:10], np.append(np.zeros(9, dtype=int), 1), REWARD[:10])
    with pytest.warns(ModelErrorWarning, match="from the rounds of other actions"):
        fitted(ActionRewardModel(Ridge(), "one_hot"), logs, 5)


def test_classifiers_survive_folds_of_one_class():
    reward = (np.arange(20) < 4) * 1.0  # the other folds never see a one
    logs = BanditLogs(X[:20], np.zeros(20, dtype=int), reward)
    source = fitted(ActionRewardModel(LogisticRegression()), logs, 5)
    q_hat = predictions(source, logs)
    assert_array_equal(q_hat[:4], 0)
    assert (q_hat[4:] > 0).all()


# -- the mean reward, the default ---------------------------------------------------
CVS = [5, KFold(4, shuffle=True, random_state=0), TimeSeriesSplit(3)]


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("cv", CVS, ids=lambda cv: type(cv).__name__)
@pytest.mark.filterwarnings("ignore::skope_ope.exceptions.ModelErrorWarning")
def test_the_default_is_the_out_of_fold_mean_per_action(
    cv, weighted, global_random_seed
):
    rng = np.random.default_rng(global_random_seed)
    weight = rng.integers(0, 3, N).astype(float) if weighted else None
    logs = BanditLogs(X, CODE, rng.normal(size=N), sample_weight=weight)
    weight = np.ones(N) if weight is None else weight
    found = predictions(fitted(None, logs, cv), logs)
    for train, test in (KFold(cv) if cv == 5 else cv).split(X):
        for k in range(3):
            rows = train[CODE[train] == k]
            if weight[rows].sum() > 0:
                mean = np.average(logs.reward[rows], weights=weight[rows])
                assert_allclose(found[test, k], mean, rtol=1e-10, atol=1e-11)


def test_means_of_folds_are_no_differences_of_sums():
    reward = RNG.normal(size=N)
    reward[0] = 1e16  # of which a difference would leave nothing
    source = fitted(None, BanditLogs(X, CODE, reward))
    rows = np.arange(N) >= N // 5
    means = [reward[rows & (k == CODE)].mean() for k in range(3)]
    assert_allclose(source.reward_model_.models_[0].means_, means, rtol=1e-12)
    # weights that vanish leave plain means; the second fold learns from the first
    # three alone, the first fold from none
    fields = np.zeros((6, 1)), [0, 1, 0, 1, 0, 1], np.arange(6.0)
    logs = BanditLogs(*fields, sample_weight=(np.arange(6) < 3) * 1.0)
    for cv in (2, KFold(2)):
        source = fitted(None, logs, cv)
        assert source.reward_model_.models_[0].means_.tolist() == [4.0, 4.0]


def test_other_rounds_get_the_mean_of_their_label():
    source = fitted(None, logs_of(actions=[2, 5, 0, 1]))
    expected = [REWARD[label == CODE].mean() for label in range(3)]
    other = BanditLogs(X + 100, CODE, REWARD)
    assert_allclose(predictions(source, other)[3], expected)
    unseen = BanditLogs(X + 100, CODE, REWARD, actions=[0, 1, 2, 5])
    assert_allclose(predictions(source, unseen)[0, 3], REWARD.mean())
    with pytest.raises(ValueError, match="action 9 of the logs was unknown"):
        predictions(source, BanditLogs(X[:1], [9], [0.0]))


# -- weights of the logs ------------------------------------------------------------
def test_weights_reach_the_models_of_all_folds():
    weight = 1.0 + np.arange(N) % 3
    logs = logs_of(sample_weight=weight)
    source = fitted(Ridge(), logs, 3)
    expected = np.empty((N, 3))
    for train, test in KFold(3).split(X):
        for k in range(3):
            rows = train[CODE[train] == k]
            by_hand = Ridge().fit(X[rows], REWARD[rows], sample_weight=weight[rows])
            expected[test, k] = by_hand.predict(X[test])
    assert_allclose(predictions(source, logs), expected, atol=1e-11)
    full = ActionRewardModel(Ridge()).fit(logs_of(), sample_weight=weight)
    other = other_logs()
    assert_allclose(predictions(source, other), full.predict_logs(other), atol=1e-11)


def test_weights_of_a_training_part_may_all_be_zero():
    logs = logs_of(sample_weight=np.where(np.arange(N) < 20, 0.0, 1.0))
    cv = [(range(20), range(20, N)), (range(20, N), range(20))]
    for model in (Ridge(), None):  # warnings are errors
        assert np.isfinite(predictions(fitted(model, logs, cv), logs)).all()


@pytest.mark.filterwarnings("ignore::skope_ope.exceptions.ModelErrorWarning")
def test_the_mean_model_takes_no_context(monkeypatch):
    logs, taken, take = logs_of(), [], BanditLogs.__getitem__

    def watched(self, key):
        taken.append(key)
        return take(self, key)

    monkeypatch.setattr(BanditLogs, "__getitem__", watched)
    for cv in CVS:
        fitted(None, logs, cv).evaluate(UniformPolicy())
    assert all(isinstance(key, slice) for key in taken)  # cuts are no copies


# -- workers -------------------------------------------------------------------------
class Dying(BaseEstimator):
    """A model that takes its process with it."""

    def __init__(self, home):
        self.home = home

    def fit(self, X, y):
        if os.getpid() != self.home:
            os._exit(1)
        return self

    def predict(self, X):
        return np.zeros(len(X))


@pytest.mark.thorough
def test_a_worker_that_dies_leaves_no_number():
    model, logs = ActionRewardModel(Dying(os.getpid())), logs_of()
    with pytest.raises(RuntimeError, match=r"worker process died.*n_jobs=1"):
        valued(model, logs, 4, 2)
    with parallel_config(n_jobs=2), pytest.raises(RuntimeError, match="worker"):
        valued(model, logs, 4, None)
    assert not predictions(fitted(model, logs, 4), logs).any()


class Warns(Memory):
    def fit(self, X, y):
        warnings.warn("did not converge", ConvergenceWarning, stacklevel=2)
        return super().fit(X, y)


@pytest.mark.few_cases(1)
@pytest.mark.parametrize("n_jobs", [None, 2])
def test_what_fits_warn_of_is_told_whoever_fitted(n_jobs):
    with pytest.warns(ConvergenceWarning, match="did not converge") as told:
        valued(ActionRewardModel(Warns(), "one_hot"), logs_of(), 4, n_jobs)
    told = [one for one in told if issubclass(one.category, ConvergenceWarning)]
    assert len(told) == 4
