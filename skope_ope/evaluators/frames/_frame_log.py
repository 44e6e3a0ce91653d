# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""What is known of the log behind a lazy frame: counts and sums, and its first rows."""

from copy import copy
from types import SimpleNamespace

import numpy as np

from skope_ope.evaluators.frames._columns import where
from skope_ope.logs.sums._group_sums import GroupSums, WordsOfGroups
from skope_ope.logs.sums._log_sums import LogSums

FIRST = 20_000  # rows that are looked at: the first ones that come


class FrameLog:
    """Sums of rewards and propensities of all rounds."""

    # Tests that need rows look at the first 20,000 that come, not at rows drawn by lot
    # from all of them: a draw would cost as much as the sums.

    def __init__(self, whole):
        self.whole, asking, rounds = whole, whole.asking, whole.rounds
        r, omega, query = query_reward(whole), rounds.omega, whole.query
        self._asked = asked = {
            "reward_sum": asking.sum(r),
            "square": asking.sum(r * r),
            "n_rewarded": asking.sum((r != 0.0).astype(float)),
        }
        if omega is not None:
            positive = query.define(whole.counted(omega))
            asked["weight_low"] = asking.least(positive)
            asked["weight_high"] = asking.largest(positive)
            asked["mass_square"] = asking.sum(omega * omega)
        self._gap = None
        if rounds.p is not None:
            p = query.define(whole.counted(rounds.p))
            asked["low"], asked["high"] = asking.least(p), asking.largest(p)
            gap = query.define(1.0 / rounds.p - float(len(whole.counts.actions)))
            self._gap = gap if omega is None else query.define(omega * gap)
            asked["gap"] = asking.sum(self._gap)
            asked["gap_square"] = asking.sum(self._gap * self._gap)
            if omega is not None:
                asked["gap_cross"] = asking.sum(omega * self._gap)

    def ask_cells(self, cells):
        """Ask for what is summed by group."""
        if self._gap is not None:
            self._by_group = cells.sum(self._gap)

    def taken(self, whole, limits, cells=None):
        """Return the `LogSums`."""
        counts, asked = self.whole.counts, self._asked
        out = LogSums.of(first_rows(self.whole.lazy, counts))
        out.n, out.n_logged = counts.n, counts.n_logged
        out.mass = float(counts.mass.sum())
        out._action_counts = counts.counts.sum(axis=0).astype(int)
        if counts.loggers is not None:
            out._logger_counts = counts.counts.sum(axis=1).astype(int)
        if "weight_low" in asked:
            out.weight_low = float(whole.least(asked["weight_low"])[0])
            out.weight_high = float(whole.largest(asked["weight_high"])[0])
        out.reward_low, out.reward_high = limits
        out.reward_sum, square, n_rewarded = (
            float(whole.of(asked[name])[0])
            for name in ("reward_sum", "square", "n_rewarded")
        )
        out.n_rewarded = int(n_rewarded)
        inside = limits[0] >= 0 and limits[1] <= 1
        out._binary = bool(inside and out.reward_sum == square)
        out.pairs = out.first_time = out.last_time = None
        out.orders = {}  # what comes first tells nothing of rewards that are late
        if out.propensities is not None:
            out.propensities = self._propensities(whole, out.propensities)
        out.groups = None if cells is None else self._groups(cells)
        return out

    def _propensities(self, whole, first):
        """Return sums of all propensities; those of the first rows stand for some."""
        counts, asked, out = self.whole.counts, self._asked, copy(first)
        # no test rests on these two alone
        out.total, out.log_sum = (
            value * counts.n / first.n for value in (first.total, first.log_sum)
        )
        out.n, out.mass = counts.n, float(counts.mass.sum())
        out.low = float(whole.least(asked["low"])[0])
        out.high = float(whole.largest(asked["high"])[0])
        out.gap, out.gap_square = (
            float(whole.of(asked[name])[0]) for name in ("gap", "gap_square")
        )
        out.mass_square, out.gap_cross = float(counts.n), out.gap
        if "mass_square" in asked:
            out.mass_square, out.gap_cross = (
                float(whole.of(asked[name])[0]) for name in ("mass_square", "gap_cross")
            )
        out.law = None
        if first.by_action is not None:  # of the first rows: is it so of all?
            out.by_action = counts._propensity_by_action
        return out

    def _groups(self, cells):
        """Return the sums by group, or by hash bucket of more groups than are kept."""
        answers = cells.answers
        counts = answers.of(cells.count)
        sums = {"n": counts.astype(np.int64)}
        if self._gap is not None:
            omega = self.whole.rounds.omega
            mass = counts if omega is None else answers.of(cells.mass)
            sums |= {"gap": answers.of(self._by_group), "mass": mass}
        words = WordsOfGroups(SimpleNamespace(groups=answers.keys[-1]))
        kept = {name: values[words.order] for name, values in sums.items()}
        return GroupSums.of(words, kept)


def query_reward(whole):
    """Return the rewards of the rounds that weigh something, zero elsewhere."""
    omega, reward = whole.rounds.omega, whole.rounds.reward
    if omega is None:
        return reward
    return whole.query.define(where(omega > 0, reward, 0.0))


def first_rows(lazy, counts):
    """Return the first rows of a frame as logs that know all labels."""
    stated = {**lazy._reading.stated, "actions": np.array(counts.actions)}
    loggers = None if counts.loggers is None else np.array(counts.loggers)
    known = lazy._needing(context=False, columns=[])
    return known._with(stated=stated, loggers=loggers).head(FIRST)
