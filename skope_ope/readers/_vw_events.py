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
from sklearn.utils import murmurhash3_32

from skope_ope.logs._bandit_logs import BanditLogs
from skope_ope.logs._slate_logs import SlateLogs
from skope_ope.logs._text_files import number, quoted
from skope_ope.logs._validation import EMPTY
from skope_ope.readers._json_lines import MalformedLineError

# -- one logged event of a Vowpal Wabbit file, whatever its format ---------------------

VW_ACTIONS = 2**32  # Vowpal Wabbit numbers them by 32 bits


class VWEvent(NamedTuple):
    """What a parser found: names and values of features are not hashed yet."""

    action: int  # id from 1 of `--cb`, position from 0 of `--cb_adf`
    reward: float
    propensity: float
    shared: list  # (name, value) pairs
    actions: list | None = None  # an `Action` for each that was offered
    offered: list | None = None  # ids that a `--cb` line lists
    evaluated: int | None = None  # the evaluated action of `--cb --eval`
    timestamp: int | None = None  # microseconds from 1970, UTC
    weight: float = 1.0
    proba: list | None = None  # logging distribution in the order of the actions
    base: int | None = None  # from which number `_label_Action` counts


class VWSlot(NamedTuple):
    """What one slot of a logged event shows."""

    action: int  # position among the actions of the event
    propensity: float  # given the slots before it
    reward: float  # of this slot alone; 0 where only the event has one
    features: list  # (name, value) pairs
    offered: list | None = None  # positions of the actions that this slot offers
    proba: list | None = None  # logging distribution in the order of `offered`


class VWSlateEvent(NamedTuple):
    """A logged event of several slots."""

    slots: list  # of VWSlot
    reward: float | None  # of the whole event; None: the sum over its slots
    shared: list  # (name, value) pairs
    actions: list  # an `Action` for each
    timestamp: int | None = None  # microseconds from 1970, UTC
    weight: float = 1.0


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
        parts = (slots, reward, self.shared or [], self.actions)
        return VWSlateEvent(*parts, timestamp, weight)

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
        features = self.features[at]
        return VWSlot(action, propensity, reward, features, offered, whole)


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
MOST_NAMES = 2**18  # names of features that are remembered
MOST_KNOWN = 2**14  # actions that are remembered
LONGEST_KNOWN = 2**7  # features of an action that is remembered
TRIALS = 2**12  # new actions, beyond those that came again, until none is remembered


class _ColumnOfName(dict):
    """Columns by the names of features, as `FeatureHasher` finds them."""

    def __init__(self, n_columns):
        super().__init__()
        self.n_columns = n_columns

    def __missing__(self, name):
        if len(self) >= MOST_NAMES:
            self.clear()
        # plain sums, as in Vowpal Wabbit: a column keeps the sign of its feature
        column = self[name] = abs(murmurhash3_32(name)) % self.n_columns
        return column


class HashedRows:
    """Rows of (name, value) pairs, kept as the columns that the names are hashed to."""

    def __init__(self, n_columns):
        self._column_of = _ColumnOfName(n_columns)
        self._columns, self._values = array("i"), array("d")
        self._stops = array("q", [0])

    def add(self, pairs):
        """Take one row and return its number."""
        column_of = self._column_of
        self._columns.fromlist([column_of[name] for name, _ in pairs])
        self._values.fromlist([value for _, value in pairs])
        self._stops.append(len(self._values))
        return len(self._stops) - 2

    def matrix(self):
        """CSR matrix of shape (n_rows, n_columns)."""
        parts = (np.array(self._values), np.array(self._columns), np.array(self._stops))
        shape = len(self._stops) - 1, self._column_of.n_columns
        matrix = sparse.csr_matrix(parts, shape)
        matrix.sum_duplicates()
        return matrix


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


class _HashedEvents:
    """What events of one and of several slots share: features, which are hashed."""

    def __init__(self, n_features, n_action_features, action_labels):
        self._by_tag = action_labels == "tag"
        self._context = HashedRows(n_features)
        self._features = (
            ActionFeatures(n_action_features) if n_action_features else None
        )
        self._feature_rows = array("q")

    def _add_features(self, shared, actions):
        self._context.add(shared)
        if actions is not None and self._features is not None:
            self._feature_rows.fromlist(self._features.rows_of(actions))

    def _action_features(self, *places):
        """Return the dense features of actions, see `ActionFeatures.dense`."""
        if not self._feature_rows:
            return None
        return self._features.dense(np.array(self._feature_rows), *places)


def _numbered_from_zero(counts):
    """Return the actions of rounds that each number theirs from 0."""
    stops = np.cumsum(counts)
    return np.arange(stops[-1]) - np.repeat(stops - counts, counts)


class VWRounds(_HashedEvents):
    """Events, kept as numbers until the logs are built."""

    def __init__(self, n_features, n_action_features, action_labels):
        super().__init__(n_features, n_action_features, action_labels)
        self._numbers = array("q")  # the logged action
        self._reward, self._propensity = array("d"), array("d")
        self._weight, self._proba = array("d"), array("d")
        self._timestamps = array("q")
        self._offers = array("q")  # all offered actions, round after round, unless
        # they are numbered from 0 in every round: `_offered` makes these at the end
        self._n_offers = array("q")  # 0 where all actions are
        self._evaluated = array("q")
        self._tags = {}
        self._adf = None  # whether actions are listed with their features
        self._base = None  # from which number `_label_Action` counts
        self._n_proba = 0  # events with a distribution

    def __len__(self):
        return len(self._numbers)

    def add(self, event):
        """Take one event."""
        adf = event.actions is not None
        if self._adf not in (None, adf):
            raise MalformedLineError(
                "some events have a list of actions, and others do not"
            )
        if event.base is not None and self._base not in (None, event.base):
            raise MalformedLineError(
                f"'_label_Action' counts from {event.base} here and from "
                f"{self._base} in the events above, so one of them contradicts "
                "'_labelIndex'"
            )
        action, offers = event.action, event.offered or ()
        n_offers = len(event.actions) if adf else len(offers)
        if adf and self._by_tag:
            offers = self._codes_of_tags([action.tag for action in event.actions])
            action = offers[action]
        elif self._by_tag:
            raise MalformedLineError(
                "the event has no list of actions whose tags could name them; read "
                "with action_labels='number'"
            )
        self._adf = adf
        self._base = self._base if event.base is None else event.base
        self._numbers.append(action)
        self._offers.extend(offers)
        self._n_offers.append(n_offers)
        self._reward.append(event.reward)
        self._propensity.append(event.propensity)
        self._weight.append(event.weight)
        self._add_features(event.shared, event.actions)
        if event.timestamp is not None:
            self._timestamps.append(event.timestamp)
        if event.proba is not None:
            self._proba.fromlist(event.proba)
            self._n_proba += 1
        if event.evaluated is not None:
            self._evaluated.append(event.evaluated)

    def left_out(self):
        """Return {field: events without it} of what only some of the events have."""
        missing = {
            "'Timestamp'": len(self) - len(self._timestamps),
            "'p' that goes with the label": len(self) - self._n_proba,
        }
        return {name: n for name, n in missing.items() if 0 < n < len(self)}

    def _codes_of_tags(self, tags):
        for k, tag in enumerate(tags):
            if not tag or not isinstance(tag, str):
                raise MalformedLineError(
                    f"action {k} of the event has no tag; read with "
                    "action_labels='number'"
                )
        if len(set(tags)) < len(tags):
            raise MalformedLineError("two actions of the event have the same tag")
        return [self._tags.setdefault(tag, len(self._tags)) for tag in tags]

    def logs(self, n_actions, keep_all_columns, max_action_bytes):
        """Build the logs."""
        labels, code_of = self._labels(n_actions)
        action = code_of(self._numbers)
        counts = np.array(self._n_offers)
        rounds = np.repeat(np.arange(len(self)), counts)
        codes = code_of(self._offered())
        shape = len(self), len(labels)
        available = None
        if (counts < len(labels)).any() and counts.any():
            available = np.repeat((counts == 0)[:, None], len(labels), axis=1)
            available[rounds, codes] = True
            if available.all():
                available = None
        logging_proba = timestamp = None
        if self._n_proba == len(self):
            logging_proba = np.zeros(shape)
            logging_proba[rounds, codes] = self._proba
        weight = np.array(self._weight)
        if len(self._timestamps) == len(self):
            timestamp = np.array(self._timestamps).view("datetime64[us]")
        logs = BanditLogs(
            self._context.matrix(),
            labels[action],
            np.array(self._reward),
            np.array(self._propensity),
            actions=labels,
            available=available,
            action_context=self._action_features(
                rounds, codes, shape, max_action_bytes, keep_all_columns
            ),
            logging_proba=logging_proba,
            timestamp=timestamp,
            sample_weight=None if (weight == 1.0).all() else weight,
        )
        if self._evaluated:
            evaluated = np.zeros(shape)
            evaluated[np.arange(len(self)), code_of(self._evaluated)] = 1.0
            logs = logs.with_columns(evaluated=evaluated)
        return logs

    def _offered(self):
        """Return the offered actions, round after round."""
        if self._by_tag or not self._adf:
            return self._offers
        return _numbered_from_zero(np.array(self._n_offers))

    def _labels(self, n_actions):
        """Ordered labels, and the function from what was stored to their codes."""
        if self._by_tag:
            tags = np.array(list(self._tags))
            order = np.argsort(tags)
            codes = np.empty(len(tags), dtype=np.intp)
            codes[order] = np.arange(len(tags))
            return tags[order], lambda stored: codes[np.array(stored, dtype=np.intp)]
        stored = (self._numbers, self._offered(), self._evaluated)
        seen = np.unique(np.concatenate([np.array(a, np.int64) for a in stored]))
        start = 0 if self._adf else 1
        if n_actions is not None:
            if seen[-1] >= start + n_actions:
                raise ValueError(
                    f"the log has action {seen[-1]}, counted from {start}, but "
                    f"n_actions={n_actions}. Pass at least {seen[-1] - start + 1}."
                )
            seen = np.arange(start, start + n_actions)
        return seen, lambda stored: np.searchsorted(seen, np.array(stored, np.int64))


# -- from events of several slots of a Vowpal Wabbit file to slate logs ----------------


class VWSlateRounds(_HashedEvents):
    """Events of several slots, kept until the logs are built."""

    def __init__(self, n_features, n_action_features, action_labels):
        super().__init__(n_features, n_action_features, action_labels)
        self._n_actions = array("q")
        self._events = []  # (slots, reward, weight), the features are hashed
        self._tags, self._timestamps = [], []

    def __len__(self):
        return len(self._events)

    def add(self, event):
        """Take one event."""
        tags = [action.tag for action in event.actions]
        if self._by_tag and not all(tags):
            raise MalformedLineError(
                "an action of the event has no tag; read with action_labels='number'"
            )
        pairs = list(event.shared)
        for at, slot in enumerate(event.slots):
            pairs += [(f"slot{at}.{name}", value) for name, value in slot.features]
        self._add_features(pairs, event.actions)
        self._n_actions.append(len(event.actions))
        slots = [slot._replace(features=None) for slot in event.slots]
        self._events.append((slots, event.reward, event.weight))
        self._tags.append(tags)
        self._timestamps.append(event.timestamp)

    def left_out(self):
        """Return {field: events without it} of what only some of the events have."""
        missing = self._timestamps.count(None)
        return {"'Timestamp'": missing} if 0 < missing < len(self) else {}

    def logs(self, n_actions, keep_all_columns, max_action_bytes):
        """Build the logs."""
        counts = np.array(self._n_actions)
        most = int(counts.max())
        if n_actions is not None:
            if n_actions < most:
                raise ValueError(
                    f"an event has {most} actions, but n_actions={n_actions}. Pass "
                    f"at least {most}."
                )
            most = n_actions
        shape = len(self), most
        slate, slot_reward, slot_propensity, offered, proba = self._slots(counts, most)
        total = [reward for _, reward, _ in self._events]
        by_slot = total[0] is None
        weight = np.array([weight for _, _, weight in self._events])
        columns = {"slot_propensity": slot_propensity}
        if proba is not None:
            columns["slot_proba"] = proba
        signed = by_slot and (slot_reward < 0).any()
        if signed:
            columns["signed_slot_reward"] = slot_reward
        rounds = np.repeat(np.arange(len(self)), counts)
        places = rounds, _numbered_from_zero(counts), shape
        item_id = timestamp = None
        if self._by_tag:
            item_id = np.full(shape, "", dtype=object)
            for row, tags in enumerate(self._tags):
                item_id[row, : len(tags)] = tags
            item_id = item_id.astype(str)
        if None not in self._timestamps:
            timestamp = np.array(self._timestamps).view("datetime64[us]")
        if (weight != 1).any():
            columns["sample_weight"] = weight
        logs = SlateLogs(
            self._context.matrix(),
            slate,
            slot_reward.sum(axis=1) if by_slot else np.array(total),
            item_id=item_id,
            item_features=self._action_features(
                *places, max_action_bytes, keep_all_columns
            ),
            slot_reward=slot_reward if by_slot and not signed else None,
            propensity=slot_propensity.prod(axis=1),
            timestamp=timestamp,
            **self._limits(counts, most, offered),
        )
        return logs.with_columns(**columns)

    def _slots(self, counts, most):
        """Return slates, rewards, propensities, offers, and distributions or None."""
        shape = len(self), max(len(slots) for slots, _, _ in self._events)
        slate = np.full(shape, EMPTY)
        slot_reward, slot_propensity = np.zeros(shape), np.ones(shape)
        offered = np.zeros((*shape, most), dtype=bool)
        proba = np.zeros(offered.shape)
        complete = True
        for row, (slots, _, _) in enumerate(self._events):
            for at, slot in enumerate(slots):
                slate[row, at] = slot.action
                slot_reward[row, at] = slot.reward
                slot_propensity[row, at] = slot.propensity
                own = range(counts[row]) if slot.offered is None else slot.offered
                offered[row, at, own] = True
                complete = complete and slot.proba is not None
                if complete:
                    proba[row, at, own] = slot.proba
        proba = proba if complete else None
        return slate, slot_reward, slot_propensity, offered, proba

    def _limits(self, counts, most, offered):
        """Return the argument of `SlateLogs` that says what may stand in a slot."""
        n_slots = offered.shape[1]
        whole = all(len(slots) == n_slots for slots, _, _ in self._events)
        if not whole or any(
            slot.offered is not None for slots, _, _ in self._events for slot in slots
        ):
            return {"candidates": offered}  # an absent slot offers nothing
        if counts.max() < most:
            return {"candidates": np.arange(most) < counts[:, None]}
        return {"n_candidates": counts if (counts < most).any() else most}
