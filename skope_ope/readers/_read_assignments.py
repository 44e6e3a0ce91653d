# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Read experiments from the assignment logs of GrowthBook and of Eppo."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Mapping, Sequence
from datetime import timedelta
from numbers import Real
from types import SimpleNamespace

import numpy as np

from skope_ope._sklearn import StrOptions, validate_params
from skope_ope._texts import meant
from skope_ope._types import Frame, Label, Path
from skope_ope.exceptions import LogsWarning
from skope_ope.logs._bandit_logs import BanditLogs
from skope_ope.logs._frames import column_of, import_narwhals
from skope_ope.logs._text_files import parse_labels, quoted
from skope_ope.logs._validation import PROBA_TOLERANCE, is_frame
from skope_ope.readers._json_lines import getter
from skope_ope.readers._read_logs import table_format
from skope_ope.readers._table_columns import (
    check_names,
    moments_of,
    names_of_columns,
    pandas_frame,
    read_columns,
)

CONSTRAINTS = {
    "user": [str],
    "timestamp": [str],
    "experiment_column": [str],
    "variation": [str],
    "context": [list, tuple, None],
    "reward": [str, None],
    "outcome_user": [str, None],
    "outcome_time": [str, None],
    "aggregate": [StrOptions({"sum", "any"})],
    "several_variations": [StrOptions({"raise", "drop"})],
}


@validate_params(CONSTRAINTS, prefer_skip_nested_validation=True)
def read_growthbook(
    assignments: Path | Frame,
    outcomes: Path | Frame,
    *,
    weights: str | Mapping[Label, float],
    experiment: str | None = None,
    reward: str | None = None,
    context: Sequence[str] | None = None,
    aggregate: str = "sum",
    window: float | timedelta | None = None,
    several_variations: str = "raise",
    user: str = "user_id",
    timestamp: str = "timestamp",
    experiment_column: str = "experiment_id",
    variation: str = "variation_id",
    outcome_user: str | None = None,
    outcome_time: str | None = "timestamp",
    reward_range: tuple[float, float] | None = None,
) -> BanditLogs:
    """Read an experiment from rows of GrowthBook's experiment assignment query.

    The query returns the columns `user_id` (or another identifier), `timestamp`,
    `experiment_id` and `variation_id`, and dimensions as further columns [1]_. Export
    its rows, and a table of what users did. Each user becomes one round, at the first
    exposure. Read more in the :ref:`User Guide <readers>`.

    Parameters
    ----------
    assignments : path or frame
        The exported rows, as a csv, JSON lines or parquet file, or as a pandas, polars
        or pyarrow table.
    outcomes : path or frame
        What users did: one row per outcome, with the user, the time and, optionally,
        a value.
    weights : "even" or dict
        The split that the experiment was configured with, {variation: share}. "even":
        every logged variation had the same share. The shares become the propensities;
        nothing is estimated.
    experiment : str, default=None
        Name of the experiment. `None`: the only one in the table.
    reward : str, default=None
        Column of the outcomes with their values. `None`: every outcome counts 1.
    context : list of str, default=None
        Columns of the assignments that were known at the exposure, such as dimensions.
        `None`: no features. `attributes.country` is the field `country` of the column
        `attributes`, which holds objects or JSON texts.
    aggregate : {"sum", "any"}, default="sum"
        The reward of a user: the sum of the outcomes, or 1 if any is not zero. A user
        without an outcome has the reward 0.
    window : timedelta or float, default=None
        How long after the first exposure outcomes count. Pass a number if times are
        numbers. `None`: to the end of the table.
    several_variations : {"raise", "drop"}, default="raise"
        What to do if users were in several variations: raise an error, or drop these
        users with a warning.
    user, timestamp, experiment_column, variation : str
        Names of these columns in the assignments.
    outcome_user : str, default=None
        Column of the outcomes with the user. `None`: the name in the assignments.
    outcome_time : str or None, default="timestamp"
        Column of the outcomes with the time. `None`: all outcomes came after the
        exposure.
    reward_range : tuple of (float, float), default=None
        Known bounds of the reward.

    Returns
    -------
    logs : BanditLogs
        One row per user, in the order of the first exposures. The action is the
        variation, `group` is the user, and `logging_proba` is the split.

    Raises
    ------
    ValueError
        If a column is missing or malformed. If there are several experiments, or users
        are in several variations. If the weights do not match the logged variations.
    TypeError
        If a table is neither a path nor a frame.

    Warns
    -----
    LogsWarning
        If users in several variations are left out.

    See Also
    --------
    read_eppo : The same for Eppo.
    audit : Checks whether the counts of the variations agree with the stated split.

    References
    ----------
    .. [1] GrowthBook documentation, Data Source Configuration, Experiment Assignment
       Queries. https://docs.growthbook.io/app/datasources

    Examples
    --------
    >>> import pandas as pd
    >>> from skope_ope.readers import read_growthbook
    >>> assignments = pd.DataFrame(
    ...     {
    ...         "user_id": ["u1", "u2", "u1"],
    ...         "timestamp": ["2026-01-05", "2026-01-06", "2026-01-07"],
    ...         "experiment_id": "my-button-test",
    ...         "variation_id": [0, 1, 0],
    ...         "browser": ["firefox", "chrome", "firefox"],
    ...     }
    ... )
    >>> orders = pd.DataFrame(
    ...     {
    ...         "user_id": ["u1", "u1", "u3"],
    ...         "timestamp": ["2026-01-04", "2026-01-08", "2026-01-09"],
    ...         "value": [5.0, 20.0, 7.0],
    ...     }
    ... )
    >>> logs = read_growthbook(
    ...     assignments, orders, weights="even", reward="value", context=["browser"]
    ... )
    >>> logs.reward, logs.propensity
    (array([20.,  0.]), array([0.5, 0.5]))
    """
    return logs_of_experiment(SimpleNamespace(**locals()))


@validate_params(CONSTRAINTS, prefer_skip_nested_validation=True)
def read_eppo(
    assignments: Path | Frame,
    outcomes: Path | Frame,
    *,
    weights: str | Mapping[Label, float],
    experiment: str | None = None,
    reward: str | None = None,
    context: Sequence[str] | None = None,
    aggregate: str = "sum",
    window: float | timedelta | None = None,
    several_variations: str = "raise",
    user: str = "subject",
    timestamp: str = "timestamp",
    experiment_column: str = "experiment",
    variation: str = "variation",
    outcome_user: str | None = None,
    outcome_time: str | None = "timestamp",
    reward_range: tuple[float, float] | None = None,
) -> BanditLogs:
    """Read an experiment from the events of Eppo's assignment logger.

    An event has the fields `subject`, `timestamp`, `experiment`, `variation`,
    `featureFlag`, `allocation` and `subjectAttributes` [1]_. `experiment` joins the
    flag and the allocation, so it names one split. Each subject becomes one round, at
    the first assignment. Read more in the :ref:`User Guide <readers>`.

    Parameters
    ----------
    assignments : path or frame
        The events, as a csv, JSON lines or parquet file, or as a pandas, polars or
        pyarrow table.
    outcomes : path or frame
        What subjects did: one row per outcome, with the subject, the time and,
        optionally, a value.
    weights : "even" or dict
        The split that the allocation was configured with, {variation: share}. "even":
        every logged variation had the same share. The shares become the propensities;
        nothing is estimated.
    experiment : str, default=None
        Name of the experiment. `None`: the only one in the table.
    reward : str, default=None
        Column of the outcomes with their values. `None`: every outcome counts 1.
    context : list of str, default=None
        Columns that were known at the assignment. `None`: no features.
        `subjectAttributes.country` is the field `country` of the column
        `subjectAttributes`, which holds objects or JSON texts.
    aggregate : {"sum", "any"}, default="sum"
        The reward of a subject: the sum of the outcomes, or 1 if any is not zero. A
        subject without an outcome has the reward 0.
    window : timedelta or float, default=None
        How long after the first assignment outcomes count. Pass a number if times are
        numbers. `None`: to the end of the table.
    several_variations : {"raise", "drop"}, default="raise"
        What to do if subjects were in several variations: raise an error, or drop
        these subjects with a warning.
    user, timestamp, experiment_column, variation : str
        Names of these columns in the assignments.
    outcome_user : str, default=None
        Column of the outcomes with the subject. `None`: the name in the assignments.
    outcome_time : str or None, default="timestamp"
        Column of the outcomes with the time. `None`: all outcomes came after the
        assignment.
    reward_range : tuple of (float, float), default=None
        Known bounds of the reward.

    Returns
    -------
    logs : BanditLogs
        One row per subject, in the order of the first assignments. The action is the
        variation, `group` is the subject, and `logging_proba` is the split.

    Raises
    ------
    ValueError
        If a column is missing or malformed. If there are several experiments, or
        subjects are in several variations. If the weights do not match the logged
        variations.
    TypeError
        If a table is neither a path nor a frame.

    Warns
    -----
    LogsWarning
        If subjects in several variations are left out.

    See Also
    --------
    read_growthbook : The same for GrowthBook.
    audit : Checks whether the counts of the variations agree with the stated split.

    References
    ----------
    .. [1] Eppo documentation, Assignment logging.
       https://docs.geteppo.com/sdks/event-logging/assignment-logging

    Examples
    --------
    >>> import pandas as pd
    >>> from skope_ope.readers import read_eppo
    >>> events = pd.DataFrame(
    ...     {
    ...         "subject": ["6141", "6142"],
    ...         "timestamp": ["2026-06-22T17:35:12.000Z", "2026-06-22T18:02:40.000Z"],
    ...         "experiment": "recommendation-algo-allocation-17",
    ...         "variation": ["control", "treatment"],
    ...         "subjectAttributes": ['{"country": "US"}', '{"country": "FR"}'],
    ...     }
    ... )
    >>> orders = pd.DataFrame(
    ...     {"subject": ["6142"], "timestamp": ["2026-06-23T09:00:00Z"]}
    ... )
    >>> logs = read_eppo(
    ...     events,
    ...     orders,
    ...     weights={"control": 0.9, "treatment": 0.1},
    ...     context=["subjectAttributes.country"],
    ... )
    >>> logs.reward, logs.propensity
    (array([0., 1.]), array([0.9, 0.1]))
    >>> list(logs.context["subjectAttributes.country"])
    ['US', 'FR']
    """
    return logs_of_experiment(SimpleNamespace(**locals()))


# -- logs of an experiment: the first exposure of every user, and what came after it

EXPERIMENTS_SHOWN = 8


def logs_of_experiment(wanted):
    """Return the logs of an experiment, a round for every user."""
    # `wanted` holds the parameters of its readers.
    context = list(wanted.context or ())
    columns = [
        (wanted.user, "label"),
        (wanted.timestamp, "moment"),
        (wanted.experiment_column, "label"),
        (wanted.variation, "label"),
        *((name, "cell") for name in context),
    ]
    table = UserTable(wanted.assignments, "assignments", columns)
    rows = _rows_of_experiment(table, wanted)
    user = table.column(wanted.user)[rows]
    when = table.column(wanted.timestamp)[rows]
    variation = table.column(wanted.variation)[rows]
    first = _first_exposures(table, wanted, user, when, variation)
    user, when, variation = user[first], when[first], variation[first]
    reward = _rewards_of_users(wanted, user, when)
    action, actions, share = _stated_split(wanted.weights, variation)
    return BanditLogs(
        table.rows(context, rows[first]),
        action,
        reward,
        actions=actions,
        logging_proba=np.tile(share, (len(first), 1)),
        timestamp=when,
        group=user,
        reward_range=wanted.reward_range,
    )


def _rows_of_experiment(table, wanted):
    """Return the rows of the one experiment that is asked for."""
    found = table.column(wanted.experiment_column)
    names, codes = np.unique(found, return_inverse=True)
    texts = list(map(str, names.tolist()))
    shown = ", ".join(map(quoted, texts[:EXPERIMENTS_SHOWN]))
    shown += ", ..." * (len(texts) > EXPERIMENTS_SHOWN)
    if wanted.experiment is None:
        if len(texts) > 1:
            raise ValueError(
                f"{table.name} holds {len(texts)} experiments ({shown}). Name one: "
                "experiment=..."
            )
        return np.arange(len(found))
    if str(wanted.experiment) not in texts:
        raise ValueError(
            f"{table.name} holds no experiment {str(wanted.experiment)!r}."
            f"{meant(wanted.experiment, texts)} It has {shown}."
        )
    return np.flatnonzero(codes == texts.index(str(wanted.experiment)))


def _first_exposures(table, wanted, user, when, variation):
    """Return the first row of every user, in the order of time."""
    _, users = np.unique(user, return_inverse=True)
    _, variations = np.unique(variation, return_inverse=True)
    order = np.lexsort((np.arange(len(when)), when))
    _, place = np.unique(users[order], return_index=True)
    first = order[np.sort(place)]
    of_first = np.empty(users.max() + 1, dtype=np.intp)
    of_first[users[first]] = variations[first]
    moved = np.zeros(len(of_first), dtype=bool)
    moved[users[variations != of_first[users]]] = True
    if not moved.any():
        return first
    n_moved = int(moved.sum())
    example = user[np.flatnonzero(moved[users])[0]]
    told = (
        f"{table.name}: {n_moved} of {len(of_first)} users are in several variations "
        f"(such as {quoted(np.asarray(example).item())})"
    )
    if wanted.several_variations == "raise":
        raise ValueError(
            f"{told}, so their outcomes belong to no single variation. Find out why, "
            "or leave them out: several_variations='drop'."
        )
    kept = first[~moved[users[first]]]
    if not kept.size:
        raise ValueError(
            f"{told}, so no user is left. Find out why users are in several variations."
        )
    warnings.warn(LogsWarning(f"{told}. They are left out.", n_moved), stacklevel=5)
    return kept


def _rewards_of_users(wanted, user, when):
    """Return the reward of every user: outcomes from the first exposure on."""
    name, time = wanted.outcome_user or wanted.user, wanted.outcome_time
    columns = [(name, "label")]
    if wanted.reward is not None:
        columns.append((wanted.reward, "number"))
    if time is not None:
        columns.append((time, "moment"))
    table = UserTable(wanted.outcomes, "outcomes", columns)
    if not len(table):
        return np.zeros(len(user))
    place = _users_of_outcomes(table, table.column(name), user)
    amount = np.ones(len(table))
    if wanted.reward is not None:
        amount = table.column(wanted.reward)
    counts = place >= 0
    if time is not None:
        then = table.column(time)
        if then.dtype.kind != when.dtype.kind:
            kinds = "datetimes", "numbers"
            kinds = kinds if then.dtype.kind == "M" else kinds[::-1]
            raise ValueError(
                f"{table.name}: column {time!r} holds {kinds[0]}, the times of the "
                f"assignments are {kinds[1]}. Convert one of them."
            )
        counts &= then >= when[place]
        if wanted.window is not None:
            counts &= then <= when[place] + _window(wanted.window, when)
    place, amount = place[counts], amount[counts]
    if wanted.aggregate == "any":
        return (np.bincount(place, amount != 0, minlength=len(user)) > 0).astype(float)
    return np.bincount(place, amount, minlength=len(user))


def _window(window, when):
    if when.dtype.kind != "M":
        if isinstance(window, Real):
            return window
        raise ValueError(f"window must be a number, as the times are, got {window!r}.")
    if isinstance(window, (timedelta, np.timedelta64)):
        return np.timedelta64(window)
    raise ValueError(
        f"window must be a timedelta, as in timedelta(days=7), got {window!r}."
    )


def _users_of_outcomes(table, found, user):
    """Return which user every outcome belongs to; -1: none of them."""
    kinds = {found.dtype.kind, user.dtype.kind}
    if "U" in kinds and len(kinds) > 1:  # 7 and "7" are the same user
        found, user = found.astype(str), user.astype(str)
    order = np.argsort(user, kind="stable")
    place = np.searchsorted(user[order], found)
    place = order[np.minimum(place, len(user) - 1)]
    place[user[place] != found] = -1
    if (place < 0).all():
        raise ValueError(
            f"{table.name}: no user of the outcomes is among the assignments. Users of "
            f"outcomes are such as {quoted(found[0].item())}, users of assignments "
            f"such as {quoted(user[0].item())}. Name columns with the same labels."
        )
    return place


def _stated_split(weights, variation):
    """Return the variations, all there are, and the probability of each."""
    logged = np.unique(variation)
    if isinstance(weights, str) and weights == "even":
        if len(logged) == 1:
            raise ValueError(
                "weights='even' needs several variations, but the log holds only "
                f"{quoted(logged[0].item())}. State all: weights={{variation: share}}."
            )
        return variation, logged, np.full(len(logged), 1 / len(logged))
    if not isinstance(weights, Mapping) or not weights:
        raise TypeError(
            "weights must be 'even' or a dictionary {variation: share} with the split "
            f"that the experiment was set to, got {weights!r}."
        )
    texts = list(map(str, weights))
    for label in map(str, logged.tolist()):
        if label not in texts:
            raise ValueError(
                f"weights have no share of variation {label!r}, which was logged."
                f"{meant(label, texts)} They have {', '.join(map(quoted, texts))}."
            )
    actions = np.array(texts)
    if variation.dtype.kind != "U":
        actions = parse_labels(texts)
        if actions.dtype.kind == "U":
            variation = variation.astype(str)
    share = np.array(list(weights.values()), dtype=np.float64)
    wrong = ~((share > 0) & (share <= 1))
    if wrong.any():
        bad = int(wrong.argmax())
        raise ValueError(
            f"the share of variation {texts[bad]!r} in weights must be in (0, 1], got "
            f"{share[bad]:g}."
        )
    if abs(share.sum() - 1) > PROBA_TOLERANCE:
        raise ValueError(
            f"weights must sum to 1, got {share.sum():.6g}. They are the shares of the "
            "users in the experiment, not of all traffic."
        )
    return variation, actions, share


class UserTable:
    """A table, of which columns are asked for."""

    def __init__(self, source, name, wanted):
        narwhals = import_narwhals()
        wanted = list(dict.fromkeys(wanted))
        if is_frame(source):
            self.name = f"{name}: the frame"
            frame = narwhals.from_native(source, eager_only=True)
        elif isinstance(source, (str, os.PathLike)):
            self.name = os.fspath(source)
            frame = narwhals.from_native(_read(self.name, wanted), eager_only=True)
        else:
            raise TypeError(
                f"{name} must be the path of a file, or a pandas, polars or pyarrow "
                f"table, got {type(source).__name__}."
            )
        self.kinds = dict(reversed(wanted))
        inner = {}
        for column in self.kinds:
            outer = _outer(column, frame.columns)
            if outer:
                cells = frame[outer].to_list()
                inner[column] = _inner(self.name, outer, cells, column)
        check_names(self.name, [*frame.columns, *inner], list(self.kinds))
        backend = frame.implementation
        self.frame = frame.with_columns(
            *(
                narwhals.new_series(column, values, backend=backend)
                for column, values in inner.items()
            )
        )

    def __len__(self):
        return len(self.frame)

    def column(self, name):
        """Return a column as an array, by its kind."""
        try:
            values = column_of(self.frame, name)
        except ValueError as error:
            raise ValueError(f"{self.name}: {error}") from error
        kind = self.kinds[name]
        if kind == "number":
            return self._numbers(name, values)
        if kind == "moment":
            return self._moments(name, values)
        return np.array(values.tolist()) if values.dtype == object else values

    def rows(self, names, rows):
        """Return columns of some rows, a frame of the same library."""
        if not names:
            return np.empty((len(rows), 0))
        return self.frame.select(names)[rows].to_native()

    def _numbers(self, name, values):
        if values.dtype.kind not in "biuf":
            raise self._bad(name, values, 0, "numbers")
        values = np.asarray(values, dtype=np.float64)
        wrong = ~np.isfinite(values)
        if wrong.any():
            raise self._bad(name, values, int(wrong.argmax()), "finite numbers")
        return values

    def _moments(self, name, values):
        if values.dtype.kind == "M":
            return values.astype("datetime64[us]")
        if values.dtype.kind in "iuf":
            return self._numbers(name, values)
        what = "numbers or datetimes like 2026-01-31 12:00:00"
        texts = [str(one).strip() for one in values]
        return moments_of(texts, lambda row: self._bad(name, values, row, what))

    def _bad(self, name, values, row, expected):
        found = quoted(values.tolist()[row])
        return ValueError(
            f"{self.name}: column {name!r} must hold {expected}, got {found} at row "
            f"{row}. Correct or drop the row."
        )


def _read(path, wanted):
    """Return the columns of a file as a pandas frame."""
    format = table_format(path)
    names = names_of_columns(path, format=format)
    asked = {}
    for name, kind in wanted:
        outer = _outer(name, names)
        kind = "cell" if outer else kind
        if kind == "cell" and format != "jsonl":  # which alone has cells
            kind = "feature"
        asked[outer or name] = kind
    found = read_columns(path, asked.items(), format=format, names=names)
    columns = {name: values for (name, _), values in found.items()}
    return pandas_frame(columns, f"{path}: joining files")


def _outer(name, names):
    """Return the column that holds a field; "" if none does, or none is needed."""
    end = -1 if name in names else name.rfind(".")
    while end > 0:
        if name[:end] in names:
            return name[:end]
        end = name.rfind(".", 0, end)
    return ""


def _inner(path, outer, cells, name):
    """Return the field of what the cells of a column hold."""
    get = getter(name[len(outer) + 1 :])
    found = []
    for row, cell in enumerate(cells):
        if isinstance(cell, str) and cell:
            try:
                cell = json.loads(cell)
            except (ValueError, RecursionError) as error:
                raise ValueError(
                    f"{path}: column {outer!r} must hold JSON for {name!r} to be read, "
                    f"got {quoted(cell)} at row {row} ({error})."
                ) from error
        found.append(get(cell) if isinstance(cell, dict) else None)
    return found
