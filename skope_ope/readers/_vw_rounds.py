# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""From the events of a Vowpal Wabbit file to logs."""

from array import array

import numpy as np

from skope_ope.logs._bandit_logs import BanditLogs
from skope_ope.logs._slate_fields import EMPTY
from skope_ope.logs._slate_logs import SlateLogs
from skope_ope.readers._vw_features import ActionFeatures, HashedRows
from skope_ope.readers._vw_text import MalformedLineError


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
            self._feature_rows.fromlist(self._features.add_all(actions))

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
            offers = self._codes_of_tags(event.tags)
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
        if self._by_tag and not all(event.tags):
            raise MalformedLineError(
                "an action of the event has no tag; read with action_labels='number'"
            )
        pairs = list(event.shared)
        for number, slot in enumerate(event.slots):
            pairs += [(f"slot{number}.{name}", value) for name, value in slot.features]
        self._add_features(pairs, event.actions)
        self._n_actions.append(len(event.actions))
        slots = [slot._replace(features=None) for slot in event.slots]
        self._events.append((slots, event.reward, event.weight))
        self._tags.append(event.tags)
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
            for number, slot in enumerate(slots):
                slate[row, number] = slot.action
                slot_reward[row, number] = slot.reward
                slot_propensity[row, number] = slot.propensity
                own = range(counts[row]) if slot.offered is None else slot.offered
                offered[row, number, own] = True
                complete = complete and slot.proba is not None
                if complete:
                    proba[row, number, own] = slot.proba
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
