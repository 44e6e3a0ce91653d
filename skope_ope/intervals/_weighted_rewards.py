# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Weights and rewards within known bounds, checked once for the intervals they have."""

import math
from dataclasses import dataclass
from numbers import Real

import numpy as np

from skope_ope.logs._validation import as_numbers

AT_BOUND = 1e-9  # relative: a weight beyond its bound by less is at the bound


@dataclass(frozen=True)
class WeightedRewards:
    """Rounds with importance weights and rewards, and what is known of both."""

    weight: np.ndarray  # the rounds
    reward: np.ndarray  # the rounds
    # Bounds of the weights, ``min_weight <= 1 <= max_weight``; both are 1 where one of
    # them is, for weights that average 1 are then all 1
    min_weight: float
    # Bounds of the weights, ``min_weight <= 1 <= max_weight``; both are 1 where one of
    # them is, for weights that average 1 are then all 1
    max_weight: float
    low: float  # range of the rewards
    high: float  # range of the rewards

    @property
    def reversed(self):
        """The same rounds with the sign of the rewards turned."""
        return WeightedRewards(
            self.weight,
            -self.reward,
            self.min_weight,
            self.max_weight,
            -self.high,
            -self.low,
        )

    def smallest_term(self, weight):
        """Smallest product of `weight` and a reward in the range."""
        return np.minimum(weight * self.low, weight * self.high)

    def inside(self, value):
        """Return `value`, moved into the range of the rewards."""
        return float(min(max(value, self.low), self.high))


def check_level(level):
    """Raise if `level` is not in (0, 1)."""
    if not isinstance(level, Real) or not 0 < level < 1:
        raise ValueError(f"level must lie in (0, 1), got {level!r}.")


def check_weighted_rewards(w, r, max_weight, min_weight, reward_range):
    """Return `WeightedRewards`; raise where the bounds are none."""
    weight, reward, (low, high) = check_rewards(w, r, reward_range)
    smallest, largest = _check_weight_bounds(min_weight, max_weight)
    remedy = (
        "max_weight and min_weight are the largest and the smallest possible weight of "
        "any round, logged or not. Weights average 1, so if one bound is 1, all "
        "weights are 1; otherwise the logger never takes some actions of the policy."
    )
    slack = AT_BOUND * max(largest, 1.0)
    check_inside("w", weight, smallest - slack, largest + slack, remedy)
    weight = np.clip(weight, smallest, largest)
    return WeightedRewards(weight, reward, smallest, largest, low, high)


def check_rewards(w, r, reward_range):
    """Return weights, rewards and their finite range; raise where they leave it."""
    weight, reward = check_terms(w, r)
    low, high = check_range("reward_range", reward_range)
    check_inside("r", reward, low, high, "State the range that rewards can have.")
    return weight, reward, (low, high)


def check_terms(w, r):
    """Return weights and rewards as arrays; raise where they are not of rounds."""
    weight, reward = as_numbers("w", w), as_numbers("r", r)
    if not len(weight) or len(weight) != len(reward):
        raise ValueError(
            "w and r need one entry per round and at least one round, got "
            f"{len(weight)} and {len(reward)}."
        )
    return weight, reward


def check_pair(name, bounds):
    """Return two numbers."""
    try:
        low, high = (float(bound) for bound in bounds)
    except (TypeError, ValueError):
        raise TypeError(f"{name} must be a pair (low, high), got {bounds!r}.") from None
    return low, high


def check_range(name, bounds):
    """Return two finite numbers, the first of which is less."""
    low, high = check_pair(name, bounds)
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise ValueError(
            f"{name} must be two finite numbers, the first less than the second, got "
            f"({low}, {high})."
        )
    return low, high


def check_bounded_terms(z, lower, upper):
    """Return terms and their bounds as numbers; raise where the bounds are none."""
    terms = as_numbers("z", z)
    if not len(terms):
        raise ValueError("z needs at least one term, got none.")
    lower, upper = check_range("(lower, upper)", (lower, upper))
    check_inside("z", terms, lower, upper, "The bounds are those of every round.")
    return terms, lower, upper


def check_inside(name, values, low, high, remedy):
    """Raise, naming the row, if an entry leaves [low, high]."""
    outside = (values < low) | (values > high)
    if outside.any():
        row = int(np.argmax(outside))
        raise ValueError(
            f"{name} has {outside.sum()} entries outside [{low:.6g}, {high:.6g}], the "
            f"first {float(values[row])!r} in row {row}. {remedy}"
        )


def _check_weight_bounds(min_weight, max_weight):
    smallest, largest = float(min_weight), float(max_weight)
    if not (math.isfinite(smallest) and math.isfinite(largest)):
        raise ValueError(
            "min_weight and max_weight must be finite, got "
            f"{min_weight!r} and {max_weight!r}."
        )
    if not smallest <= 1 <= largest * (1 + AT_BOUND):
        raise ValueError(
            "min_weight must be at most 1 and max_weight at least 1, as weights "
            f"average 1; got {smallest} and {largest}."
        )
    if smallest < 1 - AT_BOUND and largest > 1 + AT_BOUND:
        return smallest, largest
    return 1.0, 1.0
