# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Columns of the csv files of the Open Bandit Dataset."""

import re

import numpy as np

from skope_ope.exceptions import RowError
from skope_ope.logs._csv_cells import numbers_of
from skope_ope.logs._numbers import quoted, whole_number
from skope_ope.logs._text_files import utc_microseconds
from skope_ope.readers._csv_columns import csv_file, located, read_cells

POSITIONS = (1, 2, 3)  # left, centre, right
MOST_ITEMS = 10**6  # each is an action
NEEDED = ("timestamp", "item_id", "position", "click", "propensity_score")
USER_FEATURE = re.compile(r"user_feature_([0-9]{1,9})")
AFFINITY = re.compile(r"user[-_]item_affinity_([0-9]{1,9})")


def check_columns(path, header, needed):
    """Raise unless the header has all the columns that are needed."""
    missing = [name for name in needed if name not in header]
    if missing:
        found = ", ".join(quoted(name) for name in header[:12] if name)
        raise ValueError(
            f"{path} has no column {', '.join(map(repr, missing))}; it has {found}"
            f"{', ...' if len(header) > 12 else ''}. Is it a log of the Open Bandit "
            "Dataset?"
        )
    twice = [name for name in needed if header.count(name) > 1]
    if twice:
        raise ValueError(
            f"{path} has several columns {twice[0]!r}. Give each column its own name."
        )


def numbered(header, pattern):
    """Return (number, name, place) of the columns of a pattern, by number."""
    found = []
    for place, name in enumerate(header):
        match = pattern.fullmatch(name)
        if match:
            found.append((int(match[1]), match[0], place))
    return sorted(found)


def parse_item(text):
    """Return the number of an item."""
    number = whole_number(text)
    if not 0 <= number < MOST_ITEMS:
        raise ValueError("not the number of an item")
    return number


def _position(text):
    number = whole_number(text)
    if number not in POSITIONS:
        raise ValueError("no position")
    return number


PARSERS = {
    "timestamp": (utc_microseconds, "a moment like 2019-11-24 00:03:13+00:00"),
    "item_id": (parse_item, f"a whole number from 0, below {MOST_ITEMS:,}"),
    "position": (_position, "1, 2 or 3"),
}


class OpenBanditTable:
    """The columns of a log."""

    def __init__(self, path, user_features, affinity):
        file = csv_file(path)
        header = file.header
        check_columns(path, header, NEEDED)
        users = numbered(header, USER_FEATURE) if user_features else []
        affinities = numbered(header, AFFINITY) if affinity else []
        self.path = path
        self.n_affinities = len(numbered(header, AFFINITY))
        self.affinity_names = [f"user_item_affinity_{k}" for k, _, _ in affinities]
        places = {name: header.index(name) for name in NEEDED}
        texts = dict.fromkeys(places.values(), False)
        texts.update((place, False) for _, _, place in affinities)
        texts.update((places[name], True) for name in PARSERS)
        texts.update((place, True) for _, _, place in users)
        cells = read_cells(file, texts)
        try:
            self.timestamp, self.item, self.position = (
                parsed(name, cells[places[name]]) for name in PARSERS
            )
            self.click, self.propensity = (
                numbers_of(name, cells[places[name]]) for name in NEEDED[3:]
            )
            clicks = [numbers_of(name, cells[place]) for _, name, place in affinities]
        except RowError as error:
            raise located(file, error) from error
        self.timestamp = self.timestamp.view("datetime64[us]")
        self._affinities = np.reshape(clicks, (-1, len(self.item))).T
        self._codes = [cells[place].codes for _, _, place in users]
        self.categories = {
            name: {text: code for code, text in enumerate(cells[place].values)}
            for _, name, place in users
        }

    def _user_codes(self):
        """Yield (name, sorted categories, codes of the rows) of the user features."""
        for j, (name, seen) in enumerate(self.categories.items()):
            categories = sorted(seen)
            code = np.empty(len(seen), dtype=np.intp)
            code[[seen[category] for category in categories]] = np.arange(len(seen))
            yield name, categories, code[self._codes[j]]

    def matrix(self):
        """Return the context as a float array."""
        n_users = sum(map(len, self.categories.values()))
        width = len(POSITIONS) + n_users + len(self.affinity_names)
        context = np.zeros((len(self.item), width))
        rows = np.arange(len(self.item))
        context[rows, self.position - 1] = 1.0
        start = len(POSITIONS)
        for _, categories, codes in self._user_codes():
            context[rows, start + codes] = 1.0
            start += len(categories)
        context[:, start:] = self._affinities
        return context

    def frame(self):
        """Return the context as a pandas frame."""
        try:
            import pandas as pd
        except ImportError as error:
            raise ImportError(
                "as_frame=True needs pandas: pip install 'skope-ope[frames]'."
            ) from error
        columns = {"position": self.position}
        for name, categories, codes in self._user_codes():
            columns[name] = pd.Categorical.from_codes(codes, categories)
        columns.update(zip(self.affinity_names, self._affinities.T, strict=True))
        return pd.DataFrame(columns)


def parsed(name, texts):
    """Return the whole numbers that a column stands for."""
    parse, what = PARSERS[name]
    found = np.empty(len(texts.values), dtype=np.int64)
    for code, text in enumerate(texts.values):
        try:
            found[code] = parse(text)
        except (ValueError, OverflowError):
            raise RowError(
                f"{name} is {quoted(text)}",
                texts.row_of(text),
                f", not {what}. Correct or drop the row.",
            ) from None
    return found[texts.codes]
