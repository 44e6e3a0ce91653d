# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Worlds small enough to enumerate: exact expectations instead of simulations.

A `World` has finitely many contexts, actions and reward values, so a log of n rounds
is one of ``(n_contexts * n_actions * n_rewards) ** n`` and the expectation of any
statistic is a finite sum: no seeds, no tolerances beyond rounding.
"""

from dataclasses import dataclass
from types import SimpleNamespace

import numpy as np

from skope_ope import BanditLogs
from skope_ope.datasets import make_bandit_logs


@dataclass(frozen=True)
class World:
    """A finite world with Bernoulli rewards, a logger, a target and a model."""

    p_context: np.ndarray  # (n_contexts,)
    mu: np.ndarray  # (n_contexts, n_actions), the logger
    pi: np.ndarray  # (n_contexts, n_actions), the target
    q: np.ndarray  # (n_contexts, n_actions), probability of reward 1
    q_hat: np.ndarray  # (n_contexts, n_actions), a wrong model

    @property
    def value(self):
        """True value of the target."""
        return float(self.p_context @ (self.pi * self.q).sum(axis=1))

    @property
    def efficiency_bound(self):
        """Smallest n * variance of a regular estimator of the value."""
        w = self.pi / self.mu
        noise = self.p_context @ (self.mu * w**2 * self.q * (1 - self.q)).sum(axis=1)
        v = (self.pi * self.q).sum(axis=1)
        return float(noise + self.p_context @ v**2 - (self.p_context @ v) ** 2)


W1 = World(
    p_context=np.array([0.5, 0.5]),
    mu=np.array([[0.5, 0.3, 0.2], [0.2, 0.2, 0.6]]),
    pi=np.array([[0.1, 0.1, 0.8], [0.6, 0.3, 0.1]]),
    q=np.array([[0.2, 0.5, 0.7], [0.8, 0.4, 0.1]]),
    q_hat=np.array([[0.3, 0.4, 0.6], [0.7, 0.5, 0.2]]),
)


def log_of(world, x, action, reward):
    """Arrays of one log of `world` (or of many, stacked on leading axes).

    Returns
    -------
    log : SimpleNamespace
        `x`, `action`, `reward`, `propensity` of shape (..., n), and `mu`, `pi`,
        `q_hat` of shape (..., n, n_actions).
    """
    x, action, reward = (np.asarray(v) for v in (x, action, reward))
    tables = {"mu": world.mu[x], "pi": world.pi[x], "q_hat": world.q_hat[x]}
    drawn = {"reward": reward.astype(float), "propensity": world.mu[x, action]}
    return SimpleNamespace(x=x, action=action, **drawn, **tables)


def d8():
    """Fixed log of eight rounds of `W1`."""
    action, reward = [0, 1, 2, 0, 2, 2, 0, 1], [0, 1, 1, 1, 0, 1, 1, 0]
    return log_of(W1, [0, 0, 0, 0, 1, 1, 1, 1], action, reward)


def bandit_logs(log, **fields):
    """BanditLogs of a log of `log_of`, with its policy and model as columns.

    `fields` replace or add arguments, as `logging_proba=log.mu`.
    """
    arguments = {
        "context": log.x[:, None],
        "action": log.action,
        "reward": log.reward,
        "propensity": log.propensity,
        "actions": np.arange(log.pi.shape[1]),
        **fields,
    }
    return BanditLogs(**arguments).with_columns(pi=log.pi, q_hat=log.q_hat)


def d8_logs(**fields):
    """The fixed log of eight rounds as BanditLogs, see `bandit_logs`."""
    return bandit_logs(d8(), **fields)


# Four rounds for sums by hand: the weights of the policy are 2, 1, 1/2 and 0.
FOUR_LOGS = BanditLogs(
    np.zeros((4, 1)), [0, 1, 0, 1], [3, -1, 4, 7], [0.4, 0.5, 0.8, 1.0]
)
FOUR_PI = np.array([[0.8, 0.2], [0.5, 0.5], [0.4, 0.6], [1.0, 0.0]])
FOUR_Q = np.array([[1.0, 2], [0, 0], [5, 1], [2, 9]])
for _table in (FOUR_PI, FOUR_Q):
    _table.flags.writeable = False


def uniform_logs(n_rounds, seed=0, **params):
    """Synthetic logs of a uniform logger, as replay wants them."""
    params = {"logging_temperature": np.inf, "random_state": seed, **params}
    return make_bandit_logs(n_rounds, **params)


def enumerate_logs(world, n_rounds):
    """All logs of `n_rounds` rounds with their probabilities.

    Returns
    -------
    probability : ndarray of shape (n_logs,)
        They sum to one.
    logs : SimpleNamespace
        As `log_of`, with `n_logs` on the leading axis.
    """
    n_contexts, n_actions = world.mu.shape
    x, a, r = (v.ravel() for v in np.indices((n_contexts, n_actions, 2)))
    p_reward = np.where(r == 1, world.q[x, a], 1 - world.q[x, a])
    p_round = world.p_context[x] * world.mu[x, a] * p_reward
    rounds = np.indices((len(x),) * n_rounds).reshape(n_rounds, -1).T
    probability = p_round[rounds].prod(axis=1)
    return probability, log_of(world, x[rounds], a[rounds], r[rounds])


def one_log(logs, i):
    """Log number i of what `enumerate_logs` gave."""
    return SimpleNamespace(**{name: field[i] for name, field in vars(logs).items()})


def exact_moments(world, n_rounds, statistic):
    """Exact mean and variance of ``statistic(log)``, one number or some, over all logs.

    `statistic` is called with one log after the other; logs of probability 0 are
    left out.
    """
    probability, logs = enumerate_logs(world, n_rounds)
    rows = np.flatnonzero(probability > 0)
    values = np.array([statistic(one_log(logs, i)) for i in rows])
    mean = probability[rows] @ values
    return mean, probability[rows] @ (values - mean) ** 2


def as_lists(log):
    """Arguments ``(pi, a, r, p, q)`` of the loops of `tests._loops`."""
    fields = (log.pi, log.action, log.reward, log.propensity, log.q_hat)
    return tuple(field.tolist() for field in fields)
