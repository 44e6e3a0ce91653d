# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Evaluators of a user's own, each with its formula written out once more.

They know the public protocol alone. The second formula is numpy on whole arrays: a
line for the value, a line for what every round adds to it.
"""

from dataclasses import dataclass, replace

import numpy as np

from skope_ope.base import (
    WEIGHT,
    Requires,
    StaticEvaluator,
    mean_plus_ratio,
    sum_of_two,
)


@dataclass
class Arrays:
    """All rounds of a log at once: weights, probabilities, rewards and predictions."""

    w: np.ndarray
    pi: np.ndarray
    r: np.ndarray
    q: np.ndarray | None = None
    v: np.ndarray | None = None
    omega: np.ndarray | None = None
    group: np.ndarray | None = None

    def mean(self, x):
        """The mean over rounds, each as often as it counts."""
        return np.average(np.broadcast_to(x, self.r.shape), weights=self.omega)

    def rows(self, some):
        """The same of some rounds."""
        given = {name: one for name, one in vars(self).items() if one is not None}
        return replace(self, **{name: one[some] for name, one in given.items()})

    def spread(self, value, rounds):
        """The value, and its standard error: how rounds, or groups, spread."""
        omega = np.ones(len(self.r)) if self.omega is None else self.omega
        added = omega * (rounds - value) / omega.sum()
        unit = np.arange(len(added)) if self.group is None else self.group
        code = np.unique(unit[omega > 0], return_inverse=True)[1]
        sums = np.bincount(code, added[omega > 0])
        return value, np.sqrt(len(sums) / (len(sums) - 1) * (sums @ sums))


def of_means(a, x):
    return a.mean(x), x


def of_ratio(a, x, d):
    value = a.mean(x) / a.mean(d)
    return value, value + (x - value * d) / a.mean(d)


def of_mean_and_ratio(a, v, x, d):
    value, rounds = of_ratio(a, x, d)
    return a.mean(v) + value, v + rounds


def own_ratio(m):
    return m[0] / m[1], (1 / m[1], -m[0] / m[1] ** 2)


# -- weights alone ---------------------------------------------------------------------
class LogIPS(StaticEvaluator):
    """IPS with weights whose logarithm is taken, by a parameter; at 0 it is IPS."""

    def __init__(self, *, scale=0.5):
        self.scale = scale

    @property
    def leaves_bias_out(self):
        return self.scale != 0 and "the bias of smaller weights"

    def weights(self, w):
        return np.log1p(self.scale * w) / self.scale if self.scale else w

    def terms(self, rounds):
        return (self.weights(rounds.w) * rounds.r,)

    def plain(self, a):
        w = np.log1p(self.scale * a.w) / self.scale if self.scale else a.w
        return of_means(a, w * a.r)


class SquareRoot(StaticEvaluator):
    """Rewards by a power of the weights, which no database computes."""

    def weights(self, w):
        return w**0.5

    def terms(self, rounds):
        return (self.weights(rounds.w) * rounds.r,)

    def plain(self, a):
        return of_means(a, np.sqrt(a.w) * a.r)


class OftenTaken(StaticEvaluator):
    """Value of rounds with actions that the policy often takes, less what is usual."""

    def terms(self, rounds):
        often = (rounds.pi > 0.3) & (rounds.w < 4)
        return (np.where(often, rounds.gain * (1 - rounds.pi), 0.5 * rounds.r),)

    def plain(self, a):
        often = (a.pi > 0.3) & (a.w < 4)
        return of_means(a, np.where(often, a.w * a.r * (1 - a.pi), 0.5 * a.r))


# -- ratios of weights -----------------------------------------------------------------
class OverlapIPS(StaticEvaluator):
    """Rewards by how much policy and logger overlap, w / (1 + w)."""

    leaves_bias_out = "rounds without overlap count less"
    combine, shift_with = staticmethod(own_ratio), 1

    def weights(self, w):
        return w / (1 + w)

    def terms(self, rounds):
        h = self.weights(rounds.w)
        return h * rounds.r, h

    def plain(self, a):
        h = a.w / (1 + a.w)
        return of_ratio(a, h * a.r, h)


class LikelyReward(StaticEvaluator):
    """Mean reward by the policy's probability of what was done; no propensities."""

    requires = Requires(weights=False)
    combine, shift_with = staticmethod(own_ratio), 1

    def terms(self, rounds):
        return rounds.pi * rounds.r, rounds.pi

    def plain(self, a):
        return of_ratio(a, a.pi * a.r, a.pi)


class SpreadOfWeights(StaticEvaluator):
    """The mean square of the weights over the square of their mean: no reward."""

    smooth, estimates_rewards = (0, 1), False

    @staticmethod
    def combine(m):
        return m[0] / m[1] ** 2, (1 / m[1] ** 2, -2 * m[0] / m[1] ** 3)

    def terms(self, rounds):
        return rounds.w * rounds.w, rounds.w

    def plain(self, a):
        m = a.mean(a.w)
        value = a.mean(a.w**2) / m**2
        return value, value + (a.w**2 - 2 * value * m * a.w + value * m**2) / m**2


# -- a model ---------------------------------------------------------------------------
class OfModel(StaticEvaluator):
    """The parameters that a model needs."""

    requires = Requires(model=True)
    smooth = (0,)

    def __init__(self, *, reward_model=None, cv=5):
        self.reward_model = reward_model
        self.cv = cv


class ModelGain(OfModel):
    """What the model says that the policy gains over the logged actions."""

    requires = Requires(weights=False, model=True)
    leaves_bias_out, estimates_rewards = "the error of the reward model", False

    def terms(self, rounds):
        return (rounds.v - rounds.q,)

    def plain(self, a):
        return of_means(a, a.v - a.q)


class MixedModel(OfModel):
    """The model value, and the logged rewards where the policy takes the action."""

    requires = Requires(weights=False, model=True)
    combine, shift_with = staticmethod(sum_of_two), WEIGHT

    def terms(self, rounds):
        return rounds.v, rounds.pi * rounds.residual

    def plain(self, a):
        return of_means(a, a.v + a.pi * (a.r - a.q))


class CappedDR(OfModel):
    """Doubly robust with weights of at most a number."""

    combine, shift_with = staticmethod(sum_of_two), WEIGHT
    leaves_bias_out = "the bias of capped weights"

    def __init__(self, *, cap=2.0, reward_model=None, cv=5):
        super().__init__(reward_model=reward_model, cv=cv)
        self.cap = cap

    def weights(self, w):
        return np.minimum(w, self.cap)

    def terms(self, rounds):
        return rounds.v, self.weights(rounds.w) * rounds.residual

    def plain(self, a):
        return of_means(a, a.v + np.minimum(a.w, self.cap) * (a.r - a.q))


class RatioDR(OfModel):
    """Doubly robust with a self-normalised correction."""

    combine, shift_with = staticmethod(mean_plus_ratio), WEIGHT

    def terms(self, rounds):
        return rounds.v, rounds.correction, rounds.w

    def plain(self, a):
        return of_mean_and_ratio(a, a.v, a.w * (a.r - a.q), a.w)
