# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
# sphinx_gallery_thumbnail_number = -1
"""
How many rounds does learning need?
===================================

A log can teach a new policy. How many rounds are needed until that policy is better
than the logger? And does the learner matter?

The world is simulated, so the true value of every learned policy is known.
"""

# %%
# Three ways to learn
# -------------------
#
# All three use a logistic regression.
#
# - :class:`~skope_ope.ClassifierPolicy`: which action was rewarded?
# - :class:`~skope_ope.RewardModelPolicy`: what does each action earn?
# - :class:`~skope_ope.DRPolicy`: the first one, improved by doubly robust rewards.

import argparse
import warnings

import matplotlib.pyplot as plt
import numpy as np
from sklearn.linear_model import LogisticRegression

from skope_ope import ClassifierPolicy, DRPolicy, RewardModelPolicy
from skope_ope.datasets import make_bandit_logs
from skope_ope.exceptions import OPEWarning

parser = argparse.ArgumentParser(allow_abbrev=False)
parser.add_argument("--n-logs", type=int, default=12, help="logs of each length")
n_logs = parser.parse_known_args()[0].n_logs
SIZES = (50, 200, 800, 3200)
LEARNERS = {
    "ClassifierPolicy": ClassifierPolicy(LogisticRegression()),
    "RewardModelPolicy": RewardModelPolicy(LogisticRegression()),
    "DRPolicy": DRPolicy(LogisticRegression()),
}
world = {"effect": 2.0, "world_random_state": 0}
fresh, _, known = make_bandit_logs(
    20_000, **world, random_state=10_000, return_truth=True
)
best = known.expected_rewards.max(axis=1).mean()
logger = (fresh.logging_proba * known.expected_rewards).sum(axis=1).mean()

# %%
# True values
# -----------
#
# Each learner learns from logs of several sizes. Its policy is evaluated on 20,000 new
# contexts, by the true mean reward of every action.

values = []
for n_rounds in SIZES:
    for seed in range(n_logs):
        logs = make_bandit_logs(n_rounds, **world, random_state=seed)
        for learner in LEARNERS.values():
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", OPEWarning)  # few rounds of an action
                chance = learner.fit(logs).predict_proba(fresh.context)
            values.append((chance * known.expected_rewards).sum(axis=1).mean())
values = np.reshape(values, (len(SIZES), n_logs, len(LEARNERS)))
mean = values.mean(axis=1)
error = values.std(axis=1, ddof=1) / np.sqrt(n_logs)

print(f"the logger earns {logger:.3f} per round, the best policy {best:.3f}")
print(f"{'rounds':>8}" + "".join(f"{name:>20}" for name in LEARNERS))
for n_rounds, m, e in zip(SIZES, mean, error, strict=True):
    cells = (f"{x:12.3f} ({y:.3f})" for x, y in zip(m, e, strict=True))
    print(f"{n_rounds:8,}" + "".join(cells))

figure, ax = plt.subplots(figsize=(8, 3.6), layout="constrained")
for k, (name, mark) in enumerate(zip(LEARNERS, "os^", strict=True)):
    ax.errorbar(SIZES, mean[:, k], 2 * error[:, k], marker=mark, label=name)
ax.axhline(best, color="#009E73", label="best policy")
ax.axhline(logger, color="#666666", linestyle="--", label="logger")
ax.set(xscale="log", xlabel="logged rounds", ylabel="true value")
ax.set_xticks(SIZES, [f"{n:,}" for n in SIZES])
ax.legend(loc="upper left", bbox_to_anchor=(1, 1))

# %%
# What to do
# ----------
#
# With fifty rounds every learner is better than this logger. Beyond a few hundred, more
# rounds gain little. Learners differ less than 50 and 800 rounds do. So learn early,
# keep some exploration, and learn again.

assert (mean[1] - 4 * error[1] > logger).all()
assert (mean[-1] - mean[0] > 3 * error[0]).all()
assert (mean[-1] > best - 0.25 * (best - logger)).all()
plt.show()
