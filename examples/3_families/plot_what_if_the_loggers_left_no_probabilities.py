# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
# sphinx_gallery_thumbnail_number = -1
"""
What if the probabilities of several loggers are missing?
=========================================================

Two systems acted one after the other. The log says which one acted, but not with what
probability. Can you estimate the probabilities from the log, and what must the log
contain?

The systems recognise handwritten digits, so the value of the new policy is known.
"""

# %%
# Three ways
# ----------
#
# - *recorded*: the log has the probabilities of both loggers.
# - *estimated*: :class:`~skope_ope.propensities.LoggerPropensityEstimator` fits each
#   logger by itself, from the 16 numbers that the log has of an image.
# - *columns missing*: the same, but the log has only two of these numbers. The loggers
#   used more than the log contains.
#
# All of them use :class:`~skope_ope.MultiLoggerIPS`, balanced and self-normalised.

import argparse
import warnings
from dataclasses import replace

import matplotlib.pyplot as plt
import numpy as np
from _digits import Digits, Part, in_errors
from sklearn.linear_model import LogisticRegression

from skope_ope import MultiLoggerIPS
from skope_ope.exceptions import OPEWarning
from skope_ope.propensities import LoggerPropensityEstimator

parser = argparse.ArgumentParser(allow_abbrev=False)
parser.add_argument("--n-logs", type=int, default=30, help="logs that are drawn")
n_logs = parser.parse_known_args()[0].n_logs

digits = Digits(n_actions=4)
parts = [
    Part(digits.system(15, 1, 0.3), 1000),  # has learned from 15 images
    Part(digits.system(300, 1, 0.3), 1000),
]
policy = digits.system(500, 2, 0.05)
truth = (policy * digits.mean_reward).sum(axis=1).mean()
step = LoggerPropensityEstimator(LogisticRegression(max_iter=500))
evaluator = MultiLoggerIPS(pooling="balanced", self_normalized=True)


def values_of(logs, image):
    """Return the value of the policy by each way."""
    unknown = logs.replace(logger_proba=None, propensity=None)
    ways = {
        "recorded": logs,
        "estimated": step.fit_transform(unknown),
        "columns missing": step.fit_transform(
            replace(unknown, context=logs.context[:, :2])
        ),
    }
    return {
        name: evaluator.fit(one).evaluate(policy[image]).value
        for name, one in ways.items()
    }


rng, found = np.random.RandomState(0), []
for _ in range(n_logs):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", OPEWarning)  # far loggers
        found.append(values_of(*digits.draw(parts, rng)))
errors = {name: np.array([one[name] for one in found]) - truth for name in found[0]}

# %%
# Errors
# ------

print(f"the policy is worth {truth:.3f}; {n_logs} logs of 2,000 rounds")
print(f"{'propensities':16}{'bias':>9}{'in its errors':>15}{'rmse':>9}")
rmse = {name: np.sqrt((error**2).mean()) for name, error in errors.items()}
for name, error in errors.items():
    print(f"{name:16}{error.mean():+9.4f}{in_errors(error):+15.1f}{rmse[name]:9.4f}")

figure, ax = plt.subplots(figsize=(6.4, 3), layout="constrained")
for k, error in enumerate(errors.values()):
    ax.plot(error, k + np.linspace(-0.2, 0.2, n_logs), "o", ms=4)
ax.axvline(0, color="black", linewidth=0.8)
ax.set_yticks(range(len(errors)), errors)
ax.set(xlabel="estimated less true value, one dot a log")

# %%
# What to do
# ----------
#
# Record probabilities. If you did not, you need the name of the logger in every round
# and all that the loggers used. Then estimated probabilities are as good as recorded
# ones. If the log lacks something that they used, the value has a bias, and its
# interval ignores it.

assert abs(in_errors(errors["recorded"])) < 4
assert rmse["estimated"] < 1.5 * rmse["recorded"]
assert abs(in_errors(errors["columns missing"])) > 4
assert rmse["columns missing"] > 1.3 * rmse["estimated"]
plt.show()
