# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
# sphinx_gallery_thumbnail_number = -1
"""
Which learner for which log?
============================

Six ways to learn a policy from the same log, judged by the truth: the logs are made
from labelled sets, so that the right action of every context is known. There are clean
and noisy rewards, and loggers that explore evenly, that have preferences, and that know
more than the log tells.

The file ``_learners.py`` beside it makes the logs. With ``--full`` all sets are used;
those that scikit-learn does not bring are read from the folder SKOPE_OPE_DATA. That
takes some hours of CPU.
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
# more; the label is not in the log, so the log alone makes every action look good. All
# propensities are known.
#
# **Learners**, all with logistic regression: `ClassifierPolicy`, which learns the
# rewarded actions, weighted by reward over propensity; `RewardModelPolicy`, a model of
# the reward per action; `DRPolicy`, `SoftmaxPolicy` and `OffsetTree` with their
# defaults; and `IPSPolicy` with the mean as its baseline. With its own default
# baseline, `IPSPolicy` learns from 0/1 rewards what `ClassifierPolicy` learns.

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
    OffsetTree,
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
    "OffsetTree": OffsetTree(logistic),
}

# %%
# One log
# -------
#
# Six rows in ten make the log, at most 500 (1,500 with ``--full``); a policy is judged
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
# Less what `ClassifierPolicy` reaches on the same logs, with the standard error of the
# mean over the logs, and every cell in which a learner that one may begin with is
# behind by more than 0.02:

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
# - **DRPolicy** is the one to begin with: on average it beats both of the simple
#   learners, and in no cell it is behind the first by more than 0.03. With noisy
#   rewards of a uniform logger it is behind RewardModelPolicy. It begins with the
#   classifier of rewarded actions, and takes steps with doubly robust rewards where
#   these raise the value on rounds that were held out.
# - **ClassifierPolicy** is hard to beat where rewards are clean: a rewarded round is a
#   labelled one. Where the logger knows the label nearly all rounds are rewarded, and
#   learning from them is supervised learning. Noise takes that away, because an
#   unrewarded round is not used at all.
# - **RewardModelPolicy** uses every round and no propensity. It fails where the logger
#   is confounded: every action that was logged looks good.
# - **SoftmaxPolicy** maximises the estimated value itself. It is among the best with
#   noisy rewards of a uniform or skewed logger. On the digits of a confounded logger it
#   is behind ClassifierPolicy, by 0.2 and more with noisy rewards.
# - **OffsetTree** plays a tournament, in which a round takes part in about log2(K)
#   binary matches: cheap with very many actions, and behind where there are ten.
# - **IPSPolicy with the mean as its baseline** lets every round without a reward speak
#   for all the other actions. Clean rewards of many actions do not survive that.

by = dict(zip(names, gain.mean(axis=(0, 1)), strict=True))
error = dict(zip(names, errors, strict=True))
assert by["DR"] > 4 * error["DR"]
assert mean[names.index("DR")] > mean[names.index("RewardModel")]
assert worst[names.index("DR")] > -0.03
assert worst[names.index("RewardModel")] < -0.1  # confounded, noisy
clean = np.array([not noisy for _, noisy, _ in cells])
digits = np.array([name == "digits" for name, _, _ in cells])
for learner in ("IPS, mean", "OffsetTree"):
    assert gain[clean & digits, :, names.index(learner)].mean() < -0.1

# %%
# In a picture: each dot is a cell.

_, ax = plt.subplots(figsize=(8, 4), layout="constrained")
x = np.arange(1, len(names)) + np.linspace(-0.2, 0.2, len(cells))[:, None]
for rewards, rows in {"clean": clean, "noisy": ~clean}.items():
    ax.scatter(x[rows], of_cell[rows, 1:], s=16, label=f"{rewards} rewards")
ax.axhline(0, color="black", linewidth=0.8)
ax.set_xticks(range(1, len(names)), names[1:])
ax.set(ylabel="share of right labels,\nless that of ClassifierPolicy")
ax.legend(loc="upper left", bbox_to_anchor=(1, 1))
