# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Observers of the weights of policies in a part of a log.

Each kind of weights is summed with its bounded form, as `Overlap` needs them: against
the propensities of one logger, of every logger by itself, or of their mixture.
"""

import numpy as np

from skope_ope.evaluators.core._loggers import SURE
from skope_ope.evaluators.core._mean_weight import bounded
from skope_ope.evaluators.core._tally import Tally

UNKNOWN_LENGTH = 1_000_000  # rounds of a log, where their number is not known


class PartWeights:
    """Observes weights against the propensities, of one sample.

    Parameters
    ----------
    part : Part
        The rounds.
    stack : Stack
        Where the sums go.
    names : dict
        Name of the policy by the key of its target.
    n_total : int, default=None
        Number of rounds of the whole log.

    Attributes
    ----------
    tallies : dict
        `Tally` by the name of the policy.
    """

    kind = "plain"

    def __init__(self, part, stack, names, n_total=None):
        self.part, self.stack, self.names = part, stack, names
        self.n_total = UNKNOWN_LENGTH if n_total is None else n_total
        self.actions, self.labels = part.all_logs.actions.tolist(), [None]
        self.lacking = self._lacking()
        self.tallies = {}

    def _lacking(self):
        """Return the codes of actions that a logger never took in this part."""
        return self.part.unseen

    def begin(self, block):
        """Nothing is to be done for a block alone."""

    def see(self, key, target):
        """Add what a policy does in a block."""
        if key not in self.names:
            return
        name = self.names[key]
        if name not in self.tallies:
            known = target.table is not None or target.mass_on is not None
            self.tallies[name] = Tally(self.labels, self.actions, known)
        tally, w = self.tallies[name], self.weights(target)
        if w is not None:
            small = bounded(w, self.n_total, float(w.max()))
            self.stack.put((self.kind, name), target.block, (w, small))
            self._add_extremes(tally, target, w)
        self._add_missing(tally, target)

    def weights(self, target):
        """Return the importance weights."""
        return target.w

    def _add_extremes(self, tally, target, w):
        block = target.block
        gain, reward = target.gain if w is target.w else w * block.reward, block.reward
        lowest = float(w.min())
        tally.lowest = min(tally.lowest, lowest)
        self._add_largest(tally, block, w)
        size = max(float(gain.max()), -float(gain.min()))
        tally.largest_gain = max(tally.largest_gain, size)
        if block.omega is not None:
            reward = reward[(w != 0) & (block.omega > 0)]
        elif lowest <= 0:
            reward = reward[w != 0]
        if len(reward):
            low, high = tally.reward_range
            tally.reward_range = (
                min(low, float(reward.min())),
                max(high, float(reward.max())),
            )

    def _add_largest(self, tally, block, w):
        w = w if block.omega is None else block.omega * w
        tally.largest[0] = max(tally.largest[0], float(w.max()))

    def _add_missing(self, tally, target):
        """Add what the policy wants and the logger could not do, or did not."""
        if not tally.table:
            return
        block, proba = target.block, target.block.logs.logging_proba
        if target.table is not None and proba is not None:
            mu = proba[block.rows]
            if mu.min() == 0:
                mass = _counted(block, (target.table * (mu == 0)).sum(axis=1))
                self._add_by_logger(tally.told, block, mass)
            return
        certain = self._certain(block)
        if certain is not None:
            mass = _counted(block, np.where(certain, 1 - target.pi, 0.0))
            self._add_by_logger(tally.certain, block, mass)
        for code in self.lacking.tolist():
            mass = _counted(block, target.of([code]))
            there = 0.0 if certain is None else np.where(certain, mass, 0.0)
            self._add_by_logger(tally.wanted[:, code], block, mass - there)
            if certain is not None:
                self._add_by_logger(tally.wanted_there[:, code], block, there)

    def _certain(self, block):
        """Return where the logged action was certain, None for nowhere."""
        if block.p is None or not block.p.max() >= 1:
            return None
        return block.p >= 1

    def _add_by_logger(self, sums, block, mass):
        sums += mass.sum()


class PartMixtureWeights(PartWeights):
    """Observes weights against the mixture of the loggers."""

    kind = "mixture"

    def weights(self, target):
        """Return the importance weights."""
        return target.b

    def _add_missing(self, tally, target):
        block, loggers = target.block, target.block.loggers
        several = len(self.part.all_logs.loggers) > 1
        if several and not tally.gaps:
            tally.gaps = loggers.has_gaps
        super()._add_missing(tally, target)

    def _certain(self, block):
        certain = block.loggers.mixture > 1 - SURE  # all of them, of this action
        return certain if certain.any() else None


class PartLoggerWeights(PartWeights):
    """Observes weights against the propensities, logger by logger.

    Parameters
    ----------
    loggers : Loggers
        Who acted; it has told the blocks.
    """

    kind = "loggers"

    def __init__(self, part, stack, names, n_total, loggers):
        self.loggers = loggers
        super().__init__(part, stack, names, n_total)
        self.labels = loggers.labels

    def _lacking(self):
        if self.loggers.proba is not None:  # what others did is told by its probability
            return self.part.unseen
        return np.unique(np.concatenate(self.loggers.never_taken))

    def _add_largest(self, tally, block, w):
        w = _counted(block, w)
        np.maximum.at(tally.largest, block.loggers.index, w)

    def _add_by_logger(self, sums, block, mass):
        sums += block.of(self.loggers.design).by_stratum(mass)

    def _add_missing(self, tally, target):
        block, loggers = target.block, self.loggers
        told = target.table is not None and block.logs.logging_proba is not None
        if len(loggers) > 1 and loggers.proba is not None and not told:
            b = _counted(block, target.b)
            tally.lost += b @ (loggers.proba[block.rows] == 0)
            tally.sum_b += float(b.sum())
        super()._add_missing(tally, target)


def _counted(block, values):
    """Return values of rounds times their sample weights."""
    return values if block.omega is None else block.omega * values
