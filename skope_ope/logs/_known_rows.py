# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Rows that something was fitted on, recognised wherever they come back."""

import struct
from copy import copy
from datetime import date, datetime, timedelta
from functools import cached_property, partial
from hashlib import blake2b
from math import nan
from numbers import Number

import numpy as np
from scipy import sparse
from scipy.special import bdtrc, pdtr

from skope_ope.logs._coded_labels import column_codes
from skope_ope.logs._labels import GOLDEN, HALF_WORD, has_no_text, row_blocks
from skope_ope.logs._row_container import SPARSE
from skope_ope.logs._validation import frame_names, is_frame, is_missing

DISTINCT = 0.999  # share of the fitted rows whose content tells them apart
KNOWN_SHARE = 0.99  # share of the contexts that come back whose action comes back, too
ANEW_CHANCE = 1e-3  # that rounds drawn anew look like those that come back
_SITUATION = ~np.uint64(2**24 - 1)  # 40 bits tell the situation, 24 what was done
_REST = np.uint64(40)
_RATES = np.logspace(-9, 0, 400)


def rows_among(logs, known):
    """Return the row of other logs that every row of logs is; -1: none."""
    numbers, others = logs.row_id.position, known.row_id.position
    if logs._origin != known._origin:
        here, there = FileRows.of_logs(logs), FileRows.of_logs(known)
        if not here.shares(there):
            return known._content.rows_of(logs)
        numbers, others = here.numbers(numbers), there.numbers(others)
    return places_among(numbers, others)


def places_among(numbers, known):
    """Return the place of every number among known ones; -1: it is not there."""
    # Of a number that is known several times the last place.
    if not known.size:
        return np.full(len(numbers), -1)
    most = max(numbers.max(initial=-1), known.max())
    if most < SPARSE * (len(numbers) + len(known)):
        table = np.full(most + 1, -1)
        table[known] = np.arange(len(known))
        return table[numbers]
    # of few rows of a log that is not in memory no table could be made
    order = np.argsort(known, kind="stable")
    last = np.searchsorted(known, numbers, side="right", sorter=order) - 1
    places = order[np.maximum(last, 0)]
    return np.where((last >= 0) & (known[places] == numbers), places, -1)


class KnownRows:
    """What tells whether rows are some of those that something was fitted on."""

    # A bit for every row of the logs as they were built (of a log that is not in memory
    # 8 bytes for every row that is known), and 8 bytes for the content of every row
    # where it tells them apart, and for every group. Rows of a file that both logs have
    # scanned are told by their place in it, and rows of joined logs by their origin: of
    # the rest, content tells.

    _group_words = None  # also of what was pickled before there were any

    def __init__(self, logs):
        self._files = FileRows.of_logs(logs)
        # of rows as they were built: their numbers begin at 0, for which bits suffice
        self._first = self._files.groups[0] if logs._files is None else 0
        self._bits = Bits(self._numbers(logs))
        self._content = logs._content.without_rows()
        if logs.group is not None:
            self._group_words = np.unique(column_words(logs.group))

    def share_of_groups(self, logs):
        """Return the share of rows of logs whose group has known rows, 0 without."""
        if self._group_words is None or logs.group is None or not len(logs):
            return 0.0
        words = column_words(logs.group)
        return float(np.isin(words, self._group_words).mean())

    def has(self, logs):
        """Tell of every row of logs whether it is known, shape (n_rounds,)."""
        numbers = self._numbers(logs)
        if numbers is None:
            return self._content.places_of(logs) >= 0
        return self._bits.has(numbers)

    def _numbers(self, logs):
        """Return what numbers rows here and there; None where only content tells."""
        files = FileRows.of_logs(logs)
        if not files.shares(self._files):
            return None
        return files.numbers(logs.row_id.position) - self._first

    def share_in_doubt(self, logs):
        """Get the share of rows of logs that may be known though nothing tells it."""
        # They have the content of a known one. The share is 0 where their place or
        # their content tells, NaN where contents cannot be compared.
        told = self._numbers(logs) is not None
        return 0.0 if told else self._content.share_alike(logs)

    @property
    def repeats(self):
        """Share of the known rows whose content an earlier one has."""
        return self._content.repeats


class Bits:
    """A set of numbers that are not negative, as bits where that is smaller."""

    def __init__(self, numbers):
        size = numbers.max(initial=-1) + 1
        self._is_sparse = size > SPARSE * len(numbers)
        if self._is_sparse:
            self._known = np.unique(numbers)
        else:
            known = np.zeros(size, dtype=bool)
            known[numbers] = True
            self._known = np.packbits(known)

    def has(self, numbers):
        """Tell of every number whether it is in the set."""
        inside = numbers >= 0
        if self._is_sparse:
            inside[inside] = places_among(numbers[inside], self._known) >= 0
            return inside
        known = np.unpackbits(self._known).view(bool)
        inside &= numbers < len(known)
        return inside & known[np.where(inside, numbers, 0)]


class Content:
    """What stands in rows, by which they are recognised in other logs."""

    # The context and the action (or the slate), and where these are not enough also the
    # time, the group and the reward. Propensities do not count: they may have been
    # estimated since. Content tells rows apart only if
    #
    # - at least 99.9% of the known rows are distinct in it,
    # - of the contexts that come back at least 99% come back with their action (users
    #   who come back with the same features act anew), and
    # - more rows come back than chance explains, judged by the rows that are alike
    #   among those known.

    def __init__(self, logs):
        self.n_features = logs.n_features
        self.names = names_as_texts(logs.context) if is_frame(logs.context) else None
        self.fields = self.words = self._order = None
        self.repeats = 1.0
        fields = list(_telling_fields(logs))
        # where all fields do not tell the rows apart, some of them do not either
        if not self._try(logs, []) and fields and self._try(logs, fields):
            for size in range(1, len(fields)):
                if self._try(logs, fields[:size]):
                    break
        if self.words is None:
            # what comes back may have been given another reward
            self._before = [name for name in fields if "reward" not in name]
            self._distinct = np.unique(self._plain_words(logs))

    def _plain_words(self, logs):
        """Return a word for what is known of rounds but rewards, None if unlike."""
        situation = self._situation(logs, self._before)
        return None if situation is None else _word(situation, done_words(logs), False)

    def share_alike(self, logs):
        """Return the share of rows that have a known content which does not tell."""
        if not len(logs):
            return 0.0
        if self.words is not None:
            rows, _, is_known = self._alike(logs)
            return 0.0 if is_known else len(rows) / len(logs)
        words = self._plain_words(logs)
        if words is None:
            return nan
        return len(_found_among(self._distinct, words)[0]) / len(logs)

    def _try(self, logs, fields):
        """Take these fields if they tell the rows apart."""
        situation, done = self._situation(logs, fields), done_words(logs)
        for split in (True, False):
            words = _word(situation, done, split)
            order = np.argsort(words)
            ordered = words[order]
            alike = _repeats_before(ordered & _SITUATION if split else ordered)
            self.repeats = min(self.repeats, float(alike.sum() / max(len(words), 1)))
            if alike.sum() <= (1 - DISTINCT) * len(words):
                self.fields, self._split = tuple(fields), split
                self.words, self._order = ordered, order
                # rows whose content occurs in another one, too
                self._n_shared = int((alike | np.append(alike[1:], False)).sum())
                return True
        return False

    def _situation(self, logs, fields):
        """Return a word for the context and these fields, None where one is lacking."""
        words = logs._context_words if logs.n_features == self.n_features else None
        if self.names is not None and is_frame(logs.context):
            names = names_as_texts(logs.context)
            if names != self.names and set(self.names) <= set(names):
                words = context_words(logs.context, self.names)
        told = _telling_fields(logs)
        if words is None or not set(fields) <= set(told):
            return None
        others = [told[name]() for name in fields]
        return combined([words, *others]) if others else words

    def without_rows(self):
        """Return what tells whether rows are known, but not which of them they are."""
        kept = copy(self)
        kept._order = None
        return kept

    def rows_of(self, logs):
        """Return the known row that has the content of every row of logs; -1: none."""
        rows = self.places_of(logs)
        found = rows >= 0
        if found.any():
            rows[found] = self._order[rows[found]]
        return rows

    def places_of(self, logs):
        """Return the place among the words of the content of every row; -1: none."""
        places = np.full(len(logs), -1)
        if self.words is not None:
            rows, found, is_known = self._alike(logs)
            if is_known:
                places[rows] = found
        return places

    def _alike(self, logs):
        """Return the rows with a known content, beyond chance, and its places."""
        # And whether they are known rows: otherwise they may be new rounds of contexts
        # that come back.
        nothing = *np.zeros((2, 0), dtype=int), True
        situation = self._situation(logs, self.fields)
        if situation is None:
            return nothing
        words = _word(situation, done_words(logs), self._split)
        rows, found = _found_among(self.words, words)
        if not len(rows):
            return nothing
        n_found = _n_distinct(found)
        if not self._beyond_chance(_n_distinct(np.sort(words)), n_found):
            return nothing
        is_known = True
        if self._split and len(rows) < len(words):
            _, contexts = _found_among(self.words & _SITUATION, words & _SITUATION)
            is_known = n_found >= KNOWN_SHARE * _n_distinct(contexts)
        return rows, found, is_known

    def _beyond_chance(self, n_asked, n_found):
        """Tell whether rounds drawn anew would hardly repeat as many of those known."""
        # If a new round has the content of a known one at the rate q, nq of the n known
        # rows share theirs with another, in nq / 2 pairs. Contexts that come at least
        # twice give half as many.
        n_pairs = len(self.words) * _RATES / (2 if self._split else 4)
        few_here = pdtr(self._n_shared // 2, n_pairs)
        many_there = bdtrc(n_found - 1, n_asked, _RATES)
        return (few_here * many_there).max() < ANEW_CHANCE


class Recognised:
    """What logs know about the contents of their rows, computed when first asked."""

    @cached_property
    def _context_words(self):
        return context_words(self.context)

    @cached_property
    def _content(self):
        return Content(self)


def done_words(logs):
    """Return a word for what was done in every round, shape (n_rounds,)."""
    if not hasattr(logs, "slate"):
        return mixed(column_words(logs.actions))[logs.action_index]
    shown = logs.slate
    if logs.item_id is not None:
        shown = np.take_along_axis(logs.item_id, np.maximum(shown, 0), axis=1)
    words = column_words(shown.ravel()).reshape(shown.shape)
    words[logs.slate < 0] = 0
    return combined(words.T)


def _telling_fields(logs):
    """Return what else tells rows apart: by name, a function that gives words."""
    told = {}
    for name in ("timestamp", "group", "slot_reward", "reward"):
        values = getattr(logs, name, None)
        if values is not None:
            words = column_words if values.ndim == 1 else context_words
            told[name] = partial(words, values)
    return told


def _word(situation, done, split):
    if split:
        return (situation & _SITUATION) | (done >> _REST)
    return combined([situation, done])


def _repeats_before(ordered):
    """Tell of sorted words which of them repeat the one before."""
    return np.append(False, ordered[1:] == ordered[:-1])[: len(ordered)]


def _found_among(known, words):
    """Return the words that are among known ones, and their first places there."""
    # most words of other rounds are told by their first bits, without a search
    shift = np.uint64(64 - min(24, 4 + len(known).bit_length()))
    table = np.zeros(1 << (64 - int(shift)), dtype=bool)
    table[known >> shift] = True
    rows = np.flatnonzero(table[words >> shift])
    rows = rows[np.argsort(words[rows])]  # neighbours are found in the cache
    places = np.searchsorted(known, words[rows])
    found = known.take(places, mode="clip") == words[rows]
    return rows[found], places[found]


def _n_distinct(ordered):
    return len(ordered) - int(_repeats_before(ordered).sum())


# -- which rows these are: of files, from any scan, and of logs, wherever joined -------


class FileRows:
    """Turns positions into numbers that are the same in every scan, and when joined."""

    # A group has the rows from its start on: a part of a file, or logs of one origin.

    def __init__(self, starts, groups):
        self.starts = np.array(starts, dtype=np.int64)
        self.groups = np.array(groups, dtype=np.int64)

    @classmethod
    def of_partitions(cls, partitions):
        """Return those of a scan."""
        starts = [one.start for one in partitions]
        return cls(starts, [_key_word(one.key) for one in partitions])

    @classmethod
    def of_logs(cls, logs):
        """Return those of any logs, whose origin tells its rows where no file does."""
        return logs._files or cls([0], [_key_word(logs._origin)])

    def places(self, position):
        """Return the place of the group of every row, and the rows before it there."""
        if len(self.starts) == 1:
            return np.zeros(len(position), dtype=np.int64), position - self.starts[0]
        # of those that start at one row the last has rows
        at = np.searchsorted(self.starts, position, side="right") - 1
        return at, position - self.starts[at]

    def numbers(self, position):
        """Return the numbers of the rows at these positions."""
        at, within = self.places(position)
        return self.groups[at] + within

    def shares(self, other):
        """Tell whether both have rows of one group."""
        return bool(np.isin(self.groups, other.groups).any())


def _key_word(key):
    return _text_word(repr(key).encode("utf-8", "replace")) >> 2


# -- A number for what stands in a row, the same wherever the row is built again -------

_ENTRIES = 1 << 17  # of a block of a table: it stays in the cache
_MISSING_WORD = struct.unpack("<Q", struct.pack("<d", float("nan")))[0]


def context_words(context, columns=None):
    r"""Return a 64-bit hash of every row of a context, shape (n_rounds,)."""
    # .. math:: h_i = mix\Big(\sum_j (v_{ij} \oplus \lfloor v_{ij} / 2^{32} \rfloor)\,
    #           m_j \bmod 2^{64}\Big)
    #
    # with :math:`v_{ij}` the bits of a number, or a hash of a text, :math:`m_j` an odd
    # number for every column, and `mix` the finaliser of splitmix64. Zeros add nothing,
    # so that sparse rows have the hash of dense ones.
    if is_frame(context):
        sums = np.zeros(context.shape[0], dtype=np.uint64)
        for j, column in enumerate(_frame_columns(context, columns)):
            sums += _folded(column_words(column)) * _multipliers(np.array([j]))
    elif sparse.issparse(context):
        sums = _sparse_sums(context)
    else:
        sums = _dense_sums(context)
    return mixed(sums)


def column_words(values):
    """Return a 64-bit word for every entry of a column, shape (n_rounds,)."""
    # Numbers are their bits as floats, dates and times their microseconds; texts and
    # other labels are hashed. All kinds of missing values have one word.
    coded = column_codes(values)
    if coded is not None:  # of a frame's texts or categories: one word per label
        return column_words(np.asarray(coded.labels))[coded.codes]
    values = np.asarray(values)
    kind = values.dtype.kind
    if kind in "biuf":
        return _bits(values)
    if kind in "mM":
        missing = np.isnat(values)
        told = values.astype(f"{kind}8[us]").view(np.int64)
        words = mixed(told.view(np.uint64) + np.uint64(ord(kind)))
        words[missing] = _MISSING_WORD
        return words
    labels = values.tolist()
    try:
        word = {label: _label_word(label) for label in dict.fromkeys(labels)}
        words = map(word.__getitem__, labels)
    except TypeError:  # lists and dicts cannot be looked up
        words = map(_label_word, labels)
    return np.fromiter(words, np.uint64, len(labels))


def mixed(words):
    """Return the words after the finaliser of splitmix64."""
    words = words + GOLDEN
    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return words ^ (words >> np.uint64(31))


def combined(columns):
    """Return one word for every row of several columns of words."""
    sums = np.uint64(0)
    for j, words in enumerate(columns):
        sums = sums + _folded(words) * _multipliers(np.array([j]))
    return mixed(sums)


def names_as_texts(frame):
    """Return the names of the columns of a frame as texts."""
    return list(map(str, frame_names(frame)))


def _frame_columns(frame, names):
    own = names_as_texts(frame)
    for j in range(len(own)) if names is None else map(own.index, names):
        if hasattr(frame, "iloc"):
            yield frame.iloc[:, j]
        else:
            yield frame[own[j]]


def _bits(values):
    floats = np.asarray(values, dtype=np.float64) + 0.0  # a copy; -0.0 is 0.0
    floats[np.isnan(floats)] = np.nan  # there are many
    return floats.view(np.uint64)


def _folded(words):
    """Bring the high bits, in which small numbers differ, down to the low ones."""
    return words ^ (words >> HALF_WORD)


def _multipliers(columns):
    return mixed(columns.astype(np.uint64)) | np.uint64(1)


def _dense_sums(context):
    n_rounds, n_features = context.shape
    factors = _multipliers(np.arange(n_features))
    sums = np.zeros(n_rounds, dtype=np.uint64)
    for block in row_blocks(n_rounds, max(1, _ENTRIES // max(1, n_features))):
        sums[block] = _folded(_bits(context[block])) @ factors
    return sums


def _sparse_sums(context):
    rows = context.tocsr()
    parts = _folded(_bits(rows.data)) * _multipliers(rows.indices)
    # differences of sums modulo 2**64 are exact
    total = np.append(np.uint64(0), np.cumsum(parts, dtype=np.uint64))
    return total[rows.indptr[1:]] - total[rows.indptr[:-1]]


def _label_word(label):
    """Return the word of one label, as an int."""
    if isinstance(label, (np.datetime64, np.timedelta64)):
        return int(column_words(np.array([label]))[0])
    if isinstance(label, np.generic):
        label = label.item()
    if isinstance(label, (str, bytes)):
        return _text_word(label)
    if isinstance(label, tuple):
        words = (_label_word(part).to_bytes(8, "little") for part in label)
        return _text_word(b"".join(words))
    if is_missing(label):
        return _MISSING_WORD
    if isinstance(label, (date, timedelta)):
        return int(column_words(_as_time(label))[0])
    if isinstance(label, Number) and not isinstance(label, complex):
        try:
            return struct.unpack("<Q", struct.pack("<d", float(label) + 0.0))[0]
        except OverflowError:  # integers of hundreds of digits
            return _text_word(hex(label) if isinstance(label, int) else str(label))
    return _text_word(type(label).__name__ if has_no_text(label) else str(label))


def _as_time(label):
    """Return a date, a time (in UTC) or a duration as an array."""
    if isinstance(label, timedelta):
        return np.array([label], dtype="timedelta64[us]")
    if isinstance(label, datetime) and label.tzinfo is not None:
        label = label.replace(tzinfo=None) - label.utcoffset()
    return np.array([label], dtype="datetime64[us]")


def _text_word(text):
    if isinstance(text, str):
        text = text.encode("utf-8", "surrogatepass")
    return int.from_bytes(blake2b(text, digest_size=8).digest(), "little")
