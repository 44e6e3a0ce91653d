# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Folds: which rounds the model that predicts a round has learned from."""

import pickle

import numpy as np
import pytest
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.model_selection import (
    GroupKFold,
    KFold,
    LeaveOneOut,
    ShuffleSplit,
    StratifiedKFold,
    TimeSeriesSplit,
)
from sklearn.utils import resample

from skope_ope import (
    ActionRewardModel,
    BanditLogs,
    DirectMethod,
    SlateDirectMethod,
    SlateLogs,
    UniformPolicy,
    UniformSlatePolicy,
)

pytestmark = pytest.mark.filterwarnings("ignore::skope_ope.exceptions.OPEWarning")


class Learned(RegressorMixin, BaseEstimator):
    """Predicts the sum of 2**x over the distinct x that it has learned from."""

    def fit(self, X, y):
        self.found_ = float(sum(2 ** int(x) for x in {*X[:, 0].tolist()}))
        return self

    def predict(self, X):
        return np.full(len(X), self.found_)


def logs_of(n_rounds=20, **fields):
    rows = np.arange(n_rounds)
    reward = np.full(n_rounds, 0.5)  # what uncovered rounds are predicted
    return BanditLogs(rows[:, None], rows % 3, reward, **fields)


def trained_on(logs, cv, other=None):
    """For every round the rows that its model has learned from; None if uncovered."""
    model = ActionRewardModel(Learned(), encoding="one_hot")
    evaluator = DirectMethod(reward_model=model, cv=cv).fit(logs)
    if logs.group is not None:  # round values of groups are no predictions
        other = logs.replace(group=None)
    return rows_of(evaluator.evaluate(UniformPolicy(), other).round_values)


def rows_of(predictions):
    return [
        None if abs(x - 0.5) < 1e-3 else {k for k in range(50) if round(x) >> k & 1}
        for x in predictions.tolist()
    ]


def by_hand(n_rounds, folds):
    """The same from pairs of rows; the first test part of a round counts."""
    found = [None] * n_rounds
    for train, test in reversed([*folds]):
        for row in test:
            found[row] = {*train.tolist()}
    return found


def test_splitters_of_scikit_learn():
    """Some leave the first rounds uncovered, or rounds in several test parts."""
    logs, late = logs_of(), TimeSeriesSplit(3)
    some = ShuffleSplit(4, test_size=0.5, random_state=0), StratifiedKFold(3)
    for cv in (*some, KFold(4, shuffle=True, random_state=0), LeaveOneOut(), late):
        assert trained_on(logs, cv) == by_hand(20, cv.split(logs, logs.action))


def test_an_int_is_kfold_without_shuffling():
    for cv in (3, np.int64(3)):
        assert trained_on(logs_of(11), cv) == by_hand(11, KFold(3).split(range(11)))
    logs = logs_of()
    assert trained_on(logs, None) == trained_on(logs, 5)
    # no more folds than rounds
    assert trained_on(logs_of(3), 5) == [{1, 2}, {0, 2}, {0, 1}]
    with pytest.raises(ValueError, match=r"at least two rounds.*FrozenEstimator"):
        trained_on(logs_of(1), 5)
    with pytest.raises(ValueError, match=r"at least two groups .* got 1 groups"):
        trained_on(logs_of(4, group=np.zeros(4)), 5)


def test_an_int_and_a_splitter_keep_groups_together():
    group = np.array(list("ababcdcdefef"))
    for cv in (3, GroupKFold(3)):
        found = trained_on(logs_of(12, group=group), cv)
        for row, train in enumerate(found):
            assert len(train) == 8
            assert group[row] not in group[[*train]]
    logs = logs_of(6, group=[0, 0, 1, 1, 2, 2])[[0, 0, 1, 2, 3, 4, 5, 5]]
    pairs = [{2, 3, 4, 5}] * 3 + [{0, 1, 4, 5}] * 2 + [{0, 1, 2, 3}] * 3
    assert trained_on(logs, 3) == pairs
    logs = logs_of(20, group=np.arange(20) % 3)  # scikit-learn would warn
    cv = TimeSeriesSplit(3)
    assert trained_on(logs, cv) == trained_on(logs_of(20), cv)


def test_pairs_of_rows_or_masks():
    first = np.arange(6) < 3
    pairs = [(np.flatnonzero(~first), np.flatnonzero(first)), (first, ~first)]
    for cv in (pairs, iter(pairs), [([3, 4, 5], [0, 1, 2]), (first.tolist(), ~first)]):
        assert trained_on(logs_of(6), cv) == [{3, 4, 5}] * 3 + [{0, 1, 2}] * 3
    # an empty test part does no harm
    assert trained_on(logs_of(4), [([0, 1], [2, 3]), ([0, 1], [])])[3] == {0, 1}


@pytest.mark.parametrize(
    ("cv", "message"),
    [
        ([], "no test round. A generator can be used only once"),
        pytest.param(iter([]), "no test round", id="iterator"),
        ([([0], [])], "no test round"),
        ([([0, 1], [1, 2])], "puts row 1 into the training and the test"),
        ([([-1, 0], [3])], "cv names row -1, the logs have rows 0 to 3"),
        ([([0], [4])], "cv names row 4, the logs have rows 0 to 3"),
        ([([], [1])], "no training round in fold 0"),
        ([([0.0], [1.0])], "row numbers or boolean masks.*float64"),
        ([([[0]], [[1]])], r"array of shape \(1, 1\)"),
        ([([True], [False])], "mask of 1 rows, the logs have 4"),
        ([([0], [1], [2])], r"pairs \(train, test\)"),
        ([3], r"pairs \(train, test\), got 3 as fold 0"),
        (1, "'cv' parameter of DirectMethod must be an int in the range"),
        (2.5, "'cv' parameter of DirectMethod must be an int"),
        ("5", "cv must be 'prefit', a number or folds, got '5'"),
    ],
    ids=str,
)
def test_what_cannot_hold_out_is_refused(cv, message):
    with pytest.raises(ValueError, match=message):
        trained_on(logs_of(4), cv)


def test_rows_are_recognised_wherever_they_turn_up():
    logs = logs_of(30)
    expected = np.array(trained_on(logs[:20], 4) + [{*range(20)}] * 10)
    order = np.random.RandomState(0).permutation(30)
    for other, rows in (
        (logs[:20], slice(20)),
        (logs, slice(None)),
        (logs[order], order),
        (logs[::3], slice(None, None, 3)),
        (logs[25:], slice(25, None)),
        (pickle.loads(pickle.dumps(logs)), slice(None)),
        (logs.replace(propensity=np.ones(30)), slice(None)),
        (logs.with_columns(x=order), slice(None)),
        (logs[[0, 0, 29, 0]], [0, 0, 29, 0]),
    ):
        assert trained_on(logs[:20], 4, other) == expected[rows].tolist()


def test_rows_are_recognised_in_logs_that_were_built_anew():
    fitted, n = logs_of(48)[:36], 48
    expected = np.array(trained_on(fitted, 4) + [{*range(36)}] * 12)
    assert trained_on(fitted, 4, logs_of(n)) == expected.tolist()
    drawn = np.array([3, 3, 47, 0, 14, 3, 9, 8, 7, 6, 5, 4, 2])  # copies in one fold
    assert trained_on(fitted, 4, logs_of(n)[drawn]) == expected[drawn].tolist()
    others = BanditLogs(np.ones((n, 1)), np.arange(n) % 3, np.ones(n))
    assert trained_on(fitted, 4, others) == [{*range(36)}] * n


@pytest.mark.parametrize(
    "cv", [3, KFold(3), TimeSeriesSplit(3), ShuffleSplit(3, random_state=0)], ids=str
)
def test_copies_of_a_round_stay_on_one_side(cv, global_random_seed):
    drawn = resample(logs_of(), random_state=global_random_seed)
    found = trained_on(drawn, cv)
    rows = drawn.row_id.position.tolist()
    of_row = dict(zip(rows, found, strict=True))
    for row, train in zip(rows, found, strict=True):
        assert (train is None) == (of_row[row] is None)
        assert train is None or row not in train


@pytest.mark.parametrize("sizes", [(12, 8), (17, 2, 11), (25, 1)])
def test_an_int_shares_the_rounds_of_every_logger_among_the_folds(sizes):
    logger = np.repeat(np.arange(len(sizes)), sizes)
    n = len(logger)
    logs, plain = logs_of(n, logger=logger), logs_of(n)
    found = trained_on(logs, 4)
    for k, size in enumerate(sizes):
        rows = np.flatnonzero(logger == k)
        left = [len({*rows.tolist()} - found[row]) for row in rows]
        assert max(left) - min(left) <= 1 and max(left) <= size // 4 + 1
    # a splitter is taken as it is, and one logger is no reason for other folds, nor
    # are loggers of fewer rounds than folds
    assert trained_on(logs, KFold(4)) == trained_on(plain, 4)
    for same in (np.zeros(n), np.arange(n) // 2):
        assert trained_on(logs_of(n, logger=same), 4) == trained_on(plain, 4)


def test_slates_are_split_too():
    logs = SlateLogs(np.arange(6)[:, None], [[0, 1]] * 6, np.full(6, 0.5))
    for cv in (3, KFold(3)):
        evaluator = SlateDirectMethod(reward_model=Learned(), cv=cv).fit(logs)
        found = evaluator.evaluate(UniformSlatePolicy(2)).round_values
        assert rows_of(found) == by_hand(6, KFold(3).split(range(6)))
