# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""What kind of labels there are: 1 and "1" are not one label."""

import datetime
import json
import zlib
from ast import literal_eval
from decimal import Decimal
from numbers import Number

import numpy as np

from skope_ope.logs._factorise import factorise, objects

UNKNOWN = ""  # or several kinds
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
    """Return the kind of some labels, UNKNOWN where there are several or none."""
    if labels is None or not len(labels):
        return UNKNOWN
    if labels.dtype.kind != "O":
        return OF_DTYPE.get(labels.dtype.kind, "numbers")
    kinds = {_kind_of_label(label) for label in labels.tolist()}
    return kinds.pop() if len(kinds) == 1 else UNKNOWN


def kind_of_parts(kinds):
    """Return the kind of tuples whose parts have these kinds."""
    return ", ".join(kinds) if all(kinds) else UNKNOWN


def _kind_of_label(label):
    if isinstance(label, tuple):
        return kind_of_parts([*map(_kind_of_label, label)])
    return next((kind for some, kind in OF_CLASS if isinstance(label, some)), UNKNOWN)


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
