# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
# sphinx_gallery_thumbnail_number = -1
"""
What does a log not know? Holes, and propensities that are estimated
====================================================================

A log tells nothing about an action that the logger never takes. Propensities of the
logged actions look right even then. If the log also has the logger's probabilities of
all actions (``logging_proba``), the hole is known. With `propensity` alone, what it
leaves to other actions implies how heavy their rounds would be. The interval allows for
weights that are implied and were not logged, and comparisons for regions of contexts in
which weights average far below one.

Propensities that a model estimates are another case. They are as good as the model. A
logistic regression cannot follow a logger that prefers an action at both ends of a
column. If a rule chose the action, no estimate makes sense.

In the second case the interval of a gain may be narrow and wrong. So decisions check
the mean weight, and test estimated propensities as logged ones. This script counts
wrong decisions of :func:`~skope_ope.compare_policies` and of :func:`~skope_ope.report`
in worlds with known gains. It also counts how many right decisions the checks prevent
in logs without a fault. ``--full`` draws 300 logs a cell and takes about a quarter of
an hour of CPU.
"""

import argparse
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import matplotlib.pyplot as plt
import numpy as np
from _worlds import click, lognormal, preferring, softmax
from scipy.special import expit, ndtri

from skope_ope import BanditLogs, PropensityEstimator, compare_policies, report
from skope_ope.exceptions import FewEventsWarning, TailWarning

parser = argparse.ArgumentParser(allow_abbrev=False)
parser.add_argument("--full", action="store_true", help="300 logs a cell")
parser.add_argument("--repetitions", type=int, help="logs a cell; default 2")
parser.add_argument("--n-rounds", type=int, nargs="+", default=[500, 3_000, 10_000])
args = parser.parse_known_args()[0]
repetitions = args.repetitions or (300 if args.full else 2)

# %%
# Worlds
# ------
#
# The law of a world gives, for a number of random contexts, the probabilities of the
# logger, the mean reward of every action, and the probabilities of the policies. So the
# gains need no draws of actions or rewards. Logs have `propensity` alone, or not even
# that, unless the tables say so.
#
# Wrong decisions of both kinds count. The mirror of a world has rewards 1 - r. Where
# "deploy" is wrong in the world, "keep" is wrong in its mirror.


@dataclass
class World:
    """Contexts, and what logger, rewards and policies do in them."""

    law: Callable  # of n and rng: contexts, logger, mean rewards, policies by name
    reward: Callable = click
    reward_range: tuple | None = (0.0, 1.0)
    whole: bool = False  # whether the log has the probabilities of all actions
    estimated: bool = False  # propensities: not in the log
    mirrored: bool = False
    even: bool = False  # no action is better than another
    only: tuple = ()  # names of policies; all, if empty
    least: float = 3_000  # rounds from which on decisions must be right

    def rates(self, n_rounds, rng):
        """Return what the law says, changed as the world is."""
        x, logger, mean, policies = self.law(n_rounds, rng)
        policies = {name: policies[name] for name in self.only or policies}
        if self.even:
            mean = np.broadcast_to(mean.mean(axis=1, keepdims=True), mean.shape)
        return x, logger, 1 - mean if self.mirrored else mean, policies

    @cached_property
    def gains(self):
        """Return the gains over the logger by name: the means of 100,000 contexts."""
        _, logger, mean, policies = self.rates(100_000, np.random.RandomState(0))
        return {
            name: ((policy - logger) * mean).sum(axis=1).mean()
            for name, policy in policies.items()
        }

    def draw(self, n_rounds, rng):
        """Return logs and the policies' probabilities in their rounds."""
        x, logger, mean, policies = self.rates(n_rounds, rng)
        below = logger.cumsum(axis=1)[:, :-1] < rng.random_sample((n_rounds, 1))
        taken = np.arange(n_rounds), below.sum(axis=1)
        logs = BanditLogs(
            x,
            taken[1],
            self.reward(rng, mean[taken]),
            None if self.estimated else logger[taken],
            actions=range(logger.shape[1]),
            reward_range=self.reward_range,
            logging_proba=logger if self.whole else None,
        )
        if self.estimated:
            logs = PropensityEstimator().fit_transform(logs)
        return logs, policies


# %%
# Holes
# -----
#
# In a hole, 4 or 8% of the rounds, the logger does not take the policy's action, which
# would earn nothing there. Outside it takes this action with a constant probability,
# and the action is better. In total the policy loses. Two actions: in the hole the
# logger takes the first one with probability .9999. Three actions: it takes the others
# with .5 each.
#
# The less often the logger takes the action elsewhere, the larger is the largest logged
# weight :math:`w_0`, and the more rounds a hole needs. The script asserts that at most
# 5% of the decisions are wrong where the hole has at least :math:`20 w_0` rounds, and
# that with two actions at least 93% of the intervals of gains cover. Both allow for
# four standard errors of as many logs as are drawn: for the cells of 3,000 rounds
# together 17 percentage points with 2 logs a cell, and 1.4 with ``--full``.


def hole(n_actions, share, often, mean, better):
    """A hole that is a share of the rounds; outside, the policy's action is better."""

    def law(n_rounds, rng):
        x = rng.normal(size=(n_rounds, 3))
        inside = x[:, 1] > ndtri(1 - share)
        last = np.arange(n_actions) == n_actions - 1
        logger = np.where(last, often, (1 - often) / (n_actions - 1))
        logger = np.tile(logger, (n_rounds, 1))
        never = 0.0001 if n_actions == 2 else 0.0
        logger[inside] = np.where(last, never, (1 - never) / (n_actions - 1))
        rate = np.where(inside[:, None], np.where(last, 0.0, 0.7), mean + better * last)
        return x, logger, rate, {"last": preferring(np.full(n_rounds, -1), n_actions)}

    w0 = 1 / often
    return World(law, least=20 * w0 / share)


def certain_logger(n_rounds, rng):
    """Arms 2 and 3 pay more, but nothing where the policy takes the former."""
    x = rng.normal(size=(n_rounds, 3))
    preferred = (x[:, 0] > 0).astype(int)
    special = x[:, 1] > 1.645
    logger = 0.001 + 0.996 * preferring(preferred, 4)
    mean = np.tile([0.3, 0.3, 0.6, 0.6], (n_rounds, 1))
    mean[special, 2:] = 0.0
    policy = preferring(np.where(special, 2, preferred), 4)
    return x, logger, mean, {"policy": policy}


def rare_arm(n_rounds, rng):
    """One of 50 arms is better, and hardly ever drawn."""
    x = rng.normal(size=(n_rounds, 3))
    favourite = (x[:, 1] > 0).astype(int)
    logger = 0.98 * preferring(favourite, 50) + 0.02 / 50
    mean = np.full((n_rounds, 50), 0.1)
    mean[:, 2] = 0.3
    policy = preferring(np.where(x[:, 0] > 0, 2, favourite), 50)
    return x, logger, mean, {"policy": policy}


HOLES = {
    "one arm in 250 (1a)": World(certain_logger),
    "K=50, p = .0004 (1b)": World(rare_arm, least=np.inf),
}
for n_actions in (2, 3):
    for share, often, mean, better in (
        (0.08, 0.8, 0.5, 0.25),
        (0.04, 0.8, 0.5, 0.12),
        (0.08, 0.5, 0.5, 0.1),
        (0.04, 0.5, 0.6, 0.05),
        (0.08, 1 / 3, 0.6, 0.08),
        (0.04, 1 / 3, 0.6, 0.04),
    ):
        name = f"K={n_actions}, hole {share:.0%}, else {often:.2g}"
        HOLES[name] = hole(n_actions, share, often, mean, better)

# %%
# Estimated propensities
# ----------------------
#
# In the first world the logger prefers the second action where the first column is far
# from zero, and the rewards are higher there. In the second world a rule decides. No
# action is better than another, so that every decision is wrong.


def both_ends(n_rounds, rng):
    """The policy's action is taken, and rewards are high, at both ends of a column."""
    x = rng.normal(size=(n_rounds, 2))
    far = np.abs(x[:, 0])
    often = expit(1.5 * (far - 0.8))
    mean = np.repeat(0.2 + 0.25 * (far > 0.8)[:, None], 2, axis=1)
    second = preferring(np.ones(n_rounds, dtype=int), 2)
    return x, np.column_stack([1 - often, often]), mean, {"second": second}


def by_a_rule(n_rounds, rng):
    """The sign of a column decides; rewards are higher on its positive side."""
    x = rng.normal(size=(n_rounds, 2))
    positive = (x[:, 0] > 0).astype(int)
    mean = np.repeat(0.3 + 0.2 * positive[:, None], 2, axis=1)
    second = preferring(np.ones(n_rounds, dtype=int), 2)
    return x, preferring(positive, 2), mean, {"second": second}


ESTIMATED = {
    "at both ends (2)": World(both_ends, estimated=True),
    "by a rule (2b)": World(by_a_rule, estimated=True),
}

# %%
# Right logs
# ----------
#
# Here nothing is wrong, and the logger takes every action. But weights are skewed: few
# are large, most are small. So their mean is often below one, by chance. Five policies
# lean from what the logger does to what pays, more or less; two of them lean to what
# does not pay. All five are compared at once. If only those two are compared, "keep" is
# right. If all actions of a context are rewarded alike, every decision is wrong.

LEANS = {"worst": -2.0, "bad": -1.0, "fair": 0.7, "good": 1.5, "best": 3.0}


def right(logger_of, n_actions, rate=0.3, effect=0.5, far=False):
    """A logger that takes all actions; mean rewards depend on context and action.

    Policies that are far from the logger do not begin with what it does.
    """
    rng = np.random.RandomState(1)
    size = 4, n_actions
    tastes = rng.normal(scale=0.5, size=size)
    scores = rng.normal(scale=0.4 * effect, size=size)
    arms = 0.8 * effect * np.linspace(-1, 1, n_actions)[rng.permutation(n_actions)]

    def law(n_rounds, rng):
        x = rng.normal(size=(n_rounds, 4))
        tilt = x @ scores + arms
        logger = logger_of(x @ tastes)
        start = 0 if far else np.log(logger)
        policies = {k: softmax(start + lean * tilt) for k, lean in LEANS.items()}
        return x, logger, expit(tilt + np.log(rate / (1 - rate))), policies

    return law


def greedy(epsilon):
    """The logger that takes its favourite, but for a share of random actions."""

    def logger_of(tastes):
        n_actions = tastes.shape[1]
        favourite = preferring(tastes.argmax(axis=1), n_actions)
        return (1 - epsilon) * favourite + epsilon / n_actions

    return logger_of


def tempered(scale):
    """The softmax logger whose tastes are multiplied with a number."""
    return lambda tastes: softmax(scale * tastes)


RIGHT = {
    "softmax": World(right(tempered(1), 5)),
    "softmax x 3": World(right(tempered(3), 5)),
    "eps .1, K=5": World(right(greedy(0.1), 5)),
    "eps .1, K=10": World(right(greedy(0.1), 10)),
    "p = .73 or .03": World(right(greedy(0.3), 10)),
    "revenue": World(right(tempered(1), 5), lognormal, None),
    "clicks 1%": World(right(tempered(1), 5, rate=0.01, effect=1.0)),
    "estimated, K=2": World(right(tempered(1), 2), estimated=True),
    "estimated, K=3": World(right(tempered(2), 3), estimated=True),
    "softmax x 3, far": World(
        right(tempered(3), 5, effect=1.0, far=True), least=np.inf
    ),
}

# %%
# One log
# -------
#
# A decision is wrong if it deploys a policy without a gain, or keeps the logger though
# a policy is at least as good. Without the checks, the intervals decide, unless few
# events or a heavy tail make them doubtful. Power is lost if the intervals decide, and
# :func:`~skope_ope.compare_policies` does not.

OTHER_DOUBTS = FewEventsWarning, TailWarning


def is_wrong(found, gains):
    """Return whether a decision of a comparison or report contradicts the gains."""
    if found.decision == "deploy":
        return gains[found.choice] < 1e-9
    return found.decision == "keep" and max(gains.values()) > -1e-9


def intervals_decide(comparison):
    """Return whether intervals alone would deploy a policy, or keep the logger."""
    sound = []
    for name, gain in comparison.differences.items():
        interval = gain.confidence_interval(comparison.level_of_each)
        warned = [*interval.warnings, *gain.warnings, *comparison[name].warnings]
        if not any(isinstance(warning, OTHER_DOUBTS) for warning in warned):
            sound.append(interval)
    worse = [high for _, high in sound if high < 0]
    return any(low > 0 for low, _ in sound) or len(worse) == len(comparison)


def judge(world, n_rounds, seed, reported):
    """Return of one log: wrong, decided by intervals, but lost, gains covered."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        logs, policies = world.draw(n_rounds, np.random.RandomState(seed))
        comparison = compare_policies(policies, logs)
        if reported:
            page = report(policies, logs)
            wrong = is_wrong(page, world.gains)
            reports.append((wrong, page.decision, comparison.decision))
        decides = intervals_decide(comparison)
        gains = comparison.differences
        limits = {name: gain.confidence_interval() for name, gain in gains.items()}
    covered = [low <= world.gains[k] <= high for k, (low, high) in limits.items()]
    lost = decides and comparison.decision == "undecided"
    return is_wrong(comparison, world.gains), decides, lost, np.mean(covered)


# %%
# Counting
# --------
#
# The tables show shares of logs. The first two show wrong decisions in a world, where
# the log suggests "deploy", and in its mirror, where it suggests "keep". With fifty
# arms it is the other way round. The first table also shows how many 95% intervals of
# the gain cover it. Its last columns are about the same logs with the probabilities of
# all actions. For right logs the table shows wrong decisions where no action is better.
# Then it shows how often the intervals decide, and how often this is lost: where
# "deploy" is right, and where "keep" is right. There are half as many logs of 500
# rounds, and a quarter as many of 10,000, at least one. A line ends with a star if the
# script asserts nothing about it. Some logs of 3,000 rounds also get a report.

PARTS = {500: 2, 3_000: 1, 10_000: 4}  # of the logs
SIZES = {n: max(repetitions // PARTS.get(n, 2), 1) for n in args.n_rounds}
MIRROR = {"mirrored": True}
FORMS = {  # of a world, by group
    "holes": ({}, MIRROR, {"whole": True}, MIRROR | {"whole": True}),
    "estimated propensities": ({}, MIRROR),
    "right logs": ({}, {"only": ("worst", "bad")}, {"even": True}),
}
WRONG, DECIDED, LOST, COVERED = range(4)
UNKNOWN = {"wrong": (0, WRONG), "mirror wrong": (1, WRONG)}
COLUMNS = {  # what is shown: of which form
    "holes": UNKNOWN
    | {"covers": (0, COVERED), "mirror covers": (1, COVERED)}
    | {"all p": (2, WRONG), "mirror all p": (3, WRONG)},
    "estimated propensities": UNKNOWN,
    "right logs": {
        "wrong": (2, WRONG),
        "deploy": (0, DECIDED),
        "deploy lost": (0, LOST),
        "keep": (1, DECIDED),
        "keep lost": (1, LOST),
    },
}
GROUPS = dict(zip(FORMS, (HOLES, ESTIMATED, RIGHT), strict=True))
N_REPORTED = 1 if repetitions < 100 else 20  # of a form of a world
found = {}  # of group, world, rounds: shares by form and statistic
reports = []  # wrong, decision of the report, decision of the comparison


def shares_of(world, number, n_rounds):
    """Return the shares of wrong, of decided and of lost decisions in fresh logs."""
    asserted = not world.whole and n_rounds == 3_000 >= world.least
    reported = N_REPORTED if asserted else 0
    logs = [
        judge(world, n_rounds, [number, seed], seed < reported)
        for seed in range(SIZES[n_rounds])
    ]
    return np.mean(logs, axis=0)


for group, worlds in GROUPS.items():
    columns = COLUMNS[group]
    print(f"\n{group:26}{'rounds':>7}" + "".join(f"{head:>14}" for head in columns))
    for number, (name, world) in enumerate(worlds.items()):
        forms = [replace(world, **changes) for changes in FORMS[group]]
        for n_rounds in SIZES:
            cell = np.array([shares_of(form, number, n_rounds) for form in forms])
            found[group, name, n_rounds] = cell
            shares = "".join(f"{cell[place]:14.3f}" for place in columns.values())
            star = " *" * (n_rounds < world.least)
            print(f"{name:26}{n_rounds:7,}{shares}{star}")

agree = np.mean([page == one for _, page, one in reports])
wrong = np.mean([wrong for wrong, *_ in reports])
print(
    f"\n{len(reports)} reports: {agree:.2f} decide as the comparison, {wrong:.2f} wrong"
)

# %%
# The picture
# -----------
#
# More rounds make intervals narrower, and wrong decisions more certain, unless a
# decision looks at more than the interval. In right logs the checks cost little. They
# fire by chance, but most gains are large enough to stand them.

SHOWN = 3_000 if 3_000 in SIZES else max(SIZES)
TITLES = {
    "wrong decisions where a log lacks something": list(FORMS)[:2],
    "right logs: intervals decide, and what is lost": list(FORMS)[2:],
}
figure, axes = plt.subplots(1, 2, figsize=(11, 5), layout="constrained")
for ax, (title, groups) in zip(axes, TITLES.items(), strict=True):
    cells = {
        key[1]: found[key] for key in found if key[0] in groups and key[2] == SHOWN
    }
    for (label, place), mark in zip(COLUMNS[groups[-1]].items(), "o^sx+", strict=False):
        shares = [cell[place] for cell in cells.values()]
        ax.plot(shares, range(len(cells)), mark, mfc="none", label=label)
    ax.set_yticks(range(len(cells)), cells)
    ax.invert_yaxis()
    ax.set(xlim=(-0.05, 1.05), xlabel=f"share of logs, n = {SHOWN:,}", title=title)
    ax.legend(loc="upper center", bbox_to_anchor=(0.5, -0.12), ncols=3)

# %%
# What to take from it
# --------------------
#
# - A log with `propensity` alone may lack what a policy does. The interval allows for
#   what the propensities imply. If you can, log the probabilities of all actions: then
#   holes are known, not guessed.
# - With more than two actions a small hole stays invisible, as the lines with a star
#   show. More rounds make it visible.
# - Estimated propensities must pass the tests of logged ones. What the model cannot
#   follow shows in many rounds, and not always in a few hundred. What the logger knew
#   and the log does not contain shows in none.
# - In right logs hardly a decision is lost from 3,000 rounds on. The exception is a
#   policy so far from the logger that few rounds carry its value: there the mean weight
#   is below one in most logs.
#
# The script checks at its end that wrong and lost decisions are as rare as this says.


def allowed(share, n_logs):
    """A share, and four standard errors of what is counted in so many logs."""
    return share + 4 * np.sqrt(share * (1 - share) / n_logs)


MOST_WRONG = {"holes": 0.05, "estimated propensities": 0.1, "right logs": 0.03}
MOST_LOST, MOST_MISSED = 0.05, 0.07
for group, worlds in GROUPS.items():
    for n_rounds, n_logs in SIZES.items():
        names = [name for name, world in worlds.items() if n_rounds >= world.least]
        if not names:
            continue
        cells = np.array([found[group, name, n_rounds] for name in names])
        for shares, n in ((cells, n_logs), (cells.mean(axis=0), n_logs * len(names))):
            most = allowed(MOST_WRONG[group], n)
            assert shares[..., WRONG].max() <= most, (group, n_rounds)
            if group == "right logs":
                assert shares[..., :2, LOST].max() <= allowed(MOST_LOST, n), n_rounds
two = [
    (found["holes", name, n_rounds][:2, COVERED].mean(), 2 * n_logs)
    for n_rounds, n_logs in SIZES.items()
    for name, world in HOLES.items()
    if name.startswith("K=2") and n_rounds >= world.least
]
if two:
    covers, n_logs = np.transpose(two)
    missed = 1 - np.average(covers, weights=n_logs)
    assert missed <= allowed(MOST_MISSED, n_logs.sum()), missed
assert wrong <= allowed(0.1, len(reports))
assert agree >= 1 - allowed(0.05, len(reports))
