# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Acceptance rules: which logged rounds enter the simulated history."""

import numpy as np

from skope_ope.evaluators.sequential._quantile import (
    RunningQuantile,
    trace_known_ratios,
)

BELOW = 1 - 1e-12  # allows for rounding where a row is sorted out beforehand


class UniformRule:
    """Replay: accept when u < pi(a|x, h) K(x) / K_max, for uniform loggers.

    Parameters
    ----------
    scale : ndarray of shape (n_rounds,)
        K(x) / K_max, the offered actions over the most that were ever offered.
    u : ndarray of shape (n_rounds,)
        Uniform numbers.
    """

    c = 1.0
    observes = False  # whether c depends on the probabilities of earlier rows

    def __init__(self, scale, u):
        self.scale, self.u = scale, u

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
    """Rejection sampling: accept when pi > 0 and u <= c pi / p, c fixed.

    Parameters
    ----------
    c : float
        Largest acceptance ratio; unbiased where c pi <= p throughout.
    p, u : ndarray of shape (n_rounds,)
        Propensities and uniform numbers.
    """

    observes = False

    def __init__(self, c, p, u):
        self.c = self.cmax = c
        self.p, self.u = p, u

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
    """DR-ns: rejection sampling whose c follows a quantile of the ratios p / pi.

    c starts at c_init (None: cmax) and becomes min(cmax, quantile_q) after every
    acceptance, over all rows so far, the accepted one included.
    """

    observes = True

    def __init__(self, q, cmax, p, u, c_init=None):
        super().__init__(cmax, p, u)
        self.q = q
        self.c = self.c_init = cmax if c_init is None else c_init
        self._ratios = RunningQuantile(q)

    def observe(self, pi, rows):
        """Insert the ratios p / pi of `rows`."""
        with np.errstate(divide="ignore"):
            self._ratios.extend((self.p[rows] / pi).tolist())

    def renew(self):
        """Set c after an acceptance."""
        self.c = min(self.cmax, self._ratios.value())

    def known(self, pi):
        """Return accepted rows and c where all probabilities are known."""
        rounds = pi, self.p, self.u
        return trace_known_ratios(*rounds, self.q, self.cmax, self.c_init)
