# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""How far the value of a round may lie from the estimate, seen or not.

Few rounds may hold most of what a policy earns, and a log may hold none of them. Where
the range of the rewards and the largest importance weight are known, so is the largest
round value: that of a round with the largest weight and the best or worst reward.
"""

from dataclasses import dataclass
from functools import partial
from math import inf, nan

import numpy as np

from skope_ope.evaluators.core._engine import Extract, terms_of
from skope_ope.evaluators.core._rounds import StoredRounds
from skope_ope.logs._known_range import known_range

# Importance weights, and model values of the logged actions and of the policy.
PARTS = Extract(
    lambda rounds: [x for x in (rounds.w, rounds.q, rounds.v) if x is not None]
)


@dataclass(frozen=True)
class Reach:
    """What is known of the round values beyond those that were seen.

    Attributes
    ----------
    low, high : float
        Range of the value.
    up, down : float
        Largest deviations of a round value from the estimate. NaN: not known.
    max_weight : float or None
        The bound on the importance weights behind them; None: none was needed.
    source : str or None
        Where it comes from.
    """

    low: float
    high: float
    up: float = nan
    down: float = nan
    max_weight: float | None = None
    source: str | None = None

    def __sub__(self, other):
        """Return the reach of a difference of two values of the same rounds."""
        largest = self if (self.max_weight or 0) >= (other.max_weight or 0) else other
        return Reach(
            self.low - other.high,
            self.high - other.low,
            self.up + other.down,
            self.down + other.up,
            largest.max_weight,
            largest.source,
        )


class DifferenceReach:
    """The reach of a difference of two values from the same rounds.

    Parameters
    ----------
    a, b : PolicyValue
    """

    def __init__(self, a, b):
        self.a, self.b = a, b

    @property
    def limits(self):
        """Range of the difference, or None."""
        low, high = self.a._limits, self.b._limits
        if low is None or high is None:
            return None
        return low[0] - high[1], low[1] - high[0]

    def __call__(self, value, max_weight=None):
        """Return the `Reach` of the difference, or None where no range is known."""
        ends = [one._reach(max_weight) for one in (self.a, self.b)]
        return None if None in ends else ends[0] - ends[1]

    def take(self, rows):
        """Return the reach of some rounds: that of differences of groups."""
        return None


class StatedReach:
    """The reach that was found before the rounds were left behind.

    Parameters
    ----------
    limits : tuple (float, float) or None
        The known range of the rewards.
    reach : Reach or None
    """

    def __init__(self, limits, reach):
        self.limits, self.reach = limits, reach

    def __call__(self, value, max_weight=None):
        """Return the reach; another bound on the weights cannot be tried."""
        if max_weight is not None:
            raise ValueError(
                "max_weight cannot be stated for a value whose rounds are not at hand "
                "(pickled values do not keep them). Ask for the interval before."
            )
        return self.reach

    def take(self, rows):
        """Return the reach of some rounds: only the range is known."""
        reach = None if self.limits is None else Reach(*self.limits)
        return StatedReach(self.limits, reach)


class CornerReach:
    """The reach of an estimate from terms that a round might have had.

    Parameters
    ----------
    limits : tuple (float, float) or None
        The known range of the rewards.
    corners : callable
        Takes a bound on the weights, or None, and returns a list of terms of all
        rounds (as they would be with the largest and the smallest weight and reward),
        the bound that was used, and where it comes from.
    rows : ndarray of int, default=None
        Places of the rounds of the estimate; `None`: all.
    """

    def __init__(self, limits, corners, rows=None):
        self.limits, self.corners, self.rows = limits, corners, rows

    def __call__(self, value, max_weight=None):
        """Return the `Reach` of a `PolicyValue`, or None where no range is known."""
        if self.limits is None:
            return None
        terms, max_weight, source = self.corners(max_weight)
        up = down = 0.0
        for one in terms:
            if self.rows is not None:
                one = [term[self.rows] for term in one]
            change = value._estimate.round_values(one, value._rows.design) - value.value
            up, down = max(up, float(change.max())), max(down, float(-change.min()))
        return Reach(*self.limits, up, down, max_weight, source)

    def take(self, rows):
        """Return the reach of the rounds at some places (an array of ints)."""
        places = rows if self.rows is None else self.rows[rows]
        return CornerReach(self.limits, self.corners, places)


def range_alone(logs):
    """Return a reach of which only the range of the rewards is known."""
    limits = known_range(logs)
    return StatedReach(limits, None if limits is None else Reach(*limits))


def reach_of_job(job, positive):
    """Return the `CornerReach` of a static evaluator on one policy.

    Parameters
    ----------
    job : Job
        What it did.
    positive : PositiveRounds
        The rounds.
    """
    limits = known_range(positive.all_logs)
    return CornerReach(limits, partial(_corners, job, positive, limits))


def _corners(job, positive, limits, max_weight=None):
    """Return the terms of all rounds with the largest weight, or none."""
    logs, evaluator = positive.all_logs, job.evaluator
    bound = WeightBound(logs, job.target)
    tables = bound.by_action is not None and not job.target.logged_only
    w, *model = terms_of(PARTS, logs, job.target, job.source, positive, [bound], tables)
    q, v = (part - job.offset for part in model) if model else (None, None)
    largest, source = bound.largest(positive.of(w))
    if max_weight is not None:
        largest, source = stated_weight(max_weight, w), "stated"
    shift = min(logs.reward_range[0], 0.0) if logs.reward_range else 0.0
    terms = []
    for weight in (largest, 0.0):
        for reward in limits if weight else limits[:1]:
            rounds = StoredRounds(
                w=np.full(len(w), weight),
                r=np.full(len(w), reward - job.offset),
                q=q,
                v=v,
                n_rounds=len(logs),
                shift=shift,
            )
            terms.append(evaluator._terms(rounds))
    return terms, largest, source


def stated_weight(max_weight, w):
    """Return a stated bound on the weights, which none of them exceeds."""
    if not 0 < max_weight < inf:
        raise ValueError(f"max_weight must be a positive number, got {max_weight!r}.")
    row = int(np.argmax(w))
    if w[row] > max_weight * (1 + 1e-9):
        raise ValueError(
            f"max_weight={max_weight:.6g} is below the importance weight of row {row}, "
            f"{w[row]:.6g}: it bounds all weights that the policy may have on such "
            "logs, those of the log included."
        )
    return float(max_weight)


class WeightBound:
    """Observes the largest importance weight that a policy may have.

    It is known where the whole logging distribution is, or where propensities belong to
    the actions alone. Elsewhere it is the largest weight of a logged action, or, where
    all of these are zero, one over the smallest propensity.

    Parameters
    ----------
    logs : BanditLogs
        The rounds.
    target : Target
        The policy.

    Attributes
    ----------
    by_action : ndarray of shape (n_actions,) or None
        Propensities of the actions; None: they differ by round.
    found : float
        The largest weight seen so far.
    """

    def __init__(self, logs, target):
        self.logs, self.found = logs, 0.0
        whole = logs.logging_proba is not None and not target.logged_only
        self.by_action = None if whole else propensity_by_action(logs)

    def begin(self, block):
        """Nothing is to be done for a block alone."""

    def see(self, key, target):
        """Take what a policy does in a block."""
        if target.table is None:
            return
        proba = self.logs.logging_proba
        mu = self.by_action if proba is None else proba[target.block.rows]
        if mu is not None:
            table = target.table if mu.ndim > 1 else target.table.max(axis=0)
            ratio = np.divide(table, mu, out=np.zeros_like(table), where=mu > 0)
            self.found = max(self.found, float(ratio.max()))

    def largest(self, w):
        """Return the bound, and where it comes from.

        Parameters
        ----------
        w : ndarray of shape (n_rounds,)
            Weights of the logged actions.
        """
        logged = float(w.max(initial=0.0))
        if self.found > 0:
            whole = self.logs.logging_proba is not None
            source = "logging_proba" if whole else "propensities of the actions"
            return max(self.found, logged), source
        if logged > 0:
            return logged, "largest logged weight"
        return 1 / float(self.logs.propensity.min()), "smallest propensity"


def propensity_by_action(logs):
    """Return the propensity of every action where it belongs to the action alone.

    Actions that were never logged share what is left.

    Returns
    -------
    propensity : ndarray of shape (n_actions,) or None
    """
    if logs.available is not None:
        return None
    by_action = np.zeros(logs.n_actions)
    by_action[logs.action_index] = logs.propensity
    if (by_action[logs.action_index] != logs.propensity).any():
        return None
    left = 1 - by_action.sum()
    if len(logs.unseen) and left > 1e-6:
        by_action[logs.unseen] = left / len(logs.unseen)
    return by_action
