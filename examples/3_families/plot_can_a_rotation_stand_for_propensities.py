# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
# sphinx_gallery_thumbnail_number = -1
"""
Can a rotation of policies replace propensities?
================================================

A team runs three deterministic policies in turn, a third of the traffic each. Nothing
was randomised and no propensities were logged. Yet the turn of a policy is independent
of the users, and scavenging needs no other exploration [1]_. The policies themselves
are the actions. So you can evaluate a policy that chooses among them. This script
compares two ways with the truth, on scikit-learn's digits. ``--full`` draws 1,000
rotations, in about three minutes.

.. [1] Langford, J., Strehl, A., & Wortman, J. (2008). Exploration scavenging. ICML.
"""

# %%
# Three classifiers that act
# --------------------------
#
# The action is a digit, the reward 1 if it is right. Each policy sees only a third of
# the image. So they differ, and none is best everywhere. In every round, the target
# follows the policy with the highest confidence.

import argparse
import warnings

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from skope_ope import BanditLogs, ExplorationScavenging
from skope_ope.exceptions import ExplorationWarning, OPEWarning

parser = argparse.ArgumentParser(allow_abbrev=False)
parser.add_argument("--full", action="store_true", help="1,000 rotations")
parser.add_argument("--n-rotations", type=int)
args = parser.parse_known_args()[0]
N_ROTATIONS = args.n_rotations or (1000 if args.full else 80)

X, y = load_digits(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(
    X / 16, y, test_size=0.5, random_state=0
)


def third(X, part):
    """The columns of one of three bands of the 8 x 8 image."""
    return X.reshape(-1, 8, 8)[:, (0, 3, 5)[part] : (3, 5, 8)[part]].reshape(len(X), -1)


names = np.array(["top", "middle", "bottom"])
sure, plays = [], []
for part in range(3):
    policy = make_pipeline(
        FunctionTransformer(third, kw_args={"part": part}),
        LogisticRegression(max_iter=1000),
    ).fit(X_train, y_train)
    proba = policy.predict_proba(X_test)
    sure.append(proba.max(axis=1))
    plays.append(proba.argmax(axis=1))
plays = np.array(plays).T
chosen = np.argmax(sure, axis=0)
follows = plays[np.arange(len(plays)), chosen]
truth = float((follows == y_test).mean())
for name, column in zip(names, plays.T, strict=True):
    print(f"{name:>10}: accuracy {(column == y_test).mean():.4f}")
print(f"{'surest':>10}: accuracy {truth:.4f}, the true value")

# %%
# One rotation
# ------------
#
# The rows of the test half arrive in random order, drawn with replacement; the policies
# act in turn.


def rotate(seed):
    """Logs of one rotation, and the rows of the test half."""
    rng = np.random.RandomState(seed)
    rows = rng.randint(len(y_test), size=900)
    turn = np.arange(900) % 3
    action = plays[rows, turn]
    logs = BanditLogs(
        X_test[rows],
        action,
        (action == y_test[rows]).astype(float),
        actions=np.arange(10),
        logger=names[turn],
        # does a policy play the logged digit there? columns in sorted order of names
        logger_proba=(plays[rows] == action[:, None])[:, np.argsort(names)].astype(
            float
        ),
        reward_range=(0, 1),
    )
    return logs, rows


logs, rows = rotate(0)
order = np.argsort(np.argsort(names))  # column of a policy in logs.loggers
by_label = np.eye(3)[order[chosen[rows]]]
by_action = np.eye(10)[follows[rows]]

label = ExplorationScavenging(match="logger").fit(logs).evaluate(by_label)
action = ExplorationScavenging().fit(logs).evaluate(by_action)
print(f"\nmatch the policy: {label.value:.4f} ({label.standard_error:.4f})")
print(f"match the action: {action.value:.4f} ({action.standard_error:.4f})")
print(f"Theorem 3, 95%: +- {label.deviation_bound(0.05, method='hoeffding'):.4f}")

# %%
# Matching the action uses more rounds. If two policies agree, a round of one counts for
# the other, divided by the number of policies that would have done the same.
#
# Matching actions without saying which policy acted is wrong, because each policy uses
# the image. The evaluator finds this: the image predicts the action.

forgotten = BanditLogs(
    logs.context, logs.action, logs.reward, actions=np.arange(10), reward_range=(0, 1)
)
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    wrong = ExplorationScavenging().fit(forgotten).evaluate(by_action)
print(f"without loggers: {wrong.value:.4f} ({wrong.standard_error:.4f})")
for warning in caught:
    print(warning.message)
assert any(issubclass(w.category, ExplorationWarning) for w in caught)
assert abs(wrong.value - truth) > 4 * wrong.standard_error

# %%
# Many rotations
# --------------

ways = ("match the policy", "match the action")
values = {f"{way}{how}": [] for way in ways for how in ("", ", normalised")}
for seed in range(N_ROTATIONS):
    logs, rows = rotate(seed)
    targets = (np.eye(3)[order[chosen[rows]]], np.eye(10)[follows[rows]])
    for way, match, target in zip(ways, ("logger", "action"), targets, strict=True):
        with warnings.catch_warnings():
            warnings.simplefilter("error", OPEWarning)
            evaluator = ExplorationScavenging(match=match).fit(logs)
            values[way].append(evaluator.evaluate(target))
            evaluator.set_params(self_normalized=True)
            values[f"{way}, normalised"].append(evaluator.evaluate(target))

table = {}
print(f"\n{'':>30}    bias (se)          rmse     mean se  coverage")
for way, found in values.items():
    error = np.array([v.value for v in found]) - truth
    intervals = np.array([v.confidence_interval() for v in found])
    covered = ((intervals[:, 0] <= truth) & (truth <= intervals[:, 1])).mean()
    table[way] = np.sqrt((error**2).mean())
    bias, its_error = error.mean(), error.std(ddof=1) / np.sqrt(N_ROTATIONS)
    print(
        f"{way:>30}  {bias:+.5f} ({its_error:.5f})  {table[way]:.5f}  "
        f"{np.mean([v.standard_error for v in found]):.5f}  {covered:.3f}"
    )
    assert abs(bias) < 4 * its_error + 0.002, way  # a ratio has a bias of 1 / n
    assert covered > 0.95 - 4 * np.sqrt(0.95 * 0.05 / N_ROTATIONS), way
assert table["match the action"] < table["match the policy"]

fig, ax = plt.subplots(figsize=(7, 3), layout="constrained")
for row, found in enumerate(values.values()):
    estimates = [v.value for v in found]
    ax.plot(estimates, np.full(len(estimates), row), "|", markersize=15, alpha=0.5)
ax.set_yticks(range(4), list(values))
ax.axvline(truth, color="black", linestyle=":")
ax.set(xlabel="estimated value; dotted: the truth")
