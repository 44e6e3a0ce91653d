# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Logs whose summaries are compared with evaluations in memory."""

import numpy as np

from skope_ope import BanditLogs, summarize

N_ACTIONS = 4


def world(n, seed=0, reward="clicks", *, full=False, free=False, labels=None, **given):
    """Logs with two policies and a model as columns; the logger may ignore the context.

    Rewards are 0/1, few of them ones ("rare"), of no known range ("revenue"), or of
    one ("ratings").
    """
    labels = np.arange(N_ACTIONS) if labels is None else labels
    rng = np.random.default_rng(seed)
    mu = rng.dirichlet(np.full(N_ACTIONS, 2.0), n)
    if free:
        mu[:] = mu[0]
    action = (rng.random((n, 1)) > mu.cumsum(axis=1)).sum(axis=1).clip(0, N_ACTIONS - 1)
    rate = (0.02 if reward == "rare" else 0.3) * (1 + action) / 2
    r = (rng.random(n) < rate).astype(float)
    if reward == "revenue":
        r = rng.normal(size=n) + action + 10
    if reward == "ratings":
        r, given["reward_range"] = np.clip(rng.random(n) + 0.1 * action, 0, 2), (0, 2)
    pi = rng.dirichlet(np.ones(N_ACTIONS), n)
    given |= {"actions": labels, "logging_proba": mu if full else None}
    rows = rng.normal(size=(n, 2)), labels[action], r, mu[np.arange(n), action]
    logs = BanditLogs(*rows, **given)
    q, other = rng.random((n, N_ACTIONS)), np.tile(pi[:1], (n, 1))
    return logs.with_columns(q=q, pi=pi, other=other)


def cut(n, seed=0, n_parts=4):
    """Return the rows of some parts that make up a log of n rounds, of any sizes."""
    rng = np.random.default_rng(seed)
    places = np.sort(rng.integers(0, n + 1, n_parts - 1))
    return np.split(rng.permutation(n), places)


def summed(policies, evaluators, logs, parts, **given):
    """Return the summary that parts of some logs add up to."""
    given["evaluators"] = evaluators
    return sum(summarize(policies, logs[rows], **given) for rows in parts if len(rows))
