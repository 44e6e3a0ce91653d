# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Counts and extremes of the rounds of a log and of a policy, which merge by addition.

What a policy wants and the logger never did depends on the whole log: an action that
no round of one part shows may be in another. So the policy's probabilities of the
actions that a part lacks are summed action by action, and what is missing is known of
the whole.
"""

from dataclasses import dataclass, field
from itertools import pairwise
from math import inf

import numpy as np

from skope_ope.evaluators.core._blocks import blocks
from skope_ope.logs._labels import labels_of_texts, texts_of_labels
from skope_ope.logs.sums._log_sums import merged_labels, places_in

MOST_REWARDS = 8  # whose sample weights are told apart


@dataclass(eq=False)
class RoundCounts:
    """Numbers of the rounds of a part of a log."""

    n: int
    mass: float
    actions: list
    loggers: list
    counts: np.ndarray
    reward_range: tuple = (inf, -inf)
    weights: dict = field(default_factory=dict)  # sample weights, see `by_reward`

    @classmethod
    def of(cls, part):
        """Return those of some rounds, `PositiveRounds`."""
        logs, actions, loggers = part.all_logs, [], [None]
        mass = float(part.n if part.omega is None else part.omega.sum())
        counts = np.zeros((1, 0))
        if hasattr(logs, "actions"):
            actions, codes = logs.actions.tolist(), logs.action_index
            if logs.loggers is not None:
                loggers = logs.loggers.tolist()
                codes = logs.logger_index * len(actions) + codes
            shape = len(loggers), len(actions)
            if part.mask is None and logs.loggers is None:
                counts = logs._action_counts.reshape(shape)  # the logs remember them
            else:
                counts = part.counts(codes, shape[0] * shape[1]).reshape(shape)
        if part.mask is None and part.n:
            limits = logs._reward_extremes
        else:
            reward = part.of(logs.reward)
            limits = float(reward.min(initial=inf)), float(reward.max(initial=-inf))
        about = counts.astype(float), limits, _heaviest(part)
        return cls(part.n, mass, actions, loggers, *about)

    @property
    def unseen(self):
        """Which actions no round shows, a mask."""
        return self.counts.sum(axis=0) == 0

    def of_loggers(self):
        """Return the numbers where the loggers stand for the actions."""
        about = self.counts.sum(axis=1)[None], self.reward_range, self.weights
        return RoundCounts(self.n, self.mass, self.loggers, [None], *about)

    def __add__(self, other):
        """Return the numbers of both parts."""
        actions = merged_labels(self.actions, other.actions)
        loggers = merged_labels(self.loggers, other.loggers)
        places = [
            np.ix_(places_in(loggers, one.loggers), places_in(actions, one.actions))
            for one in (self, other)
        ]
        counts = np.zeros((len(loggers), len(actions)))
        for one, place in zip((self, other), places, strict=True):
            counts[place] += one.counts
        limits = both_ranges(self.reward_range, other.reward_range)
        n, mass = self.n + other.n, self.mass + other.mass
        weights = by_reward(
            [*rows_by_reward(self.weights), *rows_by_reward(other.weights)]
        )
        return RoundCounts(n, mass, actions, loggers, counts, limits, weights)

    def to_table(self):
        """Return the numbers as a dict of arrays."""
        return {
            "numbers": np.array([self.n, self.mass, *self.reward_range]),
            "actions": texts_of_labels(self.actions),
            "loggers": texts_of_labels(self.loggers),
            "counts": self.counts,
            "weights": np.array(rows_by_reward(self.weights), float).reshape(-1, 3),
        }

    @classmethod
    def from_table(cls, table):
        """Return the numbers that `to_table` wrote."""
        n, mass, *limits = table["numbers"].tolist()
        labels = labels_of_texts(table["actions"]), labels_of_texts(table["loggers"])
        weights = {
            reward: (low, high) for reward, low, high in table["weights"].tolist()
        }
        about = table["counts"], tuple(limits), weights
        return cls(int(n), mass, *labels, *about)


def by_reward(rows):
    """Return the range of the sample weights by reward; inf: of all rewards."""
    # Rewards are told apart where their weights are: then the weights follow from the
    # reward, as where most rounds without one were dropped. Otherwise a reward may be
    # as heavy as any, though no such round was met.
    found = {}
    for reward, least, most in rows:
        low, high = found.get(reward, (inf, 0.0))
        found[reward] = min(low, least), max(high, most)
    spans = sorted(found.values())
    apart = all(one[1] < other[0] for one, other in pairwise(spans))
    if inf in found or len(found) > MOST_REWARDS or not apart:
        return {inf: (spans[0][0], max(most for _, most in spans))}
    return found


def rows_by_reward(found):
    """Return what `by_reward` takes, of what it returns."""
    return [(reward, *span) for reward, span in found.items()]


def _heaviest(part):
    """Return those of the rounds that enter."""
    reward, omega, found = part.all_logs.reward, part.omega, {}
    if omega is None:
        return {inf: (1.0, 1.0)}
    for block in blocks(len(reward)):
        some, weights = reward[block.rows], omega[block.rows]
        some, weights = some[weights > 0], weights[weights > 0]
        while len(some):
            same = some == some[0]
            span = float(weights[same].min()), float(weights[same].max())
            found = by_reward([*rows_by_reward(found), (float(some[0]), *span)])
            if inf in found:
                return {inf: (float(omega[omega > 0].min()), float(omega.max()))}
            some, weights = some[~same], weights[~same]
    return found


class Tally:
    """What one policy does in the rounds, beside the sums of its weights."""

    _arrays = ("largest", "told", "certain", "lost")  # by logger

    def __init__(self, loggers, actions, table=True):
        self.loggers, self.actions, self.table = loggers, actions, table
        self.largest, self.told, self.certain, self.lost = np.zeros((4, len(loggers)))
        self.wanted, self.wanted_there = np.zeros((2, len(loggers), len(actions)))
        self.lowest = self.sum_b = 0.0
        self.reward_range, self.gaps = (inf, -inf), False
        self.told_sums, self.most = {}, {}

    def missing_mass(self, counts):
        """Return the mean probability of what no logger could do, or ever did."""
        never = self._never(counts)
        lacking = float((self.wanted * never).sum())
        return (float(self.told.sum() + self.certain.sum()) + lacking) / counts.mass

    def missing_by_logger(self, counts, sizes, rows):
        """Return the same of each logger, ndarray of shape (n_loggers,)."""
        never = self._never(counts)
        if not self.sum_b and len(counts.loggers) > 1:
            # what other loggers did tells nothing: what it never took itself is missing
            labels = [self.loggers[row] for row in rows]
            where = places_in(counts.actions, self.actions)
            never = (counts.counts == 0)[
                np.ix_(places_in(counts.loggers, labels), where)
            ]
        there = (self.wanted_there[rows] * never).sum(axis=1)
        missing = self.told[rows] + (self.wanted[rows] * never).sum(axis=1) + there
        missing, certain = missing / sizes, (self.certain[rows] - there) / sizes
        if not self.lost[rows].any():
            return missing + certain
        # What logger i cannot do is seen in the rounds of the others: by the weights b,
        # E[b 1(pi_i = 0)] is the mass that it misses. Divided by their sum, which is
        # one in expectation, it never exceeds the mass on what anyone did. Its own
        # certain rounds tell of the same, and of what nobody did there.
        others = (1 - missing) * self.lost[rows] / self.sum_b
        return missing + np.maximum(others, certain)

    def _never(self, counts):
        """Return which of the actions no round shows."""
        if self.actions == counts.actions:
            return counts.unseen
        place = dict(zip(counts.actions, counts.unseen.tolist(), strict=True))
        return np.array([place[label] for label in self.actions], dtype=bool)

    def __add__(self, other):
        """Return what both parts show."""
        loggers = merged_labels(self.loggers, other.loggers)
        actions = merged_labels(self.actions, other.actions)
        out = Tally(loggers, actions, self.table and other.table)
        for one in (self, other):
            rows = places_in(loggers, one.loggers)
            columns = places_in(actions, one.actions)
            np.maximum.at(out.largest, rows, one.largest)
            for name in self._arrays[1:]:
                getattr(out, name)[rows] += getattr(one, name)
            for name in ("wanted", "wanted_there"):
                getattr(out, name)[np.ix_(rows, columns)] += getattr(one, name)
        for name in [*self.told_sums, *other.told_sums]:
            out.told_sums[name] = sum(
                one.told_sums.get(name, 0.0) for one in (self, other)
            )
        for name in [*self.most, *other.most]:
            known = (one.most[name] for one in (self, other) if name in one.most)
            out.most[name] = max(known)
        out.lowest = min(self.lowest, other.lowest)
        out.sum_b, out.gaps = self.sum_b + other.sum_b, self.gaps or other.gaps
        out.reward_range = both_ranges(self.reward_range, other.reward_range)
        return out

    def to_table(self):
        """Return the tally as a dict of arrays."""
        numbers = [self.lowest, self.sum_b, *self.reward_range]
        return {
            "numbers": np.array([*numbers, self.gaps, self.table]),
            "loggers": texts_of_labels(self.loggers),
            "actions": texts_of_labels(self.actions),
            "wanted": self.wanted,
            "wanted_there": self.wanted_there,
            "told_names": np.array(list(self.told_sums), dtype=str),
            "told_sums": np.array(list(self.told_sums.values()), dtype=float),
            "most_names": np.array(list(self.most), dtype=str),
            "most": np.array(list(self.most.values()), dtype=float),
        } | {name: getattr(self, name) for name in self._arrays}

    @classmethod
    def from_table(cls, table):
        """Return the tally that `to_table` wrote."""
        out = cls(labels_of_texts(table["loggers"]), labels_of_texts(table["actions"]))
        for name in (*cls._arrays, "wanted", "wanted_there"):
            setattr(out, name, table[name])
        out.lowest, out.sum_b, *rest = table["numbers"].tolist()
        out.reward_range, (gaps, known) = tuple(rest[:2]), rest[2:]
        out.gaps, out.table = bool(gaps), bool(known)
        pairs = table["told_names"].tolist(), table["told_sums"].tolist()
        out.told_sums = dict(zip(*pairs, strict=True))
        pairs = table["most_names"].tolist(), table["most"].tolist()
        out.most = dict(zip(*pairs, strict=True))
        return out


def both_ranges(one, other):
    """Return the range of two ranges."""
    return min(one[0], other[0]), max(one[1], other[1])
