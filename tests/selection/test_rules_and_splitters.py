# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""What searches take: a rule that chooses, and splitters in order."""

import pickle
from functools import partial

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, GroupKFold, KFold, ShuffleSplit

from skope_ope import (
    DRns,
    DRos,
    EvaluatorScorer,
    UniformPolicy,
    in_order,
    one_standard_error,
)
from tests.selection._logs import losses_of, problem

X = np.zeros((12, 1))


def results(losses, metric="score"):
    rows = -np.asarray(losses, dtype=float)
    return {f"split{k}_test_{metric}": row for k, row in enumerate(rows)}


def test_upper_bound_by_hand():
    # means 2, 2.1, 1; sd(ddof=1)/sqrt(3) of (1, 2, 3) is 1/sqrt(3)
    losses = [[1, 2.1, -2], [2, 2.1, 1], [3, 2.1, 4]]
    assert one_standard_error(results(losses)) == 1
    for bounds in ((2 + 3**-0.5, 0), (1 + 3**0.5, 2)):  # that of one of the others
        for step, index in ((-1e-9, 1), (1e-9, bounds[1])):
            others = np.array(losses, dtype=float)
            others[:, 1] = bounds[0] + step
            others[:, 2 - bounds[1]] += 9  # far off
            assert one_standard_error(results(others)) == index


def test_values_of_policies_are_ranked_less_one_standard_error():
    """The greatest mean may be that of one lucky split."""
    values = np.array([[0.50, 0.40], [0.52, 1.10], [0.48, 0.30]])
    assert values.mean(axis=0).argmax() == 1
    assert one_standard_error(results(-values)) == 0


def test_failed_candidates_are_not_chosen():
    losses = [[0.0, 5.0, 0.0], [np.nan, 5.0, np.inf]]
    assert one_standard_error(results(losses)) == 1
    with pytest.raises(ValueError, match=r"all 2 candidates failed.*error_score"):
        one_standard_error(results([[np.nan, 1.0], [1.0, np.nan]]))
    named = {**results([[1.0, 2.0], [np.nan, np.nan]]), "params": [{"q": 1}, {"q": 2}]}
    with pytest.raises(ValueError, match=r"of {'q': 1} in split 1 is nan. The warn"):
        one_standard_error(named)


def test_ties_a_single_split_and_more_than_ten():
    assert one_standard_error(results([[3.0, 1.0, 1.0]])) == 1
    losses = np.ones((12, 2))
    losses[11, 0] = 100.0
    assert one_standard_error(results(losses)) == 1


def test_several_scores_need_a_name():
    both = {**results([[1.0, 2.0]], "a"), **results([[2.0, 1.0]], "b")}
    with pytest.raises(ValueError, match=r"\['a', 'b'\].*partial"):
        one_standard_error(both)
    assert one_standard_error(both, metric="b") == 1


def test_in_searches():
    logs, policy = problem()
    scorers = {"p": EvaluatorScorer(policy), "u": EvaluatorScorer(UniformPolicy())}
    grid, cv = {"lam": [1.0, 10.0, 100.0]}, ShuffleSplit(4, train_size=0.5)
    cv.random_state = 0
    search = GridSearchCV(DRos(), grid, scoring=scorers["p"], cv=cv)
    losses = losses_of(search.set_params(refit=one_standard_error).fit(logs))
    bound = losses.mean(axis=0) + losses.std(axis=0, ddof=1) / 2
    assert search.best_index_ == bound.argmin()
    both = GridSearchCV(DRos(), grid, scoring=scorers, cv=cv)
    both.set_params(refit=partial(one_standard_error, metric="p")).fit(logs)
    assert both.best_index_ == search.best_index_


# -- in_order -------------------------------------------------------------------------
def test_same_parts_sorted():
    plain = ShuffleSplit(3, random_state=0)
    cv = in_order(plain)
    assert cv.get_n_splits(X) == 3
    for ours, theirs in zip(cv.split(X), plain.split(X), strict=True):
        for mine, other in zip(ours, theirs, strict=True):
            np.testing.assert_array_equal(mine, np.sort(other))


def test_numbers_pairs_masks_and_groups():
    parts = [part for split in in_order(3).split(X) for part in split]
    expected = [part for split in KFold(3).split(X) for part in split]
    for one, other in zip(parts, expected, strict=True):
        np.testing.assert_array_equal(one, other)
    mask = np.arange(12) % 2 == 0
    cv = in_order([(np.array([3, 1]), np.array([2, 0])), (mask, ~mask)])
    assert cv.get_n_splits() == 2
    (train, test), (evens, odds) = cv.split(X)
    assert (train.tolist(), test.tolist()) == ([1, 3], [0, 2])
    assert evens.tolist() == [0, 2, 4, 6, 8, 10] and odds[0] == 1
    groups = np.arange(12) // 3
    assert in_order(GroupKFold(2)).get_n_splits(X, None, groups) == 2
    for train, test in in_order(GroupKFold(2)).split(X, None, groups):
        assert not set(groups[train]) & set(groups[test])


def test_splitters_travel():
    cv = in_order(ShuffleSplit(2, random_state=0))
    assert in_order(cv) is cv
    copies = pickle.loads(pickle.dumps(cv)), clone(DRns(cv=cv)).cv
    for copy in copies:
        for ours, theirs in zip(copy.split(X), cv.split(X), strict=True):
            np.testing.assert_array_equal(ours[0], theirs[0])
    assert repr(cv).startswith("in_order(ShuffleSplit(")
    kfold = "KFold(n_splits=3, random_state=None, shuffle=False)"
    assert repr(in_order(3)) == f"in_order({kfold})"


@pytest.mark.parametrize("bad", ["prefit", True, 1.5, None, KFold])
def test_what_is_no_splitter(bad):
    with pytest.raises(TypeError, match="in_order takes a splitter"):
        in_order(bad)
