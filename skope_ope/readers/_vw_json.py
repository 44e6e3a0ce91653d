# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Vowpal Wabbit's JSON formats: `--json` and `--dsjson`, one event a line."""

import math

from skope_ope.logs._text_files import (
    DoubtError,
    quoted,
    utc_microseconds,
    whole_number,
)
from skope_ope.readers._json_lines import (
    JSON_OBJECTS,
    JsonPairs,
    MalformedLineError,
    load,
    load_plain,
)
from skope_ope.readers._vw_events import (
    VW_ACTIONS,
    Action,
    Draft,
    OtherLogError,
    VWEvent,
    _checked_list,
    _rounding,
    as_number,
    check_outcome,
    checked_sum,
    is_integer,
    other_log,
)
from skope_ope.readers._vw_text import parse_cb

LABEL_KEYS = {"_label_cost", "_label_probability", "_label_Action", "_labelIndex"}
OTHER_KEYS = {"_slots", "_outcomes", "_label_ca"}  # of other kinds of logs
TAGS = {str, type(None)}
MOST_KINDS = 2**10  # of events that are remembered


def parse_json(line):
    """Parse one line of `--json`; None where no action has a cost and probability."""
    event = load(line)
    check_keys(event)
    _refuse_other_logs(event, event)
    return _parse(event, event)


class DSJsonParser:
    """Parse lines of `--dsjson`; None where the event is not to be learned from."""

    # Ordinary events take a short way. What is wrong with a line is said by
    # `parse_dsjson`, which reads all of it.

    def __init__(self):
        self._actions = KnownActions(load_plain, features_of_object)
        self._ordinary = {}  # by the keys of events, in their order

    def __call__(self, line):
        """Parse one line."""
        try:
            try:
                rest, actions, tags = self._actions.lift(line)
                return self._parse(load_plain(rest), actions, tags)
            except DoubtError:
                parsed = _parse_dsjson(load_plain(line))
                if parsed and not TAGS.issuperset(map(type, parsed.tags or ())):
                    raise DoubtError from None  # written in another way than read
                return parsed
        except (DoubtError, MalformedLineError, OtherLogError):
            return parse_dsjson(line)

    def _parse(self, event, actions, tags):
        """Parse an event whose actions were cut out, as `_parse_dsjson` would."""
        keys = tuple(event)
        ordinary = self._ordinary.get(keys)
        if ordinary is None:
            if len(self._ordinary) >= MOST_KINDS:
                self._ordinary.clear()
            ordinary = self._ordinary[keys] = _is_ordinary(keys)
        container = event.get("c")
        if not ordinary or type(container) is not dict:
            raise DoubtError
        if container.get("_multi") != LIFTED or not OTHER_KEYS.isdisjoint(container):
            raise DoubtError
        _refuse_feedback(event.get("o"))
        cost, probability = event.get("_label_cost"), event.get("_label_probability")
        if is_skipped(event) or cost is None or probability is None:
            return None
        position, action = event.get("_labelIndex"), event.get("_label_Action")
        if type(position) is not int or not 0 <= position < len(actions):
            raise DoubtError
        reward, propensity = check_outcome(
            as_number("cost", cost), as_number("probability", probability)
        )
        return VWEvent(
            position,
            reward,
            propensity,
            features_of_object(container),
            actions=actions,
            tags=tags,
            timestamp=timestamp_of(event.get("Timestamp")),
            weight=weight_of_kept(event.get("pdrop")),
            **_said_twice(event, action, position, propensity, actions),
        )


def _is_ordinary(keys):
    """Tell whether the label is told by the usual keys, of this kind of log."""
    labels = {key for key in keys if key.startswith("_label")}
    return labels <= LABEL_KEYS and OTHER_KEYS.isdisjoint(keys)


def parse_dsjson(line):
    """Parse one line of `--dsjson`; None where the event is not to be learned from."""
    return _parse_dsjson(load(line))


def _parse_dsjson(event):
    check_keys(event, DECISIVE)
    container = event.get("c")
    if container is None:
        container = JsonPairs()
    if not isinstance(container, JSON_OBJECTS):
        raise MalformedLineError(f"'c' must be an object, got {quoted(container)}")
    _refuse_other_logs(event, container)
    if not container and _label_of(event) is not None:
        raise MalformedLineError("the event has a label, but no 'c' with the decision")
    if not container or is_skipped(event):
        return None  # a reward without its decision, or a decision not acted upon
    parsed = _parse(event, container)
    if parsed is None:
        return None
    twice = {}
    if parsed.actions is not None:
        labels = (v for key, v in event.items() if key.lower() == "_label_action")
        action = next(labels, None)
        twice = _said_twice(
            event, action, parsed.action, parsed.propensity, parsed.actions
        )
    return parsed._replace(
        timestamp=timestamp_of(event.get("Timestamp")),
        weight=weight_of_kept(event.get("pdrop")),
        **twice,
    )


def _said_twice(event, action, position, propensity, actions):
    """Return the distribution and the counting, where they agree with the label."""
    given = event.get("a"), event.get("p")
    return {
        "base": None if action is None else label_base(action, position),
        "proba": logging_proba(*given, position, propensity, len(actions)),
    }


def is_skipped(event):
    """Tell whether an event is marked as one not to learn from."""
    skipped = event.get("_skipLearn", False)
    if not isinstance(skipped, bool):
        raise MalformedLineError(
            f"'_skipLearn' is {quoted(skipped)}, not true or false"
        )
    return skipped


def _parse(event, container):
    multi = container.get("_multi")
    if multi is None:
        return _parse_without_multi(event, container)
    logged, position = _label_of(event), event.get("_labelIndex")
    actions, tags, logged, position = _actions(multi, logged, position)
    if logged is None:
        return None
    if position is None:
        raise MalformedLineError(
            "the event has a cost, but no '_labelIndex', the number of the chosen "
            "entry of '_multi', counted from 0"
        )
    if not is_integer(position) or not 0 <= position < len(actions):
        raise MalformedLineError(
            f"'_labelIndex' is {quoted(position)} and '_multi' has {len(actions)} "
            "actions, counted from 0"
        )
    outcome = check_outcome(*logged[1:])
    return VWEvent(
        position, *outcome, features_of_object(container), actions=actions, tags=tags
    )


def _actions(multi, logged, position):
    """Return features and tags of the actions, and the label with its position."""
    if not isinstance(multi, list) or isinstance(multi, JsonPairs) or not multi:
        raise MalformedLineError("'_multi' must be an array with one object per action")
    actions, tags = [], []
    for k, action in enumerate(multi):
        if not isinstance(action, JSON_OBJECTS):
            raise MalformedLineError(f"'_multi' holds {quoted(action)}, not an object")
        own = _label_of(action)
        if own is not None:
            if logged is not None:
                raise MalformedLineError("more than one action carries a cost")
            if position not in (None, k):
                raise MalformedLineError(
                    f"'_labelIndex' is {quoted(position)} and action {k} carries the "
                    "cost"
                )
            logged, position = own, k
        actions.append(features_of_object(action))
        tags.append(action.get("_tag"))
    return actions, tags, logged, position


def _parse_without_multi(event, container):
    """Parse an event without `_multi`; actions are numbered as in `--cb`."""
    if isinstance(event.get("_label"), str):
        parsed = parse_cb(event.get("_label") + " |")
        return parsed and parsed._replace(shared=features_of_object(container))
    logged = _label_of(event)
    if logged is None:
        return None
    if not is_integer(logged[0]) or not 0 < logged[0] < VW_ACTIONS:
        raise MalformedLineError(
            f"'_label_Action' is {quoted(logged[0])}; without '_multi' it must be the "
            "number of the action, counted from 1"
        )
    return VWEvent(
        logged[0], *check_outcome(*logged[1:]), features_of_object(container)
    )


def _label_of(event):
    """Return (action, cost, probability), None where one of the last is absent."""
    parts = {
        key[7:].lower(): value
        for key, value in event.items()
        if key.startswith("_label_")
    }
    whole = event.get("_label")
    if isinstance(whole, str):
        words = whole.split(":")
        if len(words) > 3:
            raise MalformedLineError(
                f"the label {quoted(whole)} is not of the form action:cost:probability"
            )
        found = dict(zip(("action", "cost", "probability"), words, strict=False))
    elif isinstance(whole, JSON_OBJECTS):
        found = {key.lower(): value for key, value in whole.items()}
    else:
        found, parts = parts, {}
    if parts.get("cost") is not None:
        raise MalformedLineError("both '_label' and '_label_cost' are given")
    cost, probability = found.get("cost"), found.get("probability")
    if cost is None or probability is None:
        return None
    return (
        found.get("action"),
        as_number("cost", cost),
        as_number("probability", probability),
    )


def _refuse_other_logs(event, container):
    keys = {key for part in (event, container) for key, _ in part.items()}
    if not keys.isdisjoint({"_slots", "_outcomes"}):
        actions = container.get("_multi")
        actions = actions if isinstance(actions, list) else []
        # slates say for each action to which slot it belongs
        slates = any(
            isinstance(a, JSON_OBJECTS) and "_slot_id" in dict(a) for a in actions
        )
        raise other_log("slates" if slates else "ccb")
    if "_label_ca" in keys:
        raise other_log("ca")
    _refuse_feedback(event.get("o"))


def _refuse_feedback(observations):
    if isinstance(observations, list) and any(
        isinstance(o, JSON_OBJECTS) and "_definitely_bad" in dict(o)
        for o in observations
    ):
        raise other_log("igl")


def features_of_object(container):
    pairs = []
    try:
        _add_features(container, "", pairs)
    except RecursionError as error:
        raise MalformedLineError("objects are nested too deeply") from error
    return pairs


def _add_features(container, path, out):
    """Append the (name, value) pairs of an object, named `path^key`."""
    prefix = f"{path}^" if path else ""
    for key, value in container.items():
        kind = type(value)
        if key[:1] == "_":
            if key == "_text" and isinstance(value, str):
                out.extend((prefix + word, 1.0) for word in value.split())
            elif key == "__aid":
                raise MalformedLineError(
                    "'__aid' refers to features that are stored elsewhere; write them "
                    "into the event"
                )
        elif kind is str:
            out.append((f"{prefix}{key}={value}", 1.0))
        elif kind in JSON_OBJECTS:
            _add_features(value, f"{path}.{key}" if path else key, out)
        elif kind is list:
            _add_array(value, f"{path}.{key}" if path else key, out)
        elif value:  # true, or a number other than 0; null is no feature
            out.append((prefix + key, _feature_value(value)))


def _add_array(array, path, out):
    """Objects add to the namespace, numbers are numbered, texts are features."""
    number = 0
    for value in array:
        if isinstance(value, JSON_OBJECTS):
            _add_features(value, path, out)
        elif isinstance(value, list):
            raise MalformedLineError(f"{quoted(path)} holds an array inside an array")
        elif isinstance(value, str):
            out.append((f"{path}^{value}", 1.0))
        elif value is not None:
            if value:
                out.append((f"{path}^{number}", _feature_value(value)))
            number += 1


def _feature_value(value):
    try:
        value = float(value)
    except OverflowError:
        value = math.inf
    if not math.isfinite(value):
        raise MalformedLineError("a feature value is too large for a number")
    return value


def timestamp_of(text):
    if text is None:
        return None
    try:
        return utc_microseconds(text)
    except (TypeError, ValueError, OverflowError) as error:
        raise MalformedLineError(
            f"'Timestamp' is {quoted(text)}, not of the form 2021-07-29T10:00:00.999Z"
        ) from error


def weight_of_kept(pdrop):
    if pdrop is None:
        return 1.0
    pdrop = as_number("'pdrop'", pdrop)
    if not 0.0 <= pdrop < 1.0:
        raise MalformedLineError(
            f"'pdrop' is {pdrop:g}; the probability of dropping an event that was "
            "kept must lie in [0, 1)"
        )
    return 1.0 / (1.0 - pdrop)


# -- what an event of dsjson says twice must agree: its label, its action, its `p` -----
# The logged action is `_labelIndex`, from 0, and once more `_label_Action`, which
# writers count from 0 or from 1. Its probability is `_label_probability`, and once more
# in `p`: `a` ranks the actions, from 0 or from 1, and `p[i]` is the probability of
# `a[i]`.

DECISIVE = ("a", "c", "p", "pdrop", "Timestamp", "_skipLearn")  # besides the label
FLOAT32 = 1e-6  # how far copies of 32-bit numbers may be off


def check_keys(event, decisive=()):
    """Raise if a key of the label, or one of `decisive`, has two values."""
    labels = [key.lower() for key, _ in event.items() if key.startswith("_label")]
    if isinstance(event, dict) and len(set(labels)) == len(labels):
        return  # keys of a dictionary differ, but for the case of letters
    first = {}
    for key, value in event.items():
        if key in decisive or key.startswith("_label"):
            known = first.setdefault(key.lower(), value)
            if known is not value and known != value:
                raise MalformedLineError(
                    f"{key!r} occurs twice, as {quoted(known)} and as {quoted(value)}"
                )


def label_base(action, position):
    """Return from which number `_label_Action` counts."""
    try:
        number = whole_number(action) if isinstance(action, str) else action
    except ValueError:
        number = None
    if not is_integer(number) or number - position not in (0, 1):
        raise MalformedLineError(
            f"'_label_Action' is {quoted(action)} and '_labelIndex' is {position}; the "
            f"first must be {position}, counted from 0, or {position + 1}, from 1"
        )
    return number - position


def logging_proba(ranking, proba, position, propensity, n_actions):
    """Return the logging distribution in the order of the actions."""
    ordered = _plain_proba(ranking, proba, position, propensity, n_actions)
    if ordered is not None:
        return ordered
    total = checked_sum(proba, n_actions) if proba else 0.0
    if not ranking:
        return None
    if proba and len(proba) != len(_checked_list("a", ranking)):
        raise MalformedLineError(
            f"'a' has {len(ranking)} entries and 'p' has {len(proba)}"
        )
    places = _places_by_base(ranking, position, n_actions)
    if not proba:
        return None
    off = min(abs(proba[place] - propensity) for place in places.values())
    if off > FLOAT32 and off > max(_rounding([propensity]), _rounding(proba)):
        told = " or ".join(f"{proba[place]:.9g}" for place in places.values())
        raise MalformedLineError(
            f"'_label_probability' is {propensity:.9g}, and 'p' gives {told} to the "
            "logged action"
        )
    if len(ranking) < n_actions or abs(total - 1.0) > FLOAT32 or off > FLOAT32:
        return None
    (base,) = places  # all actions are ranked: they count from one number
    ordered = [0.0] * n_actions
    for action, p in zip(ranking, proba, strict=True):
        ordered[action - base] = p / total
    return ordered


def _plain_proba(ranking, proba, position, propensity, n_actions):
    """Return the distribution if nothing is odd about it, None otherwise."""
    # That is the case in nearly all events, and few passes in C tell it.
    if type(ranking) is not list or type(proba) is not list:
        return None
    if not len(ranking) == len(proba) == n_actions:
        return None
    if set(map(type, ranking)) != {int} or set(map(type, proba)) != {float}:
        return None
    total, base = sum(proba), min(ranking)
    if abs(total - 1.0) > FLOAT32 or min(proba) < 0.0 or max(proba) > 1.0:
        return None
    p_of = dict(zip(ranking, proba, strict=True))
    last = base + n_actions - 1
    if base not in (0, 1) or max(ranking) != last or len(p_of) < n_actions:
        return None
    if abs(p_of[position + base] - propensity) > FLOAT32:
        return None
    ordered = [*map(p_of.__getitem__, range(base, last + 1))]
    return ordered if total == 1.0 else [p / total for p in ordered]


def _places_by_base(ranking, position, n_actions):
    """Return {base: place of the logged action in `a`} of the possible bases."""
    if set(map(type, ranking)) != {int}:
        wrong = [action for action in ranking if not is_integer(action)]
        raise MalformedLineError(
            f"'a' holds {quoted(wrong[0])}, which is not the number of an action"
        )
    low, high = min(ranking), max(ranking)
    bases = [base for base in (0, 1) if base <= low and high < n_actions + base]
    if not bases:
        found = low if low < 0 else high
        both = " and counts from 0" if high == n_actions and low == 0 else ""
        raise MalformedLineError(
            f"'a' names action {quoted(found)}{both}; the event has {n_actions} actions"
        )
    if len(set(ranking)) < len(ranking):
        twice = next(action for action in ranking if ranking.count(action) > 1)
        raise MalformedLineError(f"'a' names action {twice} twice")
    places = {
        base: ranking.index(position + base)
        for base in bases
        if position + base in ranking
    }
    if not places:
        raise MalformedLineError(
            f"'a' leaves out the logged action, which is {position}, counted from 0"
        )
    return places


# -- actions of dsjson that stand in many events, parsed once --------------------------
# A catalogue comes again in every event, and is most of its text. The text of `_multi`
# is cut at "},{". Where each piece by itself is an object of JSON, the pieces are the
# actions: no other reading of the text is possible. Whatever is cut in a wrong place is
# no JSON, and the event is then parsed as a whole. So are the events of a file whose
# actions are seldom met again.

MULTI_START = '"_multi":[{'
MULTI_END = '}]},"'
LIFTED = "lifted"  # stands for an array that was cut out
LONGEST_KNOWN = 2**12  # characters of an action that is remembered
MOST_KNOWN = 2**14  # actions that are remembered
TRIALS = 2**12  # new actions, beyond those that came again, until no more are cut out
FEATURE_KEYS = ("_tag", "_text")  # keys that go with features


class KnownActions:
    """Actions by their text."""

    def __init__(self, load, features_of):
        self._load, self._features_of = load, features_of
        self._known = {}
        self._left = TRIALS
        self._last = None, None, None  # text, actions and tags of a whole catalogue

    def lift(self, line):
        """Get a line with `LIFTED` for `_multi`, the actions there, and their tags."""
        if self._left < 0:
            raise DoubtError
        start = line.find(MULTI_START)
        stop = line.find(MULTI_END, start)
        # a quote behind these begins a key, and does not stand inside a text
        if start < 1 or stop < 0 or line[start - 1] not in "{,":
            raise DoubtError
        if line.count('"_multi"') > 1:
            raise DoubtError
        first = start + len(MULTI_START)
        text = line[first:stop]
        if text != self._last[0]:
            actions = self._all_of(text.split("},{"))
            self._last = text, actions, [action.tag for action in actions]
        _, actions, tags = self._last
        return f'{line[: first - 2]}"{LIFTED}"{line[stop + 2 :]}', actions, tags

    def _all_of(self, pieces):
        actions = [*map(self._known.get, pieces)]
        n_new = actions.count(None)
        self._left = min(self._left + len(actions) - 2 * n_new, TRIALS)
        return [self._of(piece) for piece in pieces] if n_new else actions

    def _of(self, piece):
        action = self._known.get(piece)
        if action is None:
            parsed = self._load(f"{{{piece}}}")
            if any(key[0] == "_" and key not in FEATURE_KEYS for key in parsed if key):
                raise DoubtError  # a label, or a part of another kind of log
            action = Action(self._features_of(parsed))
            action.tag = parsed.get("_tag")
            if action.tag is not None and type(action.tag) is not str:
                raise DoubtError
            if len(self._known) >= MOST_KNOWN:
                self._known.clear()
            if len(piece) <= LONGEST_KNOWN:
                self._known[piece] = action
        return action


# -- events of several slots: ccb and slates -------------------------------------------


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
