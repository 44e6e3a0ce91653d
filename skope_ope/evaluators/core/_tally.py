# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Counts, extremes and histograms of weights, which merge by addition."""

from ast import literal_eval
from copy import copy
from math import inf, nan

import numpy as np

from skope_ope._dot import dot
from skope_ope.evaluators.core._design import in_order

MANTISSA = 46  # bits of a float below its bin: bins are 0.8 to 1.6% wide
NAMES = ("weights", "weighted_rewards")


class Tally:
    r"""Counts, events, largest terms and histograms of the rounds of one policy.

    Parameters
    ----------
    part : PositiveRounds
        The rounds; those of sample weight zero do not count.

    Attributes
    ----------
    n : int
        Number of rounds.
    actions, loggers : list
        Labels; no action for slates, one logger None where the logs tell none.
    counts : ndarray of shape (n_loggers, n_actions)
        Number of rounds by logger and action.
    wanted : ndarray of shape (n_actions,)
        (Weighted) sum of the policy's probability of every action, over the rounds
        that do not tell what the logger could not do.
    mass, lost : float
        Sum of the sample weights, and of the policy's probability of what the logger
        could not do, over the rounds that tell it.
    largest : dict
        Largest \|w\| and \|w r\|, by the names "weights" and "weighted_rewards".
    histograms : dict
        Filled bins of \|w\| and \|w r\|, see `bins_of`, and their (weighted) numbers of
        rounds.
    reward_range : tuple (float, float)
        Smallest and largest reward of the rounds that were used.
    """

    def __init__(self, part):
        logs = part.all_logs
        self.n, self.actions, self.loggers = part.n, [], [None]
        self.mass = float(part.n if part.omega is None else part.omega.sum())
        self.counts = np.zeros((1, 0))
        if hasattr(logs, "actions"):
            self.actions, codes = logs.actions.tolist(), logs.action_index
            if logs.loggers is not None:
                self.loggers = logs.loggers.tolist()
                codes = logs.logger_index * len(self.actions) + codes
            shape = len(self.loggers), len(self.actions)
            self.counts = part.counts(codes, shape[0] * shape[1]).reshape(shape)
        self.wanted = np.zeros(len(self.actions))
        self.lost, self.reward_range = 0.0, (inf, -inf)
        self.largest = dict.fromkeys(NAMES, 0.0)
        self.histograms = {name: (np.zeros(0, np.int64), np.zeros(0)) for name in NAMES}
        self._events = np.zeros((2, 2))  # sums and sums of squares, by kind

    def add(self, w, reward, omega=None, used=None):
        """Add rounds.

        Parameters
        ----------
        w, reward : ndarray of shape (n,)
            Importance weights and rewards.
        omega : ndarray of shape (n,), default=None
            Sample weights.
        used : ndarray of bool of shape (n,), default=None
            Rounds whose rewards the estimate uses; `None`: those whose weight is not 0.
        """
        if omega is not None:
            enter = omega > 0
            w, reward, omega = w[enter], reward[enter], omega[enter]
            used = None if used is None else used[enter]
        self.add_rewards(reward[(w != 0) if used is None else used])
        gain = w * reward
        for name, values in zip(NAMES, (w, gain), strict=True):
            size = np.abs(values)
            self.largest[name] = max(self.largest[name], float(size.max(initial=0)))
            found, at = np.unique(bins_of(size), return_inverse=True)
            more = found, np.bincount(at, omega, len(found))
            self.histograms[name] = _merged(self.histograms[name], more)
        kinds = np.abs(gain), w * (reward == 0)
        for sums, event in zip(self._events, kinds, strict=True):
            event = event if omega is None else omega * event
            sums += event.sum(), dot(event, event)

    def add_rewards(self, reward):
        """Add rewards that are used to their range."""
        if len(reward):
            low, high = self.reward_range
            found = float(reward.min()), float(reward.max())
            self.reward_range = min(low, found[0]), max(high, found[1])

    @property
    def rewarded_events(self):
        """Effective number of rewarded rounds, (sum w|r|)^2 / sum (w r)^2."""
        return _effective(*self._events[0])

    @property
    def unrewarded_events(self):
        """The same of the rounds whose reward is 0, of the weights alone."""
        return _effective(*self._events[1])

    @property
    def missing_mass(self):
        """Mean probability of what the logger could not do, or never did."""
        unseen = self.counts.sum(axis=0) == 0
        return (self.lost + float(self.wanted[unseen].sum())) / self.mass

    def quantile(self, name, q):
        """Return a quantile from a histogram: the lower edge of its bin.

        Parameters
        ----------
        name : {"weights", "weighted_rewards"}
            Of what.
        q : float
            In [0, 1].
        """
        bins, mass = self.histograms[name]
        if not len(bins):
            return nan
        total = mass.cumsum()
        place = int(np.searchsorted(total, q * total[-1]))
        return float(edges_of(bins[[min(place, len(bins) - 1)]])[0])

    def __add__(self, other):
        """Return what both parts show."""
        if not isinstance(other, Tally):
            return NotImplemented
        out = copy(self)
        out.n, out.mass = self.n + other.n, self.mass + other.mass
        out.lost = self.lost + other.lost
        out.actions = in_order(dict.fromkeys([*self.actions, *other.actions]))
        out.loggers = in_order(dict.fromkeys([*self.loggers, *other.loggers]))
        action = {label: place for place, label in enumerate(out.actions)}
        logger = {label: place for place, label in enumerate(out.loggers)}
        out.wanted = np.zeros(len(action))
        out.counts = np.zeros((len(logger), len(action)))
        for one in (self, other):
            columns = np.array([action[label] for label in one.actions], dtype=int)
            rows = np.array([logger[label] for label in one.loggers], dtype=int)
            out.wanted[columns] += one.wanted
            out.counts[np.ix_(rows, columns)] += one.counts
        lows, highs = zip(self.reward_range, other.reward_range, strict=True)
        out.reward_range = min(lows), max(highs)
        out.largest = {n: max(self.largest[n], other.largest[n]) for n in NAMES}
        out.histograms = {
            n: _merged(self.histograms[n], other.histograms[n]) for n in NAMES
        }
        out._events = self._events + other._events
        return out

    def to_table(self):
        """Return the tally as a dict of arrays."""
        table = {
            "tally_numbers": np.array([self.n, self.mass, self.lost]),
            "tally_actions": np.array([repr(label) for label in self.actions], str),
            "tally_loggers": np.array([repr(label) for label in self.loggers], str),
            "tally_counts": self.counts,
            "tally_wanted": self.wanted,
            "tally_reward_range": np.array(self.reward_range),
            "tally_events": self._events,
        }
        for name in NAMES:
            bins, mass = self.histograms[name]
            table[f"tally_{name}_bins"], table[f"tally_{name}"] = bins, mass
            table[f"tally_{name}_largest"] = np.array(self.largest[name])
        return table

    @classmethod
    def from_table(cls, table):
        """Return the tally that `to_table` wrote."""
        out = cls.__new__(cls)
        n, out.mass, out.lost = table["tally_numbers"].tolist()
        out.n = int(n)
        for name in ("actions", "loggers"):
            labels = table[f"tally_{name}"].tolist()
            setattr(out, name, [literal_eval(label) for label in labels])
        out.counts, out.wanted = table["tally_counts"], table["tally_wanted"]
        out.reward_range = tuple(table["tally_reward_range"].tolist())
        out._events = table["tally_events"]
        out.largest = {name: float(table[f"tally_{name}_largest"]) for name in NAMES}
        out.histograms = {
            name: (table[f"tally_{name}_bins"], table[f"tally_{name}"])
            for name in NAMES
        }
        return out


class Tallying:
    """Observes what one policy does in a pass over the rounds.

    Parameters
    ----------
    part : PositiveRounds
        The rounds.
    weight : callable or None
        Takes an `TargetBlock` and returns the importance weights; None: there are none.
    uses_all : bool
        Whether rewards are used in rounds of importance weight 0, too.
    alone : bool
        Whether a round tells by itself what its logger could not do.
    """

    def __init__(self, part, weight, uses_all, alone):
        self.tally, self.weight = Tally(part), weight
        self.uses_all, self.alone = uses_all, alone

    def begin(self, block):
        """Nothing is to be done for a block alone."""

    def see(self, key, target):
        """Add what the policy does in a block."""
        block, tally = target.block, self.tally
        w = None if self.weight is None else self.weight(target)
        if w is not None:
            used = np.ones(len(w), dtype=bool) if self.uses_all else None
            tally.add(w, block.reward, block.omega, used)
        if target.table is not None:
            self._add_wanted(target)

    def _add_wanted(self, target):
        """Add what the policy wants, and what of it the logger could not do."""
        block, tally = target.block, self.tally
        omega = np.ones(len(target.pi)) if block.omega is None else block.omega
        told = np.zeros(len(target.pi), dtype=bool)
        if self.alone and block.logs.logging_proba is not None:
            told[:] = True
            never = block.logs.logging_proba[block.rows] == 0
            tally.lost += float(omega @ (target.table * never).sum(axis=1))
        elif self.alone and block.p is not None:
            told = block.p >= 1  # then all other actions had probability 0
            tally.lost += float(omega[told] @ (1 - target.pi[told]))
        tally.wanted += (omega * ~told) @ target.table


def bins_of(size):
    """Return the bin of every non-negative number: the top bits of the float."""
    bits = np.ascontiguousarray(size, dtype=np.float64).view(np.int64)
    return bits >> MANTISSA


def edges_of(bins):
    """Return the lower edge of every bin."""
    return (np.asarray(bins, dtype=np.int64) << MANTISSA).view(np.float64)


def _merged(one, other):
    """Return the histogram of both."""
    bins, at = np.unique(np.concatenate([one[0], other[0]]), return_inverse=True)
    return bins, np.bincount(at, np.concatenate([one[1], other[1]]), len(bins))


def _effective(total, square):
    return float(total * total / square) if square else 0.0
