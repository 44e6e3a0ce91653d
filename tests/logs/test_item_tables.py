# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from skope_ope import RankingPolicy, SlateLogs

pytestmark = pytest.mark.frames
pytest.importorskip("narwhals")

WIDE = {
    "one": ["a", "c", "a"],
    "click": [1.0, 0.0, 1.0],
    "query": ["q", "r", "q"],
    "device": ["pc", "pc", "phone"],
}
TABLE = {
    "query": ["q", "q", "r", "r", "r", "unseen"],
    "doc": ["a", "b", "b", "c", "a", "a"],
    "score": [1.0, 2.0, 3.0, 4.0, 5.0, 6.0],
    "price": [9, 8, 7, 6, 5, 4],
}
NAMES = {"item": ["one"], "slot_reward": ["click"], "context": ["query"]}
OFFERED = {"q": ["a", "b"], "r": ["b", "c"]}


def table_of(make_frame, **changed):
    data = {**TABLE, **changed}
    data["item"] = data.pop("doc")
    return make_frame(data)


def test_features_by_query(make_frame):
    logs = SlateLogs.from_frame(
        make_frame(WIDE), **NAMES, candidates=OFFERED, candidates_by="query",
        item_features=table_of(make_frame), item_features_by="query",
    )  # fmt: skip
    assert logs.item_feature_names == ("score", "price")
    want = [[1, 2, 0], [5, 3, 4], [1, 2, 0]]  # zero: neither offered nor in the table
    assert_array_equal(logs.item_features[..., 0], want)
    assert logs[1:].item_feature_names == ("score", "price")
    assert logs.replace(group=[1, 2, 3]).item_feature_names == ("score", "price")
    assert_array_equal(
        RankingPolicy("score", 1).deterministic_slates(logs).T, [[1, 2, 1]]
    )


def test_features_by_query_and_device(make_frame):
    data = {
        "query": ["q", "q", "r", "q", "q"],
        "device": ["pc", "pc", "pc", "phone", "phone"],
        "item": ["a", "b", "c", "a", "b"],
        "score": [1.0, 2.0, 3.0, 5.0, 4.0],
    }
    logs = SlateLogs.from_frame(
        make_frame(WIDE), **NAMES,
        candidates={"q": ["a", "b"], "r": ["c"]}, candidates_by="query",
        item_features=make_frame(data), item_features_by=["query", "device"],
    )  # fmt: skip
    assert_array_equal(logs.item_features[..., 0], [[1, 2, 0], [0, 0, 3], [5, 4, 0]])


def test_names_of_features_that_do_not_differ(make_frame):
    facts = make_frame({"item": ["c", "a"], "score": [1.0, 2.0]})
    logs = SlateLogs.from_frame(make_frame(WIDE), **NAMES, item_features=facts)
    assert logs.item_feature_names == ("score",)
    assert_array_equal(logs.item_features, [[2], [1]])
    given = {"a": [1.0], "c": [2.0]}
    logs = SlateLogs.from_frame(make_frame(WIDE), **NAMES, item_features=given)
    assert logs.item_feature_names is None


def test_mistakes(make_frame):
    def refused(features, error=ValueError, **names):
        offered = {"candidates": OFFERED, "candidates_by": "query"}
        with pytest.raises(error) as caught:
            SlateLogs.from_frame(
                make_frame(WIDE), **NAMES, **offered, item_features=features, **names
            )
        return str(caught.value)

    by = {"item_features_by": "query"}
    found = refused(table_of(make_frame))
    assert "item_features has two rows for item" in found
    assert "pass item_features_by='query'" in found
    texts = make_frame({"item": ["a", "b", "c"], "query": ["q", "q", "r"]})
    found = refused(texts, TypeError)  # each item once: the column looks like a feature
    assert "in column 'query'" in found and "pass item_features_by='query'" in found
    found = refused(make_frame({"item": ["a"], "kind": ["x"]}), TypeError)
    assert "in column 'kind'" in found and "get_dummies" in found
    found = refused(table_of(make_frame, doc=["a", "b", "b", "x", "a", "a"]), **by)
    assert "no row for query 'r' and item 'c' (1 such entries" in found
    found = refused(table_of(make_frame, doc=["a", "b", "c", "c", "a", "a"]), **by)
    assert "two rows for query 'r' and item 'c': rows 2 and 3" in found
    found = refused({"a": [1.0]}, TypeError, **by)
    assert "needs item_features as a frame" in found
    found = refused(make_frame({"item": ["a"], "quer": ["q"], "score": [1.0]}), **by)
    assert "has no column 'query'" in found
    assert "Did you mean 'quer'" in found
    found = refused(make_frame({"item": ["a"], "query": ["q"]}), **by)
    assert "no column of features" in found


def test_arrays_of_features_stay_as_they_are(make_frame):
    features = np.arange(4.0).reshape(2, 2)
    logs = SlateLogs.from_frame(make_frame(WIDE), **NAMES, item_features=features)
    assert_array_equal(logs.item_features, features)
    assert logs.item_feature_names is None


def test_names_are_checked():
    slates = np.zeros((2, 1)), [[0], [1]], [1.0, 0.0]
    with pytest.raises(ValueError, match="a different name for each of the 2 columns"):
        SlateLogs(*slates, item_features=np.eye(2), item_feature_names=["score"])
    with pytest.raises(ValueError, match="a different name for each of the 2 columns"):
        SlateLogs(*slates, item_features=np.eye(2), item_feature_names=["a", "a"])
