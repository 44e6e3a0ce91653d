# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Worlds so small that all logs can be listed, with every uniform number.

A decision depends on its uniform number only through the interval between thresholds
c pi / p in which it falls; one number per interval, with the interval's length as
probability, makes expectations finite sums. Rounds are (x, a, r).
"""

from itertools import pairwise, product

import numpy as np
import pytest

from skope_ope import BanditLogs, scan_logs
from tests._quiet import quiet
from tests.evaluators._parquet_worlds import columns_of

P_X = (0.4, 0.6)
Q = ((0.2, 0.7), (0.6, 0.3))  # probability of reward 1
MU = ((0.25, 0.75), (0.75, 0.25))
ONE = {"p_x": (1.0,), "q": ((0.3, 0.8),)}  # a single context
ONE_MU = ((0.25, 0.75),)


def chance_of(x, a, r, p_x=P_X, q=Q):
    """Probability of the context, and of the reward of the action."""
    return p_x[x] * (q[x][a] if r else 1 - q[x][a])


def online(rule, n_rounds, p_x=P_X, q=Q, history=(), chance=1.0):
    """Yield every history of a policy that acts online, with its probability."""
    if len(history) == n_rounds:
        yield history, chance
        return
    for x, a, r in product(range(len(p_x)), (0, 1), (0, 1)):
        pi = rule(list(history), x)[a]
        if pi > 0:
            grown = (*history, (x, a, r))
            here = chance * pi * chance_of(x, a, r, p_x, q)
            yield from online(rule, n_rounds, p_x, q, grown, here)


def logs_of(rounds, mu=MU):
    x, a, r = (np.array(column) for column in zip(*rounds, strict=True))
    p = None if mu is None else np.asarray(mu)[x, a]
    return BanditLogs(x[:, None].astype(float), a, r, p, actions=[0, 1])


def result_of(evaluator, policy, logs, u):
    """Evaluate with given uniform numbers."""
    evaluator.fit(logs)
    evaluator.uniforms_ = np.array(u)
    return quiet(evaluator, policy)


def cells(thresholds):
    """One number inside of every interval between thresholds, and its length."""
    bounds = [0.0, *sorted({t for t in thresholds if 0 < t < 1}), 1.0]
    return [((low + high) / 2, high - low) for low, high in pairwise(bounds)]


def outcomes(mu, thresholds_of, p_x=P_X, q=Q):
    """Outcomes (x, a, r, u) of a logged round, with their probabilities."""
    return [
        ((x, a, r, u), chance_of(x, a, r, p_x, q) * mu[x][a] * length)
        for x, a, r in product(range(len(p_x)), (0, 1), (0, 1))
        for u, length in cells(thresholds_of(x, a))
    ]


def two_armed_log(n=5000, seed=0):
    """Two arms of a lopsided logger; the better one is taken seldom."""
    rng = np.random.default_rng(seed)
    action = rng.choice(2, n, p=[0.9, 0.1])
    reward = rng.random(n) < np.array([0.2, 0.8])[action]
    return BanditLogs(np.zeros((n, 1)), action, reward, np.take([0.9, 0.1], action))


def written(logs, folder, bounds, size=200, **about):
    """Write the rounds between `bounds` as a file each, in row groups of `size`."""
    pa = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    data, roles = columns_of(logs)
    table = pa.table({name: np.ascontiguousarray(v) for name, v in data.items()})
    for k, (low, high) in enumerate(pairwise(bounds)):
        path = folder / f"part{k}.parquet"
        parquet.write_table(table[low:high], path, row_group_size=size)
    return scan_logs(folder, **{**roles, **about})
