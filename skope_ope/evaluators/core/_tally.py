# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Counts, extremes and histograms of weights, which merge by addition."""

from math import nan

import numpy as np

MANTISSA = 46  # bits of a float below its bin: bins are 0.8 to 1.6% wide
N_BINS = 1 << (63 - MANTISSA)  # for numbers without a sign
NAMES = ("weights", "weighted_rewards")


class Tally:
    r"""Observes one policy: events, largest terms, histograms, and what was logged.

    Parameters
    ----------
    logs : BanditLogs
        The rounds.

    Attributes
    ----------
    counts : dict
        Number of rounds by (logger, action); the logger is None where the logs do not
        tell it.
    largest : dict
        Largest \|w\| and \|w r\|, by the names "weights" and "weighted_rewards".
    histograms : dict
        (Weighted) number of rounds in the logarithmic bins of \|w\| and \|w r\|.
    reward_range : tuple (float, float)
        Smallest and largest reward.
    """

    def __init__(self, logs):
        self.counts = _counts(logs)
        self.reward_range = float(logs.reward.min()), float(logs.reward.max())
        self.largest = dict.fromkeys(NAMES, 0.0)
        self.histograms = {name: np.zeros(N_BINS) for name in NAMES}
        self._events = np.zeros((2, 2))  # sums and sums of squares, by kind

    def begin(self, block):
        """Nothing is to be done for a block alone."""

    def see(self, key, target):
        """Add what the policy does in a block."""
        if target.w is None:
            return
        block, w = target.block, target.w
        omega = 1.0 if block.omega is None else block.omega
        gain = w * block.reward
        for name, values in zip(NAMES, (w, gain), strict=True):
            size = np.abs(values)
            counted = size if block.omega is None else size[omega > 0]
            largest = float(counted.max(initial=0.0))
            self.largest[name] = max(self.largest[name], largest)
            np.add.at(self.histograms[name], bins_of(size), omega)
        for sums, event in zip(
            self._events, (np.abs(gain), w * (block.reward == 0)), strict=True
        ):
            event = omega * event
            sums += event.sum(), event @ event

    @property
    def rewarded_events(self):
        """Effective number of rewarded rounds, (sum w|r|)^2 / sum (w r)^2."""
        return _effective(*self._events[0])

    @property
    def unrewarded_events(self):
        """The same of the rounds whose reward is 0, of the weights alone."""
        return _effective(*self._events[1])

    def quantile(self, name, q):
        """Return a quantile of a histogram, within the width of its bins.

        Parameters
        ----------
        name : {"weights", "weighted_rewards"}
            Of what.
        q : float
            In [0, 1].
        """
        total = self.histograms[name].cumsum()
        if not total[-1]:
            return nan
        at = int(np.searchsorted(total, q * total[-1]))
        return float(edges_of(np.array([min(at, N_BINS - 1)]))[0])

    def __add__(self, other):
        """Return what both parts show."""
        if not isinstance(other, Tally):
            return NotImplemented
        out = object.__new__(Tally)
        keys = self.counts | other.counts
        out.counts = {k: self.counts.get(k, 0) + other.counts.get(k, 0) for k in keys}
        lows, highs = zip(self.reward_range, other.reward_range, strict=True)
        out.reward_range = min(lows), max(highs)
        out.largest = {n: max(self.largest[n], other.largest[n]) for n in NAMES}
        out.histograms = {n: self.histograms[n] + other.histograms[n] for n in NAMES}
        out._events = self._events + other._events
        return out

    def to_table(self):
        """Return the tally as a dict of small arrays."""
        table = {
            "tally_counts": np.array(list(self.counts.values())),
            "tally_loggers": np.array([str(k[0]) for k in self.counts]),
            "tally_actions": np.array([str(k[1]) for k in self.counts]),
            "tally_range": np.array(self.reward_range),
            "tally_events": self._events,
        }
        for name in NAMES:
            filled = np.flatnonzero(self.histograms[name])
            table[f"tally_{name}_bins"] = filled
            table[f"tally_{name}"] = self.histograms[name][filled]
            table[f"tally_{name}_largest"] = np.array(self.largest[name])
        return table


def bins_of(size):
    """Return the bin of every non-negative number: the top bits of the float."""
    bits = np.ascontiguousarray(size, dtype=np.float64).view(np.int64)
    return bits >> MANTISSA


def edges_of(bins):
    """Return the lower edge of every bin."""
    return (np.asarray(bins, dtype=np.int64) << MANTISSA).view(np.float64)


def _effective(total, square):
    return float(total * total / square) if square else 0.0


def _counts(logs):
    """Return the number of rounds by (logger, action)."""
    actions = logs.actions.tolist()
    if logs.loggers is None:
        pairs = [(None, action) for action in actions]
        return dict(zip(pairs, logs.action_counts.tolist(), strict=True))
    cells = logs.logger_index * logs.n_actions + logs.action_index
    found = np.bincount(cells, minlength=len(logs.loggers) * logs.n_actions)
    pairs = [(logger, action) for logger in logs.loggers.tolist() for action in actions]
    return dict(zip(pairs, found.tolist(), strict=True))
