# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""
Labelled sets as logs of loggers of three kinds
===============================================
"""

import os
from pathlib import Path

import numpy as np
from scipy import sparse
from sklearn.feature_extraction.text import TfidfTransformer
from sklearn.preprocessing import StandardScaler

from skope_ope import BanditLogs
from skope_ope.datasets import load_classification

SHIPPED = ["digits", "wine", "breast_cancer"]
UCI = ["ecoli", "glass", "letter", "optdigits", "page_blocks"]
UCI += ["pendigits", "satimage", "vehicle", "yeast"]
TEXTS = {
    "newsgroups": "text_newsgroups20",
    "r8": "text_reuters_r8",
    "rcv1_six": "rcv1_sixclass_1200",
    "rcv1_ccat": "rcv1_ccat_sample_train",
}
SETS = [*SHIPPED, *UCI, *TEXTS]
LOGGERS = ["uniform", "skewed", "confounded"]


def load(name):
    """Return standardised features, or tf-idf of texts, and labels from 0."""
    if name not in TEXTS:
        X, y = load_classification(name, return_X_y=True)
        return StandardScaler().fit_transform(X), np.unique(y, return_inverse=True)[1]
    z = np.load(Path(os.environ["SKOPE_OPE_DATA"]) / f"{TEXTS[name]}.npz")
    if "X" in z:
        X = sparse.csr_matrix(z["X"].astype(float))
    else:
        parts = z["X_data"], z["X_indices"].astype(np.int32), z["X_indptr"]
        X = sparse.csr_matrix(parts, shape=tuple(z["X_shape"])).astype(float)
    y = z["y"]
    if name == "newsgroups":
        y = z["y_top"]
        topics = np.flatnonzero(np.isin(z["top_names"], ["comp", "rec", "sci", "talk"]))
        rows = np.isin(y, topics)
        X, y = X[rows], y[rows]
    if name in ("newsgroups", "r8"):  # the others are weighted already
        X = TfidfTransformer(sublinear_tf=True).fit_transform(X)
    return X, np.unique(y, return_inverse=True)[1]


def make_logs(name, noisy, logger, n_rounds, seed):
    """Return a log, and contexts with their right actions for a judgement.

    Parameters
    ----------
    name : str
        One of `SETS`.
    noisy : bool
        Whether rewards are 1 with probability 0.7 and 0.3, not 1 and 0.
    logger : str
        One of `LOGGERS`.
    n_rounds : int
        Most rounds of the log.
    seed : int
        Of the draws.
    """
    X, y = load(name)
    n_actions, rng = y.max() + 1, np.random.RandomState(seed)
    rows = rng.permutation(len(y))
    n_rounds = min(n_rounds, int(0.6 * len(y)))
    learn, rest = np.split(rows, [n_rounds])
    rest = rest[:4000]
    proba = _probabilities(X[learn], y[learn], logger, n_actions, rng)
    cumulative = proba.cumsum(axis=1)
    drawn = rng.random_sample((n_rounds, 1)) * cumulative[:, -1:]
    action = (drawn >= cumulative).sum(axis=1)
    right = action == y[learn]
    chance = np.where(right, 0.7, 0.3) if noisy else right.astype(float)
    reward = (rng.random_sample(n_rounds) < chance).astype(float)
    propensity = proba[np.arange(n_rounds), action]
    logs = BanditLogs(
        X[learn], action, reward, propensity, actions=np.arange(n_actions)
    )
    return logs, X[rest], y[rest]


def _probabilities(X, y, logger, n_actions, rng):
    if logger == "uniform":
        return np.full((len(y), n_actions), 1 / n_actions)
    if logger == "skewed":
        scores = X @ rng.normal(size=(X.shape[1], n_actions))
        scores = 1.5 * scores / scores.std() + rng.normal(size=n_actions)
        proba = np.exp(scores - scores.max(axis=1, keepdims=True))
        proba /= proba.sum(axis=1, keepdims=True)
        return 0.9 * proba + 0.1 / n_actions
    taste = rng.uniform(0.1, 1, size=(len(y), n_actions))
    return 0.3 * taste / taste.sum(axis=1, keepdims=True) + 0.7 * np.eye(n_actions)[y]
