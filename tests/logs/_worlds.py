# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Small logs of all kinds, right ones and wrong ones, and random parts of them."""

from itertools import pairwise

import numpy as np

from skope_ope import BanditLogs, SlateLogs

FAULTS = ("", "", "small", "large", "placeholder", "late", "rounded", "certain")


def world(seed):
    """Return logs whose fields, sizes and faults follow from a seed."""
    rng = np.random.default_rng(seed)
    n, k = int(rng.integers(200, 2500)), int(rng.integers(2, 10))
    fault = FAULTS[seed % len(FAULTS)]
    if seed % len(FAULTS) == 0:  # rankings, say: hardly an action comes twice
        n = min(n, 400)
        action = rng.integers(0, 4 * n, n)
        p, labels, known = np.full(n, 1 / (4 * n)), np.arange(4 * n), {}
    else:
        alike = 1 if rng.random() < 0.4 else n
        mu = np.maximum(
            rng.dirichlet(np.full(k, rng.choice([0.9, 9.0])), size=alike), 0.01
        )
        mu = np.broadcast_to(mu / mu.sum(axis=1, keepdims=True), (n, k)).copy()
        action = (rng.random(n)[:, None] > mu.cumsum(axis=1)).sum(axis=1)
        action = np.minimum(action, k - 1)
        p, labels = (
            mu[np.arange(n), action],
            np.array([f"act{j:02d}" for j in range(k)]),
        )
        known = {"logging_proba": mu} if rng.random() < 0.3 and not fault else {}
        if fault == "" and not known and rng.random() < 0.3:
            known["available"] = np.ones((n, k), dtype=bool)
    reward = np.where(rng.random(n) < 0.15, rng.choice([1.0, 1.0, 2.0]), 0.0)
    if fault == "small":
        p = 0.6 * p
    elif fault == "large":
        p = np.minimum(1.8 * p, 0.95)
    elif fault == "placeholder":
        p = p.copy()
        p[rng.integers(n)] = 1e-12
    elif fault == "late":
        reward[-n // 4 :] = 0.0
    elif fault == "rounded":
        p = np.maximum(np.round(p, 2), 0.01)
    elif fault == "certain":
        p = np.ones(n)
    more = {}
    if rng.random() < 0.4:
        group = rng.integers(0, n // 4, n)
        texts = np.array([f"user {g}" for g in group])
        more["group"] = [group, texts, texts.astype(object)][int(rng.integers(3))]
    if rng.random() < 0.4:
        more["sample_weight"] = rng.choice([0.0, 1.0, 2.0], n)
    if rng.random() < 0.3:
        more["logger"] = rng.choice(["new", "old"], n)
    if rng.random() < 0.3:
        more["timestamp"] = rng.permutation(n) if rng.random() < 0.5 else np.arange(n)
    context = rng.integers(0, 3, (n, 2)).astype(float)
    given = {"actions": labels, **known, **more}
    return BanditLogs(context, labels[action], reward, p, **given)


def slates(seed, n=300):
    """Return logs of slates with groups and times."""
    rng = np.random.default_rng(seed)
    slate = np.array([rng.permutation(5)[:3] for _ in range(n)])
    reward = (rng.random(n) < 0.3).astype(float)
    reward[-n // 3 :] = 0.0
    return SlateLogs(
        np.zeros((n, 1)),
        slate,
        reward,
        n_candidates=5,
        propensity=np.full(n, 1 / 60),
        group=rng.integers(0, 200, n),
        timestamp=np.arange(n),
    )


def parts_of(logs, n_parts, seed):
    """Return the logs in random parts of rows that follow each other, mixed up."""
    rng = np.random.default_rng(seed)
    cuts = np.sort(rng.choice(np.arange(1, len(logs)), n_parts - 1, replace=False))
    edges = [0, *cuts.tolist(), len(logs)]
    parts = [logs[a:b] for a, b in pairwise(edges)]
    return [parts[k] for k in rng.permutation(n_parts)]


def entering(logs):
    """Return the rounds that enter values."""
    weight = getattr(logs, "sample_weight", None)
    return logs if weight is None else logs[weight > 0]
