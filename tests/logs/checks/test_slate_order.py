# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

from itertools import permutations

import numpy as np
import pytest
from numpy.testing import assert_allclose

from skope_ope import (
    PseudoInverse,
    SlateLogs,
    UniformSlatePolicy,
    audit,
    compare_policies,
    evaluate,
    report,
    suggest,
    verdict,
)
from skope_ope.exceptions import PropensityWarning
from skope_ope.logs.checks import _slate_order
from skope_ope.logs.checks._slate_order import SURE_OF_PAGES, uniform_order_findings
from tests._quiet import quiet
from tests.logs.checks.test_shared_pages import (
    MASKS,
    best,
    found,
    pages,
    right_logs,
    short_pages,
)

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
    (one,) = found(as_sorted(right))
    assert (one.name, one.severity) == ("slate_order", "error")
    assert one.category is PropensityWarning
    assert one.number > SURE_OF_PAGES and 0.1 < one.effect < 0.4
    assert "were sorted by a ranking" in one.advice[0]
    assert "The position is not the one that was shown" in one.advice[1]
    assert not found(right)


def test_pages_sorted_by_name_of_items_that_do_not_recur():
    """Only the numbers of candidates, which follow the names, can tell."""
    rng = np.random.RandomState(0)
    slate = np.arange(4000).reshape(1000, 4)
    key = rng.permutation(4000)
    offered = np.zeros((1000, 4000), dtype=bool)
    offered[np.arange(1000)[:, None], slate] = True

    def logs(slate):
        fields = {"candidates": offered, "logging_policy": UniformSlatePolicy(4)}
        return SlateLogs(np.zeros((1000, 1)), slate, np.zeros(1000), **fields)

    (one,) = uniform_order_findings(logs(slate))[1]
    assert "the candidate with the lower number is first in 100.0% of" in one.found
    assert_allclose(one.effect, 1)
    (one,) = uniform_order_findings(logs(slate[:, ::-1]))[1]
    assert "the lower number is first in 0.0% of pairs, and 50% are" in one.found
    # no item recurs, and the numbers do not tell of the order
    assert not uniform_order_findings(as_sorted(logs(slate), 1, key))[1]


@pytest.mark.parametrize("kind", ["by page", "catalogue"])
def test_pages_sorted_by_a_feature_of_items_that_do_not_recur(kind):
    """The places of items on other pages tell nothing, and their features do."""
    rng, n = np.random.RandomState(0), 1000
    score = rng.standard_normal((n, 6, 3)) * [1, 1000, 1e-3]
    slate = np.argsort(rng.random_sample((n, 6)), axis=1)[:, :4]
    label, features = np.arange(6 * n).reshape(n, 6), score
    if kind == "catalogue":
        features = score.reshape(-1, 3)
    fields = {"logging_policy": UniformSlatePolicy(4), "n_candidates": 6}
    fields |= {"item_id": label, "item_features": features}
    assert not found(SlateLogs(np.zeros((n, 1)), slate, np.zeros(n), **fields))
    key = -score[np.arange(n)[:, None], slate, 1]
    by_key = np.take_along_axis(slate, key.argsort(axis=1), axis=1)
    slate[::4] = by_key[::4]
    (one,) = found(SlateLogs(np.zeros((n, 1)), slate, np.zeros(n), **fields))
    assert one.name == "slate_order" and one.effect > 0.1
    assert "the larger score, linear in item_features, is first in" in one.found


def test_what_is_found_is_said():
    slate = np.tile([[2, 0], [2, 1], [1, 0], [0, 1]], (100, 1))
    logs = SlateLogs(
        np.zeros((400, 1)),
        slate,
        np.zeros(400),
        item_id=np.tile(["a", "b", "c"], (400, 1)),
        logging_policy=UniformSlatePolicy(2),
    )
    facts, (one,) = uniform_order_findings(logs)
    assert facts == {"order of the items on a page": "400 pages compared"}
    assert "the earlier place on other pages is first in " in one.found
    assert one.found.endswith(
        "Item 'c' has place 1 on average (1: the first) on 200 pages, and random "
        "order gives 1.5."
    )


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
        bare = SlateLogs(np.zeros((n, 1)), slate, np.zeros(n), **fields)
        assert not uniform_order_findings(bare)[1]
    logs = SlateLogs(np.zeros((n, 1)), slate, np.zeros(n), item_id=label, **fields)
    (one,) = uniform_order_findings(logs)[1]
    assert "Item 1" in one.found and one.effect > 0.5


def test_an_item_that_is_always_first():
    """One of forty items has the first slot where it is shown."""
    logs = pages(2000, 40, 4, 1, 40, passed=True)
    (one,) = found(as_sorted(logs, 1, np.where(np.arange(40) == 7, 0, 1)))
    assert "Candidate 7 has place 1 on average" in one.found
    assert one.name == "slate_order"


def test_ratios_have_mean_one():
    z = np.array([0.3, -1.0, 0.0, 1.5])
    orders = np.array(list(permutations(range(4))))
    for tilt in (0.5, 3.0):
        ratio = _slate_order._order_ratio(z[orders], np.ones((24, 4), dtype=bool), tilt)
        assert_allclose(ratio.mean(), 1)
    # of empty slots: those that are shown count
    shown = np.tile([True, False, True, False], (2, 1))
    ratio = _slate_order._order_ratio(
        np.array([[1, 0, 2, 0], [2, 0, 1, 0.0]]), shown, 1.0
    )
    assert_allclose(ratio, [2 / (1 + np.e), 2 * np.e / (1 + np.e)])


def test_pages_are_told_by_those_of_other_blocks():
    """The score of a page does not depend on its order, or on later blocks."""
    logs = pages(400, 12, 4, 1, 12, passed=True)
    block = _slate_order._page_blocks(400, None)
    assert (np.bincount(block) > 20).all() and block.max() == 3
    slate = logs.slate.copy()
    slate[block >= 2] = slate[block >= 2][:, ::-1]
    scores = []
    for one in (logs.slate, slate):
        items = _slate_order._Items(with_slates(logs, one), np.arange(400))
        scores.append(items.learned(block, np.ones(400)))
    assert_allclose(scores[1][block == 1], scores[0][block == 1])
    assert_allclose(scores[1][block == 2], scores[0][block == 2][:, ::-1])
    assert (scores[0][block == 0] == 0).all()


def test_groups_and_weighted_pages():
    few = as_sorted(pages(12, 12, 4, 1, 12, passed=True), 1)
    again = np.repeat(np.arange(12), 50)
    assert not uniform_order_findings(few[again].replace(group=again))[1]
    assert uniform_order_findings(few[again])[1]
    groups = np.repeat(np.arange(1000), 2)
    logs = as_sorted(pages(2000, 12, 4, 1, 12, passed=True))
    assert uniform_order_findings(logs.replace(group=groups))[1]
    # pages with item 0 in front are kept, and a third of the others
    right = pages(4000, 12, 4, 1, 12, passed=True)
    first = right.slate[:, 0] == 0
    lot = np.random.RandomState(1).random_sample(4000) < 1 / 3
    some = right[np.flatnonzero(first | lot)]
    assert uniform_order_findings(some)[1]
    weight = np.where(some.slate[:, 0] == 0, 1.0, 3.0)
    assert not uniform_order_findings(some.with_columns(sample_weight=weight))[1]


def test_a_small_part_is_no_finding():
    """One page in fifty is sorted: sure in a large log, and of no effect."""
    logs = pages(40_000, 12, 4, 1, 12, passed=True)
    assert not found(as_sorted(logs, 0.02))
    assert found(as_sorted(logs, 0.1))


# -- short pages ----------------------------------------------------------------------
@pytest.mark.parametrize("mask", ["short", "gap"])
def test_sorted_short_pages_are_found(mask):
    logs = short_pages(4000, passed=True, mask=mask)
    wrong = as_sorted(logs)
    (one,) = found(wrong)
    assert one.name == "slate_order"


def test_slots_that_offer_different_items_are_left_out():
    """Slot 0 offers items 0 to 2, slot 1 items 3 to 5: no order is random."""
    rng, n = np.random.RandomState(0), 200
    offered = np.zeros((n, 2, 6), dtype=bool)
    offered[:, 0, :3] = offered[:, 1, 3:] = True
    slate = np.column_stack([rng.randint(3, size=n), 3 + rng.randint(3, size=n)])
    fields = {"candidates": offered, "logging_policy": UniformSlatePolicy(2)}
    logs = SlateLogs(np.zeros((n, 1)), slate, np.zeros(n), **fields)
    facts, none = uniform_order_findings(logs)
    assert none == [] and "not possible" in facts["order of the items on a page"]


def test_a_slot_that_had_nothing_left():
    """Slot 1 offers item 0 only. Where it is empty, item 0 is always first."""
    n, rng = 3000, np.random.RandomState(0)
    offered = np.ones((n, 3, 3), dtype=bool)
    offered[:, 1, 1:] = False
    bare = SlateLogs(
        np.zeros((n, 1)), np.full((n, 3), -1), np.zeros(n), candidates=offered
    )
    slate = UniformSlatePolicy(3).sample(bare, rng)
    assert ((slate[:, 1] < 0) & (slate[:, 0] == 0) & (slate[:, 2] > 0)).any()
    logs = with_slates(bare, slate, logging_policy=UniformSlatePolicy(3))
    assert not found(logs)


@pytest.mark.few_cases(1)
@pytest.mark.parametrize("n_items", [10, 12, 40])
@pytest.mark.parametrize("mask", MASKS)
def test_right_logs_of_short_pages_are_quiet(mask, n_items):
    for seed in range(25):
        logs = short_pages((60, 400, 1500)[seed % 3], True, n_items, seed, mask)
        assert not uniform_order_findings(logs)[1]


# -- level, time ----------------------------------------------------------------------
def test_right_logs_are_quiet():
    # evidence above 10,000 has a chance of at most 1 in 10,000 in each of them
    assert not any(uniform_order_findings(right_logs(seed))[1] for seed in range(50))


@pytest.mark.theory
def test_evidence_of_right_logs_keeps_its_level(monkeypatch):
    monkeypatch.setattr(_slate_order, "SURE_OF_PAGES", np.log(20))
    monkeypatch.setattr(_slate_order, "ORDER_EFFECT", -1.0)
    alarms = sum(bool(uniform_order_findings(right_logs(s))[1]) for s in range(1000))
    assert alarms <= 50


def test_of_very_many_pages_some_are_drawn(monkeypatch):
    logs = pages(20_000, 40, 4, 4, 10, passed=True)
    facts = uniform_order_findings(logs)[0]
    assert facts["order of the items on a page"] == "20,000 pages compared"
    monkeypatch.setattr(_slate_order, "SLOTS_COMPARED", 4 * 500)
    facts = uniform_order_findings(logs)[0]
    assert facts["order of the items on a page"] == "500 pages of 20,000 compared"
    logs = short_pages(500, True)
    monkeypatch.setattr(_slate_order, "MOST_OFFERED_BYTES", 4 * 40 * 100)
    assert " of 500 compared" in str(uniform_order_findings(logs)[0])


# -- decisions ------------------------------------------------------------------------
@pytest.mark.filterwarnings("ignore::skope_ope.exceptions.LowOverlapWarning")
@pytest.mark.filterwarnings("ignore::skope_ope.exceptions.SupportWarning")
@pytest.mark.filterwarnings("ignore:.*mean importance weight")
def test_no_decision_rests_on_sorted_pages():
    wrong = as_sorted(pages(8000, 40, 4, 8, 10, passed=True), key=-np.arange(40))
    match = "were sorted by a ranking"
    with pytest.warns(PropensityWarning, match=match):
        table = evaluate(best(wrong), wrong)
    assert table.reason.startswith("the candidates or the logging policy do not fit")
    with pytest.warns(PropensityWarning, match=match):
        compared = compare_policies({"new": best(wrong)}, wrong)
    assert compared.decision == "undecided"
    assert "pages whose items are not in random order" in compared.sentence
    value = quiet(PseudoInverse().fit(wrong), best(wrong))
    assert value.verdict.answer == "not supported"
    assert "slate_order" in [one.name for one in value.verdict.reasons]
    of_log = audit(wrong)
    assert of_log.alarms[0].name == "slate_order"
    assert verdict(value, audit=of_log).answer == "not supported"
    assert suggest(None, wrong).evaluator is None
    with pytest.warns(PropensityWarning, match=match):
        told = report(best(wrong), wrong)
    assert match in str(told)
