# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from skope_ope import SlateLogs

pytestmark = pytest.mark.frames
pytest.importorskip("narwhals")

LONG = {
    "page": [7, 7, 3, 5],
    "place": [1, 2, 1, 1],
    "doc": ["b", "a", "c", "c"],
    "click": [1.0, 0.0, 1.0, 0.0],
    "query": ["q", "q", "r", "r"],
    "device": ["pc", "pc", "pc", "phone"],
}
NAMES = {
    "round": "page",
    "slot": "place",
    "item": "doc",
    "slot_reward": "click",
    "context": ["query"],
}
OF_QUERY = {"q": ["a", "b", "d"], "r": ["c", "d"], "unseen": ["a"]}
WANT = [[True, True, False, True]] + 2 * [[False, False, True, True]]


def test_candidates_by_a_column_of_the_pages(make_frame):
    frame = make_frame(LONG)
    rows = [(query, doc) for query, docs in OF_QUERY.items() for doc in docs]
    table = make_frame({"query": [q for q, _ in rows], "doc": [d for _, d in rows]})
    for given in (OF_QUERY, table):
        logs = SlateLogs.from_frame(
            frame, **NAMES, candidates=given, candidates_by="query"
        )
        assert_array_equal(logs.candidates, WANT)
        assert_array_equal(logs.item_id[0], list("abcd"))


def test_the_wide_form_needs_no_column_of_the_page(make_frame):
    wide = make_frame({"one": ["b", "c"], "clicks": [1.0, 0.0], "query": ["q", "r"]})
    logs = SlateLogs.from_frame(
        wide, item=["one"], reward="clicks", context=["query"],
        candidates=OF_QUERY, candidates_by="query",
    )  # fmt: skip
    assert_array_equal(logs.candidates, WANT[:2])


def test_several_columns_make_tuples(make_frame):
    given = {("q", "pc"): ["a", "b"], ("r", "pc"): ["c"], ("r", "phone"): ["b", "c"]}
    logs = SlateLogs.from_frame(
        make_frame(LONG), **NAMES, candidates=given, candidates_by=["query", "device"]
    )
    assert_array_equal(logs.candidates.sum(axis=1), [2, 1, 2])


def test_a_series_of_lists_is_a_dict():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(LONG)
    table = pandas.DataFrame(
        [(query, doc) for query, docs in OF_QUERY.items() for doc in docs],
        columns=["query", "doc"],
    )
    for by in (list, np.array):
        lists = table.groupby("query")["doc"].apply(by)
        logs = SlateLogs.from_frame(
            frame, **NAMES, candidates=lists, candidates_by="query"
        )
        assert_array_equal(logs.candidates, WANT)
    # a Series of items is still a list of all items
    logs = SlateLogs.from_frame(frame, **NAMES, candidates=pandas.Series(list("dcba")))
    assert_array_equal(logs.item_id[0], list("dcba"))


def refused(frame, error=ValueError, **names):
    with pytest.raises(error) as caught:
        SlateLogs.from_frame(frame, **NAMES, **names)
    return str(caught.value)


def test_messages_name_the_column(make_frame):
    frame = make_frame(LONG)
    found = refused(frame, candidates=OF_QUERY)
    assert "it is missing for page 7" in found
    assert "keys are values of column 'query': pass candidates_by='query'" in found
    table = make_frame({"query": ["q", "r"], "doc": ["a", "c"]})
    assert "pass candidates_by='query'" in refused(frame, candidates=table)
    part = {"q": ["a", "b"]}
    found = refused(frame, candidates=part, candidates_by="query")
    assert "it is missing for query 'r'. Add it, or drop the pages" in found
    found = refused(frame, candidates={7: ["a", "b"]})
    assert "missing for page 3. Add it, or drop the pages" in found
    found = refused(frame, candidates=part, candidates_by="quer")
    assert "no column of the frame. Did you mean 'query'" in found
    found = refused(frame, candidates=part, candidates_by="doc")
    assert "column 'doc' changes within page 7" in found
    found = refused(frame, TypeError, candidates=["a"], candidates_by="query")
    assert "needs candidates as a dict or a frame, got list" in found
    lists = make_frame({"query": ["q", "r"], "doc": [["a", "b"], ["c"]]})
    found = refused(frame, TypeError, candidates=lists, candidates_by="query")
    assert "Give each item of a list a row of its own" in found
    only_q = make_frame({"query": ["q", "q"], "doc": ["a", "b"]})
    found = refused(frame, candidates=only_q, candidates_by="query")
    assert "candidates has no row for query 'r' (2 such pages)" in found
    found = refused(frame, candidates=make_frame({"q": ["q"]}), candidates_by="query")
    assert "'query' is missing" in found


def test_a_wide_frame_is_told_of_the_query(make_frame):
    wide = make_frame({"one": ["b", "c"], "clicks": [1.0, 0.0], "query": ["q", "r"]})
    with pytest.raises(ValueError, match="pass candidates_by='query'"):
        SlateLogs.from_frame(
            wide, item=["one"], reward="clicks", context=[], exclude=None,
            candidates=OF_QUERY,
        )  # fmt: skip
