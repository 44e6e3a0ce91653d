# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Several logs in memory as one: rows below each other, labels united."""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b
from typing import TYPE_CHECKING, TypeVar

import joblib
import numpy as np
from scipy import sparse

from skope_ope.logs._bandit_logs import BanditLogs
from skope_ope.logs._fields import FIELDS
from skope_ope.logs._frames import import_narwhals
from skope_ope.logs._known_rows import FileRows, names_as_texts
from skope_ope.logs._labels import kind_of_labels
from skope_ope.logs._row_container import RowContainer, freeze
from skope_ope.logs._slate_logs import SlateLogs
from skope_ope.logs._validation import is_frame, label_codes, plain

if TYPE_CHECKING:
    AnyLogs = TypeVar("AnyLogs", BanditLogs, SlateLogs)

BUILD_ALIKE = "Build all logs with the same."
ONE_KIND = "Build all logs with labels of one kind."
ONE_VALUE = {  # what holds for all rounds, and what to do where it differs
    "reward_range": "Give all logs the range that holds for all rewards when you build "
    "them.",
    "propensity_estimated": "Estimate the propensities after concat, or call "
    "replace(propensity=logs.propensity) where they count as given.",
    "logging_policy": "Leave it out with replace(logging_policy=None), or keep these "
    "logs apart.",
    "item_feature_names": "Build all logs with the same item features.",
}


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
        values = [getattr(part, name) for part in parts]
        state[name] = values[0]
        _agree(f"{name} is", values, ONE_VALUE[name], by=joblib.hash)
    names = {part.reward_name for part in parts}
    state["reward_name"] = names.pop() if len(names) == 1 else None
    state.update(_joined_rows(parts), columns={})
    names = [name for name in out._row_fields if name in FIELDS]  # no codes of labels
    values = {name: _field_values(name, parts) for name in names}
    unite = _unite_actions if isinstance(out, BanditLogs) else _unite_candidates
    state.update(unite(parts, values))
    for name, found in values.items():
        state[name] = None if found is None else _stacked_field(name, found)
    out._set_group(state["group"])
    for name in dict.fromkeys(name for part in parts for name in part.columns):
        found = [part.columns.get(name) for part in parts]
        _check_present(f"column {name!r}", found)
        _check_no_actions(name, found, parts)
        state["columns"][name] = _stacked_field(f"column {name!r}", found)
    return out


def _checked_parts(logs):
    """Return the logs as a list, all in memory and of one type."""
    if isinstance(logs, RowContainer) or hasattr(logs, "partitions"):
        name = type(logs).__name__
        raise TypeError(f"concat takes a list, concat([logs, more]), got {name}.")
    parts = list(logs)
    if not parts:
        raise ValueError("concat needs at least one log, got an empty list.")
    for k, part in enumerate(parts):
        if hasattr(part, "partitions"):
            raise TypeError(
                f"logs {k} are lazy logs, whose rows are not in memory. scan_logs "
                "takes a list of files: scan_logs([file, more], ...)."
            )
        if not isinstance(part, (BanditLogs, SlateLogs)):
            raise TypeError(
                f"concat joins BanditLogs or SlateLogs, got {type(part).__name__} as "
                f"logs {k}. Build logs of it first."
            )
    names = [type(part).__name__ for part in parts]
    _agree("the type is", names, "Join logs of one type.")
    return parts


def _agree(what, values, remedy=BUILD_ALIKE, by=None):
    """Raise where values of logs differ; None agrees with all, unless seen `by`."""
    keys = values if by is None else [by(value) for value in values]
    first = next((k for k, key in enumerate(keys) if key is not None), 0)
    for k, key in enumerate(keys):
        if key is not None and key != keys[first]:
            raise ValueError(
                f"{what} {values[k]} in logs {k} and {values[first]} in logs {first}. "
                f"{remedy}"
            )


def _field_values(name, parts):
    """Return a field of all logs, None where none has it."""
    found = [getattr(part, name) for part in parts]
    if all(value is None for value in found):
        return None
    _check_present(name, found)
    return found


def _check_present(name, found):
    absent = [value is None for value in found]
    if any(absent):
        raise ValueError(
            f"logs {absent.index(False)} have {name}, and logs {absent.index(True)} "
            "have none. Give it to all logs, or leave it out of all."
        )


def _joined_rows(parts):
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
    kept = ()
    if all(map(len, labels)):
        kept = (labels[0][0].append([one[0] for one in labels[1:]]),)
    return {
        "_origin": origin,
        "_files": files,
        "_position": (begin or None) if in_one_run else freeze(position),
        "_in_order": bool((position[1:] >= position[:-1]).all()),
        "_by_position": any(part._by_position for part in parts),
        "_labels": kept,
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
        pair = again[at], first[at]
        row, other = (f"row {k - begins[part[k]]} of logs {part[k]}" for k in pair)
        raise ValueError(
            f"{row} is {other} ({len(again)} such rows). Every round counts once: "
            "leave the rows out of one of the logs, such as logs[5:]."
        )


def _united(parts, field, name):
    """Return all labels as they appear; the places of each log's; and all codes."""
    labels = [getattr(part, name) for part in parts]
    kinds = [kind_of_labels(one) or None for one in labels]
    _agree(f"{field} holds", kinds, ONE_KIND)
    every = np.concatenate(labels)
    first = {label: row for row, label in reversed([*enumerate(every.tolist())])}
    united = freeze(every[sorted(first.values())])
    places = [label_codes(united, one) for one in labels]
    codes = [getattr(part, f"{field}_index") for part in parts]
    return united, places, freeze(np.concatenate([*map(np.take, places, codes)]))


def _unite_actions(parts, values):
    """Return what the logs tell of actions and loggers; bring tables in their order."""
    actions, places, codes = _united(parts, "action", "actions")
    state = {"actions": actions, "action_index": codes}
    state |= {"loggers": None, "logger_index": None}
    for name in ("logging_proba", "available"):
        values[name] = _widened(values[name], places, len(actions))
    tables = values["action_context"]
    if tables is not None:
        _agree("action_context has", [f"{table.ndim} dimensions" for table in tables])
        if tables[0].ndim == 2:
            state["action_context"] = _united_features(tables, places, actions)
            del values["action_context"]
        else:
            _check_all_known("action_context", places, actions)
            pairs = zip(tables, places, strict=True)
            tables = [table[:, np.argsort(at)] for table, at in pairs]
            values["action_context"] = tables
    if values["logger"] is not None:
        loggers, places, codes = _united(parts, "logger", "loggers")
        state |= {"loggers": loggers, "logger_index": codes}
        if values["logger_proba"] is not None:
            _check_all_known("logger_proba", places, loggers)
            proba = values["logger_proba"]
            values["logger_proba"] = _widened(proba, places, len(loggers))
    return state


def _widened(tables, places, n):
    """Return tables whose columns stand at their places among n, zeros elsewhere."""
    if tables is None:
        return None
    wide = [np.zeros((*table.shape[:-1], n), dtype=table.dtype) for table in tables]
    for out, at, table in zip(wide, places, tables, strict=True):
        out[..., at] = table
    return wide


def _check_all_known(name, places, labels):
    for k, known in enumerate(places):
        lacking = np.setdiff1d(np.arange(len(labels)), known)
        if lacking.size:
            raise ValueError(
                f"{name} of logs {k} has no column for {plain(labels[lacking[0]])!r}, "
                f"which other logs have. Add it there, or leave out {name}."
            )


def _united_features(tables, places, actions):
    """Return the features of all actions; logs that know an action must agree."""
    _agree("action_context has", [f"{table.shape[1]} columns" for table in tables])
    out = np.empty((len(actions), tables[0].shape[1]))
    of_logs = np.full(len(actions), -1)
    for k, (table, at) in enumerate(zip(tables, places, strict=True)):
        differ = at[(of_logs[at] >= 0) & (out[at] != table).any(axis=1)]
        if differ.size:
            raise ValueError(
                f"action_context of {plain(actions[differ[0]])!r} differs in logs {k} "
                f"and logs {of_logs[differ[0]]}. Give an action the same features in "
                "all logs, or features of shape (n_rounds, n_actions, ...)."
            )
        of_logs[at], out[at] = k, table
    return freeze(out)


def _unite_candidates(parts, values):
    """Return what the logs tell of all candidates; bring masks to one width."""
    most = max(part.max_candidates for part in parts)
    state, counts = {"max_candidates": most}, values["n_candidates"]
    if all(isinstance(one, int) and one == counts[0] for one in counts):
        state["n_candidates"] = values.pop("n_candidates")[0]
    else:
        sizes = map(len, parts)
        values["n_candidates"] = [*map(np.broadcast_to, counts, sizes)]
    masks = values["candidates"]
    if masks is not None:
        places = [np.arange(mask.shape[-1]) for mask in masks]
        values["candidates"] = _widened(masks, places, most)
    tables, labels = values["item_features"], values["item_id"]
    if tables is not None and any(table.ndim == 2 for table in tables):
        _agree("item_features are", tables, by=np.ndarray.tobytes)
        state["item_features"] = values.pop("item_features")[0]
    if labels is not None and all((one == one[:1]).all() for one in labels):
        _agree("item_id is", [one[0].tolist() for one in labels if len(one)])
    return state


def _stacked_field(name, found):
    """Return rows below each other, after a look at their kinds and shapes."""
    if name == "context":
        _agree("context is", [*map(_container, found)])
    if is_frame(found[0]):
        _agree("context has the columns", [*map(names_as_texts, found)])
        types = zip(*map(_types, found), strict=True)
        for column, some in zip(names_as_texts(found[0]), types, strict=True):
            _agree(f"column {column!r} of the context holds", some)
    else:
        _agree(f"{name} has rows of shape", [values.shape[1:] for values in found])
    if name != "context":
        kinds = [kind_of_labels(values) or None for values in found]
        _agree(f"{name} holds", kinds, ONE_KIND)
    return freeze(stack_rows(found))


def _container(context):
    if sparse.issparse(context):
        return "a sparse matrix"
    if not is_frame(context):
        return "an array"
    frame = import_narwhals().from_native(context, eager_only=True)
    return f"a frame of {frame.implementation.value}"


def _types(frame):
    """Return the types of the columns: of pandas' categories, which there are."""
    types = frame.dtypes if hasattr(frame, "dtypes") else frame.schema.types
    return [list(one.categories) if one == "category" else one for one in types]


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
    if all(one == actions[0] for one in actions):
        return
    for k, values in enumerate(found):
        if values.ndim > 1 and values.shape[1] == len(actions[k]):
            raise ValueError(
                f"column {name!r} may have a column per action in logs {k}, and the "
                "logs have other actions. Add it after concat, with with_columns."
            )
