# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Acceptance rules: which logged rounds enter the simulated history."""

import numpy as np

from skope_ope.evaluators.sequential._quantile import (
    KnownRatios,
    RunningQuantile,
)

BELOW = 1 - 1e-12  # allows for rounding where a row is sorted out beforehand


class UniformRule:
    """Replay: accept when u < pi(a|x, h) K(x) / K_max, for uniform loggers."""

    # A rule knows the rounds of one part of a log at a time, and carries on what it
    # learned from the parts before.

    c = 1.0
    observes = False  # whether c depends on the probabilities of earlier rows

    def __init__(self, most):
        self.most = most

    def begin(self, logs, u):
        """Take the next part of the rounds, and its uniform numbers."""
        offered, self.u = n_offered(logs), u
        self.scale = np.ones(len(u))
        if np.ndim(offered):
            self.scale = offered / self.most

    def accepts(self, pi, rows):
        """Tell which of `rows` (a slice) are accepted at probabilities `pi`."""
        return self.u[rows] < pi * self.scale[rows]

    def least_proba(self, rows):
        """Return probabilities below which `rows` (a slice) are never accepted."""
        return self.u[rows] / self.scale[rows] * BELOW

    def accepts_one(self, pi, row):
        """Tell whether one row is accepted at probability `pi`."""
        return self.u.item(row) < pi * self.scale.item(row)

    def renew(self):
        """Set c after an acceptance."""

    def known(self, pi):
        """Return accepted rows and c where all probabilities are known."""
        accepted = np.flatnonzero(self.u < pi * self.scale)
        return accepted, np.ones(len(pi))


class ConstantRule:
    """Rejection sampling: accept when pi > 0 and u <= c pi / p, c fixed."""

    observes = False

    def __init__(self, c):
        self.c = self.cmax = c

    def begin(self, logs, u):
        """Take the next part of the rounds, and its uniform numbers."""
        self.p, self.u = logs.propensity, u

    def accepts(self, pi, rows):
        """Tell which of `rows` (a slice) are accepted at probabilities `pi`."""
        return (pi > 0) & (self.u[rows] <= self.c * pi / self.p[rows])

    def weight(self, pi, row):
        """Return how often an accepted row should have been, at least once."""
        return max(1.0, self.c * pi / self.p.item(row))

    def least_proba(self, rows):
        """Return probabilities below which `rows` (a slice) are never accepted."""
        return self.u[rows] * self.p[rows] / self.cmax * BELOW

    def accepts_one(self, pi, row):
        """Tell whether one row is accepted at probability `pi`."""
        return pi > 0 and self.u.item(row) <= self.c * pi / self.p.item(row)

    def renew(self):
        """Set c after an acceptance."""

    def known(self, pi):
        """Return accepted rows and c where all probabilities are known."""
        accepted = np.flatnonzero(self.accepts(pi, slice(None)))
        return accepted, np.full(len(pi), self.c)


class QuantileRule(ConstantRule):
    """DR-ns: rejection sampling whose c follows a quantile of the ratios p / pi."""

    # c starts at c_init (None: cmax) and becomes min(cmax, quantile_q) after every
    # acceptance, over all rows so far, the accepted one included.

    observes = True

    def __init__(self, q, cmax, c_init=None, n_rounds=None):
        super().__init__(cmax)
        self.c = cmax if c_init is None else c_init
        self._ratios = RunningQuantile(q, n_rounds)
        self._known = KnownRatios(q, cmax, self.c, n_rounds)
        self._unseen = None  # ratios at the end of the part before

    def begin(self, logs, u):
        """Take the next part of the rounds, and its uniform numbers."""
        super().begin(logs, u)
        if self._unseen is not None:
            self._ratios.extend(self._unseen.tolist())
            self._unseen = None

    def observe(self, pi, rows):
        """Insert the ratios p / pi of `rows`."""
        with np.errstate(divide="ignore"):
            self._ratios.extend((self.p[rows] / pi).tolist())

    def observe_later(self, pi, rows):
        """Insert the ratios of `rows` where another part follows."""
        with np.errstate(divide="ignore"):
            self._unseen = self.p[rows] / pi

    def renew(self):
        """Set c after an acceptance."""
        self.c = min(self.cmax, self._ratios.value())

    def known(self, pi):
        """Return accepted rows and c where all probabilities are known."""
        return self._known.take(pi, self.p, self.u)


def n_offered(logs):
    """Return the number of offered actions, by round where it varies."""
    return logs.n_actions if logs.available is None else logs.available.sum(axis=1)
