# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Several logs in memory as one: rows below each other, labels united."""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING

import joblib
import numpy as np
from scipy import sparse

from skope_ope.logs._bandit_logs import BanditLogs
from skope_ope.logs._file_rows import FileRows
from skope_ope.logs._frames import import_narwhals
from skope_ope.logs._label_kinds import kind_of_labels
from skope_ope.logs._row_container import RowContainer, freeze
from skope_ope.logs._row_content import column_names
from skope_ope.logs._slate_logs import SlateLogs
from skope_ope.logs._validation import is_frame, label_codes, plain, short

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import TypeVar

    AnyLogs = TypeVar("AnyLogs", BanditLogs, SlateLogs)

ONE_VALUE = {  # what holds for all rounds, and what to do where it differs
    "reward_range": "Give all logs the range that holds for all rewards when you build "
    "them.",
    "propensity_estimated": "Estimate the propensities after concat, or call "
    "replace(propensity=logs.propensity) where they count as given.",
    "logging_policy": "Leave it out with replace(logging_policy=None), or keep these "
    "logs apart.",
    "item_feature_names": "Build all logs with the same item features.",
}
CODES = ("action_index", "logger_index", "_group_code")  # made from united labels


def concat(logs: Iterable[AnyLogs]) -> AnyLogs:
    """Join logs that are in memory, one below the other.

    Rows keep their origin and position. What was fitted on some of them recognises
    them, and the parts of one log come back together as what they were. Actions and
    loggers are united: first those of the first logs, then new ones in the order of
    the other logs. An action that some logs do not list has `logging_proba` 0 there,
    and is not `available`; without `available` all actions count as offered. Equal
    labels of groups are one group. Read more in the :ref:`User Guide <concat>`.

    Parameters
    ----------
    logs : iterable of BanditLogs, or of SlateLogs
        Logs of one type with the same fields and columns, and with contexts of one
        kind. Frames need the same columns in the same order. Later logs follow in
        time: the order of the rows is the order of the rounds.

    Returns
    -------
    logs : BanditLogs or SlateLogs
        New logs. Nothing is written to those that were given.

    Raises
    ------
    ValueError, TypeError
        If the logs do not go together, or if one row is in two of them. The message
        names the field and the logs, and says what to do. Rows of logs that were built
        twice are not known to be the same.

    See Also
    --------
    scan_logs : Takes a list of files, for logs that are larger than memory.

    Examples
    --------
    >>> from skope_ope import BanditLogs, concat
    >>> monday = BanditLogs([[0.1], [0.7]], ["a", "b"], [1.0, 0.0], 0.5)
    >>> tuesday = BanditLogs([[0.4]], ["c"], [1.0], 0.25)
    >>> both = concat([monday, tuesday])
    >>> both
    BanditLogs(n_rounds=3, n_features=1, n_actions=3)
    >>> both.actions.tolist()
    ['a', 'b', 'c']
    """
    parts = _checked_parts(logs)
    out = object.__new__(type(parts[0]))
    state = out.__dict__
    for name in set(out._carried_fields) & set(ONE_VALUE):
        state[name] = _one_value(name, parts)
    state.update(_rows_of(parts), columns={})
    names = [name for name in out._row_fields if name not in CODES]
    values = {name: _values(name, parts) for name in names}
    unite = _unite_actions if isinstance(out, BanditLogs) else _unite_candidates
    state.update(unite(parts, values))
    for name, found in values.items():
        state[name] = None if found is None else _stacked(name, found)
    out._set_group(state["group"])
    for name in dict.fromkeys(name for part in parts for name in part.columns):
        found = [part.columns.get(name) for part in parts]
        called = f"column {name!r}"
        _check_present(called, found)
        _check_no_actions(called, found, parts)
        state["columns"][name] = _stacked(called, found)
    return out


def _checked_parts(logs):
    """Return the logs as a list, all in memory and of one type."""
    if isinstance(logs, RowContainer) or hasattr(logs, "partitions"):
        raise TypeError(
            f"concat takes a list of logs, got {type(logs).__name__}. Use "
            "concat([logs, more])."
        )
    parts = list(logs)
    if not parts:
        raise ValueError("concat needs at least one log, got none.")
    for k, part in enumerate(parts):
        if hasattr(part, "partitions"):
            raise TypeError(
                f"logs {k} are lazy logs, whose rows are not in memory. scan_logs "
                "takes a list of files: scan_logs([file, more], ...)."
            )
        if not isinstance(part, (BanditLogs, SlateLogs)):
            raise TypeError(
                f"concat takes BanditLogs or SlateLogs, got {type(part).__name__} as "
                f"logs {k}. Build logs of it first."
            )
        if type(part) is not type(parts[0]):
            raise TypeError(
                f"logs {k} are {type(part).__name__}, logs 0 are "
                f"{type(parts[0]).__name__}. Join logs of one type."
            )
    return parts


def _one_value(name, parts):
    """Return what all logs must agree on."""
    first = getattr(parts[0], name)
    for k, part in enumerate(parts):
        value = getattr(part, name)
        if value is not first and joblib.hash(value) != joblib.hash(first):
            raise ValueError(
                f"{name} is {value!r} in logs {k} and {first!r} in logs 0. "
                f"{ONE_VALUE[name]}"
            )
    return first


def _values(name, parts):
    """Return a field of all logs, None where none has it."""
    found = [getattr(part, name) for part in parts]
    if all(value is None for value in found):
        return None
    _check_present(name, found)
    return found


def _check_present(name, found):
    lacking = [k for k, value in enumerate(found) if value is None]
    if lacking:
        has = next(k for k, value in enumerate(found) if value is not None)
        raise ValueError(
            f"logs {has} have {name}, and logs {lacking[0]} have none. Give it to all "
            "logs, or leave it out of all."
        )


def _rows_of(parts):
    """Return which rows these are: those of several origins are numbered anew."""
    found = []
    for part in parts:
        files = FileRows.of_logs(part)
        at, within = files.places(part.row_id.position)
        found.append((files.groups[at], files.starts[at], within))
    group, start, within = map(np.concatenate, zip(*found, strict=True))
    groups, first, code = np.unique(group, return_index=True, return_inverse=True)
    starts, origin, files = start[first], parts[0]._origin, parts[0]._files
    joins = any(part._origin != origin for part in parts)
    if joins:  # they follow each other as they appear
        lengths, order = np.zeros_like(starts), np.argsort(first)
        np.maximum.at(lengths, code, within + 1)
        starts[order] = np.cumsum(lengths[order]) - lengths[order]
        origin = blake2b(starts.tobytes() + groups.tobytes()).hexdigest()
    if joins or files is not None:
        order = np.argsort(starts)
        files = FileRows(starts[order], groups[order])
    position = starts[code] + within
    _check_once(position, [len(part) for part in parts])
    begin = int(position[0]) if len(position) else 0
    in_one_run = np.array_equal(position, np.arange(begin, begin + len(position)))
    labels = [part._labels for part in parts]
    return {
        "_origin": origin,
        "_files": files,
        "_position": (begin or None) if in_one_run else freeze(position),
        "_in_order": bool((position[1:] >= position[:-1]).all()),
        "_by_position": any(part._by_position for part in parts),
        "_labels": (labels[0][0].append([one[0] for one in labels[1:]]),)
        if all(map(len, labels))
        else (),
    }


def _check_once(position, sizes):
    """Raise where a row is in two of the logs; within one it may come back."""
    part = np.repeat(np.arange(len(sizes)), sizes)
    order = np.argsort(position, kind="stable")
    first, again = order[:-1], order[1:]
    twice = (position[first] == position[again]) & (part[first] != part[again])
    if twice.any():
        first, again = first[twice], again[twice]
        at, begins = np.argmin(again), np.cumsum([0, *sizes])
        row, other = (
            f"row {k - begins[part[k]]} of logs {part[k]}"
            for k in (again[at], first[at])
        )
        raise ValueError(
            f"{row} is {other} ({len(again)} such rows). Every round counts once: "
            "leave the rows out of one of the logs, such as logs[5:]."
        )


def _united(name, labels):
    """Return all labels in the order in which they appear, and the places of each."""
    _check_kinds(name, labels)
    every = np.concatenate(labels)
    first = {label: row for row, label in reversed([*enumerate(every.tolist())])}
    united = freeze(every[sorted(first.values())])
    return united, [label_codes(united, one) for one in labels]


def _check_kinds(name, found):
    """Raise where labels are of two kinds: 1 and "1" are not one label."""
    kinds = [kind_of_labels(values) for values in found]
    known = [k for k, kind in enumerate(kinds) if kind]
    for k in known:
        if kinds[k] != kinds[known[0]]:
            raise ValueError(
                f"{name} holds {kinds[k]} in logs {k} and {kinds[known[0]]} in logs "
                f"{known[0]}. Build all logs with labels of one kind."
            )


def _unite_actions(parts, values):
    """Return what the logs tell of all actions and loggers; bring tables in order."""
    actions, places = _united("action", [part.actions for part in parts])
    state = {"actions": actions, "action_index": _codes("action_index", parts, places)}
    for name in ("logging_proba", "available"):
        if values[name] is not None:
            pairs = zip(values[name], places, strict=True)
            values[name] = [_widened(*pair, len(actions)) for pair in pairs]
    tables = values["action_context"]
    if tables is not None and all(table.ndim == 2 for table in tables):
        state["action_context"] = _united_features(tables, places, actions)
        del values["action_context"]
    elif tables is not None:
        _check_all_known("action_context", parts, places, actions, "action")
        pairs = zip(tables, places, strict=True)
        values["action_context"] = [
            table[..., np.argsort(at), :] for table, at in pairs
        ]
    if values["logger"] is None:
        return state | {"loggers": None, "logger_index": None}
    loggers, places = _united("logger", [part.loggers for part in parts])
    if values["logger_proba"] is not None:
        _check_all_known("logger_proba", parts, places, loggers, "logger")
        pairs = zip(values["logger_proba"], places, strict=True)
        values["logger_proba"] = [_widened(*pair, len(loggers)) for pair in pairs]
    codes = _codes("logger_index", parts, places)
    return state | {"loggers": loggers, "logger_index": codes}


def _codes(name, parts, places):
    pairs = zip(parts, places, strict=True)
    return freeze(np.concatenate([at[getattr(part, name)] for part, at in pairs]))


def _widened(table, places, n):
    """Return a table whose columns stand at their places among n, zeros elsewhere."""
    out = np.zeros((*table.shape[:-1], n), dtype=table.dtype)
    out[..., places] = table
    return out


def _check_all_known(name, parts, places, labels, what):
    for k, known in enumerate(places):
        lacking = np.setdiff1d(np.arange(len(labels)), known)
        if lacking.size:
            raise ValueError(
                f"{name} of logs {k} has no column for {what} "
                f"{plain(labels[lacking[0]])!r}, which other logs have. Build all logs "
                f"with the same {what}s, or without {name}."
            )


def _united_features(tables, places, actions):
    """Return the features of all actions; logs that know an action must agree."""
    _check_shapes("action_context", tables)
    out = np.full((len(actions), tables[0].shape[1]), np.nan)
    owner = np.full(len(actions), -1)
    for k, (table, at) in enumerate(zip(tables, places, strict=True)):
        differ = (owner[at] >= 0) & (out[at] != table).any(axis=1)
        if differ.any():
            code = at[np.argmax(differ)]
            raise ValueError(
                f"action_context of action {plain(actions[code])!r} in logs {k} is not "
                f"that in logs {owner[code]}. Give an action the same features in all "
                "logs, or features of shape (n_rounds, n_actions, n_action_features)."
            )
        owner[at], out[at] = k, table
    return freeze(out)


def _unite_candidates(parts, values):
    """Return what the logs tell of all candidates; bring tables to one width."""
    most = max(part.max_candidates for part in parts)
    state = {"max_candidates": most}
    counts = values["n_candidates"]
    if all(isinstance(one, int) and one == counts[0] for one in counts):
        state["n_candidates"] = counts[0]
        del values["n_candidates"]
    else:
        pairs = zip(counts, parts, strict=True)
        values["n_candidates"] = [
            np.broadcast_to(one, len(part)) for one, part in pairs
        ]
    if values["candidates"] is not None:
        values["candidates"] = [
            _widened(one, np.arange(one.shape[-1]), most)
            for one in values["candidates"]
        ]
    tables, labels = values["item_features"], values["item_id"]
    if tables is not None and any(table.ndim == 2 for table in tables):
        _check_same_items("item_features", tables)
        state["item_features"] = tables[0]
        del values["item_features"]
    if labels is not None and all((one == one[:1]).all() for one in labels):
        _check_same_items("item_id", [one[:1] for one in labels if len(one)])
    return state


def _check_same_items(name, tables):
    for k, table in enumerate(tables):
        if not np.array_equal(table, tables[0]):
            raise ValueError(
                f"{name} of logs {k} is not that of logs 0, so an index means another "
                "candidate. Build all logs with the same candidates in the same order."
            )


def _stacked(name, found):
    """Return rows below each other, after a look at their kinds and shapes."""
    if name == "context":
        _check_contexts(found)
    else:
        _check_shapes(name, found)
        _check_kinds(name, found)
    return freeze(stack_rows(found))


def _check_shapes(name, found):
    for k, values in enumerate(found):
        if values.shape[1:] != found[0].shape[1:]:
            raise ValueError(
                f"{name} has entries of shape {values.shape[1:]} in logs {k} and of "
                f"shape {found[0].shape[1:]} in logs 0. Build all logs with the same "
                "shape."
            )


def _check_contexts(found):
    kinds = [_container(context) for context in found]
    for k, context in enumerate(found):
        if kinds[k] != kinds[0]:
            raise ValueError(
                f"context is {kinds[k]} in logs {k} and {kinds[0]} in logs 0. Build "
                "all logs with contexts of one kind."
            )
        if not is_frame(context):
            continue
        names, others = column_names(context), column_names(found[0])
        if names != others:
            raise ValueError(
                f"context has the columns {_shown(names)} in logs {k} and "
                f"{_shown(others)} in logs 0. Build all logs with the same columns in "
                "the same order."
            )
        pairs = zip(names, _types(context), _types(found[0]), strict=True)
        for name, kind, other in pairs:
            if kind != other:
                raise ValueError(
                    f"column {name!r} of the context is {kind} in logs {k} and {other} "
                    "in logs 0. Give the column one type before you build the logs."
                )
    if not is_frame(found[0]):
        _check_shapes("context", found)


def _container(context):
    if sparse.issparse(context):
        return "a sparse matrix"
    if not is_frame(context):
        return "an array"
    frame = import_narwhals().from_native(context, eager_only=True)
    return f"a frame of {frame.implementation.value}"


def _types(frame):
    return list(frame.dtypes) if hasattr(frame, "dtypes") else frame.schema.types


def _shown(names):
    return short(np.array(names, dtype=object))


def stack_rows(parts):
    """One array, sparse matrix or frame from several with the same columns."""
    if len(parts) == 1:
        return parts[0]
    if any(sparse.issparse(part) for part in parts):
        return sparse.vstack(parts, format="csr")
    if is_frame(parts[0]):
        narwhals = import_narwhals()
        frames = [narwhals.from_native(part, eager_only=True) for part in parts]
        return narwhals.concat(frames, how="vertical").to_native()
    return np.concatenate(parts)


def _check_no_actions(name, found, parts):
    """Raise where a column may have a column per action, and actions differ."""
    actions = [getattr(part, "actions", np.zeros(0)).tolist() for part in parts]
    for k, values in enumerate(found):
        wide = values.ndim > 1 and values.shape[1] == len(actions[k])
        if wide and any(one != actions[0] for one in actions):
            raise ValueError(
                f"{name} has as many columns as logs {k} have actions, and the logs "
                "have other actions, so which action a column stands for is unknown. "
                "Add it after concat, with with_columns."
            )
