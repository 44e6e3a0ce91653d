# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Labels: their codes, the kinds that there are, their texts in files, and hashes."""

import datetime
import json
import zlib
from ast import literal_eval
from collections import defaultdict
from decimal import Decimal
from itertools import count
from math import gcd
from numbers import Number
from operator import lt

import numpy as np

from skope_ope.logs._row_container import read_only

GOLDEN = np.uint64(0x9E3779B97F4A7C15)  # odd, 2**64 over the golden ratio
HALF_WORD = np.uint64(32)
_BLOCK = 1 << 14  # rows whose words stay in the cache
_LONG = 256  # bytes; longer texts are sorted
_DIGIT = 1 << 16  # numpy sorts numbers below it by counting


def factorise(values):
    """Return (distinct labels, codes) of a 1-d array of labels."""
    return count_integers(values) or ordered_codes(*distinct_labels(values))


def ordered_codes(distinct, codes):
    """Return what `factorise` does, from distinct labels that are in any order."""
    # Labels that no row has are left out.
    present = np.flatnonzero(count_codes(codes, len(distinct)))
    labels = distinct[present]
    if labels.dtype.kind != "O":
        order = np.argsort(labels)
    else:
        try:
            order = sorted(range(len(labels)), key=labels.tolist().__getitem__)
        except TypeError:  # of several types: they stay in the order of appearance
            order = np.argsort(first_of_codes(codes, len(distinct))[present])
    place = np.zeros(len(distinct), dtype=np.intp)
    place[present[order]] = rank = np.arange(len(present))
    if len(present) < len(distinct) or not np.array_equal(place, rank):
        codes = place.take(codes)
    return read_only(labels[order]), read_only(codes)


def among(labels, codes, counts):
    """Return what `factorise` does, from its answer for more rows than these."""
    if labels.dtype.kind == "O" and not _rises(labels):
        return ordered_codes(labels, codes)
    present = counts > 0
    if present.all():
        return labels, codes
    return labels[present], read_only((present.cumsum() - 1).take(codes))


def _rises(labels):
    try:
        return all(map(lt, labels[:-1], labels[1:]))
    except TypeError:  # they cannot be compared
        return False


def distinct_labels(values):
    """Return distinct labels in some order, and the code of every row."""
    counted = count_integers(values)
    if counted is not None:
        return counted
    kind, width = values.dtype.kind, values.itemsize
    if kind in "OT":
        return _looked_up(values)
    hashed = width <= (_LONG if kind in "US" else 8 if kind in "biufmM" else 0)
    if not hashed or not values.size or not width:
        return np.unique(values, return_inverse=True)
    if kind == "f":
        values = (values + 0).astype(values.dtype, copy=False)  # -0.0 is 0.0
    words = np.ascontiguousarray(values).view(f"u{gcd(values.itemsize, 8)}")
    words = words.reshape(len(values), -1)
    codes, rows = _codes_of_keys(_row_hashes(words))
    labels = words[rows]
    for block in row_blocks(len(words)):
        if not (labels.take(codes[block], axis=0) == words[block]).all():
            return np.unique(values, return_inverse=True)  # two labels have one key
    return values[rows], codes


def _looked_up(values):
    """Return distinct objects as they appear, and codes, in one pass over all."""
    code_of = defaultdict(count().__next__)
    codes = np.fromiter(map(code_of.__getitem__, values), np.intp, len(values))
    return objects(code_of), codes


def _row_hashes(words):
    """Return a 64-bit hash of every row of words, shape (n_rounds,)."""
    keys = np.zeros(len(words), dtype=np.uint64)
    for block in row_blocks(len(words)):
        key = keys[block]
        for column in words[block].T:
            key ^= column
            key *= GOLDEN
            key ^= key >> HALF_WORD
    return keys


def _codes_of_keys(keys):
    """Return a code for every key, and a row that has the key of every code."""
    # The first bits of a key name a slot, of which one row takes possession. Rows with
    # its key follow it; the few others look for another slot, among themselves.
    keys = keys * GOLDEN
    bits = max(len(keys).bit_length(), 8)
    slot = (keys >> np.uint64(64 - bits)).view(np.int64)
    rows = np.arange(len(keys))
    owner = np.empty(1 << bits, dtype=np.intp)  # only slots that were set are read
    owner[slot] = rows
    leader = owner[slot]
    others = np.flatnonzero(keys[leader] != keys)
    if others.size:
        codes, some = _codes_of_keys(keys[others])
        leader[others] = others[some][codes]
    some = np.flatnonzero(leader == rows)
    place = owner[: len(keys)]  # no longer needed
    place[some] = np.arange(len(some))
    return place[leader], some


def row_blocks(n_rows, size=_BLOCK):
    """Return slices of consecutive rows."""
    return (slice(start, start + size) for start in range(0, n_rows, size))


def objects(labels):
    """Return a read-only array of objects, which may be tuples."""
    labels = list(labels)
    out = np.empty(len(labels), dtype=object)
    out[:] = labels
    return read_only(out)


def count_integers(values):
    """Return (sorted distinct values, codes) of integers that lie close, else None."""
    if values.dtype.kind not in "iu" or not values.size:
        return None
    low, high = int(values.min()), int(values.max())
    if high - low > 4 * len(values) + 1000 or high >= 2**63:
        return None
    codes = offsets(values, low)
    present = count_codes(codes, high - low + 1) > 0  # counting beats sorting
    if not present.all():
        codes = (present.cumsum() - 1)[codes]
    return read_only(np.flatnonzero(present) + low), read_only(codes)


def offsets(values, low):
    """Distance of integers of any width from the lowest of them."""
    if not values.size:
        return np.zeros(0, dtype=np.intp)
    if values.dtype == np.uint64 and low >= 0:
        return (values - np.uint64(low)).astype(np.intp)
    values = values.astype(np.int64, copy=False)
    return (values - low if low else values).astype(np.intp, copy=False)


def count_codes(codes, n_codes):
    """Return how often each of 0..n_codes-1 occurs."""
    size = max(1 << 16, n_codes)
    counts = np.zeros(n_codes, dtype=np.intp)
    for some in row_blocks(len(codes), size):  # bincount copies what is read-only
        counts += np.bincount(codes[some], minlength=n_codes)
    return counts


def sums_of_codes(codes, values, n_codes):
    """Return the sum of the values of each of 0..n_codes-1."""
    size = max(1 << 16, n_codes)
    sums = np.zeros(n_codes)
    for some in row_blocks(len(codes), size):  # as above
        sums += np.bincount(codes[some], values[some], n_codes)
    return sums


def rows_of_codes(codes, n_codes):
    """Return the rows that have each of the codes, in rising order."""
    order = order_of_codes(codes, n_codes)
    return np.split(order, np.cumsum(count_codes(codes, n_codes))[:-1])


def order_of_codes(codes, n_codes):
    """Return the rows by rising code, those of one code as they stand."""
    digits = codes if n_codes <= _DIGIT else codes % _DIGIT
    width = np.uint8 if n_codes <= 256 else np.uint16
    order = np.argsort(digits.astype(width), kind="stable")
    if n_codes > _DIGIT:  # then by what stands before the last digit
        order = order[np.argsort(codes[order] // _DIGIT, kind="stable")]
    return order


def first_alike(words):
    """Return for every row the first one that has its word, such as a hash of it."""
    ordered = np.sort(words)  # most contexts come once: that is quickly told
    if (ordered[1:] != ordered[:-1]).all():
        return np.arange(len(words))
    codes, some = _codes_of_keys(words)
    return first_of_codes(codes, len(some))[codes]


def first_of_codes(codes, n_codes):
    """Return the first row of each of 0..n_codes-1, the number of rows without one."""
    first = np.full(n_codes, len(codes))
    first[codes[::-1]] = np.arange(len(codes))[::-1]  # the last one written stays
    return first


# -- what kind of labels there are: 1 and "1" are not one label ------------------------

NO_KIND = ""  # or several kinds
OF_DTYPE = {"U": "texts", "S": "bytes", "M": "times", "m": "durations", "b": "bools"}
OF_CLASS = (
    (str, "texts"),
    (bytes, "bytes"),
    ((bool, np.bool_), "bools"),
    (Number, "numbers"),
    (datetime.date, "times"),
    (datetime.timedelta, "durations"),
)


def kind_of_labels(labels):
    """Return the kind of some labels, NO_KIND where there are several or none."""
    if labels is None or not len(labels):
        return NO_KIND
    if labels.dtype.kind != "O":
        return OF_DTYPE.get(labels.dtype.kind, "numbers")
    kinds = {_kind_of_label(label) for label in labels.tolist()}
    return kinds.pop() if len(kinds) == 1 else NO_KIND


def kind_of_parts(kinds):
    """Return the kind of tuples whose parts have these kinds."""
    return ", ".join(kinds) if all(kinds) else NO_KIND


def _kind_of_label(label):
    if isinstance(label, tuple):
        return kind_of_parts([*map(_kind_of_label, label)])
    return next((kind for some, kind in OF_CLASS if isinstance(label, some)), NO_KIND)


# -- labels as texts and arrays that tell them apart, for files that hold no objects

TIME_TYPES = {"date": datetime.date, "datetime": datetime.datetime}
WRITTEN = bool, int, float, complex, str, bytes, type(None)
NOT_FINITE = ("inf", "-inf", "nan")
STORED_KINDS = "biufUSmM"  # kinds of arrays that are stored as they are
ENDINGS = "_text", "_repr", "_tuple"  # of the names of the others


def text_of_label(label, of=""):
    """Return the text of a label: a number, text, time, None, or a tuple of them."""
    if isinstance(label, np.generic):
        label = label.item()
    kind = type(label)
    if kind in TIME_TYPES.values():
        return f"{kind.__name__} {label.isoformat()}"
    if kind is datetime.timedelta:
        return f"timedelta {label.days} {label.seconds} {label.microseconds}"
    if kind is Decimal:
        return f"Decimal {label}"
    if kind is tuple:
        return f"tuple {json.dumps([text_of_label(one, of) for one in label])}"
    if kind in WRITTEN:
        return repr(label)
    of = f" of {of}" if of else ""
    raise TypeError(
        f"label {label!r}{of} cannot be written to a file: use numbers, texts, times "
        "or tuples of them as labels."
    )


def label_of_text(text):
    """Return the label that `text_of_label` wrote."""
    kind, _, rest = text.partition(" ")
    if kind in TIME_TYPES:
        return TIME_TYPES[kind].fromisoformat(rest)
    if kind == "timedelta":
        return datetime.timedelta(*map(int, rest.split()))
    if kind == "Decimal":
        return Decimal(rest)
    if kind == "tuple":
        return tuple(map(label_of_text, json.loads(rest)))
    return float(text) if text in NOT_FINITE else literal_eval(text)


def texts_of_labels(labels, of=""):
    """Return the texts of some labels, ndarray of str."""
    return np.array([text_of_label(label, of) for label in labels], dtype=str)


def labels_of_texts(texts):
    """Return the labels of an ndarray of texts, a list."""
    return [label_of_text(text) for text in texts.tolist()]


def arrays_of_labels(name, labels):
    """Return labels as a dict of one array without objects."""
    if labels.dtype.kind in STORED_KINDS:
        return {name: np.asarray(labels)}
    given = labels.tolist()
    if _are_texts(given):
        return {f"{name}_text": np.array(given, dtype=str)}
    fields = _tuple_arrays(given)
    if fields is not None:
        return {f"{name}_tuple": np.rec.fromarrays(fields).view(np.ndarray)}
    return {f"{name}_repr": texts_of_labels(given, name)}


def labels_of_arrays(name, table):
    """Return the labels that `arrays_of_labels` wrote; None where there are none."""
    for kind in (f"{name}_text", f"{name}_tuple"):
        if kind in table:
            return objects(table[kind].tolist())
    if f"{name}_repr" in table:
        return objects(labels_of_texts(table[f"{name}_repr"]))
    return table.get(name)


def _are_texts(given):
    # numpy's texts lose zeros at their ends
    return all(isinstance(one, str) and one[-1:] != "\0" for one in given)


def _tuple_arrays(given):
    """Return an array for every part of tuples, None where they are no such."""
    if set(map(type, given)) != {tuple} or len(set(map(len, given))) > 1:
        return None
    arrays = []
    for part in zip(*given, strict=True):
        array = np.array(part) if len(set(map(type, part))) == 1 else None
        if array is None or array.ndim > 1 or array.dtype.kind not in "biufU":
            return None
        if array.dtype.kind == "U" and not _are_texts(part):
            return None
        arrays.append(array)
    return arrays or None


# -- numbers that stand for labels, the same in every process and on every platform

PRIME = 2**31 - 1
ROOT = 48271  # a primitive root of the prime: its powers are all multipliers there are


def has_no_text(label):
    """Tell whether the text of a label would tell where it lies in memory."""
    kind = type(label)
    return kind.__str__ is object.__str__ and kind.__repr__ is object.__repr__


def label_hash(labels):
    """Return a number in 0..PRIME-1 for every label, shape (n_rounds,)."""
    # Integers g become ``(g % PRIME) * ROOT % PRIME``, which data frames and databases
    # compute as well; other labels are first replaced by the CRC-32 of their text.
    # Equal labels of different types (1, 1.0, True) have equal hashes.
    kind = labels.dtype.kind
    if kind in "mM":
        labels = labels.astype(f"{kind}8[us]")
    if kind == "u":
        numbers = (labels.astype(np.uint64) % np.uint64(PRIME)).astype(np.int64)
    elif kind in "bimM":
        numbers = labels.astype(np.int64) % PRIME
    else:
        distinct, codes = factorise(labels)
        numbers = np.fromiter(
            map(_hash_number, distinct.tolist()), np.int64, len(distinct)
        )
        numbers = numbers[codes]
    return numbers * ROOT % PRIME


def _hash_number(label):
    if type(label) is str:  # most are
        return zlib.crc32(label.encode("utf-8", "surrogatepass")) % PRIME
    if isinstance(label, np.generic):
        label = label.item()
    if isinstance(label, int) or (isinstance(label, float) and label.is_integer()):
        return int(label) % PRIME
    if isinstance(label, tuple):
        text = ",".join(str(_hash_number(part)) for part in label)
    elif has_no_text(label):
        raise TypeError(
            f"a label is {label!r}: its text holds a memory address, so its hash "
            "changes between processes. Use texts, numbers or tuples of them."
        )
    else:
        text = label
    if not isinstance(text, bytes):
        text = str(text).encode("utf-8", "surrogatepass")
    return zlib.crc32(text) % PRIME
