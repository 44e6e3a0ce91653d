# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Logs of bandit algorithms, whose probabilities follow what they have seen."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral, Real
from typing import Literal

import numpy as np
from scipy.special import ndtr
from sklearn.utils import Bunch, check_random_state

from skope_ope._sklearn import Interval, StrOptions, validate_params
from skope_ope._types import ArrayLike, RandomSeed
from skope_ope.logs import BanditLogs
from skope_ope.logs._validation import as_numbers

NODES, NODE_WEIGHTS = np.polynomial.hermite_e.hermegauss(24)
NODE_WEIGHTS = NODE_WEIGHTS / NODE_WEIGHTS.sum()


@validate_params(
    {
        "n_rounds": [Interval(Integral, 1, None, closed="left")],
        "means": ["array-like"],
        "logger": [StrOptions({"thompson", "epsilon_greedy"})],
        "floor_decay": [Interval(Real, 0, None, closed="left")],
        "update_every": [Interval(Integral, 1, None, closed="left")],
        "reward": [StrOptions({"binary", "continuous"})],
        "noise": [Interval(Real, 0, None, closed="neither")],
        "random_state": ["random_state"],
        "return_truth": ["boolean"],
    },
    prefer_skip_nested_validation=True,
)
def make_adaptive_logs(
    n_rounds: int = 1000,
    *,
    means: ArrayLike = (0.5, 0.5),
    logger: Literal["thompson", "epsilon_greedy"] = "thompson",
    floor_decay: float = 0.5,
    update_every: int = 1,
    reward: Literal["binary", "continuous"] = "binary",
    noise: float = 1.0,
    random_state: RandomSeed = None,
    return_truth: bool = False,
) -> tuple[BanditLogs, Bunch]:
    r"""Generate the log of a bandit algorithm that learns while it acts.

    Every context is a segment of users, in which the algorithm learns separately. Its
    probabilities are recorded. With K actions and the exponent a, every action has at
    least the probability :math:`t^{-a} / K` in round t, the floor. The mean reward of
    an action in such a log is biased downwards: actions with low early rewards are
    tried less often. Read more in the :ref:`User Guide <adaptive_logs>`.

    Parameters
    ----------
    n_rounds : int, default=1000
        Number of logged rounds.
    means : array-like of shape ([n_contexts,] n_actions), default=(0.5, 0.5)
        Expected reward of every action, with one row per context. All contexts are
        equally likely. With a single row, the logger ignores the context.
    logger : {"thompson", "epsilon_greedy"}, default="thompson"
        Thompson sampling with normal posteriors, or the action with the best mean. An
        action without a round has the prior mean: one half for binary rewards, zero
        for continuous ones.
    floor_decay : float, default=0.5
        The exponent a of the floor. With 0 the logger is uniform.
    update_every : int, default=1
        Number of rounds between updates of the algorithm. 1 updates after every round,
        `n_rounds` never.
    reward : {"binary", "continuous"}, default="binary"
        Rewards 0/1, or the mean plus normal noise.
    noise : float, default=1.0
        Standard deviation of the noise of continuous rewards.
    random_state : int, RandomState instance or None, default=None
        Seed of contexts, actions and rewards.
    return_truth : bool, default=False
        Also return the true values.

    Returns
    -------
    logs : BanditLogs
        With `propensity`, `logging_proba`, and the number of the round as
        `timestamp`; the context is the number of the segment. `reward_range` is
        (0, 1) for binary rewards.
    truth : Bunch
        Only if `return_truth`.

        action_values : ndarray of shape (n_actions,)
            Value of always taking this action.
        expected_rewards : ndarray of shape (n_rounds, n_actions)
            Expected reward of every action in every round.
        logger : callable
            ``logger(t, X)``, the probabilities of the logger in round t (from 0) at
            contexts X, as `AdaptiveDR` takes them.

    Notes
    -----
    An action has n rounds, and S is the sum of their rewards. The posterior of its mean
    is normal with mean :math:`(S + m_0) / (n + 1)` and standard deviation
    :math:`\sigma / \sqrt{n + 1}`; the prior mean :math:`m_0` and :math:`\sigma` are
    both 1/2 for binary rewards, and 0 and `noise` for continuous ones. The probability
    that an action is the best is computed by Gauss-Hermite quadrature.

    Examples
    --------
    >>> from skope_ope.datasets import make_adaptive_logs
    >>> logs, truth = make_adaptive_logs(
    ...     means=[0.5, 0.4], random_state=0, return_truth=True
    ... )
    >>> logs
    BanditLogs(n_rounds=1000, n_features=1, n_actions=2)
    >>> truth.action_values
    array([0.5, 0.4])
    >>> [int((logs.action == arm).sum()) for arm in logs.actions]
    [677, 323]
    """
    world = AdaptiveWorld(means, logger, floor_decay, update_every, reward, noise)
    rng = check_random_state(random_state)
    histories = simulate_histories(world, 1, n_rounds, rng)
    segment, action = histories.segment[0], histories.action[0]
    rounds = np.arange(n_rounds)
    proba = histories.proba[0, rounds, segment]
    logs = BanditLogs(
        segment[:, None].astype(float),
        action,
        histories.reward[0],
        proba[rounds, action],
        actions=np.arange(world.n_actions),
        logging_proba=proba,
        timestamp=rounds,
        reward_range=(0.0, 1.0) if reward == "binary" else None,
    )
    if not return_truth:
        return logs
    return logs, Bunch(
        action_values=world.means.mean(axis=0),
        expected_rewards=world.means[segment],
        logger=RecordedLogger(histories.proba[0]),
    )


class AdaptiveWorld:
    """Segments with mean rewards, and an algorithm that learns them."""

    def __init__(self, means, logger, floor_decay, update_every, reward, noise=1.0):
        means = np.asarray(means, dtype=float)
        self.means = as_numbers("means", np.atleast_2d(means), 2)
        self.binary = reward == "binary"
        if self.binary and not ((self.means >= 0) & (self.means <= 1)).all():
            raise ValueError(
                "means of binary rewards are probabilities, got "
                f"{self.means.min():.6g} to {self.means.max():.6g}. Use "
                "reward='continuous' for others."
            )
        self.floor_decay, self.update_every = floor_decay, update_every
        self.noise = 0.5 if self.binary else noise
        self.prior = 0.5 if self.binary else 0.0
        self.prefer = {"thompson": self._thompson, "epsilon_greedy": _greedy}[logger]

    @property
    def n_segments(self):
        """Number of contexts."""
        return self.means.shape[0]

    @property
    def n_actions(self):
        """Number of actions."""
        return self.means.shape[1]

    def proba(self, t, total, count):
        """Return the probabilities in round t (from 1), with the floor."""
        best = self.prefer((total + self.prior) / (count + 1), count)
        floor = t**-self.floor_decay / self.n_actions
        return floor + (1 - self.n_actions * floor) * best

    def _thompson(self, mean, count):
        """Return the probability of every action that its mean is the largest."""
        sd = self.noise / np.sqrt(count + 1)
        value = mean[..., None] + sd[..., None] * NODES  # of the action at the nodes
        above = np.ones_like(value)
        for other in range(self.n_actions):
            z = (value - mean[..., other, None, None]) / sd[..., other, None, None]
            z[..., other, :] = np.inf  # it need not be above itself
            above *= ndtr(z)
        best = above @ NODE_WEIGHTS
        return best / best.sum(axis=-1, keepdims=True)


def _greedy(mean, count):
    """Return probability one for the action with the largest mean, ties divided."""
    best = mean == mean.max(axis=-1, keepdims=True)
    return best / best.sum(axis=-1, keepdims=True)


@dataclass(frozen=True)
class Histories:
    """Many logs of the same algorithm, an array with a row for each."""

    segment: np.ndarray  # (n_logs, n_rounds)
    action: np.ndarray  # (n_logs, n_rounds)
    reward: np.ndarray  # (n_logs, n_rounds)
    proba: np.ndarray  # (n_logs, n_rounds, n_segments, n_actions), of all segments


def simulate_histories(world, n_logs, n_rounds, rng):
    """Let the algorithm act in many worlds at once."""
    S, K = world.means.shape
    logs = np.arange(n_logs)
    segment = rng.randint(S, size=(n_rounds, n_logs))
    uniform = rng.random_sample((n_rounds, n_logs))
    luck = (
        rng.random_sample((n_rounds, n_logs))
        if world.binary
        else world.noise * rng.standard_normal((n_rounds, n_logs))
    )
    total, count = np.zeros((2, n_logs, S, K))
    seen = total.copy(), count.copy()  # at the last update
    action = np.empty((n_rounds, n_logs), dtype=np.intp)
    reward = np.empty((n_rounds, n_logs))
    proba = np.empty((n_rounds, n_logs, S, K))
    for t in range(n_rounds):
        if t % world.update_every == 0:
            seen = total.copy(), count.copy()
        proba[t] = world.proba(t + 1, *seen)
        below = np.cumsum(proba[t, logs, segment[t]], axis=1)
        action[t] = (below[:, :-1] <= uniform[t][:, None] * below[:, -1:]).sum(axis=1)
        mean = world.means[segment[t], action[t]]
        reward[t] = luck[t] < mean if world.binary else mean + luck[t]
        total[logs, segment[t], action[t]] += reward[t]
        count[logs, segment[t], action[t]] += 1
    return Histories(segment.T, action.T, reward.T, proba.swapaxes(0, 1))


class RecordedLogger:
    """The probabilities that an algorithm had in every round, in every segment."""

    def __init__(self, proba):
        self.proba = proba

    def __call__(self, t, X):
        """Return the probabilities of round t (from 0) at contexts X."""
        return self.proba[t, np.asarray(X)[:, 0].astype(int)]
