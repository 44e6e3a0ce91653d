# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Sums by group that add up over parts, of all groups or of those of a fair lot."""

from contextlib import suppress
from dataclasses import dataclass, replace

import numpy as np

from skope_ope.logs._known_rows import column_words, mixed
from skope_ope.logs._labels import sums_of_codes

# How many groups are all kept, and how many of more: those with the smallest words.
KEPT_GROUPS = 20_000, 5_000  # as values need them
COUNTED_GROUPS = 100_000, 20_000  # to tell their number
EVERY_GROUP = 2**62, 2**62
SPARE_ERRORS = 6.0  # standard errors by which a first guess takes more than are kept
TOP = 2.0**64
LONGEST = 64  # characters of a text that is hashed with others at once


@dataclass(eq=False)
class GroupSums:
    """Sums by group."""

    # The groups have words, 64-bit hashes of their labels: the same wherever the label
    # comes back. Of many groups those with the smallest words are kept, whose sums are
    # those of the whole log.

    words: np.ndarray
    sums: dict
    complete: bool
    limits: tuple = KEPT_GROUPS

    @classmethod
    def of(cls, words, sums):
        """Return the sums of some groups."""
        return cls(words.sorted, sums, words.complete, words.limits)

    def reduced(self, limits=None):
        """Return the same, or the sums of fewer groups where there are many."""
        limits = self.limits if limits is None else min(limits, self.limits)
        exact, sampled = limits
        if len(self.words) <= (exact if self.complete else sampled):
            return replace(self, limits=limits)
        return replace(self._smallest(sampled), limits=limits)

    def _smallest(self, n):
        sums = {name: values[:n] for name, values in self.sums.items()}
        return replace(self, words=self.words[:n], sums=sums, complete=False)

    def __add__(self, other):
        """Return the sums of both parts."""
        if not len(self.words) or not len(other.words):
            return self if len(self.words) else other
        complete = self.complete and other.complete
        place = np.searchsorted(self.words, other.words)
        known = self.words.take(place, mode="clip") == other.words
        words, at = self.words, np.arange(len(self.words))
        if not known.all():  # new groups take their places among those known
            new = place[~known]
            words = np.insert(words, new, other.words[~known])
            at += np.searchsorted(new, at, side="right")
            place = np.searchsorted(words, other.words)
        sums = {}
        for name, mine in self.sums.items():
            total = np.full(len(words), -1 if name == "last" else 0, dtype=mine.dtype)
            total[at], more = mine, other.sums[name]
            if name == "last":
                total[place] = np.maximum(total[place], more)
            else:
                total[place] += more  # every group has one place
            sums[name] = total
        out = GroupSums(words, sums, complete, min(self.limits, other.limits))
        return out._known_to(self)._known_to(other).reduced()

    def _known_to(self, part):
        """Return the groups that a part would have kept, had it met them."""
        if part.complete or self.words[-1] <= part.words[-1]:
            return self
        return self._smallest(int(self.words.searchsorted(part.words[-1], "right")))

    def with_sums(self, **sums):
        """Return the same groups with other sums."""
        return replace(self, sums={**self.sums, **sums})

    def __getitem__(self, name):
        return self.sums[name]

    @property
    def n_groups(self):
        """Number of groups, about where not all of them are kept."""
        if self.complete:
            return len(self.words)
        return number_of_words(self.words)

    @property
    def per_kept(self):
        """Number of groups that each of those kept stands for."""
        return self.n_groups / len(self.words)


class WordsOfGroups:
    """64-bit words for the labels of the groups of some logs."""

    def __init__(self, logs, limits=KEPT_GROUPS):
        self.words, self.limits = mixed(_plain_words(logs.groups)), limits
        (exact, sampled), n = limits, len(self.words)
        self.complete = n <= exact
        some = np.arange(n)
        if not self.complete:
            share = (sampled + SPARE_ERRORS * sampled**0.5) / n
            if share < 1:  # most words are told without a sort
                few = np.flatnonzero(self.words < np.uint64(share * TOP))
                some = few if len(few) >= sampled else some
        order = some[np.argsort(self.words[some])]
        self.order = order if self.complete else order[:sampled]
        self.sorted = self.words[self.order]


def _plain_words(labels):
    """Return a word for every label: equal ones of any type of number have the same."""
    kind = labels.dtype.kind
    if kind in "iub":
        return labels.astype(np.int64).view(np.uint64)
    if kind == "f":
        whole = (labels == np.floor(labels)) & (np.abs(labels) < 2.0**63)
        words = column_words(labels).copy()
        words[whole] = labels[whole].astype(np.int64).view(np.uint64)
        return words
    if kind == "U":
        return _text_words(labels)
    if kind != "O":
        return column_words(labels)
    words = np.empty(len(labels), dtype=np.uint64)
    given = labels.tolist()
    texts = np.array([isinstance(label, str) for label in given], dtype=bool)
    if texts.any():
        words[texts] = _text_words(labels[texts])
    sizes = np.array([len(one) if isinstance(one, tuple) else -1 for one in given])
    for row in np.flatnonzero(~texts & (sizes < 0)):
        words[row] = _plain_word(given[row])
    for size in np.unique(sizes[sizes >= 0]).tolist():
        rows = np.flatnonzero(sizes == size)
        words[rows] = _tuple_words([given[row] for row in rows.tolist()], size)
    return words


def _plain_word(label):
    with suppress(TypeError, ValueError, OverflowError):
        if not isinstance(label, bytes) and int(label) == label:
            return np.uint64(int(label) % 2**64)
    return column_words([label])[0]


def _tuple_words(labels, size):
    """Return a word for every tuple of this size: of the words of its parts."""
    factors = mixed(np.arange(size, dtype=np.uint64)) | np.uint64(1)
    sums = np.zeros(len(labels), dtype=np.uint64)
    for parts, factor in zip(zip(*labels, strict=True), factors, strict=True):
        sums += mixed(_plain_words(_objects(parts))) * factor
    return mixed(sums)


def _objects(parts):
    out = np.empty(len(parts), dtype=object)
    out[:] = parts
    return out


def _text_words(labels):
    """Return a word for every text: of its characters, each times an odd number."""
    words = np.zeros(len(labels), dtype=np.uint64)
    if labels.dtype.kind == "U":
        short = np.full(len(labels), labels.dtype.itemsize // 4 <= LONGEST)
        if not short.all():
            short = np.char.str_len(labels) <= LONGEST
    else:
        short = np.fromiter(map(len, labels.tolist()), np.intp, len(labels)) <= LONGEST
    if short.any():
        texts = np.array(labels[short].tolist(), dtype=str)
        width = max(texts.dtype.itemsize // 4, 1)
        letters = np.ascontiguousarray(texts).view(np.uint32).reshape(-1, width)
        factors = mixed(np.arange(LONGEST, dtype=np.uint64)) | np.uint64(1)
        sums = np.zeros(len(texts), dtype=np.uint64)
        for column, factor in zip(letters.T, factors[:width], strict=True):
            sums += column * factor
        words[short] = mixed(sums)
    if not short.all():
        words[~short] = column_words(labels[~short])
    return words


def sums_of_groups(logs, words, values):
    """Return the `GroupSums` of some rounds."""
    sizes, kept = logs._group_sizes, words.order
    # to sum all is faster than to choose
    sums = {"n": sizes[kept]}
    for name, one in values.items():
        total = sizes.astype(float)
        if one is not None:
            total = sums_of_codes(logs.group_index, one, len(sizes))
        sums[name] = total[kept]
    return GroupSums.of(words, sums)


def number_of_words(smallest):
    """Return about how many words there are, of which these are the smallest."""
    return round((len(smallest) - 1) / (float(smallest[-1]) / TOP))


# -- which groups took which actions, as far as rare actions need it -------------------

MOST_PAIRS = 1 << 14  # pairs of a group and an action that are kept


class PairSums:
    """How many groups took every action, none, one or several, and how many pairs."""

    def __init__(self, taken, by, words, complete, most=MOST_PAIRS):
        self.taken, self.by, self.words = taken, by, words[:most]
        self.complete = complete and len(words) <= most

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
        return number_of_words(self.words)

    @property
    def n_once(self):
        """Number of actions that one group alone took."""
        return int((self.taken == 1).sum())


def pairs_of_groups(logs, words, most=MOST_PAIRS):
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
    taken = np.minimum(counts, 2).astype(np.int8)
    return PairSums(taken, by, pairs, True, most)
