# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""What the candidates of a search share, kept while the fold is in use.

A search takes the rows of a fold anew for every candidate, with the same array of row
numbers. Rows that have a shelf are found again by `logs[rows]`, which then returns the
same object; on its shelf lie the model's predictions, the policy's probabilities and
the validator's value, so that the next candidate does not compute them.

A shelf lives as long as the array of row numbers, which a search drops when its last
candidate is scored, and no longer than the scorer (folds may come as a list that the
user keeps). In a worker process both come anew with every task; there shelves stay
until other logs come. What does not fit into `BUDGET` is not kept.
"""

import multiprocessing
import threading
import uuid
import weakref
from operator import is_

import numpy as np
from scipy import sparse

LONG = 1000  # entries of a container
BUDGET = 1 << 30  # bytes of all rows that have a shelf, and of what lies on it
_LOCK = threading.RLock()
_rows_of = {}  # token of contents: logs that have a shelf
_met = set()  # tokens of scorers, in a worker


class Shelf:
    """Values that belong to some rows, each computed once.

    Parameters
    ----------
    n_bytes : int
        Size of the rows themselves.
    within : Shelf, default=None
        The shelf on which these rows lie themselves.
    """

    def __init__(self, n_bytes, within=None):
        self.n_bytes = n_bytes
        self._within = within
        self._values = {}
        self._lock = threading.RLock()

    def get(self, key, make, n_bytes=0):
        """Return the value of a key; where there is none, make it and keep it."""
        with self._lock:  # another thread that needs it waits instead of computing it
            if key not in self._values:
                self.put(key, make(), n_bytes)
            return self._values[key]

    def put(self, key, value, n_bytes=0):
        """Keep a value of so many bytes."""
        with self._lock:
            if key not in self._values:
                self._values[key] = value
                self._grow(n_bytes)

    def _grow(self, n_bytes):
        self.n_bytes += n_bytes
        if self._within is not None:
            self._within._grow(n_bytes)

    def __contains__(self, key):
        return key in self._values


def has_room(n_bytes):
    """Tell whether so many bytes more stay within the budget."""
    used = 0
    with _LOCK:
        for kept in list(_rows_of.values()):  # a collection may release some meanwhile
            for shelf in [logs._shelf for logs in list(kept.values())]:
                used += 0 if shelf is None else shelf.n_bytes
    return used + n_bytes <= BUDGET


def give_shelf(logs, owner=None):
    """Return the shelf of some rows, a new one where they had none.

    Parameters
    ----------
    logs : RowContainer
        Rows that were taken from logs by an array of row numbers.
    owner : object, default=None
        Whose end ends a new shelf, too.

    Returns
    -------
    shelf : Shelf or None
        None where nothing tells how long to keep it, or where there is no room.
    """
    with _LOCK:
        in_worker = multiprocessing.current_process().name != "MainProcess"
        if in_worker:
            _start_afresh(getattr(owner, "_identity", None))
        if logs._shelf is not None:
            return logs._shelf
        rows = None if logs._taken_by is None else logs._taken_by()
        if rows is None:
            return None
        if in_worker:
            for contents in set(_rows_of) - {logs._contents}:
                for name in list(_rows_of[contents]):
                    _release(contents, name)
        n_bytes = _size(logs)
        if not has_room(n_bytes):
            return None
        name = uuid.uuid4().hex
        object.__setattr__(logs, "_shelf", Shelf(n_bytes))
        _rows_of.setdefault(logs._contents, {})[name] = logs
        if not in_worker:
            for end in [rows] if owner is None else [rows, owner]:
                weakref.finalize(end, _release, logs._contents, name).atexit = False
        return logs._shelf


def _start_afresh(identity):
    """Drop what earlier scorers left, where a new one finds half of the room taken."""
    token = None if identity is None else identity._token
    if token is None or token in _met:
        return
    if not has_room(BUDGET // 2):
        for contents in list(_rows_of):
            for name in list(_rows_of[contents]):
                _release(contents, name)
        _met.clear()
    _met.add(token)


def in_stored_order(logs):
    """Return rows in the order of the logs that they were taken from."""
    if logs._in_order:
        return logs
    shelf, n_bytes = logs._shelf, _size(logs)

    def make(within=None):
        rows = logs[np.argsort(logs.row_id.position, kind="stable")]
        object.__setattr__(rows, "_in_order", True)
        if within is not None:
            object.__setattr__(rows, "_shelf", Shelf(0, within))
        return rows

    if shelf is None or not ("in order" in shelf or has_room(n_bytes)):
        return make()
    return shelf.get("in order", lambda: make(shelf), n_bytes)


def find_rows(contents, position):
    """Return the rows with these contents and positions that have a shelf, or None."""
    with _LOCK:
        kept = list(_rows_of.get(contents, {}).values())
    for logs in kept:
        if np.array_equal(logs._position, position):
            return logs
    return None


def any_shelf(contents):
    """Tell whether rows with these contents have a shelf."""
    return contents in _rows_of


def _release(contents, name):
    with _LOCK:
        logs = _rows_of[contents].pop(name, None) if contents in _rows_of else None
        if logs is None:
            return
        object.__setattr__(logs, "_shelf", None)
        if not _rows_of[contents]:
            del _rows_of[contents]


def _size(logs):
    fields = [getattr(logs, name) for name in logs._row_fields]
    return sum(_bytes_of(field) for field in (*fields, *logs.columns.values()))


def _bytes_of(values):
    if values is None:
        return 0
    if sparse.issparse(values):
        return values.data.nbytes + values.nnz * 4
    if hasattr(values, "nbytes"):
        return int(values.nbytes)
    return 8 * int(np.prod(getattr(values, "shape", (0,))))  # frames: about that


class Identity:
    """A token of some objects, which changes when one of them is fitted again.

    Parameters
    ----------
    token : str, default=None
        The first token; `None` draws it.
    """

    def __init__(self, token=None):
        self._token, self._parts = token, None

    def token(self, *objects):
        """Return the token of the objects as they are now."""
        parts = parts_of(objects)
        if self._parts is None:
            self._token = self._token or uuid.uuid4().hex
        elif len(parts) != len(self._parts) or not all(map(is_, parts, self._parts)):
            self._token = uuid.uuid4().hex
        self._parts = parts
        return self._token


def parts_of(objects):
    """Return objects and all that estimators and containers among them hold.

    A fit, however deep inside (a member of a mixture, say), puts new objects into the
    place of old ones. Long containers (a vocabulary, say) are not looked into: a fit
    makes them anew.
    """
    parts, seen, left = [], set(), [objects]
    while left:
        one = left.pop()
        parts.append(one)
        if isinstance(one, (dict, list, tuple)):
            inside = list(one.values()) if isinstance(one, dict) else one
        elif hasattr(type(one), "get_params"):
            inside = list(getattr(one, "__dict__", {}).values())
        else:
            continue
        if id(one) not in seen and len(inside) <= LONG:
            seen.add(id(one))
            left.extend(inside)
    return parts[1:]  # the tuple of arguments is new every time
