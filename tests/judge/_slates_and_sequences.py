# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Random rounds of slates, and rounds on which policies learn."""

import numpy as np

from skope_ope import SlateLogs
from skope_ope.policies import (
    UCB1,
    EpochGreedy,
    EpsilonGreedy,
    LinUCB,
    UniformPolicy,
    UniformSlatePolicy,
)
from tests.evaluators._reference_worlds import (
    World,
    slates,
    uniform_log,
    unlike_log,
    with_day,
)
from tests.judge._bandit_worlds import fields_of

LOGGERS = ("uniform", "product", "plackett_luce", "empirical")
SLATES = (*LOGGERS, "recorded", "short")
LEARNERS = (
    (EpsilonGreedy(epsilon=0.3), EpsilonGreedy(epsilon=0.6)),
    (UCB1(alpha=0.5), EpsilonGreedy(epsilon=0.2)),
    (LinUCB(alpha=0.7), UniformPolicy()),
    (EpochGreedy(random_state=1), LinUCB()),
)


def slate_world(kind, traits, seed):
    """A world of a kind of SLATES, with rewards of slots other than clicks in some."""
    rng = np.random.RandomState(seed)
    n = rng.randint(60, 130)
    drawn_by = kind if kind in LOGGERS else LOGGERS[0]
    world = short_slates(n, rng) if kind == "short" else slates(n, drawn_by, seed)
    logs, reward = world.logs, world.logs.slot_reward
    if traits["rewards"] not in ("clicks", "heavy", "negative"):
        reward = reward * (64 + rng.randint(0, 256, reward.shape)) / 64
    fields = fields_of(n, traits, rng, "group", "timestamp")
    if kind == "recorded":
        fields["propensity"] = logs.logging_policy.slate_proba(logs, logs.slate)
    else:
        fields["logging_policy"] = logs.logging_policy
    if traits["rewards"] in ("heavy", "negative"):  # of whole slates alone
        sign = -1.0 if traits["rewards"] == "negative" else 1.0
        fields["reward"] = sign * (reward.sum(axis=1) + rng.random_sample(n))
    else:
        fields["slot_reward"] = reward
    fields["n_candidates"] = logs.n_candidates
    rebuilt = SlateLogs(logs.context, logs.slate, **fields)
    world.logs = with_day(rebuilt, best=logs.columns["best"])
    if traits["weights"] == "zeros":  # slates have no weights of their own
        world.sample_weight = rng.random_sample(n) * (rng.random_sample(n) < 0.8)
    world.facts["family"] = "slate"
    world.facts["object"] = UniformSlatePolicy(3)
    return world


def short_slates(n, rng):
    """Three slots for two to five candidates: some stay empty, for the policy all."""
    count = rng.randint(2, 6, n)
    order = np.where(np.arange(5) < count[:, None], rng.random_sample((n, 5)), 2.0)
    shown = order.argsort(axis=1)[:, :3]
    best = np.tile([1, 0, 2], (n, 1))
    for one in (shown, best):
        one[np.arange(3) >= count[:, None]] = -1
    best[::9] = -1
    clicks = (rng.random_sample((n, 3)) < 0.4) * (shown >= 0)
    logs = SlateLogs(
        rng.normal(size=(n, 2)),
        shown,
        n_candidates=count,
        slot_reward=clicks.astype(float),
        logging_policy=UniformSlatePolicy(3),
    )
    return World(with_day(logs, best=best), ("best", UniformSlatePolicy(3)))


def sequence_world(kind, traits, seed):
    """Rounds of a uniform logger or of another; with policies that learn as well."""
    rng = np.random.RandomState(seed)
    n = rng.randint(80, 180)
    world = {"uniform_log": uniform_log, "unlike_log": unlike_log}[kind](n, seed)
    fields = fields_of(n, traits, rng, "timestamp")
    world.logs = world.logs.replace(**fields)
    world.facts["learners"] = LEARNERS[seed % len(LEARNERS)]
    world.facts["family"] = "sequential"
    world.facts["object"] = UniformPolicy()
    return world
