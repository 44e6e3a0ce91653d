# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""The largest importance weight that a policy may have."""

from math import inf

import numpy as np

from skope_ope.logs._propensity_audit import propensity_by_action
from skope_ope.logs._validation import PROBA_TOLERANCE

LOGGED = "largest logged weight"
SMALLEST = "smallest propensity"
FROM_LOGGER, FROM_ACTIONS = "logging_proba", "propensities of the actions"
MANTISSA = 46  # bits of a float below its bin: bins are 0.8 to 1.6% wide


def bins_of(size):
    """Return the bin of every non-negative number: the top bits of the float."""
    bits = np.ascontiguousarray(size, dtype=np.float64).view(np.int64)
    return bits >> MANTISSA


def edges_of(bins):
    """Return the lower edge of every bin."""
    return (np.asarray(bins, dtype=np.int64) << MANTISSA).view(np.float64)


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
    """Observes the largest importance weight that a policy may have."""

    # It is known where the whole logging distribution is, or where propensities belong
    # to the actions alone: the largest, but for those that so little of the policy's
    # probability has that all that it may bring is lost in the standard error.
    # Elsewhere it is the largest weight of a logged action, or, where all of these are
    # zero, one over the smallest propensity.

    def __init__(self, logs, target, several=False):
        self.logs, self.mass, self.found = logs, [], 0.0
        self.proba = self.by_action = None
        if several or target.logged_only:
            return
        self.proba = logs.logging_proba
        if self.proba is None:
            self.by_action = _completed_by_action(logs)

    @property
    def needs_tables(self):
        """Whether it needs the policy's probabilities of all actions."""
        return self.proba is not None or self.by_action is not None

    def begin(self, block):
        """Nothing is to be done for a block alone."""

    def see(self, key, target):
        """Take what a policy does in a block."""
        if self.needs_tables:
            self.take(self.read(target))

    def read(self, target):
        """Return what a block tells: the largest weight, bins and their mass."""
        table, mu, enter = target.table, self.by_action, target.block.entering
        if mu is None:
            mu = self.proba[target.block.rows]
        if enter is not None:
            table, mu = table[enter], mu if mu.ndim == 1 else mu[enter]
            if not len(table):
                return 0.0, np.zeros(0, np.int64), np.zeros(0)
        if mu.min() > 0:
            ratio = table / mu
        else:
            ratio = np.divide(table, mu, out=np.zeros_like(table), where=mu > 0)
        bins = bins_of(ratio).ravel()
        lowest = int(bins.min())
        bins -= lowest
        mass = np.bincount(bins, table.ravel())  # no sort: bins are few
        if lowest == 0:  # weights of zero are none
            mass[0] = 0.0
        seen = np.flatnonzero(mass)
        return float(ratio.max()), lowest + seen, mass[seen]

    def take(self, told):
        """Add what was read of a block."""
        largest, seen, mass = told
        self.found = max(self.found, largest)
        self.mass.append((seen, mass))

    @property
    def source(self):
        """What tells the weights that were not logged."""
        return FROM_ACTIONS if self.proba is None else FROM_LOGGER

    def known(self, spare):
        """Return the largest weight but for a share of the policy's probability."""
        if not self.found:
            return 0.0
        return largest_but(spare * len(self.logs), *self.bins_and_mass(), self.found)

    def bins_and_mass(self):
        """Return bins of the weights, and the probability of each."""
        if not self.mass:
            return np.zeros(0, np.int64), np.zeros(0)
        return tuple(np.concatenate(parts) for parts in zip(*self.mass, strict=True))

    def largest(self, w):
        """Return the bound, of weights w and of others, and where it comes from."""
        logged, known = float(w.max(initial=0.0)), self.known(0.0)
        if known > 0:
            return max(known, logged), self.source
        if not logged > 0:
            return 1 / float(self.logs.propensity.min()), SMALLEST
        return logged, LOGGED


def largest_but(spare, bins, mass, found):
    """Return the largest weight but for those of some probability."""
    if not len(bins):
        return 0.0
    order = np.argsort(-bins, kind="stable")
    above = np.cumsum(mass[order])
    # of a noisy value the largest share may be spared: the least weight is left
    first = np.searchsorted(above, spare, side="right")
    place = order[min(int(first), len(order) - 1)]
    return min(float(edges_of(bins[[place]] + 1)[0]), found)


def _completed_by_action(logs):
    """Return the propensities of all actions where they belong to the action alone."""
    # Actions that were never logged share what is left.
    by_action = None if logs.available is not None else propensity_by_action(logs)
    if by_action is None:
        return None
    left = 1 - by_action.sum()
    if left < -PROBA_TOLERANCE:  # of contexts, or clipped: more than one logger has
        return None
    if len(logs._unseen) and left > PROBA_TOLERANCE:
        by_action[logs._unseen] = left / len(logs._unseen)
    return by_action
