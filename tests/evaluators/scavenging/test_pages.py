# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause

import tracemalloc

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from skope_ope import PositionScavenging, ReorderingScavenging, SlateLogs
from skope_ope.evaluators import ReorderingPolicy
from skope_ope.evaluators.core._slate_target import SlateTarget
from skope_ope.evaluators.scavenging import _pages
from skope_ope.evaluators.scavenging._pages import item_labels, make_pages
from tests.evaluators.core.test_slate_target import Marginals
from tests.evaluators.scavenging._toys import biased_pages, sl4

RAGGED = np.array([[0, 1, -1], [2, -1, -1], [1, 0, 2], [0, 2, -1]])
CLICKS = np.array([[1, 0.5, 0], [0, 0, 0], [0, 2, 1], [0, 1, 0]])


def moved(tables):
    """Rewards by item, logged slot and new slot."""
    n_slots = tables.pages.to.shape[1]
    return np.stack([tables.moved_to(unit) for unit in np.eye(n_slots)], axis=-1)


def ragged(**fields):
    return SlateLogs(np.zeros((4, 1)), RAGGED, None, slot_reward=CLICKS, **fields)


def loop(logs, target, omega=None):
    """The tables, one impression after the other."""
    labels = item_labels(logs)
    n_items = logs.max_candidates if labels is None else len(labels)
    shape = (n_items, logs.n_slots)
    shown, clicks = np.zeros(shape), np.zeros(shape)
    moved = np.zeros((*shape, target.shape[1]))
    for t, slate in enumerate(logs.slate):
        w = 1 if omega is None else omega[t]
        for i, item in enumerate(slate):
            if item < 0:
                continue
            a = item
            if labels is not None:
                a = labels.tolist().index(logs.item_id[t, item])
            shown[a, i] += w
            clicks[a, i] += w * logs.slot_reward[t, i]
            for j, new in enumerate(target[t]):
                name = new if labels is None else logs.item_id[t, new]
                if new >= 0 and name == (item if labels is None else labels[a]):
                    moved[a, i, j] += w * logs.slot_reward[t, i]
    return shown, clicks, moved


@pytest.mark.parametrize("named", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("entries", [1, 7, 1 << 20])
def test_tables_are_those_of_a_loop(named, weighted, entries, monkeypatch):
    monkeypatch.setattr(_pages, "CHUNK_ENTRIES", entries)
    # in the last two rows two candidates are of one item; the last shows it twice
    names = np.array([list("abc"), list("cba"), list("aba"), list("ece")])
    logs = ragged(item_id=names) if named else ragged()
    target = np.array([[1, 0], [2, -1], [0, 2], [1, 2]])
    omega = np.array([1.0, 2, 0, 3]) if weighted else None
    pages = make_pages(logs, SlateTarget(target, logs, same_width=False))
    tables = pages.tables(omega)
    shown, clicks, goes = loop(logs, target, omega)
    assert_allclose(tables.impressions, shown)
    assert_allclose(tables.clicks, clicks)
    assert_allclose(moved(tables), goes)
    assert_allclose(tables.moved(), goes.sum(axis=0))
    proba = (target[:, :, None] == np.arange(3)).astype(float)
    by_proba = make_pages(logs, SlateTarget(OfRows(proba), logs, same_width=False))
    assert_allclose(moved(by_proba.tables(omega)), goes)
    assert_allclose(by_proba.wanted, pages.wanted)


class OfRows(Marginals):
    """Marginals that follow the rows, as those of a policy do."""

    def slot_marginals(self, logs):
        return self.proba[logs.row_id.position]


def test_groups_of_pages():
    logs = biased_pages(60, (1, 0.5, 0.3), np.linspace(0.2, 0.8, 6), 0)
    target = SlateTarget(logs.slate, logs)
    rows = np.array([5, 3, 40, 41])
    taken = make_pages(logs, target).take(rows).tables()
    expected = make_pages(logs[rows], SlateTarget(logs.slate[rows], logs[rows]))
    assert_array_equal(taken.impressions, expected.tables().impressions)
    assert_array_equal(moved(taken), moved(expected.tables()))


def test_items_that_only_the_policy_shows():
    names = np.array([list("abz")] * 3 + [list("zba")])
    slate = [[0, 1], [1, 0], [0, 1], [1, 2]]
    logs = SlateLogs(
        np.zeros((4, 1)), slate, None, item_id=names, slot_reward=np.ones((4, 2))
    )
    target = np.array([[0, 2], [2, 1], [0, 1], [0, -1]])
    pages = make_pages(logs, SlateTarget(target, logs, same_width=False))
    assert_array_equal(pages.wanted, [[2, 0], [0, 2], [2, 1]])  # a, b, never shown
    proba = (target[:, :, None] == np.arange(3)).astype(float)
    assert_array_equal(
        make_pages(logs, SlateTarget(OfRows(proba), logs, same_width=False)).wanted,
        pages.wanted,
    )


def test_what_only_moves_needs_no_candidates():
    logs = ragged()
    policy = ReorderingPolicy("random").fit(logs)
    moves = make_pages(logs, SlateTarget(policy, logs, may_move=True))
    other = make_pages(logs, SlateTarget(OfRows(policy.slot_marginals(logs)), logs))
    assert_allclose(moved(moves.tables()), moved(other.tables()))
    assert_allclose(moves.wanted, other.wanted)


@pytest.mark.parametrize("named", [False, True])
def test_an_item_that_is_on_a_page_twice(named):
    """One candidate in two slots, or two candidates of one item."""
    names = {"item_id": np.array([list("aab")] * 2)} if named else {}
    slate = np.array([[0, 1, 2], [2, 0, 1]]) if named else np.array([[0, 0, 2]] * 2)
    logs = SlateLogs(
        np.zeros((2, 1)), slate, None, slot_reward=np.ones((2, 3)), **names
    )
    policy = ReorderingPolicy({"b" if named else 2: 1.0})
    new = policy.reorder(logs)
    marginals = OfRows(policy.slot_marginals(logs))
    by_moves, by_slates, by_proba = (
        SlateTarget(of, logs, may_move=True) for of in (policy, new, marginals)
    )
    for target in (by_moves, by_slates, by_proba):
        pages = make_pages(logs, target)
        # every impression tells of the item wherever it is shown
        assert_allclose(pages.to.sum(axis=1), np.where(slate.ravel() == 2, 1, 2))
    for target in (by_moves, by_slates):
        pages = make_pages(logs, target, paired=True)
        assert_array_equal(pages.to, make_pages(logs, by_moves, paired=True).to)
        assert_array_equal(pages.to.sum(axis=1), 1)
        for page in range(2):
            assert_array_equal(pages.to[pages.page == page].sum(axis=0), 1)
    pages = make_pages(logs, by_proba, paired=True)  # copies go everywhere alike
    assert_array_equal(pages.to[:2], [[0, 0.5, 0.5]] * 2)
    assert_allclose(pages.to.sum(axis=1), 1)


def test_no_table_has_more_than_items_times_slots():
    rng = np.random.RandomState(0)
    n_pages, n_slots = 1000, 20
    slate = np.argsort(rng.random_sample((n_pages, 40)), axis=1)[:, :n_slots]
    names = rng.randint(12_000, size=(n_pages, 40))
    clicks = (rng.random_sample(slate.shape) < 0.1).astype(float)
    logs = SlateLogs(
        np.zeros((n_pages, 1)), slate, None, item_id=names, slot_reward=clicks
    )
    evaluators = [
        cls(attention=np.ones(20)) for cls in (PositionScavenging, ReorderingScavenging)
    ]
    for evaluator in evaluators:
        evaluator.fit(logs)
        tracemalloc.start()
        evaluator.evaluate(logs.slate[:, ::-1])
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        table = 8 * len(item_labels(logs)) * n_slots
        assert peak < 10 * table  # it was 40


def test_sums_over_pages():
    pages = make_pages(ragged())
    of_cell = np.arange(9.0)
    expected = [
        sum(of_cell[3 * a + i] for i, a in enumerate(slate) if a >= 0)
        for slate in RAGGED
    ]
    assert_allclose(pages.page_sums(of_cell), expected)
    assert_allclose(pages.page_sums(of_reward=pages.reward), CLICKS.sum(axis=1))


def test_rewards_of_slots_are_needed():
    logs = SlateLogs(np.zeros((2, 1)), [[0, 1], [1, 0]], [1.0, 0.0])
    with pytest.raises(ValueError, match=r"in which slot a click fell.*slot_reward="):
        make_pages(logs)


def test_one_number_is_kept_per_impression():
    assert make_pages(sl4()).cell.dtype == np.int32


def test_ragged_slates():
    with pytest.raises((ValueError, TypeError), match="slate"):
        SlateLogs(np.zeros((2, 1)), [[0, 1], [2]], [1.0, 0.0])
    assert make_pages(ragged()).tables().impressions.sum() == 8
