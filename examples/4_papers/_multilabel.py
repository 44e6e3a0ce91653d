# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""
Policies over sets of labels, from labelled sets
================================================
"""

from pathlib import Path

import numpy as np
from scipy import sparse
from sklearn.datasets import fetch_rcv1, load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler


def load(name, data_home):
    """Return features and labels, (X, Y), of the training and of the test set."""
    if name == "rcv1":  # tf-idf rows of unit length, labels: the topics at the top
        parts = [fetch_rcv1(subset=subset) for subset in ("train", "test")]
        topics = [list(parts[0].target_names).index(f"{c}CAT") for c in "CEGM"]
        Y = [np.asarray(part.target[:, topics].todense(), int) for part in parts]
        return parts[0].data, Y[0], parts[1].data, Y[1]
    if name == "digits":
        X, y = load_digits(return_X_y=True)
        families = [{0, 2, 4, 6, 8}, {2, 3, 5, 7}, {0, 6, 8, 9}, {1, 4, 7}]
        families += [{5, 6, 7, 8, 9}, {2, 3, 5, 6, 8, 9}]  # even, prime, loops, ...
        Y = np.array([[digit in family for family in families] for digit in y])
        train = np.random.RandomState(0).permutation(len(y)) < len(y) // 2
    else:
        z = np.load(Path(data_home) / f"multilabel_{name}.npz")
        Y, train = z["Y"], z["split"] == 0
        if "X" in z.files:
            X = z["X"].astype(float)
        else:
            parts = (z["X_data"].astype(float), z["X_indices"].astype(np.int32))
            X = sparse.csr_matrix((*parts, z["X_indptr"]), shape=tuple(z["X_shape"]))
            X = X.toarray()
        if name == "tmc2007_500":
            Y = Y[:, np.sort(np.argsort(Y[train].sum(axis=0))[-4:])]
    X = StandardScaler().fit(X[train]).transform(X)
    return X[train], Y[train].astype(int), X[~train], Y[~train].astype(int)


def right(fraction, X_train, Y_train, X_test, Y_test):
    """Probability of every label of the test set to be right, (n_rows, n_labels).

    The policy draws every label by a logistic regression of its own, which learns from
    a fraction of the training set.
    """
    order = np.random.RandomState(0).permutation(len(Y_train))
    some = order[: round(fraction * len(order))]
    columns = []
    for y_train, y_test in zip(Y_train[some].T, Y_test.T, strict=True):
        if len(np.unique(y_train)) == 1:  # a label that is not there yet
            p = np.full(len(y_test), (y_train.sum() + 1) / (len(some) + 2))
        else:
            model = LogisticRegression(C=0.01, max_iter=1000)
            p = model.fit(X_train[some], y_train).predict_proba(X_test)[:, 1]
        columns.append(np.where(y_test == 1, p, 1 - p))
    return np.column_stack(columns)


def all_products(coins):
    """Probabilities of all 2^L outcomes, in the order of binary numbers."""
    out = np.ones((len(coins), 1))
    for p in coins.T:
        out = np.concatenate([out * (1 - p[:, None]), out * p[:, None]], axis=1)
    return out


def blocks_of(coins):
    """Yield reward times policy, and both loggers, by row and outcome, in blocks.

    Parameters
    ----------
    coins : sequence of three ndarrays of shape (n_rows, n_labels)
        Probabilities to be right of the policy and of the two loggers.
    """
    n_rows, n_labels = coins[0].shape
    reward = np.array([k.bit_count() for k in range(1 << n_labels)])
    step = max((1 << 15) >> n_labels, 1)  # rows whose outcomes fit the cache
    for start in range(0, n_rows, step):
        pi, *loggers = (all_products(c[start : start + step]) for c in coins)
        yield pi * reward, np.stack(loggers)
