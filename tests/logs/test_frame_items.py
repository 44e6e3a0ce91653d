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
NAMES = {"round": "page", "slot": "place", "item": "doc", "slot_reward": "click"}
NAMES["context"] = ["query"]
OF_QUERY = {"q": ["a", "b", "d"], "r": ["c", "d"], "unseen": ["a"]}
WANT = [[True, True, False, True]] + 2 * [[False, False, True, True]]


def offering(frame, candidates, by="query", names=NAMES):
    how = {"candidates": candidates, "candidates_by": by}
    return SlateLogs.from_frame(frame, **names, **how)


def test_candidates_by_columns_of_the_pages(make_frame):
    frame = make_frame(LONG)
    rows = [(query, doc) for query, docs in OF_QUERY.items() for doc in docs]
    table = make_frame({"query": [q for q, _ in rows], "doc": [d for _, d in rows]})
    for given in (OF_QUERY, table):
        logs = offering(frame, given)
        assert_array_equal(logs.candidates, WANT)
        assert_array_equal(logs.item_id[0], list("abcd"))
    given = {("q", "pc"): ["a", "b"], ("r", "pc"): ["c"], ("r", "phone"): ["b", "c"]}
    logs = offering(make_frame(LONG), given, ["query", "device"])
    assert_array_equal(logs.candidates.sum(axis=1), [2, 1, 2])


def test_the_wide_form_needs_no_column_of_the_page(make_frame):
    wide = make_frame({"one": ["b", "c"], "clicks": [1.0, 0.0], "query": ["q", "r"]})
    names = {"item": ["one"], "reward": "clicks", "context": ["query"]}
    assert_array_equal(offering(wide, OF_QUERY, names=names).candidates, WANT[:2])
    with pytest.raises(ValueError, match="pass candidates_by='query'"):
        offering(wide, OF_QUERY, None, names | {"context": []})


def test_a_series_of_lists_is_a_dict():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(LONG)
    rows = [(query, doc) for query, docs in OF_QUERY.items() for doc in docs]
    table = pandas.DataFrame(rows, columns=["query", "doc"])
    for by in (list, np.array):
        lists = table.groupby("query")["doc"].apply(by)
        assert_array_equal(offering(frame, lists).candidates, WANT)
    # a Series of items is still a list of all items
    logs = SlateLogs.from_frame(frame, **NAMES, candidates=pandas.Series(list("dcba")))
    assert_array_equal(logs.item_id[0], list("dcba"))


def refused(frame, error=ValueError, **names):
    with pytest.raises(error) as caught:
        SlateLogs.from_frame(frame, **NAMES, **names)
    return str(caught.value)


def test_messages_name_the_column(make_frame):
    frame = make_frame(LONG)
    query_a = make_frame({"query": ["q", "r"], "doc": ["a", "c"]})
    part, by = {"q": ["a", "b"]}, "pass candidates_by='query'"
    assert "it is missing for page 7" in refused(frame, candidates=OF_QUERY)
    for given, told in (
        (OF_QUERY, f"keys are values of column 'query': {by}"),
        (query_a, by),
        ({7: ["a", "b"]}, "missing for page 3. Add it, or drop the pages"),
    ):
        assert told in refused(frame, candidates=given)
    lists = make_frame({"query": ["q", "r"], "doc": [["a", "b"], ["c"]]})
    only_q = make_frame({"query": ["q", "q"], "doc": ["a", "b"]})
    for given, by, error, told in (
        (part, "query", ValueError, "missing for query 'r'. Add it, or drop the pages"),
        (part, "quer", ValueError, "no column of the frame. Did you mean 'query'"),
        (part, "doc", ValueError, "column 'doc' changes within page 7"),
        (["a"], "query", TypeError, "needs candidates as a dict or a frame, got list"),
        (lists, "query", TypeError, "Give each item of a list a row of its own"),
        (only_q, "query", ValueError, "has no row for query 'r' (2 such pages)"),
        (make_frame({"q": ["q"]}), "query", ValueError, "'query' is missing"),
    ):
        assert told in refused(frame, error, candidates=given, candidates_by=by)


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


def table_of(make_frame, data=TABLE):
    return make_frame({"item" if name == "doc" else name: data[name] for name in data})


def test_features_by_query_and_device(make_frame):
    features = {"item_features": table_of(make_frame), "item_features_by": "query"}
    logs = offering(make_frame(WIDE), LISTED, names=OF_WIDE | features)
    assert logs.item_feature_names == ("score", "price")
    want = [[1, 2, 0], [5, 3, 4], [1, 2, 0]]  # zero: neither offered nor in the table
    assert_array_equal(logs.item_features[..., 0], want)
    assert logs[1:].item_feature_names == ("score", "price")
    assert logs.replace(group=[1, 2, 3]).item_feature_names == ("score", "price")
    slates = RankingPolicy("score", 1).deterministic_slates(logs)
    assert_array_equal(slates.T, [[1, 2, 1]])
    data = {
        "query": ["q", "q", "r", "q", "q"],
        "device": ["pc", "pc", "pc", "phone", "phone"],
        "item": ["a", "b", "c", "a", "b"],
        "score": [1.0, 2.0, 3.0, 5.0, 4.0],
    }
    features = {"item_features": make_frame(data)}
    features["item_features_by"] = ["query", "device"]
    offered = {"q": ["a", "b"], "r": ["c"]}
    logs = offering(make_frame(WIDE), offered, names=OF_WIDE | features)
    assert_array_equal(logs.item_features[..., 0], [[1, 2, 0], [0, 0, 3], [5, 4, 0]])


def test_names_of_features_that_do_not_differ(make_frame):
    facts = make_frame({"item": ["c", "a"], "score": [1.0, 2.0]})
    logs = SlateLogs.from_frame(make_frame(WIDE), **OF_WIDE, item_features=facts)
    assert logs.item_feature_names == ("score",)
    assert_array_equal(logs.item_features, [[2], [1]])
    given = {"a": [1.0], "c": [2.0]}
    logs = SlateLogs.from_frame(make_frame(WIDE), **OF_WIDE, item_features=given)
    assert logs.item_feature_names is None
    features = np.arange(4.0).reshape(2, 2)
    logs = SlateLogs.from_frame(make_frame(WIDE), **OF_WIDE, item_features=features)
    assert_array_equal(logs.item_features, features)
    assert logs.item_feature_names is None


def test_mistakes(make_frame):
    offered = {"candidates": LISTED, "candidates_by": "query"}
    by, pass_by = {"item_features_by": "query"}, "pass item_features_by='query'"
    # each item once: the column looks like a feature
    texts = {"item": ["a", "b", "c"], "query": ["q", "q", "r"]}
    misspelt = {"item": ["a"], "quer": ["q"], "score": [1.0]}
    twice = {**TABLE, "doc": ["a", "b", "c", "c", "a", "a"]}
    lacks = {**TABLE, "doc": ["a", "b", "b", "x", "a", "a"]}
    for given, names, error, *told in (
        (TABLE, {}, ValueError, "item_features has two rows for item", pass_by),
        (texts, {}, TypeError, "in column 'query'", pass_by),
        ({"item": ["a"], "kind": ["x"]}, {}, TypeError, "column 'kind'", "get_dummies"),
        (lacks, by, ValueError, "no row for query 'r' and item 'c' (1 such entries"),
        (twice, by, ValueError, "two rows for query 'r' and item 'c': rows 2 and 3"),
        (None, by, TypeError, "needs item_features as a frame"),
        (misspelt, by, ValueError, "has no column 'query'", "Did you mean 'quer'"),
        ({"item": ["a"], "query": ["q"]}, by, ValueError, "no column of features"),
    ):
        features = {"a": [1.0]} if given is None else table_of(make_frame, given)
        given = {**OF_WIDE, **offered, "item_features": features, **names}
        with pytest.raises(error) as caught:
            SlateLogs.from_frame(make_frame(WIDE), **given)
        for words in told:
            assert words in str(caught.value)


def test_names_are_checked():
    slates = np.zeros((2, 1)), [[0], [1]], [1.0, 0.0]
    told = "different name for each of the 2 columns"
    for names in (["score"], ["a", "a"]):
        with pytest.raises(ValueError, match=told):
            SlateLogs(*slates, item_features=np.eye(2), item_feature_names=names)


# -- pages with fewer slots -----------------------------------------------------------
def all_pages(make_frame):
    """Every page of a uniform logger, once for each time that it is expected."""
    pages = [*permutations("abc", 2)] + 2 * [(item,) for item in "abc"]
    worth = {("a", 1): 3.0, ("a", 2): 1.0, ("b", 1): 2.0, ("c", 2): 4.0}
    rows = [
        (k, j, item, worth.get((item, j), 0.0))
        for k, page in enumerate(pages)
        for j, item in enumerate(page, 1)
    ]
    columns = map(list, zip(*rows, strict=True))
    names = ("page", "slot", "item", "click")
    return make_frame(dict(zip(names, columns, strict=True)))


OF_PAGES = {name: name for name in ("slot", "item")}
OF_PAGES |= {"round": "page", "slot_reward": "click", "context": []}
UNIFORM = UniformSlatePolicy(2)


def pages_of(frame, policy=UNIFORM, **more):
    return SlateLogs.from_frame(frame, **OF_PAGES, logging_policy=policy, **more)


def test_short_pages_had_fewer_slots(make_frame):
    logs = pages_of(all_pages(make_frame))
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
    facts = make_frame({"item": list("abc"), "score": [1.0, 3.0, 2.0]})
    logs = pages_of(all_pages(make_frame), item_features=facts)
    slates = RankingPolicy("score", 2).deterministic_slates(logs)
    assert_array_equal(slates, [[1, 2]] * 6 + [[1, -1]] * 6)


def test_which_pages_are_not_shortened(make_frame):
    frame = all_pages(make_frame)
    # a policy that may leave slots empty, or none
    product = ProductSlatePolicy(np.full((1, 2, 3), 0.3))
    for other in (None, product, MixtureSlatePolicy([UNIFORM, product], [0.5, 0.5])):
        assert pages_of(frame, other).candidates is None
    # a page that offers no more than it shows
    offered = {k: list("abc") for k in range(6)}
    offered |= {k: ["abc"[k % 3]] for k in range(6, 12)}
    assert pages_of(frame, candidates=offered).candidates.ndim == 2
    # candidates that the user gives by slot
    by_slot = {k: [list("abc"), list("abc")] for k in range(12)}
    assert pages_of(frame, candidates=by_slot).candidates is None
    weights = PlackettLuceSlatePolicy([1.0, 2.0, 3.0], 2)
    logs = pages_of(frame, MixtureSlatePolicy([UNIFORM, weights], [0.5, 0.5]))
    assert_array_equal(logs.candidates.any(axis=2), [[1, 1]] * 6 + [[1, 0]] * 6)
    data = {"page": [1, 1, 2], "slot": [1, 2, 2], "item": list("abc")}
    logs = pages_of(make_frame(data | {"click": [0, 1, 0]}))
    assert logs.candidates is None
    with pytest.raises(ValueError, match="was an item not logged"):
        PseudoInverse().fit(logs)


def test_messages_about_short_slates():
    slates = np.zeros((2, 1)), [[0, 1], [2, -1]], [1.0, 0.0]
    logs = SlateLogs(*slates, logging_policy=UNIFORM)
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
        names = {"item": ["a", "b", "c"], "slot_reward": ["x", "y", "z"]}
        SlateLogs.from_frame(pd.concat([frame, rewards], axis=1), **names, context=[])
    assert len(found) == warns
    for one in found:
        assert "the 40 pages with several items" in str(one.message)


@pytest.mark.frames
def test_from_frame_warns_at_the_line_of_the_user():
    pd = pytest.importorskip("pandas")
    page, slot = np.nonzero(SLATE >= 0)
    rows = {"page": page, "slot": slot, "item": SLATE[page, slot]}
    frame = pd.DataFrame({**rows, "bought": BOUGHT[page]})
    names = {"round": "page", "slot": "slot", "item": "item", "context": []}
    with pytest.warns(LogsWarning, match="the reward of the page") as record:
        SlateLogs.from_frame(frame, slot_reward="bought", **names)
    assert record[0].filename == __file__
    logs = SlateLogs.from_frame(frame, reward="bought", **names)
    assert logs.reward.tolist() == BOUGHT.tolist()
    wide = pd.DataFrame(SLATE, columns=["a", "b", "c"]).assign(bought=BOUGHT)
    wide["again"], wide["third"] = (BOUGHT * (SLATE[:, k] >= 0) for k in (1, 2))
    names = {"item": list("abc"), "slot_reward": ["bought", "again", "third"]}
    with pytest.warns(LogsWarning, match="the column with the reward of the page"):
        SlateLogs.from_frame(wide, **names, context=[])
