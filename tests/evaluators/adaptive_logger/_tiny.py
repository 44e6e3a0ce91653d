# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Algorithms so small that all their histories can be listed."""

from itertools import product
from types import SimpleNamespace

import numpy as np

from skope_ope import BanditLogs

Q = np.array([[0.3, 0.6], [0.8, 0.4]])  # probability of a reward, by context
PI = np.array([[0.2, 0.8], [0.5, 0.5]])  # the policy
VALUE = 0.5 * (PI * Q).sum()


def greedy(history, x, n_contexts):
    """Return probabilities: .8 for the arm with the better mean so far in x."""
    sums = np.zeros((2, 2))
    for x_, a, r in history:
        if x_ == x or n_contexts == 1:
            sums[a] += [r, 1]
    means = (sums[:, 0] + 0.5) / (sums[:, 1] + 1)
    if means[0] == means[1]:
        return np.array([0.5, 0.5])
    return np.where(means == means.max(), 0.8, 0.2)


def histories(n_rounds, contextual):
    """Yield the probability and the log of every history.

    There are two contexts; a logger that is not `contextual` ignores them.
    """
    for cells in product(product((0, 1), repeat=3), repeat=n_rounds):
        probability, proba = 1.0, []
        for t, (x, a, r) in enumerate(cells):
            e = greedy(cells[:t], x, 2 if contextual else 1)
            probability *= 0.5 * e[a] * (Q[x, a] if r else 1 - Q[x, a])
            proba.append(e)
        yield probability, log_of(cells, np.array(proba))


def log_of(cells, proba):
    """Return BanditLogs of a history."""
    x, a, r = np.array(cells).T
    rounds = x[:, None].astype(float), a, r.astype(float), proba[np.arange(len(a)), a]
    return BanditLogs(*rounds, actions=[0, 1], logging_proba=proba)


def logger_of(logs, contextual):
    """Return logger(t, X) of a log, and the same for one context x."""
    x, a, r = logs.context[:, 0].astype(int), logs.action_index, logs.reward
    cells = list(zip(x.tolist(), a.tolist(), r.tolist(), strict=True))

    def at(t, x):
        return greedy(cells[:t], x, 2 if contextual else 1)

    def logger(t, X):
        return np.array([at(t, int(row[0])) for row in X])

    return logger, at


def plain(logs):
    """Return the lists of a log, as the loops take them."""
    x, a = logs.context[:, 0].astype(int), logs.action_index
    fields = {"x": x, "a": a, "r": logs.reward, "p": logs.propensity}
    return SimpleNamespace(**{name: one.tolist() for name, one in fields.items()})


def target(logs):
    """Return the policy's probabilities on the rounds of a log."""
    return PI[logs.context[:, 0].astype(int)]
