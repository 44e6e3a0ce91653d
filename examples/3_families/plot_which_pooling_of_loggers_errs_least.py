# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
# sphinx_gallery_thumbnail_number = -1
"""
Which way to pool several loggers has the smallest error?
=========================================================

Most logs come from several systems. :class:`~skope_ope.MultiLoggerIPS` and
:class:`~skope_ope.MultiLoggerDR` pool the rounds in three ways. "naive" divides by the
propensity of the logger that acted, and "balanced" by that of the mixture of all
loggers. "weighted" is naive with one weight per logger. You can also keep the rounds of
one logger, and drop the others.

Here the loggers are classifiers of handwritten digits, so the value of the policy is
known. Four mixes of loggers, of equal and unequal sizes, are each drawn many times.
``--full`` draws 400 logs of each, which takes about a minute and a half of CPU.
"""

import argparse
import warnings

import matplotlib.pyplot as plt
import numpy as np
from _digits import Digits, Part, in_errors, rmse
from sklearn.linear_model import Ridge
from sklearn.model_selection import KFold

from skope_ope import MultiLoggerDR, MultiLoggerIPS, evaluate
from skope_ope.exceptions import OPEWarning

parser = argparse.ArgumentParser(allow_abbrev=False)
parser.add_argument("--full", action="store_true", help="400 logs of each mix")
parser.add_argument("--n-logs", type=int, help="logs of each mix; default 80")
args = parser.parse_known_args()[0]
n_logs = args.n_logs or (400 if args.full else 80)

# %%
# Loggers
# -------
#
# An action is one of six digits. It is rewarded with probability 0.8 if it is right and
# 0.2 otherwise. The old system learned from 15 images only. The sharp one rarely
# explores. A trial of random actions in 5% of the rounds does. Two specialists know the
# even or the odd digits and guess the others.

digits = Digits(n_actions=6)
new, old = digits.system(300, 1, 0.05), digits.system(15, 3, 0.1)
uniform = np.full_like(new, 1 / digits.n_actions)
even = (digits.labels % 2 == 0)[:, None]
policy = digits.system(500, 2, 0.05)
truth = (policy * digits.mean_reward).sum(axis=1).mean()

MIXES = {  # in the order of time
    "two of a kind": [Part(digits.system(250, 1, 0.05), 500), Part(new, 500)],
    "old, then new": [Part(old, 800), Part(new, 200)],
    "sharp, and a trial": [Part(digits.system(15, 6, 0.02), 950), Part(uniform, 50)],
    "two specialists": [
        Part(np.where(even, new, uniform), 500),
        Part(np.where(even, uniform, new), 500),
    ],
}

# %%
# Ways to pool
# ------------
#
# Self-normalised estimates (SN) divide by the sum of the weights. The doubly robust
# ones (DR) have a regression per action, cross-fitted in two folds. The rounds are in
# the order of time, first one logger, then the other. ``cv=2`` puts half of the rounds
# of each logger into each fold. Your own splitter is used as it is: with two folds by
# time, the folds have different loggers.

POOLINGS = ("naive", "balanced", "weighted")


def doubly_robust(pooling, cv=2):
    """Return the evaluator with the model that all of them share."""
    return MultiLoggerDR(pooling=pooling, reward_model=Ridge(10.0), cv=cv)


BY_TIME, ALONE = "DR balanced, folds by time", "DR, the better logger alone"
EVALUATORS = {
    **{f"IPS {p}": MultiLoggerIPS(pooling=p) for p in POOLINGS},
    **{f"SN {p}": MultiLoggerIPS(pooling=p, self_normalized=True) for p in POOLINGS},
    **{f"DR {p}": doubly_robust(p) for p in POOLINGS},
    BY_TIME: doubly_robust("balanced", KFold(2)),
}
results = {}
for name, parts in MIXES.items():
    rng = np.random.RandomState(1)
    values, alone = [], []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", OPEWarning)  # far loggers, rare actions
        for _ in range(n_logs):
            logs, image = digits.draw(parts, rng)
            table = evaluate(policy[image], logs, evaluators=EVALUATORS)
            values.append([value.value for value in table.values()])
            by_logger = table["DR naive"].by("logger")
            alone.append([by_logger[k].value for k in range(len(parts))])
    errors, alone = (np.array(found).T - truth for found in (values, alone))
    results[name] = dict(zip(EVALUATORS, errors, strict=True))
    results[name][ALONE] = min(alone, key=lambda error: (error**2).mean())

# %%
# Errors
# ------

print(f"rmse and 95% interval over {n_logs} logs; the policy is worth {truth:.3f}")
print(f"{'':28}" + "".join(f"{name:>20}" for name in MIXES))
for way in [*EVALUATORS, ALONE]:
    cells = [rmse(results[name][way]) for name in MIXES]
    print(f"{way:28}" + "".join(f"{v:12.4f} ±{half:.4f}" for v, half in cells))
print("\nbias, and the same in its standard errors")
for way in ("DR balanced", BY_TIME):
    found = [results[name][way] for name in MIXES]
    line = "".join(f"{e.mean():+14.4f}{in_errors(e):+6.1f}" for e in found)
    print(f"{way:28}{line}")

# %%
# What to do
# ----------
#
# "balanced" is never worse than "naive" by more than chance, in any mix. It is much
# better if the loggers differ: if one is far from the policy, and most if each is near
# it in other contexts. "weighted" is better than "naive" if one logger is bad as a
# whole (but not if self-normalised). It gains less than "balanced", and nothing with
# the specialists. Dropping a logger is worse than pooling in every mix, also if the
# better one is kept.
#
# A control variate gains about as much as pooling does. Self-normalisation costs
# nothing and has the smallest errors here, because the regressions learn from few
# rounds per action.
#
# A balanced estimate needs one model for all loggers. The model's value is subtracted
# in the rounds of one logger and added in those of the other. With folds by time the
# loggers have different models. Then the estimate is biased, most for the specialists.

figure, ax = plt.subplots(figsize=(8, 4), layout="constrained")
shown = ["IPS naive", "IPS balanced", "SN balanced", "DR balanced", BY_TIME, ALONE]
for k, way in enumerate(shown):
    value, half = np.array([rmse(results[name][way]) for name in MIXES]).T
    place = np.arange(len(MIXES)) + 0.1 * k - 0.25
    ax.errorbar(place, value, half, fmt="o", ms=4, label=way)
ax.set_xticks(range(len(MIXES)), MIXES)
ax.set(ylabel="rmse and 95% interval", yscale="log")
ax.legend(loc="upper left", bbox_to_anchor=(1, 1), fontsize=8)


def worse(way, other):
    """Return how much worse a way is over all mixes, in standard errors."""
    squares = [
        (found[way] ** 2 - found[other] ** 2) / (found[other] ** 2).mean()
        for found in results.values()
    ]
    return in_errors(np.concatenate(squares))


assert worse("IPS naive", "IPS balanced") > 2
assert worse("DR naive", "DR balanced") > 2
assert worse("IPS balanced", "SN balanced") > 2
assert worse("IPS balanced", "DR balanced") > 2
assert worse(ALONE, "DR balanced") > 2
assert in_errors(results["two specialists"][BY_TIME]) > 2
assert all(abs(in_errors(results[name]["DR balanced"])) < 4 for name in MIXES)

plt.show()
