# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import os
import pickle
import warnings

import numpy as np
import pytest
from joblib import parallel_config
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import BaseEstimator, RegressorMixin, clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import (
    GroupKFold,
    KFold,
    LeaveOneOut,
    ShuffleSplit,
    TimeSeriesSplit,
    train_test_split,
)
from sklearn.neighbors import KNeighborsRegressor
from sklearn.utils import resample, shuffle

from skope_ope import (
    ActionRewardModel,
    BanditLogs,
    DirectMethod,
    DoublyRobust,
    UniformPolicy,
)
from skope_ope.datasets import make_bandit_logs
from skope_ope.exceptions import ModelErrorWarning
from skope_ope.reward_models import _cross_fit
from skope_ope.reward_models._cross_fit import CrossFittedModel, MeanReward
from skope_ope.reward_models._sources import FrozenSource, reward_source

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


def predictions(source, logs, chunk=None):
    """All predictions of a source for the rounds of some logs, chunk by chunk."""
    predict = source.bind(logs)
    chunk = chunk or len(logs)
    return np.vstack(
        [
            predict(logs[start : start + chunk], start)
            for start in range(0, len(logs), chunk)
        ]
    )


# -- no round is predicted by a model that saw its reward ---------------------------


@pytest.mark.few_cases
@pytest.mark.parametrize(
    "cv",
    [
        2,
        5,
        None,
        KFold(4, shuffle=True, random_state=0),
        LeaveOneOut(),
        ShuffleSplit(60, random_state=0),
        list(KFold(3).split(X)),
        [
            (np.arange(N) % 2 == 1, np.arange(N) % 2 == 0),
            (range(0, N, 2), range(1, N, 2)),
        ],
    ],
    ids=lambda cv: type(cv).__name__ + (str(cv) if isinstance(cv, int) else ""),
)
@pytest.mark.parametrize("model", MODELS, ids=["per action", "one hot"])
def test_no_round_is_predicted_by_a_model_that_saw_it(model, cv):
    logs = logs_of()
    source = CrossFittedModel(model, logs, cv)
    q_hat = predictions(source, logs)
    assert q_hat[np.arange(N), CODE].max() == 0
    # nor for the actions it did not take, by the model of all actions
    assert model.encoding == "per_action" or q_hat.max() == 0
    assert_array_equal(predictions(source, logs, chunk=7), q_hat)
    assert_array_equal(predictions(source, logs_of()), q_hat)  # built anew
    # a model of all training rounds would know them
    full = predictions(source, other_logs())
    assert full[np.arange(N), CODE].min() == 1


def test_groups_are_held_out_together():
    group = np.arange(N) // 4

    class GroupMemory(Memory):
        def fit(self, X, y):
            self.seen_ = set((np.asarray(X)[:, 0] // 4).tolist())
            return self

        def predict(self, X):
            return np.array([float(x // 4 in self.seen_) for x in np.asarray(X)[:, 0]])

    model = ActionRewardModel(GroupMemory(), "one_hot")
    logs = logs_of(group=group)
    for cv in (5, GroupKFold(3)):
        assert predictions(CrossFittedModel(model, logs, cv), logs).max() == 0
    # plain folds would split groups
    folds = list(KFold(8).split(X))
    assert predictions(CrossFittedModel(model, logs, folds), logs).max() == 1


@pytest.mark.parametrize("cv", [5, KFold(5), ShuffleSplit(9, random_state=0)], ids=str)
@pytest.mark.parametrize("model", MODELS, ids=["per action", "one hot"])
@pytest.mark.filterwarnings("ignore::skope_ope.exceptions.ModelErrorWarning")
def test_rounds_drawn_twice_stay_on_one_side(model, cv, global_random_seed):
    drawn = resample(logs_of(), random_state=global_random_seed)
    source = CrossFittedModel(model, drawn, cv)
    rows = np.arange(N)
    covered = source.held_out_.fold >= 0
    for logs in (drawn, shuffle(drawn, random_state=0)):
        q_hat = predictions(source, logs)[rows, logs.action_index]
        position = drawn.row_id.position[covered]
        assert q_hat[np.isin(logs.row_id.position, position)].max() == 0


def test_time_order_never_looks_ahead():
    logs = logs_of(timestamp=np.arange(N))

    class Latest(Memory):
        def fit(self, X, y):
            self.latest_ = np.asarray(X)[:, 0].max()
            return self

        def predict(self, X):
            assert (np.asarray(X)[:, 0] > self.latest_).all()
            return np.zeros(len(X))

    model = ActionRewardModel(Latest(), "one_hot")
    source = CrossFittedModel(model, logs, TimeSeriesSplit(4))
    assert source.n_uncovered_ == N // 5
    q_hat = predictions(source, logs)
    assert not q_hat[N // 5 :].any()
    covered = np.arange(N) >= N // 5
    means = [REWARD[covered & (k == CODE)].mean() for k in range(3)]
    assert_allclose(q_hat[: N // 5], [means] * (N // 5))


def test_uncovered_rounds_are_counted_in_the_diagnostics():
    logs = logs_of(propensity=np.full(N, 1 / 3))
    evaluator = DoublyRobust(reward_model=Ridge(), cv=TimeSeriesSplit(4)).fit(logs)
    diagnostics = evaluator.evaluate(UniformPolicy()).diagnostics
    assert diagnostics["uncovered_rounds"] == N // 5
    evaluator = DoublyRobust(reward_model=Ridge()).fit(logs)
    assert evaluator.evaluate(UniformPolicy()).diagnostics["uncovered_rounds"] == 0


# -- the same rounds, wherever they turn up -----------------------------------------


def test_rounds_are_recognised_in_other_objects():
    logs = logs_of(propensity=np.full(N, 1 / 3)).with_columns(extra=X)
    train, test = train_test_split(logs, random_state=0)
    source = CrossFittedModel(ActionRewardModel(Ridge()), train, 3)
    q_hat = np.empty((N, 3))
    q_hat[train.row_id.position] = predictions(source, train)
    full = ActionRewardModel(Ridge()).fit(train)
    q_hat[test.row_id.position] = full.predict_logs(test)
    order = RNG.permutation(N)
    for other in (
        logs,
        train[::2],
        test,
        logs[order],
        train.replace(propensity=np.ones(len(train))),
        pickle.loads(pickle.dumps(train)),
        pickle.loads(pickle.dumps(logs[5:40])),
        logs[[3, 3, 3]],
    ):
        expected = q_hat[other.row_id.position]
        assert_allclose(predictions(source, other), expected)
        assert_allclose(predictions(source, other, chunk=4), expected)


def test_evaluators_score_other_rounds_by_the_model_of_all():
    logs = logs_of(propensity=np.full(N, 1 / 3))
    train, test = logs[:40], logs[40:]
    pi = np.full((20, 3), 1 / 3)
    evaluator = DoublyRobust(reward_model=Ridge()).fit(train)
    q_hat = ActionRewardModel(Ridge()).fit(train).predict_logs(test)
    by_hand = DoublyRobust(reward_model=q_hat).fit(test)
    assert evaluator.score(pi, test) == pytest.approx(by_hand.score(pi), rel=1e-12)
    # the rounds of fit are predicted out of fold in whatever order they come
    order = RNG.permutation(40)
    again = evaluator.evaluate(UniformPolicy(), train[order]).round_values
    assert_allclose(again, evaluator.evaluate(UniformPolicy()).round_values[order])


def test_the_model_of_all_rounds_is_fitted_when_others_ask():
    fits = []

    class Counting(Ridge):
        def fit(self, X, y, sample_weight=None):
            fits.append(len(y))
            return super().fit(X, y, sample_weight)

    source = CrossFittedModel(ActionRewardModel(Counting(), "one_hot"), logs_of(), 3)
    assert fits == [40] * 3
    predictions(source, source.logs)
    assert len(fits) == 3
    predictions(source, logs_of())  # the rounds of fit, built anew
    assert len(fits) == 3
    predictions(source, other_logs())
    predictions(source, other_logs())
    assert fits == [40, 40, 40, 60]


# -- actions that a fold never saw --------------------------------------------------


def test_an_action_missing_from_a_fold_warns_and_gets_the_mean_reward():
    code = np.zeros(10, dtype=int)
    code[1::2] = 1
    code[9] = 2  # logged once, in the last fold
    logs = BanditLogs(X[:10], code, REWARD[:10], actions=[0, 1, 2, 3])
    with pytest.warns(ModelErrorWarning) as record:
        source = CrossFittedModel(ActionRewardModel(Ridge()), logs, 5)
    assert [w.message.value for w in record] == [1]
    message = str(record[0].message)
    assert (
        "1 action(s) have no round in the training part of a fold ([2]; 1 in fold 4)"
        in message
    )
    assert "the mean reward of that part" in message
    q_hat = predictions(source, logs)
    assert_allclose(q_hat[8:, 2], REWARD[:8].mean())
    # an action that was logged nowhere gets the mean as well, and no warning
    assert_allclose(q_hat[8:, 3], REWARD[:8].mean())
    assert_allclose(q_hat[:2, 3], REWARD[2:10].mean())


def test_all_folds_warn_once():
    code = np.arange(10)  # all logged once: every fold lacks two of them
    logs = BanditLogs(X[:10], code, REWARD[:10])
    with pytest.warns(ModelErrorWarning) as record:
        CrossFittedModel(ActionRewardModel(Ridge()), logs, 5)
    [message] = [str(w.message) for w in record]
    assert message.startswith("10 action(s) have no round in the training part of a")
    assert "([0, 1, 2, 3, 4, ...]; 2 in fold 0, 2 in fold 1, " in message
    with pytest.warns(ModelErrorWarning, match=r"1 in fold 4, \.\.\.\)") as record:
        CrossFittedModel(ActionRewardModel(Ridge()), logs, 10)
    assert [w.message.value for w in record] == [10]


def test_folds_without_weights_warn_once():
    weighted = BanditLogs(X, CODE, REWARD, sample_weight=np.linspace(1, 2, len(X)))
    for n_jobs in (None, 2):
        with warnings.catch_warnings(record=True) as told, parallel_config("threading"):
            warnings.simplefilter("always")
            model = ActionRewardModel(KNeighborsRegressor(1))
            CrossFittedModel(model, weighted, 5, n_jobs=n_jobs)
        told = [one for one in told if "takes no sample_weight" in str(one.message)]
        assert len(told) == 1


def test_one_model_for_all_actions_says_what_it_does_instead():
    code = np.append(np.zeros(9, dtype=int), 1)
    logs = BanditLogs(X[:10], code, REWARD[:10])
    with pytest.warns(ModelErrorWarning, match="from the rounds of other actions"):
        CrossFittedModel(ActionRewardModel(Ridge(), "one_hot"), logs, 5)


def test_classifiers_survive_folds_of_one_class():
    reward = np.zeros(20)
    reward[:4] = 1  # the other folds never see a one
    logs = BanditLogs(X[:20], np.zeros(20, dtype=int), reward)
    source = CrossFittedModel(ActionRewardModel(LogisticRegression()), logs, 5)
    q_hat = predictions(source, logs)
    assert_array_equal(q_hat[:4], 0)
    assert (q_hat[4:] > 0).all()


# -- the mean reward, the default ---------------------------------------------------


def test_mean_reward_per_action():
    logs = logs_of(actions=[2, 5, 0, 1])
    model = MeanReward().fit(logs)
    expected = [REWARD[label == CODE].mean() for label in (2, 0, 1)]
    assert_allclose(model.predict_logs(logs)[0], np.insert(expected, 1, REWARD.mean()))
    assert_allclose(model.predict_logs(logs_of())[3], np.array(expected)[[1, 2, 0]])
    with pytest.raises(ValueError, match="action 9 of the logs was unknown"):
        model.predict_logs(BanditLogs(X[:1], [9], [0.0]))
    assert not hasattr(clone(model), "means_")


def test_mean_reward_is_weighted():
    weight = 1.0 + np.arange(N) % 3
    expected = [
        np.average(REWARD[k == CODE], weights=weight[k == CODE]) for k in range(3)
    ]
    for model in (
        MeanReward().fit(logs_of(sample_weight=weight)),
        MeanReward().fit(logs_of(), sample_weight=weight),
    ):
        assert_allclose(model.means_, expected)
    nothing = MeanReward().fit(logs_of(), sample_weight=np.zeros(N))
    assert_allclose(nothing.means_, MeanReward().fit(logs_of()).means_)
    some = np.where(CODE == 1, 0.0, 1.0)  # an action without weight gets the mean
    model = MeanReward().fit(logs_of(), sample_weight=some)
    assert model.means_[1] == pytest.approx(np.average(REWARD, weights=some))


def test_default_of_evaluators_is_the_out_of_fold_mean_per_action():
    logs = logs_of()
    expected = np.empty((N, 3))
    for train, test in KFold(5).split(X):
        for k in range(3):
            expected[test, k] = REWARD[train][CODE[train] == k].mean()
    pi = RNG.dirichlet(np.ones(3), size=N)
    with pytest.warns(ModelErrorWarning, match="leaves out the error"):
        value = DirectMethod().fit(logs).score(pi)
    assert value == pytest.approx((pi * expected).sum(axis=1).mean(), rel=1e-12)


# -- weights of the logs ------------------------------------------------------------


def test_weights_reach_the_models_of_all_folds():
    weight = 1.0 + np.arange(N) % 3
    for fields, given in (({"sample_weight": weight}, None), ({}, weight)):
        logs = logs_of(**fields)
        source = CrossFittedModel(ActionRewardModel(Ridge()), logs, 3, given)
        expected = np.empty((N, 3))
        for train, test in KFold(3).split(X):
            for k in range(3):
                rows = train[CODE[train] == k]
                by_hand = Ridge().fit(X[rows], REWARD[rows], sample_weight=weight[rows])
                expected[test, k] = by_hand.predict(X[test])
        assert_allclose(predictions(source, logs), expected)
        full = ActionRewardModel(Ridge()).fit(logs_of(), sample_weight=weight)
        other = other_logs()
        assert_allclose(predictions(source, other), full.predict_logs(other))


def test_weights_of_a_training_part_may_all_be_zero():
    weight = np.where(np.arange(N) < 20, 0.0, 1.0)
    cv = [(range(20), range(20, N)), (range(20, N), range(20))]
    for model in (ActionRewardModel(Ridge()), MeanReward()):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            source = CrossFittedModel(model, logs_of(sample_weight=weight), cv)
        assert np.isfinite(predictions(source, source.logs)).all()


def test_pickled_sources_predict_the_same():
    logs = logs_of()
    source = CrossFittedModel(ActionRewardModel(Ridge()), logs, 3)
    other = pickle.loads(pickle.dumps(source))
    assert_array_equal(predictions(other, logs), predictions(source, logs))


def test_kept_predictions_answer_like_the_models():
    logs = make_bandit_logs(120, random_state=0)
    part = logs[np.arange(80)]
    plain = CrossFittedModel(ActionRewardModel(Ridge()), part, 4)
    models = dict(plain.models_)
    kept = plain.shared(part)
    for rounds in (part, part[10:30], logs):
        np.testing.assert_allclose(
            kept.bind(rounds)(rounds, 0), plain.bind(rounds)(rounds, 0), rtol=1e-12
        )
    np.testing.assert_array_equal(
        kept.bind(part)(part[20:40], 20), kept.bind(part)(part, 0)[20:40]
    )
    assert kept.held_out_ is plain.held_out_ and kept.n_uncovered_ == 0
    assert all(plain.models_[k] is model for k, model in models.items())
    assert reward_source(kept, part) is kept


def test_predictions_of_a_frozen_model_are_kept_as_well():
    logs = make_bandit_logs(80, random_state=0)
    source = FrozenSource(ActionRewardModel(Ridge()).fit(logs))
    kept = source.shared(logs)
    assert kept.held_out_ is None
    assert_array_equal(kept.table, predictions(source, logs))


def test_predictions_without_room_are_not_kept(monkeypatch):
    logs = make_bandit_logs(80, random_state=0)
    source = CrossFittedModel(ActionRewardModel(Ridge()), logs, 4)
    monkeypatch.setattr(_cross_fit, "LARGEST_TABLE", 8 * 80 * logs.n_actions - 1)
    assert source.shared(logs) is source
    monkeypatch.setattr(_cross_fit, "LARGEST_TABLE", 8 * 80 * logs.n_actions)
    assert source.shared(logs) is not source


# -- what is taken from the logs -----------------------------------------------------


@pytest.mark.parametrize("group", [None, np.arange(N) // 3], ids=["", "groups"])
@pytest.mark.parametrize(
    "cv", [5, GroupKFold(4), TimeSeriesSplit(3)], ids=lambda cv: type(cv).__name__
)
@pytest.mark.filterwarnings("ignore::skope_ope.exceptions.ModelErrorWarning")
def test_the_mean_model_takes_no_context(cv, group, monkeypatch):
    logs = logs_of(group=group)
    if group is None and isinstance(cv, GroupKFold):
        cv = KFold(4, shuffle=True, random_state=0)
    taken = []
    take = BanditLogs.__getitem__

    def watched(self, key):
        taken.append(key)
        return take(self, key)

    monkeypatch.setattr(BanditLogs, "__getitem__", watched)
    predictions(CrossFittedModel(MeanReward(), logs, cv), logs, chunk=7)
    assert all(isinstance(key, slice) for key in taken)  # cuts are no copies
    taken.clear()
    predictions(CrossFittedModel(ActionRewardModel(Memory()), logs, 5), logs_of())
    assert not any(isinstance(key, np.ndarray) and len(key) > N / 2 for key in taken)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(
    "cv",
    [5, KFold(4, shuffle=True, random_state=0), TimeSeriesSplit(3)],
    ids=lambda cv: type(cv).__name__,
)
@pytest.mark.filterwarnings("ignore::skope_ope.exceptions.ModelErrorWarning")
def test_means_of_folds_are_those_of_their_rows(cv, weighted, global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    weight = rng.integers(0, 3, N).astype(float) if weighted else None
    reward = rng.normal(size=N)
    reward[0] = 1e16  # of which a difference of sums would leave nothing
    logs = BanditLogs(X, CODE, reward, sample_weight=weight)
    for by_action in (True, False):
        source = CrossFittedModel(MeanReward(by_action), logs, cv)
        for k, train in enumerate(source.held_out_.train):
            plain = MeanReward(by_action).fit(logs[train])
            assert_allclose(source.models_[k].means_, plain.means_, rtol=1e-12)


def test_weights_that_vanish_in_a_fold_leave_plain_means():
    weight = np.zeros(6)
    weight[:3] = 1.0  # the second fold learns from these alone, the first from none
    logs = BanditLogs(np.zeros((6, 1)), [0, 1, 0, 1, 0, 1], np.arange(6.0))
    source = CrossFittedModel(MeanReward(), logs, KFold(2), weight)
    assert source.models_[0].means_.tolist() == [4.0, 4.0]
    by_number = CrossFittedModel(MeanReward(), logs, 2, weight)
    for k in (0, 1):
        assert_array_equal(by_number.models_[k].means_, source.models_[k].means_)


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
        CrossFittedModel(model, logs, 4, n_jobs=2)
    assert not predictions(CrossFittedModel(model, logs, 4), logs).any()


@pytest.mark.thorough
def test_workers_follow_the_configuration_of_joblib():
    model, logs = ActionRewardModel(Dying(os.getpid())), logs_of()
    with parallel_config(n_jobs=2), pytest.raises(RuntimeError, match="worker"):
        CrossFittedModel(model, logs, 4)


class Warns(Memory):
    def fit(self, X, y):
        warnings.warn("did not converge", ConvergenceWarning, stacklevel=2)
        return super().fit(X, y)


@pytest.mark.few_cases(1)
@pytest.mark.parametrize("n_jobs", [None, 2])
def test_what_fits_warn_of_is_told_whoever_fitted(n_jobs):
    with pytest.warns(ConvergenceWarning, match="did not converge") as told:
        CrossFittedModel(
            ActionRewardModel(Warns(), "one_hot"), logs_of(), 4, None, n_jobs
        )
    assert len(told) == 4
