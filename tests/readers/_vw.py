# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Lines of Vowpal Wabbit, and what their features should be."""

import json

from sklearn.feature_extraction import FeatureHasher

LABEL = {"_label_Cost": -1.0, "_label_Probability": 0.5, "_labelIndex": 1}
MULTI = [{"a": 1}, {"b": 1}]


def hashed(rows, n_columns=2**18):
    """Rows of (name, value) in the columns that the reader promises."""
    hasher = FeatureHasher(n_columns, input_type="pair", alternate_sign=False)
    return hasher.transform(rows)


def has_features(logs, *rows):
    return (logs.context != hashed(rows, logs.context.shape[1])).nnz == 0


def json_line(container, **label):
    return json.dumps({**LABEL, **container, **label}) + "\n"


def dsjson_line(container=None, **fields):
    container = {"_multi": MULTI} if container is None else container
    return json.dumps({**LABEL, "c": container, **fields}) + "\n"
