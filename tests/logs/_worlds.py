# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Small logs of all kinds, with every field, or with faults, and parts of them."""

from itertools import pairwise

import numpy as np
from numpy.testing import assert_array_equal
from scipy import sparse

from skope_ope import BanditLogs, SlateLogs, UniformSlatePolicy

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
        mu = rng.dirichlet(np.full(k, rng.choice([0.9, 9.0])), size=alike).clip(0.01)
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
    fields = {"n_candidates": 5, "propensity": np.full(n, 1 / 60)}
    fields |= {"group": rng.integers(0, 200, n), "timestamp": np.arange(n)}
    return SlateLogs(np.zeros((n, 1)), slate, reward, **fields)


def bandit_fields(seed=0, n=240, labels="abc"):
    """Return every field of rounds, as users hold them."""
    rng = np.random.default_rng(seed)
    labels = np.array(list(labels))
    code, k = rng.integers(0, len(labels), n), len(labels)
    proba = rng.dirichlet(np.full(k, 5.0), n)
    return {
        "action": labels[code],
        "reward": rng.random(n),
        "propensity": proba[np.arange(n), code],
        "actions": labels,
        "logging_proba": proba,
        "logger": rng.choice(["new", "old"], n),
        "logger_proba": np.column_stack([proba[np.arange(n), code]] * 2),
        "available": np.ones((n, k), dtype=bool),
        "action_context": np.array([[float(ord(str(label)))] for label in labels]),
        "timestamp": np.arange(n).astype("datetime64[s]"),
        "group": rng.integers(0, 150, n),
        "sample_weight": rng.integers(1, 4, n),
        "reward_range": (0, 1),
        "context": rng.normal(size=(n, 2)),
    }


def slate_fields(seed=0, n=240):
    """Return every field of slates."""
    rng = np.random.default_rng(seed)
    return {
        "slate": rng.permuted(np.tile(np.arange(4), (n, 1)), axis=1)[:, :2],
        "reward": rng.random(n),
        "n_candidates": 4,
        "candidates": np.ones((n, 4), dtype=bool),
        "item_id": np.tile(list("wxyz"), (n, 1)),
        "item_features": np.arange(8.0).reshape(4, 2),
        "item_feature_names": ["size", "price"],
        "slot_reward": rng.random((n, 2)),
        "logging_policy": UniformSlatePolicy(2),
        "propensity": np.full(n, 1 / 12),
        "timestamp": np.arange(n),
        "group": rng.integers(0, 150, n).astype(str),
        "reward_range": (0, 1),
        "context": rng.normal(size=(n, 2)),
    }


def dense(values):
    """Return values as an array, if they are no list."""
    if sparse.issparse(values):
        return values.toarray()
    return values if isinstance(values, list) else np.asarray(values)


def assert_same_fields(one, other, *but):
    """Raise unless logs have the same fields, but for some, and columns."""
    names = {*other._row_fields, *other._carried_fields, "group_index"}
    for name in names - {*but, "_group_code", "_group_labels"}:
        found, wanted = getattr(one, name), getattr(other, name)
        assert (found is None) == (wanted is None), name
        if wanted is not None:
            assert_array_equal(dense(found), dense(wanted), err_msg=name)
    assert one.shape == other.shape
    assert {*one.columns} == {*other.columns}
    for name, values in other.columns.items():
        assert_array_equal(one.columns[name], values)


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
