# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""What one pass over the fields of lazy logs finds: labels, and a description."""

from dataclasses import dataclass
from functools import partial
from math import isfinite

import numpy as np

from skope_ope._parallel import run_tasks
from skope_ope.logs._coded_labels import coded_as, coded_labels
from skope_ope.logs._fields import FIELDS, column_fields, remedy_of
from skope_ope.logs._frames import import_narwhals
from skope_ope.logs._html import summary_html
from skope_ope.logs._labels import count_codes
from skope_ope.logs._shown_numbers import figure, share, text_table
from skope_ope.logs._validation import label_codes
from skope_ope.logs.lazy._partitions import (
    MOST_TASKS,
    ROUNDS_OF_STRETCH,
    PartReader,
    column_labels,
    columns_as_array,
    joined_logs,
    read_together,
)
from skope_ope.logs.sums._group_sums import COUNTED_GROUPS
from skope_ope.logs.sums._log_sums import LogSums

LISTED_AS = {"action": "actions", "logger": "loggers"}


def labelled(logs, n_jobs=None):
    """Return lazy logs whose labels of actions and loggers are known."""
    roles, reading = logs.roles, logs._reading
    wanted = {}
    if "action" in roles and logs.actions is None:
        wanted["action"] = roles["action"]
    if "logger" in roles and logs.loggers is None:
        wanted["logger"] = roles["logger"]
    if "slate" in roles and "n_candidates" not in reading.stated:
        wanted["slate"] = roles["slate"]
    if not wanted:
        return logs
    if logs.partitions is None:
        found = [_of_frame(logs.frame, wanted)]
    else:
        tasks = logs._with(roles=wanted, columns={})._tasks(MOST_TASKS)
        found = run_tasks([partial(_of_parts, wanted, task) for task in tasks], n_jobs)
    stated, loggers = dict(reading.stated), reading.loggers
    for field in wanted:
        values = [some[field] for some in found if field in some]
        if not values:
            continue
        if field == "slate":
            stated["n_candidates"] = max(values) + 1
            continue
        values = np.concatenate(values)
        labels, _ = coded_as(field, coded_labels(field, values), None, LISTED_AS[field])
        if field == "action":
            stated["actions"] = labels
        else:
            loggers = labels
    return logs._with(stated=stated, loggers=loggers)


def _of_parts(wanted, partitions):
    """Return the distinct labels by field, of some partitions."""
    found = {}
    with PartReader() as reader:
        for partition in partitions:
            table, _ = partition.kept(reader)
            with partition.named():
                for field, names in wanted.items():
                    if len(table):
                        _add_counts(found, field, table, names)
    return found


def _add_counts(found, field, table, names):
    if field == "slate":
        slate = columns_as_array(table, names, len(names) == 1)
        check_numbered(slate, names)
        most = int(np.max(slate, initial=-1))
        found[field] = max(most, found.get(field, -1))
        return
    labels = _distinct_labels(field, table, names[0])
    if field in found:
        labels = np.concatenate([found[field], labels])
        labels = coded_labels(field, labels, copy=False)[1]
    found[field] = labels


def check_numbered(slate, names):
    """Raise where candidates have names in place of numbers."""
    if slate.dtype.kind not in "biuf":
        raise TypeError(
            f"slate columns {', '.join(map(repr, names))} hold {slate.dtype}, first "
            f"{slate.flat[0]!r}. Candidates are numbered 0, 1, ... in the order of the "
            "policy. Write these numbers."
        )


def _distinct_labels(field, table, name):
    """Return the labels that occur; dictionaries may hold others."""
    values = column_labels(table, name, field=field)
    _, labels, codes = coded_labels(field, values, copy=False)
    return labels[count_codes(codes, len(labels)) > 0]


def _of_frame(frame, wanted):
    """Return the distinct labels by field, of a lazy frame."""
    nw, found = import_narwhals(), {}
    for field, names in wanted.items():
        if field == "slate":
            most = frame.select(*(nw.col(name).max() for name in names)).collect()
            found[field] = int(np.max(most.to_numpy()))
            continue
        table = frame.select(*names).unique().collect("pyarrow").to_native()
        refuse_missing(field, names[0], table.column(0).to_pylist())
        found[field] = _distinct_labels(field, table, names[0])
    return found


def refuse_missing(field, name, labels, counts=None):
    """Raise where a label of a frame is null or NaN."""
    missing = [k for k, one in enumerate(labels) if one is None or one != one]
    if missing:
        rows = "some rows"
        if counts is not None:
            rows = f"{counts[missing].sum():,} of {counts.sum():,} rows"
        raise ValueError(
            f"column {name!r}: the {field} is missing ({rows}). {remedy_of(field)}"
        )


# Fields with a column for every label; sums of other parts merge what each has seen
NEED_ALL_LABELS = {"logging_proba", "logger_proba", "slate"}
MOST_GROUPS = 100_000  # beyond it their number is an estimate
LABELS_SHOWN = 12  # labels


@dataclass(frozen=True, eq=False, repr=False)
class LogDescription:
    """What a log holds; made by `LazyLogs.describe`."""

    n_rounds: int  # number of rounds
    actions: object = None  # labels of the actions; None for slates
    action_counts: object = None  # how often each was logged
    reward: tuple = None  # smallest, largest and mean reward
    propensity: tuple = None  # smallest and largest propensity
    # Mean of 1 / propensity against the number of actions, in standard errors: far from
    # 0, the propensities are not those of these actions
    inverse_propensity_z: float = None
    loggers: object = None  # labels of the loggers
    logger_counts: object = None  # how many rounds each made
    # Number of groups; beyond 100,000 it is an estimate, off by half a percent
    n_groups: int = None
    time: tuple = None  # smallest and largest timestamp
    source: str = ""

    def summary(self):
        """Return what the log holds as a dict of short texts."""
        out = {"rounds": f"{self.n_rounds:,}"}
        if self.actions is not None:
            out["actions"] = _shares_in_words(self.actions, self.action_counts)
        if self.reward is not None:
            low, high, mean = self.reward
            out["reward"] = f"{figure(low)} to {figure(high)}, mean {figure(mean)}"
        out["propensity"] = (
            "unknown"
            if self.propensity is None
            else " to ".join(map(figure, self.propensity))
        )
        z = self.inverse_propensity_z
        if z is not None and isfinite(z):
            out["1 / propensity"] = (
                f"mean {z:+.1f} standard errors from the number of actions"
            )
        if self.loggers is not None:
            out["loggers"] = _shares_in_words(self.loggers, self.logger_counts)
        if self.n_groups is not None:
            about = "about " if self.n_groups > MOST_GROUPS else ""
            out["groups"] = f"{about}{self.n_groups:,}"
        if self.time is not None:
            out["time"] = "{} to {}".format(*self.time)
        return out

    def __repr__(self):
        rows = [[name, text] for name, text in self.summary().items()]
        return "\n".join(text_table(["log", self.source], rows, n_left=2))

    def _repr_html_(self):
        return summary_html(self.source, self.summary())


def _shares_in_words(labels, counts):
    """Return labels and their shares of the rounds, the most frequent first."""
    order = np.argsort(-counts, kind="stable")
    total = max(int(counts.sum()), 1)
    shown = [f"{labels[k]} {share(counts[k] / total)}" for k in order[:LABELS_SHOWN]]
    more = len(order) - LABELS_SHOWN
    if more > 0:
        rest = counts[order[LABELS_SHOWN:]].sum() / total
        shown.append(f"{more:,} others {share(rest)}")
    return f"{len(labels):,}: {', '.join(shown)}"


def describe(logs, n_jobs=None):
    """Return the description of lazy logs."""
    if logs.partitions is None:
        return _describe_frame(logs)
    logs = logs._needing(context=False, columns=())
    parts = _sums_in_one_pass(logs)
    if parts is None:
        if NEED_ALL_LABELS & set(logs.roles):
            logs = logs.labelled(n_jobs)
        tasks = [partial(_part, one) for one in logs._tasks(MOST_TASKS)]
        parts = [one for one in run_tasks(tasks, n_jobs) if one is not None]
    if not parts:
        return LogDescription(0, source=logs.source)
    sums = sum(parts)
    found, z = sums.propensities, float(sums._inverse_propensity_z)
    return LogDescription(
        n_rounds=sums.n_logged,
        actions=sums.actions,
        action_counts=sums._action_counts,
        reward=(sums.reward_low, sums.reward_high, sums.reward_sum / max(sums.n, 1)),
        propensity=None if found is None else (found.low, found.high),
        inverse_propensity_z=None if found is None else z,
        loggers=sums.loggers,
        logger_counts=sums._logger_counts,
        n_groups=sums.n_groups,
        time=None if sums.first_time is None else (sums.first_time, sums.last_time),
        source=logs.source,
    )


def _sums_in_one_pass(logs):
    """Return the sums of rounds that are read as one; None where two passes are due."""
    # many small files: to open them costs more than their rounds, whose labels are
    # found without another pass
    if not logs.partitions or not 0 < (logs.n_rounds or 0) <= ROUNDS_OF_STRETCH:
        return None
    with PartReader() as reader:
        found = joined_logs(logs.partitions, reader)
    return None if found is None else [LogSums.of(found, found, COUNTED_GROUPS)]


def _part(partitions):
    """Return the sums of some partitions, or None."""
    sums = None
    for _, logs in read_together(partitions):
        if logs is not None:
            found = LogSums.of(logs, logs, COUNTED_GROUPS)
            sums = found if sums is None else sums + found
    return sums


def _bad_rows(nw, frame, columns):
    """Get a column for every field that is 1 where a row is not what it should be."""
    # Extremes and means leave out nulls without a word, and some NaN as well.
    flags, types = {}, frame.collect_schema()
    for field, name in columns.items():
        column = nw.col(name)
        if field in column_fields(kind="number"):
            column, (low, high) = column.cast(nw.Float64), FIELDS[field].range
            # engines differ in what compares with NaN
            good = (column - column == 0.0) & (column >= low) & (column <= high)
        elif field in ("group", "timestamp"):
            good = ~column.is_null()
            if types[name].is_float():
                good &= column - column == 0.0
        else:
            continue
        flags[f"{field} bad"] = nw.when(good).then(nw.lit(0)).otherwise(nw.lit(1))
    return flags


def _refuse_bad(columns, found):
    """Raise where a frame has rows that are not what they should be."""
    for field, name in columns.items():
        n_bad = int(found.get(f"{field} bad") or 0)
        if n_bad:
            remedy = remedy_of(field, "Drop or correct these rows.")
            raise ValueError(
                f"column {name!r}: {field} {FIELDS[field].must or 'is missing'} "
                f"({n_bad:,} of {int(found['n']):,} rows). {remedy}"
            )


def _of_stated(labels, counts, stated, what):
    """Return the labels that were stated, and how many rows have each."""
    codes = label_codes(stated, labels)
    if codes.min(initial=0) < 0:
        label = labels[np.argmin(codes)]
        raise ValueError(
            f"{what} {label!r} is not among the {len(stated)} {what.split()[-1]}s that "
            "you named. Name all of them, or none."
        )
    return stated, np.bincount(codes, counts, len(stated)).astype(np.int64)


def _describe_frame(logs):
    """Return the description of a frame, by a few queries."""
    nw, roles, frame = import_narwhals(), logs.roles, logs.frame
    one = {field: names[0] for field, names in roles.items() if names}
    asked = {"n": nw.len()}
    for field in ("reward", "propensity", "timestamp"):
        if field in one:
            column = nw.col(one[field])
            asked[f"{field} low"], asked[f"{field} high"] = column.min(), column.max()
    if "reward" in one:
        asked["mean"] = nw.col(one["reward"]).mean()
    if "group" in one:
        asked["groups"] = nw.col(one["group"]).n_unique()
    flags = _bad_rows(nw, frame, one)
    asked |= {name: nw.col(name).sum() for name in flags}
    query = frame.with_columns(**flags).select(**asked).collect("pyarrow").to_native()
    found = {name: query.column(name)[0].as_py() for name in asked}
    _refuse_bad(one, found)
    if len(roles.get("group", ())) > 1:  # their tuples
        several = frame.select(*roles["group"]).unique().select(n=nw.len()).collect()
        found["groups"] = int(several["n"].to_numpy()[0])
    labels = {}
    for field in ("action", "logger"):
        if field in one:
            table = frame.group_by(one[field]).agg(n=nw.len()).sort(one[field])
            table = table.collect("pyarrow")
            given = table[one[field]].to_list()
            counts = table["n"].to_numpy().astype(np.int64)
            refuse_missing(field, one[field], given, counts)
            known = table[one[field]].to_numpy(), counts
            stated = logs.actions if field == "action" else logs.loggers
            if stated is not None:
                known = _of_stated(*known, stated, f"column {one[field]!r}: {field}")
            labels[field] = known
    actions, loggers = (labels.get(f, (None, None)) for f in ("action", "logger"))

    def span(field, *more):
        if found.get(f"{field} low") is None:  # no such column, or no row
            return None
        values = [found[f"{field} low"], found[f"{field} high"], *more]
        return tuple(values if field == "timestamp" else map(float, values))

    return LogDescription(
        n_rounds=int(found["n"]),
        actions=actions[0],
        action_counts=actions[1],
        reward=span("reward", found.get("mean")),
        propensity=span("propensity"),
        loggers=loggers[0],
        logger_counts=loggers[1],
        n_groups=found.get("groups"),
        time=span("timestamp"),
        source=logs.source,
    )
