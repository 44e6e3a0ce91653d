# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Items in the columns of a frame: their labels, and who could be shown."""

import numpy as np

from skope_ope._meant import meant
from skope_ope.logs._slate_fields import EMPTY
from skope_ope.logs._validation import label_codes, plain, short

GIVE_ROWS = " Give each item of a list a row of its own, e.g. with .explode(column)."


class Shown:
    """Labels of items, and where they stand."""

    def __init__(self, labels, page, slot, code=None):
        self.labels, self.page, self.slot, self.code = labels, page, slot, code


class Items:
    """The items of all pages, by number."""

    def __init__(self, labels, slate, candidates, by_slot=False):
        self.labels, self.slate, self.candidates = labels, slate, candidates
        self.by_slot = by_slot

    @classmethod
    def of(cls, shown, offered, listing, pages):
        """Give every item its index."""
        found = [*shown.labels, *(offered.labels if offered is not None else ())]
        labels = _ordered(found) if listing is None else _checked_listing(listing)
        if not len(labels):
            raise ValueError(
                "no page shows an item: all slots are empty. Does item name the right "
                "columns?"
            )
        codes = (
            label_codes(labels, _array(shown.labels)) if shown.labels else shown.page
        )
        outside = np.flatnonzero(codes < 0)
        if outside.size:
            label = shown.labels[outside[0]]
            raise ValueError(
                f"{pages.called(shown.page[outside[0]])} shows {label!r}, which is not "
                f"among candidates {short(labels)} ({outside.size} such entries)."
                f"{meant(label, labels.tolist())} Add it there or drop the page."
            )
        slate = np.full((pages.n_pages, pages.n_slots), EMPTY, dtype=np.intp)
        slate[shown.page, shown.slot] = codes
        mask, by_slot = None, False
        if offered is not None:
            mask = _mask(offered, labels, pages)
            _check_offered(mask, slate, labels, pages)
            by_slot = mask.ndim == 3
            mask = None if mask.all() else mask
        return cls(labels, slate, mask, by_slot)

    def shorten(self):
        """Take pages with fewer items as pages with fewer slots."""
        # The last slots of such a page offer nothing. That is right for policies that
        # fill every slot while a candidate is left: another reading gives the page
        # probability zero. A page that lacks an item before its last one has lost a row
        # and stays as it is, as does a page without any item.
        if self.by_slot:
            return
        filled = self.slate != EMPTY
        n_shown = filled.sum(axis=1)
        n_slots = self.slate.shape[1]
        offered, n_offered = self.candidates, len(self.labels)
        if offered is not None:
            n_offered = offered.sum(axis=1)
        slots = np.arange(n_slots)
        short_ = (n_shown > 0) & (n_shown < np.minimum(n_offered, n_slots))
        short_ &= (filled == (slots < n_shown[:, None])).all(axis=1)
        if not short_.any():
            return
        if offered is None:
            offered = np.ones((len(self.slate), len(self.labels)), dtype=bool)
        there = ~short_[:, None] | (slots < n_shown[:, None])
        self.candidates = offered[:, None] & there[:, :, None]

    def is_offered(self):
        """Tell which items a page offers in any slot, (n_pages, n_items)."""
        if self.candidates is None:
            return np.ones((len(self.slate), len(self.labels)), dtype=bool)
        if self.candidates.ndim == 3:
            return self.candidates.any(axis=1)
        return self.candidates

    @property
    def item_id(self):
        """Labels by page and index; None where the labels are the indices."""
        labels = self.labels
        if labels.dtype.kind in "iu" and np.array_equal(labels, np.arange(len(labels))):
            return None
        return np.broadcast_to(labels, (len(self.slate), len(labels)))


def fills_slots(policy):
    """Tell whether a policy fills every slot while a candidate is left."""
    return bool(getattr(policy, "_fills_slots", False))


def shown_items(frame, names, pages):
    """Return what the columns of items show, as `Shown`."""
    labels, rows, slots = [], [], []
    for j, name in enumerate(names):
        found, at = labels_of(frame.get_column(name), f"column {name!r}")
        labels += found
        rows.append(at)
        slots.append(np.full(len(at), j))
    row, slot = np.concatenate(rows), np.concatenate(slots)
    if pages.page is not None:
        return Shown(labels, pages.page[row], pages.slot[row])
    return Shown(labels, row, slot)


def labels_of(series, what):
    """Return the labels of a column that are there, and their rows."""
    present = ~series.is_null().to_numpy().astype(bool)
    values = series.drop_nulls().to_numpy()
    if values.dtype.kind == "f":  # where a whole number is missing, pandas has floats
        known = ~np.isnan(values)
        present[present] = known
        values = values[known]
        odd = np.flatnonzero(values % 1 != 0)
        if odd.size:
            row = np.flatnonzero(present)[odd[0]]
            raise TypeError(
                f"{what} holds {values[odd[0]]:g} at row {row}. Items are texts or "
                "whole numbers."
            )
        values = values.astype(np.int64)
    rows = np.flatnonzero(present)
    labels = [plain(label) for label in values.tolist()]
    kept = []
    for k, label in enumerate(labels):
        if isinstance(label, bool) or not isinstance(label, (str, int)):
            raise TypeError(
                f"{what} holds {label!r} at row {rows[k]}. Items are texts or whole "
                f"numbers.{GIVE_ROWS if isinstance(label, (list, np.ndarray)) else ''}"
            )
        if label != EMPTY:
            kept.append(k)
    if len(kept) < len(labels):
        labels, rows = [labels[k] for k in kept], rows[kept]
    return labels, rows


def _array(labels):
    return np.array(labels, dtype=str if isinstance(labels[0], str) else None)


def _ordered(labels):
    """Return the distinct labels in their order."""
    texts = {label for label in labels if isinstance(label, str)}
    numbers = {label for label in labels if not isinstance(label, str)}
    if texts and numbers:
        raise TypeError(
            f"items are texts ({min(texts)!r}) and whole numbers ({min(numbers)!r}). "
            "Use one kind of label, e.g. frame[column].astype(str)."
        )
    return np.array(sorted(texts or numbers), dtype=str if texts else None)


def _checked_listing(listing):
    """Return the items that a list names, in its order."""
    labels = [plain(label) for label in listing]
    for label in labels:
        if isinstance(label, bool) or not isinstance(label, (str, int)):
            raise TypeError(
                f"candidates lists {label!r}; items are texts or whole numbers. By "
                "page, pass a dict of lists, or name a column of lists."
            )
    if len(set(labels)) != len(labels):
        twice = next(label for k, label in enumerate(labels) if label in labels[:k])
        raise ValueError(f"candidates lists {twice!r} twice.")
    _ordered(labels)  # of one kind
    return _array(labels) if labels else np.zeros(0, dtype=np.intp)


def _mask(offered, labels, pages):
    """Return who could be shown, by page or by page and slot."""
    codes = label_codes(labels, _array(offered.labels)) if offered.labels else []
    code = offered.code
    n_rows = pages.n_pages if code is None else int(code.max()) + 1
    every = offered.slot < 0
    if every.all():
        mask = np.zeros((n_rows, len(labels)), dtype=bool)
        mask[offered.page, codes] = True
        return mask if code is None else mask[code]
    mask = np.zeros((n_rows, pages.n_slots, len(labels)), dtype=bool)
    mask[offered.page[~every], offered.slot[~every], codes[~every]] = True
    mask[offered.page[every], :, codes[every]] = True
    return mask if code is None else mask[code]


def _check_offered(mask, slate, labels, pages):
    """Raise where a page shows what is not among its candidates."""
    page, slot = np.nonzero(slate >= 0)
    code = slate[page, slot]
    there = mask[page, code] if mask.ndim == 2 else mask[page, slot, code]
    if not there.all():
        k = int(np.flatnonzero(~there)[0])
        raise ValueError(
            f"{pages.called(page[k])} shows {plain(labels[code[k]])!r} in slot "
            f"{slot[k] + 1}, which is not among its candidates "
            f"({int((~there).sum())} such entries). Correct the candidates or drop the "
            "page."
        )
