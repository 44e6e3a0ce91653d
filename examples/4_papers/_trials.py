# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""
What the examples with DR-ns share: labelled sets, trials in parallel, errors in a table
========================================================================================
"""

import os
import sys
from pathlib import Path

import numpy as np
from scipy import sparse
from sklearn.datasets import make_classification
from sklearn.feature_extraction.text import TfidfTransformer
from sklearn.preprocessing import StandardScaler
from sklearn.utils.parallel import Parallel

from skope_ope.datasets import load_classification

TEXTS = {
    "r8": "text_reuters_r8",
    "newsgroups": "text_newsgroups20",
    "tmc2007_500": "multilabel_tmc2007_500",
}
TOPICS = ["comp", "rec", "sci", "talk"]  # the four large ones of the newsgroups


def load(name):
    """Return features, and a 0/1 indicator of the labels of every row."""
    if name in MADE:
        return MADE[name]()
    if name not in TEXTS:
        X, y = load_classification(name, return_X_y=True)
        return StandardScaler().fit_transform(X), _indicator(y)
    z = np.load(Path(os.environ["SKOPE_OPE_DATA"]) / f"{TEXTS[name]}.npz")
    parts = z["X_data"].astype(float), z["X_indices"].astype(np.int32), z["X_indptr"]
    X = sparse.csr_matrix(parts, shape=tuple(z["X_shape"]))
    if name == "tmc2007_500":  # a row may have several of the four frequent labels
        labels = z["Y"][:, np.argsort(-z["Y"].sum(axis=0))[:4]].astype(float)
    else:
        X = TfidfTransformer(sublinear_tf=True).fit_transform(X)
        labels = _indicator(z["y"] if name == "r8" else z["y_top"])
        if name == "newsgroups":
            labels = labels[:, np.isin(z["top_names"], TOPICS)]
    rows = labels.sum(axis=1) > 0
    return X[rows], labels[rows]


def _drawn(n_rows=40_000):
    """As many rows and labels as the paper's set, of unequal frequency."""
    X, y = make_classification(
        n_rows,
        n_features=10,
        n_informative=8,
        n_redundant=0,
        n_classes=4,
        class_sep=2.0,
        weights=[0.45, 0.2, 0.2, 0.15],
        random_state=0,
    )
    return X, _indicator(y)


def _rcv1(n_rows=40_000):
    """The paper's set: documents with any of the four topics at the top, by fetch."""
    from sklearn.datasets import fetch_rcv1

    found = fetch_rcv1()
    columns = [list(found.target_names).index(f"{topic}CAT") for topic in "CEGM"]
    labels = np.asarray(found.target[:, columns].todense(), dtype=float)
    rows = np.flatnonzero(labels.any(axis=1))
    rows = np.random.RandomState(0).permutation(rows)[:n_rows]
    return found.data[rows], labels[rows]


MADE = {"drawn": _drawn, "small": lambda: _drawn(2_000), "rcv1": _rcv1}


def _indicator(y):
    return (y[:, None] == np.unique(y)).astype(float)


def run(jobs, n_jobs, what):
    """Return the results of a list of delayed jobs; say how far they are."""
    results = []
    for result in Parallel(n_jobs=n_jobs, return_as="generator")(jobs):
        results.append(result)
        if len(results) % max(len(jobs) // 4, 1) == 0:
            print(f"{what}: {len(results)} of {len(jobs)}", file=sys.stderr)
    return results


def summarize(error):
    """Return rmse, half its 95% interval, bias and standard deviation of trials."""
    error = error[np.isfinite(error)]  # a trial may give no value
    if len(error) < 2:
        return (np.nan,) * 4
    square = error**2
    rmse = np.sqrt(square.mean())
    half_width = 1.96 * square.std(ddof=1) / np.sqrt(len(square)) / (2 * rmse)
    return rmse, half_width, error.mean(), error.std(ddof=1)


HEAD = f"{'rmse':>8}{'95%':>9}{'bias':>9}{'std':>9}"


def cells(rmse, half_width, bias, std):
    """Format the columns of `HEAD`."""
    return f"{rmse:8.4f} ±{half_width:7.4f} {bias:8.4f} {std:8.4f}"
