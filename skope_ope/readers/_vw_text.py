# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Events of Vowpal Wabbit, and its text: `--cb`, `--cb --eval`, `--cb_adf`."""

import math
import sys
from contextlib import contextmanager
from typing import NamedTuple

from skope_ope.exceptions import RowError
from skope_ope.logs._text_files import CARRIAGE_RETURN, number, quoted, whole_number

MULTI_SLOT = {"ccb": "ccb", "slates": "slates", "ca": "ca"}


def parse_cb(line, evaluated=False):
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
    return VWEvent(
        logged[0],
        reward,
        propensity,
        parse_features(text),
        offered=ids if len(ids) > 1 else None,
        evaluated=target,
    )


def parse_adf(block):
    """Parse the (number, line) pairs of one event of `--cb_adf`."""
    shared, actions, tags, logged = None, [], [], None
    for line_number, line in block:
        try:
            words, tag, text = split_label(line)
            features = parse_features(text)
            if words == ["shared"]:
                if actions or shared is not None:
                    raise MalformedLineError(
                        "'shared' must be the first line of its event; put an empty "
                        "line between events"
                    )
                shared = features
                continue
            outcome = _adf_outcome(words)
            if outcome is not None:
                if logged is not None:
                    raise MalformedLineError(
                        "a second action of the same event carries a cost; put an "
                        "empty line between events"
                    )
                logged = (len(actions), *outcome)
        except MalformedLineError as error:
            error.line = line_number
            raise
        actions.append(features)
        tags.append(tag)
    if not actions:
        raise MalformedLineError(
            "the event has no action line after 'shared'", block[0][0]
        )
    if logged is None:
        return None
    return VWEvent(*logged, shared or [], actions=actions, tags=tags)


def _adf_outcome(words):
    """Return (reward, propensity) of an action line, None if it was not taken."""
    if not words:
        return None
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


# -- one logged event of a Vowpal Wabbit file, whatever its format ---------------------

VW_ACTIONS = 2**32  # Vowpal Wabbit numbers them by 32 bits


class VWEvent(NamedTuple):
    """What a parser found: names and values of features are not hashed yet."""

    action: int  # id from 1 of `--cb`, position from 0 of `--cb_adf`
    reward: float
    propensity: float
    shared: list  # (name, value) pairs
    actions: list | None = None  # one list of pairs per offered action
    tags: list | None = None  # the names of the offered actions, where given
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
    actions: list  # one list of pairs per action
    tags: list  # the names of the actions, where given
    timestamp: int | None = None  # microseconds from 1970, UTC
    weight: float = 1.0


class MalformedLineError(ValueError):
    """A line that says nothing sensible; `on_error` decides about it."""

    def __init__(self, reason, line=None):
        super().__init__(reason)
        self.line = line


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


# -- errors of logs, told with the file that they are read from ------------------------


@contextmanager
def errors_of_file(path, line_of=None):
    """Let errors of the logs that are built inside name the file."""
    try:
        yield
    except RowError as error:
        told = str(error) if line_of is None else _at_line(error, line_of)
        raise ValueError(f"{path}: {told}") from error
    except (TypeError, ValueError) as error:
        raise type(error)(f"{path}: {error}") from error


def _at_line(error, line_of):
    return error.told_of(f"line {line_of(error.row)}")
