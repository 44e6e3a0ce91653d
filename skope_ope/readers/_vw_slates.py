# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Vowpal Wabbit's logs of several slots: ccb and slates, as text and as JSON.

In a ccb log every slot has a cost of its own and takes one of the actions that the
slots before it left. In a slates log the event has one cost, every action belongs to
one slot, and a slot numbers its own actions from 0.
"""

from skope_ope.logs._text_files import quoted, whole_number
from skope_ope.readers._jsonl_columns import JsonPairs, load
from skope_ope.readers._vw_json import (
    DECISIVE,
    as_number,
    check_keys,
    checked_sum,
    features_of_object,
    is_integer,
    is_skipped,
    timestamp_of,
    weight_of_kept,
)
from skope_ope.readers._vw_text import (
    MalformedLineError,
    VWSlateEvent,
    VWSlot,
    check_outcome,
    parse_features,
    split_line,
)


class Draft:
    """An event as it is read: actions with their slots, outcomes by slot."""

    def __init__(self, kind):
        self.kind = kind
        self.shared = self.cost = None
        self.actions, self.tags, self.slot_of = [], [], []
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
        for number, outcome in enumerate(self.outcomes):
            slot = self._slot(number, *outcome)
            if slot.action in shown:
                raise MalformedLineError(
                    f"slot {number} shows action {slot.action}, which an earlier slot "
                    "shows already"
                )
            shown.add(slot.action)
            slots.append(slot)
        parts = (slots, reward, self.shared or [], self.actions, self.tags)
        return VWSlateEvent(*parts, timestamp, weight)

    def _slot(self, number, names, proba, cost):
        """Build a slot from the actions that its label names; the first is shown."""
        offered = self.offers[number]
        if self.kind == "slates":
            offered = [a for a, slot in enumerate(self.slot_of) if slot == number]
        everything = range(len(self.actions))
        if offered is not None:
            _check_actions(f"slot {number} offers", offered, len(everything))
        own = everything if self.kind == "ccb" else offered
        _check_actions(f"slot {number} shows", names, len(own))
        action = own[names[0]]
        if offered is not None and action not in offered:
            raise MalformedLineError(
                f"slot {number} shows action {action}, which is not among those it "
                f"offers ({offered})"
            )
        reward, propensity = check_outcome(cost, proba[0])
        total, whole = checked_sum(proba, len(own)), None
        if self.kind == "slates" and len(names) == len(own) and abs(total - 1) <= 1e-5:
            by_name = dict(zip(names, proba, strict=True))
            whole = [by_name[name] / total for name in range(len(own))]
        features = self.features[number]
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


def parse_slates_text(block, kind):
    """Parse the (number, line) pairs of one event of a `kind` log in text."""
    draft = Draft(kind)
    for number, line in block:
        try:
            _read_line(draft, line)
        except MalformedLineError as error:
            error.line = number
            raise
    return draft.event()


def _read_line(draft, line):
    words, tag, text = split_line(line)
    role = words[1] if len(words) > 1 and words[0] == draft.kind else None
    features, rest = parse_features(text), words[2:]
    if role == "shared":
        if draft.shared is not None or draft.actions or draft.offers:
            raise MalformedLineError(
                f"'{draft.kind} shared' must be the first line of its event; put an "
                "empty line between events"
            )
        draft.shared = features
        if draft.kind == "slates" and rest:
            draft.cost = as_number("cost of the event", rest.pop(0))
    elif role == "action":
        draft.actions.append(features)
        draft.tags.append(tag)
        if draft.kind == "slates":
            slot = rest.pop(0) if rest else ""
            draft.slot_of.append(_from_zero(slot, "the slot's number"))
    elif role == "slot":
        offers = None
        if rest and ":" not in rest[-1]:
            offers = [_from_zero(part, "an action") for part in rest.pop().split(",")]
        draft.offers.append(offers)
        draft.outcomes.append(_text_outcome(draft.kind, rest.pop(0)) if rest else None)
        draft.features.append(features)
    else:
        raise MalformedLineError(
            f"a line of a {draft.kind} log starts with '{draft.kind} shared', "
            f"'{draft.kind} action' or '{draft.kind} slot', got {quoted(line)}"
        )
    if rest:
        raise MalformedLineError(
            f"{quoted(rest[0])} is no part of the label of a {role} of {draft.kind}"
        )


def _text_outcome(kind, word):
    """Return (actions, probabilities, cost): the first action was shown."""
    names, proba, cost = [], [], 0.0
    for number, part in enumerate(word.split(",")):
        fields = part.split(":")
        want = 3 if kind == "ccb" and number == 0 else 2
        if len(fields) != want:
            form = "action:cost:probability" if want == 3 else "action:probability"
            raise MalformedLineError(
                f"the label {quoted(part)} is not of the form {form}"
            )
        names.append(_from_zero(fields[0], "an action"))
        proba.append(as_number("probability", fields[-1]))
        if want == 3:
            cost = as_number("cost", fields[1])
    return names, proba, cost


def _from_zero(text, what):
    """Return the whole number from 0 that a text spells."""
    try:
        found = whole_number(text)
    except ValueError:
        found = -1
    if found < 0:
        raise MalformedLineError(f"{what} is a number from 0, got {quoted(text)}")
    return found


def parse_slates_json(line, kind):
    """Parse one line of a `kind` log in JSON; None where it has no outcome."""
    event = load(line)
    container = event.get("c")
    if not isinstance(container, JsonPairs):
        raise MalformedLineError("'c' with the actions and the slots is missing")
    check_keys(event, DECISIVE)
    if is_skipped(event):
        return None
    draft = Draft(kind)
    draft.shared = features_of_object(container)
    for action in _objects_in(container, "_multi"):
        draft.actions.append(features_of_object(action))
        draft.tags.append(action.get("_tag"))
        if kind == "slates":
            slot = action.get("_slot_id")
            if not is_integer(slot):
                raise MalformedLineError(f"'_slot_id' of an action is {quoted(slot)}")
            draft.slot_of.append(slot)
    for slot in _objects_in(container, "_slots"):
        draft.features.append(features_of_object(slot))
        offers = slot.get("_inc")
        if offers is not None and not isinstance(offers, list):
            raise MalformedLineError(f"'_inc' must be an array, got {quoted(offers)}")
        draft.offers.append(offers)
    cost = event.get("_label_cost")
    draft.cost = None if cost is None else as_number("cost", cost)
    outcomes = event.get("_outcomes")
    if outcomes is None:
        outcomes = [JsonPairs()] * len(draft.features)
    if not isinstance(outcomes, list) or len(outcomes) != len(draft.features):
        raise MalformedLineError(
            f"'_outcomes' must have one entry per slot ({len(draft.features)})"
        )
    draft.outcomes = [_json_outcome(kind, outcome) for outcome in outcomes]
    return draft.event(
        timestamp_of(event.get("Timestamp")), weight_of_kept(event.get("pdrop"))
    )


def _objects_in(container, key):
    found = container.get(key)
    if not isinstance(found, list) or not all(isinstance(o, JsonPairs) for o in found):
        raise MalformedLineError(f"'{key}' must be an array of objects")
    return found


def _json_outcome(kind, outcome):
    names, proba, cost = (outcome.get(k) for k in ("_a", "_p", "_label_cost"))
    if names is None or proba is None or (kind == "ccb" and cost is None):
        return None
    names = names if isinstance(names, list) else [names]
    proba = proba if isinstance(proba, list) else [proba]
    if not names:
        raise MalformedLineError("'_a' must hold actions, counted from 0")
    if len(names) != len(proba):
        raise MalformedLineError(
            f"'_a' has {len(names)} entries and '_p' has {len(proba)}"
        )
    cost = 0.0 if kind == "slates" else as_number("cost", cost)
    return names, [as_number("probability", p) for p in proba], cost
