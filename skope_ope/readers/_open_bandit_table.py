# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Columns of the csv files of the Open Bandit Dataset."""

import re
from array import array

import numpy as np

from skope_ope.readers._text_files import empty_file, open_csv, utc_microseconds

POSITIONS = (1, 2, 3)  # left, centre, right
NEEDED = ("timestamp", "item_id", "position", "click", "propensity_score")
USER_FEATURE = re.compile(r"user_feature_(\d+)")
AFFINITY = re.compile(r"user[-_]item_affinity_(\d+)")


def check_columns(path, header, needed):
    """Raise unless the header has all the columns that are needed."""
    missing = [name for name in needed if name not in header]
    if missing:
        found = ", ".join(repr(name) for name in header[:12] if name)
        raise ValueError(
            f"{path} has no column {', '.join(map(repr, missing))}; it has {found}"
            f"{', ...' if len(header) > 12 else ''}. Is it a log of the Open Bandit "
            "Dataset?"
        )


def numbered(header, pattern):
    """Return (number, name, place) of the columns of a pattern, by number."""
    found = []
    for place, name in enumerate(header):
        match = pattern.fullmatch(name)
        if match:
            found.append((int(match[1]), match[0], place))
    return sorted(found)


class OpenBanditTable:
    """The columns of a log, read row by row."""

    def __init__(self, path, user_features, affinity):
        header, rows = open_csv(path)
        check_columns(path, header, NEEDED)
        places = [header.index(name) for name in NEEDED]
        users = numbered(header, USER_FEATURE) if user_features else []
        self.categories = {name: {} for _, name, _ in users}
        self.n_affinities = len(numbered(header, AFFINITY))
        affinities = numbered(header, AFFINITY) if affinity else []
        self.affinity_names = [f"user_item_affinity_{k}" for k, _, _ in affinities]
        timestamp, item, position = array("q"), array("q"), array("q")
        self.click, self.propensity = array("d"), array("d")
        codes, numbers = array("q"), array("d")
        t, a, k, c, p = places
        user_places = [(place, self.categories[name]) for _, name, place in users]
        affinity_places = [place for _, _, place in affinities]
        for line, row in rows:
            try:
                timestamp.append(utc_microseconds(row[t]))
                item.append(int(row[a]))
                position.append(int(row[k]))
                self.click.append(float(row[c]))
                self.propensity.append(float(row[p]))
                for place, seen in user_places:
                    codes.append(seen.setdefault(row[place], len(seen)))
                numbers.extend([float(row[place]) for place in affinity_places])
                if len(row) != len(header) or position[-1] not in POSITIONS:
                    raise ValueError
            except (ValueError, IndexError, OverflowError) as error:
                used = dict(zip(NEEDED, places, strict=True))
                used.update((name, place) for _, name, place in affinities)
                raise bad_row(path, line, header, row, used) from error
        if not item:
            raise empty_file(path)
        self.path = path
        self.timestamp = np.array(timestamp).view("datetime64[us]")
        self.item = np.array(item, dtype=np.int64)
        self.position = np.array(position, dtype=np.int64)
        self._codes = np.array(codes, dtype=np.intp).reshape(len(item), len(users))
        self._affinities = np.array(numbers).reshape(len(item), len(affinities))

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


def _whole_number(text):
    return np.int64(int(text))


def bad_row(path, line, header, row, used):
    """Return the error for a row that could not be read."""
    if len(row) != len(header):
        return ValueError(
            f"{path}, line {line}: {len(row)} cells under {len(header)} column names. "
            "Correct or drop the row."
        )
    for name, place in used.items():
        kind, what = float, "a number"
        if name == "timestamp":
            kind, what = utc_microseconds, "a moment like 2019-11-24 00:03:13+00:00"
        elif name in ("item_id", "position"):
            kind, what = _whole_number, "a whole number"
        try:
            value = kind(row[place])
        except (ValueError, OverflowError):
            break
        if name == "position" and value not in POSITIONS:
            what = "1, 2 or 3"
            break
    return ValueError(
        f"{path}, line {line}: {name} is {row[place]!r}, not {what}. Correct or drop "
        "the row."
    )
