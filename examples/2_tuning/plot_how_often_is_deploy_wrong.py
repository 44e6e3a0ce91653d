# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
# sphinx_gallery_thumbnail_number = -1
"""
How often is "deploy" wrong?
============================

:func:`~skope_ope.compare_policies` says "deploy" if a policy is better than the
baseline. It allows for all policies that are compared. If none is better, "deploy" is
wrong. That may happen in at most 5% of all logs, for any number of policies. If one is
better, "deploy" should come. If the rounds are too few, the sentence says how many more
would tell. Here simulated logs with a known truth count all three. ``--full`` takes
about five minutes of CPU.
"""

import argparse
import warnings

import matplotlib.pyplot as plt
import numpy as np

from skope_ope import (
    BanditLogs,
    DirectMethod,
    DoublyRobust,
    DRos,
    SwitchDR,
    compare_policies,
)
from skope_ope.exceptions import OPEWarning
from skope_ope.selection import rounds_needed

parser = argparse.ArgumentParser(allow_abbrev=False)
parser.add_argument("--full", action="store_true", help="200 logs a cell, all cells")
parser.add_argument("--repetitions", type=int, help="logs a cell; default 30")
args = parser.parse_known_args()[0]
repetitions = args.repetitions or (200 if args.full else 30)
N_ACTIONS, N_CONTEXTS, N_USERS = 5, 4, 50

# %%
# Worlds
# ------
#
# Five actions and four contexts. The logger prefers other actions in other contexts. In
# the first world, clicks depend on the context and not on the action. So all policies
# have the same value, and "deploy" is always wrong. In the other worlds the actions of
# the first policy are clicked more often. Some worlds have fifty users, who differ in
# how often they click.

rng = np.random.RandomState(0)
logger = np.exp(0.7 * rng.normal(size=(N_CONTEXTS, N_ACTIONS)))
logger /= logger.sum(axis=1, keepdims=True)


def policies_of(m):
    """Return probabilities by context of m policies, each with its own favourites."""
    rng = np.random.RandomState(1)
    tables = {}
    for k in range(m):
        best = rng.randint(N_ACTIONS, size=N_CONTEXTS)
        tables[f"policy {k + 1}"] = 0.8 * np.eye(N_ACTIONS)[best] + 0.2 / N_ACTIONS
    return tables


def rates(rate, lift):
    """Return the rates of clicks by context and action, and the gain over the logger.

    The actions of the first policy click `lift` times as often as the others.
    """
    table = np.outer(rate * np.array([0.4, 0.8, 1.2, 1.6]), np.ones(N_ACTIONS))
    first = policies_of(1)["policy 1"]
    table[first > 0.5] *= lift
    gain = ((first - logger) * table).sum(axis=1).mean()
    return table, gain


def draw(n_rounds, table, rng, users=False):
    """Return logs, and the contexts of their rounds."""
    x = rng.randint(N_CONTEXTS, size=n_rounds)
    bound = logger.cumsum(axis=1)[x]
    action = (rng.random_sample((n_rounds, 1)) * bound[:, -1:] > bound).sum(axis=1)
    rate, group = table[x, action], None
    if users:
        group = np.arange(n_rounds) % N_USERS
        rate = np.minimum(rate * rng.gamma(2, 0.5, size=N_USERS)[group], 1)
    reward = (rng.random_sample(n_rounds) < rate).astype(float)
    logs = BanditLogs(
        x[:, None],
        action,
        reward,
        logger[x, action],
        actions=range(N_ACTIONS),
        group=group,
        reward_range=(0, 1),
    )
    return logs, x


def decide(n_rounds, m, table, rng, users=False, evaluator=None):
    """Return a comparison of m policies with the logger on fresh logs."""
    logs, x = draw(n_rounds, table, rng, users)
    policies = {name: proba[x] for name, proba in policies_of(m).items()}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", OPEWarning)
        return compare_policies(policies, logs, evaluator=evaluator)


# %%
# No policy is better
# -------------------
#
# This is the share of logs with the decision "deploy". It also shows the share if every
# policy is compared by itself and the best is taken. Then the errors of twenty
# comparisons add up.


def above_zero(gain):
    """Return whether the interval of a gain by itself is above zero."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", OPEWarning)
        return gain.confidence_interval(0.95)[0] > 0


def null_cell(n_rounds, m, rate, users, evaluator=None):
    """Return the shares of "deploy", and of any lower limit at 95% above zero."""
    rng = np.random.RandomState(100 + m)
    table, _ = rates(rate, 1.0)
    deployed = uncorrected = 0
    for _ in range(repetitions):
        found = decide(n_rounds, m, table, rng, users, evaluator)
        deployed += found.decision == "deploy"
        uncorrected += any(map(above_zero, found.differences.values()))
    return deployed / repetitions, uncorrected / repetitions


CELLS = [
    (n_rounds, m, rate, users)
    for n_rounds in (1000, 10_000)
    for m in (1, 5, 20)
    for rate in (0.01, 0.1)
    for users in (False, True)
    if args.full or ((n_rounds == 1000) == (m == 20) and (rate == 0.1 or not users))
]
print(f"{'rounds':>7}{'policies':>9}{'clicks':>8}{'users':>7}{'deploy':>8}  one by one")
false, alone = [], []
for cell in CELLS:
    share, uncorrected = null_cell(*cell)
    false.append(share)
    alone.append(uncorrected)
    n_rounds, m, rate, users = cell
    print(
        f"{n_rounds:7,}{m:9}{rate:8.0%}{'50' if users else '-':>7}{share:8.3f}"
        f"{uncorrected:12.3f}"
    )

# %%
# Intervals that ignore a bias
# ----------------------------
#
# Clipped or shrunk weights, and a model alone, have a bias that their intervals ignore.
# Here contexts differ more, in their clicks and in what the logger prefers. So the mean
# reward of an action is a bad model. The table shows the share of logs in which the
# interval of a single gain is above or below zero, although the gain is zero. With such
# an evaluator the decision is neither "deploy" nor "keep".

BIASED = {
    "DoublyRobust()": DoublyRobust(),
    "DoublyRobust(cmax=5)": DoublyRobust(cmax=5),
    "SwitchDR()": SwitchDR(),
    "DRos()": DRos(),
    "DirectMethod()": DirectMethod(),
}
usual_logger, logger = logger, logger**2 / (logger**2).sum(axis=1, keepdims=True)
table, _ = rates(0.5, 1.0)
print(f"\n{'evaluator':22}{'not zero':>10}{'decided':>9}")
for name, evaluator in BIASED.items():
    rng = np.random.RandomState(300)
    found = [
        decide(3000, 1, table, rng, evaluator=evaluator) for _ in range(repetitions)
    ]
    gains = [one.to_records()[0] for one in found]
    missed = np.mean([g["difference_low"] * g["difference_high"] > 0 for g in gains])
    decided = np.mean([one.decision != "undecided" for one in found])
    assert decided == 0 or name == "DoublyRobust()"
    print(f"{name:22}{missed:10.3f}{decided:9.3f}")
logger = usual_logger

# %%
# One policy is better
# --------------------
#
# The first policy takes actions that are clicked more often. How often is it called
# better, with as many rounds as :func:`~skope_ope.selection.rounds_needed` gives for a
# power of .8? And how often does the number of rounds in the sentence decide? That
# number uses an estimate of the gain. It comes from logs of a quarter of the rounds
# that cannot tell the policy from the logger. We test it on new logs of that size.

TOO_MANY = 400_000  # rounds: a hopeless estimate is not tried


def spread(table):
    """Return the standard deviation of the paired difference of a round, for DR.

    Its model is the mean reward of an action, and the baseline's value is the reward.
    """
    first = policies_of(1)["policy 1"]
    model = (logger * table).sum(axis=0) / logger.sum(axis=0)
    weight, value = first / logger, (first * model).sum(axis=1, keepdims=True)
    without = value - weight * model  # the difference of a round without a click
    moments = [
        (logger * (table * (without + weight - 1) ** k + (1 - table) * without**k))
        .sum(axis=1)
        .mean()
        for k in (1, 2)
    ]
    return float(np.sqrt(moments[1] - moments[0] ** 2))


def power_cell(m, rate, lift):
    """Return rounds, the gain, and how often it is told, for one of m policies."""
    rng = np.random.RandomState(200 + m)
    table, gain = rates(rate, lift)
    n_rounds = int(rounds_needed(gain, spread(table), n_comparisons=m))
    right = tried = told = 0
    for _ in range(repetitions):
        found = decide(n_rounds, m, table, rng)
        right += found.to_records()[0]["answer"] == "better"
        pilot = decide(n_rounds // 4, m, table, rng)
        wanted = pilot.to_records()[0]["rounds_needed"]
        if not 0 < wanted < TOO_MANY:  # it has decided already, or is hopeless
            continue
        fresh = decide(int(wanted), m, table, rng)
        tried += 1
        told += fresh.to_records()[0]["answer"] != "cannot tell"
    share = told / tried if tried else float("nan")
    return n_rounds, gain, right / repetitions, share, tried


POWER = [(1, 0.01, 2.0), (1, 0.1, 1.5), (5, 0.1, 1.5), (20, 0.1, 1.5)]
print(
    f"\n{'policies':>8}{'clicks':>8}{'gain':>9}{'rounds':>9}{'better':>10}"
    "  sentence's rounds decide"
)
powers = []
for m, rate, lift in POWER if args.full else POWER[1:3]:
    n_rounds, gain, right, told, tried = power_cell(m, rate, lift)
    powers.append(right)
    print(
        f"{m:8}{rate:8.0%}{gain:9.4f}{n_rounds:9,}{right:10.3f}{told:12.3f} of {tried}"
    )

# %%
# The picture
# -----------
#
# Without correction, more policies make more wrong decisions. With correction, their
# share is at most 5% within chance, for any number of policies.

figure, ax = plt.subplots(figsize=(8, 4), layout="constrained")
ms = np.array([m for _, m, _, _ in CELLS])
for share, label, marker in (
    (np.array(false), "compare_policies", "o"),
    (np.array(alone), "one by one", "x"),
):
    ax.plot(ms, share, marker, label=label)
ax.axhline(0.05, color="black", linestyle="--", label="5%")
ax.set(xlabel="policies", ylabel='share of wrong "deploy"', xscale="log")
ax.set_xticks([1, 5, 20], ["1", "5", "20"])
ax.legend(loc="upper left", bbox_to_anchor=(1, 1))

allowed = 0.05 + 4 * np.sqrt(0.05 * 0.95 / repetitions)
assert max(false) <= allowed
assert min(powers) >= 0.8 - 4 * np.sqrt(0.8 * 0.2 / repetitions)
