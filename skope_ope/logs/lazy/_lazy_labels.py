# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Labels of actions and loggers of lazy logs, found by one pass over their columns."""

from functools import partial

import numpy as np

from skope_ope._parallel import run_tasks
from skope_ope.logs._coded_labels import coded_as, coded_labels
from skope_ope.logs._factorise import count_codes
from skope_ope.logs._frames import import_narwhals
from skope_ope.logs.lazy._part_columns import labels_of, table_of
from skope_ope.logs.lazy._partitions import PartReader

MOST_TASKS = 64
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
                        _add(found, field, table, names)
    return found


def _add(found, field, table, names):
    if field == "slate":
        slate = table_of(table, names, len(names) == 1)
        check_numbered(slate, names)
        most = int(np.max(slate, initial=-1))
        found[field] = max(most, found.get(field, -1))
        return
    labels = _distinct(field, table, names[0])
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


def _distinct(field, table, name):
    """Return the labels that occur; dictionaries may hold others."""
    _, labels, codes = coded_labels(field, labels_of(table, name), copy=False)
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
        found[field] = _distinct(field, table, names[0])
    return found


def refuse_missing(field, name, labels, counts=None):
    """Raise where a label of a frame is null or NaN."""
    missing = [k for k, one in enumerate(labels) if one is None or one != one]
    if missing:
        rows = "some rows"
        if counts is not None:
            rows = f"{counts[missing].sum():,} of {counts.sum():,} rows"
        raise ValueError(
            f"column {name!r}: the {field} is missing ({rows}). Drop or fill these "
            "rows."
        )
