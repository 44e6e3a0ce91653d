# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""What must be known of a whole log before a pass over its rounds."""

from copy import copy
from functools import cached_property

import numpy as np

from skope_ope.evaluators.sequential._acceptance import n_offered
from skope_ope.exceptions import LogsWarning
from skope_ope.logs.checks._propensity_sums import DRIFT_Z
from skope_ope.logs.sums._log_sums import LogSums

FEW_FOR_TREND = 30  # rounds of an action tell no trend


class OrderedLogFacts:
    """What is known of a whole log; facts of consecutive parts add up."""

    # Of rounds in memory they are found when they are asked, those of files in one pass
    # over columns: see `without_rounds`.

    def __init__(self, log):
        # The rounds, or `LogSums` that answer what findings ask of rounds; None: there
        # are none
        self.log = log if log is not None and len(log) else None

    @cached_property
    def sizes(self):
        """Numbers of rounds of the parts."""
        return [0 if self.log is None else len(self.log)]

    @cached_property
    def reward_sums(self):
        """Sums of the rewards of the parts."""
        return [0.0 if self.log is None else float(self.log.reward.sum())]

    @cached_property
    def most_offered(self):
        """The most actions that were ever offered."""
        return int(np.max(n_offered(self.log)))

    @cached_property
    def first_reversal(self):
        """The first row whose time is before that of the row above, or None."""
        return first_reversal(self.log.timestamp)

    @cached_property
    def _ends(self):
        time = self.log.timestamp
        return None if time is None else (time[0], time[-1])

    @cached_property
    def drift(self):
        """`DriftSums`; None without propensities."""
        return None if self.log.propensity is None else DriftSums.of(self.log)

    def without_rounds(self, drift=False):
        """Return the same facts; with `drift` those of the propensities, too."""
        names = ["sizes", "reward_sums"]
        if self.log is not None:
            names += ["most_offered", "first_reversal", "_ends"]
            names += ["drift"] * drift
        out = OrderedLogFacts(None)
        out.__dict__.update({name: getattr(self, name) for name in names})
        out.log = None if self.log is None else LogSums.of(self.log)
        return out

    def __add__(self, other):
        """Return the facts of both, where the other comes after this."""
        out = copy(other if self.log is None else self)
        out.sizes = self.sizes + other.sizes
        out.reward_sums = self.reward_sums + other.reward_sums
        if self.log is None or other.log is None:
            return out
        out.log = self.log + other.log
        out.most_offered = max(self.most_offered, other.most_offered)
        if self._ends is not None:
            out._ends = self._ends[0], other._ends[1]
            if self.first_reversal is None:
                if other._ends[0] < self._ends[1]:
                    out.first_reversal = self.n_rounds
                elif other.first_reversal is not None:
                    out.first_reversal = self.n_rounds + other.first_reversal
        if vars(self).get("drift") is not None:
            out.drift = self.drift + other.drift
        return out

    @property
    def n_rounds(self):
        """Number of rounds."""
        return sum(self.sizes)

    @property
    def propensities_drift(self):
        """Whether propensities of some action move with time beyond chance."""
        # Where rounds depend on each other in groups, the sample of the log tells.
        if self.log.groups is not None:
            return self.log.sampled.propensities_drift
        return self.drift.drifts


def first_reversal(time):
    """Return the first row whose time is before that of the row above, or None."""
    if time is None or len(time) < 2 or (time[1:] >= time[:-1]).all():
        return None
    return int(np.flatnonzero(time[1:] < time[:-1])[0]) + 1


def reversal_warnings(row):
    """Return a warning where the rounds are not in the order of their times."""
    if row is None:
        return []
    return [
        LogsWarning(
            f"timestamp decreases at row {row}, but rounds are taken in the order "
            "of their rows. Sort the logs by time.",
            row,
        )
    ]


class DriftSums:
    """How the propensities of every action vary with the number of their round."""

    # Means and centred products of both, by action; those of neighbours add up.

    @classmethod
    def of(cls, logs):
        """Return the sums of some rounds."""
        out = cls.__new__(cls)
        codes, k = logs.action_index, logs.n_actions
        out.n_rounds, out.n = len(logs), np.bincount(codes, minlength=k).astype(float)
        t, p = np.arange(len(logs), dtype=float), logs.propensity
        out._t, out._p = (_quotient(np.bincount(codes, v, k), out.n) for v in (t, p))
        t, p = t - out._t[codes], p - out._p[codes]
        pairs = (t, t), (p, p), (t, p)
        out._products = np.stack([np.bincount(codes, a * b, k) for a, b in pairs])
        return out

    def __add__(self, other):
        """Return the sums of both, where the other comes after this."""
        out = DriftSums.__new__(DriftSums)
        out.n_rounds, out.n = self.n_rounds + other.n_rounds, self.n + other.n
        share = _quotient(other.n, out.n)
        t, p = other._t + self.n_rounds - self._t, other._p - self._p
        out._t, out._p = self._t + share * t, self._p + share * p
        between = self.n * share * np.stack([t * t, p * p, t * p])
        out._products = self._products + other._products + between
        return out

    @property
    def drifts(self):
        """Whether propensities of some action move with time beyond chance."""
        time, spread, both = self._products
        known = (self.n >= FEW_FOR_TREND) & (np.sqrt(_quotient(spread, self.n)) >= 1e-9)
        z = _quotient(np.abs(both), np.sqrt(time * spread)) * np.sqrt(self.n)
        return bool((z[known] > DRIFT_Z).any())


def _quotient(above, below):
    return np.divide(above, below, out=np.zeros(len(above)), where=below > 0)


def smallest_ratio(pi, p, nothing=1.0):
    """Return the smallest p / pi; a number where nothing that was logged is wanted."""
    wanted = pi > 0
    return float((p[wanted] / pi[wanted]).min()) if wanted.any() else nothing
