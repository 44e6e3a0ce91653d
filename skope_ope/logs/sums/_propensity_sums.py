# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Sums of recorded propensities, from which tests of them follow."""

from math import inf

import numpy as np

from skope_ope.logs._propensity_audit import (
    law_of,
    least_possible,
    uniform_law,
)

CHUNK = 16  # propensities whose product is a float, whatever they are
MOST_SMALL = 64  # impossible propensities that are kept
SUMS = "n", "total", "log_sum", "mass", "mass_square", "gap", "gap_cross", "gap_square"


class PropensitySums:
    r"""Sums of the propensities p of some rounds of logs with actions."""

    # A gap is :math:`d = 1 / p - K`, with the number K of the actions that were
    # offered; it counts with the sample weight :math:`\omega` of its round.

    @classmethod
    def of(cls, logs):
        """Return the sums of some rounds, at least one, and the gaps of the rounds."""
        out = cls.__new__(cls)
        p, weight = logs.propensity, logs.sample_weight
        out.n, out.n_actions = len(p), logs.n_actions
        out.low, out.high, out.total = float(p.min()), float(p.max()), float(p.sum())
        out.log_sum = log_sum(p, out.low)
        offered = logs.n_actions
        out.offered = None
        if logs.available is not None:
            offered = logs.available.sum(axis=1)
            out.offered = logs.available.sum(axis=0)
        gap = 1 / p
        gap -= offered
        out.mass = out.mass_square = float(out.n)
        out.gap, out.gap_square = float(gap.sum()), float(gap @ gap)
        out.gap_cross = out.gap
        if weight is not None:
            out.mass, out.mass_square = float(weight.sum()), float(weight @ weight)
            out.gap_cross = float(weight @ (weight * gap))
            gap *= weight
            out.gap, out.gap_square = float(gap.sum()), float(gap @ gap)
        out.by_action = logs._propensity_by_action
        out.law = None
        if logs.logging_proba is not None:
            out.law = np.array(law_of(logs.logging_proba))
        elif logs.available is not None:
            law = uniform_law(logs)
            out.law = None if law is None else np.array(law)
        out.small = _small(logs, out.low)
        return out, gap

    def among(self, n_actions, places):
        """Return the same where the actions are some of others."""
        if places is None:
            return self
        out = self._copy()
        out.n_actions = n_actions
        out.small = {**self.small, "action": places[self.small["action"]]}
        for name in ("by_action", "offered", "law"):
            values = getattr(self, name)
            if values is not None:
                wide = np.zeros((*values.shape[:-1], n_actions), dtype=values.dtype)
                wide[..., places] = values
                setattr(out, name, wide)
        if self.offered is None:
            more = n_actions - self.n_actions
            out.gap, out.gap_square = self.about(more)
            out.gap_cross = self.gap_cross - more * self.mass_square
        return out

    def about(self, more):
        """Return the sum of the gaps to some more actions, and of their squares."""
        square = self.gap_square - 2 * more * self.gap_cross
        return self.gap - more * self.mass, square + more * more * self.mass_square

    def _copy(self):
        out = PropensitySums.__new__(PropensitySums)
        out.__dict__.update(self.__dict__)
        return out

    def __add__(self, other):
        """Return the sums of both parts, whose actions are the same."""
        out = self._copy()
        for name in SUMS:
            setattr(out, name, getattr(self, name) + getattr(other, name))
        out.low, out.high = min(self.low, other.low), max(self.high, other.high)
        for name in ("offered", "law"):
            mine, theirs = getattr(self, name), getattr(other, name)
            both = mine is not None and theirs is not None
            setattr(out, name, mine + theirs if both else None)
        out.by_action = _same(self.by_action, other.by_action)
        small = {
            name: np.concatenate([values, other.small[name]])
            for name, values in self.small.items()
        }
        out.small = _smallest(small)
        return out

    def below(self, limit):
        """Return kept propensities below a limit, rising, their positions, actions."""
        some = self.small["p"] < limit
        return tuple(self.small[name][some] for name in ("p", "position", "action"))


def _small(logs, lowest):
    limit = least_possible(len(logs), logs.n_actions)
    p, rows, action = logs._propensities_below(limit if lowest < limit else 0.0)
    position = logs.row_id.position[rows] if len(rows) else rows
    return _smallest({"p": p, "position": position, "action": action})


def _smallest(small):
    order = np.lexsort((small["position"], small["p"]))[:MOST_SMALL]
    return {name: values[order] for name, values in small.items()}


def _same(one, other):
    """Return propensities by action that two parts agree about, else None."""
    if one is None or other is None:
        return None
    both = (one > 0) & (other > 0)
    return np.maximum(one, other) if (one[both] == other[both]).all() else None


def log_sum(p, lowest=-inf):
    """Return the sum of the logarithms of some numbers in (0, 1]."""
    if lowest**CHUNK < 1e-290 or len(p) < CHUNK:  # their products are no floats
        return float(np.log(p).sum())
    whole = len(p) // CHUNK * CHUNK
    products = np.multiply.reduce(p[:whole].reshape(CHUNK, -1), axis=0)
    return float(np.log(products).sum() + np.log(p[whole:]).sum())
