# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
# sphinx_gallery_thumbnail_number = -1
"""
Which policy to deploy, and with how much exploration?
======================================================

There are several ways to learn a policy from logs, each with its own parameters. One
search over all of them scores the value of the learned policy on held-out rounds, with
:class:`~skope_ope.PolicyScorer`. How much better than the logger is the winner? Its
score does not say. It is the best of many, so it is too high. It is about policies that
learned from fewer rounds, so it is too low. For an answer you need rounds that the
search has never seen.

The logs are made from the digits of scikit-learn, so the labels give the true values of
the policies. ``--full`` runs 20 logs, which takes about a minute and a half of CPU.
"""

import argparse
import warnings

import matplotlib.pyplot as plt
import numpy as np
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import KFold, train_test_split
from sklearn.pipeline import Pipeline

from skope_ope import (
    DoublyRobust,
    DRPolicy,
    IPSPolicy,
    OPESearchCV,
    PolicyScorer,
    RewardModelPolicy,
    compare_policies,
)
from skope_ope.datasets import load_classification, make_logs_from_classification
from skope_ope.exceptions import OPEWarning

parser = argparse.ArgumentParser(allow_abbrev=False)
parser.add_argument("--full", action="store_true", help="20 logs")
parser.add_argument("--repetitions", type=int, help="logs; default 4")
args = parser.parse_known_args()[0]
repetitions = args.repetitions or (20 if args.full else 4)

# %%
# Logs, and rounds that are set aside
# -----------------------------------
#
# The logger takes one of ten actions at random. The reward is 1 if it is the digit on
# the image. A third of the rounds is set aside before anything is learned.

X, y = load_classification("digits", return_X_y=True)
X = X / 16


def draw(seed):
    """Return rounds to learn from, rounds laid aside, and the latter's labels."""
    logs, _ = make_logs_from_classification(
        X, y, logging="uniform", actions=np.unique(y), random_state=seed
    )
    inner, outer = train_test_split(
        np.arange(len(y)), test_size=1 / 3, random_state=seed
    )
    return logs[inner], logs[outer], y[outer]


# %%
# One search over all of it
# -------------------------
#
# The policy is the last step of a Pipeline, so its class is a parameter, too. A grid
# for each class holds its own parameters. Common parameters, such as ``epsilon``, the
# share of uniform exploration, are in all grids.

classifier = LogisticRegression(C=0.1, max_iter=300)
EPSILON = [0.0, 0.1, 0.3]
GRID = [
    {
        "policy": [
            IPSPolicy(classifier),
            DRPolicy(classifier, reward_model=Ridge(), cv=2),
        ],
        "policy__epsilon": EPSILON,
    },
    {
        "policy": [RewardModelPolicy(Ridge())],
        "policy__reward_model__alpha": [1.0, 30.0],
        "policy__epsilon": EPSILON,
    },
]
evaluator = DoublyRobust(reward_model=Ridge(), cv=2)


def search_policies(logs):
    """Return the fitted search."""
    search = OPESearchCV(
        Pipeline([("policy", IPSPolicy())]),
        GRID,
        scoring=PolicyScorer(evaluator),
        refit=True,
        cv=KFold(3),
    )
    return search.fit(logs)


def name_of(parameters):
    """Return the short name of a candidate."""
    policy = type(parameters["policy"]).__name__
    alpha = parameters.get("policy__reward_model__alpha")
    return policy if alpha is None else f"{policy}, alpha={alpha:g}"


scores, rows = [], []
for seed in range(repetitions):
    inner, outer, labels = draw(seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", OPEWarning)
        search = search_policies(inner)
        chosen = search.best_estimator_
        comparison = compare_policies({"chosen": chosen}, outer, evaluator=evaluator)
    scores.append(search.cv_results_["mean_test_score"])
    pi = chosen.predict_proba(outer.context)
    accuracy = pi[np.arange(len(labels)), np.searchsorted(chosen.classes_, labels)]
    record = comparison.to_records()[0]
    rows.append(
        {
            "winner": name_of(search.best_params_),
            "epsilon": search.best_params_["policy__epsilon"],
            "inner": search.best_score_,
            "outer": comparison["chosen"].value,
            "error": comparison["chosen"].standard_error,
            "truth": accuracy.mean(),
            "logger": outer.reward.mean(),
            "gain": record["difference"],
            "low": record["difference_low"],
            "high": record["difference_high"],
            "decision": comparison.decision,
        }
    )

# %%
# What the search saw
# -------------------
#
# Scores of the candidates on held-out folds, mean over the logs.

candidates = search.cv_results_["params"]
mean_scores = np.mean(scores, axis=0)
table = {}
for parameters, score in zip(candidates, mean_scores, strict=True):
    table.setdefault(name_of(parameters), []).append(score)
print(f"{'epsilon':30}" + "".join(f"{epsilon:8}" for epsilon in EPSILON))
for name, line in table.items():
    print(f"{name:30}" + "".join(f"{score:8.3f}" for score in line))

figure, ax = plt.subplots(figsize=(8, 4), layout="constrained")
for name, line in table.items():
    ax.plot(EPSILON, line, marker="o", label=name)
ax.set(xlabel="epsilon", ylabel="value on held-out folds")
ax.legend(loc="upper left", bbox_to_anchor=(1, 1))

# %%
# ``IPSPolicy`` and ``DRPolicy`` have the same scores. Rewards are clean here. In every
# fold of these four logs, ``DRPolicy`` finds that none of its steps helps (``n_steps_``
# is 0). Then both are the same classifier of rewarded actions.
#
# Exploration lowers the value by about ``epsilon`` times the policy's advantage over
# chance. So a search for the greatest value chooses none. But exploration gives logs
# from which you can learn and evaluate the next policy. Today's value does not include
# that. Read the cost from the table and decide.
#
# The gain on rounds set aside
# ----------------------------
#
# The comparison with the logger uses rounds that neither the policies nor the search
# have seen. Its interval is about the policy that will be deployed.

print(
    f"{'winner':30}{'eps':>5}{'inner':>8}{'outer':>8}{'truth':>8}   gain on the logger"
)
for row in rows:
    print(
        f"{row['winner']:30}{row['epsilon']:5}{row['inner']:8.3f}{row['outer']:8.3f}"
        f"{row['truth']:8.3f}   {row['gain']:.3f} ({row['low']:.3f} to "
        f"{row['high']:.3f}): {row['decision']}"
    )
print(comparison.sentence)
optimism = np.mean([row["inner"] - row["truth"] for row in rows])
error = np.mean([row["outer"] - row["truth"] for row in rows])
print(f"mean of inner - truth {optimism:+.3f}, of outer - truth {error:+.3f}")

# %%
# The inner score has two errors. It is the best of many, which raises it. And it is
# about policies that learned from two thirds of the rounds, which are worse than the
# deployed one. Which error is larger differs from log to log. The outer value has only
# its random error, and its interval shows that.

truth = np.array([row["truth"] for row in rows])
standard_error = np.linalg.norm([row["error"] for row in rows]) / repetitions
assert abs(error) < 4 * standard_error
assert all(row["epsilon"] == 0 and row["decision"] == "deploy" for row in rows)
assert all(np.diff(line).max() < 0 for line in table.values())
assert (truth > 0.6).all()  # of logs whose rewards are right one time in ten
