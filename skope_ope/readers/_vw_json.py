# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Vowpal Wabbit's JSON formats: `--json` and `--dsjson`, one event a line."""

import math
from functools import lru_cache

from skope_ope.logs._fields import FLOAT_MAX
from skope_ope.logs._text_files import (
    quoted,
    utc_microseconds,
    whole_number,
)
from skope_ope.readers._json_lines import MalformedLineError, load
from skope_ope.readers._vw_events import (
    VW_ACTIONS,
    Action,
    Draft,
    OtherLogError,
    VWEvent,
    VWSlot,
    as_number,
    check_outcome,
    checked_list,
    checked_sum,
    is_integer,
    other_log,
    written_rounding,
)
from skope_ope.readers._vw_text import parse_cb

LABEL_KEYS = {"_label_cost", "_label_probability", "_label_Action", "_labelIndex"}
SLOT_KEYS = {"_slots", "_outcomes"}  # of logs of several slots
OTHER_KEYS = {*SLOT_KEYS, "_label_ca"}  # of other kinds of logs
MOST_LAYOUTS = 2**12  # keys of objects that are remembered


def parse_json(line, known):
    """Parse one line of `--json`; None where no action has a cost and probability."""
    return _parsed_line(line, known, _event_of_json)


def parse_dsjson(line, known):
    """Parse one line of `--dsjson`; None where the event is not to be learned from."""
    return _parsed_line(line, known, _event_of_dsjson)


def _parsed_line(line, known, event_of):
    """Return the event of a line, of which known actions need not be parsed."""
    if known.is_useful:
        try:
            rest, actions = _cut(line, known)
            if actions is not None:
                return event_of(load(rest), actions)
        except (MalformedLineError, OtherLogError):
            pass  # the whole line tells what is wrong
    return event_of(load(line))


def _event_of_json(event, actions=None):
    fields = checked_fields(event)
    _refuse_other_logs(fields, fields)
    return _event(fields, event, fields, actions)


def _event_of_dsjson(event, actions=None):
    fields = checked_fields(event, DECISIVE)
    container = fields.get("c")
    if container is None:
        container = ()
    if type(container) is not tuple:
        raise MalformedLineError(f"'c' must be an object, got {quoted(container)}")
    inner = dict(container)
    _refuse_other_logs(fields, inner)
    if not container and _label_of(fields) is not None:
        raise MalformedLineError("the event has a label, but no 'c' with the decision")
    if not container or is_skipped(fields):
        return None  # a reward without its decision, or a decision not acted upon
    return _event(fields, container, inner, actions, is_decision=True)


# A catalogue comes again in every event, and is most of its text. The text of `_multi`
# is cut between its objects. Where each piece by itself is an object of JSON, the
# pieces are the actions: no other reading of the text is possible. Whatever is cut in a
# wrong place is no JSON, and the event is then parsed as a whole.

MULTI = '"_multi":'
CUT = 0  # stands for an array that was cut out


def _cut(line, known):
    """Return a line with `CUT` for `_multi`, and the actions there, None if unclear."""
    start = line.find(MULTI)
    # a quote behind one of these begins a key, and does not stand inside a text
    if start < 1 or line[start - 1] not in "{, " or line.count('"_multi"') > 1:
        return line, None
    first = start + len(MULTI)
    blank = " " if line[first : first + 1] == " " else ""
    stops = [line.find(end, first) for end in ("}]}}", f'}}]}},{blank}"')]
    if line.endswith("}]}"):
        stops.append(len(line) - 3)
    stop = min((stop for stop in stops if stop >= 0), default=-1)
    if stop < 0 or not line.startswith("[{", first + len(blank)):
        return line, None
    pieces = line[first + len(blank) + 2 : stop].split(f"}},{blank}{{")
    actions = known.all_of(pieces, pieces, _action_of_piece)
    return f"{line[:first]}{CUT}{line[stop + 2 :]}", actions


def _action_of_piece(piece):
    return action_of_object(load(f"{{{piece}}}"))


def is_skipped(event):
    """Tell whether an event is marked as one not to learn from."""
    skipped = event.get("_skipLearn", False)
    if not isinstance(skipped, bool):
        raise MalformedLineError(
            f"'_skipLearn' is {quoted(skipped)}, not true or false"
        )
    return skipped


def _event(event, container, inner, actions, is_decision=False):
    """Return the event; `inner` holds the fields of its container."""
    multi = inner.get("_multi")
    if actions is not None:
        if multi != CUT:  # it is elsewhere
            raise MalformedLineError("'_multi' is in another place")
    elif multi is not None:
        if type(multi) is not list or not multi:
            raise MalformedLineError(
                "'_multi' must be an array with one object per action"
            )
        actions = [*map(action_of_object, multi)]
    logged = _without_multi(event) if multi is None else _among_actions(event, actions)
    if logged is None:
        return None
    shared = features_of_object(container)
    if not is_decision:
        return VWEvent([VWSlot(*logged)], shared, actions)
    base, when = None, timestamp_of(event.get("Timestamp"))
    if actions is not None:
        position, _, propensity = logged
        told, base = (event.get("a"), event.get("p")), label_base(event, position)
        proba = logging_proba(*told, position, propensity, len(actions))
        logged = *logged, None, proba
    weight = weight_of_kept(event.get("pdrop"))
    return VWEvent([VWSlot(*logged)], shared, actions, None, when, weight, base)


def action_of_object(pairs):
    """Return an action of JSON, with what its keys say that are no features."""
    if type(pairs) is not tuple:
        raise MalformedLineError(f"'_multi' holds {quoted(pairs)}, not an object")
    marks = {}
    features = features_of_object(pairs, marks)
    return Action(features, marks.pop("_tag", None), marks)


def _among_actions(event, actions):
    """Return (position, reward, propensity), None where no action has both."""
    logged, position = _label_of(event), event.get("_labelIndex")
    for k in [k for k, action in enumerate(actions) if action.marks]:
        own = _label_of(actions[k].marks)
        if own is not None:
            if logged is not None:
                raise MalformedLineError("more than one action carries a cost")
            if position not in (None, k):
                raise MalformedLineError(
                    f"'_labelIndex' is {quoted(position)} and action {k} carries the "
                    "cost"
                )
            logged, position = own, k
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
    return position, *check_outcome(*logged[1:])


def _without_multi(event):
    """Return action, numbered as in `--cb`, reward, propensity, and what is offered."""
    if isinstance(event.get("_label"), str):
        parsed = parse_cb(event.get("_label") + " |")
        return parsed and parsed.slots[0]
    logged = _label_of(event)
    if logged is None:
        return None
    if not is_integer(logged[0]) or not 0 < logged[0] < VW_ACTIONS:
        raise MalformedLineError(
            f"'_label_Action' is {quoted(logged[0])}; without '_multi' it must be the "
            "number of the action, counted from 1"
        )
    return logged[0], *check_outcome(*logged[1:])


@lru_cache(MOST_LAYOUTS)
def label_keys(keys):
    """Return the keys of a label among some keys, as they are and in small letters."""
    return [(key, key.lower()) for key in keys if key.startswith("_label")]


def _label_of(event):
    """Return (action, cost, probability), None where one of the last is absent."""
    keys = label_keys(tuple(event))
    parts = {low[7:]: event[key] for key, low in keys if low[6:7] == "_"}
    whole = event.get("_label")
    if isinstance(whole, str):
        words = whole.split(":")
        if len(words) > 3:
            raise MalformedLineError(
                f"the label {quoted(whole)} is not of the form action:cost:probability"
            )
        found = dict(zip(("action", "cost", "probability"), words, strict=False))
    elif type(whole) is tuple:
        found = {key.lower(): value for key, value in whole}
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


def _refuse_other_logs(event, inner):
    if not (OTHER_KEYS.isdisjoint(event) and OTHER_KEYS.isdisjoint(inner)):
        if SLOT_KEYS.isdisjoint(event) and SLOT_KEYS.isdisjoint(inner):
            raise other_log("ca")
        actions = inner.get("_multi")
        # slates say for each action to which slot it belongs
        slates = type(actions) is list and any(_has(a, "_slot_id") for a in actions)
        raise other_log("slates" if slates else "ccb")
    observed = event.get("o")
    if type(observed) is list and any(_has(o, "_definitely_bad") for o in observed):
        raise other_log("igl")


def _has(value, key):
    return type(value) is tuple and key in dict(value)


def features_of_object(pairs, marks=None):
    """Return the features of an object; `marks` takes what else its own keys say."""
    features = []
    try:
        _add_features(pairs, "", features, marks)
    except RecursionError as error:
        raise MalformedLineError("objects are nested too deeply") from error
    return features


def _add_features(pairs, path, out, marks=None):
    """Append the (name, value) pairs of an object, named `path^key`."""
    prefix = f"{path}^" if path else ""
    for key, value in pairs:
        kind = type(value)
        if key[:1] == "_":
            if key == "_text" and kind is str:
                out.extend((prefix + word, 1.0) for word in value.split())
            elif key == "__aid":
                raise MalformedLineError(
                    "'__aid' refers to features that are stored elsewhere; write them "
                    "into the event"
                )
            elif marks is not None:
                marks[key] = value
        elif kind is str:
            out.append((f"{prefix}{key}={value}", 1.0))
        elif kind is float and -FLOAT_MAX <= value <= FLOAT_MAX:
            if value:
                out.append((prefix + key, value))
        elif kind is tuple:
            _add_features(value, f"{path}.{key}" if path else key, out)
        elif kind is list:
            _add_array(value, f"{path}.{key}" if path else key, out)
        elif value:  # true, or a number other than 0; null is no feature
            out.append((prefix + key, _feature_value(value)))


def _add_array(array, path, out):
    """Objects add to the namespace, numbers are numbered, texts are features."""
    number = 0
    for value in array:
        kind = type(value)
        if kind is tuple:
            _add_features(value, path, out)
        elif kind is list:
            raise MalformedLineError(f"{quoted(path)} holds an array inside an array")
        elif kind is str:
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


def checked_fields(event, decisive=()):
    """Return the last value of every key; labels and `decisive` keys have but one."""
    fields = dict(event)
    labels = label_keys(tuple(fields))
    if len(fields) == len(event) and len({low for _, low in labels}) == len(labels):
        return fields
    first = {}
    for key, value in event:
        if key in decisive or key.startswith("_label"):
            known = first.setdefault(key.lower(), value)
            if known is not value and known != value:
                raise MalformedLineError(
                    f"{key!r} occurs twice, as {quoted(known)} and as {quoted(value)}"
                )
    return fields


def label_base(event, position):
    """Return from which number `_label_Action` counts, None where it is not given."""
    action = event.get("_label_Action")
    if action is None:
        labels = label_keys(tuple(event))
        found = (event[key] for key, low in labels if low == "_label_action")
        action = next(found, None)
        if action is None:
            return None
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
    if proba and len(proba) != len(checked_list("a", ranking)):
        raise MalformedLineError(
            f"'a' has {len(ranking)} entries and 'p' has {len(proba)}"
        )
    places = _places_by_base(ranking, position, n_actions)
    if not proba:
        return None
    off = min(abs(proba[place] - propensity) for place in places.values())
    if off > FLOAT32 and off > max(
        written_rounding([propensity]), written_rounding(proba)
    ):
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
    if {*map(type, ranking)} != {int} or {*map(type, proba)} != {float}:
        return None
    total, base = sum(proba), min(ranking)
    if abs(total - 1.0) > FLOAT32 or min(proba) < 0.0 or max(proba) > 1.0:
        return None
    last = base + n_actions - 1
    if base not in (0, 1) or max(ranking) != last or len({*ranking}) < n_actions:
        return None
    ordered = [0.0] * n_actions
    for action, p in zip(ranking, proba, strict=True):
        ordered[action - base] = p
    if abs(ordered[position] - propensity) > FLOAT32:
        return None
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


# -- events of several slots: ccb and slates -------------------------------------------


def parse_slates_json(line, known, kind):
    """Parse one line of a `kind` log in JSON; None where it has no outcome."""
    event = load(line)
    container = dict(event).get("c")
    if type(container) is not tuple:
        raise MalformedLineError("'c' with the actions and the slots is missing")
    event = checked_fields(event, DECISIVE)
    if is_skipped(event):
        return None
    draft = Draft(kind)
    draft.shared = features_of_object(container)
    for pairs in _objects_in(container, "_multi"):
        action = action_of_object(pairs)
        draft.actions.append(action)
        if kind == "slates":
            slot = action.marks.get("_slot_id")
            if not is_integer(slot):
                raise MalformedLineError(f"'_slot_id' of an action is {quoted(slot)}")
            draft.slot_of.append(slot)
    for slot in _objects_in(container, "_slots"):
        draft.features.append(features_of_object(slot))
        offers = dict(slot).get("_inc")
        if offers is not None and not isinstance(offers, list):
            raise MalformedLineError(f"'_inc' must be an array, got {quoted(offers)}")
        draft.offers.append(offers)
    cost = event.get("_label_cost")
    draft.cost = None if cost is None else as_number("cost", cost)
    outcomes = event.get("_outcomes")
    if outcomes is None:
        outcomes = [()] * len(draft.features)
    if not isinstance(outcomes, list) or len(outcomes) != len(draft.features):
        raise MalformedLineError(
            f"'_outcomes' must have one entry per slot ({len(draft.features)})"
        )
    draft.outcomes = [_json_outcome(kind, outcome) for outcome in outcomes]
    return draft.event(
        timestamp_of(event.get("Timestamp")), weight_of_kept(event.get("pdrop"))
    )


def _objects_in(container, key):
    found = dict(container).get(key)
    if type(found) is not list or not all(type(one) is tuple for one in found):
        raise MalformedLineError(f"'{key}' must be an array of objects")
    return found


def _json_outcome(kind, outcome):
    outcome = dict(outcome) if type(outcome) is tuple else {}
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
