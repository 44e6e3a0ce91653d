# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Which rows of a frame make up a page, and in which slots."""

import numpy as np

from skope_ope.exceptions import LogsWarning, warn_user
from skope_ope.logs._factorise import factorise, first_of_codes
from skope_ope.logs._frames import column_of
from skope_ope.logs._slate_fields import EMPTY
from skope_ope.logs._validation import plain


class FramePages:
    """The pages of a frame."""

    def __init__(self, frame, round_, slot, is_long, n_slots, of_items=()):
        self.rows, self.n_slots, self.round = frame, n_slots, round_
        self.of_items = {slot, *of_items}
        self.page = self.slot = self.labels = None
        if not len(frame):
            raise ValueError("the frame is empty: at least one page is needed.")
        if not is_long:
            self.frame, self.n_pages = frame, len(frame)
            if round_ is not None:
                self._name_rows(round_)
            return
        labels, code = _factorised(frame, round_)
        first = first_of_codes(code, len(labels))
        order = np.argsort(first)  # pages come as their first rows do
        rank = np.empty(len(order), dtype=np.intp)
        rank[order] = np.arange(len(order))
        self.page, self.labels, self.first = rank[code], labels[order], first[order]
        slots, self.slot = _factorised(frame, slot)
        self.n_pages, self.n_slots = len(labels), len(slots)
        self.frame = frame[self.first.tolist()]
        self._check_once(slots)

    def _name_rows(self, round_):
        labels, code = _factorised(self.rows, round_)
        twice = np.flatnonzero(np.bincount(code) > 1)
        if twice.size:
            label = plain(labels[twice[0]])
            raise ValueError(
                f"{round_} {label!r} names {int((code == twice[0]).sum())} rows. In "
                "the wide form a row is a page; where it is an item, pass one column "
                "as item, and slot=."
            )
        self.labels = labels[code]

    def _check_once(self, slots):
        """Raise where a page has two rows for one slot."""
        place = self.page * self.n_slots + self.slot
        order = np.argsort(place, kind="stable")
        again = np.flatnonzero(place[order][1:] == place[order][:-1])
        if again.size:
            one, other = order[again[0]], order[again[0] + 1]
            raise ValueError(
                f"{self.called(self.page[one])} has two rows for slot "
                f"{plain(slots[self.slot[one]])!r}: rows {one} and {other}. Each slot "
                "shows one item: drop one of them, or name another column as slot."
            )

    def called(self, page):
        """Return what messages call a page."""
        if self.labels is None:
            return f"row {page}"
        return f"page {plain(self.labels[page])!r}"

    def check_constant(self, names):
        """Raise where a column of pages changes within a page of the long form."""
        if self.page is None:
            return
        of_page = self.first[self.page]
        for name in dict.fromkeys(names):
            series = self.rows.get_column(name)
            missing = series.is_null().to_numpy().astype(bool)
            values = series.to_numpy()
            if values.dtype.kind == "f":
                missing = missing | np.isnan(values)
            differ = missing != missing[of_page]
            known = np.flatnonzero(~missing & ~differ)
            differ[known] = values[known] != values[of_page[known]]
            if differ.any():
                row = int(np.flatnonzero(differ)[0])
                first = of_page[row]
                raise ValueError(
                    f"column {name!r} changes within {self.called(self.page[row])}: "
                    f"{plain(values[first])!r} at row {first}, {plain(values[row])!r} "
                    f"at row {row}. Name a column that has one value for a page; "
                    "rewards of single items go to slot_reward."
                )

    def spread(self, values, empty):
        """Return values of the rows of the long form by page and slot."""
        out = np.full((self.n_pages, self.n_slots), empty, dtype=values.dtype)
        out[self.page, self.slot] = values
        return out

    def slot_values(self, frame, names, slate):
        """Return the rewards of the slots, 0 where a slot is empty."""
        empty = slate < 0
        if self.page is not None:
            values = _slot_numbers(frame, names[0], empty[self.page, self.slot])
            return self.spread(values, 0.0)
        columns = zip(names, empty.T, strict=True)
        return np.column_stack([_slot_numbers(frame, *one) for one in columns])


def _factorised(frame, name):
    found = column_of(frame, name, True)
    return factorise(getattr(found, "values", found))


def _slot_numbers(frame, name, empty):
    """Return a column of rewards; those of empty slots may be missing."""
    series = frame.get_column(name)
    missing = series.is_null().to_numpy().astype(bool)
    values = series.fill_null(0).to_numpy() if missing.any() else series.to_numpy()
    if values.dtype.kind not in "biuf":
        raise TypeError(
            f"column {name!r} must hold the rewards of slots, numbers, got "
            f"{series.dtype}."
        )
    values = values.astype(float)
    missing = missing | np.isnan(values)
    wrong = np.flatnonzero(missing & ~empty)
    if wrong.size:
        raise ValueError(
            f"column {name!r} has no reward at row {wrong[0]}, where an item was shown "
            f"({wrong.size} such rows). Fill in 0 where nothing came of it."
        )
    values[missing] = 0.0
    return values


# -- whether what is given as the rewards of slots is the reward of the page -----------

FEWEST_REWARDED = (
    10  # pages with a reward, and others: chance does not make all slots equal
)


def like_page_reward(slot_reward, slate):
    """Tell whether all slots of every page have the same reward, and pages differ."""
    filled = slate != EMPTY
    several = filled.sum(axis=1) > 1
    reward = np.asarray(slot_reward, dtype=float)[several]
    most = np.where(filled[several], reward, -np.inf).max(axis=1, initial=-np.inf)
    least = np.where(filled[several], reward, np.inf).min(axis=1, initial=np.inf)
    if (most != least).any() or not len(most):
        return None
    usual = np.unique(most, return_counts=True)[1].max()
    n_rewarded = int(np.count_nonzero(most))
    if min(n_rewarded, len(most) - usual) < FEWEST_REWARDED:
        return None
    return len(most), n_rewarded


def warn_of_page_reward(slot_reward, slate, names):
    """Warn where the columns of the rewards of slots look like that of the page."""
    found = like_page_reward(slot_reward, slate)
    if found is None:
        return
    n_pages, n_rewarded = found
    what, given = names[0], names if len(names) > 1 else names[0]
    page = "the column with the reward of the page" if len(names) > 1 else repr(what)
    told = (
        f"slot_reward={given!r} is the same in all slots of each of the {n_pages:,} "
        "pages with several items, so it looks like the reward of the page. The "
        "rewards of slots are added: a page then counts once for every slot. Pass "
        f"reward={page} and no slot_reward."
    )
    warn_user([LogsWarning(told, float(n_rewarded))])
