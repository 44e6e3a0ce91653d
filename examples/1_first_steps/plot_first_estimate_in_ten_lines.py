# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
# sphinx_gallery_thumbnail_number = -1
"""
How good would another policy have been? Ten lines
==================================================

A system logs its decisions: what it knew, what it did, with what probability, and the
result. How good would *another* policy have been? This script answers from the log
alone, and says how certain the answer is.

We know the true answer here. An old reader sorts handwritten digits into ten bins, and
is often wrong. The log shows whether the chosen bin was right, and nothing about the
other nine.
"""

# %%
# A log
# -----
#
# The old reader learned from 100 digits only, and tries a random bin in a fifth of the
# cases. Without such exploration the log says nothing about other policies.
# `make_logs_from_classification` lets it act on the other digits. Your own logs come
# from a table: ``BanditLogs.from_frame(frame, action="bin", reward="right",
# propensity="p", context=[...])``.

import numpy as np
from sklearn.datasets import load_digits

from skope_ope import ClassifierPolicy
from skope_ope.datasets import make_logs_from_classification

X, y = load_digits(return_X_y=True)
X = X / 16  # grey levels from 0 to 1
old = ClassifierPolicy(epsilon=0.2, temperature=1.0).fit(X[:100], y[:100])
logs, rewards = make_logs_from_classification(
    X[100:], y[100:], logging=old, random_state=0
)
print(logs)
print(f"the old reader is right in {logs.reward.mean():.0%} of the cases")

# %%
# Ten lines
# ---------
#
# A new policy learns from half of the log, and we evaluate it on the other half. Never
# evaluate a policy on the rounds that it learned from. `evaluate` shows four evaluators
# with their standard errors and intervals, and recommends one of them.

from sklearn.linear_model import Ridge
from sklearn.model_selection import train_test_split

from skope_ope import evaluate

train, test, _, test_rewards = train_test_split(
    logs, rewards, test_size=0.5, random_state=0
)
new = ClassifierPolicy(epsilon=0.05).fit(train)
table = evaluate({"new": new, "old": old}, test, reward_model=Ridge())
print(table)

# %%
# What it says
# ------------
#
# **Read the row marked "recommended".** A written rule chooses it. The rule uses what
# the log contains, here propensities, and never the values. The other rows show how
# much depends on the choice.
#
# IPS weights every logged reward. The weight says how much likelier the new policy
# takes the logged action than the old one. SNIPS divides by the sum of these weights.
# The doubly robust estimator predicts the rewards by a model, and adds the weighted
# errors of the predictions. It is right for any model, and more precise if the model is
# good. SNDR is its self-normalised form.
#
# You can name others. The direct method uses the model alone, and DRos, which shrinks
# large weights, uses it more. Both are marked: their intervals are narrow and ignore a
# bias of these evaluators.

names = ["IPS", "DoublyRobust", "DirectMethod", "DRos"]
table = evaluate({"new": new, "old": old}, test, evaluators=names, reward_model=Ridge())
print(table)

# %%
# The rewards of all ten bins are known here, so the truth is, too.

from skope_ope.policies import action_probabilities

truth = {
    name: (action_probabilities(policy, test) * test_rewards).sum(axis=1).mean()
    for name, policy in {"new": new, "old": old}.items()
}
table.plot(truth=truth)

# %%
# The direct method has the narrowest interval and the largest error. Its model has seen
# few rewards of the bins that only the new policy chooses. DRos has a part of this
# error. Intervals that contain the truth are wider. (For the old policy, which made the
# log, all weights are one, and the evaluators agree.)
#
# Is it better?
# -------------
#
# Both values come from the same rounds, so common errors cancel in their difference.
# Subtracting two values gives the paired difference with its own interval. Its standard
# error is smaller than that of values from two logs.

new_value, old_value = table["new", "DoublyRobust"], table["old", "DoublyRobust"]
gain = new_value - old_value
from_two_logs = np.hypot(new_value.standard_error, old_value.standard_error)
low, high = gain.confidence_interval()
print(f"gain {gain.value:.3f}, 95% interval {low:.3f} to {high:.3f}")
print(f"standard error {gain.standard_error:.4f}, of two logs {from_two_logs:.4f}")
print(f"true gain {truth['new'] - truth['old']:.3f}")

# %%
# The script checks these statements at its end.

assert table.recommended == "DoublyRobust"
assert all(table["new", name].leaves_bias_out for name in ("DirectMethod", "DRos"))
low, high = new_value.confidence_interval()
assert low < truth["new"] < high
assert table["new", "DirectMethod"].confidence_interval()[1] < truth["new"]
assert new_value.standard_error < table["new", "IPS"].standard_error
assert gain.standard_error < from_two_logs
assert gain.confidence_interval()[0] > 0
