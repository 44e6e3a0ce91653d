# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Logged events of Vowpal Wabbit, whatever their format, and the logs they make."""

import math
import sys
from array import array
from decimal import Decimal
from typing import NamedTuple

import numpy as np
from scipy import sparse

from skope_ope.logs._bandit_logs import BanditLogs
from skope_ope.logs._slate_logs import SlateLogs
from skope_ope.logs._text_files import number, quoted
from skope_ope.logs._validation import EMPTY
from skope_ope.readers._json_lines import MalformedLineError

# -- one logged event of a Vowpal Wabbit file, whatever its format ---------------------

VW_ACTIONS = 2**32  # Vowpal Wabbit numbers them by 32 bits


class VWSlot(NamedTuple):
    """What one slot of a logged event shows."""

    action: int  # position among the actions of the event; in `--cb` an id from 1
    reward: float  # of this slot alone; 0 where only the event has one
    propensity: float  # given the slots before it
    offered: list | None = None  # such numbers of the actions; None: all of them
    proba: list | None = None  # logging distribution in the order of these
    features: list = ()  # (name, value) pairs, not hashed yet


class VWEvent(NamedTuple):
    """What a parser found: one slot, or several in logs of slates."""

    slots: list  # of VWSlot
    shared: list  # (name, value) pairs, not hashed yet
    actions: list | None = None  # an `Action` for each that is offered
    reward: float | None = None  # of the whole event; None: the sum over its slots
    timestamp: int | None = None  # microseconds from 1970, UTC
    weight: float = 1.0
    base: int | None = None  # from which number `_label_Action` counts
    evaluated: int | None = None  # the evaluated action of `--cb --eval`


class OtherLogError(ValueError):
    """A well-formed line of a log that is not one action and one reward a round."""


OTHER_LOGS = {
    "ccb": (
        "a conditional contextual bandit (ccb) log: each event fills several slots, "
        "so it is not a single-action log; read it as slates with format='ccb'"
    ),
    "slates": (
        "a slates log: each event fills several slots and has one cost for all of "
        "them, so it is not a single-action log; read it with format='slates'"
    ),
    "ca": (
        "a log of continuous actions (CATS): its actions are numbers with a "
        "density. First bin the actions, and integrate the density over each bin"
    ),
    "igl": (
        "an interaction-grounded learning log: its events hold feedback ('o' with "
        "'_definitely_bad') in place of rewards. First infer the rewards from the "
        "feedback"
    ),
}


def other_log(kind):
    """Return the error for a log of another kind."""
    return OtherLogError(f"is {OTHER_LOGS[kind]}.")


def check_outcome(cost, probability):
    """Return (reward, propensity) of a logged action."""
    if not math.isfinite(cost):
        raise MalformedLineError(f"the cost is {cost}; a finite number is needed")
    # Vowpal Wabbit writes 32-bit numbers, so that a 1 may come back a little larger.
    if not sys.float_info.min <= probability <= 1.0 + 1e-6:  # 1 / less is infinite
        raise MalformedLineError(
            f"the probability of the logged action is {probability:g}; it must lie in "
            "(0, 1]"
        )
    return 0.0 - cost, min(probability, 1.0)  # 0 - 0 is 0, where -0 would be -0


FLOAT_OR_INT = (float, int)  # as JSON holds them; truth values are none
SUM_ROUNDING = 1e-3  # how far the sum of probabilities may be off in any case
FEWEST_DIGITS = 2  # behind the point: no logger rounds more than that


def as_number(name, value):
    if type(value) is float:
        return value
    try:
        if isinstance(value, (bool, list, tuple)):
            raise TypeError
        return number(value) if isinstance(value, str) else float(value)
    except (TypeError, ValueError, OverflowError) as error:
        raise MalformedLineError(
            f"the {name} is {quoted(value)}, not a number"
        ) from error


def checked_sum(proba, n_actions):
    """Return the sum of probabilities, one unless they leave out actions."""
    for p in checked_list("p", proba):
        if type(p) not in FLOAT_OR_INT or not 0 <= p <= 1:
            raise MalformedLineError(f"{quoted(p)} is not a probability")
    total, size = sum(proba), len(proba)
    excess = total - 1.0 if size < n_actions else abs(total - 1.0)
    if excess > SUM_ROUNDING and excess > size * written_rounding(proba):
        raise MalformedLineError(
            f"the probabilities {quoted(proba)} sum to {total:.6g}, but the "
            "probabilities of all actions must sum to 1"
        )
    return total


def checked_list(name, values):
    if type(values) is not list:  # objects are lists of pairs
        raise MalformedLineError(f"{name!r} must be an array, got {quoted(values)}")
    return values


def written_rounding(values):
    """Return by how much a value may be off that is cut to the digits that stand."""
    digits = max(-Decimal(repr(value)).as_tuple().exponent for value in values)
    return 10.0 ** -max(digits, FEWEST_DIGITS)


def is_integer(value):
    """Tell whether JSON holds a whole number."""
    return isinstance(value, int) and not isinstance(value, bool)


# -- events of several slots -----------------------------------------------------------
# In a ccb log every slot has a cost of its own and takes one of the actions that the
# slots before it left. In a slates log the event has one cost, every action belongs to
# one slot, and a slot numbers its own actions from 0.


class Draft:
    """An event as it is read: actions with their slots, outcomes by slot."""

    def __init__(self, kind):
        self.kind = kind
        self.shared = self.cost = None
        self.actions, self.slot_of = [], []
        self.outcomes, self.offers, self.features = [], [], []

    def event(self, timestamp=None, weight=1.0):
        """Return the event, None where it has no outcome to learn from."""
        if not self.actions or not self.outcomes:
            raise MalformedLineError("the event has no action, or no slot")
        n_slots = len(self.outcomes)
        outside = [slot for slot in self.slot_of if slot not in range(n_slots)]
        if outside:
            raise MalformedLineError(
                f"an action belongs to slot {quoted(outside[0])}; the event has "
                f"{n_slots}, counted from 0"
            )
        unknown = [outcome is None for outcome in self.outcomes]
        no_cost = self.kind == "slates" and self.cost is None
        if all(unknown) or no_cost:
            return None
        if any(unknown):
            raise MalformedLineError(
                f"slot {unknown.index(True)} has no outcome and others have"
            )
        reward = None if self.kind == "ccb" else check_outcome(self.cost, 1.0)[0]
        slots, shown = [], set()
        for at, outcome in enumerate(self.outcomes):
            slot = self._slot(at, *outcome)
            if slot.action in shown:
                raise MalformedLineError(
                    f"slot {at} shows action {slot.action}, which an earlier slot "
                    "shows already"
                )
            shown.add(slot.action)
            slots.append(slot)
        parts = (slots, self.shared or [], self.actions, reward)
        return VWEvent(*parts, timestamp, weight)

    def _slot(self, at, names, proba, cost):
        """Build a slot from the actions that its label names; the first is shown."""
        offered = self.offers[at]
        if self.kind == "slates":
            offered = [a for a, slot in enumerate(self.slot_of) if slot == at]
        everything = range(len(self.actions))
        if offered is not None:
            _check_actions(f"slot {at} offers", offered, len(everything))
        own = everything if self.kind == "ccb" else offered
        _check_actions(f"slot {at} shows", names, len(own))
        action = own[names[0]]
        if offered is not None and action not in offered:
            raise MalformedLineError(
                f"slot {at} shows action {action}, which is not among those it "
                f"offers ({offered})"
            )
        reward, propensity = check_outcome(cost, proba[0])
        total, whole = checked_sum(proba, len(own)), None
        if self.kind == "slates" and len(names) == len(own) and abs(total - 1) <= 1e-5:
            by_name = dict(zip(names, proba, strict=True))
            whole = [by_name[name] / total for name in range(len(own))]
        return VWSlot(action, reward, propensity, offered, whole, self.features[at])


def _check_actions(who, actions, n_actions):
    """Raise unless these are distinct numbers of actions."""
    for action in actions:
        if not is_integer(action) or not 0 <= action < n_actions:
            raise MalformedLineError(
                f"{who} action {quoted(action)}; it has {n_actions}, counted from 0"
            )
    if len(set(actions)) < len(actions):
        raise MalformedLineError(f"{who} an action twice: {quoted(actions)}")


# -- hashed features: a sparse context, dense action features --------------------------

BATCH = 2000  # rows that are made dense at a time
HASHED = 200  # rows that are hashed at a time: they fit the cache
MOST_KNOWN = 2**14  # actions that are remembered
LONGEST_KNOWN = 2**7  # features of an action that is remembered
TRIALS = 2**12  # new actions, beyond those that came again, until none is remembered


class HashedRows:
    """Rows of (name, value) pairs, kept as the columns that the names are hashed to."""

    def __init__(self, n_columns):
        from sklearn.feature_extraction import FeatureHasher

        # plain sums, as in Vowpal Wabbit: a column keeps the sign of its feature
        self._hasher = FeatureHasher(n_columns, input_type="pair", alternate_sign=False)
        self._rows, self._n_rows = [], 0
        self._columns, self._values, self._stops = array("i"), array("d"), array("q")

    def add(self, pairs):
        """Take one row and return its number."""
        self._rows.append(pairs)
        if len(self._rows) == HASHED:
            self._hash()
        self._n_rows += 1
        return self._n_rows - 1

    def _hash(self):
        found, self._rows = self._hasher.transform(self._rows), []
        stops = found.indptr[1:].astype(np.int64) + len(self._values)
        self._columns.frombytes(found.indices.astype(np.intc).tobytes())
        self._values.frombytes(found.data.astype(np.float64).tobytes())
        self._stops.frombytes(stops.tobytes())

    def matrix(self):
        """CSR matrix of shape (n_rows, n_columns)."""
        if self._rows:
            self._hash()
        stops = np.append(0, np.array(self._stops))
        parts = np.array(self._values), np.array(self._columns), stops
        return sparse.csr_matrix(parts, (self._n_rows, self._hasher.n_features))


class Action:
    """An offered action: its features, its tag, and what else is said of it."""

    __slots__ = ("features", "marks", "row", "tag")

    def __init__(self, features, tag=None, marks=()):
        self.features, self.tag, self.marks = features, tag, marks
        self.row = None  # of its hashed features


class KnownActions:
    """Actions by what is written: a catalogue that comes again is parsed once."""

    def __init__(self):
        self._known, self._left = {}, TRIALS

    @property
    def is_useful(self):
        """Tell whether actions are met again often enough."""
        return self._left >= 0

    def all_of(self, keys, written, action_of):
        """Return the actions that are written; `keys` tell which are alike."""
        found = [*map(self._known.get, keys)]
        n_new = found.count(None)
        self._left = min(self._left + len(found) - 2 * n_new, TRIALS)
        for place in range(len(found)) if n_new else ():
            if found[place] is None:
                found[place] = self._new(keys[place], action_of(written[place]))
        return found

    def _new(self, key, action):
        if len(self._known) >= MOST_KNOWN:
            self._known.clear()
        if not action.marks and len(action.features) <= LONGEST_KNOWN:
            self._known[key] = action
        return action


class ActionFeatures:
    """Features of the offered actions; those of one `Action` are kept once."""

    def __init__(self, n_columns):
        self._rows = HashedRows(n_columns)

    def rows_of(self, actions):
        """Take the features of actions and return the numbers of their rows."""
        for action in actions:
            if action.row is None:
                action.row = self._rows.add(action.features)
        return [action.row for action in actions]

    def dense(self, rows, columns, codes, shape, max_bytes, keep_all=True):
        """Dense features of the actions of every round, or of all rounds at once."""
        table = self._rows.matrix()
        if not table.nnz:
            return None
        if not keep_all:
            table = table[:, np.unique(table.indices)]
        n_rounds, n_actions = shape
        first = np.full(n_actions, -1)
        first[codes[::-1]] = rows[::-1]
        shape = n_actions, table.shape[1]
        if _same_rows(table, first[codes], rows):
            codes = np.flatnonzero(first >= 0)
            places, rows = codes, first[codes]
        else:
            shape, places = (n_rounds, *shape), columns * n_actions + codes
        _check_bytes(shape, max_bytes)
        dense = np.zeros(shape)
        flat = dense.reshape(-1)
        for start in range(0, len(rows), BATCH):
            part = slice(start, start + BATCH)
            some = table[rows[part]]
            starts = np.repeat(places[part] * shape[-1], np.diff(some.indptr))
            flat[starts + some.indices] = some.data
        return dense


def _same_rows(table, rows, others):
    """Tell whether pairs of rows of a CSR matrix hold the same."""
    differ = np.flatnonzero(rows != others)
    for start in range(0, len(differ), BATCH):
        part = differ[start : start + BATCH]
        if (table[rows[part]] != table[others[part]]).nnz:
            return False
    return True


def _check_bytes(shape, max_bytes):
    size = 8 * int(np.prod(shape, dtype=object))
    if size > max_bytes:
        raise ValueError(
            f"the features of the actions need an array of shape {shape}, "
            f"{size / 2**20:,.0f} MiB, more than max_action_bytes={max_bytes} "
            f"({max_bytes / 2**20:,.0f} MiB) allows. Pass a smaller n_action_features "
            "(0 leaves them out) or a larger max_action_bytes."
        )


def numbers_within(counts):
    """Return the numbers from 0 of what every event or slot has, one after another."""
    stops = np.cumsum(counts)
    return np.arange(stops[-1]) - np.repeat(stops - counts, counts)


class VWRounds:
    """Events, kept as numbers until the logs are built."""

    def __init__(self, n_features, n_action_features, by_tag, several_slots):
        self.by_tag, self.several_slots = by_tag, several_slots
        self.context = HashedRows(n_features)
        self.features = ActionFeatures(n_action_features) if n_action_features else None
        self.feature_rows = array("q")  # of all actions, event after event
        # of every event; 0 actions where it does not list them
        self.n_slots, self.n_actions = array("q"), array("q")
        self.weight, self.total, self.timestamps = array("d"), array("d"), array("q")
        self.evaluated = array("q")
        # of every slot; 0 offers where it offers all actions
        self.action, self.n_offers, self.offers = array("q"), array("q"), array("q")
        self.reward, self.propensity = array("d"), array("d")
        self.proba, self.n_proba = array("d"), 0
        self.tags, self.tag_codes = {}, array("q")  # the latter of all actions
        self.listed = None  # whether events list their actions
        self.base = None  # from which number `_label_Action` counts

    def __len__(self):
        return len(self.weight)

    def add(self, event):
        """Take one event."""
        listed, actions = event.actions is not None, event.actions or ()
        if self.listed not in (None, listed):
            raise MalformedLineError(
                "some events have a list of actions, and others do not"
            )
        if event.base is not None and self.base not in (None, event.base):
            raise MalformedLineError(
                f"'_label_Action' counts from {event.base} here and from {self.base} "
                "in the events above, so one of them contradicts '_labelIndex'"
            )
        if self.by_tag:
            if not listed:
                raise MalformedLineError(
                    "the event has no list of actions whose tags could name them; "
                    "read with action_labels='number'"
                )
            self._add_tags([action.tag for action in actions])
        self.listed = listed
        self.base = self.base if event.base is None else event.base
        pairs = event.shared
        for at, slot in enumerate(event.slots):
            action, reward, propensity, offered, proba, features = slot
            self.action.append(action)
            self.reward.append(reward)
            self.propensity.append(propensity)
            self.n_offers.append(len(offered or ()))
            if offered is not None:
                self.offers.fromlist(offered)
            if proba is not None:
                self.proba.fromlist(proba)
                self.n_proba += 1
            if features:
                pairs = pairs + [
                    (f"slot{at}.{name}", value) for name, value in features
                ]
        self.context.add(pairs)
        if self.features is not None:
            self.feature_rows.fromlist(self.features.rows_of(actions))
        self.n_slots.append(len(event.slots))
        self.n_actions.append(len(actions))
        self.weight.append(event.weight)
        # what some events lack
        if event.reward is not None:
            self.total.append(event.reward)
        if event.timestamp is not None:
            self.timestamps.append(event.timestamp)
        if event.evaluated is not None:
            self.evaluated.append(event.evaluated)

    def _add_tags(self, tags):
        for k, tag in enumerate(tags):
            if not tag or not isinstance(tag, str):
                raise MalformedLineError(
                    f"action {k} of the event has no tag; read with "
                    "action_labels='number'"
                )
        if not self.several_slots and len(set(tags)) < len(tags):
            raise MalformedLineError("two actions of the event have the same tag")
        codes = [self.tags.setdefault(tag, len(self.tags)) for tag in tags]
        self.tag_codes.fromlist(codes)

    def left_out(self):
        """Return {field: events without it} of what only some of the events have."""
        missing = {"'Timestamp'": len(self) - len(self.timestamps)}
        if not self.several_slots:
            missing["'p' that goes with the label"] = len(self) - self.n_proba
        return {name: n for name, n in missing.items() if 0 < n < len(self)}

    def logs(self, *how):
        """Build the logs: of n_actions, with (all) features of actions of some size."""
        fields = {}
        if len(self.timestamps) == len(self):
            fields["timestamp"] = np.array(self.timestamps).view("datetime64[us]")
        weight = np.array(self.weight)
        fields["sample_weight"] = None if (weight == 1.0).all() else weight
        return (_slate_logs if self.several_slots else _bandit_logs)(self, fields, *how)

    def action_features(self, *places):
        """Return the dense features of actions, see `ActionFeatures.dense`."""
        if not self.feature_rows:
            return None
        return self.features.dense(_integers(self.feature_rows), *places)


def _integers(stored):
    """Return integers as an array; those of `array` have another dtype."""
    return np.array(stored, np.int64)


def _bandit_logs(events, fields, n_actions, keep_all_columns, max_action_bytes):
    """Build the logs of events of one slot."""
    action, offers = _integers(events.action), _integers(events.offers)
    counts = _integers(events.n_offers)
    if events.listed:
        counts = _integers(events.n_actions)
        offers = numbers_within(counts)
    if events.by_tag:
        labels, order = np.unique(list(events.tags), return_inverse=True)
        codes = order[_integers(events.tag_codes)]
        action = codes[np.cumsum(counts) - counts + action]
    else:
        labels = _stored_numbers(events, (action, offers, events.evaluated), n_actions)
        action, codes = np.searchsorted(labels, action), np.searchsorted(labels, offers)
    n_rounds, shape = len(events), (len(events), len(labels))
    rounds = np.repeat(np.arange(n_rounds), counts)
    if (counts < len(labels)).any() and counts.any():
        available = np.repeat((counts == 0)[:, None], len(labels), axis=1)
        available[rounds, codes] = True
        fields["available"] = None if available.all() else available
    if events.n_proba == n_rounds:
        fields["logging_proba"] = np.zeros(shape)
        fields["logging_proba"][rounds, codes] = events.proba
    logs = BanditLogs(
        events.context.matrix(),
        labels[action],
        np.array(events.reward),
        np.array(events.propensity),
        actions=labels,
        action_context=events.action_features(
            rounds, codes, shape, max_action_bytes, keep_all_columns
        ),
        **fields,
    )
    if events.evaluated:
        evaluated = np.zeros(shape)
        at = np.searchsorted(labels, _integers(events.evaluated))
        evaluated[np.arange(n_rounds), at] = 1.0
        logs = logs.with_columns(evaluated=evaluated)
    return logs


def _stored_numbers(events, stored, n_actions):
    """Return the numbers of all actions, in their order."""
    seen = np.unique(np.concatenate([_integers(some) for some in stored]))
    start = 0 if events.listed else 1
    if n_actions is None:
        return seen
    if seen[-1] >= start + n_actions:
        raise ValueError(
            f"the log has action {seen[-1]}, counted from {start}, but "
            f"n_actions={n_actions}. Pass at least {seen[-1] - start + 1}."
        )
    return np.arange(start, start + n_actions)


def _slate_logs(events, fields, n_actions, keep_all_columns, max_action_bytes):
    """Build the logs of events of several slots."""
    counts, n_slots = _integers(events.n_actions), _integers(events.n_slots)
    most = int(counts.max())
    if n_actions is not None and n_actions < most:
        raise ValueError(
            f"an event has {most} actions, but n_actions={n_actions}. Pass at least "
            f"{most}."
        )
    most = n_actions or most
    at = np.repeat(np.arange(len(events)), n_slots), numbers_within(n_slots)
    slate = np.full((len(events), int(n_slots.max())), EMPTY)
    reward, propensity = np.zeros(slate.shape), np.ones(slate.shape)
    slate[at], reward[at] = events.action, events.reward
    propensity[at] = events.propensity
    columns = {"slot_propensity": propensity}
    n_offers = _integers(events.n_offers)
    lists = *(np.repeat(one, n_offers) for one in at), _integers(events.offers)
    if events.n_proba == len(n_offers):
        columns["slot_proba"] = np.zeros((*slate.shape, most))
        columns["slot_proba"][lists] = events.proba
    total = events.total or reward.sum(axis=1)
    if not events.total and (reward >= 0).all():
        fields["slot_reward"] = reward
    elif not events.total:
        columns["signed_slot_reward"] = reward
    places = np.repeat(np.arange(len(events)), counts), numbers_within(counts)
    shape = len(events), most
    if events.by_tag:
        tags = np.array(list(events.tags))
        fields["item_id"] = np.full(shape, "", tags.dtype)
        fields["item_id"][places] = tags[_integers(events.tag_codes)]
    weight = fields.pop("sample_weight")
    if weight is not None:
        columns["sample_weight"] = weight
    there = np.arange(most) < counts[:, None]
    if n_offers.any() or (n_slots < slate.shape[1]).any():
        offered = np.zeros((*slate.shape, most), dtype=bool)
        offered[at] = there[at[0]] & (n_offers == 0)[:, None]
        offered[lists] = True
        fields["candidates"] = offered  # an absent slot offers nothing
    elif counts.max() < most:
        fields["candidates"] = there
    else:
        fields["n_candidates"] = counts if (counts < most).any() else most
    logs = SlateLogs(
        events.context.matrix(),
        slate,
        np.array(total),
        item_features=events.action_features(
            *places, shape, max_action_bytes, keep_all_columns
        ),
        propensity=propensity.prod(axis=1),
        **fields,
    )
    return logs.with_columns(**columns)
