# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Which rounds were summed: rows of files and of logs in memory, each counted once."""

import json
from itertools import takewhile
from pathlib import PurePath
from uuid import uuid4

import numpy as np

from skope_ope.logs._known_rows import FileRows

FRAME = "lazy frame "  # begins the name of one
MOST_NAMED = 3  # places that a message names


class Counted:
    """Rounds that were summed."""

    def __init__(self, places=(), rows=()):
        self.places = {file: frozenset(some) for file, some in dict(places).items()}
        self.rows = dict(rows)

    @classmethod
    def of_partitions(cls, partitions):
        """Return the places of some partitions of a lazy log."""
        places = {}
        for partition in partitions:
            file, *numbers = partition.key
            places.setdefault(str(file), set()).add(tuple(numbers))
        return cls(places)

    @classmethod
    def of_logs(cls, logs):
        """Return the rows of some logs in memory."""
        if not len(logs):
            return cls()
        files = FileRows.of_logs(logs)
        at, within = files.places(logs.row_id.position)
        kinds = np.flatnonzero(np.bincount(at))
        one = len(kinds) == 1
        rows = {
            str(files.groups[k]): _runs_of_rows(within if one else within[at == k])
            for k in kinds
        }
        return cls(rows=rows)

    @classmethod
    def of_frame(cls):
        """Return what stands for the rounds of a lazy frame, which have no places."""
        # Two queries are never taken to share rows, because nothing shows that they do.
        return cls({f"{FRAME}{uuid4().hex}": {()}})

    def __bool__(self):
        return bool(self.places or self.rows)

    def __eq__(self, other):
        if not isinstance(other, Counted):
            return NotImplemented
        return (
            self.places == other.places
            and self.rows.keys() == other.rows.keys()
            and all(np.array_equal(self.rows[k], other.rows[k]) for k in self.rows)
        )

    __hash__ = None

    def __add__(self, other):
        """Return what both counted; raise where they counted the same rounds."""
        if not isinstance(other, Counted):
            return NotImplemented
        twice = self._in_both(other)
        if twice:
            more = len(twice) - MOST_NAMED
            what = "; ".join(twice[:MOST_NAMED]) + (
                f" and {more} more" if more > 0 else ""
            )
            raise ValueError(
                f"both summaries count {what}. Add summaries of parts that have no "
                "rows in common. If a file was rewritten, its old rounds cannot be "
                "subtracted: keep one summary per day, and add these."
            )
        places = dict(self.places)
        for file, some in other.places.items():
            places[file] = places.get(file, frozenset()) | some
        rows = dict(self.rows)
        for origin, runs in other.rows.items():
            if origin in rows:
                runs = _joined(np.concatenate([rows[origin], runs]))
            rows[origin] = runs
        return Counted(places, rows)

    def _in_both(self, other):
        """Return what both have counted, in words."""
        found = [
            _place_in_words(file, place)
            for file in self.places.keys() & other.places.keys()
            for place in _common_places(self.places[file], other.places[file])
        ]
        for origin in self.rows.keys() & other.rows.keys():
            low, high = _common_run(self.rows[origin], other.rows[origin])
            if low < high:
                found.append(f"rows {low:,} to {high - 1:,} of the same logs in memory")
        return sorted(found)

    def __repr__(self):
        texts = []
        files = [file for file in self.places if not file.startswith(FRAME)]
        if files:
            n = sum(len(self.places[file]) for file in files)
            texts.append(
                f"{_number_of(n, 'row group')} of {_number_of(len(files), 'file')}"
            )
        if len(files) < len(self.places):
            texts.append(_number_of(len(self.places) - len(files), FRAME.strip()))
        if self.rows:
            n = sum(int((runs[:, 1] - runs[:, 0]).sum()) for runs in self.rows.values())
            texts.append(f"{_number_of(n, 'row')} in memory")
        return ", ".join(texts) or "no rounds"

    def to_text(self):
        """Return all of it as a text, JSON."""
        places = {file: sorted(map(list, some)) for file, some in self.places.items()}
        rows = {origin: runs.tolist() for origin, runs in self.rows.items()}
        return json.dumps({"places": places, "rows": rows}, separators=(",", ":"))

    @classmethod
    def from_text(cls, text):
        """Return what `to_text` wrote."""
        found = json.loads(text)
        places = {
            f: {tuple(one) for one in some} for f, some in found["places"].items()
        }
        rows = {
            origin: np.array(runs, dtype=np.int64).reshape(-1, 2)
            for origin, runs in found["rows"].items()
        }
        return cls(places, rows)


def _runs_of_rows(position):
    """Return the runs of consecutive rows."""
    steps = np.diff(position)
    if steps.min(initial=1) < 1:
        position = np.unique(position)
        steps = np.diff(position)
    breaks = np.flatnonzero(steps != 1)
    starts = position[np.concatenate([[0], breaks + 1])]
    stops = position[np.concatenate([breaks, [len(position) - 1]])] + 1
    return np.stack([starts, stops], axis=1).astype(np.int64)


def _joined(runs):
    """Return the same rows in as few runs as possible, in order."""
    runs = runs[np.argsort(runs[:, 0])]
    begins = np.concatenate([[True], runs[1:, 0] != runs[:-1, 1]])
    ends = np.concatenate([begins[1:], [True]])
    return np.stack([runs[begins, 0], runs[ends, 1]], axis=1)


def _common_run(one, two):
    """Return the first run of rows that both have, (0, 0) where there is none."""
    for low, high in one.tolist():
        place = np.searchsorted(two[:, 1], low, side="right")
        if place < len(two) and two[place, 0] < high:
            return max(low, int(two[place, 0])), min(high, int(two[place, 1]))
    return 0, 0


def _common_places(one, other):
    """Return the places that both have; all, where they are counted in other ways."""
    kinds = [{_kind_of_place(place) for place in some} for some in (one, other)]
    return one & other if kinds[0] == kinds[1] else one


def _kind_of_place(place):
    """Return what stands before the numbers: "block", "file", or None: row groups."""
    return place[0] if place and isinstance(place[0], str) else None


def _place_in_words(file, place):
    parts, kind = PurePath(file).parts, _kind_of_place(place)
    folders = takewhile(lambda part: "=" in part, reversed(parts[:-1]))
    name = "/".join([*reversed([*folders]), *parts[-1:]]) or file
    if kind == "block":
        return f"{name}, block {place[1]}"
    if not place:
        return f"the same {FRAME.strip()}" if file.startswith(FRAME) else str(name)
    text = str(name) if kind else f"{name}, row group {place[0]}"
    return f"{text}, from row {place[1]:,}" if len(place) > 1 and place[1] else text


def _number_of(n, what):
    return f"{n:,} {what}{'' if n == 1 else 's'}"
