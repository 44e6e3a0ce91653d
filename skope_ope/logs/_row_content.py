# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""A number for what stands in a row, the same wherever the row is built again."""

import hashlib
import struct
from datetime import date, datetime, timedelta
from numbers import Number

import numpy as np
from scipy import sparse

from skope_ope.logs._column_codes import column_codes
from skope_ope.logs._validation import is_frame, is_missing

_HALF = np.uint64(32)
_STEP = np.uint64(0x9E3779B97F4A7C15)  # odd, 2**64 over the golden ratio
_ENTRIES = 1 << 17  # of a block of a table: it stays in the cache
_MISSING = struct.unpack("<Q", struct.pack("<d", float("nan")))[0]


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
        for j, column in enumerate(_columns(context, columns)):
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
        words[missing] = _MISSING
        return words
    labels = values.tolist()
    try:
        word = {label: _word(label) for label in dict.fromkeys(labels)}
        words = map(word.__getitem__, labels)
    except TypeError:  # lists and dicts cannot be looked up
        words = map(_word, labels)
    return np.fromiter(words, np.uint64, len(labels))


def mixed(words):
    """Return the words after the finaliser of splitmix64."""
    words = words + _STEP
    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return words ^ (words >> np.uint64(31))


def combined(columns):
    """Return one word for every row of several columns of words."""
    sums = np.uint64(0)
    for j, words in enumerate(columns):
        sums = sums + _folded(words) * _multipliers(np.array([j]))
    return mixed(sums)


def column_names(frame):
    """Return the names of the columns of a frame as texts."""
    return [str(name) for name in getattr(frame, "column_names", frame.columns)]


def _columns(frame, names):
    own = column_names(frame)
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
    return words ^ (words >> _HALF)


def _multipliers(columns):
    return mixed(columns.astype(np.uint64)) | np.uint64(1)


def _dense_sums(context):
    n_rounds, n_features = context.shape
    factors = _multipliers(np.arange(n_features))
    sums = np.zeros(n_rounds, dtype=np.uint64)
    size = max(1, _ENTRIES // max(1, n_features))
    for start in range(0, n_rounds, size):
        block = slice(start, start + size)
        sums[block] = _folded(_bits(context[block])) @ factors
    return sums


def _sparse_sums(context):
    rows = context.tocsr()
    parts = _folded(_bits(rows.data)) * _multipliers(rows.indices)
    # differences of sums modulo 2**64 are exact
    total = np.append(np.uint64(0), np.cumsum(parts, dtype=np.uint64))
    return total[rows.indptr[1:]] - total[rows.indptr[:-1]]


def _word(label):
    """Return the word of one label, as an int."""
    if isinstance(label, (np.datetime64, np.timedelta64)):
        return int(column_words(np.array([label]))[0])
    if isinstance(label, np.generic):
        label = label.item()
    if isinstance(label, (str, bytes)):
        return _digest(label)
    if isinstance(label, tuple):
        return _digest(b"".join(_word(part).to_bytes(8, "little") for part in label))
    if is_missing(label):
        return _MISSING
    if isinstance(label, (date, timedelta)):
        return int(column_words(_as_time(label))[0])
    if isinstance(label, Number) and not isinstance(label, complex):
        try:
            return struct.unpack("<Q", struct.pack("<d", float(label) + 0.0))[0]
        except OverflowError:  # integers of hundreds of digits
            return _digest(hex(label) if isinstance(label, int) else str(label))
    kind = type(label)
    if kind.__str__ is object.__str__ and kind.__repr__ is object.__repr__:
        return _digest(kind.__name__)  # the text would tell where it lies in memory
    return _digest(str(label))


def _as_time(label):
    """Return a date, a time (in UTC) or a duration as an array."""
    if isinstance(label, timedelta):
        return np.array([label], dtype="timedelta64[us]")
    if isinstance(label, datetime) and label.tzinfo is not None:
        offset = label.utcoffset()
        label = label.replace(tzinfo=None) - offset
    return np.array([label], dtype="datetime64[us]")


def _digest(text):
    if isinstance(text, str):
        text = text.encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "little")
