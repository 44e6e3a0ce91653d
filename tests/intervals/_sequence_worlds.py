# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Logs of many rounds for confidence sequences, many logs at once."""

import numpy as np

from tests._worlds import W1


def logged_rounds(rng, n_logs, n_rounds, *others):
    """Return weights and rewards, of shape (n_logs, n_rounds), of a small world.

    Weights of other policies, arrays like `W1.pi`, stand between the two.
    """
    world, n_actions = W1, W1.mu.shape[1]
    law = (world.p_context[:, None] * world.mu).ravel()
    cell = rng.choice(len(law), p=law, size=(n_logs, n_rounds))
    x, action = np.divmod(cell, n_actions)
    reward = (rng.random(cell.shape) < world.q[x, action]).astype(float)
    weights = (pi[x, action] / world.mu[x, action] for pi in (world.pi, *others))
    return *weights, reward


def learning_rounds(rng, n_logs, n_rounds, means=(0.5, 0.4), target=1, exponent=0.5):
    """Return the same for a greedy logger whose floor falls, and one fixed action.

    The logger takes the action that paid best so far, and each other action with the
    probability t**-exponent / 2 in round t; weights grow without bound.
    """
    means = np.asarray(means)
    weight = np.empty((n_logs, n_rounds))
    reward = np.empty((n_logs, n_rounds))
    total, count = np.zeros((2, n_logs, len(means)))
    rows = np.arange(n_logs)
    for t in range(n_rounds):
        best = np.argmax((total + 0.5) / (count + 1), axis=1)
        floor = (t + 1.0) ** -exponent / len(means)
        other = rng.random(n_logs) < floor * (len(means) - 1)
        shift = 1 + rng.integers(len(means) - 1, size=n_logs)
        action = np.where(other, (best + shift) % len(means), best)
        p = np.where(action == best, 1 - floor * (len(means) - 1), floor)
        reward[:, t] = rng.random(n_logs) < means[action]
        weight[:, t] = (action == target) / p
        total[rows, action] += reward[:, t]
        count[rows, action] += 1
    return weight, reward


def share_missed_at_most(missed, alpha, n_errors=4):
    """Whether a share of misses is within simulation errors of what is allowed."""
    error = np.sqrt(alpha * (1 - alpha) / len(missed))
    return missed.mean() <= alpha + n_errors * error
