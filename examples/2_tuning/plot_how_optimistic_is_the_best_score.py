# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
# sphinx_gallery_thumbnail_number = -1
"""
How optimistic is the best score of a search over policies?
===========================================================

``best_score_`` is the greatest of many noisy numbers. With more candidates it is more
optimistic, and the winner is partly a winner by chance. Nested cross-validation
measures the value of *the whole procedure*, learning, searching and choosing. It uses
folds that the search does not see.

The test is a world in which no action has any effect. There all policies and the logger
have the same value, and the gain of any choice is zero. ``--full`` draws 200 worlds,
which takes about a minute and a half of CPU.
"""

import argparse
import warnings

import matplotlib.pyplot as plt
import numpy as np
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import KFold, cross_validate
from sklearn.pipeline import Pipeline

from skope_ope import (
    BanditLogs,
    DoublyRobust,
    IPSPolicy,
    OPESearchCV,
    PolicyScorer,
    RewardModelPolicy,
)
from skope_ope.exceptions import OPEWarning

parser = argparse.ArgumentParser(allow_abbrev=False)
parser.add_argument("--full", action="store_true", help="200 worlds")
parser.add_argument("--n-worlds", type=int, help="default 30")
args = parser.parse_known_args()[0]
n_worlds = args.n_worlds or (200 if args.full else 30)

# %%
# A world without effect
# ----------------------
#
# Rewards are 0 or 1 with equal probability, whatever the context and the action.

N_ROUNDS, N_ACTIONS = 400, 3


def draw(seed):
    """Return logs in which nothing matters."""
    rng = np.random.default_rng(seed)
    return BanditLogs(
        rng.normal(size=(N_ROUNDS, 3)),
        rng.integers(N_ACTIONS, size=N_ROUNDS),
        rng.integers(2, size=N_ROUNDS).astype(float),
        np.full(N_ROUNDS, 1 / N_ACTIONS),
        actions=np.arange(N_ACTIONS),
    )


# %%
# The whole choice, and the folds around it
# -----------------------------------------
#
# The inner search learns and chooses, with scores on inner folds. `cross_validate`
# repeats all of that in the training part of every outer fold. It scores the choice on
# the other part, by the same scorer.

search = OPESearchCV(
    Pipeline([("policy", RewardModelPolicy(Ridge()))]),
    [
        {
            "policy": [RewardModelPolicy(Ridge())],
            "policy__reward_model__alpha": [1.0, 100.0],
            "policy__epsilon": [0.0, 0.2],
        },
        {
            "policy": [IPSPolicy(LogisticRegression())],
            "policy__classifier__C": [0.01, 1.0],
            "policy__epsilon": [0.0, 0.2],
        },
    ],
    scoring=PolicyScorer(DoublyRobust()),
    refit=True,
    cv=KFold(3),
)

inner, outer = np.empty(n_worlds), np.empty(n_worlds)
for world in range(n_worlds):
    logs = draw(world)
    with warnings.catch_warnings():
        # The scores rest on few rounds, as they say: that is the subject.
        warnings.simplefilter("ignore", OPEWarning)
        nested = cross_validate(search, logs, cv=KFold(3), return_estimator=True)
    # gain over the logger on the same rounds, which removes the chance of the world
    outer[world] = nested["test_score"].mean() - logs.reward.mean()
    best = [one.best_score_ for one in nested["estimator"]]
    inner[world] = np.mean(best) - logs.reward.mean()

# %%
# The gain that each of them reports
# ----------------------------------


def describe(gain):
    """Return the mean gain over worlds and its standard error."""
    return gain.mean(), gain.std(ddof=1) / np.sqrt(n_worlds)


for name, gain in {"inner best_score_": inner, "outer folds": outer}.items():
    mean, error = describe(gain)
    print(
        f"{name:18} mean gain {mean:+.4f}, standard error {error:.4f}, "
        f"ratio {mean / error:+.1f}"
    )

figure, ax = plt.subplots(figsize=(8, 4), layout="constrained")
bins = np.linspace(-0.15, 0.15, 31)
ax.hist(inner, bins=bins, alpha=0.6, label="best_score_ of the search")
ax.hist(outer, bins=bins, alpha=0.6, label="outer folds")
ax.axvline(0, color="black", ls=":", label="truth")
ax.set(xlabel="gain over the logger", ylabel=f"worlds, of {n_worlds}")
ax.legend(loc="upper left", bbox_to_anchor=(1, 1))

# %%
# The inner score shows a gain although there is none. The gain of the outer score is
# zero within chance, and takes as many searches as there are outer folds. Report the
# outer one. Or set rounds aside once, before the search, and evaluate its choice on
# these.

inner_mean, inner_error = describe(inner)
outer_mean, outer_error = describe(outer)
assert inner_mean > 4 * inner_error
assert abs(outer_mean) < 4 * outer_error
