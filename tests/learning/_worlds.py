# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Worlds as logs of all that can happen, and a classifier that learns by heart."""

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin

from skope_ope import BanditLogs


class ByHeart(ClassifierMixin, BaseEstimator):
    """The label of the largest weight among the rows of the same first feature.

    The best of all classifiers where contexts are few; what it is fitted on is kept in
    `fits`, rows sorted, for tests of the problems that are put to it.
    """

    fits = ()

    def fit(self, X, y, sample_weight=None):
        X = np.asarray(X)
        weight = np.ones(len(y)) if sample_weight is None else sample_weight
        self.classes_, code = np.unique(y, return_inverse=True)
        self.table_ = {}
        for key, k, w in zip(X[:, 0].tolist(), code, weight, strict=True):
            row = self.table_.setdefault(key, np.zeros(len(self.classes_)))
            row[k] += w
        problem = zip(X[:, 0].tolist(), y.tolist(), weight.tolist(), strict=True)
        type(self).fits = (*self.fits, sorted(problem))
        return self

    def predict_proba(self, X):
        n_classes = len(self.classes_)
        unknown = np.eye(n_classes)[0]
        rows = [self.table_.get(key, unknown) for key in np.asarray(X)[:, 0].tolist()]
        rows = np.reshape(rows, (-1, n_classes))
        return rows / rows.sum(axis=1, keepdims=True)

    def predict(self, X):
        return self.classes_[self.predict_proba(X).argmax(axis=1)]


def all_that_can_happen(mu, q, available=None):
    """Logs with every (context, action, reward 0 or 1), weighted by its probability.

    A sum over these rows is an expectation over the world of the logger `mu` and the
    success probabilities `q`, both of shape (n_contexts, n_actions).
    """
    x, a, r = (v.ravel() for v in np.indices((*mu.shape, 2)))
    keep = mu[x, a] > 0
    x, a, r = x[keep], a[keep], r[keep]
    p_reward = np.where(r == 1, q[x, a], 1 - q[x, a])
    return BanditLogs(
        x[:, None].astype(float),
        a,
        r.astype(float),
        mu[x, a],
        actions=np.arange(mu.shape[1]),
        available=None if available is None else available[x],
        sample_weight=mu[x, a] * p_reward,
    )


def random_world(seed, n_contexts=6, n_actions=5, offers=False):
    """Return (mu, q, available) of a world drawn at random."""
    rng = np.random.RandomState(seed)
    available = np.ones((n_contexts, n_actions), dtype=bool)
    if offers:
        available = rng.random_sample(available.shape) < 0.6
        available[np.arange(n_contexts), rng.randint(n_actions, size=n_contexts)] = 1
    mu = np.where(available, rng.dirichlet(np.ones(n_actions), n_contexts) + 0.02, 0)
    q = rng.random_sample(mu.shape)
    return mu / mu.sum(axis=1, keepdims=True), q, available
