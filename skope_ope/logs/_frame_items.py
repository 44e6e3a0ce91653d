# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Items in the columns of a frame: their labels, and who could be shown."""

from collections.abc import Mapping

import numpy as np

from skope_ope._texts import meant
from skope_ope.logs._frames import import_narwhals
from skope_ope.logs._validation import EMPTY, is_frame, label_codes, plain, short

GIVE_ROWS = " Give each item of a list a row of its own, e.g. with .explode(column)."


class ShownItems:
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
        labels = _ordered_items(found) if listing is None else _checked_listing(listing)
        if not len(labels):
            raise ValueError(
                "no page shows an item: all slots are empty. Does item name the right "
                "columns?"
            )
        codes = shown.page
        if shown.labels:
            codes = label_codes(labels, _array(shown.labels))
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
        n_offered = len(self.labels)
        if self.candidates is not None:
            n_offered = self.candidates.sum(axis=1)
        first = np.arange(n_slots) < n_shown[:, None]
        is_short = (n_shown > 0) & (n_shown < np.minimum(n_offered, n_slots))
        is_short &= (filled == first).all(axis=1)
        if is_short.any():
            there = ~is_short[:, None] | first
            self.candidates = self.is_offered()[:, None] & there[:, :, None]

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
    """Return what the columns of items show, as `ShownItems`."""
    labels, rows, slots = [], [], []
    for j, name in enumerate(names):
        found, at = labels_at(frame.get_column(name), f"column {name!r}")
        labels += found
        rows.append(at)
        slots.append(np.full(len(at), j))
    row, slot = np.concatenate(rows), np.concatenate(slots)
    if pages.page is not None:
        row, slot = pages.page[row], pages.slot[row]
    return ShownItems(labels, row, slot)


def labels_at(series, what):
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
    for k, label in enumerate(labels):
        if not _is_label(label):
            raise TypeError(
                f"{what} holds {label!r} at row {rows[k]}. Items are texts or whole "
                f"numbers.{GIVE_ROWS if isinstance(label, (list, np.ndarray)) else ''}"
            )
    kept = [k for k, label in enumerate(labels) if label != EMPTY]
    if len(kept) < len(labels):
        labels, rows = [labels[k] for k in kept], rows[kept]
    return labels, rows


def _is_label(value):
    return isinstance(value, (str, int)) and not isinstance(value, bool)


def _array(labels):
    return np.array(labels, dtype=str if isinstance(labels[0], str) else None)


def _ordered_items(labels):
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
        if not _is_label(label):
            raise TypeError(
                f"candidates lists {label!r}; items are texts or whole numbers. By "
                "page, pass a dict of lists, or name a column of lists."
            )
    if len(set(labels)) != len(labels):
        twice = next(label for k, label in enumerate(labels) if label in labels[:k])
        raise ValueError(f"candidates lists {twice!r} twice.")
    _ordered_items(labels)  # of one kind
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
    else:
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


# -- who could be shown on a page: what users pass as candidates with a frame ----------

PASS_ROUND = (
    "Pass round=, the name of that column, or candidates_by=, the name of the column "
    "with the keys of candidates."
)


def offered_items(candidates, pages, round_, item, by=None):
    """Return who could be shown by page as `ShownItems`, and a list of all items."""
    candidates = _as_dict(candidates)
    by_key = is_frame(candidates) or isinstance(candidates, Mapping)
    if by is not None and not by_key:
        raise TypeError(
            f"candidates_by={by!r} needs candidates as a dict or a frame, got "
            f"{type(candidates).__name__}. Pass {{key: list of items}}, or a frame "
            "with a row for every key and item."
        )
    if candidates is None:
        return None, None
    if isinstance(candidates, str):
        return _offered_by_lists(
            pages.frame.get_column(candidates).to_list(), pages
        ), None
    if not by_key:
        return None, list(candidates)
    names = [round_] if by is None else _as_names(by)
    of_frame, of_query = is_frame(candidates), ""
    if of_frame:
        candidates = import_narwhals().from_native(candidates, eager_only=True)
    if by is None and of_frame:
        of_query = _by_instead(candidates.columns, pages)
    elif by is None:
        of_query = holder_of(candidates, pages, "candidates")
    if by is None and pages.labels is None:
        raise ValueError(
            "candidates are given by page, but no column names the pages. "
            f"{of_query or PASS_ROUND}"
        )
    keys = PageKeys(pages, names, "candidates_by")
    if isinstance(candidates, Mapping):
        lists = [candidates.get(key) for key in keys.keys]
        return _offered_by_lists(lists, pages, keys, of_query), None
    return _offered_by_frame(candidates, pages, keys, item, of_query), None


def _as_names(by):
    return [by] if isinstance(by, str) else list(by)


def _as_dict(candidates):
    """Return a pandas Series of lists as a dict, by its index."""
    if isinstance(candidates, Mapping) or is_frame(candidates):
        return candidates
    if not (hasattr(candidates, "index") and hasattr(candidates, "items")):
        return candidates
    listed = [_is_list(one) for one in candidates]
    return dict(candidates.items()) if listed and all(listed) else candidates


def _is_list(some):
    return np.iterable(some) and not isinstance(some, str)


def _by_instead(columns, pages):
    """Return what to pass where a frame shares another column with the pages."""
    shared = [name for name in columns if name in pages.rows.columns]
    if pages.round in shared:
        return ""
    shared = [name for name in shared if name not in pages.of_items]
    if len(shared) != 1:
        return ""
    return f"It has the column {shared[0]!r}: pass candidates_by={shared[0]!r}."


def _offered_by_lists(lists, pages, keys=None, instead=""):
    """Return the entries of a list for every page or key, or of one for every slot."""
    labels, page, slot = [], [], []
    called = pages.called if keys is None else keys.called

    def add(some, k, j):
        for label in map(plain, some):
            if not _is_label(label):
                raise TypeError(
                    f"candidates of {called(k)} hold {label!r}. Items are texts "
                    "or whole numbers."
                )
            labels.append(label)
            page.append(k)
            slot.append(j)

    for k, some in enumerate(lists):
        if some is None or isinstance(some, float) or not _is_list(some):
            lacks = some is None or some != some
            found, remedy = f"is {some!r}", "Split texts, e.g. with .str.split(',')."
            if lacks:
                found, remedy = "is missing", instead or "Add it, or drop the pages."
            raise ValueError(
                f"candidates must be a list of items for every page; it {found} for "
                f"{called(k)}. {remedy}"
            )
        some = list(some)
        nested = [_is_list(one) for one in some]
        if not any(nested):
            add(some, k, -1)
            continue
        if len(some) != pages.n_slots or not all(nested):
            raise ValueError(
                f"candidates of {called(k)} are {len(some)} lists, and a page "
                f"has {pages.n_slots} slots: pass one list, or one for every slot."
            )
        for j, one in enumerate(some):
            add(one, k, j)
    at = np.array(page, dtype=np.intp), np.array(slot, dtype=np.intp)
    return ShownItems(labels, *at, None if keys is None else keys.code)


def _offered_by_frame(frame, pages, keys, item, instead):
    """Return the entries of a frame with a row for every key and candidate."""
    lacking = [name for name in [*keys.names, item] if name not in frame.columns]
    if lacking:
        raise ValueError(
            f"candidates needs columns {[*keys.names, item]}, and has "
            f"{frame.columns}: {lacking[0]!r} is missing. "
            f"{instead or 'Rename its columns.'}"
        )
    labels, rows = labels_at(frame.get_column(item), f"column {item!r} of candidates")
    place = {key: k for k, key in enumerate(keys.keys)}
    of_row = row_keys(frame, keys.names)
    found = [(place.get(of_row[row]), k) for k, row in enumerate(rows)]
    found = [(key, labels[k]) for key, k in found if key is not None]
    key = np.array([key for key, _ in found], dtype=np.intp)
    empty = (np.bincount(key, minlength=len(keys.keys)) == 0)[keys.code]
    if empty.any():
        first = keys.code[int(np.argmax(empty))]
        raise ValueError(
            f"candidates has no row for {keys.called(first)} ({int(empty.sum())} such "
            "pages). Add rows, or drop the pages."
        )
    labels = [label for _, label in found]
    return ShownItems(labels, key, np.full(len(key), -1), keys.code)


# -- features of items, from tables that name the items --------------------------------

ITEM_COLUMNS = ("item", "item_id")


def item_features_of(features, items, item, pages, by=None):
    """Return the features of the items, and the names of the features."""
    if by is not None:
        return _by_key(features, items, item, pages, by)
    if features is None or not (is_frame(features) or isinstance(features, Mapping)):
        return features, None
    names = None
    if isinstance(features, Mapping):
        keys = list(features)
    else:
        frame = import_narwhals().from_native(features, eager_only=True)
        keys, names = _keys_of(frame, features, item)
    keys = [plain(key) for key in keys]
    place = {}
    for k, key in enumerate(keys):
        if place.setdefault(key, k) != k:
            raise ValueError(
                f"item_features has two rows for item {key!r}. "
                f"{_features_by_instead(names, pages)}"
            )
    if names is None:
        table = [np.atleast_1d(one) for one in features.values()]
    else:
        table = _table_of(frame, names, pages)
    labels = items.labels
    missing = [label for label in labels.tolist() if label not in place]
    if missing:
        raise ValueError(
            f"item_features has no row for item {missing[0]!r} ({len(missing)} such "
            f"items).{meant(missing[0], keys)}"
        )
    return np.array([table[place[label]] for label in labels.tolist()]), names


def _features_by_instead(names, pages):
    """Return what to pass where features may differ by another column."""
    shared = [name for name in names or () if name in pages.rows.columns]
    if len(shared) == 1:
        return f"It has the column {shared[0]!r}: pass item_features_by={shared[0]!r}."
    return "Do they differ by another column? Name it with item_features_by=."


def _by_key(features, items, item, pages, by):
    """Return features that differ by page: a row for every key and item."""
    if not is_frame(features):
        raise TypeError(
            f"item_features_by={by!r} needs item_features as a frame with a row for "
            f"every key and item, got {type(features).__name__}."
        )
    names = _as_names(by)
    keys = PageKeys(pages, names, "item_features_by")
    frame = import_narwhals().from_native(features, eager_only=True)
    lacking = [name for name in names if name not in frame.columns]
    if lacking:
        raise ValueError(
            f"item_features has no column {lacking[0]!r}, which item_features_by "
            f"names; it has {frame.columns}.{meant(lacking[0], frame.columns)}"
        )
    labels, named = _keys_of(frame, None, item)
    named = [name for name in named if name not in names]
    table = _table_of(frame, named, pages)
    of_key = {key: k for k, key in enumerate(keys.keys)}
    of_item = {label: k for k, label in enumerate(items.labels.tolist())}
    row = np.full((len(keys.keys), len(items.labels)), -1)
    pairs = zip(row_keys(frame, names), map(plain, labels), strict=True)
    for k, (key, label) in enumerate(pairs):
        at = of_key.get(key), of_item.get(label)
        if None in at:
            continue
        if row[at] >= 0:
            raise ValueError(
                f"item_features has two rows for {keys.named(key)} and item "
                f"{label!r}: rows {row[at]} and {k}. Keep one."
            )
        row[at] = k
    lost = (row[keys.code] < 0) & items.is_offered()
    if lost.any():
        page, label = np.argwhere(lost)[0]
        raise ValueError(
            f"item_features has no row for {keys.called(keys.code[page])} and item "
            f"{plain(items.labels[label])!r} ({int(lost.sum())} such entries of "
            "pages). Add the rows, or take the items out of the candidates."
        )
    known = np.where((row >= 0)[:, :, None], table[np.maximum(row, 0)], 0.0)
    return known[keys.code], named


def _instead_of_text(name, pages):
    """Return what to do with a column that holds no numbers."""
    if name in pages.rows.columns:
        return (
            f"The pages have a column {name!r}, too: if it names the row together with "
            f"the item, pass item_features_by={name!r}."
        )
    return "Encode the column, e.g. with pandas.get_dummies."


def _keys_of(frame, features, item):
    """Return the items of a frame of features, and the names of the others."""
    names = list(frame.columns)
    key = next((name for name in (item, *ITEM_COLUMNS) if name in names), None)
    if key is not None:
        names.remove(key)
        return frame.get_column(key).to_list(), names
    if hasattr(features, "index") and type(features.index).__name__ != "RangeIndex":
        return features.index.tolist(), names
    known = ", ".join(map(repr, dict.fromkeys((item, *ITEM_COLUMNS))))
    raise ValueError(
        f"item_features needs a column that names the items, called {known}; it "
        f"has {', '.join(map(repr, names))}."
    )


def _table_of(frame, names, pages):
    """Return columns of numbers side by side."""
    for name in names:
        dtype = frame.get_column(name).dtype
        if not (dtype.is_numeric() or str(dtype) == "Boolean"):
            raise TypeError(
                f"item_features holds {dtype} in column {name!r}; features of items "
                f"are numbers. {_instead_of_text(name, pages)}"
            )
    if not names:
        raise ValueError("item_features has no column of features, only of items.")
    return np.column_stack([frame.get_column(name).to_numpy() for name in names])


# -- keys of pages: what tables of candidates and of features are looked up by ---------

MOST_KEYS_COMPARED = 200  # keys that are compared with the columns of pages


class PageKeys:
    """The values of some columns, page by page."""

    def __init__(self, pages, names, argument):
        self.pages, self.names = pages, names
        columns = pages.rows.columns
        for name in names:
            if name not in columns:
                raise ValueError(
                    f"{argument} names {name!r}, which is no column of the frame."
                    f"{meant(name, columns)}"
                )
        pages.check_constant(names)
        place, code = {}, np.empty(pages.n_pages, dtype=np.intp)
        for k, key in enumerate(row_keys(pages.frame, names)):
            code[k] = place.setdefault(key, len(place))
        self.keys, self.code = list(place), code

    def called(self, key):
        """Return what messages call the key of a number."""
        if self.names == [self.pages.round]:
            return f"page {self.keys[key]!r}"
        return self.named(self.keys[key])

    def named(self, key):
        """Return a key with the names of its columns."""
        values = key if len(self.names) > 1 else (key,)
        pairs = zip(self.names, values, strict=True)
        return " and ".join(f"{name} {value!r}" for name, value in pairs)


def row_keys(frame, names):
    """Return the values of columns by row; tuples where there are several."""
    values = [[plain(one) for one in frame.get_column(n).to_list()] for n in names]
    return values[0] if len(names) == 1 else list(zip(*values, strict=True))


def holder_of(keys, pages, argument):
    """Return what to pass where the keys are values of another column, or ''."""
    keys = [plain(key) for key in keys]
    if not keys or any(
        key in keys[:MOST_KEYS_COMPARED] for key in _values_as_keys(pages, pages.round)
    ):
        return ""
    wanted = set(keys)
    for name in pages.rows.columns:
        if name in pages.of_items or name == pages.round:
            continue
        if wanted & _values_as_keys(pages, name):
            pass_it = f"pass {argument}_by={name!r}."
            return f"Its keys are values of column {name!r}: {pass_it}"
    return ""


def _values_as_keys(pages, name):
    """Return the values of a column that can be keys."""
    if name is None:
        return set()
    values = (plain(one) for one in pages.frame.get_column(name).to_list())
    return {one for one in values if isinstance(one, (str, int))}
