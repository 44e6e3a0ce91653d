# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""`LogSums` as plain arrays for files, and back."""

import numpy as np

from skope_ope.logs._labels import ENDINGS, arrays_of_labels, labels_of_arrays
from skope_ope.logs.sums._group_sums import GroupSums, PairSums
from skope_ope.logs.sums._order_sums import NUMBERS, OrderSums
from skope_ope.logs.sums._propensity_sums import SUMS as PROPENSITY_SUMS
from skope_ope.logs.sums._propensity_sums import PropensitySums
from skope_ope.logs.sums._row_sample import RowSample

PREFIX = "log_"
# How what is held is stored, and read again; what is None is left out.
NUMBER, ARRAY, MOMENT, TUPLE, LIST = "number", "array", "time", "tuple", "list"
LABELS, BY_NAME, COUNTS = "labels", "labels by name", "counts by length"
GROUPS = {"words": ARRAY, "sums": BY_NAME, "complete": NUMBER, "limits": TUPLE}
OF_PROPENSITIES = (*PROPENSITY_SUMS, "n_actions", "low", "high")
STORED = {
    GroupSums: GROUPS,
    PairSums: {"taken": ARRAY, "by": ARRAY, "words": ARRAY, "complete": NUMBER},
    PropensitySums: {
        **dict.fromkeys(OF_PROPENSITIES, NUMBER),
        **dict.fromkeys(("by_action", "law", "offered"), ARRAY),
        "small": BY_NAME,
    },
    OrderSums: {
        "stretches": ARRAY,
        "times": ARRAY,
        "gaps": COUNTS,
        "ends": GroupSums,
    },
    RowSample: {
        **dict.fromkeys(("most", "by_origin"), NUMBER),
        **dict.fromkeys(("origin", "position", "key"), ARRAY),
        "origins": LIST,
        "columns": BY_NAME,
    },
}
LOG = {
    **dict.fromkeys(("n", "n_logged", "mass", "weight_low", "weight_high"), NUMBER),
    **dict.fromkeys(("reward_sum", "reward_low", "reward_high"), NUMBER),
    **dict.fromkeys(("n_rewarded", "propensity_estimated", "_binary"), NUMBER),
    **dict.fromkeys(("_action_counts", "_logger_counts"), ARRAY),
    **dict.fromkeys(("first_time", "last_time"), MOMENT),
    **dict.fromkeys(("actions", "loggers"), LABELS),
    "fields": LIST,
    "reward_range": TUPLE,
    "propensities": PropensitySums,
    "groups": GroupSums,
    "pairs": PairSums,
    "sample": RowSample,
    "first": RowSample,
}


def table_of(sums, n_rows=None):
    """Return sums as a dict of arrays of numbers and texts."""
    orders, held = sums.orders, {name: getattr(sums, name) for name in LOG}
    held["fields"] = sorted(sums.fields)
    if n_rows is not None:
        orders = {name: one.with_fewer_ends(n_rows) for name, one in orders.items()}
        if sums.groups is not None:
            held["groups"] = sums.groups.reduced((n_rows, n_rows))
        for name in ("sample", "first"):
            held[name] = held[name].reduced(min(n_rows, held[name].most))
    table = _stored(held, LOG) | {"origins": np.array(list(orders), dtype=str)}
    for k, order in enumerate(orders.values()):
        table |= _named(f"order{k}", _stored(vars(order.joined()), STORED[OrderSums]))
    return _named(PREFIX[:-1], table)


def fill(sums, table):
    """Give an empty `LogSums` what `table_of` wrote."""
    own = {name: np.asarray(one) for name, one in _part(PREFIX[:-1], table).items()}
    vars(sums).update(_held_by(own, LOG))
    sums.fields = frozenset(sums.fields)
    sums.orders = {}
    for k, origin in enumerate(own["origins"].tolist()):
        order = _held_object(_part(f"order{k}", own), OrderSums)
        order.stretches = order.stretches.reshape(-1, len(NUMBERS))
        sums.orders[origin] = order
    for rows in (sums.sample, sums.first):
        columns = rows.origin, rows.position, rows.key, *rows.columns.values()
        if {len(one) for one in columns} != {len(rows)}:
            raise ValueError("the columns of a sample have different numbers of rows")
    return sums


def _named(prefix, table):
    return {f"{prefix}_{name}": np.asarray(values) for name, values in table.items()}


def _part(prefix, table):
    start = f"{prefix}_"
    return {k[len(start) :]: v for k, v in table.items() if k.startswith(start)}


def _stored(held, kinds):
    """Return what an object holds, by name, as a dict of arrays."""
    table = {}
    for name, kind in kinds.items():
        value = held[name]
        if value is None:
            continue
        if kind in STORED:
            table |= _named(name, _stored(vars(value), STORED[kind]))
        elif kind == BY_NAME:
            for column, values in value.items():
                table |= _named(name, arrays_of_labels(column, values))
        elif kind == LABELS:
            table |= arrays_of_labels(name, value)
        elif kind == COUNTS:
            table[name] = np.array(sorted(value.items()), np.int64).reshape(-1, 2)
        else:
            table[name] = np.array(value, dtype=str if kind == LIST else None)
    return table


def _held_by(table, kinds):
    """Return what `_stored` wrote, by name."""
    held = {}
    for name, kind in kinds.items():
        value, part = table.get(name), _part(name, table)
        if kind in STORED:
            value = _held_object(part, kind) if part else None
        elif kind == BY_NAME:
            value = _read_columns(part)
        elif kind == LABELS:
            value = labels_of_arrays(name, table)
        elif value is not None and kind == MOMENT:
            value = value[()]
        elif value is not None and kind != ARRAY:
            value = value.item() if kind == NUMBER else value.tolist()
            value = tuple(value) if kind == TUPLE else value
            value = dict(map(tuple, value)) if kind == COUNTS else value
        elif value is None and kind in (NUMBER, COUNTS):
            raise KeyError(name)
        held[name] = value
    return held


def _held_object(table, kind):
    out = kind.__new__(kind)
    vars(out).update(_held_by(table, STORED[kind]))
    return out


def _read_columns(stored):
    columns = {}
    for name in stored:
        for ending in ENDINGS:
            name = name.removesuffix(ending)
        columns[name] = labels_of_arrays(name, stored)
    return columns
