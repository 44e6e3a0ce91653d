# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""
A whole analysis: which offer should a shop show, and to whom?
==============================================================

A shop draws one of three offers for every visitor. Somebody has to decide whether a
rule that looks at the visitor replaces the draw. This notebook goes all the way: it
checks the log, tunes a rule, evaluates it, looks for whom it works, asks what could be
wrong, and ends with a decision. The shop is made, so the last section can tell whether
the decision is right.
"""

# %%
# The table
# ---------
#
# A row is a visit. `offer` is what was shown, `bought` is what came of it, and `p` is
# the probability with which the shop drew this offer. The other columns were known
# before the draw. Yours comes from ``pd.read_csv``.

# sphinx_gallery_thumbnail_number = -1

import tempfile
import textwrap
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.model_selection import GridSearchCV, train_test_split

from skope_ope import (
    BanditLogs,
    ConstantPolicy,
    DoublyRobust,
    FunctionPolicy,
    PolicyScorer,
    RewardModelPolicy,
    audit,
    compare_policies,
    evaluate,
    report,
    suggest,
    verdict,
)
from skope_ope.datasets import make_shop_frame
from skope_ope.displays import PolicyValueDisplay, SensitivityDisplay, WeightsDisplay
from skope_ope.policies import action_probabilities
from skope_ope.selection import rounds_needed

visits, truth = make_shop_frame(40_000, random_state=0, return_truth=True)
visits["age group"] = np.select(
    [visits["age"] < 35, visits["age"] < 55], ["18 to 34", "35 to 54"], "55 and more"
)
visits.head()

# %%
# How often was each offer shown, and how often did it sell?

visits.groupby("offer")["bought"].agg(visits="size", bought="mean").round(4)

# %%
# These means do not answer the question. The shop shows the coupon more often to people
# who come often, and they buy more often anyway. The logs know the probabilities of the
# draws, so what follows corrects for that.

roles = {"action": "offer", "reward": "bought", "propensity": "p"}
known = {
    "context": ["age", "visits", "mobile"],
    "columns": ["age group"],
    "reward_range": (0, 1),
}
logs = BanditLogs.from_frame(visits, **roles, **known)
logs

# %%
# Is the log sound?
# -----------------
#
# The audit compares the recorded probabilities with what was logged, and looks for
# repeated rounds, leaks and drift.

logs.audit()

# %%
# It raises no alarm. So that you know what an alarm looks like, here are two accidents
# that happen. In the first, the probabilities are lost, and somebody fills in 1/3.

BanditLogs.from_frame(visits.assign(p=1 / 3), **roles, **known).audit()

# %%
# In the second, a column that is written after the sale gets into the context.

paid = np.random.RandomState(0).uniform(5, 80, len(visits)).round(2)
more = {**known, "context": ["age", "visits", "mobile", "amount"]}
with_amount = visits.assign(amount=visits["bought"] * paid)
leaky = BanditLogs.from_frame(with_amount, **roles, **more)
for alarm in leaky.audit().alarms:
    print(alarm.found)

# %%
# A rule that is tuned
# --------------------
#
# One half of the visits teaches the rules, and the other half is kept for the
# evaluation. The rule shows the offer that a model expects to sell best. A grid search
# chooses the size of the model by the value of the rule on held-out visits:
# `skope_ope.PolicyScorer` estimates it.

train, test, _, test_rows = train_test_split(
    logs, np.arange(len(logs)), test_size=0.5, random_state=0
)
search = GridSearchCV(
    RewardModelPolicy(HistGradientBoostingRegressor(random_state=0)),
    {
        "reward_model__max_iter": [10, 40],
        "reward_model__max_leaf_nodes": [3, 7],
    },
    scoring=PolicyScorer(DoublyRobust()),
    cv=3,
)
search.fit(train)

# %%
# The scores of the four candidates lie close together. The best one is the best of
# several, so its score flatters it. The half that was kept tells its value.

scores = pd.DataFrame(search.cv_results_["params"])
scores.columns = ["trees", "leaves"]
scores["value"] = search.cv_results_["mean_test_score"]
scores.sort_values("value", ascending=False).round(4)

# %%
# The rules to compare: the tuned one, a rule of thumb that somebody in the shop has
# proposed, and one offer for everybody.

coupon, shipping = 0, 2  # places in logs.actions, which are sorted


def by_thumb(X):
    """Return the probability of each offer: a coupon or free shipping, by age."""
    return np.eye(3)[np.where(X["age"] < 45, coupon, shipping)]


policies = {
    "tuned": search.best_estimator_,
    "coupon if age < 45": FunctionPolicy(by_thumb),
    "coupon for all": ConstantPolicy("coupon"),
}

# %%
# What fits this log?
# -------------------
#
# `skope_ope.suggest` reads the log and says which evaluator fits, and why. It
# estimates nothing, so that you cannot choose by the answer.

suggest(policies["tuned"], test)

# %%
# The values
# ----------
#
# Each value is the share of visitors that would have bought, had the rule chosen.

table = evaluate(policies, test)
table

# %%
# The evaluators agree on each rule. That is what you hope to see: they fail in
# different ways.

display = table.plot()

# %%
# Can the value be acted on? The verdict puts together what the value and the audit of
# log and rule know. It also lists what no data can tell.

value = table["tuned", "DoublyRobust"]
verdict(value, audit=audit(policies["tuned"], test))

# %%
# The weights say on what the value rests. Few visits with huge weights would make it
# fragile. Here no visit counts for more than five.

evaluator = DoublyRobust().fit(test)
display = WeightsDisplay.from_evaluator(evaluator, policies["tuned"])
display = display.plot(panels="shares")

# %%
# For whom does it work?
# ----------------------
#
# The same value, for every age group.

by_age = value.by("age group")
display = PolicyValueDisplay.from_values(by_age).plot()
display.ax_.set(title="the tuned rule, by age")
for group, one in by_age.items():
    low, high = one.confidence_interval()
    print(f"{group:<11}: {one.value:.1%} of the visitors buy ({low:.1%} to {high:.1%})")

# %%
# What if the probabilities are not quite right?
# ----------------------------------------------
#
# Suppose that the shop looked at something that the table does not hold. The odds of
# its offers then differ from those recorded by a factor gamma. How large must it be to
# explain the whole gain over the shop as it was?

comparison = compare_policies(policies, test)
weighted = table["tuned", "SNIPS"]
shop = comparison.reference
gamma = weighted.breakdown_gamma(shop)
print(f"a hidden reason would have to move the odds by a factor of {gamma:.2f}")
factors = np.linspace(1, 1.5, 11)
display = SensitivityDisplay.from_values(weighted, gamma=factors, baseline=shop).plot()

# %%
# Here the shop draws by lot with the probabilities in the table, so nothing is hidden.
# For a log with estimated propensities this is the figure to discuss.
#
# The decision
# ------------
#
# Is a rule better than the shop as it was, on the same visits? The intervals of all
# gains hold together, so comparing three rules does not make one look good by chance.

comparison

# %%
# The coupon for all may be better or worse than the shop as it was. How many visits
# would tell, if its gain were at least half a point?

gain = comparison.differences["coupon for all"]
deviation = gain.standard_error * gain.n_rounds**0.5
n_rounds = rounds_needed(0.005, deviation, n_comparisons=len(policies))
print(f"{n_rounds:,.0f} visits would decide; there are {len(test):,}")

# %%
# One page with all of it goes to those who decide.

with tempfile.TemporaryDirectory() as folder:
    page = report(policies, test, Path(folder) / "shop.html", title="Which offer?")
    print(f"{page.path.name}: {page.path.stat().st_size / 1000:,.0f} kB")
print(*textwrap.wrap(page.sentence, 80), sep="\n")

# %%
# What is true
# ------------
#
# The probability of a sale is known here, for every visitor and every offer. The bars
# on the right show the true values.

buys = truth.expected_rewards[test_rows]
old = (truth.logging_proba[test_rows] * buys).sum(axis=1).mean()
true_values = {
    name: (action_probabilities(policy, test) * buys).sum(axis=1).mean()
    for name, policy in policies.items()
}
display = comparison.plot(truth=true_values)
plt.show()

# %%
# What this notebook shows holds, or it would not run to its end.

assert logs.audit().ok
for name, difference in comparison.differences.items():
    low, high = difference.confidence_interval(comparison.level_of_each)
    assert low < true_values[name] - old < high
assert comparison.decision == "deploy"
assert true_values[comparison.choice] - old > 0.01
