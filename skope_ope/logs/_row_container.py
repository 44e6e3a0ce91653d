# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""The protocol by which logs travel through scikit-learn's splitters and searches."""

from __future__ import annotations

import sys
import uuid
from functools import cached_property
from numbers import Number
from types import MethodType, NoneType
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from scipy import sparse

from skope_ope._sklearn import safe_indexing
from skope_ope._types import AuditLike, PolicyLike
from skope_ope.logs._known_range import observed_range, says_yes_and_no
from skope_ope.logs._row_labels import check_row_labels


class RowId:
    """Which rows these are: a token of origin and positions in it."""

    def __init__(self, origin, position):
        self.origin = origin
        self.position = position

    def __len__(self) -> int:
        return len(self.position)

    def __eq__(self, other):
        if not isinstance(other, RowId):
            return NotImplemented
        return self.origin == other.origin and np.array_equal(
            self.position, other.position
        )

    __hash__ = None

    def __repr__(self):
        return f"RowId(origin={self.origin[:8]!r}, n_rounds={len(self)})"


def is_drawn(origin):
    """Tell whether an origin was drawn when logs were built, and is never met again."""
    # Those of files and frames are longer: they are the same in every process.
    return len(origin) == 32 and set(origin) <= set("0123456789abcdef")


def take_rows(values, key):
    """Rows `key` (an int array or a slice) of an array, sparse matrix or frame."""
    if isinstance(key, np.ndarray) and isinstance(values, np.ndarray):
        if values.ndim > 1 and len(values) and not values.strides[0]:
            shape = len(key), *values.shape[1:]
            return np.broadcast_to(values[0], shape)  # all alike
        return values.take(key, axis=0)  # thrice as fast as values[key]
    if isinstance(key, slice):
        return _slice_rows(values, key)
    if sparse.issparse(values):
        return values[key]
    if hasattr(values, "take") and not hasattr(values, "iloc"):  # pyarrow
        return values.take(key)
    return safe_indexing(values, key)


def _slice_rows(values, key):
    """Return rows of a slice: a view, where they are stored one after the other."""
    if isinstance(values, np.ndarray):
        return values[key]
    start, stop, step = key.indices(values.shape[0])
    stop = max(start, stop) if step == 1 else stop
    if step == 1 and sparse.issparse(values) and values.format == "csr":
        ends = values.indptr[start : stop + 1]
        part = slice(ends[0], ends[-1])
        parts = values.data[part], values.indices[part], ends - ends[0]
        return type(values)(parts, shape=(stop - start, values.shape[1]))
    if step == 1 and hasattr(values, "slice"):  # polars and pyarrow
        return values.slice(start, stop - start)
    if step == 1 and hasattr(values, "iloc"):
        part = values.iloc[start:stop]
        return part if _copies_on_write() else part.copy()
    return take_rows(values, np.arange(start, stop, step))


def _copies_on_write():
    """Tell whether what is written to a part of a frame leaves the frame alone."""
    return int(sys.modules["pandas"].__version__.split(".")[0]) >= 3


# What copies keep beside the fields.
KEPT = "columns", "_origin", "_position", "_in_order", "_files", "_labels"
KEPT += ("_by_position",)


class RowContainer:
    """Row-aligned fields that scikit-learn can index as if they were X."""

    # A subclass lists in `_row_fields` the attributes that are aligned on axis 0
    # (`None` values are skipped) and in `_carried_fields` those that an indexed object
    # keeps as they are.

    _row_fields = ()
    _carried_fields = ()
    _instead = ""  # what to call in place of what asks for an array
    _in_order = True  # whether rows were taken in the order in which they are stored
    _by_position = False  # whether messages call rows by their positions
    _files = None  # `FileRows` of those that were read from files or joined
    _labels = ()  # of pandas, an Index of the rows that the context does not tell

    _says_yes_and_no = cached_property(says_yes_and_no)  # every value asks for it
    _reward_extremes = cached_property(observed_range)

    def _start_rows(self):
        # positions: None for rows as built, an int where others come before them
        origin = uuid.uuid4().hex
        self.__dict__.update(columns={}, _origin=origin, _position=None)

    @property
    def row_id(self) -> Any:
        """Origin and positions of the rows, kept by indexing and pickling."""
        position = self._position
        if not isinstance(position, np.ndarray):  # no array until somebody asks
            position = np.arange(len(self)) + (position or 0)
        return RowId(self._origin, position)

    def _positions_at(self, rows):
        """Return the positions of some rows, a slice or an array."""
        first = self._position
        if isinstance(first, np.ndarray):
            return first[rows]
        if isinstance(rows, slice):
            rows = np.arange(*rows.indices(len(self)))
        return rows + first if first else rows

    def _called(self, rows):
        """Return what messages call some rows: in samples, their place in the log."""
        return self._positions_at(rows) if self._by_position else rows

    def _sampled(self):
        """Return the same rows, which messages call by their positions in the log."""
        out = self._copy()
        out.__dict__["_by_position"] = True
        return out

    @property
    def shape(self) -> tuple[int, int]:
        """(n_rounds, n_features); scikit-learn indexes what has a shape by rows."""
        return (len(self), self.n_features)

    @property
    def n_rounds(self) -> int:
        """Number of rounds."""
        return len(self)

    @property
    def n_features(self) -> int:
        """Number of context features."""
        return self.context.shape[1]

    def _row_key(self, key):
        if isinstance(key, tuple):  # scikit-learn indexes rows as X[key, ...]
            if len(key) != 2 or key[1] is not Ellipsis:
                raise IndexError(
                    f"{type(self).__name__} has rows only: index it with one key, "
                    f"got {len(key)} keys."
                )
            key = key[0]
        if isinstance(key, slice):
            return key
        if isinstance(key, str):
            raise TypeError(
                f"{type(self).__name__} is indexed by rows, got {key!r}. Fields are "
                f"attributes: logs.{key}; extra columns are in logs.columns."
            )
        if np.ndim(key) == 0:
            key = [key]  # one round is still a container
        given, key = key, np.asarray(key)
        if key.ndim != 1:
            raise IndexError(f"rows must be selected by a 1-d key, got {key.ndim}-d.")
        if key.dtype == bool:
            if len(key) != len(self):
                raise IndexError(
                    f"the mask has {len(key)} entries, the logs have {len(self)} rows."
                )
            check_row_labels("the mask", given, self)
            return _as_slice(np.flatnonzero(key))
        if key.size == 0:
            return key.astype(np.intp)
        if key.dtype.kind not in "iu":
            raise IndexError(f"rows must be integers or booleans, got {key.dtype}.")
        n = len(self)
        outside = np.flatnonzero((key < -n) | (key >= n))
        if outside.size:
            raise IndexError(f"row {key[outside[0]]} is out of range: {n} rows.")
        return _as_slice(np.where(key < 0, key + n, key))

    def __getitem__(self, key: Any) -> Self:
        key = self._row_key(key)
        out = object.__new__(type(self))
        state = out.__dict__
        for name in (*self._carried_fields, "_origin", "_by_position", "_files"):
            state[name] = getattr(self, name)
        for name in self._row_fields:
            value = getattr(self, name)
            if value is not None and self._is_row_aligned(name):
                value = freeze(take_rows(value, key))
            state[name] = value
        columns = {k: freeze(take_rows(v, key)) for k, v in self.columns.items()}
        state["columns"] = columns
        state["_position"] = position = freeze(self._positions_at(key))
        state["_labels"] = tuple(labels[key] for labels in self._labels)
        if isinstance(key, np.ndarray):
            state["_in_order"] = _ascends(key) or _ascends(position)
        return out

    def _is_row_aligned(self, name):
        return True

    def with_columns(self, **columns: Any) -> Self:
        """Return the same logs with further named columns, which folds keep.

        Parameters
        ----------
        **columns : array-like of shape (n_rounds,) or (n_rounds, ...)
            One entry per round, in the order of the rows. You can pass the name of a
            column instead of a policy or a reward model.

        Returns
        -------
        logs : same type
            New logs with the same `row_id`; the fields are shared, not copied.

        Examples
        --------
        >>> import numpy as np
        >>> from skope_ope import BanditLogs
        >>> logs = BanditLogs(np.zeros((2, 1)), [0, 1], [1.0, 0.0], [0.5, 0.5])
        >>> logs.with_columns(pi=[[1.0, 0.0], [0.0, 1.0]])[1:].columns["pi"]
        array([[0., 1.]])
        """
        added = {}
        for name, values in columns.items():
            if name in self._row_fields or name in self._carried_fields:
                raise ValueError(
                    f"{name!r} is a field of {type(self).__name__}; choose another "
                    "name for the column."
                )
            check_row_labels(f"column {name!r}", values, self)
            values = keep(values, np.asarray(values))
            if values.ndim == 0 or len(values) != len(self):
                raise ValueError(
                    f"column {name!r} must have one entry per round ({len(self)}), "
                    f"got shape {values.shape}."
                )
            added[name] = values
        out = self._copy()
        out.__dict__["columns"] = {**self.columns, **added}
        return out

    if TYPE_CHECKING:  # the audit gives logs this method

        def audit(self, policies: PolicyLike = None, **how: Any) -> AuditLike | Any: ...

    def _copy(self):
        """Copy shallowly: the same rows, without cached properties."""
        out = object.__new__(type(self))
        for name in (*self._row_fields, *self._carried_fields, *KEPT):
            out.__dict__[name] = getattr(self, name)
        return out

    def __getstate__(self):
        # Without cached properties: what was asked of logs changes no pickle, no hash.
        cached = {
            name
            for kind in type(self).__mro__
            for name, value in vars(kind).items()
            if isinstance(value, cached_property)
        }
        return {name: v for name, v in self.__dict__.items() if name not in cached}

    def __setstate__(self, state):
        self.__dict__.update(state)
        for values in (*state.values(), *self.columns.values()):
            freeze(values)  # pickles do not tell what is read-only

    def __sklearn_clone__(self):
        return self  # nothing writes to logs: a policy that holds them shares them

    def __array__(self, dtype=None, copy=None):
        # Without this refusal numpy would recurse through __getitem__ for seconds.
        raise TypeError(
            f"{type(self).__name__} cannot be converted to an array{self._instead}. "
            "Put feature transformers inside the reward model or inside the policy, "
            "not in front of them."
        )

    def __array_namespace__(self, api_version=None):
        # scikit-learn asks for it before it selects rows, where the user has switched
        # its dispatch on; without an answer it says "not a supported array type".
        raise TypeError(
            f"{type(self).__name__} are no array, and array_api_dispatch is switched "
            "on in scikit-learn. Switch it off around this call: with "
            "sklearn.config_context(array_api_dispatch=False). evaluate, "
            "compare_policies and OPESearchCV work with it, and so do models inside."
        )


def in_stored_order(logs):
    """Return rows in the order of the logs that they were taken from."""
    if logs._in_order:
        return logs
    return logs[np.argsort(logs.row_id.position, kind="stable")]


def _as_slice(rows):
    """Return rows one after the other, as folds in order are, as a slice: no copies."""
    start, stop = (int(rows[0]), int(rows[-1]) + 1) if rows.size else (0, -1)
    if stop - start != len(rows) or (rows[1:] - rows[:-1] != 1).any():
        return rows
    return slice(start, stop)


def _ascends(rows):
    return bool((rows[1:] >= rows[:-1]).all())


def read_only(array):
    """Return a view of `array` through which nothing can be written."""
    view = array.view()
    view.flags.writeable = False
    return view


class Own(np.ndarray):
    """An array that nobody else writes to, of which logs need no copy."""


def keep(given, array):
    """Return what logs keep of an array: a copy of one dimension, a view of more."""
    is_map = isinstance(given, np.memmap) and given.mode == "r"
    if array.ndim == 1 and not is_map and not isinstance(given, Own):
        array = array.copy()
    return read_only(array)


def own(values, reader):
    """Return rows that their reader may write to: a copy, unless it never writes."""
    if not _may_write(reader):
        return values
    if isinstance(values, RowContainer):
        logs = values._copy()
        logs.__dict__["context"] = own(values.context, reader)
        return logs
    if isinstance(values, np.ndarray):
        return values.copy("K")
    if hasattr(values, "clone"):  # polars, whose buffers nobody writes to
        return values.clone()
    # deep: shallow ones of pandas share what `.array` writes to
    return values.copy() if hasattr(values, "copy") else values


def _may_write(reader):
    """Tell whether a reader, or a parameter of it, may write to what it is handed."""
    # What is ours never does, and hands on copies; scikit-learn's has to be told to.
    if isinstance(reader, MethodType):
        reader = reader.__self__
    package = str(getattr(reader, "__module__", "")).partition(".")[0]
    if package == "skope_ope":
        return False
    if package == "sklearn":
        return any(
            (name.startswith("copy") and value is False) or _may_write(value)
            for name, value in getattr(reader, "__dict__", {}).items()
            if name.strip("_") == name  # what is fitted are clones of parameters
        )
    if isinstance(reader, (list, tuple)):
        return any(map(_may_write, reader))
    return not isinstance(reader, (str, Number, np.ndarray, type, NoneType))


def freeze(values):
    """Make an array or sparse matrix of our own read-only and return it."""
    if sparse.issparse(values):
        for array in (values.data, values.indices, values.indptr):
            array.flags.writeable = False
    elif isinstance(values, np.ndarray):
        values.flags.writeable = False
    return values
