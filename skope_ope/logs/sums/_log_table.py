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
PLAIN = (
    "n",
    "n_logged",
    "mass",
    "weight_low",
    "weight_high",
    "reward_sum",
    "reward_low",
    "reward_high",
    "n_rewarded",
    "propensity_estimated",
    "_binary",
)
MAYBE = "_action_counts", "_logger_counts", "reward_range", "first_time", "last_time"
LABELS = "actions", "loggers"
ARRAYS = "by_action", "law", "offered"


def table_of(sums, n_rows=None):
    """Return sums as a dict of arrays of numbers and texts."""
    table = {name: np.array(getattr(sums, name)) for name in PLAIN}
    table["fields"] = np.array(sorted(sums.fields), dtype=str)
    for name in MAYBE:
        if getattr(sums, name) is not None:
            table[name] = np.array(getattr(sums, name))
    for name in LABELS:
        if getattr(sums, name) is not None:
            table |= arrays_of_labels(name, getattr(sums, name))
    if sums.propensities is not None:
        table |= _named("p", _propensity_table(sums.propensities))
    groups, pairs = sums.groups, sums.pairs
    if groups is not None:
        groups = groups if n_rows is None else groups.reduced((n_rows, n_rows))
        table |= _named("group", _group_table(groups))
    if pairs is not None:
        found = pairs.taken, pairs.by, pairs.words, np.array(pairs.complete)
        table |= _named("pair", dict(zip(PAIRS, found, strict=True)))
    orders = sums.orders
    if n_rows is not None:
        orders = {name: one.with_fewer_ends(n_rows) for name, one in orders.items()}
    table["origins"] = np.array(list(orders), dtype=str)
    for k, order in enumerate(orders.values()):
        table |= _named(f"order{k}", _order_table(order.joined()))
    for name in ("sample", "first"):
        rows = getattr(sums, name)
        rows = rows if n_rows is None else rows.reduced(min(n_rows, rows.most))
        table |= _named(name, _row_table(rows))
    return {f"{PREFIX}{name}": values for name, values in table.items()}


PAIRS = "taken", "by", "words", "complete"


def fill(sums, table):
    """Give an empty `LogSums` what `table_of` wrote."""
    own = {
        name[len(PREFIX) :]: np.asarray(table[name])
        for name in table
        if name.startswith(PREFIX)
    }
    for name in PLAIN:
        setattr(sums, name, own[name].item())
    sums.fields = frozenset(own["fields"].tolist())
    for name in MAYBE:
        setattr(sums, name, own.get(name))
    if sums.reward_range is not None:
        sums.reward_range = tuple(sums.reward_range.tolist())
    for name in ("first_time", "last_time"):
        if name in own:
            setattr(sums, name, own[name][()])
    for name in LABELS:
        setattr(sums, name, labels_of_arrays(name, own))
    sums.propensities = sums.groups = sums.pairs = None
    if "p_sums" in own:
        sums.propensities = _propensities_from(_part("p", own), len(sums.actions))
    if "group_words" in own:
        sums.groups = _groups_from(_part("group", own))
    if "pair_words" in own:
        part = _part("pair", own)
        found = (part[name] for name in PAIRS)
        sums.pairs = PairSums(*found)
    sums.orders = {
        origin: _order_from(_part(f"order{k}", own))
        for k, origin in enumerate(own["origins"].tolist())
    }
    for name in ("sample", "first"):
        setattr(sums, name, _rows_from(_part(name, own)))
    return sums


def _named(prefix, table):
    return {f"{prefix}_{name}": np.asarray(values) for name, values in table.items()}


def _part(prefix, table):
    start = f"{prefix}_"
    return {k[len(start) :]: v for k, v in table.items() if k.startswith(start)}


def _propensity_table(sums):
    numbers = (*PROPENSITY_SUMS, "low", "high")
    table = {"sums": np.array([float(getattr(sums, name)) for name in numbers])}
    for name in ARRAYS:
        if getattr(sums, name) is not None:
            table[name] = getattr(sums, name)
    return table | _named("small", sums.small)


def _propensities_from(table, n_actions):
    out = PropensitySums.__new__(PropensitySums)
    numbers = (*PROPENSITY_SUMS, "low", "high")
    for name, value in zip(numbers, table["sums"].tolist(), strict=True):
        setattr(out, name, value)
    out.n, out.n_actions = int(out.n), n_actions
    for name in ARRAYS:
        setattr(out, name, table.get(name))
    out.small = _part("small", table)
    return out


def _group_table(groups):
    about = {"complete": groups.complete, "limits": groups.limits}
    return {"words": groups.words, **about} | _named("sum", groups.sums)


def _groups_from(table):
    complete, limits = bool(table["complete"]), tuple(table["limits"].tolist())
    return GroupSums(table["words"], _part("sum", table), complete, limits)


def _order_table(order):
    gaps = sorted(order.gaps.items())
    table = {
        "stretches": order.stretches,
        "gaps": np.array(gaps, dtype=np.int64).reshape(-1, 2),
    }
    if order.times is not None:
        table["times"] = order.times
    if order.ends is not None:
        table |= _named("ends", _group_table(order.ends))
    return table


def _order_from(table):
    ends = _part("ends", table)
    stretches = table["stretches"].reshape(-1, len(NUMBERS))
    gaps = dict(map(tuple, table["gaps"].tolist()))
    ends = _groups_from(ends) if ends else None
    return OrderSums(stretches, table.get("times"), gaps, ends)


def _row_table(rows):
    table = {
        "most": rows.most,
        "by_origin": rows.by_origin,
        "origins": np.array(rows.origins, dtype=str),
        "origin": rows.origin,
        "position": rows.position,
        "key": rows.key,
    }
    for name, values in rows.columns.items():
        table |= _named("column", arrays_of_labels(name, values))
    return table


def _rows_from(table):
    columns = {}
    stored = _part("column", table)
    for name in stored:
        for ending in ENDINGS:
            name = name.removesuffix(ending)
        columns[name] = labels_of_arrays(name, stored)
    found = [table[name] for name in ("origin", "position", "key")]
    if {len(one) for one in (*found, *columns.values())} - {len(table["position"])}:
        raise ValueError("the columns of a sample have different numbers of rows")
    most, by_origin = int(table["most"]), bool(table["by_origin"])
    return RowSample(most, table["origins"].tolist(), *found, columns, by_origin)
