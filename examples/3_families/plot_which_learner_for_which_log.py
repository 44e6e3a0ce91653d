# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
# sphinx_gallery_thumbnail_number = -1
"""
Which learner for which log?
============================

There are five ways to learn a policy from the same log. We compare them by the truth:
the logs are made from labelled sets, so the right action of every context is known.
Rewards are clean or noisy. Loggers explore evenly, have preferences, or know more than
the log contains.

The file ``_learners.py`` makes the logs. ``--full`` uses all sets, and takes some hours
of CPU. Those that do not come with scikit-learn are read from the folder
SKOPE_OPE_DATA.
"""

# %%
# What is compared
# ----------------
#
# **Rewards.** *Clean*: 1 for the right label, else 0. *Noisy*: 1 with probability 0.7
# for the right label, 0.3 for another.
#
# **Loggers.** *Uniform*. *Skewed*: a softmax of random linear scores, which prefers
# actions for no reason. *Confounded*: it takes the right label with probability 0.7 and
# more. The label is not in the log, so the log alone makes every action look good. All
# propensities are known.
#
# **Learners**, all with logistic regression. `ClassifierPolicy` learns the rewarded
# actions, weighted by reward over propensity. `RewardModelPolicy` models the reward per
# action. `DRPolicy` and `SoftmaxPolicy` have their defaults. `IPSPolicy` has the mean
# as its baseline. With its own default baseline, `IPSPolicy` learns from 0/1 rewards
# what `ClassifierPolicy` learns.

import argparse
import warnings

import matplotlib.pyplot as plt
import numpy as np
from _learners import LOGGERS, SETS, SHIPPED, make_logs
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.utils.parallel import Parallel, delayed

from skope_ope import (
    ClassifierPolicy,
    DRPolicy,
    IPSPolicy,
    RewardModelPolicy,
    SoftmaxPolicy,
)

parser = argparse.ArgumentParser()
parser.add_argument("--full", action="store_true", help="all sets, ten logs of each")
parser.add_argument("--sets", nargs="+", choices=SETS, metavar="SET", help=f"of {SETS}")
parser.add_argument("--loggers", nargs="+", choices=LOGGERS, default=LOGGERS)
parser.add_argument("--repetitions", type=int, help="logs of every cell")
parser.add_argument("--n-rounds", type=int, help="most rounds of a log; default 500")
parser.add_argument("--n-jobs", type=int, default=-1, help="processes, default: all")
args = parser.parse_args()
sets = args.sets or (SETS if args.full else SHIPPED)
repetitions = args.repetitions or (10 if args.full else 2)
n_rounds = args.n_rounds or (1500 if args.full else 500)

logistic = LogisticRegression(max_iter=1000)
LEARNERS = {
    "Classifier": ClassifierPolicy(logistic),
    "RewardModel": RewardModelPolicy(logistic),
    "DR": DRPolicy(logistic),
    "Softmax": SoftmaxPolicy(),
    "IPS, mean": IPSPolicy(logistic, baseline="mean"),
}

# %%
# One log
# -------
#
# Six rows in ten make the log, at most 500 (1,500 with ``--full``). A policy is judged
# by its share of right labels on the others.


def judge(name, noisy, logger, seed):
    """Return the share of right labels of every learner."""
    logs, X, y = make_logs(name, noisy, logger, n_rounds, seed)
    with warnings.catch_warnings():
        # SoftmaxPolicy may stop after 500 steps (noisy digits), and says so; some 700
        # steps reach the end, with about the same share of right labels.
        warnings.filterwarnings("ignore", "SoftmaxPolicy", ConvergenceWarning)
        policies = [policy.fit(logs) for policy in LEARNERS.values()]
    return [(policy.predict(X) == y).mean() for policy in policies]


cells = [
    (name, noisy, logger)
    for name in sets
    for noisy in (False, True)
    for logger in args.loggers
]
jobs = [delayed(judge)(*cell, seed) for cell in cells for seed in range(repetitions)]
shares = np.reshape(Parallel(n_jobs=args.n_jobs)(jobs), (len(cells), repetitions, -1))

# %%
# The table
# ---------


def show(label, values):
    print(f"{label:36}" + "".join(f"{value:12.3f}" for value in values))


print(f"{'':36}" + "".join(f"{name:>12}" for name in LEARNERS))
of_cell = shares.mean(axis=1)
labels = [f"{'noisy' if noisy else 'clean':8}{logger:12}" for _, noisy, logger in cells]
for (name, *_), label, share in zip(cells, labels, of_cell, strict=True):
    show(f"{name:16}{label}", share)
for label in dict.fromkeys(labels):
    show(f"{'all sets':16}{label}", of_cell[[each == label for each in labels]].mean(0))
mean = of_cell.mean(axis=0)
show("all", mean)

# %%
# This is the difference from `ClassifierPolicy` on the same logs, with the standard
# error of the mean over the logs. It lists every cell in which a learner that you may
# begin with is worse by more than 0.02:

names = list(LEARNERS)
gain = shares - shares[:, :, :1]
of_cell = gain.mean(axis=1)
errors = gain.mean(axis=0).std(axis=0, ddof=1) / np.sqrt(repetitions)
worst = of_cell.min(axis=0)
for k, learner in enumerate(names[1:], start=1):
    behind = (of_cell[:, k] < -0.02).sum()
    print(
        f"{learner:12}{of_cell[:, k].mean():+.3f} +- {errors[k]:.3f}, "
        f"behind by .02 in {behind} of {len(cells)} cells, at most by {-worst[k]:.3f}"
    )
k = names.index("DR")
for (name, *_), label, each in zip(cells, labels, gain[:, :, k], strict=True):
    if each.mean() < -0.02:
        error = each.std(ddof=1) / np.sqrt(repetitions)
        print(f"DR, {name:16}{label}{each.mean():+.3f} +- {error:.3f}")

# %%
# What it says
# ------------
#
# Numbers are those of the default size; :ref:`which_learner` has all sets.
#
# - **DRPolicy** is the one to begin with. On average it is better than both simple
#   learners, and in no cell is it behind the first by more than 0.03. With noisy
#   rewards of a uniform logger it is behind RewardModelPolicy. It begins with the
#   classifier of rewarded actions. It takes steps with doubly robust rewards if these
#   raise the value on held-out rounds.
# - **ClassifierPolicy** is very good if rewards are clean: a rewarded round is a
#   labelled one. If the logger knows the label, nearly all rounds are rewarded, and
#   learning from them is supervised learning. With noise this fails, because it does
#   not use unrewarded rounds.
# - **RewardModelPolicy** uses every round and no propensity. It fails if the logger is
#   confounded: every logged action looks good.
# - **SoftmaxPolicy** maximises the estimated value itself. It is among the best with
#   noisy rewards of a uniform or skewed logger. On the digits of a confounded logger it
#   is behind ClassifierPolicy, by 0.2 and more with noisy rewards.
# - **IPSPolicy with the mean as its baseline** turns every round without a reward into
#   examples for all other actions. It fails with clean rewards of many actions.

by = dict(zip(names, gain.mean(axis=(0, 1)), strict=True))
error = dict(zip(names, errors, strict=True))
assert by["DR"] > 4 * error["DR"]
assert mean[names.index("DR")] > mean[names.index("RewardModel")]
assert worst[names.index("DR")] > -0.03
assert worst[names.index("RewardModel")] < -0.1  # confounded, noisy
clean = np.array([not noisy for _, noisy, _ in cells])
digits = np.array([name == "digits" for name, _, _ in cells])
assert gain[clean & digits, :, names.index("IPS, mean")].mean() < -0.1

# %%
# In the picture each dot is a cell.

_, ax = plt.subplots(figsize=(8, 4), layout="constrained")
x = np.arange(1, len(names)) + np.linspace(-0.2, 0.2, len(cells))[:, None]
for rewards, rows in {"clean": clean, "noisy": ~clean}.items():
    ax.scatter(x[rows], of_cell[rows, 1:], s=16, label=f"{rewards} rewards")
ax.axhline(0, color="black", linewidth=0.8)
ax.set_xticks(range(1, len(names)), names[1:])
ax.set(ylabel="share of right labels,\nless that of ClassifierPolicy")
ax.legend(loc="upper left", bbox_to_anchor=(1, 1))
