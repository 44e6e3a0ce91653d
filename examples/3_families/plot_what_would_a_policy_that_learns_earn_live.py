# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
# sphinx_gallery_thumbnail_number = -1
"""
What would a policy that learns earn live?
==========================================

A bandit chooses among four headlines and learns from the clicks. Its early mistakes
cost clicks. What would it earn over its first 200 visitors, mistakes included?

The log was made by another rule, which shows the best headline once in ten visits.
:class:`~skope_ope.DRns` keeps rounds of the log in which the bandit might have done the
same. 200 kept rounds are one life of the bandit; then it starts anew. The page
:ref:`start_learner` explains the steps.
"""

import matplotlib.pyplot as plt
import numpy as np

from skope_ope import BanditLogs, DRns, EpsilonGreedy
from skope_ope.displays import HistoryDisplay

HORIZON = 200
click_rates = np.array([0.05, 0.10, 0.15, 0.30])
shares = np.array([0.4, 0.3, 0.2, 0.1])  # what the rule in use shows

# %%
# The log
# -------

rng = np.random.RandomState(1)
shown = rng.choice(4, size=40_000, p=shares)
clicked = rng.random_sample(len(shown)) < click_rates[shown]
log = BanditLogs(
    np.zeros((len(shown), 1)), shown, clicked, shares[shown], reward_range=(0, 1)
)
print(f"the rule in use: {log.reward.mean():.3f} clicks a visit")

# %%
# The estimate
# ------------
#
# The evaluator has another seed than the log: with the same one both would draw the
# same random numbers.

bandit = EpsilonGreedy(epsilon=0.2)
value = DRns(q=0.05, horizon=HORIZON, random_state=7).fit(log).evaluate(bandit)
low, high = value.confidence_interval()
print(f"the bandit: {value.value:.3f} ({low:.3f} to {high:.3f})")
print(f"trajectories: {value.diagnostics['n_trajectories']}")
print(f"bias mass: {value.diagnostics['bias_mass']:.3f}")

# %%
# The truth
# ---------
#
# The click rates are known here, so the bandit can live 300 times.


def live(policy, rng):
    policy.reset(log[:0])
    clicks = 0
    for _ in range(HORIZON):
        p = policy.predict_proba(np.zeros((1, 1)))[0]
        action = rng.choice(4, p=p)
        click = rng.random_sample() < click_rates[action]
        policy.update(None, action, click, p[action])
        clicks += click
    return clicks / HORIZON


rng = np.random.RandomState(2)
truth = np.mean([live(EpsilonGreedy(epsilon=0.2), rng) for _ in range(300)])
print(f"300 lives: {truth:.3f}")

# %%
# The picture
# -----------
#
# The kept rounds grow evenly: the log lasts for all of the bandit's lives. The value
# settles near the truth as lives are added. A ratio that falls early, or a value that
# still moves at the end, would ask for a longer log.

display = HistoryDisplay.from_values(value).plot()
display.figure_.set_layout_engine("constrained")
display.axes_[-1].axhline(truth, color="#009E73", linestyle="--", label="truth")
_ = display.axes_[-1].legend(loc="upper left", bbox_to_anchor=(1.01, 1))
plt.show()
