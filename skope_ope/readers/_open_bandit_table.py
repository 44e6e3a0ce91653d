# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Columns of the csv files of the Open Bandit Dataset."""

import re
from array import array
from functools import partial

import numpy as np

from skope_ope.readers._csv_engines import find_engine
from skope_ope.readers._fast_csv import TextsError, read_cells
from skope_ope.readers._numbers import number, numbers, quoted, whole_number
from skope_ope.readers._text_files import (
    DoubtError,
    empty_file,
    line_of_row,
    open_csv,
    utc_microseconds,
)

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
        header, rows = open_csv(path)
        check_columns(path, header, NEEDED)
        users = numbered(header, USER_FEATURE) if user_features else []
        affinities = numbered(header, AFFINITY) if affinity else []
        self.path = path
        self.n_affinities = len(numbered(header, AFFINITY))
        self.affinity_names = [f"user_item_affinity_{k}" for k, _, _ in affinities]
        places = [header.index(name) for name in NEEDED]
        user_places = [place for _, _, place in users]
        affinity_places = [place for _, _, place in affinities]
        engine = find_engine()
        try:
            if engine is None:
                raise DoubtError
            rows.close()
            columns = _by_engine(
                engine, path, len(header), places, user_places, affinity_places
            )
        except (DoubtError, TextsError):
            columns = _by_rows(path, header, places, user_places, affinities)
        timestamp, self.item, self.position, self.click, self.propensity = columns[:5]
        self.timestamp = timestamp.view("datetime64[us]")
        self._codes, categories, self._affinities = columns[5:]
        names = [name for _, name, _ in users]
        self.categories = dict(zip(names, categories, strict=True))

    def _user_codes(self):
        """Yield (name, sorted categories, codes of the rows) of the user features."""
        for j, (name, seen) in enumerate(self.categories.items()):
            categories = sorted(seen)
            code = np.empty(len(seen), dtype=np.intp)
            code[[seen[category] for category in categories]] = np.arange(len(seen))
            yield name, categories, code[self._codes[:, j]]

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


def _by_engine(engine, path, n_columns, places, users, affinities):
    """Return what `_by_rows` returns, where it would read the same."""
    as_texts = [*places[:3], *users]
    numbers = [*places[3:], *affinities]
    wanted = dict.fromkeys(as_texts, True) | dict.fromkeys(numbers, False)
    if len(wanted) < len(as_texts) + len(numbers):
        raise DoubtError
    found = read_cells(engine, path, n_columns, wanted)
    if not all(np.isfinite(found[place]).all() for place in numbers):
        raise DoubtError
    whole = []
    for name, place in zip(PARSERS, places[:3], strict=True):
        parse, _ = PARSERS[name]
        try:
            parsed = np.array([parse(text) for text in found[place].values], np.int64)
        except (ValueError, OverflowError):
            raise DoubtError from None
        whole.append(parsed[found[place].codes])
    n_rows = len(whole[0])
    codes = np.empty((n_rows, len(users)), dtype=np.intp)
    clicks = np.empty((n_rows, len(affinities)))
    for j, place in enumerate(users):
        codes[:, j] = found[place].codes
    for j, place in enumerate(affinities):
        clicks[:, j] = found[place]
    categories = [
        {text: code for code, text in enumerate(found[place].values)} for place in users
    ]
    return *whole, *(found[place] for place in places[3:]), codes, categories, clicks


def _by_rows(path, header, places, users, affinities):
    """Return the columns of `NEEDED`, and users' codes, categories and affinities."""
    timestamp, item, position = array("q"), array("q"), array("q")
    click, propensity = array("d"), array("d")
    codes, clicks = array("q"), array("d")  # of users, of their past
    categories = [{} for _ in users]
    t, a, k, c, p = places
    user_places = list(zip(users, categories, strict=True))
    affinity_places = [place for _, _, place in affinities]
    _, rows = open_csv(path)
    for line, row in rows:
        try:
            timestamp.append(utc_microseconds(row[t]))
            item.append(parse_item(row[a]))
            position.append(_position(row[k]))
            click.append(number(row[c], finite=True))
            propensity.append(number(row[p], finite=True))
            for place, seen in user_places:
                codes.append(seen.setdefault(row[place], len(seen)))
            clicks.extend(numbers([row[place] for place in affinity_places]))
            if len(row) != len(header):
                raise ValueError
        except (ValueError, IndexError, OverflowError) as error:
            used = dict(zip(NEEDED, places, strict=True))
            used.update((name, place) for _, name, place in affinities)
            raise bad_row(path, line, header, row, used) from error
    if not item:
        raise empty_file(path)
    past = np.array(clicks).reshape(len(item), len(affinities))
    for row, column in np.argwhere(~np.isfinite(past))[:1]:
        raise ValueError(
            f"{path}, line {line_of_row(path, row)}: {affinities[column][1]} is "
            f"{past[row, column]}, not a finite number. Correct or drop the row."
        )
    whole = [np.array(part, dtype=np.int64) for part in (timestamp, item, position)]
    codes = np.array(codes, dtype=np.intp).reshape(len(item), len(users))
    return *whole, np.array(click), np.array(propensity), codes, categories, past


def bad_row(path, line, header, row, used):
    """Return the error for a row that could not be read."""
    if len(row) != len(header):
        return ValueError(
            f"{path}, line {line}: {len(row)} cells under {len(header)} column names. "
            "Correct or drop the row."
        )
    for name, place in used.items():
        parse, what = PARSERS.get(name, (partial(number, finite=True), "a number"))
        try:
            parse(row[place])
        except (ValueError, OverflowError):
            break
    return ValueError(
        f"{path}, line {line}: {name} is {quoted(row[place])}, not {what}. Correct or "
        "drop the row."
    )
