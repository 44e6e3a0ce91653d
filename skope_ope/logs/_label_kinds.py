# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""What kind of labels there are: 1 and "1" are not one label."""

import datetime
from numbers import Number

import numpy as np

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


def joined(kinds):
    """Return the kind of tuples whose parts have these kinds."""
    return ", ".join(kinds) if all(kinds) else UNKNOWN


def _kind_of_label(label):
    if isinstance(label, tuple):
        return joined([*map(_kind_of_label, label)])
    return next((kind for some, kind in OF_CLASS if isinstance(label, some)), UNKNOWN)
