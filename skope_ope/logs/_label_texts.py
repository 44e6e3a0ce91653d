# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Labels as texts and arrays that tell them apart, for files that hold no objects."""

import datetime
import json
from ast import literal_eval
from decimal import Decimal

import numpy as np

from skope_ope.logs._factorise import objects

TIMES = {"date": datetime.date, "datetime": datetime.datetime}
WRITTEN = bool, int, float, complex, str, bytes, type(None)
NOT_FINITE = ("inf", "-inf", "nan")
PLAIN = "biufUSmM"  # kinds of arrays that are stored as they are
ENDINGS = "_text", "_repr", "_tuple"  # of the names of the others


def text_of_label(label, of=""):
    """Return the text of a label: a number, text, time, None, or a tuple of them."""
    if isinstance(label, np.generic):
        label = label.item()
    kind = type(label)
    if kind in TIMES.values():
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
    if kind in TIMES:
        return TIMES[kind].fromisoformat(rest)
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
    if labels.dtype.kind in PLAIN:
        return {name: np.asarray(labels)}
    given = labels.tolist()
    if _are_texts(given):
        return {f"{name}_text": np.array(given, dtype=str)}
    fields = _fields(given)
    if fields is not None:
        return {f"{name}_tuple": np.rec.fromarrays(fields).view(np.ndarray)}
    return {f"{name}_repr": texts_of_labels(given, name)}


def labels_of_arrays(name, table):
    """Return the labels that `arrays_of_labels` wrote; None where there are none."""
    if f"{name}_text" in table:
        return objects(table[f"{name}_text"].tolist())
    if f"{name}_tuple" in table:
        return objects(table[f"{name}_tuple"].tolist())
    if f"{name}_repr" in table:
        return objects(labels_of_texts(table[f"{name}_repr"]))
    return table.get(name)


def _are_texts(given):
    # numpy's texts lose zeros at their ends
    return all(isinstance(one, str) and one[-1:] != "\0" for one in given)


def _fields(given):
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
