# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""What a walk must know of a whole log before it begins, in one pass over columns."""

from math import inf

import numpy as np

from skope_ope.evaluators.sequential._acceptance import n_offered
from skope_ope.evaluators.sequential._history import first_reversal
from skope_ope.logs._propensity_audit import DRIFT_Z
from skope_ope.logs.sums._log_sums import LogSums

FEW = 30  # rounds of an action tell no trend


class LogFacts:
    """Facts about consecutive parts of a log; those of neighbours add up."""

    def __init__(self, sizes, reward_sums):
        self.sizes, self.reward_sums = sizes, reward_sums
        self.log = self.reversal = self.drift = self._ends = None
        self.most_offered = 0

    @classmethod
    def of(cls, logs, drift=False):
        """Return the facts of a partition."""
        if logs is None or not len(logs):
            return cls([0], [0.0])
        out = cls([len(logs)], [float(logs.reward.sum())])
        out.log = LogSums.of(logs)
        out.most_offered = int(np.max(n_offered(logs)))
        time = logs.timestamp
        if time is not None:
            out._ends, out.reversal = (time[0], time[-1]), first_reversal(time)
        if drift and logs.propensity is not None:
            out.drift = DriftSums.of(logs)
        return out

    def __add__(self, other):
        """Return the facts of both, where the other comes after this."""
        out = LogFacts(self.sizes + other.sizes, self.reward_sums + other.reward_sums)
        if self.log is None or other.log is None:
            first = other if self.log is None else self
            out.log, out.most_offered = first.log, first.most_offered
            out.reversal, out.drift = first.reversal, first.drift
            out._ends = first._ends
            return out
        out.log = self.log + other.log
        out.most_offered = max(self.most_offered, other.most_offered)
        out.reversal = self.reversal
        if self._ends is not None:
            out._ends = self._ends[0], other._ends[1]
            if self.reversal is None:
                if other._ends[0] < self._ends[1]:
                    out.reversal = self.n_rounds
                elif other.reversal is not None:
                    out.reversal = self.n_rounds + other.reversal
        if self.drift is not None:
            out.drift = self.drift + other.drift
        return out

    @property
    def n_rounds(self):
        """Number of rounds."""
        return sum(self.sizes)

    @property
    def smallest_propensity(self):
        """The smallest logged propensity."""
        return self.log._lowest_propensity

    @property
    def propensities_drift(self):
        """Whether propensities of some action move with time beyond chance."""
        # Where rounds depend on each other in groups, the sample of the log tells.
        if self.log.groups is not None:
            return self.log.sampled.propensities_drift
        return self.drift.drifts

    @property
    def weighted(self):
        """Whether rounds count differently."""
        return self.log._weighs_unevenly


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
        out._t, out._p = (_ratio(np.bincount(codes, v, k), out.n) for v in (t, p))
        t, p = t - out._t[codes], p - out._p[codes]
        pairs = (t, t), (p, p), (t, p)
        out._products = np.stack([np.bincount(codes, a * b, k) for a, b in pairs])
        return out

    def __add__(self, other):
        """Return the sums of both, where the other comes after this."""
        out = DriftSums.__new__(DriftSums)
        out.n_rounds, out.n = self.n_rounds + other.n_rounds, self.n + other.n
        share = _ratio(other.n, out.n)
        t, p = other._t + self.n_rounds - self._t, other._p - self._p
        out._t, out._p = self._t + share * t, self._p + share * p
        between = self.n * share * np.stack([t * t, p * p, t * p])
        out._products = self._products + other._products + between
        return out

    @property
    def drifts(self):
        """Whether propensities of some action move with time beyond chance."""
        time, spread, both = self._products
        known = (self.n >= FEW) & (np.sqrt(_ratio(spread, self.n)) >= 1e-9)
        z = _ratio(np.abs(both), np.sqrt(time * spread)) * np.sqrt(self.n)
        return bool((z[known] > DRIFT_Z).any())


def _ratio(above, below):
    return np.divide(above, below, out=np.zeros(len(above)), where=below > 0)


class LeastRatios:
    """The smallest p / pi of several policies; those of parts add up."""

    def __init__(self, by_policy):
        self.by_policy = by_policy

    def __add__(self, other):
        """Return those of both parts."""
        return LeastRatios(
            {
                name: min(least, other.by_policy[name])
                for name, least in self.by_policy.items()
            }
        )

    def of(self, policy):
        """Return that of a policy, 1 where it wants nothing that was logged."""
        least = self.by_policy[policy]
        return least if least < inf else 1.0
