# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Labels of two parts of a log as those of one."""

from contextlib import suppress

import numpy as np

from skope_ope.logs._factorise import objects


def merged_labels(one, other):
    """Return all labels of two arrays in order, and where those of each stand."""
    if one is None or one is other or _alike(one, other):
        return one, None, None
    mine, theirs = one.tolist(), other.tolist()
    labels = list(dict.fromkeys([*mine, *theirs]))
    with suppress(TypeError):  # labels of several types stay as they appear
        labels = sorted(labels)
    place = {label: k for k, label in enumerate(labels)}
    places = [
        np.array([place[label] for label in part], dtype=np.intp)
        for part in (mine, theirs)
    ]
    return label_array(labels, one.dtype, other.dtype), *places


def label_array(labels, *kinds):
    """Return labels as an array, of objects unless all are of one kind."""
    if len({kind.kind for kind in kinds}) == 1 and kinds[0].kind in "biufUSmM":
        return np.array(labels, dtype=np.result_type(*kinds))
    return objects(labels)


def placed(values, places, n):
    """Return rows of an array at their places among n, zeros elsewhere."""
    if places is None:
        return values
    out = np.zeros((n, *values.shape[1:]), dtype=values.dtype)
    out[places] = values
    return out


def _alike(one, other):
    return (
        len(one) == len(other)
        and one.dtype.kind == other.dtype.kind
        and bool(np.all(one == other))
    )
