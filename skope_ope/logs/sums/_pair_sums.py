# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Which groups took which actions, as far as rare actions need it."""

import numpy as np

from skope_ope.logs._known_rows import column_words, mixed

MOST = 1 << 14  # pairs of a group and an action that are kept
TOP = 2.0**64


class PairSums:
    """How many groups took every action, none, one or several, and how many pairs."""

    def __init__(self, taken, by, words, complete):
        self.taken, self.by = taken, by
        self.words, self.complete = words[:MOST], complete and len(words) <= MOST

    def among(self, n_actions, places):
        """Return the same where the actions are some of others."""
        taken, by = np.zeros(n_actions, dtype=np.int8), np.zeros(n_actions, np.uint64)
        taken[places], by[places] = self.taken, self.by
        return PairSums(taken, by, self.words, self.complete)

    def __add__(self, other):
        """Return the pairs of both parts."""
        taken = np.maximum(self.taken, other.taken)
        taken[(self.taken > 0) & (other.taken > 0) & (self.by != other.by)] = 2
        by = np.where(self.taken > 0, self.by, other.by)
        words = np.union1d(self.words, other.words)
        return PairSums(taken, by, words, self.complete and other.complete)

    @property
    def n_pairs(self):
        """Number of distinct pairs, about where not all are kept."""
        if self.complete:
            return len(self.words)
        return round((len(self.words) - 1) / (float(self.words[-1]) / TOP))

    @property
    def n_once(self):
        """Number of actions that one group alone took."""
        return int((self.taken == 1).sum())


def of(logs, words):
    """Return the `PairSums` of some rounds with groups, None where none are needed."""
    # They tell of actions that were never logged: where all were they tell nothing.
    if not len(logs._unseen):
        return None
    n = logs.n_actions
    pairs = np.unique(logs.group_index * n + logs.action_index)
    group, action = np.divmod(pairs, n)
    groups = words.words[group]
    counts = np.bincount(action, minlength=n)
    by = np.zeros(n, dtype=np.uint64)
    by[action] = groups
    # labels, not codes, which may be others elsewhere
    pairs = np.sort(mixed(groups ^ mixed(column_words(logs.actions))[action]))
    return PairSums(np.minimum(counts, 2).astype(np.int8), by, pairs, True)
