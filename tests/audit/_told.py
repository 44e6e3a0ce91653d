# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""What an audit tells, by check, and logs of a softmax logger."""

import warnings

import numpy as np

from skope_ope import BanditLogs, audit


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


def told(name, *asked, **options):
    """Return the facts of an audit, and the findings of this name."""
    found = audit(*asked, **options)
    return found.facts, [one for one in found.findings if one.name == name]


def of_policy(policy, logs):
    """Return the facts of an audit, and what it finds that the log alone has not."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # an audit tells by its findings alone
        alone, found = audit(logs), audit(policy, logs)
    known = {one.name for one in alone.findings}
    return found.facts, [one for one in found.findings if one.name not in known]


def names(findings):
    """Return name and severity of findings."""
    return [(one.name, one.severity) for one in findings]
