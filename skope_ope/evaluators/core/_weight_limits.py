# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""What parts of a log tell of weights that were not logged; it merges by addition."""

from types import SimpleNamespace

import numpy as np

from skope_ope.evaluators.core._weight_bound import (
    FROM_ACTIONS,
    FROM_LOGGER,
    WeightBound,
    largest_but,
)
from skope_ope.logs._labels import texts_of_labels
from skope_ope.logs._validation import PROBA_TOLERANCE

ALL_ACTIONS = SimpleNamespace(logged_only=False)  # a policy that is asked for all


class WeightLimits:
    """The largest weights that a policy may have, as the whole logger tells them."""

    # They are known where the logging distribution is, or where propensities belong to
    # the actions alone, in all parts.

    def __init__(self, source=None, n=0):
        self.source, self.n, self.n_binned, self.found = source, n, 0, 0.0
        self.bins, self.mass = np.zeros(0, np.int64), np.zeros(0)
        self.actions = {}

    def __add__(self, other):
        """Return what both parts tell."""
        if not isinstance(other, WeightLimits):
            return NotImplemented
        n = self.n + other.n
        if self.source != other.source:
            return WeightLimits(None, n)
        out = WeightLimits(self.source, n)
        out.found = max(self.found, other.found)
        out.n_binned = self.n_binned + other.n_binned
        bins = np.concatenate([self.bins, other.bins])
        mass = np.concatenate([self.mass, other.mass])
        out.bins, at = np.unique(bins, return_inverse=True)
        out.mass = np.bincount(at, mass, len(out.bins))
        out.actions = dict(self.actions)
        for label, one in other.actions.items():
            known = out.actions.get(label, (0.0, 0.0, 0.0))
            if known[0] and one[0] and known[0] != one[0]:
                return WeightLimits(None, n)  # they do not belong to the action
            out.actions[label] = (
                known[0] or one[0],
                max(known[1], one[1]),
                known[2] + one[2],
            )
        return out

    def largest(self, spare=0.0):
        """Return the largest weight, 0 where it is not known."""
        if self.source == FROM_LOGGER:
            return largest_but(spare * self.n, self.bins, self.mass, self.found)
        if self.source != FROM_ACTIONS or not self.actions:
            return 0.0
        if self.n_binned == self.n:  # every part has shown all actions
            return largest_but(spare * self.n, self.bins, self.mass, self.found)
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
        """Return the limits as a dict of arrays; labels stand as texts."""
        return {
            "limits_source": np.array(self.source or ""),
            "limits_numbers": np.array([self.n, self.n_binned, self.found]),
            "limits_bins": self.bins,
            "limits_mass": self.mass,
            "limits_labels": texts_of_labels(self.actions),
            "limits_actions": np.array(list(self.actions.values())).reshape(-1, 3),
        }

    @classmethod
    def from_table(cls, table, labels):
        """Return the limits that `to_table` wrote; `labels` reads a label."""
        n, binned, found = table["limits_numbers"].tolist()
        out = cls(str(table["limits_source"]) or None, int(n))
        out.n_binned = int(binned)
        out.found, out.bins, out.mass = (
            found,
            table["limits_bins"],
            table["limits_mass"],
        )
        rows = map(tuple, table["limits_actions"].tolist())
        texts = table["limits_labels"].tolist()
        out.actions = dict(zip(map(labels, texts), rows, strict=True))
        return out


class LimitsInPass:
    """Observes the `WeightLimits` of one policy in a pass over a part."""

    def __init__(self, logs, by_action):
        self.logs, self.by_action = logs, by_action
        self.bound = None
        if logs.logging_proba is not None or (
            by_action is not None and by_action.all()
        ):
            bound = WeightBound(logs, ALL_ACTIONS)
            self.bound = bound if bound.needs_tables else None  # sums above one
        self.most, self.mass = np.zeros((2, logs.n_actions))

    def see(self, target):
        """Take what the policy does in a block."""
        if target.table is None:
            self.bound = self.by_action = None
        if self.bound is not None:
            self.bound.take(self.bound.read(target))
        if self.by_action is not None and self.logs.logging_proba is None:
            np.maximum(self.most, target.table.max(axis=0), out=self.most)
            self.mass += target.table.sum(axis=0)

    def limits(self):
        """Return what was seen."""
        n, told = len(self.logs), self.logs.logging_proba is not None
        if self.bound is None and (told or self.by_action is None):
            return WeightLimits(None, n)
        out = WeightLimits(FROM_LOGGER if told else FROM_ACTIONS, n)
        if self.bound is not None:
            out.found, out.n_binned = self.bound.found, n
            out.bins, out.mass = self.bound.bins_and_mass()
        if told:
            return out
        columns = (x.tolist() for x in (self.by_action, self.most, self.mass))
        labels = self.logs.actions.tolist()
        out.actions = dict(zip(labels, zip(*columns, strict=True), strict=True))
        return out


def by_action_alone(logs):
    """Return the propensities where they belong to the actions alone, or None."""
    if logs.propensity is None or logs.available is not None:
        return None
    return logs._propensity_by_action
