# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Lazy logs from files and lazy frames: what is named is checked, nothing is read."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from numbers import Integral, Real
from typing import Any, Literal

import numpy as np

from skope_ope._types import ArrayLike, SlatePolicyLike
from skope_ope.logs._bandit_logs import BanditLogs
from skope_ope.logs._coded_labels import encode_labels
from skope_ope.logs._fields import (
    BANDIT,
    FIELDS,
    SLATE,
    WEIGHT_COLUMN,
    column_fields,
    fields_of,
    remedy_of,
)
from skope_ope.logs._frames import (
    check_context_names,
    choose_context,
    columns_by_name,
    reward_of_logged_action,
)
from skope_ope.logs._slate_logs import SlateLogs, check_logging_policy
from skope_ope.logs._validation import check_labels, check_reward_range
from skope_ope.logs.lazy._file_parts import scan_csv, scan_dataset, scan_parquet
from skope_ope.logs.lazy._lazy_frames import ScannedFrame, is_dataset, lazy_frame
from skope_ope.logs.lazy._lazy_logs import LazyLogs
from skope_ope.logs.lazy._log_files import find_files
from skope_ope.logs.lazy._partitions import Reading, as_tuple


def scan_logs(
    source: Any,
    *,
    action: str | None = None,
    reward: str | None = None,
    propensity: str | float | None = None,
    context: Sequence[str] | None = None,
    exclude: Sequence[str] | None = None,
    actions: ArrayLike | None = None,
    logging_proba: Sequence[str] | Mapping[str, str] | None = None,
    logger: str | None = None,
    logger_proba: Sequence[str] | None = None,
    timestamp: str | None = None,
    group: str | Sequence[str] | None = None,
    sample_weight: str | None = None,
    columns: Sequence[str] | Mapping[str, Any] | None = None,
    reward_range: tuple[float, float] | None = None,
    slate: str | Sequence[str] | None = None,
    slot_reward: str | Sequence[str] | None = None,
    n_candidates: int | None = None,
    logging_policy: SlatePolicyLike = None,
    format: Literal["parquet", "csv"] | None = None,
) -> LazyLogs:
    """Scan logs that may be larger than memory.

    Only the footers of parquet files are read. Of csv files all rows are checked, and
    the labels decide whether they are numbers.
    Read more in the :ref:`User Guide <lazy_logs>`.

    Parameters
    ----------
    source : path, list of paths, pyarrow Dataset or lazy frame
        Parquet or csv files: a path, a folder, a glob, or a list of them. Folders like
        ``day=2026-01-01`` become columns; what is passed over in a folder is named by
        ``logs.summary()``. Or a lazy frame that narwhals supports: a
        polars LazyFrame, a duckdb relation, a Dask or Spark DataFrame, an Ibis table.
    action, reward : str
        Names of the columns. Slates with `slot_reward` need no `reward`.
    propensity : str or float in (0, 1], default=None
        Name of the column, or the one propensity of all rounds.
    context : list of str, default=None
        Names of the columns that were known before the decision. `None`: no features;
        only named columns are read.
    exclude : list of str, default=None
        Instead of `context`: names of columns that are not context. All columns that
        no other argument names become the context.
    actions : array-like, default=None
        Ordered labels of all actions. `None`: one pass over the column finds them when
        they are needed.
    logging_proba : list of str or dict, default=None
        Names of the columns with the probabilities, in the order of `actions`, or of
        one column of lists. Or a dict {action: column}.
    logger : str, default=None
        Name of the column with the label of the logger that acted.
    logger_proba : list of str, default=None
        As `logging_proba`, in the order of the sorted loggers.
    timestamp : str, default=None
        Name of the column.
    group : str or list of str, default=None
        Name of the column, or of the columns whose tuples are the labels.
    sample_weight : str, default=None
        Name of the column.
    columns : list of str or dict, default=None
        Further columns to keep as named row fields. A dict gives each new name a
        column, a list of columns, or a dict {action: column}. The last two become an
        array with several columns.
    reward_range : tuple of (float, float), default=None
        Known bounds of the reward.
    slate : list of str or str, default=None
        For slates, instead of `action`: the columns with the candidate in every slot,
        or one column of lists.
    slot_reward : list of str or str, default=None
        Columns with the rewards of the slots, or one column of lists.
    n_candidates : int, default=None
        Number of candidates in every round.
    logging_policy : slate policy, default=None
        The policy that composed the slates, if known.
    format : {"parquet", "csv"}, default=None
        Format of the files. `None`: by the endings of their names.

    Returns
    -------
    logs : LazyLogs
        Pass them to `evaluate` and other functions instead of logs.

    Raises
    ------
    ValueError, TypeError, FileNotFoundError, ImportError
        If a file or a folder is missing, unreadable or listed twice. If a row of a
        csv file is no strict csv. If a column is missing, or has
        another type in another file. If a package is missing.

    Examples
    --------
    >>> import tempfile
    >>> import pandas as pd
    >>> from skope_ope import scan_logs
    >>> folder = tempfile.TemporaryDirectory()
    >>> for day in (1, 2):
    ...     frame = pd.DataFrame({"item": ["a", "b"], "click": [0, 1], "p": [0.5, 0.2]})
    ...     frame.to_parquet(f"{folder.name}/day{day}.parquet")
    >>> logs = scan_logs(
    ...     f"{folder.name}/*.parquet", action="item", reward="click", propensity="p"
    ... )
    >>> len(logs), [part.n_rounds for part in logs.partitions]
    (4, [2, 2])
    >>> logs.partitions[1].read()
    BanditLogs(n_rounds=2, n_features=0, n_actions=2)
    >>> folder.cleanup()
    """
    given = {name: value for name, value in locals().items() if name in FIELDS}
    roles, columns, stated, log_type = _meaning(given, columns)
    labels = {
        name: remedy_of(field)
        for field in column_fields(kind="label")
        for name in roles.get(field, ())
    }
    scanned, spelled = _scan(source, format, labels)
    roles["context"] = _context(roles, columns, context, exclude, scanned.columns)
    reading = Reading(log_type, roles, columns, "", stated=stated)
    reading = replace(
        reading, types=scanned.types(reading.uses), origin=scanned.origin()
    )
    return LazyLogs(reading, scanned, spelled)


def _scan(source, format, labels):
    """Return what is known of a source without reading it, and what it is called."""
    if isinstance(source, (str, os.PathLike)):
        source = [source]
    elif isinstance(source, (tuple, set, Iterator)):
        source = list(source)
    if isinstance(source, list):
        files, format, passed = find_files(source, format)
        scanned = scan_csv(files, labels) if format == "csv" else scan_parquet(files)
        scanned.passed = passed
        return scanned, _spelled(source)
    if is_dataset(source):
        return scan_dataset(source), "pyarrow Dataset"
    return ScannedFrame(lazy_frame(source)), type(source).__name__


def _meaning(given, columns):
    """Return names by field and by column, what is stated, and the kind of logs."""
    is_slate = given["slate"] is not None
    columns, given["actions"], given["logging_proba"] = columns_by_name(
        columns, given["actions"], given["logging_proba"]
    )
    roles, stated = {}, {}
    given = {field: value for field, value in given.items() if value is not None}
    for field in column_fields():
        name = given.pop(field, None)
        if field == "propensity" and isinstance(name, Real):
            stated[field] = _number(name)
        elif field == "group" and isinstance(name, (list, tuple)) and name:
            roles[field] = tuple(_name(field, one) for one in name)
        elif name is not None:
            roles[field] = (_name(field, name),)
    for field in column_fields(several=True):
        if field in given:
            roles[field] = as_tuple(given.pop(field))
    stated |= {name: given[name] for name in given if name != "context"}
    known = {*fields_of(SLATE if is_slate else BANDIT), WEIGHT_COLUMN}
    wrong = [name for name in (*roles, *stated) if name not in known]
    if wrong:
        what = "slates" if is_slate else "single actions: slate=... is not given"
        raise ValueError(f"{wrong[0]} has no meaning for logs of {what}.")
    if not is_slate and "action" not in roles:
        raise ValueError("scan_logs needs the name of the action column, or slate=...")
    if "reward" not in roles and "slot_reward" not in roles:
        raise ValueError("scan_logs needs the name of the reward column.")
    _check_stated(stated)
    return roles, columns, stated, SlateLogs if is_slate else BanditLogs


def _check_stated(stated):
    """Check what is stated of all rounds now, not in every partition."""
    if "actions" in stated:
        actions = check_labels("actions", stated["actions"])
        stated["actions"], _ = encode_labels("actions", actions, actions, "actions")
    if "reward_range" in stated:
        no_reward = np.zeros(0)
        stated["reward_range"] = check_reward_range(stated["reward_range"], no_reward)
    if "logging_policy" in stated:
        check_logging_policy(stated["logging_policy"])
    number = stated.get("n_candidates", 1)
    if isinstance(number, bool) or not isinstance(number, Integral) or number < 1:
        raise ValueError(
            f"n_candidates must be one number for all rounds, got {number!r}. If the "
            "number varies by round, use SlateLogs in memory."
        )


def _name(field, name):
    if not isinstance(name, str):
        remedy = ""
        if field == "reward" and isinstance(name, (list, tuple, Mapping)):
            told, values = reward_of_logged_action(name)
            remedy = f" {told}Add it to the source: frame.assign(reward={values})."
        raise TypeError(f"{field} must be the name of a column, got {name!r}.{remedy}")
    return name


def _number(value):
    if isinstance(value, bool) or not 0 < value <= 1:
        raise ValueError(
            f"propensity {value!r} is neither the name of a column nor a number in "
            "(0, 1], the one propensity of all rounds."
        )
    return float(value)


def _used(roles, columns):
    used = list(chain(*roles.values()))
    for some in columns.values():
        used += as_tuple(some)
    return used


def _context(roles, columns, context, exclude, there):
    """Return the names of the context."""
    if context is None and exclude is None:
        return ()
    for argument, names in (("context", context), ("exclude", exclude)):
        if isinstance(names, str):
            raise TypeError(
                f"{argument} must be a list of column names, got the text {names!r}. "
                f"Use [{names!r}]."
            )
    if context is not None:
        context = list(context)
        check_context_names(context, {f: n[0] for f, n in roles.items()})
    used = set(_used(roles, columns))
    others = [name for name in there if name not in used]
    missing = [name for name in exclude or () if name not in there]
    if missing:
        raise ValueError(
            f"column {missing[0]!r} of exclude is not there; there are "
            f"{', '.join(map(repr, there))}."
        )
    return tuple(choose_context(others, context, exclude))


def _spelled(source):
    """Return what the repr calls files: short, however many there are."""
    first = os.fspath(source[0])
    return first if len(source) == 1 else f"{first}, and {len(source) - 1:,} more"
