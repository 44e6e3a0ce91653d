# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.model_selection import (
    GroupKFold,
    KFold,
    LeaveOneOut,
    ShuffleSplit,
    StratifiedKFold,
    TimeSeriesSplit,
)
from sklearn.utils import resample

from skope_ope import BanditLogs, SlateLogs
from skope_ope.logs._folds import FULL, UNCOVERED, HeldOut


def logs_of(n_rounds=20, **fields):
    return BanditLogs(
        np.arange(n_rounds)[:, None],
        np.arange(n_rounds) % 3,
        np.ones(n_rounds),
        **fields,
    )


def test_an_int_is_kfold_without_shuffling():
    logs = logs_of(11)
    for cv in (3, np.int64(3)):
        held_out = HeldOut(logs, cv)
        for k, (train, test) in enumerate(KFold(3).split(logs)):
            assert_array_equal(held_out.train[k], train)
            assert (held_out.fold[test] == k).all()


@pytest.mark.parametrize(
    "cv", [3, KFold(3, shuffle=True, random_state=0), TimeSeriesSplit(3)], ids=str
)
def test_sums_of_training_parts(cv):
    logs = logs_of(20)
    held_out = HeldOut(logs, cv)
    weight = np.random.default_rng(0).normal(size=20)
    weight[0] = 1e18  # of which a difference of sums would leave nothing
    counts, sums = held_out.train_sums(logs.action_index, 3, [None, weight])
    for k, train in enumerate(held_out.train):
        codes = logs.action_index[train]
        assert_array_equal(counts[k], np.bincount(codes, minlength=3))
        assert_allclose(sums[k], np.bincount(codes, weight[train]), rtol=1e-12)


def test_training_parts_that_are_made_when_they_are_asked_for():
    train = HeldOut(logs_of(7), 3).train
    assert [rows.tolist() for rows in train] == [
        [3, 4, 5, 6],
        [0, 1, 2, 5, 6],
        [0, 1, 2, 3, 4],
    ]
    with pytest.raises(IndexError, match="fold 3 of 3"):
        train[3]


def test_none_is_five_folds():
    logs = logs_of()
    assert_array_equal(HeldOut(logs, None).fold, HeldOut(logs, 5).fold)


def test_no_more_folds_than_rounds():
    assert HeldOut(logs_of(3), 5).fold.tolist() == [0, 1, 2]


def test_an_int_keeps_groups_together():
    group = np.array(list("ababcdcdefef"))
    held_out = HeldOut(logs_of(12, group=group), 3)
    for label in "abcdef":
        assert len(np.unique(held_out.fold[group == label])) == 1
    for k, train in enumerate(held_out.train):
        assert not set(group[train]) & set(group[held_out.fold == k])


@pytest.mark.parametrize(
    "splitter",
    [KFold(4, shuffle=True, random_state=0), StratifiedKFold(3), LeaveOneOut()],
    ids=str,
)
def test_splitters_of_scikit_learn(splitter):
    logs = logs_of()
    held_out = HeldOut(logs, splitter)
    for k, (train, test) in enumerate(splitter.split(logs, logs.action)):
        assert_array_equal(held_out.train[k], train)
        assert (held_out.fold[test] == k).all()


def test_a_splitter_receives_the_groups_of_the_logs():
    group = np.arange(20) // 4
    held_out = HeldOut(logs_of(group=group), GroupKFold(5))
    for label in range(5):
        assert len(np.unique(held_out.fold[group == label])) == 1


def test_rows_of_several_test_parts_belong_to_the_first():
    logs = logs_of()
    splitter = ShuffleSplit(4, test_size=0.5, random_state=0)
    held_out = HeldOut(logs, splitter)
    tests = [test for _, test in splitter.split(logs)]
    for row in range(len(logs)):
        mine = [k for k, test in enumerate(tests) if row in test]
        assert held_out.fold[row] == (mine[0] if mine else UNCOVERED)


def test_rows_before_the_first_test_part_are_uncovered():
    held_out = HeldOut(logs_of(20), TimeSeriesSplit(3))
    assert held_out.fold.tolist() == [UNCOVERED] * 5 + [0] * 5 + [1] * 5 + [2] * 5


def test_pairs_of_rows_or_masks():
    logs = logs_of(6)
    first = np.arange(6) < 3
    pairs = [(np.flatnonzero(~first), np.flatnonzero(first)), (first, ~first)]
    for cv in (pairs, iter(pairs), [([3, 4, 5], [0, 1, 2]), (first.tolist(), ~first)]):
        held_out = HeldOut(logs, cv)
        assert held_out.fold.tolist() == [0, 0, 0, 1, 1, 1]
        assert [train.tolist() for train in held_out.train] == [[3, 4, 5], [0, 1, 2]]


def test_an_empty_test_part_does_no_harm():
    assert HeldOut(logs_of(4), [([0, 1], [2, 3]), ([0, 1], [])]).fold[3] == 0


@pytest.mark.parametrize(
    ("cv", "error", "message"),
    [
        ([], ValueError, "no test round. A generator can be used only once"),
        pytest.param(iter([]), ValueError, "no test round", id="iterator"),
        ([([0], [])], ValueError, "no test round"),
        ([([0, 1], [1, 2])], ValueError, "puts row 1 into the training and the test"),
        ([([-1, 0], [3])], ValueError, "cv names row -1, the logs have rows 0 to 3"),
        ([([0], [4])], ValueError, "cv names row 4, the logs have rows 0 to 3"),
        ([([], [1])], ValueError, "no training round in fold 0"),
        ([([0.0], [1.0])], ValueError, "row numbers or boolean masks.*float64"),
        ([([[0]], [[1]])], ValueError, r"array of shape \(1, 1\)"),
        ([([True], [False])], ValueError, "mask of 1 rows, the logs have 4"),
        ([([0], [1], [2])], ValueError, r"pairs \(train, test\)"),
        ([3], ValueError, r"pairs \(train, test\), got 3 as fold 0"),
        (1, ValueError, "at least two rounds and two folds, got 4 rounds and cv=1"),
        (2.5, TypeError, "number of folds, a splitter or pairs .* got 2.5"),
        ("5", TypeError, "number of folds"),
    ],
    ids=str,
)
def test_what_cannot_hold_out_is_refused(cv, error, message):
    with pytest.raises(error, match=message):
        HeldOut(logs_of(4), cv)


def test_one_round_or_one_group_cannot_be_split():
    with pytest.raises(ValueError, match=r"at least two rounds.*FrozenEstimator"):
        HeldOut(logs_of(1), 5)
    with pytest.raises(ValueError, match=r"at least two groups .* got 1 groups"):
        HeldOut(logs_of(4, group=np.zeros(4)), 5)


def test_rows_are_recognised_wherever_they_turn_up():
    logs = logs_of(30)
    fitted = logs[:20]
    held_out = HeldOut(fitted, 4)
    order = np.random.RandomState(0).permutation(30)
    expected = np.append(held_out.fold, np.full(10, FULL))
    assert_array_equal(held_out.of(fitted), held_out.fold)
    assert_array_equal(held_out.of(logs), expected)
    assert_array_equal(held_out.of(logs[order]), expected[order])
    assert_array_equal(held_out.of(logs[::3]), expected[::3])
    assert_array_equal(held_out.of(logs[25:]), [FULL] * 5)
    assert held_out.of(logs[:0]).tolist() == []
    assert_array_equal(held_out.of(pickle.loads(pickle.dumps(logs))), expected)
    assert_array_equal(held_out.of(logs.replace(propensity=np.ones(30))), expected)
    assert_array_equal(held_out.of(logs.with_columns(x=order)), expected)
    assert_array_equal(held_out.of(logs[[0, 0, 29, 0]]), [0, 0, FULL, 0])


def test_rows_are_recognised_in_logs_that_were_built_anew():
    held_out = HeldOut(logs_of(60)[:45], 5)
    expected = np.append(held_out.fold, [FULL] * 15)
    assert_array_equal(held_out.of(logs_of(60)), expected)
    drawn = np.array([3, 3, 57, 0, 14, 3, 9, 8, 7, 6, 5, 4, 2])  # copies in one fold
    assert_array_equal(held_out.of(logs_of(60)[drawn]), expected[drawn])
    others = BanditLogs(np.ones((60, 1)), np.arange(60) % 3, np.ones(60))
    assert_array_equal(held_out.of(others), [FULL] * 60)


@pytest.mark.parametrize(
    "cv", [3, KFold(3), TimeSeriesSplit(3), ShuffleSplit(3, random_state=0)], ids=str
)
def test_copies_of_a_round_stay_on_one_side(cv, global_random_seed):
    drawn = resample(logs_of(), random_state=global_random_seed)
    position = drawn.row_id.position
    held_out = HeldOut(drawn, cv)
    for k, train in enumerate(held_out.train):
        assert not set(position[train]) & set(position[held_out.fold == k])
    # a copy of a covered round is covered
    covered = set(position[held_out.fold != UNCOVERED])
    assert not covered & set(position[held_out.fold == UNCOVERED])


def test_groups_come_before_copies():
    logs = logs_of(6, group=[0, 0, 1, 1, 2, 2])[[0, 0, 1, 2, 3, 4, 5, 5]]
    fold = HeldOut(logs, 3).fold
    assert len({*fold[:3]}) == len({*fold[3:5]}) == len({*fold[5:]}) == 1


def test_slates_are_split_too():
    logs = SlateLogs(np.zeros((6, 1)), [[0, 1]] * 6, np.ones(6))
    for cv in (3, KFold(3)):
        assert HeldOut(logs, cv).fold.tolist() == [0, 0, 1, 1, 2, 2]


def test_folds_in_the_order_of_time_pass_over_groups():
    logs = logs_of(20, group=np.arange(20) % 3)
    held_out = HeldOut(logs, TimeSeriesSplit(3))  # scikit-learn would warn
    alone = HeldOut(logs_of(20), TimeSeriesSplit(3))
    assert_array_equal(held_out.fold, alone.fold)


def test_folds_inside_of_a_fold_have_seen_none_of_its_test_rounds():
    logs = logs_of(20)
    for cv in (KFold(4), TimeSeriesSplit(3), KFold(2), LeaveOneOut()):
        folds = list(cv.split(np.arange(20)))
        held_out = HeldOut(logs, cv)
        for k, (train, _) in enumerate(folds):
            found = [
                (train[a].tolist(), train[b].tolist()) for a, b in held_out.inside(k)
            ]
            expected = [
                (np.intersect1d(train, a).tolist(), np.intersect1d(train, b).tolist())
                for m, (a, b) in enumerate(folds)
                if m != k
            ]
            assert found == [pair for pair in expected if pair[0] and pair[1]]


@pytest.mark.parametrize("sizes", [(12, 8), (17, 2, 11), (25, 1)])
def test_an_int_shares_the_rounds_of_every_logger_among_the_folds(sizes):
    logger = np.repeat(np.arange(len(sizes)), sizes)
    n = len(logger)
    logs = logs_of(n, logger=logger)
    held_out = HeldOut(logs, 4)
    assert (held_out.fold >= 0).all()
    for k, size in enumerate(sizes):
        counts = np.bincount(held_out.fold[logger == k], minlength=4)
        assert counts.max() - counts.min() <= 1, (k, size)
    # a splitter is taken as it is, and one logger is no reason for other folds
    assert_array_equal(HeldOut(logs, KFold(4)).fold, HeldOut(logs_of(n), 4).fold)
    one = logs_of(n, logger=np.zeros(n))
    assert_array_equal(HeldOut(one, 4).fold, HeldOut(logs_of(n), 4).fold)


def test_loggers_of_fewer_rounds_than_folds_do_not_decide_on_them():
    logs = logs_of(12, logger=np.repeat(np.arange(6), 2))
    assert_array_equal(HeldOut(logs, 4).fold, HeldOut(logs_of(12), 4).fold)
