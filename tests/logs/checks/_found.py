# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""What audits find, and right and wrong logs of a softmax logger."""

import numpy as np

from skope_ope import BanditLogs, SlateLogs, audit
from skope_ope.datasets import make_bandit_logs


def findings(logs, *names, random_state=0):
    """Findings of an audit that have one of these names."""
    told = audit(logs, random_state=random_state).findings
    return [one for one in told if one.name in names]


def quick(logs):
    """Those that every value looks for, which an audit begins with."""
    return logs._quick_propensity_findings[1]


def softmax(logits):
    proba = np.exp(logits - logits.max(axis=1, keepdims=True))
    return proba / proba.sum(axis=1, keepdims=True)


def draw(mu, rng):
    return (rng.random((len(mu), 1)) > mu[:, :-1].cumsum(axis=1)).sum(axis=1)


def world(n_rounds=3000, seed=0, scale=1.0, n_actions=4):
    """Arrays of a softmax logger: context, mu, action, propensity."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n_rounds, 4))
    mu = softmax(scale * x @ rng.normal(scale=0.5, size=(4, n_actions)))
    action = draw(mu, rng)
    return x, mu, action, mu[np.arange(n_rounds), action]


def logs_of(x, action, propensity, **fields):
    return BanditLogs(x, action, np.zeros(len(action)), propensity, **fields)


def plain_logs(action, propensity, **fields):
    return logs_of(np.empty((len(action), 0)), action, propensity, **fields)


def softmax_logs(seed=0, n_rounds=3000, **params):
    """Logs of the package's own softmax logger of four actions."""
    sizes = {"n_features": 4, "n_actions": 4}
    return make_bandit_logs(n_rounds, random_state=seed, **sizes, **params)


def blank_slates(slate, **fields):
    """Logs of slates without features and, unless they are given, rewards."""
    n = len(slate)
    return SlateLogs(
        **{"context": np.zeros((n, 1)), "reward": np.zeros(n)} | fields, slate=slate
    )


def urn(n_rounds, n_actions, seed, n_segments=1):
    """A logger that draws an action as often as it was in the segment, plus a half."""
    rng = np.random.default_rng(seed)
    drawn = np.full((n_segments, n_actions), 0.5)
    segment = rng.integers(n_segments, size=n_rounds)
    action, p = np.zeros(n_rounds, dtype=int), np.zeros(n_rounds)
    for t, mine in enumerate(segment):
        below = drawn[mine].cumsum() < rng.random() * drawn[mine].sum()
        action[t] = min(below.sum(), n_actions - 1)
        p[t] = drawn[mine, action[t]] / drawn[mine].sum()
        drawn[mine, action[t]] += 1
    return logs_of(segment[:, None], action, p, actions=np.arange(n_actions))
