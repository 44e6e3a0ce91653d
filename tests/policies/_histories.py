# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Logs and walks that the tests of policies share."""

import numpy as np
from sklearn.base import clone

from skope_ope import BanditLogs, Replay
from tests._quiet import quiet


def make_logs(n_rounds=300, n_actions=4, n_features=3, *, seed=0, available=False):
    """Uniformly logged rounds with 0/1 rewards that depend on the context."""
    rng = np.random.RandomState(seed)
    X = rng.standard_normal((n_rounds, n_features))
    offered = np.ones((n_rounds, n_actions), dtype=bool)
    if available:
        offered = rng.random_sample((n_rounds, n_actions)) < 0.6
        offered[np.arange(n_rounds), rng.randint(n_actions, size=n_rounds)] = True
    share = offered / offered.sum(axis=1, keepdims=True)
    draw = rng.random_sample(n_rounds)[:, None]
    codes = np.argmax(draw < share.cumsum(axis=1), axis=1)
    coef = rng.standard_normal((n_actions, n_features))
    score = np.einsum("ij,ij->i", X, coef[codes])
    return BanditLogs(
        X,
        np.array([f"a{index}" for index in range(n_actions)])[codes],
        (rng.random_sample(n_rounds) < 1 / (1 + np.exp(-score))).astype(float),
        share[np.arange(n_rounds), codes],
        actions=[f"a{index}" for index in range(n_actions)],
        available=offered if available else None,
        timestamp=np.arange(n_rounds),
    )


def row_by_row(policy, logs, draws=None):
    """Live through the logs one row at a time, in the plainest way.

    Returns
    -------
    accepted : list of int
        Rows that entered the history: those with draw < probability.
    proba : ndarray of shape (n_rounds, n_actions)
        What the policy said about every row.
    policy : policy
        After its last update.
    """
    policy = clone(policy).fit(logs)
    X = policy.context_of(logs)
    draws = np.zeros(len(logs)) if draws is None else draws
    accepted, proba = [], np.empty((len(logs), logs.n_actions))
    for row in range(len(logs)):
        here = X[row : row + 1]
        offered = None if logs.available is None else logs.available[row : row + 1]
        proba[row] = policy.predict_proba(here, offered)[0]
        chance = proba[row, logs.action_index[row]]
        if draws[row] < chance:
            accepted.append(row)
            policy.update(here, logs.action_index[row], logs.reward[row], chance)
    return accepted, proba, policy


def replayed(policy, logs, draws=None):
    """Rows that enter the history of an evaluator: those with draw < probability."""
    evaluator = Replay(random_state=0).fit(logs)
    offered = logs.n_actions if logs.available is None else logs.available.sum(axis=1)
    # Replay accepts with the probability times its share of the most offers
    share = np.broadcast_to(offered, len(logs)) / np.max(offered)
    evaluator.uniforms_ = np.zeros(len(logs)) if draws is None else draws * share
    return quiet(evaluator, policy).accepted


def live(policy, actions, rewards, contexts=None):
    """Let a policy that was reset live through given rounds; return what changed."""
    if contexts is None:
        contexts = np.empty((len(actions), 0))
    rounds = zip(contexts, actions, rewards, strict=True)
    return [policy.update(x[None], a, r, 1.0) for x, a, r in rounds]
