# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Features of items, from tables that name the items."""

from collections.abc import Mapping

import numpy as np

from skope_ope._meant import meant
from skope_ope.logs._frames import import_narwhals
from skope_ope.logs._page_keys import PageKeys, row_keys
from skope_ope.logs._validation import is_frame, plain

KEYS = ("item", "item_id")


def item_features_of(features, items, item, pages, by=None):
    """Return the features of the items, and the names of the features."""
    if by is not None:
        return _by_key(features, items, item, pages, by)
    if features is None or not (is_frame(features) or isinstance(features, Mapping)):
        return features, None
    frame = names = None
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
                f"{_by_instead(names, pages)}"
            )
    if frame is None:
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


def _by_instead(names, pages):
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
    names = [by] if isinstance(by, str) else list(by)
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
    key = next((name for name in (item, *KEYS) if name in names), None)
    if key is not None:
        names.remove(key)
        return frame.get_column(key).to_list(), names
    if hasattr(features, "index") and type(features.index).__name__ != "RangeIndex":
        return features.index.tolist(), names
    known = ", ".join(map(repr, dict.fromkeys((item, *KEYS))))
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
