# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
r"""Logged pages as tables of impressions and clicks by item and slot.

Everything that is said of positions is a function of tables: impressions
:math:`M(a, i)` and rewards :math:`C(a, i)` of item a in slot i, and sums of rewards by
the slots j in which the policy would have shown the item. One pass over chunks of rows
makes them; only a number per impression is kept, and the rewarded impressions, so that
the tables of a bootstrap sample of pages, or of a group of pages, need no further look
at the logs. No table has more entries than items times slots.
"""

from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from skope_ope._parallel import run_tasks
from skope_ope.intervals._bootstrap import LARGEST_SEED
from skope_ope.logs._coded_labels import encode_labels
from skope_ope.logs._validation import EMPTY, label_codes

PAGE_ENTRIES = 1 << 20  # probabilities asked of a policy at once


@dataclass
class Tables:
    """Sums over pages, by item and slot."""

    impressions: np.ndarray  # how often an item was shown in a slot
    clicks: np.ndarray  # its rewards there
    # The pages, where it is known what the policy does on them
    pages: "Pages | None" = None
    reward: np.ndarray | None = None  # their rewards, as often as the pages are counted

    def moved(self):
        """Get rewards by logged slot and by that in which the policy shows the item."""
        # The shape is (n_slots, n_target_slots).
        slot = self.pages.rewarded % self.pages.n_slots
        weighted = self.reward * self.pages.to.T
        sums = [np.bincount(slot, one, self.pages.n_slots) for one in weighted]
        return np.stack(sums, axis=-1).astype(float)

    def moved_to(self, attention):
        """Return rewards times the attention that the policy gives their items."""
        # The shape is (n_items, n_slots), by logged slots.
        to = self.pages.to @ attention[: self.pages.to.shape[1]]
        return self.pages.of_cells(self.reward * to).reshape(self.clicks.shape)


@dataclass
class Pages:
    """What is kept of the pages."""

    # item * n_slots + slot of every impression; one more than all: an empty slot
    cell: np.ndarray
    n_items: int  # number of distinct items that were shown or could be
    n_slots: int
    # Page, cell and reward of the impressions with a reward
    page: np.ndarray
    rewarded: np.ndarray
    reward: np.ndarray
    # Probability with which the policy shows their items in its slots
    to: np.ndarray | None = None
    # How often the policy shows an item in a slot; last: items without a code
    wanted: np.ndarray | None = None

    def __len__(self):
        return len(self.cell)

    def take(self, rows):
        """Return some of the pages, by their numbers."""
        position = np.full(len(self), -1)
        position[rows] = np.arange(len(rows))
        kept = position[self.page] >= 0
        return replace(
            self,
            cell=self.cell[rows],
            page=position[self.page[kept]],
            rewarded=self.rewarded[kept],
            reward=self.reward[kept],
            to=None if self.to is None else self.to[kept],
        )

    def tables(self, omega=None):
        """Return the `Tables` of the pages, each of them counted `omega` times."""
        n_cells, shape = self.n_items * self.n_slots, (self.n_items, self.n_slots)
        reward = self.reward
        impressions = np.zeros(n_cells + 1)
        size = max(PAGE_ENTRIES // self.n_slots, n_cells // 4, 1)
        for start in range(0, len(self), size):  # bincount makes copies
            block = self.cell[start : start + size]
            weights = None
            if omega is not None:
                weights = np.repeat(omega[start : start + size], self.n_slots)
            impressions += np.bincount(block.ravel(), weights, n_cells + 1)
        if omega is not None:
            reward = reward * omega[self.page]
        return Tables(
            impressions[:-1].reshape(shape),
            self.of_cells(reward).reshape(shape),
            self,
            reward,
        )

    def of_cells(self, values):
        """Sum numbers per reward over the cells; floats, even where there are none."""
        n_cells = self.n_items * self.n_slots
        return np.bincount(self.rewarded, values, n_cells).astype(float)

    def page_sums(self, of_cell=None, of_reward=None):
        """Return sums over every page: of a number per cell, of one per reward."""
        total = np.zeros(len(self))
        if of_cell is not None:
            of_cell = np.append(np.ravel(of_cell), 0.0)  # empty slots
            for slot in range(self.n_slots):
                total += of_cell[self.cell[:, slot]]
        if of_reward is not None:
            total += np.bincount(self.page, of_reward, len(self))
        return total


def make_pages(logs, target=None, paired=False):
    """Return the `Pages` of some logs, with what a `SlateTarget` does on them."""
    # Where an item is shown more than once on a page, `to` counts all slots in which
    # the policy shows the item; if `paired`, every impression has one slot of its own.
    _check_slot_reward(logs)
    labels = item_labels(logs)
    n_items = logs.max_candidates if labels is None else len(labels)
    n_rounds, n_slots = logs.slate.shape
    small = n_items * n_slots < 2**31 - 1
    cell = np.empty((n_rounds, n_slots), dtype=np.int32 if small else np.int64)
    parts, wanted = [], 0.0
    width = n_slots
    if target is not None and target.slates is None:
        width *= n_slots if target.only_moves else logs.max_candidates
    size = max(PAGE_ENTRIES // width, 1)
    for start in range(0, n_rounds, size):
        stop = min(start + size, n_rounds)
        rounds = logs if stop - start == n_rounds else logs[start:stop]
        shown = rounds.slate
        code = item_codes(rounds, shown, labels)
        cell[start:stop] = code * n_slots + np.arange(n_slots)
        cell[start:stop][shown == EMPTY] = n_items * n_slots
        row, slot = np.nonzero(rounds.slot_reward)
        to = None
        if target is not None:
            to, more = _target_slots(
                target, rounds, slice(start, stop), (row, slot), labels, paired
            )
            wanted = wanted + more
        parts.append(
            (start + row, cell[start + row, slot], rounds.slot_reward[row, slot], to)
        )
    page, rewarded, reward, to = zip(*parts, strict=True)
    return Pages(
        cell,
        n_items,
        n_slots,
        np.concatenate(page),
        np.concatenate(rewarded),
        np.concatenate(reward),
        None if target is None else np.concatenate(to),
        None if target is None else wanted,
    )


def _check_slot_reward(logs):
    if logs.slot_reward is None:
        raise ValueError(
            "the logs do not say in which slot a click fell. Pass slot_reward=... "
            "of shape (n_rounds, n_slots) to SlateLogs."
        )


def item_labels(logs):
    """Return the labels of the items that were shown, None where indices are."""
    if logs.item_id is None:
        return None
    row, slot = np.nonzero(logs.slate != EMPTY)
    return encode_labels("item_id", logs.item_id[row, logs.slate[row, slot]])[0]


def item_codes(logs, slates, labels):
    """Return the codes of the items of slates, `len(labels)` for unknown ones."""
    # Empty slots get any code.
    if labels is None:
        return np.maximum(slates, 0)
    named = np.take_along_axis(logs.item_id, np.maximum(slates, 0), axis=1)
    code = label_codes(labels, named.ravel()).reshape(slates.shape)
    return np.where(code < 0, len(labels), code)


def slate_items(logs, slates, labels):
    """Return the codes of the items of slates, -1 in empty slots."""
    if labels is None:
        return slates
    return np.where(slates == EMPTY, EMPTY, item_codes(logs, slates, labels))


def _target_slots(target, rounds, rows, rewarded, labels, paired):
    """Return where the policy shows the rewarded items, and what it shows at all."""
    row, slot = rewarded
    n_items = rounds.max_candidates if labels is None else len(labels)
    logged = slate_items(rounds, rounds.slate, labels)
    shown = logged[row, slot]
    if target.slates is not None:
        slates = slate_items(rounds, target.slates[rows], labels)
        wanted = [
            np.bincount(code[code != EMPTY], minlength=n_items + 1) for code in slates.T
        ]
        there = slates[row]
        if paired:
            there = _in_turn(there)
            shown = _in_turn(logged[row])[np.arange(len(row)), slot]
        to = (there == shown[:, None]).astype(float)
        return to, np.stack(wanted, axis=1).astype(float)
    if target.only_moves:
        moves = target.moves(rounds)
        code = np.maximum(logged, 0).ravel()
        wanted = [  # nothing moves out of an empty slot
            np.bincount(code, moves[:, :, j].ravel(), n_items + 1)
            for j in range(moves.shape[2])
        ]
        to = moves[row, slot]
        if not paired:
            to = _of_items(to, moves, logged, row, shown)
        return to, np.stack(wanted, axis=1)
    proba = target.marginals(rounds, rows.start)
    to = proba[row, :, rounds.slate[row, slot]]
    wanted = np.zeros((n_items + 1, proba.shape[1]))
    if labels is None:
        wanted[:n_items] = proba.sum(axis=0).T
    else:
        every = np.broadcast_to(np.arange(proba.shape[2]), proba[:, 0].shape)
        code = item_codes(rounds, every, labels)
        for j in range(proba.shape[1]):
            wanted[:, j] = np.bincount(code.ravel(), proba[:, j].ravel(), n_items + 1)
        to = _of_items(to, proba.transpose(0, 2, 1), code, row, shown)
    if paired:  # all copies of an item go everywhere alike
        to = to / (logged[row] == shown[:, None]).sum(axis=1, keepdims=True)
    return to, wanted


def _in_turn(code):
    """Return codes in which the second impression of an item is another item."""
    code = code.astype(np.int64)
    turn = np.zeros_like(code)
    for slot in range(1, code.shape[1]):
        turn[:, slot] = (code[:, :slot] == code[:, slot : slot + 1]).sum(axis=1)
    return code * (1 << 31) + turn


def _of_items(to, moves, code, row, shown):
    """Return where items go: the sums of what goes there under the same item."""
    # `to` is right where an item is in a row once; `moves[row, k]` says where the
    # candidate of item `code[row, k]` goes.
    same = code[row] == shown[:, None]
    many = np.flatnonzero(same.sum(axis=1) > 1)
    if many.size:
        to = to.copy()
        to[many] = np.einsum("rkj,rk->rj", moves[row[many]], same[many].astype(float))
    return to


# -- the bootstrap of pages -----------------------------------------------------------


def seeds_of(random_state, n_bootstrap):
    """Return one seed per bootstrap sample."""
    return random_state.randint(LARGEST_SEED, size=n_bootstrap).tolist()


def draw_pages(rng, n_pages, clusters=None):
    """How often each of the pages is in a bootstrap sample."""
    if clusters is not None:
        return draw_pages(rng, int(clusters.max()) + 1)[clusters]
    drawn = rng.randint(n_pages, size=n_pages)
    return np.bincount(drawn, minlength=n_pages).astype(float)


def bootstrap(statistic, pages, seeds):
    """Return a statistic of bootstrap samples of pages, one row per seed."""
    # Every sample has a seed of its own, so the result does not depend on how many
    # processes share the work (`joblib.parallel_config(n_jobs=...)`).
    return np.array(
        run_tasks([partial(_replicate, statistic, pages, s) for s in seeds])
    )


def _replicate(statistic, pages, seed):
    return statistic(pages, np.random.RandomState(seed))
