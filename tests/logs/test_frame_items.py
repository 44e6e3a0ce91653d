# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Frames of pages: candidates, features of items, short pages, rewards of pages."""

import warnings
from itertools import permutations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from skope_ope import (
    IndependentSlotIPS,
    PlackettLuceSlatePolicy,
    PseudoInverse,
    RankingPolicy,
    SlateIPS,
    SlateLogs,
    UniformSlatePolicy,
)
from skope_ope.exceptions import LogsWarning, LowOverlapWarning
from skope_ope.policies import MixtureSlatePolicy, ProductSlatePolicy

pytestmark = pytest.mark.frames
pytest.importorskip("narwhals")

# -- candidates ------------------------------------------------------------------------
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


# -- features of items -----------------------------------------------------------------
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
OF_WIDE = {"item": ["one"], "slot_reward": ["click"], "context": ["query"]}
LISTED = {"q": ["a", "b"], "r": ["b", "c"]}


def table_of(make_frame, **changed):
    data = {**TABLE, **changed}
    data["item"] = data.pop("doc")
    return make_frame(data)


def test_features_by_query(make_frame):
    logs = SlateLogs.from_frame(
        make_frame(WIDE), **OF_WIDE, candidates=LISTED, candidates_by="query",
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
        make_frame(WIDE), **OF_WIDE,
        candidates={"q": ["a", "b"], "r": ["c"]}, candidates_by="query",
        item_features=make_frame(data), item_features_by=["query", "device"],
    )  # fmt: skip
    assert_array_equal(logs.item_features[..., 0], [[1, 2, 0], [0, 0, 3], [5, 4, 0]])


def test_names_of_features_that_do_not_differ(make_frame):
    facts = make_frame({"item": ["c", "a"], "score": [1.0, 2.0]})
    logs = SlateLogs.from_frame(make_frame(WIDE), **OF_WIDE, item_features=facts)
    assert logs.item_feature_names == ("score",)
    assert_array_equal(logs.item_features, [[2], [1]])
    given = {"a": [1.0], "c": [2.0]}
    logs = SlateLogs.from_frame(make_frame(WIDE), **OF_WIDE, item_features=given)
    assert logs.item_feature_names is None


def test_mistakes(make_frame):
    def refused(features, error=ValueError, **names):
        offered = {"candidates": LISTED, "candidates_by": "query"}
        with pytest.raises(error) as caught:
            SlateLogs.from_frame(
                make_frame(WIDE), **OF_WIDE, **offered, item_features=features, **names
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
    logs = SlateLogs.from_frame(make_frame(WIDE), **OF_WIDE, item_features=features)
    assert_array_equal(logs.item_features, features)
    assert logs.item_feature_names is None


def test_names_are_checked():
    slates = np.zeros((2, 1)), [[0], [1]], [1.0, 0.0]
    with pytest.raises(ValueError, match="a different name for each of the 2 columns"):
        SlateLogs(*slates, item_features=np.eye(2), item_feature_names=["score"])
    with pytest.raises(ValueError, match="a different name for each of the 2 columns"):
        SlateLogs(*slates, item_features=np.eye(2), item_feature_names=["a", "a"])


# -- pages with fewer slots -----------------------------------------------------------
def all_pages(make_frame):
    """Every page of a uniform logger, once for each time that it is expected."""
    pages = [*permutations("abc", 2)] + 2 * [(item,) for item in "abc"]
    clicks = {("a", 1): 3.0, ("a", 2): 1.0, ("b", 1): 2.0, ("c", 2): 4.0}
    rows = [
        (k, j, item) for k, page in enumerate(pages) for j, item in enumerate(page, 1)
    ]
    data = dict(
        zip(("page", "slot", "item"), map(list, zip(*rows, strict=True)), strict=True)
    )
    return make_frame(
        data | {"click": [clicks.get((item, j), 0.0) for _, j, item in rows]}
    )


OF_PAGES = {
    "round": "page",
    "slot": "slot",
    "item": "item",
    "slot_reward": "click",
    "context": [],
}


def test_a_short_page_had_fewer_slots(make_frame):
    logs = SlateLogs.from_frame(
        all_pages(make_frame), **OF_PAGES, logging_policy=UniformSlatePolicy(2)
    )
    assert_array_equal(logs.candidates.any(axis=2), [[1, 1]] * 6 + [[1, 0]] * 6)
    target = np.array([[0, 2]] * 6 + [[0, -1]] * 6)
    # over all pages the weighted mean is the value: a first, c second
    for evaluator in (PseudoInverse(), SlateIPS(), IndependentSlotIPS()):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", LowOverlapWarning)
            value = evaluator.fit(logs).evaluate(target).value
        assert value == pytest.approx((3 + 4) / 2 + 3 / 2), evaluator
    same = PseudoInverse().fit(logs).evaluate(logs.logging_policy)
    assert_allclose(same.round_values, logs.reward)


def test_mixtures_of_policies_that_fill_every_slot(make_frame):
    weights = PlackettLuceSlatePolicy([1.0, 2.0, 3.0], 2)
    mixture = MixtureSlatePolicy([UniformSlatePolicy(2), weights], [0.5, 0.5])
    frame = all_pages(make_frame)
    logs = SlateLogs.from_frame(frame, **OF_PAGES, logging_policy=mixture)
    assert_array_equal(logs.candidates.any(axis=2), [[1, 1]] * 6 + [[1, 0]] * 6)
    product = ProductSlatePolicy(np.full((1, 2, 3), 0.3))
    mixture = MixtureSlatePolicy([UniformSlatePolicy(2), product], [0.5, 0.5])
    logs = SlateLogs.from_frame(frame, **OF_PAGES, logging_policy=mixture)
    assert logs.candidates is None


def test_policies_leave_slots_empty_that_a_page_lacks(make_frame):
    facts = make_frame({"item": list("abc"), "score": [1.0, 3.0, 2.0]})
    logs = SlateLogs.from_frame(
        all_pages(make_frame), **OF_PAGES, item_features=facts,
        logging_policy=UniformSlatePolicy(2),
    )  # fmt: skip
    slates = RankingPolicy("score", 2).deterministic_slates(logs)
    assert_array_equal(slates, [[1, 2]] * 6 + [[1, -1]] * 6)


def test_which_pages_are_not_shortened(make_frame):
    policy = UniformSlatePolicy(2)
    frame = all_pages(make_frame)
    # a policy that may leave slots empty, or none
    product = ProductSlatePolicy(np.full((1, 2, 3), 0.3))
    for other in (None, product):
        logs = SlateLogs.from_frame(frame, **OF_PAGES, logging_policy=other)
        assert logs.candidates is None
    # a page that offers no more than it shows
    offered = {k: list("abc") for k in range(6)}
    offered |= {k: ["abc"[k % 3]] for k in range(6, 12)}
    logs = SlateLogs.from_frame(
        frame, **OF_PAGES, logging_policy=policy, candidates=offered
    )
    assert logs.candidates.ndim == 2
    # candidates that the user gives by slot
    by_slot = {k: [list("abc"), list("abc")] for k in range(12)}
    logs = SlateLogs.from_frame(
        frame, **OF_PAGES, logging_policy=policy, candidates=by_slot
    )
    assert logs.candidates is None


def test_a_lost_row_is_no_short_page(make_frame):
    frame = make_frame(
        {"page": [1, 1, 2], "slot": [1, 2, 2], "item": list("abc"), "click": [0, 1, 0]}
    )
    logs = SlateLogs.from_frame(frame, **OF_PAGES, logging_policy=UniformSlatePolicy(2))
    assert logs.candidates is None
    with pytest.raises(ValueError, match="was an item not logged"):
        PseudoInverse().fit(logs)


def test_messages_about_short_slates():
    logs = SlateLogs(
        np.zeros((2, 1)), [[0, 1], [2, -1]], [1.0, 0.0],
        logging_policy=UniformSlatePolicy(2),
    )  # fmt: skip
    with pytest.raises(ValueError, match=r"Did this page have 1 slots only\?"):
        PseudoInverse().fit(logs)
    narrow = logs.replace(logging_policy=UniformSlatePolicy(1))
    with pytest.raises(ValueError, match="fills 1 slots, the logs have 2"):
        PseudoInverse().fit(narrow)


# -- rewards of pages ------------------------------------------------------------------
SLATE = np.tile([[0, 1, 2], [1, 0, -1], [2, -1, -1]], (20, 1))
BOUGHT = (np.arange(60) % 4 == 0).astype(float)


ONE_DIFFERS = BOUGHT[:, None] * np.ones(3)
ONE_DIFFERS[0, 0] = 0.0


@pytest.mark.parametrize(
    ("slot_reward", "slate", "warns"),
    [
        (BOUGHT[:, None] * np.ones(3), SLATE, True),
        (ONE_DIFFERS, SLATE, False),
        (np.zeros((60, 3)), SLATE, False),
        (np.ones((60, 3)), SLATE, False),
        (BOUGHT[:24, None] * np.ones(3), SLATE[:24], False),  # few pages with a reward
        (BOUGHT[:, None] * np.ones(3), np.where(np.arange(3) == 0, SLATE, -1), False),
    ],
)
def test_a_reward_of_the_page_is_seen(slot_reward, slate, warns):
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(slate, columns=["a", "b", "c"])
    rewards = pd.DataFrame(np.where(slate < 0, 0, slot_reward), columns=["x", "y", "z"])
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always", LogsWarning)
        SlateLogs.from_frame(
            pd.concat([frame, rewards], axis=1),
            item=["a", "b", "c"],
            slot_reward=["x", "y", "z"],
            context=[],
        )
    assert len(found) == warns
    for one in found:
        assert "the 40 pages with several items" in str(one.message)


@pytest.mark.frames
def test_from_frame_warns_at_the_line_of_the_user():
    pd = pytest.importorskip("pandas")
    pytest.importorskip("narwhals")
    page, slot = np.nonzero(SLATE >= 0)
    rows = {"page": page, "slot": slot, "item": SLATE[page, slot]}
    frame = pd.DataFrame({**rows, "bought": BOUGHT[page]})
    names = {"round": "page", "slot": "slot", "item": "item", "context": []}
    with pytest.warns(LogsWarning, match="the reward of the page") as record:
        SlateLogs.from_frame(frame, slot_reward="bought", **names)
    assert record[0].filename == __file__
    logs = SlateLogs.from_frame(frame, reward="bought", **names)
    assert logs.reward.tolist() == BOUGHT.tolist()
    wide = pd.DataFrame(SLATE, columns=["a", "b", "c"])
    wide["bought"] = BOUGHT
    wide["again"] = wide["third"] = wide["bought"]
    with pytest.warns(LogsWarning, match="the column with the reward of the page"):
        SlateLogs.from_frame(
            wide.assign(
                again=BOUGHT * (SLATE[:, 1] >= 0), third=BOUGHT * (SLATE[:, 2] >= 0)
            ),
            item=["a", "b", "c"],
            slot_reward=["bought", "again", "third"],
            context=[],
        )
