# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
# sphinx_gallery_thumbnail_number = -1
"""
When is the model alone better?
===============================

A reward model predicts what every action would have earned.
:class:`~skope_ope.DirectMethod` uses the model alone. :class:`~skope_ope.DoublyRobust`
corrects it by the rewards of the log, with importance weights. The correction removes
the error of the model, and adds the noise of the weights. When does it help?

The logs are simulated, so the value of the policy is known.
"""

# %%
# Worlds and models
# -----------------
#
# The loggers are softmaxes. A smaller temperature means less exploration and larger
# weights. One model is a logistic regression for every action, which is of the right
# form here. The other one predicts the mean reward of all rounds.

import argparse
import warnings

import matplotlib.pyplot as plt
import numpy as np
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LogisticRegression

from skope_ope import DirectMethod, DoublyRobust, evaluate
from skope_ope.datasets import make_bandit_logs
from skope_ope.exceptions import OPEWarning

parser = argparse.ArgumentParser(allow_abbrev=False)
parser.add_argument("--n-logs", type=int, default=30, help="logs of each logger")
n_logs = parser.parse_known_args()[0].n_logs

TEMPERATURES = (4.0, 1.0, 0.6, 0.4)
MODELS = {"right model": LogisticRegression(), "no model": DummyClassifier()}
EVALUATORS = {
    f"{kind.__name__}, {name}": kind(reward_model=model)
    for name, model in MODELS.items()
    for kind in (DirectMethod, DoublyRobust)
}

errors, effective = [], []
for temperature in TEMPERATURES:
    for seed in range(n_logs):
        logs, policy, truth = make_bandit_logs(
            800,
            effect=2.0,
            logging_temperature=temperature,
            world_random_state=2,
            random_state=seed,
            return_truth=True,
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", OPEWarning)  # little exploration
            table = evaluate(policy, logs, evaluators=EVALUATORS)
        errors.append([value.value - truth.value for value in table.values()])
        weighted = table["DoublyRobust, no model"]
        effective.append(weighted.effective_sample_size)

errors = np.reshape(errors, (len(TEMPERATURES), n_logs, -1))
effective = np.reshape(effective, (len(TEMPERATURES), n_logs)).mean(axis=1)
rmse = np.sqrt((errors**2).mean(axis=1))

# %%
# Errors
# ------
#
# This is the root mean squared error, for loggers that explore less and less.

print(f"{'temperature':30}" + "".join(f"{t:10g}" for t in TEMPERATURES))
print(f"{'effective rounds of 800':30}" + "".join(f"{n:10.0f}" for n in effective))
for name, line in zip(EVALUATORS, rmse.T, strict=True):
    print(f"{name:30}" + "".join(f"{x:10.4f}" for x in line))

figure, ax = plt.subplots(figsize=(8, 3.6), layout="constrained")
for name, line, mark in zip(EVALUATORS, rmse.T, ("o-", "s-", "o:", "s:"), strict=True):
    ax.plot(effective, line, mark, label=name)
ax.set(xlabel="effective rounds of 800", ylabel="rmse", ylim=(0, None))
ax.legend(loc="upper left", bbox_to_anchor=(1, 1))

# %%
# What to do
# ----------
#
# With a model of the right form, the model alone has the smaller error. The less the
# logger explored, the larger is the difference. Without such a model, its error stays
# the same for any number of rounds, and the correction removes most of it.
#
# A log does not say which of the two cases yours is. With many effective rounds the
# doubly robust value is little worse in the first case and much better in the second:
# use it. With few effective rounds you cannot trust either. Then look at both.


def gain(at, one, other):
    """Return how much smaller an error is, in standard errors."""
    names = list(EVALUATORS)
    size = np.abs(errors[at])
    less = size[:, names.index(other)] - size[:, names.index(one)]
    return less.mean() / (less.std(ddof=1) / np.sqrt(n_logs))


assert gain(-1, "DirectMethod, right model", "DoublyRobust, right model") > 2
assert gain(0, "DoublyRobust, no model", "DirectMethod, no model") > 2
plt.show()
