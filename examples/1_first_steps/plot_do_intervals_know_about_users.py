# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
# sphinx_gallery_thumbnail_number = -1
"""
Do the intervals know about users? Coverage where rounds come in groups
=======================================================================

One user makes many rounds, and they are alike: some users click often, others rarely.
Five thousand rounds of two hundred users say less than five thousand rounds of
different users. An interval that ignores this is too narrow. This script draws logs of
users and counts how often 95% intervals cover the truth, with ``group=user`` in the
logs and without.

``--repetitions 1000`` gives the table of the guide's page on intervals.
"""

import argparse
import warnings
from dataclasses import dataclass

import matplotlib.pyplot as plt
import numpy as np
from joblib import Parallel, delayed

from skope_ope import (
    IPS,
    SNIPS,
    BanditLogs,
    DoublyRobust,
    MultiLoggerIPS,
    evaluate,
)
from skope_ope.exceptions import OPEWarning

parser = argparse.ArgumentParser(allow_abbrev=False)
parser.add_argument("--repetitions", type=int, default=100)
parser.add_argument("--n-jobs", type=int, default=2)
args = parser.parse_known_args()[0]

# %%
# Worlds of users
# ---------------
#
# A user has a mean context, a general click rate and a preference for each action. The
# policies and the loggers use the context of the round. Users are drawn anew in every
# log, because an interval is about the value in the whole population.

N_ACTIONS = 3
BASE = np.array([0.3, 0.5, 0.7])  # mean rewards in the context 0
SLOPE = np.array([-0.1, 0.0, 0.1])  # and what a context adds to them
OF_A_USER, OF_AN_ACTION, NOISE = 0.2, 0.15, 0.3  # standard deviations
LOGGERS = [np.array([0.3, 0.0, -0.3]), np.array([-0.5, 0.2, 0.3])]
POLICIES = {"first": np.array([-0.6, 0.0, 0.6]), "second": np.array([0.4, 0.0, -0.4])}


def probabilities(preference, x):
    """Softmax of preferences that grow with the context, (n_rounds, n_actions)."""
    odds = np.exp(preference + 0.5 * np.outer(x, preference))
    return odds / odds.sum(axis=1, keepdims=True)


def true_value(preference):
    """Mean reward over contexts, which are standard normal, by quadrature."""
    x, weight = np.polynomial.hermite_e.hermegauss(60)
    rewards = BASE + np.outer(x, SLOPE)
    return weight @ (probabilities(preference, x) * rewards).sum(axis=1) / weight.sum()


TRUTH = {name: true_value(preference) for name, preference in POLICIES.items()}
TRUTH["first - second"] = TRUTH["first"] - TRUTH["second"]


@dataclass
class World:
    """How many rounds every user makes, and which loggers users meet."""

    sizes: np.ndarray
    loggers: str | None = None  # "crossing": any in every round; "nested": one only


# Few users make most of the rounds: the effective number of groups falls with that.
unequal = np.ceil(12 * np.random.RandomState(0).lognormal(0.0, 0.9, 200)).astype(int)
WORLDS = {
    "200 users of 25 rounds": World(np.full(200, 25)),
    "100 users of 20 rounds": World(np.full(100, 20)),
    "200 unequal users": World(unequal),
    "users cross loggers": World(np.full(200, 25), "crossing"),
    "users keep a logger": World(np.full(200, 25), "nested"),
}
STATIC = {
    "IPS": IPS(),
    "SNIPS": SNIPS(),
    "DoublyRobust": DoublyRobust(reward_model=0.5),
}
POOLED = {pooling: MultiLoggerIPS(pooling=pooling) for pooling in ("naive", "balanced")}


def draw_logs(world, rng):
    """Draw users and their rounds; return the logs and the policies' probabilities."""
    user = np.repeat(np.arange(len(world.sizes)), world.sizes)
    n_rounds, rows = len(user), np.arange(len(user))
    x = 0.6 * rng.normal(size=len(world.sizes))[user] + 0.8 * rng.normal(size=n_rounds)
    liking = OF_A_USER * rng.normal(size=(len(world.sizes), 1))
    liking = liking + OF_AN_ACTION * rng.normal(size=(len(world.sizes), N_ACTIONS))
    mu = np.stack([probabilities(preference, x) for preference in LOGGERS])
    if world.loggers == "crossing":
        logger = rng.randint(2, size=n_rounds)
    elif world.loggers == "nested":
        logger = user % 2
    else:
        logger = np.zeros(n_rounds, dtype=int)
    cumulated = mu[logger, rows].cumsum(axis=1)
    cumulated[:, -1] = 1.0
    action = (rng.random_sample((n_rounds, 1)) < cumulated).argmax(axis=1)
    mean = BASE[action] + SLOPE[action] * x + liking[user, action]
    several = {}
    if world.loggers is not None:
        several = {"logger": logger, "logger_proba": mu[:, rows, action].T}
    logs = BanditLogs(
        x[:, None],
        action,
        mean + NOISE * rng.normal(size=n_rounds),
        mu[logger, rows, action],
        actions=range(N_ACTIONS),
        group=user,
        **several,
    )
    return logs, {name: probabilities(p, x) for name, p in POLICIES.items()}


def repeat(name, seed):
    """Draw one log; what every value says, with groups and without.

    Whether its interval covers the truth, the value and its standard error.
    """
    world = WORLDS[name]
    logs, policies = draw_logs(world, np.random.RandomState(seed))
    evaluators = STATIC if world.loggers is None else POOLED
    told = []
    for one in (logs, logs.replace(group=None)):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", OPEWarning)
            table = evaluate(policies, one, evaluators=evaluators)
            for evaluator in evaluators:
                values = {policy: table[policy, evaluator] for policy in policies}
                values["first - second"] = values["first"] - values["second"]
                for target in ("first", "first - second"):
                    value = values[target]
                    low, high = value.confidence_interval(method="student")
                    covers = low <= TRUTH[target] <= high
                    told.append([covers, value.value, value.standard_error])
    return np.reshape(told, (2, len(evaluators), 2, 3))


# %%
# With groups and without
# -----------------------
#
# The tables show the value of a policy, and the paired difference of two policies. The
# column s.e. is the mean standard error, with groups, over the standard deviation of
# the estimates. An interval that is too wide covers, too, but then this number is above
# one.

coverage, ratios = {}, []
with Parallel(n_jobs=args.n_jobs) as parallel:
    for name, world in WORLDS.items():
        drawn = parallel(
            delayed(repeat)(name, seed) for seed in range(args.repetitions)
        )
        covers, values, errors = np.moveaxis(drawn, -1, 0)
        grouped, strangers = covers.mean(axis=0)
        ratio = (errors.mean(axis=0) / values.std(axis=0, ddof=1))[0]
        ratios.append(ratio.ravel())
        effective = world.sizes.sum() ** 2 / (world.sizes**2).sum()
        print(
            f"\n{name}: {world.sizes.sum():,} rounds, {effective:.0f} effective users"
        )
        heads = "value", "no group", "s.e.", "paired", "no group", "s.e."
        print(" " * 16 + "".join(f"{head:>10}" for head in heads))
        evaluators = STATIC if world.loggers is None else POOLED
        for k, evaluator in enumerate(evaluators):
            cells = np.stack([grouped[k], strangers[k], ratio[k]], axis=1).ravel()
            print(f"  {evaluator:14}" + "".join(f"{cell:10.3f}" for cell in cells))
            coverage[name, evaluator] = grouped[k], strangers[k]

error = np.sqrt(0.95 * 0.05 / args.repetitions)
print("\nno group: the same intervals without group=user in the logs")
print(f"standard error of a coverage of 0.95: {error:.4f}")

# %%
# Coverage of the value (left) and of the difference (right), with groups (filled) and
# without (open). The grey band is .93 to .97 with four standard errors of the
# simulation.

low, high = 0.93 - 4 * error, min(0.97 + 4 * error, 1.0)
figure, axes = plt.subplots(1, 2, figsize=(11, 5), sharey=True, layout="constrained")
height = np.arange(len(coverage))
for k, (ax, title) in enumerate(zip(axes, ("value", "difference"), strict=True)):
    ax.axvspan(low, high, color="0.9")
    for j, (label, fill) in enumerate((("group=user", "full"), ("no group", "none"))):
        shares = [found[j][k] for found in coverage.values()]
        ax.plot(shares, height, "o", fillstyle=fill, label=label)
    ax.set(title=title, xlabel="coverage of 95% intervals")
axes[0].set_yticks(height, [f"{name}: {evaluator}" for name, evaluator in coverage])
axes[0].invert_yaxis()
axes[-1].legend(loc="upper left", bbox_to_anchor=(1, 1))

# %%
# What to take from it
# --------------------
#
# - Say which user made each round: ``BanditLogs(..., group=user)``. The standard error
#   then sums the terms of a user before it squares them. Intervals then cover as they
#   should, also for differences.
# - Without groups the 95% interval of a value misses four to ten times too often. That
#   of a difference misses two to six times too often. More rounds of the same users
#   make that worse, not better.
# - The effective number of users matters, not the number of rounds. Below forty, a
#   warning says so.
#
# The script checks these statements at its end.

for grouped, strangers in coverage.values():
    assert (low <= grouped).all()
    assert (strangers <= grouped).all()
# four standard errors of a standard deviation that was measured
assert np.abs(np.log(np.concatenate(ratios))).max() < 4 / np.sqrt(2 * args.repetitions)
assert coverage["200 users of 25 rounds", "SNIPS"][1][0] < low
assert coverage["100 users of 20 rounds", "SNIPS"][1][0] < low
