# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause


import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn import config_context
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import GridSearchCV, cross_validate

from skope_ope import (
    IPS,
    BanditLogs,
    ClassifierPolicy,
    DoublyRobust,
    PolicyScorer,
    SlateLogs,
    UniformPolicy,
)
from skope_ope.datasets import make_bandit_logs
from skope_ope.logs import HashKFold

RNG = np.random.default_rng(0)


def folds_of(cv, X, groups=None):
    """Fold of every row; each is in one test part and in the other training parts."""
    n = X.shape[0]
    fold = np.full(n, -1)
    for k, (train, test) in enumerate(cv.split(X, groups=groups)):
        assert (fold[test] == -1).all()
        fold[test] = k
        assert_array_equal(np.sort(np.concatenate([train, test])), np.arange(n))
    assert fold.min() == 0
    return fold


def logs_of(group, n=None):
    n = len(group) if n is None else n
    return BanditLogs(np.zeros((n, 1)), np.arange(n) % 2, np.ones(n), group=group)


LABELS = {
    "integers": RNG.integers(0, 300, 2000),
    "multiples of ten": RNG.integers(0, 300, 2000) * 10,
    "texts": np.array([f"user-{i}" for i in RNG.integers(0, 300, 2000)]),
    "tuples": [(int(i), "x") for i in RNG.integers(0, 300, 2000)],
}


@pytest.mark.parametrize("kind", LABELS)
def test_folds_are_about_equally_large_and_of_each_row_alone(kind):
    logs, cv = logs_of(LABELS[kind]), HashKFold(3)
    for random_state in (None, 1, 2):
        fold = folds_of(HashKFold(5, random_state), logs)
        assert logs.n_groups > 290
        counts = [logs[fold == k].n_groups for k in range(5)]
        assert sum(counts) == logs.n_groups  # no group lies in two folds
        assert 35 < min(counts) <= max(counts) < 85
    fold = cv.fold_of(logs)
    assert_array_equal(fold, folds_of(cv, logs))
    rows = RNG.permutation(len(logs))[:700]
    assert_array_equal(cv.fold_of(logs[rows]), fold[rows])
    assert_array_equal(cv.fold_of(logs[rows].context, logs[rows].group), fold[rows])
    assert cv.fold_of(logs[:0]).tolist() == []


def test_rows_without_groups_keep_their_folds_too():
    logs = logs_of(None, n=600)
    fold = folds_of(HashKFold(), logs)
    assert np.bincount(fold).min() > 90
    rows = RNG.integers(0, 600, 300)  # some rows twice: they stay together
    assert_array_equal(folds_of(HashKFold(), logs[rows]), fold[rows])
    X = np.zeros((600, 2))
    assert_array_equal(folds_of(HashKFold(), X), fold)
    # groups that are passed come first, and slates are split likewise
    groups = [f"g{i // 5}" for i in range(600)]
    fold = folds_of(HashKFold(2), logs_of(np.arange(600)), groups)
    assert_array_equal(fold, np.repeat(fold[::5], 5))
    assert_array_equal(fold, folds_of(HashKFold(2), X, groups))
    slates = SlateLogs(X, [[0, 1]] * 600, np.ones(600), group=groups)
    assert_array_equal(fold, folds_of(HashKFold(2), slates))


def test_a_seed_assigns_the_groups_anew():
    groups = np.arange(1000)
    X = np.zeros((1000, 1))
    folds = {seed: folds_of(HashKFold(5, seed), X, groups) for seed in (None, 0, 1, 2)}
    assert_array_equal(folds[None], folds[0])
    assert_array_equal(folds[1], folds_of(HashKFold(5, 1), X, groups))
    for one, other in ((0, 1), (0, 2), (1, 2)):
        # as if drawn: pairs that share a fold share it again by chance only
        together = folds[one][:-1] == folds[one][1:]
        table = np.histogram2d(folds[one], folds[other], bins=5)[0]
        assert together.size and table.min() > 10 and table.max() < 80


def test_integers_follow_the_documented_arithmetic():
    groups, prime = np.arange(-50, 50), 2**31 - 1
    factor = pow(48271, 3 + 3, prime)
    expected = [g % prime * factor % prime % 4 for g in groups.tolist()]
    assert_array_equal(folds_of(HashKFold(4, 3), np.zeros((100, 1)), groups), expected)
    cv = HashKFold(7, random_state=2)
    assert repr(cv) == "HashKFold(n_splits=7, random_state=2)"
    assert clone(cv).get_n_splits() == cv.get_n_splits(np.zeros(3)) == 7


@pytest.mark.filterwarnings("ignore:scores of .* rest on few effective rounds")
@pytest.mark.parametrize("routing", [False, True])
def test_searches_and_evaluators_take_it(routing):
    logs = make_bandit_logs(600, random_state=0).replace(group=np.arange(600) // 6)
    cv = HashKFold(3, random_state=1)
    with config_context(enable_metadata_routing=routing):
        given = {"scoring": lambda e, X, y=None: 0.0, "cv": cv, "params": {}}
        assert len(cross_validate(IPS(), logs, **given)["test_score"]) == 3
        policy, grid = ClassifierPolicy(LogisticRegression()), {"epsilon": [0.1, 0.5]}
        search = GridSearchCV(policy, grid, scoring=PolicyScorer(IPS()), cv=cv)
        assert search.fit(logs).n_splits_ == 3
    score, again = (
        DoublyRobust(reward_model=Ridge(), cv=one).fit(logs).score(UniformPolicy())
        for one in (cv, list(cv.split(logs)))
    )
    assert score == again


@pytest.mark.parametrize(
    ("cv", "groups", "match"),
    [
        (HashKFold(1), None, "'n_splits' parameter of HashKFold"),
        (HashKFold(2.5), None, "'n_splits' parameter of HashKFold"),
        (HashKFold(random_state=-1), None, "'random_state' parameter of HashKFold"),
        (HashKFold(random_state=np.random.RandomState(0)), None, "'random_state'"),
        (HashKFold(), [0] * 9, r"fold . of 5 would be empty\. The 9 rounds"),
        (HashKFold(), [0, 1], "group has 2 rows"),
        (HashKFold(), [0] * 8 + [None], "group has a missing label"),
    ],
    ids=lambda value: str(value).partition(" at 0x")[0],  # the same in every process
)
def test_bad_input(cv, groups, match):
    with pytest.raises(ValueError, match=match):
        next(cv.split(np.zeros((9, 1)), groups=groups))


def test_a_fold_of_its_own_folds_says_why_it_cannot_be_split():
    logs = make_bandit_logs(300, random_state=0)
    cv = HashKFold(3)
    _, test = next(cv.split(logs))
    with pytest.raises(ValueError, match="a fold of the same hash"):
        list(cv.split(logs[test]))
    assert len(list(HashKFold(3, random_state=1).split(logs[test]))) == 3
