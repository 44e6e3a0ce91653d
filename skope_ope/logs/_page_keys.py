# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Keys of pages: what tables of candidates and of features are looked up by."""

import numpy as np

from skope_ope._meant import meant
from skope_ope.logs._validation import plain

ASKED = 200  # keys that are compared with the columns of pages


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
    if not keys or any(key in keys[:ASKED] for key in _values(pages, pages.round)):
        return ""
    wanted = set(keys)
    for name in pages.rows.columns:
        if name in pages.of_items or name == pages.round:
            continue
        if wanted & _values(pages, name):
            return (
                f"Its keys are values of column {name!r}: pass {argument}_by={name!r}."
            )
    return ""


def _values(pages, name):
    """Return the values of a column that can be keys."""
    if name is None:
        return set()
    values = (plain(one) for one in pages.frame.get_column(name).to_list())
    return {one for one in values if isinstance(one, (str, int))}
