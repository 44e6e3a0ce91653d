# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Logs of several loggers."""

import numpy as np

from skope_ope import BanditLogs

POOLINGS = ("naive", "balanced", "weighted")


def several(n=300, m=3, k=4, seed=0, **fields):
    """Rounds of `m` loggers in random order, and a policy."""
    rng = np.random.RandomState(seed)
    mu = 0.7 * rng.dirichlet(np.ones(k), (m, n)) + 0.3 / k
    pi = rng.dirichlet(np.ones(k), n)
    logger = rng.choice(m, n, p=np.arange(1, m + 1) / (m * (m + 1) / 2))
    logger[:m] = np.arange(m)
    rows = np.arange(n)
    drawn = mu[logger, rows].cumsum(axis=1) > rng.random_sample((n, 1))
    action = np.where(drawn.any(axis=1), drawn.argmax(axis=1), k - 1)
    known = {"logger": logger, "logger_proba": mu[:, rows, action].T}
    known |= {"actions": np.arange(k), **fields}
    context = np.column_stack([rows, rng.normal(size=n)])
    return BanditLogs(context, action, action + rng.random_sample(n), **known), pi


def without_support(**fields):
    """Logger 1 never takes action 0; the policy gives it 0.3."""
    rng = np.random.RandomState(0)
    mu = np.array([[0.5, 0.3, 0.2], [0.0, 0.4, 0.6]])
    logger = np.arange(400) % 2
    action = np.array([rng.choice(3, p=mu[g]) for g in logger])
    known = {"logger_proba": mu[:, action].T, "logging_proba": mu[logger]}
    known |= {"actions": range(3), "propensity": mu[logger, action], **fields}
    reward = rng.random_sample(400)
    logs = BanditLogs(np.zeros((400, 1)), action, reward, logger=logger, **known)
    return logs, np.tile([0.3, 0.4, 0.3], (400, 1))
