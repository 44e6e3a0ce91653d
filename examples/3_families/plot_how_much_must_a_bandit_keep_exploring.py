# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
# sphinx_gallery_thumbnail_number = -1
"""
How much must a bandit keep exploring?
======================================

A bandit algorithm earns more if it soon stops trying bad actions. Then its log says
less about them. What does exploration cost, and what does it bring?

The bandit is simulated. One action earns 0.6 per round, the other one 0.4.
"""

# %%
# The exponent of the floor
# -------------------------
#
# In round t every action keeps a probability of at least :math:`t^{-a} / 2`. With a = 0
# the logger stays uniform. With a = 0.9 the worse action has a probability of one in a
# thousand after 1,000 rounds.
#
# The question is: how much more does the better action earn?
# :class:`~skope_ope.AdaptiveDR` answers it, because the logger learned.

import argparse
import warnings

import matplotlib.pyplot as plt
import numpy as np

from skope_ope import AdaptiveDR, ConstantPolicy
from skope_ope.datasets import make_adaptive_logs
from skope_ope.exceptions import OPEWarning

parser = argparse.ArgumentParser(allow_abbrev=False)
parser.add_argument("--n-logs", type=int, default=40, help="logs of each exponent")
n_logs = parser.parse_known_args()[0].n_logs
EXPONENTS, MEANS, N_ROUNDS = (0.0, 0.25, 0.5, 0.75, 0.9), (0.6, 0.4), 1000

lost, gains, halves = [], [], []
for exponent in EXPONENTS:
    for seed in range(n_logs):
        logs = make_adaptive_logs(
            N_ROUNDS, means=MEANS, floor_decay=exponent, random_state=seed
        )
        evaluator = AdaptiveDR(weighting="two_point", floor_decay=exponent)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", OPEWarning)  # propensities near zero
            evaluator.fit(logs)
            better, worse = (evaluator.evaluate(ConstantPolicy(k)) for k in (0, 1))
        errors = np.array([better.standard_error, worse.standard_error])
        lost.append((logs.action == 1).mean() * (MEANS[0] - MEANS[1]))
        gains.append(better.value - worse.value)
        halves.append(1.96 * np.sqrt((errors**2).sum()))
shape = len(EXPONENTS), n_logs
lost, gains, halves = (np.reshape(found, shape) for found in (lost, gains, halves))
rmse = np.sqrt(((gains - (MEANS[0] - MEANS[1])) ** 2).mean(axis=1))
cost = lost.mean(axis=1)

# %%
# Cost and benefit
# ----------------

print(f"{n_logs} logs of {N_ROUNDS:,} rounds")
print("exponent    loss/round  mean gain  rmse of the gain")
for row in zip(EXPONENTS, cost, gains.mean(axis=1), rmse, strict=True):
    print("{:8g}{:14.4f}{:11.3f}{:18.4f}".format(*row))

figure, ax = plt.subplots(figsize=(6.4, 3.6), layout="constrained")
ax.plot(cost, rmse, "o-", color="#0072B2")
for exponent, x, y in zip(EXPONENTS, cost, rmse, strict=True):
    ax.annotate(f"a = {exponent:g}", (x, y), (6, 6), textcoords="offset points")
ax.set(xlabel="loss of reward per round", ylabel="rmse of the estimated gain")
ax.margins(0.15)

# %%
# What to do
# ----------
#
# Keep a floor. With an exponent of about one half, the bandit loses a fraction of what
# a uniform logger loses. The log still tells the actions apart. With a larger exponent,
# a little more reward makes the answer much less certain.

middle = EXPONENTS.index(0.5)
assert cost[middle] < cost[0] / 2
assert rmse[middle] < rmse[-1]
assert abs(gains[middle].mean() - 0.2) < 4 * gains[middle].std() / np.sqrt(n_logs)
plt.show()
