# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""From events of several slots of a Vowpal Wabbit file to slate logs."""

from array import array

import numpy as np

from skope_ope.logs._slate_logs import EMPTY, SlateLogs
from skope_ope.readers._vw_event import MalformedLineError
from skope_ope.readers._vw_features import ActionFeatures, HashedRows


class VWSlateRounds:
    """Events of several slots, kept until the logs are built."""

    def __init__(self, n_features, n_action_features, action_labels):
        self._by_tag = action_labels == "tag"
        self._context = HashedRows(n_features)
        self._features = (
            ActionFeatures(n_action_features) if n_action_features else None
        )
        self._feature_rows, self._n_actions = array("q"), array("q")
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
        self._context.add(pairs)
        if self._features is not None:
            self._feature_rows.fromlist(self._features.add_all(event.actions))
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
        slate, slot_reward, slot_propensity, offered, proba = self._slots(counts, most)
        total = [reward for _, reward, _ in self._events]
        by_slot = total[0] is None
        weight = np.array([weight for _, _, weight in self._events])
        columns = {"slot_propensity": slot_propensity}
        if proba is not None:
            columns["slot_proba"] = proba
        if by_slot and (slot_reward < 0).any():
            columns["signed_slot_reward"] = slot_reward
        if (weight != 1).any():
            columns["sample_weight"] = weight
        logs = SlateLogs(
            self._context.matrix(),
            slate,
            slot_reward.sum(axis=1) if by_slot else np.array(total),
            item_id=self._labels(len(self), most),
            item_features=self._item_features(
                (len(self), most), counts, keep_all_columns, max_action_bytes
            ),
            slot_reward=slot_reward if by_slot and (slot_reward >= 0).all() else None,
            propensity=slot_propensity.prod(axis=1),
            timestamp=self._times(),
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

    def _item_features(self, shape, counts, keep_all_columns, max_action_bytes):
        if self._features is None or not len(self._feature_rows):
            return None
        rounds = np.repeat(np.arange(len(counts)), counts)
        codes = np.concatenate([np.arange(count) for count in counts])
        return self._features.dense(
            np.array(self._feature_rows),
            rounds,
            codes,
            shape,
            max_action_bytes,
            keep_all_columns,
        )

    def _labels(self, n_rounds, most):
        if not self._by_tag:
            return None
        labels = np.full((n_rounds, most), "", dtype=object)
        for row, tags in enumerate(self._tags):
            labels[row, : len(tags)] = tags
        return labels.astype(str)

    def _times(self):
        if None in self._timestamps:
            return None
        return np.array(self._timestamps).view("datetime64[us]")
