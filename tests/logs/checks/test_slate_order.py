# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause


import numpy as np
import pytest
from numpy.testing import assert_allclose

from skope_ope import SlateLogs, UniformSlatePolicy
from skope_ope.exceptions import PropensityWarning
from tests.logs.checks._found import blank_slates, quick
from tests.logs.checks.test_shared_pages import pages, sampled, short_pages


def out_of_order(logs):
    return [one for one in quick(logs) if one.name == "slate_order"]


WORLDS = {
    "ten of forty": (1000, 40, 4, 4, 10),
    "all of twelve": (1000, 12, 4, 1, 12),
    "two of three": (2000, 5, 2, 2, 3),
    "many queries": (1000, 100, 4, 10, 12),
    "long pages": (1000, 500, 10, 50, 20),
}


def with_slates(logs, slate, **fields):
    """Logs with other slates."""
    names = "slot_reward", "n_candidates", "candidates", "item_features", "item_id"
    kept = {name: getattr(logs, name) for name in (*names, "logging_policy", "group")}
    return SlateLogs(logs.context, slate, logs.reward, **(kept | fields))


def as_sorted(logs, share=0.25, key=None, seed=0):
    """Sort the items of some pages by a key; what a page shows, and where, stays."""
    rng, slate = np.random.RandomState(seed), logs.slate.copy()
    key = rng.permutation(logs.max_candidates) if key is None else key
    chosen = rng.random_sample(len(slate)) < share
    order = np.where(slate < 0, np.inf, key[slate]).argsort(axis=1, kind="stable")
    by_key = np.take_along_axis(slate, order, axis=1)[chosen]
    some = slate[chosen]
    some[some >= 0] = by_key[by_key >= 0]
    slate[chosen] = some
    return with_slates(logs, slate)


@pytest.mark.parametrize("world", WORLDS)
def test_a_quarter_of_sorted_pages_is_found(world):
    right = pages(*WORLDS[world], passed=True)
    (one,) = quick(as_sorted(right))
    assert (one.name, one.severity) == ("slate_order", "error")
    assert one.category is PropensityWarning
    assert one.number > np.log(10_000) and 0.1 < one.effect < 0.4
    assert "were sorted by a ranking" in one.advice[0]
    assert "The position is not the one that was shown" in one.advice[1]
    assert not quick(right)


def test_pages_sorted_by_name_of_items_that_do_not_recur():
    """Only the numbers of candidates, which follow the names, can tell."""
    slate = np.arange(4000).reshape(1000, 4)
    offered = np.zeros((1000, 4000), dtype=bool)
    offered[np.arange(1000)[:, None], slate] = True
    fields = {"candidates": offered, "logging_policy": UniformSlatePolicy(4)}
    (one,) = out_of_order(blank_slates(slate, **fields))
    assert "the candidate with the lower number is first in 100.0% of" in one.found
    assert_allclose(one.effect, 1)
    (one,) = out_of_order(blank_slates(slate[:, ::-1], **fields))
    assert "the lower number is first in 0.0% of pairs, and 50% are" in one.found
    # no item recurs, and the numbers do not tell of the order
    key = np.random.RandomState(0).permutation(4000)
    assert not out_of_order(as_sorted(blank_slates(slate, **fields), 1, key))


@pytest.mark.parametrize("kind", ["by page", "catalogue"])
def test_pages_sorted_by_a_feature_of_items_that_do_not_recur(kind):
    """The places of items on other pages tell nothing, and their features do."""
    rng, n = np.random.RandomState(0), 1000
    score = rng.standard_normal((n, 6, 3)) * [1, 1000, 1e-3]
    slate = np.argsort(rng.random_sample((n, 6)), axis=1)[:, :4]
    fields = {"logging_policy": UniformSlatePolicy(4), "n_candidates": 6}
    fields["item_id"] = np.arange(6 * n).reshape(n, 6)
    fields["item_features"] = score.reshape(-1, 3) if kind == "catalogue" else score
    assert not quick(blank_slates(slate, **fields))
    key = -score[np.arange(n)[:, None], slate, 1]
    by_key = np.take_along_axis(slate, key.argsort(axis=1), axis=1)
    slate[::4] = by_key[::4]
    (one,) = quick(blank_slates(slate, **fields))
    assert one.name == "slate_order" and one.effect > 0.1
    assert "the larger score, linear in item_features, is first in" in one.found


def test_what_is_found_is_said():
    slate = np.tile([[2, 0], [2, 1], [1, 0], [0, 1]], (100, 1))
    labels = np.tile(["a", "b", "c"], (400, 1))
    logs = blank_slates(slate, item_id=labels, logging_policy=UniformSlatePolicy(2))
    (one,) = out_of_order(logs)
    facts = logs._quick_propensity_findings[0]
    assert facts["order of the items on a page"] == "400 pages compared"
    assert "the earlier place on other pages is first in " in one.found
    assert one.found.endswith(
        "Item 'c' has place 1 on average (1: the first) on 200 pages, and random "
        "order gives 1.5."
    )
    # one of forty items has the first slot where it is shown
    logs = pages(2000, 40, 4, 1, 40, passed=True)
    (one,) = quick(as_sorted(logs, 1, np.where(np.arange(40) == 7, 0, 1)))
    assert "Candidate 7 has place 1 on average" in one.found
    assert one.name == "slate_order"


@pytest.mark.parametrize("one_row", [True, False])
def test_items_are_known_by_their_labels(one_row):
    """Numbers of candidates stand for other items on every page."""
    n, rng = 1000, np.random.RandomState(0)
    label = np.argsort(rng.random_sample((n, 10)), axis=1)[:, :4] + 100
    key = rng.permutation(200)
    number = np.argsort(rng.random_sample((n, 4)), axis=1)  # of the item in a slot
    shown = np.take_along_axis(label, number, axis=1)
    order = np.argsort(key[shown], axis=1)
    slate = np.take_along_axis(number, order, axis=1)
    fields = {"logging_policy": UniformSlatePolicy(4)}
    if one_row:  # a row of labels stands for all pages: numbers are the same items
        slate = np.take_along_axis(shown, order, axis=1) - 100
        label = np.broadcast_to(np.arange(10) + 100, (n, 10))
    else:
        assert not out_of_order(blank_slates(slate, **fields))
    (one,) = out_of_order(blank_slates(slate, item_id=label, **fields))
    assert "Item 1" in one.found and one.effect > 0.5


def test_small_parts_groups_and_weights():
    """One page in fifty is sorted: sure in a large log, and of no effect."""
    logs = pages(40_000, 12, 4, 1, 12, passed=True)
    assert not quick(as_sorted(logs, 0.02))
    assert quick(as_sorted(logs, 0.1))
    # groups and weighted pages
    few = as_sorted(pages(12, 12, 4, 1, 12, passed=True), 1)
    again = np.repeat(np.arange(12), 50)
    assert not out_of_order(few[again].replace(group=again))
    assert out_of_order(few[again])
    groups = np.repeat(np.arange(1000), 2)
    logs = as_sorted(pages(2000, 12, 4, 1, 12, passed=True))
    assert out_of_order(logs.replace(group=groups))
    # pages with item 0 in front are kept, and a third of the others
    right = pages(4000, 12, 4, 1, 12, passed=True)
    first = right.slate[:, 0] == 0
    lot = np.random.RandomState(1).random_sample(4000) < 1 / 3
    some = right[np.flatnonzero(first | lot)]
    assert out_of_order(some)
    weight = np.where(some.slate[:, 0] == 0, 1.0, 3.0)
    assert not out_of_order(some.with_columns(sample_weight=weight))


# -- short pages ----------------------------------------------------------------------
@pytest.mark.parametrize("mask", ["short", "gap"])
def test_sorted_short_pages_are_found(mask):
    (one,) = quick(as_sorted(short_pages(4000, passed=True, mask=mask)))
    assert one.name == "slate_order"


def test_slots_that_are_left_out():
    """Slot 0 offers items 0 to 2, slot 1 items 3 to 5: no order is random."""
    rng, n = np.random.RandomState(0), 200
    offered = np.zeros((n, 2, 6), dtype=bool)
    offered[:, 0, :3] = offered[:, 1, 3:] = True
    slate = np.column_stack([rng.randint(3, size=n), 3 + rng.randint(3, size=n)])
    fields = {"candidates": offered, "logging_policy": UniformSlatePolicy(2)}
    facts, none = blank_slates(slate, **fields)._quick_propensity_findings
    assert none == [] and "not possible" in facts["order of the items on a page"]
    # slot 1 offers item 0 only. Where it is empty, item 0 is always first
    offered = np.ones((3000, 3, 3), dtype=bool)
    offered[:, 1, 1:] = False
    empty, rng = np.full((3000, 3), -1), np.random.RandomState(0)
    logs = sampled(UniformSlatePolicy(3), empty, rng, candidates=offered)
    first, second, third = logs.slate.T
    assert ((second < 0) & (first == 0) & (third > 0)).any()
    assert not quick(logs)
