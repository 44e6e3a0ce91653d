# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
# sphinx_gallery_thumbnail_number = -1
"""
How good would another rule have been for a shop?
=================================================

A shop draws one of three offers for every visitor and records its probability. Would a
rule that uses what is known about the visitor have sold more? Use an export of your
database instead of the table below. It needs a column for the offer, one for the
result, one for the probability of the offer, and what was known about the visitor.
"""

# %%
# Ten lines
# ---------
#
# One half of the visits teaches the new rule, and the other half evaluates it.

# start of the ten lines
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.model_selection import train_test_split

from skope_ope import BanditLogs, RewardModelPolicy, report
from skope_ope.datasets import make_shop_frame

visits = make_shop_frame(40_000, random_state=0)  # yours: pandas.read_csv("shop.csv")
columns = {"action": "offer", "reward": "bought", "propensity": "p"}
logs = BanditLogs.from_frame(visits, **columns, context=["age", "visits", "mobile"])
train, test = train_test_split(logs, test_size=0.5, random_state=0)
model = HistGradientBoostingRegressor(max_iter=50, max_leaf_nodes=7)
decision = report({"new rule": RewardModelPolicy(model).fit(train)}, test)
print(decision)
display = decision.comparison.plot()  # the picture
# end of the ten lines

# %%
# ``report`` checks the log, compares the rule with the shop as it was, and says what to
# do. The picture shows the gain over the shop as it was, with its interval. The line at
# zero means "no better". The interval is to the right of it.
#
# What is the truth?
# ------------------
#
# The shop is simulated, so the truth is known.

import numpy as np

visits, truth = make_shop_frame(40_000, random_state=0, return_truth=True)
rows = np.arange(len(logs))
_, test_rows = train_test_split(rows, test_size=0.5, random_state=0)
new_rule = RewardModelPolicy(model).fit(train)
rewards = truth.expected_rewards[test_rows]
new = (new_rule.predict_proba(test.context) * rewards).sum(axis=1).mean()
old = (truth.logging_proba[test_rows] * rewards).sum(axis=1).mean()
print(f"the new rule sells to {new:.4f} of the visitors, the shop to {old:.4f}")

# %%
# The script checks these statements at its end.

low, high = decision.comparison.differences["new rule"].confidence_interval()
assert decision.decision == "deploy" and not decision.alarms
assert low < new - old < high
