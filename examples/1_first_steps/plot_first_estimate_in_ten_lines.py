# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
# sphinx_gallery_thumbnail_number = -1
"""
How good would another policy have been? Ten lines
==================================================

A system that decides writes a log: what it knew, what it did, with what probability,
and what came of it. This script answers from such a log alone how good *another* policy
would have been, and how sure that is.

The log is of a kind whose true answer we know: handwritten digits, sorted into ten bins
by an old reader that is often wrong. The log shows whether the bin it chose was right,
and nothing about the other nine.
"""

# %%
# A log
# -----
#
# The old reader learned from 100 digits only, and tries a bin at random in a fifth of
# the cases: without such exploration no log could say anything about another policy.
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
# Half of the log teaches a new policy, the other half evaluates it: a policy is never
# evaluated on the rounds it learned from. `evaluate` shows what four evaluators say,
# all of them with their standard errors and intervals, and recommends one of them.

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
# **The row to read is the one marked "recommended"**: it was chosen by a written rule
# that looks at what the log holds, here propensities, and never at the values. The
# others stand beside it to show how much depends on the choice.
#
# IPS weighs every logged reward by how much likelier the new policy takes the logged
# action than the old one did; SNIPS divides by the sum of these weights. The doubly
# robust estimator lets a model predict the rewards, and adds the weighted rewards that
# the model did not expect: it is right whatever the model, and surer where the model is
# good. SNDR is its self-normalised form.
#
# Others come when they are named. The direct method believes the model, and DRos, which
# shrinks large weights, leans on it. Both are marked: their intervals are narrow and
# leave out a bias that these evaluators have by design.

names = ["IPS", "DoublyRobust", "DirectMethod", "DRos"]
table = evaluate({"new": new, "old": old}, test, evaluators=names, reward_model=Ridge())
print(table)

# %%
# The rewards of all ten bins are known here, so the truth is, too.

from skope_ope import action_probabilities

truth = {
    name: (action_probabilities(policy, test) * test_rewards).sum(axis=1).mean()
    for name, policy in {"new": new, "old": old}.items()
}
table.plot(truth=truth)

# %%
# The direct method is surest and furthest off: its model has seen few rewards of the
# bins that only the new policy chooses. DRos leans towards the model and shares a part
# of its error. Intervals that reach the truth cost width. (On the old policy, which
# wrote the log, all weights are one and there is little to disagree about.)
#
# Is it better?
# -------------
#
# Both values come from the same rounds, and errors that they share cancel in their
# difference. Subtracting two values gives the paired difference with an interval of its
# own, and a standard error smaller than that of values from two logs.

new_value, old_value = table["new", "DoublyRobust"], table["old", "DoublyRobust"]
gain = new_value - old_value
from_two_logs = np.hypot(new_value.standard_error, old_value.standard_error)
low, high = gain.confidence_interval()
print(f"gain {gain.value:.3f}, 95% interval {low:.3f} to {high:.3f}")
print(f"standard error {gain.standard_error:.4f}, of two logs {from_two_logs:.4f}")
print(f"true gain {truth['new'] - truth['old']:.3f}")

# %%
# What this script shows holds, or it would not run to its end.

assert table.recommended == "DoublyRobust"
assert all(table["new", name].leaves_bias_out for name in ("DirectMethod", "DRos"))
low, high = new_value.confidence_interval()
assert low < truth["new"] < high
assert table["new", "DirectMethod"].confidence_interval()[1] < truth["new"]
assert new_value.standard_error < table["new", "IPS"].standard_error
assert gain.standard_error < from_two_logs
assert gain.confidence_interval()[0] > 0
