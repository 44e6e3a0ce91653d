# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""What the order of the rounds tells, from parts that are given in any order."""

from itertools import pairwise

import numpy as np

from skope_ope.logs._row_container import in_stored_order
from skope_ope.logs.sums._group_sums import ALL, GroupSums, WordsOfGroups

NUMBERS = ("start", "stop", "n", "rewarded", "lead", "trail", "last", "backwards")
MANY_VALUES = 1 << 16  # of gaps, above which they are sorted
BLOCK = 1 << 16  # rows
ENDS = 2_000  # groups of every origin whose last rounds are kept, where it is several


class OrderSums:
    """Stretches of the rounds of one origin, and the gaps between their rewards."""

    # A part of a log is one stretch: the rows between its first and its last one are
    # its own. Where those of several parts overlap nothing is known of the order.

    def __init__(self, stretches, times, gaps, ends):
        self.stretches, self.times = stretches, times
        self.gaps, self.ends = gaps, ends

    @classmethod
    def of(cls, logs, words=None):
        """Return the order of the rounds of a part of a log, at least one."""
        logs = in_stored_order(logs)
        reward, time = logs.reward, logs.timestamp
        rewarded = np.flatnonzero(reward != 0)  # faster than of the numbers
        n, k = len(reward), len(rewarded)
        last = int(rewarded[-1]) if k else -1
        ends = logs._positions_at(np.array([0, n - 1, last])).tolist()
        back = 0 if time is None else int(np.count_nonzero(time[1:] < time[:-1]))
        stretch = {
            "start": ends[0],
            "stop": ends[1] + 1,
            "n": n,
            "rewarded": k,
            "lead": int(rewarded[0]) if k else n,
            "trail": n - 1 - last,
            "last": ends[2] if k else -1,
            "backwards": back,
        }
        times = None if time is None else np.array([[time[0], time[-1]]])
        by_group = None
        if logs.group is not None:
            at = np.zeros(logs.n_groups, dtype=np.intp)
            for low in range(0, n, BLOCK):  # the last one of a group stays
                codes = logs.group_index[low : low + BLOCK]
                at[codes] = np.arange(low, low + len(codes))
            words = WordsOfGroups(logs, ALL) if words is None else words
            at = at[words.order]
            told = 2 * logs._positions_at(at) + (reward[at] != 0)
            by_group = GroupSums.of(words, {"last": told})
        stretches = np.array([[stretch[name] for name in NUMBERS]])
        return cls(stretches, times, _counted(np.diff(rewarded), n), by_group)

    def __add__(self, other):
        """Return the order of both parts."""
        stretches = np.concatenate([self.stretches, other.stretches])
        order = np.lexsort((stretches[:, 1], stretches[:, 0]))
        times = None
        if self.times is not None:
            times = np.concatenate([self.times, other.times])[order]
        gaps = dict(self.gaps)
        for length, count in other.gaps.items():
            gaps[length] = gaps.get(length, 0) + count
        ends = None if self.ends is None else self.ends + other.ends
        return OrderSums(stretches[order], times, gaps, ends)

    def with_fewer_ends(self, most=ENDS):
        """Return the same with the last rounds of fewer groups."""
        if self.ends is None:
            return self
        ends = self.ends.reduced((most, most))
        return OrderSums(self.stretches, self.times, self.gaps, ends)

    def joined(self):
        """Return the same with stretches that touch as one: few of many parts."""
        touch = self._of("start")[1:] == self._of("stop")[:-1]
        if not (self.is_known and touch.any()):
            return self
        first = np.flatnonzero(np.append(True, ~touch))
        rows = [
            OrderSums(
                self.stretches[a:b],
                None if self.times is None else self.times[a:b],
                {},
                None,
            )
            for a, b in pairwise([*first, len(self.stretches)])
        ]
        gaps = dict(self.gaps)
        for length in (gap for one in rows for gap in one._gaps_between()):
            gaps[length] = gaps.get(length, 0) + 1
        stretches = np.array([one._as_one() for one in rows])
        times = None
        if self.times is not None:
            times = np.array([[one.times[0, 0], one.times[-1, 1]] for one in rows])
        return OrderSums(stretches, times, gaps, self.ends)

    def _as_one(self):
        """Return the numbers of stretches that follow each other as those of one."""
        backward = type(self)(self.stretches[::-1], None, {}, None)
        one = {
            "start": self._of("start")[0],
            "stop": self._of("stop")[-1],
            "n": self.n,
            "rewarded": self.n_rewarded,
            "lead": backward._n_without("lead"),
            "trail": self.n_trailing,
            "last": self.last_rewarded,
            "backwards": self.n_backwards,
        }
        return [one[name] for name in NUMBERS]

    def _n_without(self, name):
        """Return how many rounds at the end have no reward, by "trail"."""
        total = 0
        rewarded = self._of("rewarded")[::-1].tolist()
        for n, some in zip(self._of(name)[::-1].tolist(), rewarded, strict=True):
            total += n
            if some:
                break
        return total

    def _of(self, name):
        return self.stretches[:, NUMBERS.index(name)]

    @property
    def is_known(self):
        """Whether the stretches follow each other."""
        return bool((self._of("start")[1:] >= self._of("stop")[:-1]).all())

    @property
    def stop(self):
        """One past the last position."""
        return int(self._of("stop").max())

    @property
    def n(self):
        """Number of rounds."""
        return int(self._of("n").sum())

    @property
    def n_rewarded(self):
        """Number of rounds whose reward is not zero."""
        return int(self._of("rewarded").sum())

    @property
    def last_rewarded(self):
        """Position of the last of them, -1 where there is none."""
        return int(self._of("last").max())

    @property
    def n_trailing(self):
        """Number of rounds after the last rewarded one."""
        return self._n_without("trail")

    @property
    def n_backwards(self):
        """How often the timestamp decreases."""
        inside = int(self._of("backwards").sum())
        if self.times is None:
            return 0
        return inside + int(np.count_nonzero(self.times[1:, 0] < self.times[:-1, 1]))

    def units(self):
        """Return what stands for independent rounds at the end of the log."""
        if self.ends is None:
            gaps = dict(self.gaps)
            for length in self._gaps_between():
                gaps[length] = gaps.get(length, 0) + 1
            lengths = np.array(sorted(gaps), dtype=np.intp)
            counts = np.array([gaps[length] for length in lengths.tolist()], np.intp)
            return self.n, self.n_rewarded, self.n_trailing, (lengths, counts)
        told = np.sort(self.ends["last"])
        rewarded = np.flatnonzero(told % 2)
        n_last = int(np.count_nonzero(told // 2 > self.last_rewarded))
        gaps = np.unique(np.diff(rewarded), return_counts=True)
        return len(told), len(rewarded), n_last, gaps

    def _gaps_between(self):
        """Yield the gaps from the last reward of a stretch to the next one's first."""
        passed = None  # rounds since the last rewarded one
        numbers = (
            self._of(name).tolist() for name in ("n", "rewarded", "lead", "trail")
        )
        for n, rewarded, lead, trail in zip(*numbers, strict=True):
            if not rewarded:
                passed = None if passed is None else passed + n
                continue
            if passed is not None:
                yield passed + lead + 1
            passed = trail


def _counted(gaps, n_rounds):
    """Return how many gaps have each length, as a dict."""
    if not len(gaps):
        return {}
    if len(gaps) == n_rounds - 1:  # all rounds are rewarded
        return {1: len(gaps)}
    if gaps.max() < MANY_VALUES:
        counts = np.bincount(gaps)
        lengths = np.flatnonzero(counts)
        counts = counts[lengths]
    else:
        lengths, counts = np.unique(gaps, return_counts=True)
    return dict(zip(lengths.tolist(), counts.tolist(), strict=True))
