# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""What is known of a log from its parts: counts, extremes and a sample that add up."""

import operator
from contextlib import suppress
from dataclasses import replace
from functools import cached_property
from math import inf, nan

import numpy as np

from skope_ope.logs._fields import WEIGHT_COLUMN
from skope_ope.logs._labels import ENDINGS, arrays_of_labels, labels_of_arrays, objects
from skope_ope.logs.checks._adaptive_logger import learning_findings
from skope_ope.logs.checks._order import OF_STRETCH, OrderSums, trailing_zeros_of_parts
from skope_ope.logs.checks._propensity_findings import quick_propensity_findings
from skope_ope.logs.checks._propensity_sums import (
    PROPENSITY_SUMS,
    PropensitySums,
    choices_of_sums,
    inverse_propensity_z,
    law_by_action,
    left_out_by_chance,
    z_of_gaps,
)
from skope_ope.logs.checks._slate_logger import quick_slate_findings
from skope_ope.logs.sums._group_sums import (
    KEPT_GROUPS,
    GroupSums,
    PairSums,
    WordsOfGroups,
    pairs_of_groups,
    sums_of_groups,
)
from skope_ope.logs.sums._row_sample import (
    FIRST_ROWS,
    OF_UNIFORM,
    RowSample,
    columns_of,
    first_columns,
    logs_of,
    most_rows,
    slates_of,
)

MERGED = {  # how two parts become one
    operator.add: ("n", "n_logged", "mass", "reward_sum", "n_rewarded"),
    min: ("reward_low", "weight_low"),
    max: ("reward_high", "weight_high"),
    operator.and_: ("_binary",),
    operator.or_: ("propensity_estimated",),
}
FIELDS_OF_SUMS = (
    "actions",
    "slate",
    "propensity",
    "logging_proba",
    "logger",
    "logger_proba",
    "logging_policy",
    "available",
    "timestamp",
    "group",
    "sample_weight",
)
PLURAL = {"group": "groups", "propensity": "propensities", "timestamp": "timestamps"}
LABEL_COUNTS = ("actions", "_action_counts"), ("loggers", "_logger_counts")


class LogSums:
    """Counts, extremes and a sample of the rounds of a log, or of a part of it."""

    # Parts add up to what one pass over the whole log gives, in any order and however
    # it is cut into stretches of rows. Wherever findings ask for facts about logs they
    # take these sums as well. What needs rows (tests of the propensities) looks at the
    # sample: 20,000 rounds with the smallest hashes of their positions. In memory
    # 20,000 rounds are drawn by a generator: another sample, of the same law; the same
    # one where the log has no more.

    @classmethod
    @np.errstate(over="ignore", invalid="ignore")  # sums of legal numbers may be inf
    def of(cls, logs, entering=None, limits=KEPT_GROUPS):
        """Return the sums of some rounds."""
        weight = _weights(logs)
        if entering is None:
            some = weight is None or weight.all()
            entering = logs if some else logs[weight > 0]
        out = cls.__new__(cls)
        out.n, out.n_logged = len(entering), len(logs)
        out.fields, out.reward_range = known_fields(logs), logs.reward_range
        out.reward_name = logs.reward_name
        out._count_labels(entering)
        out._sum_weights(entering)
        out._sum_rewards(entering)
        words = all_words = None
        if logs.group is not None:
            words = all_words = WordsOfGroups(entering, limits)
            if entering is not logs:
                all_words = WordsOfGroups(logs, limits)
        sums = out._sum_propensities(entering, words)
        out.groups = None if words is None else sums_of_groups(entering, words, sums)
        out._see_order(logs, all_words)
        out._keep_rows(logs, entering)
        return out

    @classmethod
    def of_all(cls, logs):
        """Return the sums of all rounds, which enter: they are made once."""
        if cls not in logs._found:
            logs._found[cls] = cls.of(logs, logs)
        return logs._found[cls]

    def _count_labels(self, logs):
        self.actions = self._action_counts = self.loggers = self._logger_counts = None
        if hasattr(logs, "action_index"):
            self.actions, self._action_counts = logs.actions, logs._action_counts
            if logs.loggers is not None:
                self.loggers, self._logger_counts = logs.loggers, logs._logger_counts

    def _sum_weights(self, logs):
        weight = _weights(logs)
        self.mass, self.weight_low, self.weight_high = float(self.n), inf, -inf
        if weight is not None:
            self.mass = float(weight.sum())
            self.weight_low = float(weight.min(initial=inf))
            self.weight_high = float(weight.max(initial=-inf))
        elif self.n:
            self.weight_low = self.weight_high = 1.0

    def _sum_rewards(self, logs):
        reward = logs.reward
        self.reward_low = float(reward.min(initial=inf))
        self.reward_high = float(reward.max(initial=-inf))
        self.reward_sum = float(reward.sum())
        self.n_rewarded = int(np.count_nonzero(reward))
        inside = self.reward_low >= 0 and self.reward_high <= 1
        self._binary = inside and np.count_nonzero(reward == 1) == self.n_rewarded

    def _sum_propensities(self, logs, words):
        """Sum propensities, and return what is summed by group."""
        self.propensity_estimated = getattr(logs, "propensity_estimated", False)
        self.propensities = self.pairs = None
        if self.actions is None or logs.propensity is None:
            return {}
        gap = np.zeros(0)
        if self.n:
            self.propensities, gap = PropensitySums.of(logs)
        if logs.group is None:
            return {}
        if self.n:
            self.pairs = pairs_of_groups(logs, words)
        return {"gap": gap, "mass": logs.sample_weight}

    def _see_order(self, logs, words):
        time = logs.timestamp
        self.orders, self.first_time, self.last_time = {}, None, None
        if len(logs):
            self.orders = {logs._origin: OrderSums.of(logs, words)}
            if time is not None:
                self.first_time, self.last_time = time.min(), time.max()

    def _keep_rows(self, logs, entering):
        self.sample = RowSample.by_lot(most_rows(logs), entering, columns_of)
        self.first = RowSample.first(FIRST_ROWS, logs, first_columns)

    # -- parts -------------------------------------------------------------------------
    @np.errstate(over="ignore", invalid="ignore")
    def __add__(self, other):
        """Return the sums of both parts."""
        if not isinstance(other, LogSums):
            return NotImplemented
        self._refuse_unlike(other)
        out = LogSums.__new__(LogSums)
        for merge, names in MERGED.items():
            for name in names:
                setattr(out, name, merge(getattr(self, name), getattr(other, name)))
        for name in ("reward_range", "reward_name"):
            one, more = getattr(self, name), getattr(other, name)
            setattr(out, name, one if one == more else None)
        out.fields = self.fields
        parts = out._merge_labels(self, other)
        for name in ("propensities", "groups", "pairs", "sample", "first"):
            one, more = (part[name] for part in parts)
            setattr(out, name, _sum_of_known(one, more))
        if any(one.n and one.pairs is None for one in (self, other)):
            out.pairs = None  # a part in which all actions were logged tells none
        out._merge_orders(self, other)
        times = [one for one in (self, other) if one.first_time is not None]
        out.first_time = min((one.first_time for one in times), default=None)
        out.last_time = max((one.last_time for one in times), default=None)
        return out

    def __radd__(self, other):
        """Return self for the 0 that `sum` begins with."""
        return self if isinstance(other, int) and other == 0 else NotImplemented

    def to_table(self, n_rows=None):
        """Return the sums as a dict of arrays of numbers and texts, for files."""
        orders, held = self.orders, {name: getattr(self, name) for name in LOG}
        held["fields"] = sorted(self.fields)
        if n_rows is not None:
            orders = {name: one.with_fewer_ends(n_rows) for name, one in orders.items()}
            if self.groups is not None:
                held["groups"] = self.groups.reduced((n_rows, n_rows))
            for name in ("sample", "first"):
                held[name] = held[name].reduced(min(n_rows, held[name].most))
        table = _stored(held, LOG) | {"origins": np.array(list(orders), dtype=str)}
        for k, order in enumerate(orders.values()):
            table |= _named(
                f"order{k}", _stored(vars(order.joined()), STORED[OrderSums])
            )
        return _named(PREFIX[:-1], table)

    @classmethod
    def from_table(cls, table):
        """Return the sums that `to_table` wrote, among other arrays or alone."""
        sums = cls.__new__(cls)
        own = {
            name: np.asarray(one)
            for name, one in _named_below(PREFIX[:-1], table).items()
        }
        vars(sums).update(_held_by(own, LOG))
        sums.fields = frozenset(sums.fields)
        sums.orders = {}
        for k, origin in enumerate(own["origins"].tolist()):
            order = _held_object(_named_below(f"order{k}", own), OrderSums)
            order.stretches = order.stretches.reshape(-1, len(OF_STRETCH))
            sums.orders[origin] = order
        for rows in (sums.sample, sums.first):
            columns = rows.origin, rows.position, rows.key, *rows.columns.values()
            if {len(one) for one in columns} != {len(rows)}:
                raise ValueError(
                    "the columns of a sample have different numbers of rows"
                )
        return sums

    def _merge_labels(self, *parts):
        """Take the labels of both parts; return what they hold, by the merged codes."""
        held = [
            {
                name: getattr(one, name)
                for name in ("propensities", "groups", "pairs", "sample", "first")
            }
            for one in parts
        ]
        for labels, counts in LABEL_COUNTS:
            merged, *places = merged_arrays(*(getattr(one, labels) for one in parts))
            setattr(self, labels, merged)
            if merged is None:
                setattr(self, counts, None)
                continue
            n = len(merged)
            both = [
                placed(getattr(one, counts), place, n)
                for one, place in zip(parts, places, strict=True)
            ]
            setattr(self, counts, both[0] + both[1])
            for one, place in zip(held, places, strict=True):
                if place is not None:
                    _move(one, labels, place, n)
        return held

    def _merge_orders(self, *parts):
        names = list(dict.fromkeys(name for one in parts for name in one.orders))
        self.orders = {}
        for name in names:
            found = [one.orders[name] for one in parts if name in one.orders]
            self.orders[name] = found[0] if len(found) == 1 else found[0] + found[1]
        if len(names) > 1:
            self.orders = {k: v.with_fewer_ends() for k, v in self.orders.items()}

    def _refuse_unlike(self, other):
        if self.fields != other.fields:
            name = min(self.fields ^ other.fields)
            name = PLURAL.get(name, name)
            raise ValueError(
                f"one part of the log has {name} and another has none: build all parts "
                "with the same fields."
            )

    # -- what messages ask of logs, by the names that logs have for it ----------------
    def __len__(self):
        return self.n

    @property
    def n_actions(self):
        """Number of actions."""
        return len(self.actions)

    @cached_property
    def _unseen(self):
        """Codes of the actions that were never logged."""
        return np.flatnonzero(self._action_counts == 0)

    @property
    def _says_yes_and_no(self):
        return self._binary and self.n_rewarded > 0

    @property
    def _reward_extremes(self):
        known = self.reward_low <= self.reward_high
        return (self.reward_low, self.reward_high) if known else ()

    @property
    def _lowest_propensity(self):
        """The smallest propensity, NaN where they are not known."""
        return nan if self.propensities is None else self.propensities.low

    def _propensities_below(self, limit):
        """Return kept propensities below a limit, rising, their positions, actions."""
        return self.propensities.below(limit)

    def _called(self, rows):
        """Return what messages call rows by their positions: these."""
        return rows

    @property
    def _propensity_by_action(self):
        """The propensity of every action where it belongs to the action alone."""
        return self.propensities.by_action

    @property
    def _mean_log_propensity(self):
        """Mean of the logarithms of the propensities."""
        return self.propensities.log_sum / self.n

    @cached_property
    def _action_count_law(self):
        """Mean and variance of the counts of the actions, or None if not known."""
        if self.propensities is None:
            return None
        if self.propensities.law is not None or "available" in self.fields:
            law = self.propensities.law
            return None if law is None else tuple(law)
        return law_by_action(self.propensities.by_action, self.n)

    @property
    def _group_sizes(self):
        """Numbers of rounds of the groups that are kept, or None."""
        return None if self.groups is None else self.groups["n"]

    @property
    def n_groups(self):
        """Number of groups, about where they are many, or None."""
        return None if self.groups is None else self.groups.n_groups

    @cached_property
    def _inverse_propensity_z(self):
        """Mean of 1/p against the number of actions, in standard errors."""
        sums, n = self.propensities, self.n
        if sums is None or n < 2:
            return nan
        never = len(self._unseen)
        if never and "available" in self.fields:
            # which of them were offered the sample tells
            return inverse_propensity_z(self.sampled)
        gap, square = sums.about(-never)
        change, groups = None, self.groups
        if groups is not None:
            change = groups["gap"] + never * groups["mass"] - gap / n * groups["n"]
        return z_of_gaps(self, gap, square, change, sums.gap_square)

    # -- findings ----------------------------------------------------------------------
    @cached_property
    def sampled(self):
        """The sample as logs without context, `BanditLogs`."""
        return logs_of(self, self.sample)

    @cached_property
    def _quick_propensity_findings(self):
        """Facts and findings of the tests that every value makes of propensities."""
        if not self.n:
            return {}, []
        if self.actions is None:
            slates = slates_of(self.sample)
            if slates is None:
                return {}, []
            is_uniform = OF_UNIFORM in self.sample.columns
            facts, found = quick_slate_findings(slates, is_uniform)
            # rows of the sample are not those of the log
            return facts, [replace(one, rows=()) for one in found]
        return quick_propensity_findings(self, self.sampled)

    @cached_property
    def _learning_findings(self):
        """Finding where the propensities of the first rounds follow earlier rewards."""
        if not len(self.first) or self.actions is None:
            return []
        return learning_findings(logs_of(self, self.first))

    @cached_property
    def _trailing_zeros(self):
        """Number of origins, and findings of late rewards."""
        return trailing_zeros_of_parts(self.orders.values())

    @property
    def _weighs_unevenly(self):
        """Whether the sample weights differ."""
        return self.weight_low < self.weight_high

    @cached_property
    def _choices(self):
        """What the rounds tell of the actions that the logger could take."""
        kept = self.propensities, self.weight_high, self.groups, self.pairs
        return choices_of_sums(self, *kept)

    @cached_property
    def _left_out_by_chance(self):
        """Whether the logger could take the actions that it never took."""
        return left_out_by_chance(self)

    # fields of the rounds that are kept, None where the log has none
    propensity = property(lambda self: self.sample.columns.get("propensity"))
    logging_proba = property(lambda self: self.sample.columns.get("logging_proba"))
    available = property(lambda self: self.sample.columns.get("available"))
    group = property(lambda self: self.sample.columns.get("group"))


def known_fields(logs):
    """Return which fields some logs have, of those that not all logs have."""
    if isinstance(logs, LogSums):
        return logs.fields
    return frozenset(n for n in FIELDS_OF_SUMS if getattr(logs, n, None) is not None)


def has_field(logs, name):
    """Whether rounds, or sums of them, have a field."""
    if isinstance(logs, LogSums):
        return name in logs.fields
    return getattr(logs, name, None) is not None


def _weights(logs):
    if hasattr(logs, "action_index"):
        return logs.sample_weight
    # not `column_weights`, which wants a positive one: a part may have none
    return logs.columns.get(WEIGHT_COLUMN)


def _sum_of_known(one, other):
    if one is None or other is None:
        return other if one is None else one
    return one + other


def _move(held, labels, places, n):
    """Give what a part holds the codes of merged labels."""
    column = {"actions": "action", "loggers": "logger"}[labels]
    for name in ("sample", "first"):
        rows = held[name]
        if column in rows.columns:
            held[name] = rows.with_column(column, places[rows.columns[column]])
        for wide in ("logging_proba", "available") if labels == "actions" else ():
            if wide in held[name].columns:
                values = held[name].columns[wide]
                held[name] = held[name].with_column(wide, placed(values.T, places, n).T)
    if labels == "actions":
        if held["propensities"] is not None:
            held["groups"] = _shifted(held, n)
            held["propensities"] = held["propensities"].among(n, places)
        if held["pairs"] is not None:
            held["pairs"] = held["pairs"].among(n, places)


def _shifted(held, n):
    """Return sums by group of gaps to more actions."""
    groups, sums = held["groups"], held["propensities"]
    if groups is None or sums.offered is not None:
        return groups
    gap = groups["gap"] - (n - sums.n_actions) * groups["mass"]
    return groups.with_sums(gap=gap)


# -- labels of two parts of a log as those of one --------------------------------------


def merged_labels(one, other):
    """Return the labels of both in order; the same list where they have the same."""
    if one == other:
        return one
    labels = list(dict.fromkeys([*one, *other]))
    with suppress(TypeError):  # labels of several types stay as they appear
        labels = sorted(labels)
    return labels


def places_in(labels, some):
    """Return where some labels are among all."""
    if labels is some or labels == some:
        return np.arange(len(labels))
    place = {label: k for k, label in enumerate(labels)}
    return np.array([place[label] for label in some], dtype=np.intp)


def merged_arrays(one, other):
    """Return all labels of two arrays in order, and where those of each stand."""
    if one is None or one is other or _alike(one, other):
        return one, None, None
    parts = one.tolist(), other.tolist()
    labels = merged_labels(*parts)
    places = [places_in(labels, part) for part in parts]
    if one.dtype.kind == other.dtype.kind and one.dtype.kind in "biufUSmM":
        kind = np.result_type(one.dtype, other.dtype)
        return np.array(labels, dtype=kind), *places
    return objects(labels), *places


def placed(values, places, n):
    """Return rows of an array at their places among n, zeros elsewhere."""
    if places is None:
        return values
    out = np.zeros((n, *values.shape[1:]), dtype=values.dtype)
    out[places] = values
    return out


def _alike(one, other):
    return (
        len(one) == len(other)
        and one.dtype.kind == other.dtype.kind
        and bool(np.all(one == other))
    )


# -- sums as plain arrays for files, and back ------------------------------------------

PREFIX = "log_"
# How what is held is stored, and read again; what is None is left out.
NUMBER, ARRAY, SCALAR, TUPLE, LIST = "number", "array", "scalar", "tuple", "list"
LABEL_ARRAY, BY_NAME, BY_LENGTH = "labels", "labels by name", "counts by length"
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
        "gaps": BY_LENGTH,
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
    **dict.fromkeys(("first_time", "last_time", "reward_name"), SCALAR),
    **dict.fromkeys(("actions", "loggers"), LABEL_ARRAY),
    "fields": LIST,
    "reward_range": TUPLE,
    "propensities": PropensitySums,
    "groups": GroupSums,
    "pairs": PairSums,
    "sample": RowSample,
    "first": RowSample,
}


def _named(prefix, table):
    return {f"{prefix}_{name}": np.asarray(values) for name, values in table.items()}


def _named_below(prefix, table):
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
        elif kind == LABEL_ARRAY:
            table |= arrays_of_labels(name, value)
        elif kind == BY_LENGTH:
            table[name] = np.array(sorted(value.items()), np.int64).reshape(-1, 2)
        else:
            table[name] = np.array(value, dtype=str if kind == LIST else None)
    return table


def _held_by(table, kinds):
    """Return what `_stored` wrote, by name."""
    held = {}
    for name, kind in kinds.items():
        value, part = table.get(name), _named_below(name, table)
        if kind in STORED:
            value = _held_object(part, kind) if part else None
        elif kind == BY_NAME:
            value = _read_columns(part)
        elif kind == LABEL_ARRAY:
            value = labels_of_arrays(name, table)
        elif value is not None and kind == SCALAR:
            value = value[()]
        elif value is not None and kind != ARRAY:
            value = value.item() if kind == NUMBER else value.tolist()
            value = tuple(value) if kind == TUPLE else value
            value = dict(map(tuple, value)) if kind == BY_LENGTH else value
        elif value is None and kind in (NUMBER, BY_LENGTH):
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
