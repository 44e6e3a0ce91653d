# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Sample weights that are probabilities of being kept, where their inverses belong."""

import numpy as np

from skope_ope.exceptions import LogsWarning
from skope_ope.logs._shown_numbers import figure
from skope_ope.logs._validation import plain
from skope_ope.logs.checks._finding import Finding

KEPT_SHARE = "kept_share_as_weight"
FEWEST_OF_KIND = 20  # rounds with, and without a reward
ACTIONS_TRIED = 20  # the most frequent ones
SKEWED, SKEWED_Z = 0.1, 5.0  # of the mean of 1/p over an action, under the weights
NEAR_Z = 4.0  # and under their inverses
KEPT_SHARE_ADVICE = (
    "They are probabilities of being kept: pass their inverses, 1 / sample_weight, so "
    "that a round that was kept with .1 counts 10 times.",
    "They are right, but were divided by the largest: divide by the smallest instead, "
    "which changes no estimate.",
)


def kept_share_finding(logs, inverse=None):
    """Return a finding where weights of at most 1 would be right if inverted."""
    # Inverses of probabilities are at least 1. Weights that are the same in all rounds
    # say nothing.
    weight = logs.sample_weight
    if weight is None or weight.max() > 1 or weight.min() == weight.max():
        return None
    told = _kept_by_reward(logs.reward, weight)
    if told is None and inverse is not None:
        told = _kept_by_action(logs, inverse)
    if told is None:
        return None
    found, about = told
    about |= {"category": LogsWarning}
    return Finding(KEPT_SHARE, "error", found, KEPT_SHARE_ADVICE, **about)


def _kept_by_reward(reward, weight):
    """Tell whether rewards have one weight, and the others a smaller one."""
    # rewards are those that are not zero; of two kinds of rewards, the greater ones
    least, most = reward.min(), reward.max()
    two = ((reward == least) | (reward == most)).all()
    rewarded, name = reward != 0, "a reward"
    if two and least != 0:
        rewarded, name = reward == most, f"the reward {figure(float(most))}"
    kinds = [weight[(weight > 0) & some] for some in (rewarded, ~rewarded)]
    if min(map(len, kinds)) < FEWEST_OF_KIND or max(map(np.ptp, kinds)) > 1e-9:
        return None
    high, low = (float(one[0]) for one in kinds)
    if not high > low + 1e-9:
        return None
    found = (
        f"sample_weight is {figure(high, 3)} in all rounds with {name} and "
        f"{figure(low, 3)} in all others. As a rule the others are dropped, and those "
        "that are left then have the larger weight."
    )
    return found, {"number": high / low, "effect": high / low - 1}


def _kept_by_action(logs, inverse):
    """Tell whether an action counts too much, but not under the inverse weights."""
    counts = inverse.counts
    tried = np.argsort(-counts, kind="stable")[:ACTIONS_TRIED]
    tried = tried[counts[tried] >= FEWEST_OF_KIND]
    if not len(tried):
        return None
    excess, z = np.array([_excess(inverse, k, inverse.share) for k in tried]).T
    worst = int(z.argmax())
    if not (z[worst] > SKEWED_Z and excess[worst] > SKEWED):
        return None
    if max(_excess(inverse, k, 1 / inverse.share)[1] for k in tried) >= NEAR_Z:
        return None
    label = plain(logs.actions[tried[worst]])
    found = (
        f"sample_weight is at most 1, and under it action {label!r} counts "
        f"{figure(1 + excess[worst], 3)} times as much as its propensities predict "
        f"({z[worst]:,.1f} standard errors), under 1 / sample_weight as they do."
    )
    about = {"number": float(z[worst]), "effect": float(excess[worst])}
    return found, about | {"actions": (label,)}


def _excess(inverse, action, weight):
    """Return the mean of 1/p over an action, less one, and its standard errors."""
    offered = 1.0 if inverse.available is None else inverse.available[:, action]
    largest = inverse.p + inverse.half_step  # that a rounded one may stand for
    gap = weight * ((inverse.action == action) / largest - offered)
    total = (weight * offered).sum()
    excess = float(gap.sum() / total) if total > 0 else 0.0
    if inverse.group is not None:
        gap = np.bincount(inverse.group, gap)[np.bincount(inverse.group) > 0]
    error = float(gap.std() * np.sqrt(len(gap)))
    return excess, float(gap.sum() / error) if error > 0 else 0.0
