# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Rows and pages that are missing from logs of slates, and rewards in each slot."""

import numpy as np
import pytest

from skope_ope import SlateLogs, UniformSlatePolicy, audit
from skope_ope.exceptions import LogsWarning, PropensityWarning
from tests.logs.checks._found import findings


def pages(n=2000, n_slots=4, rate=0.2, last=None, short=0.0, seed=0):
    """Frame of slates of six items, some with a slot less, and their clicks.

    The last slot of short pages is clicked with the probability `last`.
    """
    rng = np.random.RandomState(seed)
    slate = np.argsort(rng.random_sample((n, 6)), axis=1)[:, :n_slots]
    clicked = (rng.random_sample(slate.shape) < rate).astype(float)
    is_short = rng.random_sample(n) < short
    if last is not None:
        clicked[is_short, -2] = rng.random_sample(is_short.sum()) < last
    slate[is_short, -1] = -1
    clicked[is_short, -1] = 0
    return slate, clicked


def lose(slate, clicked, keep_first):
    """Lose what comes after the last click of a page."""
    reached = np.cumsum(clicked[:, ::-1], axis=1)[:, ::-1] > 0
    if keep_first:
        reached[:, 0] = True
    kept = reached.any(axis=1)
    return np.where(reached, slate, -1)[kept], np.where(reached, clicked, 0)[kept]


def made(slate, clicked, **fields):
    """Logs that offer as many slots as a page shows, as frames of pages do."""
    there = slate != -1
    candidates = np.broadcast_to(there[:, :, None], (*slate.shape, 6)).copy()
    return SlateLogs(
        np.zeros((len(slate), 1)),
        slate,
        slot_reward=clicked,
        candidates=candidates,
        logging_policy=UniformSlatePolicy(slate.shape[1]),
        **fields,
    )


@pytest.mark.parametrize("n_slots", [2, 3, 4])
@pytest.mark.parametrize("keep_first", [True, False])
def test_rows_lost_after_the_last_reward_are_found(n_slots, keep_first):
    slate, clicked = lose(*pages(n_slots=n_slots), keep_first)
    logs = made(slate, clicked)
    if n_slots == 2 and keep_first:
        # pages of one item: some kept their first row, nothing is certain
        assert not findings(logs, "lost_rows")
        return
    [one] = findings(logs, "lost_rows")
    assert (one.name, one.severity) == ("lost_rows", "error")
    assert one.category is PropensityWarning
    assert one.number < 5e-5 and one.effect > 0.5
    assert "Rows without a reward were not logged" in one.advice[0]
    n_shown = (slate != -1).sum(axis=1)
    fewest = 2 if keep_first else 1
    n_short = int(((n_shown >= fewest) & (n_shown < n_slots)).sum())
    assert one.found.startswith(f"{n_short:,} pages")
    assert f"{n_short:,} of them have a reward in their last slot" in one.found
    rows = list(one.rows)
    assert (n_shown[rows] < n_slots).all() and (clicked[rows].sum(axis=1) > 0).all()


def test_rows_lost_in_groups_and_beside_short_pages():
    slate, clicked = lose(*pages(), keep_first=False)
    group = np.arange(len(slate)) % 100
    [one] = findings(made(slate, clicked, group=group), "lost_rows")
    assert one.found.startswith("100 pages (one of each group) end early")
    group = np.arange(len(slate)) % 30  # too few to tell
    assert not findings(made(slate, clicked, group=group), "lost_rows")
    # rows lost beside pages that the layout made short
    slate, clicked = pages(n=4000, short=0.5)
    assert not findings(made(slate, clicked), "lost_rows")
    before = np.cumsum(clicked, axis=1) - clicked  # written up to the first click
    logs = made(np.where(before == 0, slate, -1), np.where(before == 0, clicked, 0))
    [one] = findings(logs, "lost_rows")
    n_lost = int(((logs.slate >= 0).sum(axis=1) == 1).sum())
    assert one.found.startswith(f"{n_lost:,} pages of 1 item end early")
    assert one.severity == "error"
    # dense rewards and none of slots tell nothing
    slate, clicked = pages(rate=1.0, short=0.5)
    logs = made(slate, clicked)
    assert not findings(logs, "lost_rows")
    assert not findings(logs, "lost_pages")
    slate, clicked = lose(*pages(), keep_first=False)
    logs = SlateLogs(np.zeros((len(slate), 1)), slate, clicked.sum(axis=1))
    assert findings(logs, "lost_rows") == []
    assert findings(logs, "lost_pages") == []


@pytest.mark.parametrize("last", [None, 0.5, 0.8])
def test_short_pages_of_right_logs_ring_in_no_log(last):
    for seed in range(5):
        logs = made(*pages(n=500, short=0.4, last=last, seed=seed))
        assert not findings(logs, "lost_rows")
        assert not findings(logs, "lost_pages")


def test_pages_that_show_all_they_offer_ring_not():
    """Two items a page, both shown; the last one is always clicked."""
    slate, clicked = pages(short=0.5, last=1.0)
    fields = {"slot_reward": clicked, "n_candidates": 6}
    fields["logging_policy"] = UniformSlatePolicy(4)
    offered = np.ones((len(slate), 6), dtype=bool)
    short = np.flatnonzero(slate[:, -1] == -1)
    offered[short] = False
    offered[short[:, None], slate[short, :3]] = True
    logs = SlateLogs(np.zeros((len(slate), 1)), slate, candidates=offered, **fields)
    assert not findings(logs, "lost_rows")
    logs = SlateLogs(np.zeros((len(slate), 1)), slate, **fields)
    assert findings(logs, "lost_rows")


def test_missing_pages_without_a_reward_are_told():
    slate, clicked = pages()
    kept = clicked.any(axis=1)
    [one] = findings(made(slate[kept], clicked[kept]), "lost_pages")
    assert (one.name, one.severity) == ("lost_pages", "warning")
    assert one.category is LogsWarning
    zero = 1 - clicked[kept].mean(axis=0)
    assert one.number == pytest.approx(kept.sum() * zero.prod())
    assert "inner join" in one.advice[0]
    [alarm] = audit(made(slate[kept], clicked[kept])).alarms
    assert alarm.name == "lost_pages"
    first = int(np.flatnonzero(~kept)[0])  # a single page without one is enough
    kept[first] = True
    assert not findings(made(slate[kept], clicked[kept]), "lost_pages")
    slate, clicked = pages(n=60)
    kept = clicked.any(axis=1)
    assert not findings(made(slate[kept], clicked[kept]), "lost_pages")
    slate, clicked = pages()
    weight = clicked.any(axis=1).astype(float)
    logs = made(slate, clicked).with_columns(sample_weight=weight)
    assert findings(logs, "lost_pages")


# -- the reward of the page in each slot ----------------------------------------------
def with_slot_rewards(slot_reward):
    rng = np.random.RandomState(0)
    slates = np.array([rng.permutation(6)[:3] for _ in range(400)])
    logger = UniformSlatePolicy(3)
    fields = {"n_candidates": 6, "slot_reward": slot_reward, "logging_policy": logger}
    return SlateLogs(np.zeros((400, 1)), slates, **fields)


def bought(share=0.2, seed=1):
    return (np.random.RandomState(seed).random_sample(400) < share).astype(float)


def test_the_reward_of_the_page_in_each_slot_is_an_error():
    logs = with_slot_rewards(np.repeat(bought()[:, None], 3, axis=1))
    [found] = findings(logs, "page_reward")
    assert found.severity == "error"
    assert found.number == np.count_nonzero(logs.reward)
    assert "reward=... and without slot_reward" in found.advice[0]
    rare = np.zeros(400)
    rare[:9] = 1
    logs = with_slot_rewards(np.repeat(rare[:, None], 3, axis=1))
    assert findings(logs, "page_reward") == []
    without = SlateLogs(np.zeros((400, 1)), logs.slate, bought())
    assert findings(without, "page_reward") == []


@pytest.mark.parametrize("share", [0.01, 0.2, 0.9])
def test_clicks_of_slots_are_none(share):
    clicks = np.column_stack([bought(share, seed) for seed in range(3)])
    assert findings(with_slot_rewards(clicks), "page_reward") == []
