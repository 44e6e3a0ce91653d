# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Logs of a handful of rounds, and a world of two contexts to be enumerated."""

import warnings
from itertools import product

import numpy as np

from skope_ope import BanditLogs, SlateLogs

S6_X = np.array([0, 1, 0, 1, 1, 0])
SL4_ATTENTION = (1.0, 0.613387, 0.527310, 0.432521)
SL4_SLATES = np.array([[0, 1, 2, 3], [1, 0, 3, 2], [2, 3, 0, 1], [3, 2, 1, 0]])
SL4_CLICKS = np.array([[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 1], [1, 0, 0, 1]])


class Marginals:
    """A slate policy as far as its marginals."""

    def __init__(self, proba):
        self.proba = np.asarray(proba, dtype=float)

    def slot_marginals(self, logs):
        return self.proba


def caught(function):
    """Return a result, and the numbers of its warnings by category."""
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        result = function()
    return result, {w.category: w.message.value for w in found}


def s6(**fields):
    """Six rounds whose target h(x) = x is worth 4/3 by scavenging."""
    given = {"action": [0, 1, 1, 0, 1, 0], "reward": [1, 1, 0, 0, 1, 1], **fields}
    return BanditLogs(**{"context": S6_X[:, None], **given})


def sl4(**fields):
    """Four pages of four slots."""
    given = {"slate": SL4_SLATES, "slot_reward": SL4_CLICKS, **fields}
    return SlateLogs(context=np.zeros((4, 1)), reward=None, **given)


def enumerate_rounds(arms, reward_probability):
    """Yield (probability, x, reward) of all logs with given arms.

    There are two contexts, each with probability one half, and rewards 0 and 1 with
    `reward_probability(x, arm)` of 1.
    """
    arms = np.asarray(arms)
    n = len(arms)
    for x in product((0, 1), repeat=n):
        x = np.array(x)
        q = reward_probability(x, arms)
        for reward in product((0, 1), repeat=n):
            reward = np.array(reward, dtype=float)
            chance = np.where(reward == 1, q, 1 - q).prod() / 2**n
            yield chance, x, reward


def pages_of_two_visitors(n_pages, random_state):
    """Pages composed for the visitor, and what the slate (0, 1, 2) is worth.

    The click rates of the items, which depend on the visitor, are what the logger
    looked at; the attention is 1, 1/2, 1/4.
    """
    rng = np.random.RandomState(random_state)
    attention, x = np.array([1, 0.5, 0.25]), rng.randint(2, size=n_pages)
    rate = np.where(x[:, None], np.linspace(0.1, 0.6, 6), np.linspace(0.6, 0.1, 6))
    slate = np.argsort(-(6 * rate + rng.gumbel(size=rate.shape)), axis=1)[:, :3]
    chance = attention * np.take_along_axis(rate, slate, axis=1)
    clicks = (rng.random_sample(chance.shape) < chance).astype(float)
    context = x[:, None].astype(float)
    logs = SlateLogs(context, slate, None, slot_reward=clicks).with_columns(x=x)
    return logs, float((attention * (rate[:, :3])).sum(axis=1).mean())


def biased_pages(n_pages, attention, quality, random_state, tilt=1.0):
    """Pages on which better items are likelier in the first slots (`tilt` > 0).

    Clicks follow the factoring assumption exactly.
    """
    rng = np.random.RandomState(random_state)
    score = tilt * np.log(quality) + rng.gumbel(size=(n_pages, len(quality)))
    slate = np.argsort(-score, axis=1)[:, : len(attention)]
    clicks = rng.random_sample(slate.shape) < np.asarray(attention) * quality[slate]
    about = {"n_candidates": len(quality), "slot_reward": clicks.astype(float)}
    return SlateLogs(np.zeros((n_pages, 1)), slate, None, **about)
