# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Who could be shown on a page: what users pass as candidates with a frame."""

from collections.abc import Mapping

import numpy as np

from skope_ope.logs._frame_items import Shown, labels_of
from skope_ope.logs._frames import import_narwhals
from skope_ope.logs._page_keys import PageKeys, holder_of, row_keys
from skope_ope.logs._validation import is_frame, plain

PASS_ROUND = (
    "Pass round=, the name of that column, or candidates_by=, the name of the column "
    "with the keys of candidates."
)


def candidates_of(candidates, pages, round_, item, by=None):
    """Return who could be shown by page as `Shown`, and a list of all items."""
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
        return _of_lists(pages.frame.get_column(candidates).to_list(), pages), None
    if not by_key:
        return None, list(candidates)
    names = [round_] if by is None else _names(by)
    if is_frame(candidates):
        candidates = import_narwhals().from_native(candidates, eager_only=True)
        of_query = _by_instead(candidates.columns, pages) if by is None else ""
    else:
        of_query = holder_of(candidates, pages, "candidates") if by is None else ""
    if by is None and pages.labels is None:
        raise ValueError(
            "candidates are given by page, but no column names the pages. "
            f"{of_query or PASS_ROUND}"
        )
    keys = PageKeys(pages, names, "candidates_by")
    if isinstance(candidates, Mapping):
        lists = [candidates.get(key) for key in keys.keys]
        return _of_lists(lists, pages, keys, of_query), None
    return _of_frame(candidates, pages, keys, item, of_query), None


def _names(by):
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


def _of_lists(lists, pages, keys=None, instead=""):
    """Return the entries of a list for every page or key, or of one for every slot."""
    labels, page, slot = [], [], []
    called = pages.called if keys is None else keys.called

    def add(some, k, j):
        for label in map(plain, some):
            if isinstance(label, bool) or not isinstance(label, (str, int)):
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
            found = "is missing" if lacks else f"is {some!r}"
            remedy = "Split texts, e.g. with .str.split(',')."
            if lacks:
                remedy = instead or "Add it, or drop the pages."
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
    return Shown(labels, *at, None if keys is None else keys.code)


def _of_frame(frame, pages, keys, item, instead):
    """Return the entries of a frame with a row for every key and candidate."""
    lacking = [name for name in [*keys.names, item] if name not in frame.columns]
    if lacking:
        raise ValueError(
            f"candidates needs columns {[*keys.names, item]}, and has "
            f"{frame.columns}: {lacking[0]!r} is missing. "
            f"{instead or 'Rename its columns.'}"
        )
    labels, rows = labels_of(frame.get_column(item), f"column {item!r} of candidates")
    place = {key: k for k, key in enumerate(keys.keys)}
    of_row = row_keys(frame, keys.names)
    labels_at = [(place.get(of_row[row]), k) for k, row in enumerate(rows)]
    labels_at = [(key, k) for key, k in labels_at if key is not None]
    key = np.array([key for key, _ in labels_at], dtype=np.intp)
    empty = (np.bincount(key, minlength=len(keys.keys)) == 0)[keys.code]
    if empty.any():
        first = keys.code[int(np.argmax(empty))]
        raise ValueError(
            f"candidates has no row for {keys.called(first)} ({int(empty.sum())} such "
            "pages). Add rows, or drop the pages."
        )
    found = [labels[k] for _, k in labels_at]
    return Shown(found, key, np.full(len(key), -1), keys.code)
