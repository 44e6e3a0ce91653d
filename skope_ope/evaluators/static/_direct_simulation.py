# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""A policy that learns from the rewards of a model, along the contexts of a log."""

import numpy as np

from skope_ope.evaluators.core._blocks import Chunks, check_answer, check_block
from skope_ope.logs._row_container import own, take_rows
from skope_ope.policies._adaptive import contexts_of, fresh_copy, learn

LARGEST_BLOCK = 256  # rounds; every round is an update here


def simulate(policy, logs, predict):
    """Let a policy act and learn in every round, rewarded by the model."""
    policy = fresh_copy(policy, logs)
    context = contexts_of(policy, logs)
    model = Chunks(predict, logs)
    uniforms = draws(logs)
    # 0/1 rewards are drawn from the model: its means are no rewards.
    binary = bool(((logs.reward == 0) | (logs.reward == 1)).all())
    values = np.empty(len(logs))
    start, size = 0, 1
    while start < len(logs):
        stop = min(start + size, len(logs))
        X = take_rows(context, slice(start, stop))
        offered = None if logs.available is None else logs.available[start:stop]
        block = policy.look_ahead(own(X, policy), own(offered, policy))
        check_block(block.proba, stop - start, logs.n_actions, offered, start)
        q = model.rows(start, stop)
        at, stale = 0, False
        while at < stop - start and not stale:
            proba = block.proba[at]
            values[start + at] = proba @ q[at]
            u_action, u_reward = uniforms[start + at].tolist()
            action = draw(proba, u_action)
            reward = q[at, action].item()
            if binary:
                reward = float(u_reward < reward)
            at += 1
            chance = proba.item(action)
            row = take_rows(X, slice(at - 1, at))
            changed = learn(policy, row, action, reward, chance)
            check_answer(changed, policy)
            if changed:
                stale = at < stop - start and not block.refresh(at, action)
        size = at if stale else min(2 * size, LARGEST_BLOCK)
        start += at
    return values, policy


def draws(logs):
    """Two uniform numbers per round: one for the action, one for the reward."""
    # They are seeded by the place of the first round in the logs as they were built:
    # the same logs give the same numbers, parts of the logs give other numbers.
    seed = int(logs.row_id.position[0]) % 2**32
    return np.random.RandomState(seed).random_sample((len(logs), 2))


def draw(proba, u):
    """Return the action whose interval of cumulative probabilities holds u."""
    cumulative = proba.cumsum()
    action = int(np.searchsorted(cumulative, u * cumulative[-1], side="right"))
    return min(action, len(proba) - 1)
