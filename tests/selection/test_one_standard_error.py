# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

from functools import partial

import numpy as np
import pytest
from sklearn.model_selection import GridSearchCV, ShuffleSplit

from skope_ope import DRos, EvaluatorScorer, UniformPolicy, one_standard_error
from tests.selection._logs import losses_of, problem


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


def test_ties_and_a_single_split():
    assert one_standard_error(results([[3.0, 1.0, 1.0]])) == 1


def test_more_than_ten_splits_are_all_read():
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
    search = GridSearchCV(
        DRos(),
        {"lam": [1.0, 10.0, 100.0]},
        scoring=EvaluatorScorer(policy),
        cv=ShuffleSplit(4, train_size=0.5, random_state=0),
        refit=one_standard_error,
    ).fit(logs)
    losses = losses_of(search)
    bound = losses.mean(axis=0) + losses.std(axis=0, ddof=1) / 2
    assert search.best_index_ == bound.argmin()
    both = GridSearchCV(
        DRos(),
        {"lam": [1.0, 10.0, 100.0]},
        scoring={"p": EvaluatorScorer(policy), "u": EvaluatorScorer(UniformPolicy())},
        cv=ShuffleSplit(4, train_size=0.5, random_state=0),
        refit=partial(one_standard_error, metric="p"),
    ).fit(logs)
    assert both.best_index_ == search.best_index_
