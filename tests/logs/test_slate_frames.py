# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import re

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from scipy import sparse

from skope_ope import PseudoInverse, SlateLogs, UniformSlatePolicy
from skope_ope.datasets import make_slate_logs
from tests.logs._worlds import assert_same_fields

pytestmark = pytest.mark.frames
pytest.importorskip("narwhals")

PAGES = {
    "age": [31, 54, 22],
    "city": ["Ulm", "Bonn", "Ulm"],
    "total": [3.0, 1.0, 0.5],
    "p": [0.5, 0.25, 0.125],
    "user": ["x", "y", "x"],
    "t": [3, 1, 2],
    "query": ["q", "r", "q"],
}
WIDE = PAGES | {"first": ["b", None, "c"], "second": ["a", "c", None]}
WIDE |= {"click_1": [1.0, 0.0, 0.0], "click_2": [2.0, 1.0, 0.0]}
LONG = {name: [values[k] for k in (0, 0, 1, 2)] for name, values in PAGES.items()}
LONG |= {"page": [7, 7, 3, 5], "place": [1, 2, 2, 1], "item": ["b", "a", "c", "c"]}
LONG |= {"click": [1.0, 2.0, 1.0, 0.0]}
OF_PAGE = {"reward": "total", "propensity": "p", "group": "user", "timestamp": "t"}
OF_PAGE |= {"context": ["age", "city"], "columns": ["query"]}
OF_WIDE = OF_PAGE | {"item": ["first", "second"], "slot_reward": ["click_1", "click_2"]}
OF_LONG = OF_PAGE | {"round": "page", "slot": "place", "item": "item"}
OF_LONG["slot_reward"] = "click"
BRIEF = {"item": ["first", "second"], "reward": "total", "context": []}
BRIEF_LONG = {"round": "page", "slot": "place", "item": "item", "reward": "total"}
BRIEF_LONG["context"] = []
FORMS = ((WIDE, BRIEF), (LONG, BRIEF_LONG))


@pytest.mark.parametrize(("data", "names"), [(WIDE, OF_WIDE), (LONG, OF_LONG)])
def test_every_field_comes_from_its_column(make_frame, data, names):
    frame = make_frame(data)
    logs = SlateLogs.from_frame(frame, **names, reward_range=(0, 4))
    assert_array_equal(logs.slate, [[1, 0], [-1, 2], [2, -1]])
    assert_array_equal(logs.item_id, [["a", "b", "c"]] * 3)
    assert_array_equal(logs.slot_reward, [[1, 2], [0, 1], [0, 0]])
    for field in ("reward", "propensity", "group", "timestamp"):
        assert_array_equal(getattr(logs, field), WIDE[OF_PAGE[field]])
    assert_array_equal(logs.columns["query"], WIDE["query"])
    assert (logs.n_candidates, logs.candidates) == (3, None)
    assert logs.reward_range == (0, 4)
    assert type(logs.context) is type(frame)
    assert list(np.asarray(logs.context["age"])) == WIDE["age"]
    for form in ("wide", "long"):
        assert type(logs.to_frame(form=form)) is type(frame)
    assert frame.equals(make_frame(data))  # it is not written to
    names = {name: names[name] for name in names if name != "propensity"}
    logs = SlateLogs.from_frame(frame, **names, propensity=1 / 6)
    assert_array_equal(logs.propensity, [1 / 6] * 3)


def test_rows_of_the_long_form_in_any_order(make_frame):
    for order in ([0, 3, 1, 2], [3, 2, 1, 0]):
        data = {name: [values[k] for k in order] for name, values in LONG.items()}
        logs = SlateLogs.from_frame(make_frame(data), **OF_LONG)
        pages = np.argsort([WIDE["t"].index(t) for t in logs.timestamp.tolist()])
        whole = SlateLogs.from_frame(make_frame(LONG), **OF_LONG)
        assert_same_fields(logs[pages], whole, "context")
        # pages come in the order of their first rows
        first = list(dict.fromkeys(data["t"]))
        assert logs.timestamp.tolist() == first


def test_whole_numbers_are_items(make_frame):
    for first in ([5, None, 7], [5, -1, 7], [5.0, float("nan"), 7.0]):
        data = {"first": first, "second": [7, 10, -1], "total": [0.0, 1.0, 0.0]}
        logs = SlateLogs.from_frame(make_frame(data), **BRIEF)
        assert_array_equal(logs.slate, [[0, 1], [-1, 2], [1, -1]])
        assert_array_equal(logs.item_id, [[5, 7, 10]] * 3)
        assert logs.item_id.dtype.kind == "i"


def test_indices_need_no_labels(make_frame):
    data = {"first": [0, 2], "second": [1, 0], "total": [0.0, 1.0]}
    logs = SlateLogs.from_frame(make_frame(data), **BRIEF)
    assert logs.item_id is None
    assert_array_equal(logs.slate, [[0, 1], [2, 0]])
    # the logger comes along
    data = {"first": ["b", "a", "c"], "second": ["a", "c", "b"], "total": [1.0, 0, 0]}
    policy = UniformSlatePolicy(2)
    logs = SlateLogs.from_frame(make_frame(data), **BRIEF, logging_policy=policy)
    value = PseudoInverse().fit(logs).evaluate(policy)
    assert value.value == pytest.approx(1 / 3)


# -- who could be shown ---------------------------------------------------------------
OFFERED = [["a", "b"], ["b", "c"], ["c"]]
MASK = [[True, True, False], [False, True, True], [False, False, True]]


@pytest.mark.parametrize("how", ["column", "dict", "frame"])
@pytest.mark.parametrize("form", ["wide", "long"])
def test_candidates_by_page(make_frame, how, form):
    data, names = (WIDE, BRIEF) if form == "wide" else (LONG, BRIEF_LONG)
    data = dict(data)
    if how == "column":
        lists = OFFERED if form == "wide" else [OFFERED[k] for k in (0, 0, 1, 2)]
        data["who"] = lists
        candidates = "who"
    elif how == "dict":
        candidates = {7: ["a", "b"], 3: ("b", "c"), 5: {"c"}, 99: ["a"]}
    else:
        rows = [(7, "a"), (7, "b"), (3, "c"), (3, "b"), (5, "c"), (99, "z")]
        page, item = map(list, zip(*rows, strict=True))
        candidates = make_frame({"page": page, "item": item})
    if form == "wide" and how != "column":
        data["page"] = [7, 3, 5]
        names = {**names, "round": "page"}
    logs = SlateLogs.from_frame(make_frame(data), **names, candidates=candidates)
    assert_array_equal(logs.candidates, MASK)
    assert_array_equal(logs.item_id[0], ["a", "b", "c"])


def test_candidates_by_slot_and_in_their_order(make_frame):
    who = [[["b", "c"], ["a"]], [["b"], ["c"]], [["c"], ["a", "b"]]]
    frame = make_frame({**WIDE, "who": who})
    logs = SlateLogs.from_frame(frame, **BRIEF, candidates="who")
    assert logs.candidates.shape == (3, 2, 3)
    assert_array_equal(logs.candidates[0], [[False, True, True], [True, False, False]])
    logs = SlateLogs.from_frame(frame, **BRIEF, candidates=["c", "z", "b", "a"])
    assert_array_equal(logs.slate, [[2, 3], [-1, 0], [0, -1]])
    assert_array_equal(logs.item_id[0], ["c", "z", "b", "a"])
    assert logs.n_candidates == 4


# -- features of items ----------------------------------------------------------------
@pytest.mark.parametrize("key", ["item", "item_id"])
def test_features_of_items(make_frame, key):
    table = make_frame({key: ["z", "c", "a", "b"], "x": [9, 3, 1, 2], "y": [0.5] * 4})
    want = [[1, 0.5], [2, 0.5], [3, 0.5]]
    some = {"c": [3, 0.5], "a": [1, 0.5], "b": [2, 0.5]}
    for data, names in FORMS:
        for given in (table, some, want):
            frame = make_frame(data)
            logs = SlateLogs.from_frame(frame, **names, item_features=given)
            assert_array_equal(logs.item_features, want)


def test_features_of_items_by_the_index_and_labels_in_the_memory_of_one_page():
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame({"x": [3, 1, 2]}, index=["c", "a", "b"])
    logs = SlateLogs.from_frame(pandas.DataFrame(WIDE), **BRIEF, item_features=table)
    assert_array_equal(logs.item_features, [[1], [2], [3]])
    n = 20_000
    items = np.array([f"item {k:04}" for k in range(1000)])
    rng = np.random.RandomState(0)
    frame = pandas.DataFrame({"first": rng.choice(items, n), "total": np.zeros(n)})
    logs = SlateLogs.from_frame(frame, **BRIEF | {"item": ["first"]}, candidates=items)
    for some in (logs, logs[::-1], logs[rng.permutation(n)[:100]][5:]):
        assert some.item_id.shape == (len(some), 1000)
        assert some.item_id.strides[0] == 0
        assert_array_equal(some.item_id[-1], items)


def test_mistakes_in_features(make_frame):
    lacks = r"no row for item 'c' \(1 such items\)\. Did you mean 'cc'\?"
    texts = "in column 'x'; features of items are numbers"
    for item, x, error, told in (
        (None, [1, 2], ValueError, r"called 'item', 'item_id'; it has 'x'"),
        (["a", "b", "cc"], [1, 2, 3], ValueError, lacks),
        (["a", "b", "c", "b"], [0, 1, 2, 3], ValueError, "two rows for item 'b'"),
        (["a", "b", "c"], ["1", "2", "3"], TypeError, texts),
    ):
        table = make_frame({"item": item, "x": x} if item else {"x": x})
        with pytest.raises(error, match=told):
            SlateLogs.from_frame(make_frame(WIDE), **BRIEF, item_features=table)


# -- there and back -------------------------------------------------------------------
def padded():
    return SlateLogs(
        np.array([[0.5], [1.5], [2.5]]),
        [[1, -1, 0], [-1, -1, -1], [2, 1, -1]],
        slot_reward=[[1, 0, 0], [0, 0, 0], [0, 2, 0]],
        item_id=[["a", "b", "c"]] * 3,
        candidates=[[True, True, False], [True, True, True], [False, True, True]],
        propensity=[0.5, 0.25, 0.5],
        timestamp=np.array([3, 1, 2], dtype="M8[s]").astype("M8[us]"),
        group=["x", "y", "x"],
        reward_range=(0, 3),
    ).with_columns(query=["q", "r", "q"], sample_weight=[1.0, 2.0, 1.0])


def by_slot():
    mask = np.ones((2, 2, 3), dtype=bool)
    mask[0, 1, 2] = False
    slate = [[0, 1], [2, 0]]
    return SlateLogs(np.empty((2, 0)), slate, [1.0, 2.0], candidates=mask)


def plain():
    logs = make_slate_logs(30, random_state=0)
    return SlateLogs(logs.context, logs.slate, logs.reward, n_candidates=9)


@pytest.mark.parametrize("backend", ["pandas", "polars", "pyarrow"])
@pytest.mark.parametrize("form", ["wide", "long"])
@pytest.mark.parametrize("make", [padded, by_slot, plain])
def test_there_and_back(make, form, backend):
    pytest.importorskip(backend)
    logs, wide = make(), form == "wide"
    frame = logs.to_frame(backend, form=form)
    slots = range(1, logs.n_slots + 1)
    names = {"context": [f"context_{j}" for j in range(logs.n_features)]}
    names["item"] = [f"slot_{j}" for j in slots] if wide else "item"
    names |= {} if wide else {"round": "round", "slot": "slot"}
    for name in ("reward", "propensity", "timestamp", "group", "slot_reward"):
        if getattr(logs, name) is not None:
            names[name] = name
    if wide and logs.slot_reward is not None:
        names["slot_reward"] = [f"slot_reward_{j}" for j in slots]
    names["candidates"] = range(9) if logs.candidates is None else "candidates"
    names |= {"columns": list(logs.columns), "reward_range": logs.reward_range}
    back = SlateLogs.from_frame(frame, **names)
    assert_same_fields(back, logs, "context")
    if backend == "pandas":
        context = np.asarray(back.context, dtype=float).reshape(logs.shape)
        assert_array_equal(context, logs.context)


def test_candidates_that_are_numbered_anew_get_one_number_each():
    pandas = pytest.importorskip("pandas")
    rows = np.zeros((2, 1)), [[0, 1], [1, 0]], [1.0, 0.0]
    labels = [[5, 7, 0], [9, 5, 8]]
    frame = SlateLogs(*rows, n_candidates=[2, 3], item_id=labels).to_frame()
    assert isinstance(frame, pandas.DataFrame)
    names = {"item": ["slot_1", "slot_2"], "reward": "reward"}
    names |= {"candidates": "candidates", "context": ["context_0"]}
    back = SlateLogs.from_frame(frame, **names)
    assert_array_equal(back.item_id[0], [5, 7, 8, 9])
    assert_array_equal(back.slate, [[0, 1], [0, 3]])
    assert_array_equal(back.candidates, [[1, 1, 0, 0], [1, 0, 1, 1]])
    one = SlateLogs(sparse.eye(2).tocsr(), [[0], [1]], [1.0, 0.0])
    assert len(one.to_frame(form="long")) == 2


# -- mistakes -------------------------------------------------------------------------
WRONG = {
    "column 'first_' is not in the frame.* Did you mean 'first'": {"item": ["first_"]},
    "item names no column": {"item": []},
    "item names column 'first' twice": {"item": ["first", "first"]},
    "Name the column of the page with round=": {"item": "first"},
    "column of the position on the page with slot=": {"item": "first", "round": "t"},
    "slot='t' names the position in the long form": {"slot": "t"},
    "slot_reward must be a list of columns, one per slot": {"slot_reward": "click_1"},
    "slot_reward names 1 columns and item names 2": {"slot_reward": ["click_1"]},
    "name the columns of the context": {"context": None},
    "column 'total' is the reward, so it cannot": {"context": ["total"]},
    "column 'second' says what was shown": {"context": ["second"]},
    "reward is None: pass it, or slot_reward": {"reward": None},
    "candidates='agee' is no column.* Did you mean 'age'": {"candidates": "agee"},
    "list of items for every page; it is 'Ulm' for row 0": {"candidates": "city"},
    "row 0 shows 'a', which is not among candidates": {"candidates": ["b", "c", "ab"]},
    "lists True; items are texts": {"candidates": ["a", "b", "c", True]},
    "candidates lists 'b' twice": {"candidates": ["b", "c", "b"]},
    "given by page, but no column names the pages": {"candidates": {0: ["a"]}},
    "query 'q' names 2 rows. In the wide form a row is a page": {"round": "query"},
    "it is missing for page 'y'": {"round": "user", "candidates": {"x": ["a"]}},
    "propensity is the probability of the whole page": {"propensity": ["p", "p"]},
    "propensity 3 is neither a column": {"propensity": 3},
    "items are texts .* and whole numbers": {"item": ["first", "t"]},
    "'total' holds 0.5 at row 2. Items are texts or w": {"item": ["click_1", "total"]},
    "exclude must be a list": {"context": None, "exclude": "age"},
}


@pytest.mark.few_cases(32)
@pytest.mark.parametrize("message", WRONG)
def test_mistakes_of_the_wide_form(make_frame, message):
    names = {**BRIEF, **WRONG[message]}
    data = dict(WIDE)
    if names.get("round") == "user":
        data["user"] = ["x", "y", "z"]
    with pytest.raises((ValueError, TypeError), match=message):
        SlateLogs.from_frame(make_frame(data), **names)


def test_mistakes_of_the_long_form(make_frame):
    one_row = {"candidates": make_frame({"page": [7, 3], "item": ["a", "c"]})}
    who, listed = {"who": [["a"], ["a"], ["c"], ["c"]]}, {"candidates": "who"}
    clicks, age = {"slot_reward": "click"}, {"context": ["age"]}
    two_totals, no_click = {"total": [3.0, 2, 1, 0.5]}, {"click": [1.0, None, 0, 0]}
    for changed, names, told in (
        (two_totals, {}, "'total' changes within page 7: 3.0 at row 0, 2.0 at row 1"),
        ({"age": [31, None, 54, 22]}, age, "column 'age' changes within page 7"),
        ({"place": [1, 1, 2, 1]}, {}, "page 7 has two rows for slot 1: rows 0 and 1"),
        (no_click, clicks, "'click' has no reward at row 1"),
        ({"page": [7, 7, None, 5]}, {}, "'page' has a missing value at row 2"),
        (who, listed, "page 7 shows 'b' in slot 1, which is not among its candidates"),
        ({}, one_row, "candidates has no row for page 5"),
        ({"item": [None] * 4}, {}, "no page shows an item"),
        ({name: [] for name in LONG}, {}, "the frame is empty"),
    ):
        frame = make_frame({**LONG, **changed})
        with pytest.raises(ValueError, match=re.escape(told)):
            SlateLogs.from_frame(frame, **BRIEF_LONG | names)
    for values, name, told in (
        (list("abcd"), "click", "must hold the rewards of slots, num"),
        (LONG["click"], ["click"], "must name one column in the long form"),
    ):
        frame = make_frame({**LONG, "click": values})
        with pytest.raises(TypeError, match=told):
            SlateLogs.from_frame(frame, **BRIEF_LONG, slot_reward=name)


def test_missing_values_of_a_page_and_of_empty_slots(make_frame):
    frame = make_frame({**LONG, "age": [None, None, 54, 22]})
    assert len(SlateLogs.from_frame(frame, **BRIEF_LONG | {"context": ["age"]})) == 3
    data = {**WIDE, "click_1": [1.0, None, 0.0], "click_2": [2.0, 1.0, float("nan")]}
    logs = SlateLogs.from_frame(make_frame(data), **OF_WIDE)
    assert_array_equal(logs.slot_reward, [[1, 2], [0, 1], [0, 0]])


def test_what_is_no_frame_or_no_form():
    with pytest.raises(TypeError, match="from_frame expects a pandas"):
        SlateLogs.from_frame([[1, 2]], item=["a"], reward="r")
    logs = plain()
    with pytest.raises(ValueError, match=r"form must be .* Did you mean 'wide'"):
        logs.to_frame(form="wied")
    with pytest.raises(ValueError, match="has a column 'slot_1'"):
        logs.with_columns(slot_1=np.zeros(30)).to_frame()


def test_values_in_place_of_names(make_frame):
    wide, long = "reward group timestamp propensity", "item round slot"
    for (data, names), fields in zip(FORMS, (wide, long), strict=True):
        for name in fields.split():
            with pytest.raises(TypeError, match=f"{name} must be the name .* an array"):
                SlateLogs.from_frame(make_frame(data), **names | {name: np.ones(3)})
