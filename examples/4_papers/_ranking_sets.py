# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""
What the examples with slates share: graded documents, and models of their grades
=================================================================================
"""

import numpy as np
from sklearn.compose import make_column_transformer
from sklearn.datasets import load_digits
from sklearn.pipeline import make_pipeline

from skope_ope.datasets import load_ranking


def graded_documents(data_home):
    """Return features, grades, queries and two groups of columns: "title", "body".

    Cranfield: abstracts with grades 0 to 4 for 225 questions. Where there is no folder
    of data, digits stand for documents: a query is an image, its documents are 50
    others, graded by the digit and by how alike the images are; the features are the
    similarities of single rows of pixels, those of the upper half being the "title".
    """
    if data_home:
        data = load_ranking("cranfield", data_home=data_home)
        names = np.array(data.feature_names)
        columns = {
            part: np.flatnonzero(np.char.endswith(names, f"_{part}"))
            for part in ("title", "body")
        }
        return data.data, data.target.astype(float), data.qid, columns
    images, digit = load_digits(return_X_y=True)
    rng = np.random.RandomState(0)
    query = rng.permutation(len(images))[:100]
    document = np.array([rng.choice(len(images), 50, replace=False) for _ in query])
    pairs = images[query][:, None], images[document]
    rows = [part.reshape(*part.shape[:-1], 8, 8) for part in pairs]
    similarity = (rows[0] * rows[1]).sum(axis=-1)
    norms = [np.sqrt((part**2).sum(axis=-1)) for part in rows]
    X = np.concatenate([similarity / (norms[0] * norms[1] + 1), norms[1]], axis=-1)
    whole = (pairs[0] * pairs[1]).sum(axis=-1)
    whole /= np.linalg.norm(pairs[0], axis=-1) * np.linalg.norm(pairs[1], axis=-1)
    alike = digit[query][:, None] == digit[document]
    grades = alike * np.digitize(whole, [-1, 0.75, 0.85, 0.92])
    upper, lower = np.arange(4), np.arange(4, 8)
    columns = {"title": np.r_[upper, 8 + upper], "body": np.r_[lower, 8 + lower]}
    qid = np.repeat(np.arange(100), 50)
    return X.reshape(-1, 16), grades.ravel().astype(float), qid, columns


def on_columns(columns, *steps):
    """Return a model that sees some of the columns."""
    return make_pipeline(make_column_transformer(("passthrough", columns)), *steps)
