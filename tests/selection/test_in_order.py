# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GroupKFold, KFold, ShuffleSplit

from skope_ope import DRns, in_order

X = np.zeros((12, 1))


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


def test_it_travels():
    cv = in_order(ShuffleSplit(2, random_state=0))
    assert in_order(cv) is cv
    copies = pickle.loads(pickle.dumps(cv)), clone(DRns(cv=cv)).cv
    for copy in copies:
        for ours, theirs in zip(copy.split(X), cv.split(X), strict=True):
            np.testing.assert_array_equal(ours[0], theirs[0])
    assert repr(cv).startswith("in_order(ShuffleSplit(")


@pytest.mark.parametrize("bad", ["prefit", True, 1.5, None, KFold])
def test_bad_input(bad):
    with pytest.raises(TypeError, match="in_order takes a splitter"):
        in_order(bad)
