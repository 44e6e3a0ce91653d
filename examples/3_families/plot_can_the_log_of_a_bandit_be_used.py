# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
# sphinx_gallery_thumbnail_number = -1
"""
Can the log of a bandit be used?
================================

A bandit algorithm learns while it acts. It tries an action less after low rewards, so
the mean reward of an action in its log is too low. Recorded propensities correct the
value, but not the interval. If an action was given up, its few rounds have large
weights, which depend on the first rewards.

Here Thompson sampling chooses between two actions, and one loses. In a second log it
acts in two groups of users. :class:`~skope_ope.AdaptiveDR` evaluates both actions, and
a rule for the two groups, with each of its weightings. ``--full`` draws 1,000 logs,
which takes about three minutes of CPU.
"""

import argparse
import warnings

import matplotlib.pyplot as plt
import numpy as np

from skope_ope import IPS, AdaptiveDR, ConstantPolicy, DoublyRobust, FunctionPolicy
from skope_ope.datasets import make_adaptive_logs
from skope_ope.exceptions import OPEWarning

parser = argparse.ArgumentParser(allow_abbrev=False)
parser.add_argument("--full", action="store_true", help="1,000 logs")
parser.add_argument("--n-logs", type=int, help="number of logs; default 80")
args = parser.parse_known_args()[0]
n_logs = args.n_logs or (1000 if args.full else 80)

# %%
# The algorithm
# -------------
#
# In round t every action keeps a probability of at least :math:`t^{-0.9} / 2`: one in
# a thousand at the end of 1,000 rounds.

FLOOR_DECAY = 0.9
world = {"means": [0.6, 0.3], "floor_decay": FLOOR_DECAY}
users = {"means": [[0.6, 0.4], [0.4, 0.6]], "floor_decay": 0.5}
rule = FunctionPolicy(lambda X: np.eye(2)[X[:, 0].astype(int)])  # right for both groups

# %%
# Ways to evaluate an action
# --------------------------
#
# The first two ignore that the logger learned. "two_point" is for one action and a
# logger that ignores the context. The log of the groups needs ``logger(t, X)``. It
# returns the probabilities that the algorithm would have had in round t for other
# users.

WAYS = {
    "IPS": IPS(),
    "DoublyRobust": DoublyRobust(),
    **{
        f"AdaptiveDR {weighting}": AdaptiveDR(
            weighting=weighting, floor_decay=FLOOR_DECAY
        )
        for weighting in (
            "uniform",
            "cadr",
            "stable_variance",
            "min_variance",
            "two_point",
        )
    },
}
MEAN = "mean of its rewards"


def limits(value, truth):
    """Return error, standard error, and both intervals of a value."""
    student, auto = (value._interval(method=one) for one in ("student", "auto"))
    return value.value - truth, *student, *auto


def mean_of(logs, arm, truth):
    """Return the same of the plain mean reward of an action."""
    mine = logs.reward[logs.action_index == arm]
    half = 1.96 * mine.std(ddof=1) / np.sqrt(len(mine))
    mean = mine.mean()
    return mean - truth, mean - half, mean + half, mean - half, mean + half


CASES = {"the action that wins": 0.6, "the action that loses": 0.3, "a rule": 0.6}
found = {case: {way: [] for way in (MEAN, *WAYS)} for case in CASES}
with warnings.catch_warnings():
    warnings.simplefilter("ignore", OPEWarning)  # an action that is given up
    for log in range(n_logs):
        logs = make_adaptive_logs(1000, **world, random_state=log)
        for arm, (case, truth) in enumerate(list(CASES.items())[:2]):
            found[case][MEAN].append(mean_of(logs, arm, truth))
        for way, evaluator in WAYS.items():
            evaluator.fit(logs)
            for arm, (case, truth) in enumerate(list(CASES.items())[:2]):
                value = evaluator.evaluate(ConstantPolicy(arm))
                found[case][way].append(limits(value, truth))
        logs, about = make_adaptive_logs(
            400, **users, random_state=log, return_truth=True
        )
        for way, evaluator in WAYS.items():
            if way.endswith("two_point"):
                continue  # for one action
            if isinstance(evaluator, AdaptiveDR):
                evaluator = AdaptiveDR(
                    weighting=evaluator.weighting, logger=about.logger
                )
            value = evaluator.fit(logs).evaluate(rule)
            found["a rule"][way].append(limits(value, CASES["a rule"]))

# %%
# Coverage
# --------


def summary(rows, truth):
    """Return bias, rmse, coverage and mean width of both kinds of intervals."""
    error, *ends = np.array(rows).T
    cells = [error.mean(), np.sqrt((error**2).mean())]
    for low, high in (ends[:2], ends[2:]):
        cells += [((low <= truth) & (truth <= high)).mean(), (high - low).mean()]
    return cells


table = {}
print(f"{n_logs} logs; 95% intervals, Student's and auto (the paired gamma)")
for case, truth in CASES.items():
    print(f"\n{case}, worth {truth}")
    print(f"{'':27}    bias    rmse  Student   width     auto   width")
    for way, rows in found[case].items():
        if rows:
            table[case, way] = cells = summary(rows, truth)
            bias, error, *both = cells
            line = f"{bias:+8.4f}{error:8.4f}"
            line += "".join(f"{both[k]:9.3f}{both[k + 1]:8.4f}" for k in (0, 2))
            print(f"{way:27}{line}")

# %%
# What to do
# ----------
#
# The winning action is no problem. For the losing action the mean is too low. With
# equal weights the values are unbiased, but Student's intervals miss the value at least
# about four times too often. Most logs do not contain the rounds with large weights.
#
# The weightings "two_point" and "min_variance" give these rounds less weight. Their
# errors and intervals are little more than half as large. The intervals miss about
# twice too often. The weightings have a bias: that of "min_variance" is nearly that of
# the mean.
#
# State the range of the rewards. The interval "auto" then allows for rounds that were
# not seen. Here it covers with all weightings, and is narrowest with these two. It
# ignores the bias of "min_variance", which is larger if actions are alike. Use
# "two_point". If its conditions do not hold, use "stable_variance".
#
# For a rule that acts like the algorithm at the end, all intervals cover.

loses = "the action that loses"
ways = [way for way in found[loses] if (loses, way) in table]
figure, axes = plt.subplots(1, 2, sharey=True, layout="constrained", figsize=(8, 3.6))
error = 1.96 * np.sqrt(0.95 * 0.05 / n_logs)
for case, marker, color in (
    ("the action that wins", "o", "#666666"),
    (loses, "s", "#0072B2"),
):
    cells = np.array([table[case, way] for way in ways])
    axes[0].plot(cells[:, 2], range(len(ways)), marker, color=color, label=case)
    axes[1].plot(cells[:, 3], range(len(ways)), marker, color=color, label=case)
axes[0].axvspan(0.95 - error, min(0.95 + error, 1), color="#DDDDDD", zorder=0)
axes[0].axvline(0.95, color="#666666", lw=1)
axes[0].set(xlabel="coverage of Student's 95% interval")
axes[1].set(xlabel="its mean width", xlim=(0, None))
axes[0].set_yticks(range(len(ways)), ways)
axes[0].invert_yaxis()
figure.legend(*axes[0].get_legend_handles_labels(), loc="outside upper right", ncols=2)

room = 4 * np.sqrt(0.95 * 0.05 / n_logs)
for case in ("the action that wins", "a rule"):
    for weighting in ("stable_variance", "min_variance"):
        assert table[case, f"AdaptiveDR {weighting}"][2] > 0.95 - room
assert table[loses, "DoublyRobust"][2] < 0.9
assert table[loses, "AdaptiveDR two_point"][2] > 0.93 - room
assert table[loses, "AdaptiveDR two_point"][1] < 0.7 * table[loses, "DoublyRobust"][1]
assert table[loses, MEAN][0] < -0.01
assert all(table[loses, way][4] > 0.95 - room for way in WAYS)

plt.show()
