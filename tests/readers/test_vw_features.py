# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import numpy as np
import pytest
from sklearn.feature_extraction import FeatureHasher

from skope_ope.readers import _vw_features
from skope_ope.readers._vw_features import ActionFeatures, HashedRows


def hashed(names, n_columns):
    hasher = FeatureHasher(n_columns, input_type="string", alternate_sign=False)
    return hasher.transform(names).toarray()


@pytest.mark.parametrize("batch", [1, 2, 100])
def test_rows_do_not_depend_on_the_batch(monkeypatch, batch):
    monkeypatch.setattr(_vw_features, "BATCH", batch)
    rows = HashedRows(64)
    names = [["a"], [], ["b", "c"], ["a", "a"], ["u^x=1"]]
    for row in names:
        rows.add([(name, 1.0) for name in row])
    np.testing.assert_array_equal(rows.matrix().toarray(), hashed(names, 64))


def test_values_add_up_without_signs():
    rows = HashedRows(1)
    rows.add([("a", 2.0), ("b", 3.0), ("c", -1.0)])
    assert rows.matrix().toarray() == [[4.0]]


def test_no_rows():
    assert HashedRows(8).matrix().shape == (0, 8)


def dense(events, n_actions, n_columns=64, max_bytes=10**6, keep_all=True):
    """`events`: for each round a dict from action to names."""
    features = ActionFeatures(n_columns)
    rows, rounds, codes = [], [], []
    for i, event in enumerate(events):
        for action, names in event.items():
            rows.append(features.add([(name, 1.0) for name in names]))
            rounds.append(i)
            codes.append(action)
    arrays = (np.array(rows), np.array(rounds), np.array(codes))
    shape = (len(events), n_actions)
    return features.dense(*arrays, shape, max_bytes, keep_all)


def test_same_features_in_all_rounds_take_one_row_per_action():
    events = [{0: ["a"], 1: ["b", "c"]}, {1: ["c", "b"]}]
    expected = [*hashed([["a"], ["b", "c"]], 64), np.zeros(64)]
    np.testing.assert_array_equal(dense(events, 3), expected)


@pytest.mark.parametrize("batch", [1, 2, 100])
def test_features_that_differ_take_one_row_per_round(monkeypatch, batch):
    monkeypatch.setattr(_vw_features, "BATCH", batch)
    events = [{0: ["a"], 1: ["b"]}, {0: ["b"]}, {0: ["a"], 1: ["d", "e"]}]
    result = dense(events, 2)
    assert result.shape == (3, 2, 64)
    for i, event in enumerate(events):
        for action in range(2):
            expected = hashed([event.get(action, [])], 64)[0]
            np.testing.assert_array_equal(result[i, action], expected)


def test_only_occurring_columns():
    events = [{0: ["a"], 1: ["b"]}]
    result = dense(events, 2, 2**18, keep_all=False)
    assert result.shape == (2, 2)
    np.testing.assert_array_equal(result.sum(axis=0), [1.0, 1.0])


def test_no_features_at_all():
    assert dense([{0: [], 1: []}], 2) is None


def test_too_large_an_array_is_refused():
    events = [{0: ["a"]}, {0: ["b"]}]
    assert dense(events, 2, max_bytes=8 * 2 * 2 * 64).shape == (2, 2, 64)
    with pytest.raises(ValueError, match=r"shape \(2, 2, 64\).*max_action_bytes=2047"):
        dense(events, 2, max_bytes=8 * 2 * 2 * 64 - 1)
    with pytest.raises(ValueError, match="n_action_features"):
        dense(events[:1], 2, max_bytes=8)
