# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

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
from skope_ope.exceptions import LowOverlapWarning
from skope_ope.logs._frame_items import Items, Shown
from skope_ope.logs._frame_pages import Pages
from skope_ope.logs._frames import opened
from skope_ope.policies import MixtureSlatePolicy, ProductSlatePolicy

pytestmark = pytest.mark.frames
pytest.importorskip("narwhals")
SHOWN = Shown(["b", "a", "b"], np.array([0, 0, 1]), np.array([0, 1, 1]))


@pytest.fixture
def pages():
    """Two pages of two slots."""
    pandas = pytest.importorskip("pandas")
    return Pages(opened(pandas.DataFrame({"x": [0, 1]})), None, None, False, 2)


def test_items_are_sorted(pages):
    items = Items.of(SHOWN, None, None, pages)
    assert items.labels.tolist() == ["a", "b"]
    assert_array_equal(items.slate, [[1, 0], [-1, 1]])
    assert items.candidates is None


def test_items_are_in_the_order_of_a_list(pages):
    items = Items.of(SHOWN, None, ["c", "b", "a"], pages)
    assert_array_equal(items.slate, [[1, 2], [-1, 1]])
    with pytest.raises(ValueError, match="row 0 shows 'a', which is not among"):
        Items.of(SHOWN, None, ["b"], pages)
    with pytest.raises(TypeError, match=r"lists True; items are texts"):
        Items.of(SHOWN, None, ["b", True], pages)


def test_offers_of_all_slots_and_of_one(pages):
    offered = Shown(
        ["a", "b", "b", "c"], np.array([0, 0, 1, 1]), np.array([1, 0, -1, -1])
    )
    items = Items.of(SHOWN, offered, None, pages)
    assert_array_equal(
        items.candidates,
        [
            [[False, True, False], [True, False, False]],
            [[False, True, True], [False, True, True]],
        ],
    )
    less = Shown(["b", "b"], np.array([0, 1]), np.array([-1, -1]))
    with pytest.raises(ValueError, match="row 0 shows 'a' in slot 2, which is not"):
        Items.of(SHOWN, less, None, pages)


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
