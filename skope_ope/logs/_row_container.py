# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Rows of logs that travel through scikit-learn: indexed, labelled and read-only."""

from __future__ import annotations

import sys
import uuid
from functools import cached_property
from math import isfinite
from numbers import Number
from types import MethodType, NoneType
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from scipy import sparse

from skope_ope._sklearn import safe_indexing
from skope_ope._types import AuditLike, PolicyLike
from skope_ope.exceptions import LogsWarning, RowError, warn_user


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


SPARSE = 64  # positions per row from which on rows are few of many


def order_of_positions(position):
    """Return the rows by rising position, those of one position as they stand."""
    marked = _marked(position)
    if marked is None or np.count_nonzero(marked) < len(position):
        return np.argsort(position, kind="stable")
    rows = np.empty(len(marked), dtype=np.intp)  # each has its own: no sort is needed
    rows[position - position.min()] = np.arange(len(position))
    return rows[marked]


def distinct(position):
    """Tell whether no position occurs twice."""
    if (position[1:] > position[:-1]).all():
        return True
    marked = _marked(position)
    found = len(np.unique(position)) if marked is None else np.count_nonzero(marked)
    return int(found) == len(position)


def _marked(position):
    """Tell of all numbers from the lowest position on which occur, None if few do."""
    if not len(position):
        return None
    low, high = int(position.min()), int(position.max())
    if high - low >= SPARSE * len(position):
        return None
    marked = np.zeros(high - low + 1, dtype=bool)
    marked[position - low] = True
    return marked


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
    reward_name = None  # what the reward is called, where a column or a Series tells

    def _start_rows(self):
        # positions: None for rows as built, an int where others come before them
        origin = uuid.uuid4().hex
        self.__dict__.update(columns={}, _origin=origin, _position=None)

    def _name_reward(self, name):
        tells = isinstance(name, str) and name not in ("", "reward")
        self.__dict__["reward_name"] = name if tells else None

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

    @cached_property
    def _stored_order(self):
        """The rows in the order of the logs that they were taken from."""
        if self._in_order:
            return np.arange(len(self))
        return order_of_positions(self._position)

    @cached_property
    def _found(self):
        """What others made of these rows, by its class; no copy or pickle has it."""
        return {}

    @cached_property
    def _repeats_rows(self):
        """Whether a row was taken more than once."""
        return isinstance(self._position, np.ndarray) and not distinct(self._position)

    def _called(self, rows):
        """Return what messages call some rows: in samples, their place in the log."""
        return self._positions_at(rows) if self._by_position else rows

    def _sampled(self):
        """Return the same rows, which messages call by their positions in the log."""
        out = self._copy()
        out.__dict__["_by_position"] = True
        return out

    @cached_property
    def _reward_extremes(self):
        """The smallest and the largest reward that weighs something; () if none."""
        reward, weight = self.reward, getattr(self, "sample_weight", None)
        reward = reward if weight is None else reward[weight > 0]
        return (float(reward.min()), float(reward.max())) if len(reward) else ()

    @cached_property
    def _says_yes_and_no(self):  # every value asks for it
        """Whether all rewards are 0 or 1, and some are 1, where rounds weigh."""
        reward, weight = self.reward, getattr(self, "sample_weight", None)
        if weight is not None and not weight.all():
            reward = reward[weight > 0]
        if not len(reward) or reward[0] not in (0.0, 1.0):  # most others differ there
            return False
        return bool(((reward == 0) | (reward == 1)).all() and reward.any())

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
        if key.min() < -n or key.max() >= n:
            outside = np.flatnonzero((key < -n) | (key >= n))
            raise IndexError(f"row {key[outside[0]]} is out of range: {n} rows.")
        key = key.astype(np.intp)  # a copy: positions are kept
        if key.min() < 0:
            key[key < 0] += n
        return _as_slice(key)

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
            "Put transformers and samplers inside the reward model or inside the "
            "policy, not in front of them."
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
    return logs if logs._in_order else logs[logs._stored_order]


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


def known_range(logs):
    """Return the known range of the rewards, or None."""
    # It is `reward_range` where it was stated, and finite. Rewards of which all are 0
    # or 1, and some are 1, are taken for yes and no: their range is (0, 1).
    if logs.reward_range is not None:
        low, high = logs.reward_range
        return (float(low), float(high)) if isfinite(high - low) else None
    return (0.0, 1.0) if logs._says_yes_and_no else None


# -- whether what pandas labels belongs to the rows at whose positions it stands ------


def index_of(values, n_rounds):
    """Return the index of a pandas Series or frame with a row per round, else None."""
    pandas = sys.modules.get("pandas")
    if pandas is None or not isinstance(values, (pandas.Series, pandas.DataFrame)):
        return None
    return values.index if len(values) == n_rounds else None


def is_anew(index):
    """Tell whether labels are 0, 1, 2, ..., as those of a new frame are."""
    return index.equals(sys.modules["pandas"].RangeIndex(len(index)))


def first_of_another_row(index, other):
    """Return the first row whose label shows that rows are in another order."""
    # Labels that cannot be compared show nothing: those of a new frame against those of
    # some rows of another one, labels of another kind or with another name, and keys of
    # a table, which come several times.
    if index.equals(other):
        return None, True
    same = _counts_alike(index, other)
    named_alike = list(index.names) == list(other.names)
    anew = is_anew(index) or is_anew(other)
    if same:
        shows = named_alike or not (anew or _are_numbers_from_zero(index))
    else:
        unique = index.is_unique and other.is_unique
        alike = named_alike and index.inferred_type == other.inferred_type
        shows = unique and alike and not anew
    return (_first_difference(index, other) if shows else None), same


def _counts_alike(index, other):
    """Tell whether both have every label equally often."""
    if index.nlevels != other.nlevels or index.inferred_type != other.inferred_type:
        return False
    if index.is_unique and other.is_unique:
        return bool(index.isin(other).all())
    counts, others = (
        one.value_counts(sort=False, dropna=False) for one in (index, other)
    )
    alike = len(counts) == len(others) and bool(counts.index.isin(others.index).all())
    return alike and bool((counts == others.reindex(counts.index)).all())


def _are_numbers_from_zero(index):
    return index.inferred_type == "integer" and is_anew(index.sort_values())


def _first_difference(index, other):
    low, high = 0, len(index)  # the labels before `low` agree, those before `high` not
    while high - low > 1:
        middle = (low + high) // 2
        if index[low:middle].equals(other[low:middle]):
            low = middle
        else:
            high = middle
    return low


def _label_at(index, row):
    return repr(index[row : row + 1].tolist()[0])


def check_labels_of(
    name, index, other_name, other, *, is_table=False, code=None, is_made=False
):
    """Raise where an index has the labels of other rows."""
    # Labels 0, 1, 2, ... are those of a frame that was read and then sorted, or those
    # of a new frame. A table of them was mostly made of an array, so a warning tells.
    row, same = first_of_another_row(index, other)
    if row is None:
        return
    beside_table = other_name == "that of context"  # which may be made of an array
    anew = is_anew(index) or (beside_table and is_anew(other))
    drop = "drop the index with values.to_numpy()"
    if is_made:
        drop = f"give the table this index, with set_axis({name}.index)"
    elif is_table:
        drop = "give it the index of this frame, with set_axis"
        drop = f"set its index, values.set_axis({code})" if code else drop
    bring = "bring the rows into this order"
    if code and index.is_unique:
        bring += f", values.loc[{code}]"
    start = f"the index of {name} has the label {_label_at(index, row)}"
    found, end = "The labels are the same, in another order. ", "the order is right"
    if not same:
        found = "These are labels of other rows. Pass the same rows."
    elif not anew:
        found += f"B{bring[1:]}."
    else:
        found += "Labels 0, 1, 2, ... may also be those of a new frame."
        end, drop = "these go together", f"{drop}. If not, {bring}"
    found = f", where {other_name} has {_label_at(other, row)}. {found}"
    found += f" Rows count by their positions: if {end}, {drop}."
    if same and (is_made or (is_table and is_anew(index))):
        warn_user([LogsWarning(f"{start} at row {row}{found}", float(row))])
    else:
        raise RowError(start, row, found)


def labels_to_keep(fields, n_rounds):
    """Compare the indices of fields; return one that the context does not tell."""
    seen, kept = [], ()
    context = fields["context"]
    common = _index_beside_made(fields, n_rounds)
    for name, values in fields.items():
        index = index_of(values, n_rounds)
        if index is None or any(index.equals(other) for _, other in seen):
            continue
        is_table = values.ndim > 1
        if name not in ("context", "group"):
            group = fields["group"]
            keys = _index_keys(index, context, group, {}, ("context", "group"))
            if _is_a_key(name, index, keys, is_table):
                continue
        made = common is not None and index.equals(common)
        for other_name, other in seen:
            how = {"is_table": is_table, "is_made": made and other_name == "context"}
            told, code = f"that of {other_name}", f"{other_name}.index"
            check_labels_of(name, index, told, other, code=code, **how)
        seen.append((name, index))
        if not kept and name != "context" and not is_anew(index):
            kept = (index,)
    return kept


def _index_beside_made(fields, n_rounds):
    """Return the index of all Series where the context has 0, 1, 2, ..., else None."""
    # Such a context seems to be a new table that was made of an array.
    context = index_of(fields["context"], n_rounds)
    if context is None or not is_anew(context):
        return None
    others = [(v, index_of(v, n_rounds)) for k, v in fields.items() if k != "context"]
    found = [index for v, index in others if index is not None and v.ndim == 1]
    if len(found) < 2 or not all(found[0].equals(one) for one in found[1:]):
        return None
    return None if is_anew(found[0]) else found[0]


def check_row_labels(name, values, logs):
    """Raise where the index of values is that of other rows than those of logs."""
    n_rounds = len(logs)
    index = index_of(values, n_rounds)
    if index is None:
        return
    is_table = values.ndim > 1
    own = index_of(logs.context, n_rounds)
    known = [*logs._labels] if own is None else [own, *logs._labels]
    if any(index.equals(one) for one in known):
        return
    called = ("logs.context", "logs.group")
    keys = _index_keys(index, logs.context, logs.group, logs.columns, called)
    if _is_a_key(name, index, keys, is_table):
        return
    frame = [("the frame that the logs were built from", one) for one in logs._labels]
    expected = [(told, one, None) for told, one in frame]
    if own is not None:
        of_context = ("that of logs.context", own, "logs.context.index")
        # a context of new labels was made of an array: the others say more
        expected.insert(len(expected) if is_anew(own) else 0, of_context)
    for told, one, code in expected:
        check_labels_of(name, index, told, one, is_table=is_table, code=code)
    if own is None and all(one.name is not None for one in logs._labels):
        pandas = sys.modules["pandas"]
        positions = pandas.Index(logs.row_id.position)
        if index.equals(positions) or is_anew(index):
            return
        told, code = "the row of the logs", "logs.row_id.position"
        for expected in (positions, pandas.RangeIndex(n_rounds)):
            if first_of_another_row(index, expected)[1]:
                how = {"is_table": is_table, "code": code}
                check_labels_of(name, index, told, expected, **how)


def _index_keys(index, context, group, columns, called):
    """Yield what an index may have as its labels, with its name and its code."""
    # Sums by user, for instance, have the users as their index.
    pandas, n_rounds = sys.modules["pandas"], len(index)
    users = _index_of_group(group)
    if users is not None and len(users) == n_rounds:
        yield "the group", called[1], users
    name = index.name
    if name is None:
        return
    if index_of(context, n_rounds) is not None and name in context.columns:
        code = f"{called[0]}[{name!r}]"
        yield f"column {name!r} of the context", code, pandas.Index(context[name])
    if name in columns and columns[name].ndim == 1:
        code = f"logs.columns[{name!r}]"
        yield f"column {name!r} of the logs", code, pandas.Index(columns[name])


def _index_of_group(group):
    """Return labels of groups as an index, None where they have several columns."""
    if not isinstance(group, (list, tuple)):
        group = np.asarray(group)
        if group.ndim != 1 or group.dtype.names:
            return None
        if group.dtype == object:
            group = group.tolist()  # tuples make an index of several levels
    elif len(group) and isinstance(group[0], list):
        return None
    return sys.modules["pandas"].Index(group)


def _is_a_key(name, index, keys, is_table):
    """Tell whether an index is a key of the rows; raise for one in another order."""
    unnamed = index.name is None and index.nlevels == 1
    if unnamed and is_anew(index):
        return False
    by_chance = unnamed and index.inferred_type == "integer"  # as numbers of rows are
    for told, code, key in keys:
        if index.equals(key):
            return True
        if not by_chance and _counts_alike(index, key):
            key = key.set_names(index.names)
            check_labels_of(name, index, told, key, is_table=is_table, code=code)
    return False


def check_output_labels(name, values, X):
    """Raise where a function of contexts gives their rows in another order."""
    n_rounds = X.shape[0] if hasattr(X, "shape") else len(X)
    index = index_of(values, n_rounds)
    own = index_of(X, n_rounds)
    if index is None or own is None or is_anew(index):
        return
    how = {"is_table": values.ndim > 1, "code": "X.index"}
    check_labels_of(name, index, "that of X", own, **how)
