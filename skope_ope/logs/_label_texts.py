# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Labels as texts that tell them apart, and back: for files that hold no objects."""

import datetime
from ast import literal_eval

import numpy as np

TIMES = {"date": datetime.date, "datetime": datetime.datetime}
NOT_FINITE = ("inf", "-inf", "nan")


def text_of_label(label):
    """Return the text of a label: a number, text, time, None, or a tuple of them."""
    if isinstance(label, np.generic):
        label = label.item()
    if isinstance(label, datetime.date):  # a datetime is one, too
        return f"{type(label).__name__} {label.isoformat()}"
    return repr(label)


def label_of_text(text):
    """Return the label that `text_of_label` wrote."""
    kind, _, moment = text.partition(" ")
    if kind in TIMES:
        return TIMES[kind].fromisoformat(moment)
    return float(text) if text in NOT_FINITE else literal_eval(text)


def texts_of_labels(labels):
    """Return the texts of some labels, ndarray of str."""
    return np.array([text_of_label(label) for label in labels], dtype=str)


def labels_of_texts(texts):
    """Return the labels of an ndarray of texts, a list."""
    return [label_of_text(text) for text in texts.tolist()]
