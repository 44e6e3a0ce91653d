# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""
What the examples on intervals share: worlds whose values are known exactly
===========================================================================

A world has a few contexts, all equally likely, so that the value of a policy is a sum
over contexts and actions and needs no simulation. Only in the world of
:func:`~skope_ope.datasets.make_bandit_logs`, whose contexts are normal, it is a mean
over half a million of them.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import permutations
from math import erf, sqrt

import numpy as np
from scipy.special import ndtr
from sklearn.linear_model import LogisticRegression

from skope_ope import (
    IPS,
    SNDR,
    SNIPS,
    BanditLogs,
    DoublyRobust,
    MultiLoggerDR,
    MultiLoggerIPS,
    PropensityEstimator,
    PseudoInverse,
    SlateLogs,
    UniformSlatePolicy,
)
from skope_ope.datasets import make_bandit_logs

STATIC = {
    "IPS": IPS(),
    "SNIPS": SNIPS(),
    "DoublyRobust": DoublyRobust(),
    "SNDR": SNDR(),
}
POOLED = {
    "balanced IPS": MultiLoggerIPS(pooling="balanced"),
    "balanced SNIPS": MultiLoggerIPS(pooling="balanced", self_normalized=True),
    "balanced DR": MultiLoggerDR(pooling="balanced"),
}
SLATES = {"PI": PseudoInverse(), "wPI": PseudoInverse(self_normalized=True)}


def softmax(odds):
    """Rows of probabilities from their logarithms."""
    odds = np.exp(odds - odds.max(axis=1, keepdims=True))
    return odds / odds.sum(axis=1, keepdims=True)


def preferring(best, n_actions):
    """Rows of probabilities of a deterministic policy."""
    return np.eye(n_actions)[best]


def click(rng, mean):
    """Rewards of 0 and 1."""
    return (rng.random_sample(len(mean)) < mean).astype(float)


def graded(rng, mean):
    """Rewards anywhere in [0, 1]."""
    return rng.beta(6 * mean, 6 * (1 - mean))


def signed(rng, mean):
    """Rewards of -1 and 1 in a fifth of the rounds, 0 in the others."""
    draw = rng.random_sample(len(mean))
    return np.where(draw < 0.1 + mean / 2, 1.0, np.where(draw < 0.2, -1.0, 0.0))


def lognormal(rng, mean):
    """Positive rewards whose tail is heavy."""
    return mean * np.exp(1.5 * rng.normal(size=len(mean)) - 1.5**2 / 2)


MOST = 20.0  # of what a capped lognormal reward may be over its median


def capped(rng, mean):
    """Lognormal rewards up to a largest one, as an order has a limit."""
    draw = np.exp(1.5 * rng.normal(size=len(mean)))
    # E min(X, c) = E X P(Z < z - s) + c P(Z > z), with s = 1.5 and z = ln(c) / s
    z = np.log(MOST) / 1.5
    expected = np.exp(1.5**2 / 2) * ndtr(z - 1.5) + MOST * ndtr(-z)
    return mean * np.minimum(draw, MOST) / expected


def pareto(rng, mean):
    """Positive rewards without a third moment."""
    return mean * 0.6 * (1 + rng.pareto(2.5, size=len(mean)))


@dataclass
class World:
    """Contexts and actions; rows of every table are contexts, columns actions."""

    mean: np.ndarray  # mean reward
    logger: np.ndarray  # its probabilities; of every logger, where there are two
    policy: np.ndarray
    other: np.ndarray  # what the policy is compared with
    reward: Callable = click
    reward_range: tuple | None = (0.0, 1.0)
    rounds_per_user: int = 1  # who share a liking of everything
    features: np.ndarray | None = None  # given: propensities are estimated from them
    evaluators: dict = field(default_factory=lambda: STATIC)

    @property
    def truth(self):
        """Exact values of the policy, and of its difference from the other one."""
        value = (self.policy * self.mean).sum(axis=1).mean()
        return value, value - (self.other * self.mean).sum(axis=1).mean()

    def draw(self, n_rounds, rng):
        """Return logs and the probabilities of the policies in their rounds."""
        x = rng.randint(len(self.mean), size=n_rounds)
        several, user, scale = {}, None, 1.0
        if self.rounds_per_user > 1:
            user = np.arange(n_rounds) // self.rounds_per_user
            scale = 3 * rng.beta(1.5, 3, size=user[-1] + 1)[user]
        if self.logger.ndim == 3:
            logger = (rng.random_sample(n_rounds) < 0.7).astype(int)
            proba = self.logger[logger, x]
        else:
            proba = self.logger[x]
        cumulated = proba.cumsum(axis=1)
        cumulated[:, -1] = 1.0
        action = (rng.random_sample((n_rounds, 1)) < cumulated).argmax(axis=1)
        if self.logger.ndim == 3:
            several = {"logger": logger, "logger_proba": self.logger[:, x, action].T}
        elif self.features is None:
            several = {"logging_proba": proba}
        logs = BanditLogs(
            x[:, None].astype(float) if self.features is None else self.features[x],
            action,
            self.reward(rng, scale * self.mean[x, action]),
            None if self.features is not None else proba[np.arange(n_rounds), action],
            actions=range(self.mean.shape[1]),
            group=user,
            reward_range=self.reward_range,
            **several,
        )
        if self.features is not None:
            logs = PropensityEstimator(LogisticRegression()).fit(logs).transform(logs)
        return logs, {"policy": self.policy[x], "other": self.other[x]}


class SlateWorld:
    """Pages of three of six items in uniformly random order; clicks add over slots."""

    evaluators = SLATES
    reward_range = (0.0, 1.0)

    def __init__(self, rate, rng):
        slots = np.arange(3)
        self.pages = np.array(list(permutations(range(6), 3)))
        liking = np.exp(0.7 * rng.normal(size=(12, 3, 6))) * [[1.0], [0.7], [0.4]]
        self.mean = liking[:, slots, self.pages].sum(axis=2)
        self.mean *= rate / self.mean.mean()
        self.best = rng.randint(len(self.pages), size=(2, 12))  # of policy and other

    @property
    def truth(self):
        """Exact values of the policy, and of its difference from the other one."""
        value, other = (self.mean[range(12), best].mean() for best in self.best)
        return value, value - other

    def draw(self, n_rounds, rng):
        """Return logs and the pages that the policies show."""
        x, page = rng.randint(12, size=n_rounds), rng.randint(120, size=n_rounds)
        logs = SlateLogs(
            x[:, None].astype(float),
            self.pages[page],
            click(rng, self.mean[x, page]),
            n_candidates=6,
            logging_policy=UniformSlatePolicy(3),
            reward_range=self.reward_range,
        )
        policy, other = self.pages[self.best[:, x]]
        return logs, {"policy": policy, "other": other}


class NormalWorld:
    """Normal contexts, a softmax logger: weights to 300, where hardly anyone goes.

    The higher its temperature, the smaller the weights.
    """

    evaluators = STATIC
    reward_range = (0.0, 1.0)

    def __init__(self, logging_temperature=1.0):
        self.of_logger = {
            "logging_temperature": logging_temperature,
            "world_random_state": 0,
        }
        values = []
        for temperature in (0.5, np.inf):  # of the policy, and of the uniform one
            draws = [
                make_bandit_logs(
                    1,
                    target_temperature=temperature,
                    random_state=seed,
                    return_truth=True,
                    **self.of_logger,
                )
                for seed in range(4)
            ]
            values.append(np.mean([truth.population_value for _, _, truth in draws]))
            if temperature == 0.5:
                self.policy = draws[0][1]
        self.truth = values[0], values[0] - values[1]

    def draw(self, n_rounds, rng):
        """Return logs and the policies."""
        logs = make_bandit_logs(n_rounds, random_state=rng, **self.of_logger)
        return logs, {"policy": self.policy, "other": np.full((n_rounds, 3), 1 / 3)}


class ThompsonWorld:
    """A logger that learns which of two actions to take; the policy takes the worse.

    It takes each with the probability that its mean is the larger one, by normal laws
    of both means, and never with less than one in twenty. A loop over plain numbers:
    many logs of two actions are drawn ten times faster than by `make_adaptive_logs`.
    """

    evaluators = STATIC
    reward_range = (0.0, 1.0)
    max_weight = 20.0
    mean = np.array([0.5, 0.4])
    truth = 0.4, -0.1

    def draw(self, n_rounds, rng):
        """Return logs, and the policies."""
        least = 1 / self.max_weight
        proba = np.empty(n_rounds)  # of the second action
        pulls, wins = [2, 2], [1, 1]
        first = (rng.random_sample(n_rounds) < self.mean[0]).tolist()
        second = (rng.random_sample(n_rounds) < self.mean[1]).tolist()
        draws = rng.random_sample(n_rounds).tolist()
        action, reward = np.empty(n_rounds, dtype=int), np.empty(n_rounds)
        for i, rewards in enumerate(zip(first, second, strict=True)):
            rates = [win / pull for win, pull in zip(wins, pulls, strict=True)]
            spread = [r * (1 - r) / m for r, m in zip(rates, pulls, strict=True)]
            lead = (rates[1] - rates[0]) / max(sqrt(2 * sum(spread)), 1e-9)
            p = min(max((1 + erf(lead)) / 2, least), 1 - least)
            a = int(draws[i] < p)
            proba[i], action[i], reward[i] = p, a, rewards[a]
            pulls[a] += 1
            wins[a] += rewards[a]
        logging_proba = np.column_stack([1 - proba, proba])
        logs = BanditLogs(
            np.zeros((n_rounds, 1)),
            action,
            reward,
            logging_proba[np.arange(n_rounds), action],
            actions=range(2),
            logging_proba=logging_proba,
            reward_range=self.reward_range,
        )
        worse, better = np.tile(np.eye(2), (n_rounds, 1, 1)).transpose(1, 0, 2)[::-1]
        return logs, {"policy": worse, "other": better}


def clicks_world(rate, rng, n_actions=5, spread=0.5, **options):
    """20 contexts, a logger that explores and a policy of its own mind."""
    shape = 20, n_actions
    mean = np.exp(spread * rng.normal(size=shape))
    return World(
        mean * rate / mean.mean(),
        softmax(0.7 * rng.normal(size=shape)),
        softmax(1.5 * rng.normal(size=shape)),
        softmax(rng.normal(size=shape)),
        **options,
    )


def heavy_world(rng):
    """34 actions, of which the logger explores many rarely: weights to 57."""
    mean = np.exp(0.5 * rng.normal(size=(20, 34)))
    return World(
        0.05 * mean / mean.mean(),
        0.6 / 34 + 0.4 * softmax(2 * rng.normal(size=(20, 34))),
        softmax(2 * rng.normal(size=(20, 34))),
        np.full((20, 34), 1 / 34),
    )


def hidden_world(rng):
    """One context in twenty is the best by far, and rounds that tell weigh 90."""
    mean = rng.uniform(0.05, 0.15, size=(20, 5))
    logger, policy = (softmax(0.5 * rng.normal(size=(20, 5))) for _ in range(2))
    mean[0], logger[0] = 0.8, (0.01, 0.24, 0.25, 0.25, 0.25)
    policy[0] = (0.9, 0.025, 0.025, 0.025, 0.025)
    return World(mean, logger, policy, softmax(rng.normal(size=(20, 5))))


def catalogue_world(rng):
    """300 actions logged uniformly; the policy shows one per context."""
    mean = rng.uniform(0.05, 0.35, size=(20, 300))
    return World(
        mean,
        np.full((20, 300), 1 / 300),
        preferring(mean.argmax(axis=1), 300),
        preferring(rng.randint(300, size=20), 300),
    )


def estimated_world(rng):
    """Propensities that a logistic regression can find."""
    features = 0.6 * rng.normal(size=(6, 2))
    return World(
        rng.uniform(0.05, 0.4, size=(6, 3)),
        softmax(features @ rng.normal(size=(2, 3))),
        softmax(rng.normal(size=(6, 3))),
        softmax(rng.normal(size=(6, 3))),
        features=features,
    )


def pooled_world(rng):
    """Logs of two loggers, three and seven tenths of the rounds."""
    loggers = softmax(rng.normal(size=(20, 4))), softmax(2 * rng.normal(size=(20, 4)))
    return World(
        rng.uniform(0.01, 0.1, size=(20, 4)),
        np.stack(loggers),
        softmax(1.5 * rng.normal(size=(20, 4))),
        softmax(rng.normal(size=(20, 4))),
        evaluators=POOLED,
    )


def dense_world(rng, low=0.3, high=0.7, reward=graded, **options):
    """Two actions, weights between .5 and 1.5; rewards in [0, 1] that all differ."""
    share = rng.uniform(0.25, 0.75, size=(20, 1))
    half = np.full((20, 2), 0.5)
    mean = rng.uniform(low, high, size=(20, 2))
    policy = np.hstack([share, 1 - share])
    return World(mean, half, policy, half, reward=reward, **options)


def mild_world(low, high, rng, contrast=1.0, **options):
    """Four actions, weights of about 1, mean rewards between low and high."""
    return World(
        rng.uniform(low, high, size=(20, 4)),
        softmax(0.7 * rng.normal(size=(20, 4))),
        softmax(contrast * rng.normal(size=(20, 4))),
        softmax(rng.normal(size=(20, 4))),
        **options,
    )


def shares_world(rng):
    """Five actions logged uniformly; the policy always takes the second."""
    return World(
        rng.uniform(0.005, 0.02, size=(20, 5)),
        np.full((20, 5), 0.2),
        np.tile(preferring(1, 5), (20, 1)),
        np.tile(preferring(3, 5), (20, 1)),
    )


def make_worlds():
    """Return all worlds by their names."""
    rng = [np.random.RandomState(seed) for seed in range(15)]
    users = {"n_actions": 3, "spread": 0.3, "rounds_per_user": 5}
    unknown = {"n_actions": 3, "spread": 0.3, "reward_range": None}
    return {
        "clicks .2%": clicks_world(0.002, rng[0]),
        "clicks 1%": clicks_world(0.01, rng[1]),
        "clicks 10%": clicks_world(0.1, rng[2]),
        "clicks 60 to 95%": mild_world(0.6, 0.95, rng[3]),
        "softmax logger, rarely 300": NormalWorld(),
        "34 actions, weights to 57": heavy_world(rng[4]),
        "rare weights of 90": hidden_world(rng[5]),
        "300 actions, one is right": catalogue_world(rng[6]),
        "users of 5 rounds": clicks_world(0.1, rng[7], **users),
        "estimated propensities": estimated_world(rng[8]),
        "two loggers": pooled_world(rng[9]),
        "slates, 3 of 6": SlateWorld(0.05, rng[10]),
        "rewards in [0, 1], small weights": dense_world(rng[11]),
        "rewards -1, 0, 1": mild_world(
            -0.15, 0.15, rng[12], reward=signed, reward_range=(-1.0, 1.0)
        ),
        "lognormal, no range": clicks_world(1.0, rng[13], reward=lognormal, **unknown),
        "Pareto, no range": clicks_world(1.0, rng[14], reward=pareto, **unknown),
    }
