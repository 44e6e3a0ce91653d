# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""One logged event of a Vowpal Wabbit file, whatever its format."""

import math
import sys
from contextlib import contextmanager
from typing import NamedTuple

from skope_ope.exceptions import RowError

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
