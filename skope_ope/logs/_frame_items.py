# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Items in the columns of a frame: their labels, who could be shown, and features."""

from collections.abc import Mapping

import numpy as np

from skope_ope._meant import meant
from skope_ope.logs._frames import check_named, import_narwhals
from skope_ope.logs._slate_fields import EMPTY
from skope_ope.logs._validation import is_frame, label_codes, plain, short

KEYS = ("item", "item_id")


class Shown:
    """Labels of items, and where they stand.

    Parameters
    ----------
    labels : list
        Texts or whole numbers.
    page, slot : ndarray of int of shape (n_labels,)
        Slot -1: every slot of the page.
    """

    def __init__(self, labels, page, slot):
        self.labels, self.page, self.slot = labels, page, slot


class Items:
    """The items of all pages, by number.

    Parameters
    ----------
    labels : ndarray of shape (n_items,)
        In the order of their indices.
    slate : ndarray of int of shape (n_pages, n_slots)
        Indices, -1: empty.
    candidates : ndarray of bool or None
        Who could be shown; None: everybody.
    """

    def __init__(self, labels, slate, candidates):
        self.labels, self.slate, self.candidates = labels, slate, candidates

    @classmethod
    def of(cls, shown, offered, listing, pages):
        """Give every item its index.

        Parameters
        ----------
        shown, offered : Shown
            What was shown, and what could be; None: anything.
        listing : list or None
            All items, in the order of their indices.
        pages : Pages
            The pages.
        """
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
        mask = None
        if offered is not None:
            mask = _mask(offered, labels, pages)
            _check_offered(mask, slate, labels, pages)
            mask = None if mask.all() else mask
        return cls(labels, slate, mask)

    @property
    def item_id(self):
        """Labels by page and index; None where the labels are the indices."""
        labels = self.labels
        if labels.dtype.kind in "iu" and np.array_equal(labels, np.arange(len(labels))):
            return None
        return np.broadcast_to(labels, (len(self.slate), len(labels)))


def shown_items(frame, names, pages):
    """Return what the columns of items show, as `Shown`."""
    labels, rows, slots = [], [], []
    for j, name in enumerate(names):
        found, at = _labels_of(frame.get_column(name), f"column {name!r}")
        labels += found
        rows.append(at)
        slots.append(np.full(len(at), j))
    row, slot = np.concatenate(rows), np.concatenate(slots)
    if pages.page is not None:
        return Shown(labels, pages.page[row], pages.slot[row])
    return Shown(labels, row, slot)


def _labels_of(series, what):
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
                "numbers."
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


def candidates_of(candidates, rows, pages, round_, slot, item):
    """Return who could be shown by page as `Shown`, or a list of all items.

    Parameters
    ----------
    candidates : str, list, dict, frame or None
        As `from_frame` takes it.
    rows : narwhals frame
        One row a page.
    pages : Pages
        The pages.
    round_, slot, item : str
        Columns of a frame of candidates.

    Returns
    -------
    offered : Shown or None
    listing : list or None
    """
    if candidates is None:
        return None, None
    if isinstance(candidates, str):
        return _of_lists(rows.get_column(candidates).to_list(), pages), None
    if is_frame(candidates) or isinstance(candidates, Mapping):
        if pages.labels is None:
            raise ValueError(
                "candidates are given by page, but no column names the pages. Pass "
                "round=, the name of that column."
            )
        if is_frame(candidates):
            return _of_frame(candidates, pages, round_, slot, item), None
        lists = [None] * pages.n_pages
        for k, label in enumerate(pages.labels.tolist()):
            lists[k] = candidates.get(label)
        return _of_lists(lists, pages), None
    return None, list(candidates)


def _of_lists(lists, pages):
    """Return the entries of a list for every page, or of one for every slot."""
    labels, page, slot = [], [], []

    def add(some, k, j):
        for label in map(plain, some):
            if isinstance(label, bool) or not isinstance(label, (str, int)):
                raise TypeError(
                    f"candidates of {pages.called(k)} hold {label!r}. Items are texts "
                    "or whole numbers."
                )
            labels.append(label)
            page.append(k)
            slot.append(j)

    for k, some in enumerate(lists):
        if some is None or isinstance(some, (str, float)) or not np.iterable(some):
            found = f"is missing for {pages.called(k)}"
            if some is not None and some == some:
                found = f"is {some!r} for {pages.called(k)}"
            raise ValueError(
                f"candidates must be a list of items for every page; it {found}. Split "
                "texts, e.g. with .str.split(',')."
            )
        some = list(some)
        nested = [np.iterable(one) and not isinstance(one, str) for one in some]
        if not any(nested):
            add(some, k, -1)
            continue
        if len(some) != pages.n_slots or not all(nested):
            raise ValueError(
                f"candidates of {pages.called(k)} are {len(some)} lists, and a page "
                f"has {pages.n_slots} slots: pass one list, or one for every slot."
            )
        for j, one in enumerate(some):
            add(one, k, j)
    return Shown(labels, np.array(page, dtype=np.intp), np.array(slot, dtype=np.intp))


def _of_frame(candidates, pages, round_, slot, item):
    """Return the entries of a frame with a row for every page and candidate."""
    frame = import_narwhals().from_native(candidates, eager_only=True)
    check_named(frame, [round_, item])
    found, rows = _labels_of(frame.get_column(item), f"column {item!r} of candidates")
    place = {label: k for k, label in enumerate(pages.labels.tolist())}
    of_row = [place.get(plain(one)) for one in frame.get_column(round_).to_list()]
    kept = [k for k, row in enumerate(rows) if of_row[row] is not None]
    page = np.array([of_row[rows[k]] for k in kept], dtype=np.intp)
    lacking = np.flatnonzero(np.bincount(page, minlength=pages.n_pages) == 0)
    if lacking.size:
        raise ValueError(
            f"candidates has no row for {pages.called(lacking[0])} ({lacking.size} "
            "such pages). Add rows, or drop the pages."
        )
    slots = np.full(len(kept), -1)
    return Shown([found[k] for k in kept], page, slots)


def _mask(offered, labels, pages):
    """Return who could be shown, by page or by page and slot."""
    codes = label_codes(labels, _array(offered.labels)) if offered.labels else []
    if (offered.slot < 0).all():
        mask = np.zeros((pages.n_pages, len(labels)), dtype=bool)
        mask[offered.page, codes] = True
        return mask
    mask = np.zeros((pages.n_pages, pages.n_slots, len(labels)), dtype=bool)
    every = offered.slot < 0
    mask[offered.page[~every], offered.slot[~every], codes[~every]] = True
    mask[offered.page[every], :, codes[every]] = True
    return mask


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


def item_features_of(features, labels, item):
    """Return the features of the items, an array of shape (n_items, n_features).

    Parameters
    ----------
    features : frame, dict, array-like or None
        As `from_frame` takes it.
    labels : ndarray of shape (n_items,)
        The items.
    item : str or None
        What the column of the items may be called.
    """
    if features is None or not (is_frame(features) or isinstance(features, Mapping)):
        return features
    if isinstance(features, Mapping):
        keys = list(features)
        table = [np.atleast_1d(one) for one in features.values()]
    else:
        keys, table = _rows_by_key(features, item)
    keys = [plain(key) for key in keys]
    twice = next((key for k, key in enumerate(keys) if key in keys[:k]), None)
    if twice is not None:
        raise ValueError(f"item_features has two rows for item {twice!r}.")
    place = {key: k for k, key in enumerate(keys)}
    missing = [label for label in labels.tolist() if label not in place]
    if missing:
        raise ValueError(
            f"item_features has no row for item {missing[0]!r} ({len(missing)} such "
            f"items).{meant(missing[0], keys)}"
        )
    return np.array([table[place[label]] for label in labels.tolist()])


def _rows_by_key(features, item):
    """Return the items of a frame of features, and their rows."""
    frame = import_narwhals().from_native(features, eager_only=True)
    names = list(frame.columns)
    key = next((name for name in (item, *KEYS) if name in names), None)
    if key is not None:
        keys = frame.get_column(key).to_list()
        names.remove(key)
    elif hasattr(features, "index") and type(features.index).__name__ != "RangeIndex":
        keys = features.index.tolist()
    else:
        known = ", ".join(map(repr, dict.fromkeys((item or "item", *KEYS))))
        raise ValueError(
            f"item_features needs a column that names the items, called {known}; it "
            f"has {', '.join(map(repr, names))}."
        )
    for name in names:
        dtype = frame.get_column(name).dtype
        if not (dtype.is_numeric() or str(dtype) == "Boolean"):
            raise TypeError(
                f"item_features holds {dtype} in column {name!r}; features of items "
                "are numbers. Encode the column, e.g. with pandas.get_dummies."
            )
    return keys, np.column_stack([frame.get_column(name).to_numpy() for name in names])
