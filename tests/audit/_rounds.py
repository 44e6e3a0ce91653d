# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Logs of a softmax logger for the audits of policies."""

import numpy as np

from skope_ope import BanditLogs


def softmax_logs(n=2000, n_actions=4, scale=1.0, seed=0, **fields):
    """Return logs, and the logger's probabilities of all actions."""
    rng = np.random.RandomState(seed)
    X = rng.normal(size=(n, 3))
    logits = scale * X @ rng.normal(size=(3, n_actions))
    mu = np.exp(logits - logits.max(axis=1, keepdims=True))
    mu /= mu.sum(axis=1, keepdims=True)
    action = (rng.random_sample((n, 1)) > mu.cumsum(axis=1)).sum(axis=1)
    action = np.minimum(action, n_actions - 1)
    reward = (rng.random_sample(n) < 0.2 + 0.1 * action).astype(float)
    given = {
        "context": X,
        "action": action,
        "reward": reward,
        "propensity": mu[np.arange(n), action],
        "actions": range(n_actions),
    }
    return BanditLogs(**(given | fields)), mu


def names(findings):
    """Return name and severity of findings."""
    return [(one.name, one.severity) for one in findings]
