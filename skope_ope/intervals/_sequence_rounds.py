# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""What confidence sequences share: after which rounds they are asked, and sums."""

import math
from typing import NamedTuple

import numpy as np

from skope_ope.intervals._weighted_rewards import (
    ROUNDING,
    check_inside,
    check_level,
    check_range,
)
from skope_ope.logs._validation import as_numbers


class SequenceRounds(NamedTuple):
    """Rounds in the order of time, checked."""

    weight: np.ndarray
    reward: np.ndarray
    after: np.ndarray


def sequence_rounds(w, r, reward_range, level, after, max_weight=None):
    """Return `SequenceRounds`; raise where weights or rewards leave their bounds."""
    check_level(level)
    weight, reward = as_numbers("w", w), as_numbers("r", r)
    if not len(weight) or len(weight) != len(reward):
        raise ValueError(
            "w and r need one entry per round and at least one round, got "
            f"{len(weight)} and {len(reward)}."
        )
    low, high = check_range("reward_range", reward_range)
    check_inside("r", reward, low, high, "State the range that rewards can have.")
    largest = math.inf
    if max_weight is not None:
        if not 1 <= max_weight < math.inf:
            raise ValueError(
                "max_weight must be a number of 1 or more, because weights average 1; "
                f"got {max_weight!r}."
            )
        largest = max_weight * (1 + ROUNDING)
    remedy = (
        "Importance weights are not negative, and max_weight is the largest that any "
        "round can have, logged or not."
    )
    check_inside("w", weight, 0.0, largest, remedy)
    return SequenceRounds(weight, reward, after_rounds(after, len(weight)))


def after_rounds(after, n_rounds):
    """Return numbers of rounds after which an interval is wanted, checked."""
    if after is None:
        return np.arange(1, n_rounds + 1)
    after = np.asarray(after)
    rising = after.ndim == 1 and len(after) > 0 and bool((np.diff(after) > 0).all())
    if not rising or after.dtype.kind not in "iu":
        raise ValueError(
            "after must be rising numbers of rounds, such as [100, 200], got "
            f"{after.tolist()!r}."
        )
    if after[0] < 1 or after[-1] > n_rounds:
        raise ValueError(
            f"after must lie between 1 and {n_rounds}, the number of rounds, got "
            f"{after[0]} to {after[-1]}."
        )
    return after


def running_sums(before, values):
    """Return `before`, and the sums of it and the first values, one after the other."""
    sums = np.empty(len(values) + 1)
    sums[0], sums[1:] = before, values
    return np.cumsum(sums, out=sums)
