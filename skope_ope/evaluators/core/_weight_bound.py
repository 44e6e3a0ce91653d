# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""The largest importance weight that a policy may have; parts of a log add up."""

from functools import cached_property
from math import inf

import numpy as np

from skope_ope.evaluators.core._blocks import Observer
from skope_ope.logs._labels import texts_of_labels
from skope_ope.logs._validation import PROBA_TOLERANCE

LOGGED, POSSIBLE = "largest logged weight", "largest possible weight"
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
    """What is known of the weights that a policy may have, logged or not."""

    # The largest is known where the whole logging distribution is, or where
    # propensities belong to the actions alone, in all parts: but for those that so
    # little of the policy's probability has that all that it may bring is lost in the
    # standard error.

    def __init__(self, source=None, n=0):
        self.source, self.n, self.n_binned, self.found = source, n, 0, 0.0
        self.bins, self.mass = np.zeros(0, np.int64), np.zeros(0)
        # of parts that lack some actions: propensity, the policy's largest probability
        # and its mass, by action
        self.actions = {}

    def __add__(self, other):
        """Return what both parts tell."""
        if not isinstance(other, WeightBound):
            return NotImplemented
        n = self.n + other.n
        if self.source != other.source:
            return WeightBound(None, n)
        out = WeightBound(self.source, n)
        out.found = max(self.found, other.found)
        out.n_binned = self.n_binned + other.n_binned
        out.bins, out.mass = _binned(*zip(self._binned, other._binned, strict=True))
        out.actions = dict(self.actions)
        for label, one in other.actions.items():
            known = out.actions.get(label, (0.0, 0.0, 0.0))
            if known[0] and one[0] and known[0] != one[0]:
                return WeightBound(None, n)  # they do not belong to the action
            out.actions[label] = (
                known[0] or one[0],
                max(known[1], one[1]),
                known[2] + one[2],
            )
        return out

    @property
    def _binned(self):
        return self.bins, self.mass

    def largest(self, spare=0.0):
        """Return the largest but for a share of the probability; 0: not known."""
        if self.source is None:
            return 0.0
        if self.source == FROM_LOGGER or self.n_binned == self.n:
            return largest_but(spare * self.n, self.bins, self.mass, self.found)
        if not self.actions:
            return 0.0
        p, most, mass = np.array(list(self.actions.values())).T
        left, unseen = 1 - p.sum(), p == 0
        if left < -PROBA_TOLERANCE:
            return 0.0
        p = np.where(unseen & (left > PROBA_TOLERANCE), left / max(unseen.sum(), 1), p)
        ratio = np.divide(most, p, out=np.zeros_like(p), where=p > 0)
        order = np.argsort(-ratio, kind="stable")
        above = np.cumsum(mass[order])
        first = np.searchsorted(above, spare * self.n, side="right")
        return float(ratio[order[min(int(first), len(order) - 1)]])

    def to_table(self):
        """Return the bound as a dict of arrays; labels stand as texts."""
        return {
            "bound_source": np.array(self.source or ""),
            "bound_numbers": np.array([self.n, self.n_binned, self.found]),
            "bound_bins": self.bins,
            "bound_mass": self.mass,
            "bound_labels": texts_of_labels(self.actions),
            "bound_actions": np.array(list(self.actions.values())).reshape(-1, 3),
        }

    @classmethod
    def from_table(cls, table, labels):
        """Return the bound that `to_table` wrote; `labels` reads a label."""
        n, binned, found = table["bound_numbers"].tolist()
        out = cls(str(table["bound_source"]) or None, int(n))
        out.n_binned, out.found = int(binned), found
        out.bins, out.mass = table["bound_bins"], table["bound_mass"]
        rows = map(tuple, table["bound_actions"].tolist())
        texts = table["bound_labels"].tolist()
        out.actions = dict(zip(map(labels, texts), rows, strict=True))
        return out


class BoundInPass(Observer):
    """Observes the `WeightBound` of one policy in a pass over some rounds.

    Parameters
    ----------
    logs : BanditLogs
        The rounds.
    tells_all : bool, default=True
        Whether the policy tells its probabilities of all actions, and the logger is
        one.
    is_whole : bool, default=True
        Whether there are no other rounds: actions that were never logged then share
        the probability that is left.
    """

    def __init__(self, logs, tells_all=True, is_whole=True):
        self.logs, self.parts, self.found = logs, [], 0.0
        self.proba = logs.logging_proba if tells_all else None
        self.by_action = self.propensity = None  # of parts that lack actions
        if tells_all and self.proba is None:
            self.propensity = propensity_of_actions(logs)
            if self.propensity is not None and (is_whole or self.propensity.all()):
                self.by_action = _completed(self.propensity, logs)
            if is_whole:
                self.propensity = None
        self.most, self.mass = np.zeros((2, logs.n_actions))

    @property
    def needs_tables(self):
        """Whether it needs the policy's probabilities of all actions."""
        return self._has_bins or self.propensity is not None

    @property
    def _has_bins(self):
        return self.proba is not None or self.by_action is not None

    def see(self, key, target):
        """Take what a policy does in a block."""
        if target.table is None:
            self.proba = self.by_action = self.propensity = None
        if self._has_bins:
            self.take(self.read(target))
        if self.propensity is not None:
            table, enter = target.table, target.block.entering
            table = table if enter is None else table[enter]
            np.maximum(self.most, _most_of_columns(table), out=self.most)
            self.mass += np.einsum("ij->j", table)

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
        largest, *binned = told
        self.found = max(self.found, largest)
        self.parts.append(binned)

    @cached_property
    def bound(self):
        """The `WeightBound` that was seen, when all rounds were."""
        n = len(self.logs)
        if not self.needs_tables:
            return WeightBound(None, n)
        out = WeightBound(FROM_ACTIONS if self.proba is None else FROM_LOGGER, n)
        if self._has_bins:
            out.found, out.n_binned = self.found, n
            out.bins, out.mass = _binned(*zip(*self.parts, strict=True))
        if self.propensity is not None:
            columns = (x.tolist() for x in (self.propensity, self.most, self.mass))
            labels = self.logs.actions.tolist()
            out.actions = dict(zip(labels, zip(*columns, strict=True), strict=True))
        return out


def _binned(bins, mass):
    """Return the distinct bins of some parts, and their mass."""
    found, at = np.unique(np.concatenate(bins), return_inverse=True)
    return found, np.bincount(at, np.concatenate(mass), len(found))


def largest_weight(logged, bound, spare, smallest_propensity):
    """Return the largest weight that a policy may have, and where it comes from.

    Parameters
    ----------
    logged : float
        The largest of the rounds.
    bound : WeightBound or None
        What is known of others.
    spare : float
        Share of the policy's probability that may have larger ones.
    smallest_propensity : callable
        Gives that of the rounds.
    """
    known = 0.0 if bound is None else bound.largest(spare)
    if known > 0:
        return max(known, logged), bound.source
    if not logged > 0:
        return 1 / smallest_propensity(), SMALLEST
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


def _most_of_columns(table):
    """Return the largest entry of every column, none of which is negative."""
    if len(table) > table.shape[1]:  # numpy reduces short rows slowly
        return np.array([column.max() for column in table.T])
    return table.max(axis=0, initial=0.0)


def propensity_of_actions(logs):
    """Return the propensities where they belong to the actions alone, or None."""
    if logs.propensity is None or logs.available is not None:
        return None
    return logs._propensity_by_action


def _completed(by_action, logs):
    """Return the propensities of all actions, those that were never logged, too."""
    # These share what is left.
    left = 1 - by_action.sum()
    if left < -PROBA_TOLERANCE:  # of contexts, or clipped: more than one logger has
        return None
    if len(logs._unseen) and left > PROBA_TOLERANCE:
        by_action = by_action.copy()
        by_action[logs._unseen] = left / len(logs._unseen)
    return by_action
