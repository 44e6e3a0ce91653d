# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Logs from and to data frames of any library, by way of narwhals."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import chain, combinations
from numbers import Real
from typing import Literal, Self

import numpy as np
from scipy import sparse

from skope_ope._texts import meant
from skope_ope._types import ArrayLike, Frame
from skope_ope.exceptions import RowError
from skope_ope.logs._coded_labels import column_codes
from skope_ope.logs._fields import (
    BANDIT,
    FIELDS,
    column_fields,
    indexed_fields,
    kind_of_field,
    remedy_of,
)
from skope_ope.logs._labels import factorise, objects
from skope_ope.logs._row_container import index_of, is_anew
from skope_ope.logs._validation import (
    check_labels,
    frame_names,
    is_frame,
    several_numbers,
    short,
)

LIBRARIES = ("pandas", "polars", "pyarrow")


def import_narwhals():
    """Import narwhals when a frame arrives; it is not a core dependency."""
    try:
        import narwhals.stable.v2 as narwhals
    except ImportError as error:
        raise ImportError(
            "Data frames need narwhals: pip install 'skope-ope[frames]'."
        ) from error
    return narwhals


class Framed:
    """Logs from data frames, and data frames from logs."""

    @classmethod
    def from_frame(
        cls,
        frame: Frame,
        *,
        action: str,
        reward: str,
        propensity: str | float | None = None,
        context: Sequence[str] | None = None,
        exclude: Sequence[str] | None = None,
        actions: ArrayLike | None = None,
        logging_proba: Sequence[str] | None = None,
        logger_proba: Sequence[str] | None = None,
        logger: str | None = None,
        timestamp: str | None = None,
        group: str | None = None,
        sample_weight: str | None = None,
        columns: Sequence[str] | Mapping[str, str] | None = None,
        reward_range: tuple[float, float] | None = None,
    ) -> Self:
        """Build logs from the named columns of a data frame.

        Parameters
        ----------
        frame : pandas, polars or pyarrow table
            One row per round. It is not written to.
        action, reward : str
            Names of the columns.
        propensity : str or float in (0, 1], default=None
            Name of the column, or the one propensity of all rounds: 1/3 for a trial
            that drew among three arms.
        context : list of str, default=None
            Names of the columns that were known before the decision. They are kept as
            a frame of the same library. `[]`: no features. Leave texts, categories
            and dates as they are: a model that does not take them is fitted behind a
            `ContextEncoder`, which makes a column of every value
            (:ref:`User Guide <texts_and_dates>`).
        exclude : list of str, default=None
            Instead of `context`: names of columns that are not context, such as
            outcomes. All columns that no other argument names become the context.
        actions : array-like, default=None
            Ordered labels of all actions.
        logging_proba, logger_proba : list of str, default=None
            Names of the columns with the probabilities, in the order of `actions`
            and of `loggers` (the sorted labels). `logging_proba` may be a dict
            {action: column}. Make several columns of one that holds lists.
        logger, timestamp, group, sample_weight : str, default=None
            Names of further columns.
        columns : list of str or dict, default=None
            Further columns to keep, also in folds (see `with_columns`). A dict gives
            each new name a column, a list of columns, or a dict {action: column}.
            The last two become an array with several columns.
        reward_range : tuple of (float, float), default=None
            Known bounds of the reward. Leave it out if there are none, as often with
            money.

        Returns
        -------
        logs : BanditLogs

        Raises
        ------
        ValueError
            If a column is missing, or if neither `context` nor `exclude` is given
            while columns are left over. The message lists the columns.
        TypeError
            If values are given in place of the name of a column.

        Examples
        --------
        >>> import pandas as pd
        >>> from skope_ope import BanditLogs
        >>> frame = pd.DataFrame(
        ...     {"age": [31, 54], "item": ["a", "b"], "click": [0, 1], "p": [0.5, 0.2]}
        ... )
        >>> BanditLogs.from_frame(
        ...     frame, action="item", reward="click", propensity="p", context=["age"]
        ... )
        BanditLogs(n_rounds=2, n_features=1, n_actions=2)
        """
        given = dict(locals())
        frame = opened_frame(frame)
        single = {name: given[name] for name in column_fields(BANDIT)}
        single = {field: name for field, name in single.items() if name is not None}
        for field, name in single.items():
            check_name(field, name, frame)
        constant = constant_propensity(single, frame)
        for field in column_fields(BANDIT):
            if FIELDS[field].needed and field not in single:
                raise ValueError(f"from_frame needs the name of the {field} column.")
        tables = {name: given[name] for name in column_fields(BANDIT, several=True)}
        columns, actions, tables = _several_columns(frame, columns, actions, tables)
        used = [*single.values(), *chain(*tables.values()), *flat(columns)]
        context = context_among(
            frame, used, context, exclude, partial(check_context_names, fields=single)
        )
        fields = constant | {
            field: column_of(frame, name, field) for field, name in single.items()
        }
        for field, names in tables.items():
            if names:
                fields[field] = columns_side_by_side(frame, tuple(names))
        with remedies_of_frames():
            logs = cls(
                context_of_frame(frame, context),
                actions=actions,
                reward_range=reward_range,
                **fields,
            )
        logs._name_reward(reward)
        remember_labels(logs, frame)
        proba, of_loggers = tables["logging_proba"], tables["logger_proba"]
        check_tables(columns, proba, logs.actions, of_loggers, logs.loggers)
        if columns:
            added = {
                name: columns_side_by_side(frame, some)
                for name, some in columns.items()
            }
            logs = logs.with_columns(**added)
        return logs

    def to_frame(
        self, backend: Literal["pandas", "polars", "pyarrow"] | None = None
    ) -> Frame:
        """Return the logs as a data frame, one row per round.

        Parameters
        ----------
        backend : {"pandas", "polars", "pyarrow"}, default=None
            Library of the frame. `None`: that of the context, or pandas.

        Returns
        -------
        frame : pandas, polars or pyarrow table
            Context columns, then `action`, `reward` and the other fields that are set.
            Fields with a column per action are named like `logging_proba_<action>`.
            Groups of several parts become `group_0`, `group_1`, ...
        """
        return joined_frame(self.context, _columns_of_fields(self), backend)


def opened_frame(frame):
    """Return the narwhals frame of a table, or raise."""
    if not is_frame(frame):
        raise TypeError(
            "from_frame expects a pandas, polars or pyarrow table, got "
            f"{type(frame).__name__}. Arrays go to the constructor."
        )
    narwhals = import_narwhals()
    if getattr(getattr(frame, "columns", None), "nlevels", 1) > 1:
        raise ValueError(
            f"the columns of the frame have {frame.columns.nlevels} levels (a pandas "
            "MultiIndex); from_frame needs one name per column. Join the levels: "
            "frame.columns = ['_'.join(map(str, names)) for names in frame.columns]."
        )
    return narwhals.from_native(frame, eager_only=True)


def _several_columns(frame, columns, actions, tables):
    """Return what names several columns, checked, and the actions that it tells."""
    if not isinstance(columns, (str, Mapping)):
        columns = names_of("columns", columns)
    for name, some in columns.items() if isinstance(columns, Mapping) else ():
        if _holds_values(some):  # others may be several names
            check_name(name, some, frame)
    columns, actions, tables["logging_proba"] = columns_by_name(
        columns, actions, tables["logging_proba"]
    )
    for field, names in tables.items():
        refuse_one_table(field, names, frame)
    tables = {field: names_of(field, names) for field, names in tables.items()}
    for name, some in columns.items():
        for one in some if isinstance(some, tuple) else [some]:
            check_name(name, one, frame)
    return columns, actions, tables


def flat(columns):
    """Return all columns that a dict of names and tuples of names holds."""
    every = (some if isinstance(some, tuple) else [some] for some in columns.values())
    return list(chain(*every))


def context_among(frame, used, context, exclude, check):
    """Return the columns of the context, which are named or not used otherwise."""
    if context is not None:
        context = names_of("context", context)
    if exclude is not None:
        exclude = names_of("exclude", exclude)
    check_named(frame, (*used, *(context or ()), *(exclude or ())))
    check(context or ())
    others = [name for name in frame.columns if name not in used]
    return choose_context(others, context, exclude)


def check_named(frame, named):
    """Raise where a column that is named is not in the frame."""
    missing = [name for name in named if name not in frame.columns]
    if missing:
        raise ValueError(
            f"column {missing[0]!r} is not in the frame; it has "
            f"{', '.join(map(repr, frame.columns))}.{meant(missing[0], frame.columns)}"
        )


def context_of_frame(frame, context):
    """Return the columns of the context as a native frame, or (n_rounds, 0)."""
    if context:  # names of pandas columns may be numbers, which need `col`
        return frame.select(import_narwhals().col(*context)).to_native()
    return np.empty((len(frame), 0))  # a frame would forget the number of rows


def remember_labels(logs, frame, key=None):
    """Keep the index of a frame in the logs, where they keep no frame with it."""
    # Column `key` is kept, too: sums by it have it as their index.
    native = frame.to_native()
    index = index_of(native, len(logs))
    if index is None:
        return
    told = index_of(logs.context, len(logs)) is not None
    kept = () if told or is_anew(index) else (index,)
    if key is not None:
        kept = (*kept, native.set_index(key).index)
    logs.__dict__["_labels"] = kept


def columns_side_by_side(frame, names):
    """Return one column, or those of a tuple of names side by side."""
    if not isinstance(names, tuple):
        return column_of(frame, names)
    return np.column_stack([column_of(frame, name) for name in names])


def constant_propensity(single, frame):
    """Take a number out of the named columns; return it as a field of all rounds."""
    value = single.get("propensity")
    number = isinstance(value, Real) and not isinstance(value, bool)
    if not number or value in frame.columns:  # names of pandas columns may be numbers
        return {}
    if not 0 < value <= 1:
        raise ValueError(
            f"propensity {value!r} is neither a column of the frame nor a number in "
            "(0, 1], the one propensity of all rounds (1/3 for a trial that drew among "
            "three arms)."
        )
    return {"propensity": np.full(len(frame), float(single.pop("propensity")))}


def check_name(argument, name, frame):
    """Raise where values are given in place of the name of a column."""
    if _may_be_name(name) or (isinstance(name, tuple) and name in frame.columns):
        return
    or_number = " or one number" if argument == "propensity" else ""
    raise TypeError(
        f"{argument} must be the name of a column{or_number}, got {_called(name)}. "
        f"{_how_to_add(argument, name, frame)}"
    )


def _may_be_name(value):
    """Tell whether something may be the name of a column: a text, a number, a date."""
    if isinstance(value, (str, np.generic)):
        return True
    return (
        isinstance(value, Hashable)
        and not callable(value)
        and not isinstance(value, Iterable)
        and not hasattr(value, "__array__")
    )


def _holds_values(names):
    """Tell whether an array or a series holds numbers: an index may name columns."""
    if not hasattr(names, "__array__") or type(names).__name__.endswith("Index"):
        return False
    if isinstance(names, np.generic):
        return False
    allowed = "OUSTiu" if isinstance(names, np.ndarray) else "OUST"
    return np.asarray(names).dtype.kind not in allowed


def _called(value):
    """Return what something is, as messages say it."""
    name = "function" if callable(value) else type(value).__name__
    if isinstance(value, np.ndarray):
        name = "array"
    return f"{'an' if name[0].lower() in 'aeiou' else 'a'} {name}"


def _how_to_add(argument, value, frame):
    """Return how values become a column of the frame."""
    column, values, told = "p" if argument == "propensity" else argument, "...", ""
    listed = value.values() if isinstance(value, Mapping) else value
    listed = list(listed) if isinstance(value, (list, tuple, Mapping)) else []
    names = [one for one in listed if _may_be_name(one) and one in frame.columns]
    if argument == "reward" and names and len(names) == len(listed):
        told, values = reward_of_logged_action(value)
    elif isinstance(value, Mapping) and frame.implementation.is_pandas():
        values = "frame[column].map(values)"
    elif callable(value) and frame.implementation.is_pandas():
        values = "func(frame)"
    how = f"frame.assign({column}={values})"
    if frame.implementation.is_polars():
        how = f"frame.with_columns({column}={values})"
    elif frame.implementation.is_pyarrow():
        how = f"frame.append_column({column!r}, ...)"
    return f"{told}Add it to the frame: {how}, and pass {column!r}."


def reward_of_logged_action(columns):
    """Return why and how one reward is taken of a column for every action."""
    labels, listed = "labels", list(columns)
    if isinstance(columns, Mapping):
        labels, listed = listed, list(columns.values())
    return (
        "A round has one reward. Where each action has a column, take that of the "
        f"logged action, code = [{labels}.index(one) for one in frame[action]]. ",
        f"frame[{listed}].to_numpy()[np.arange(len(frame)), code]",
    )


def names_of(argument, names):
    """Return a list of names of columns; raise if they are values instead."""
    if names is None:
        return []
    needed = f"{argument} must be a list of column names"
    if isinstance(names, str):
        raise TypeError(f"{needed}, got the text {names!r}. Use [{names!r}].")
    if is_frame(names):
        raise TypeError(f"{needed}, got {_called(names)}. Use {frame_names(names)}.")
    whole = not isinstance(names, Iterable) or isinstance(names, Mapping)
    if whole or _holds_values(names):
        raise TypeError(f"{needed}, got {_called(names)}.")
    listed = list(names)
    strange = [one for one in listed if not isinstance(one, tuple)]
    strange = [one for one in strange if not _may_be_name(one)]
    if strange:
        raise TypeError(f"{needed}, and the list holds {_called(strange[0])}.")
    return listed


def column_of(frame, name, field=None):
    """Return a column as an array, that of a field of labels with their codes."""
    series = frame.get_column(name)
    labels = kind_of_field(field) == "label"
    coded = column_codes(series.to_native()) if labels else None
    if coded is not None:
        return coded
    if getattr(series.dtype, "time_zone", None):
        series = series.dt.convert_time_zone("UTC").dt.replace_time_zone(None)
    if series.null_count():
        row = int(np.flatnonzero(series.is_null().to_numpy())[0])
        raise ValueError(
            f"column {name!r} has a missing value at row {row} "
            f"({series.null_count()} such rows). {remedy_of(field)}"
        )
    return series.to_numpy()


def joined_frame(context, columns, backend):
    """Return a frame of library `backend` with the context and further columns."""
    if backend not in (None, *LIBRARIES):
        hint = meant(backend, LIBRARIES)
        raise ValueError(f"backend must be one of {LIBRARIES}, got {backend!r}.{hint}")
    narwhals = import_narwhals()
    own = None
    if is_frame(context):
        features = narwhals.from_native(context, eager_only=True)
        own = str(features.implementation)
    backend = backend or own or "pandas"
    if backend == own:  # the columns of the context keep their types
        return add_columns(features, columns)
    if own is not None:
        data = {
            name: _values_of(features.get_column(name)) for name in features.columns
        }
    else:
        if sparse.issparse(context):
            context = context.toarray()
        data = {f"context_{j}": context[:, j] for j in range(context.shape[1])}
    _refuse_clash(columns, data)
    # copies: libraries may hand out writable views of what they are given
    data = {name: _copied(value) for name, value in {**data, **columns}.items()}
    try:
        return narwhals.from_dict(data, backend=backend).to_native()
    except ImportError as error:
        raise ImportError(
            f"to_frame needs {backend}: pip install 'skope-ope[frames]'."
        ) from error


def _columns_of_fields(logs):
    """One 1-d array per column of the frame, by name, without the context."""
    data = {}
    for name in indexed_fields(BANDIT):
        value = getattr(logs, name)
        if value is None or name == "context":  # it has columns of its own
            continue
        if value.ndim == 1:
            data |= parts_of_group(name, value)
            continue
        labels = logs.loggers if name == "logger_proba" else logs.actions
        for j, label in enumerate(labels.tolist()):
            data[f"{name}_{label}"] = value[:, j]
    return with_named(data, logs.columns)


def parts_of_group(name, value):
    """Return a field by name; composite groups have a column for each part."""
    if value.dtype == object and len(value) and isinstance(value[0], tuple):
        parts = zip(*value.tolist(), strict=True)
        return {f"{name}_{j}": np.array(part) for j, part in enumerate(parts)}
    return {name: value}


def with_named(data, columns):
    """Return the columns of fields and those that `with_columns` added."""
    data = dict(data)
    for name, value in columns.items():
        if value.ndim == 1:
            added = {name: value}
        else:
            flat = value.reshape(len(value), -1)
            added = {f"{name}_{j}": flat[:, j] for j in range(flat.shape[1])}
        _refuse_clash(added, data)
        data.update(added)
    return data


def _values_of(column):
    """Return the values of a column; missing ones among objects are None."""
    # pandas has NaN or NA there, which other libraries do not take for missing.
    values = column.to_numpy()
    if values.dtype != object:
        return values
    missing = column.is_null().to_numpy()
    if not missing.any():
        return values
    pairs = zip(values.tolist(), missing.tolist(), strict=True)
    return [None if gone else value for value, gone in pairs]


def _copied(values):
    return list(values) if isinstance(values, list) else np.array(values)


def add_columns(frame, columns):
    """Return a native frame with further columns, given as a dict of arrays."""
    narwhals = import_narwhals()
    _refuse_clash(columns, frame.columns)
    backend = narwhals.get_native_namespace(frame)
    added = [
        # a copy: libraries may hand out writable views of what they are given
        narwhals.new_series(name, _copied(values), backend=backend)
        for name, values in columns.items()
    ]
    index = narwhals.maybe_get_index(frame)
    if index is not None:  # pandas aligns on the index: give the new columns the same
        added = [narwhals.maybe_set_index(series, index=index) for series in added]
    return frame.with_columns(*added).to_native()


def _refuse_clash(columns, taken):
    clash = [name for name in columns if name in taken]
    if clash:
        raise ValueError(
            f"the context (or logs.columns) already has a column {clash[0]!r}, the "
            "name that a field of the logs gets in the frame. Rename that column."
        )


# -- what the constructor advises of arrays, in the words of frames --------------------

OF_ARRAYS = "logging_proba / logging_proba.sum(axis=1, keepdims=True)"
OF_FRAMES = "frame[names] = frame[names].div(frame[names].sum(axis=1), axis=0)"


@contextmanager
def remedies_of_frames():
    """Let errors of the logs that are built inside advise on columns of a frame."""
    try:
        yield
    except RowError as error:
        before, row, after = error.args
        if OF_ARRAYS not in after:
            raise
        raise RowError(before, row, after.replace(OF_ARRAYS, OF_FRAMES)) from error


# -- columns that stand for a label each: by name, and in which order ------------------

NAMES_SHOWN = 8  # names in a message


def columns_by_name(columns, actions=None, logging_proba=None):
    """Get the columns that are named, in the order of the actions where dicts tell."""
    if isinstance(columns, str):
        raise TypeError(
            f"columns must be a list of names or a dict, got the text {columns!r}. Use "
            f"[{columns!r}]."
        )
    if not isinstance(columns, Mapping):
        columns = {name: name for name in columns or ()}
    given = {"logging_proba": logging_proba}
    given |= {f"columns[{name!r}]": some for name, some in columns.items()}
    for what, some in given.items():
        if isinstance(some, Mapping):
            if actions is None:
                actions, _ = factorise(check_labels("actions", list(some)))
            labels = check_labels("actions", actions).tolist()
            if set(labels) != set(some):
                raise ValueError(
                    f"{what} names columns for {short(objects(some))}, but the "
                    f"actions are {short(objects(labels))}. Name one column for each "
                    "action."
                )
            given[what] = tuple(some[label] for label in labels)
    proba, *tables = given.values()
    tables = [
        tuple(some) if np.iterable(some) and not isinstance(some, str) else some
        for some in tables
    ]
    return dict(zip(columns, tables, strict=True)), actions, proba


def refuse_one_table(argument, names, frame):
    """Raise where one column of lists, or an array, holds the probabilities of all."""
    single = names[0] if isinstance(names, (list, tuple)) and len(names) == 1 else names
    width, found, values = 0, "an array", "values"
    if isinstance(single, str) and single in frame.columns:
        first = frame.get_column(single).drop_nulls().head(1).to_list()
        width = _length_of_list(first)
        several = "" if width or not first else several_numbers(first[0], ndim=2)
        if several:
            raise TypeError(
                f"{argument} must be a list of column names, got the column "
                f"{single!r}, which begins with {first[0]!r}. {several}"
            )
        found = f"the column {single!r}, which holds lists"
        values = f"frame[{single!r}]"
    elif hasattr(names, "__array__") and not is_frame(names):
        shape = np.shape(names)
        width = shape[1] if len(shape) == 2 else 0
    if not width:
        return
    name = single if isinstance(single, str) else "proba"
    new = [f"{name}_{j}" for j in range(width)]
    if width > NAMES_SHOWN:
        pattern = name + "_{j}"
        new = f"[f{pattern!r} for j in range({width})]"
    how = "Make a column of each of its entries"
    if frame.implementation.is_pandas():
        listed = f"{values}.tolist()" if values != "values" else values
        how += f": frame[{new}] = {listed}"
    elif frame.implementation.is_polars() and values != "values":
        how += f": frame = frame.hstack({values}.list.to_struct(fields={new})"
        how += ".struct.unnest())"
    told = "these names, in the order of the sorted loggers"
    if argument == "logging_proba":
        told = "logging_proba={action: name, ...} with the name of each action's column"
    raise TypeError(
        f"{argument} must be a list of column names, got {found}. {how}. Pass {told}."
    )


def _length_of_list(first):
    """Return the length of the first entry of a column, 0 where it is no list."""
    if not first or not isinstance(first[0], (list, tuple, np.ndarray)):
        return 0
    return len(first[0])


def check_order(what, columns, labels, remedy, are="actions"):
    """Raise where columns are named like the labels, and stand in another order."""
    lists = labels is not None and len(columns) and not isinstance(columns, str)
    if not lists or len(columns) != len(labels):
        return
    names, texts = list(map(str, columns)), list(map(str, labels.tolist()))
    known, first = set(texts), names[0]
    for low, high in combinations(range(len(first) + 1), 2):
        if first[low:high] in known:
            like = [f"{first[:low]}{text}{first[high:]}" for text in texts]
            if names != like and sorted(names) == sorted(like):
                raise ValueError(
                    f"{what} names {short(objects(columns))}, but the {are} are "
                    f"{short(labels)}. Name the columns in this order{remedy}."
                )


def check_tables(columns, logging_proba, actions, logger_proba=(), loggers=None):
    """Raise where columns of actions or loggers stand in another order than these."""
    named = {f"columns[{name!r}]": some for name, some in columns.items()}
    named["logging_proba"] = logging_proba or ()
    for what, some in named.items():
        remedy = ", or pass a dict that tells the column of every action"
        check_order(what, some, actions, remedy)
    check_order("logger_proba", logger_proba or (), loggers, "", "loggers")


# -- which columns of a frame are the context ------------------------------------------

COLUMNS_LISTED = 100  # columns in a message


def check_context_names(context, fields):
    """Raise where the context names a column that says what was done, or one twice."""
    for field in ("action", "reward", "propensity"):
        if field in fields and fields[field] in context:
            raise ValueError(
                f"column {fields[field]!r} is the {field}, so it cannot also be in the "
                "context. The context is what was known before the decision. Take the "
                "column out of the context."
            )
    twice = [name for k, name in enumerate(context) if name in context[:k]]
    if twice:
        raise ValueError(f"the context names column {twice[0]!r} twice.")


def choose_context(others, context, exclude, say=("context", "exclude", "context=[]")):
    """Return the columns of the context, by name or by exclusion."""
    by_name, by_exclusion, none = say
    more = (
        f" and {len(others) - COLUMNS_LISTED:,} more"
        if len(others) > COLUMNS_LISTED
        else ""
    )
    if exclude is None and context is None and others:
        raise ValueError(
            "name the columns of the context: those that were known before the "
            "decision. An outcome in the context, such as later spending, makes every "
            f"value wrong. Name the columns of the context with {by_name}, or the "
            f"columns to leave out with {by_exclusion}. {none} is for logs without "
            "features. Columns that are not used yet: "
            f"{', '.join(map(repr, others[:COLUMNS_LISTED]))}{more}."
        )
    if exclude is None:
        return list(context or ())
    if context is not None:
        raise ValueError(
            f"{by_name} and {by_exclusion} are both given. Name either the columns of "
            "the context, or the columns to leave out."
        )
    return [name for name in others if name not in exclude]
