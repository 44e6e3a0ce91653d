# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Events of Vowpal Wabbit, and its text: `--cb`, `--cb --eval`, `--cb_adf`."""

import math
from contextlib import contextmanager

from skope_ope.logs._text_files import CARRIAGE_RETURN, number, quoted, whole_number
from skope_ope.readers._json_lines import MalformedLineError
from skope_ope.readers._vw_events import (
    VW_ACTIONS,
    Action,
    Draft,
    VWEvent,
    VWSlot,
    as_number,
    check_outcome,
    other_log,
)

MULTI_SLOT = {"ccb": "ccb", "slates": "slates", "ca": "ca"}


def parse_cb(line, known=None, evaluated=False):
    """Parse one line of `--cb`; None where no action has a cost and a probability."""
    # With `evaluated` the first word of the label is the action that `--cb --eval`
    # evaluates.
    words, _, text = split_label(line)
    target = None
    if evaluated:
        if not words:
            return None
        target, words = _action_id(words[0]), words[1:]
        if not words:
            raise MalformedLineError(
                f"the label {quoted(words_of(line))} has an evaluated action and no "
                "logged one after it"
            )
    ids, logged = [], None
    for word in words:
        name, cost, probability = _parse_cost(word)
        ids.append(_action_id(name))
        if cost is None or probability is None:
            continue
        if logged is not None:
            raise MalformedLineError(
                f"actions {logged[0]} and {ids[-1]} both carry a probability; only "
                "the logged action may"
            )
        logged = ids[-1], cost, probability
    if len(set(ids)) < len(ids):
        raise MalformedLineError(
            f"the label {quoted(words_of(line))} names an action twice; if the first "
            "word is the evaluated action of `--cb --eval`, read with format='cb_eval'"
        )
    if logged is None:
        return None
    reward, propensity = check_outcome(*logged[1:])
    slot = VWSlot(logged[0], reward, propensity, ids if len(ids) > 1 else None)
    return VWEvent([slot], parse_features(text), evaluated=target)


def parse_adf(block, known):
    """Parse the (number, line) pairs of one event of `--cb_adf`."""
    if known.is_useful:
        keys = [line for _, line in block]
        lines = known.all_of(keys, block, _action_of_line)
    else:
        lines = [*map(_action_of_line, block)]
    shared, actions, logged = None, [], None
    for (line_number, _), action in zip(block, lines, strict=True):
        if action.marks == ["shared"]:
            if actions or shared is not None:
                raise MalformedLineError(
                    "'shared' must be the first line of its event; put an empty line "
                    "between events",
                    line_number,
                )
            shared = action.features
            continue
        if action.marks:
            with told_of_line(line_number):
                outcome = _adf_outcome(action.marks)
            if outcome and logged:
                raise MalformedLineError(
                    "a second action of the same event carries a cost; put an empty "
                    "line between events",
                    line_number,
                )
            logged = logged or (outcome and (len(actions), *outcome))
        actions.append(action)
    if not actions:
        raise MalformedLineError(
            "the event has no action line after 'shared'", block[0][0]
        )
    return logged and VWEvent([VWSlot(*logged)], shared or [], actions)


def _action_of_line(numbered):
    """Return an action of text, with the words of its label."""
    line_number, line = numbered
    with told_of_line(line_number):
        words, tag, text = split_label(line)
        return Action(parse_features(text), tag, words)


@contextmanager
def told_of_line(line_number):
    """Let errors that are raised inside know their line."""
    try:
        yield
    except MalformedLineError as error:
        error.line = line_number
        raise


def _adf_outcome(words):
    """Return (reward, propensity) of an action line, None if it was not taken."""
    if len(words) > 1:
        raise MalformedLineError(
            f"an action line has one label, got {quoted(' '.join(words))}"
        )
    name, cost, probability = _parse_cost(words[0])
    try:
        whole_number(name)
    except ValueError:
        raise MalformedLineError(
            f"{quoted(words[0])} is neither 'shared' nor a label "
            "action:cost:probability"
        ) from None
    if cost is None or probability is None:
        return None
    return check_outcome(cost, probability)


def split_label(line):
    """Split a line into (words of the label, tag or None, text of the features)."""
    words = line.partition("|")[0].split()
    if words and words[0] in MULTI_SLOT:
        raise other_log(MULTI_SLOT[words[0]])
    return split_line(line)


def split_line(line):
    """Split a line of any kind of log like `split_label`."""
    if "\r" in line:
        raise MalformedLineError(CARRIAGE_RETURN.rstrip("."))
    label, bar, text = line.partition("|")
    words = label.split()
    if not bar:
        raise MalformedLineError(
            f"no '|' in {quoted(line)}; it separates the label from the features and "
            "is needed also where there are none"
        )
    tag = None
    if words and (words[-1][0] == "'" or not label[-1].isspace()):
        tag = words.pop()
        if tag == "shared" or tag.count(":") == 2:
            raise MalformedLineError(
                f"{quoted(tag)} touches the '|', which makes it a tag and not a label; "
                "put a space between them"
            )
        tag = tag.removeprefix("'")
    return words, tag, text


def words_of(line):
    """Return the label as it stands, for messages."""
    return line.partition("|")[0].strip()


def _parse_cost(word):
    """Split `action:cost:probability`; what is absent is None."""
    parts = word.split(":")
    if len(parts) > 3 or not parts[0]:
        raise MalformedLineError(
            f"the label {quoted(word)} is not of the form action:cost:probability"
        )
    numbers = [None, None]
    for i, (part, what) in enumerate(
        zip(parts[1:], ("cost", "probability"), strict=False)
    ):
        try:
            numbers[i] = number(part)
        except ValueError as error:
            raise MalformedLineError(
                f"the {what} {quoted(part)} of the label {quoted(word)} is not a number"
            ) from error
    return parts[0], *numbers


def _action_id(name):
    try:
        action = whole_number(name)
    except ValueError:
        action = 0
    if not 0 < action < VW_ACTIONS:
        raise MalformedLineError(
            f"{quoted(name)} is not an action of `--cb`, which are numbered from 1; in "
            "`--cb_adf` files an empty line separates the events"
        )
    return action


def parse_features(text):
    """Return (name, value) pairs of the text after the first '|'."""
    # Names are `namespace^feature`, only `feature` in the anonymous namespace, and
    # `...=text` where the value is text. The n-th feature without a name of a namespace
    # is called n - 1. Features valued 0 are left out.
    pairs = []
    for chunk in text.replace("\t", " ").split("|"):
        words = iter(chunk.split(" "))  # only these two separate, as in VW itself
        prefix, scale, unnamed = "", 1.0, 0
        namespace = next(words)
        if namespace:
            name, colon, weight = namespace.partition(":")
            prefix = f"{name}^"
            if colon:
                scale = _feature_number(weight)
                if not name or scale is None:
                    raise MalformedLineError(
                        f"the namespace {quoted(namespace)} is not of the form "
                        "name:weight"
                    )
        for word in words:
            if not word:
                continue
            if ":" not in word:
                value, word = scale, prefix + word
            else:
                name, _, written = word.partition(":")
                value = _feature_number(written)
                if value is None:
                    if not written or ":" in written:
                        raise MalformedLineError(
                            f"the feature {quoted(word)} is not of the form name:value"
                        )
                    value, word = scale, f"{prefix}{name}={written}"
                else:
                    if not name:
                        name, unnamed = str(unnamed), unnamed + 1
                    value, word = scale * value, prefix + name
            if value:
                pairs.append((word, value))
    return pairs


def _feature_number(text):
    """Return the number that `text` spells, None where it is text."""
    try:
        value = number(text)
    except ValueError:
        return None
    if not math.isfinite(value):
        raise MalformedLineError(
            f"the feature value {quoted(text)} is not finite; drop the feature"
        )
    return value


# -- events of several slots: ccb and slates -------------------------------------------


def parse_slates_text(block, known, kind):
    """Parse the (number, line) pairs of one event of a `kind` log in text."""
    draft = Draft(kind)
    for line_number, line in block:
        with told_of_line(line_number):
            _read_line(draft, line)
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
        draft.actions.append(Action(features, tag))
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
    for at, part in enumerate(word.split(",")):
        fields = part.split(":")
        want = 3 if kind == "ccb" and at == 0 else 2
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
