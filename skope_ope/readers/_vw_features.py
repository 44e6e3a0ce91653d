# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Hashed features of Vowpal Wabbit events: a sparse context, dense action features."""

import numpy as np
from scipy import sparse

from skope_ope.logs._text_files import DoubtError

BATCH = 2000  # rows that wait as names before they are hashed


class HashedRows:
    """Rows of (name, value) pairs, hashed in batches into a sparse matrix."""

    def __init__(self, n_columns):
        # costs more to import than all of skope_ope
        from sklearn.feature_extraction import FeatureHasher

        # plain sums, as in Vowpal Wabbit: a column keeps the sign of its feature
        self._hasher = FeatureHasher(n_columns, input_type="pair", alternate_sign=False)
        self._waiting, self._parts, self._n_rows = [], [], 0

    def add(self, pairs):
        """Take one row and return its number."""
        self._waiting.append(pairs)
        self._n_rows += 1
        if len(self._waiting) == BATCH:
            self._hash()
        return self._n_rows - 1

    def _hash(self):
        self._parts.append(self._hasher.transform(self._waiting))
        self._waiting = []

    def matrix(self):
        """CSR matrix of shape (n_rows, n_columns)."""
        if self._waiting:
            self._hash()
        if not self._parts:
            return sparse.csr_matrix((0, self._hasher.n_features))
        return sparse.vstack(self._parts, format="csr")


class ActionFeatures:
    """Features of the offered actions, each distinct row kept once."""

    def __init__(self, n_columns):
        self._rows = HashedRows(n_columns)
        self._seen, self._row_of = {}, {}
        self._last = None, None  # actions of an event, and their rows

    def add_all(self, actions):
        """Take the features of the actions of an event, return their rows' numbers."""
        if type(actions[0]) is not Action:
            return [self.add(pairs) for pairs in actions]
        last, rows = self._last
        if actions is last:
            return rows
        rows = [*map(self._row_of.get, actions)]
        if None in rows:
            if len(self._row_of) >= 10 * BATCH:
                self._row_of.clear()
            rows = [self.add(pairs) for pairs in actions]
            self._row_of.update(zip(actions, rows, strict=True))
        self._last = actions, rows
        return rows

    def add(self, pairs):
        """Take the features of one action and return the number of their row."""
        key = tuple(pairs)
        row = self._seen.get(key)
        if row is None:
            if len(self._seen) >= 10 * BATCH:  # names take far more memory than numbers
                self._seen.clear()
            row = self._seen[key] = self._rows.add(pairs)
        return row

    def dense(self, rows, columns, codes, shape, max_bytes, keep_all=True):
        """Dense features of the actions of every round, or of all rounds at once."""
        table, rows = _distinct_rows(self._rows.matrix(), rows)
        if not table.nnz:
            return None
        if not keep_all:
            table = table[:, np.unique(table.indices)]
        n_rounds, n_actions = shape
        first = np.full(n_actions, -1)
        first[codes[::-1]] = rows[::-1]
        if (first[codes] == rows).all():
            _check_bytes((n_actions, table.shape[1]), max_bytes)
            dense = np.zeros((n_actions, table.shape[1]))
            dense[first >= 0] = table[first[first >= 0]].toarray()
            return dense
        shape = (n_rounds, n_actions, table.shape[1])
        _check_bytes(shape, max_bytes)
        dense = np.zeros(shape)
        for start in range(0, len(rows), BATCH):
            part = slice(start, start + BATCH)
            dense[columns[part], codes[part]] = table[rows[part]].toarray()
        return dense


def _distinct_rows(table, rows):
    """Drop rows that say the same under another name or in another order."""
    numbers, first, where = {}, [], np.empty(table.shape[0], dtype=np.intp)
    for i in range(table.shape[0]):
        part = slice(table.indptr[i], table.indptr[i + 1])
        key = table.indices[part].tobytes(), table.data[part].tobytes()
        if key not in numbers:
            numbers[key] = len(first)
            first.append(i)
        where[i] = numbers[key]
    return table[first], where[rows]


def _check_bytes(shape, max_bytes):
    size = 8 * int(np.prod(shape, dtype=object))
    if size > max_bytes:
        raise ValueError(
            f"the features of the actions need an array of shape {shape}, "
            f"{size / 2**20:,.0f} MiB, more than max_action_bytes={max_bytes} "
            f"({max_bytes / 2**20:,.0f} MiB) allows. Pass a smaller n_action_features "
            "(0 leaves them out) or a larger max_action_bytes."
        )


# -- actions of dsjson that stand in many events, parsed once --------------------------
# A catalogue comes again in every event, and is most of its text. The text of `_multi`
# is cut at "},{". Where each piece by itself is an object of JSON, the pieces are the
# actions: no other reading of the text is possible. Whatever is cut in a wrong place is
# no JSON, and the event is then parsed as a whole. So are the events of a file whose
# actions are seldom met again.

MULTI_START = '"_multi":[{'
MULTI_END = '}]},"'
LIFTED = "lifted"  # stands for an array that was cut out
LONGEST_KNOWN = 2**12  # characters of an action that is remembered
MOST_KNOWN = 2**14  # actions that are remembered
TRIALS = 2**12  # new actions, beyond those that came again, until no more are cut out
FEATURE_KEYS = ("_tag", "_text")  # keys that go with features


class Action(tuple):
    """The features of an action, told from others by identity: no name is compared."""

    tag = None
    __eq__ = object.__eq__
    __hash__ = object.__hash__


class KnownActions:
    """Actions by their text."""

    def __init__(self, load, features_of):
        self._load, self._features_of = load, features_of
        self._known = {}
        self._left = TRIALS
        self._last = None, None, None  # text, actions and tags of a whole catalogue

    def lift(self, line):
        """Get a line with `LIFTED` for `_multi`, the actions there, and their tags."""
        if self._left < 0:
            raise DoubtError
        start = line.find(MULTI_START)
        stop = line.find(MULTI_END, start)
        # a quote behind these begins a key, and does not stand inside a text
        if start < 1 or stop < 0 or line[start - 1] not in "{,":
            raise DoubtError
        if line.count('"_multi"') > 1:
            raise DoubtError
        first = start + len(MULTI_START)
        text = line[first:stop]
        if text != self._last[0]:
            actions = self._all_of(text.split("},{"))
            self._last = text, actions, [action.tag for action in actions]
        _, actions, tags = self._last
        return f'{line[: first - 2]}"{LIFTED}"{line[stop + 2 :]}', actions, tags

    def _all_of(self, pieces):
        actions = [*map(self._known.get, pieces)]
        n_new = actions.count(None)
        self._left = min(self._left + len(actions) - 2 * n_new, TRIALS)
        return [self._of(piece) for piece in pieces] if n_new else actions

    def _of(self, piece):
        action = self._known.get(piece)
        if action is None:
            parsed = self._load(f"{{{piece}}}")
            if any(key[0] == "_" and key not in FEATURE_KEYS for key in parsed if key):
                raise DoubtError  # a label, or a part of another kind of log
            action = Action(self._features_of(parsed))
            action.tag = parsed.get("_tag")
            if action.tag is not None and type(action.tag) is not str:
                raise DoubtError
            if len(self._known) >= MOST_KNOWN:
                self._known.clear()
            if len(piece) <= LONGEST_KNOWN:
                self._known[piece] = action
        return action
