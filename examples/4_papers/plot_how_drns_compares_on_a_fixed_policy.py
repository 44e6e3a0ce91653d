# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""
How does DR-ns compare with its rivals? A fixed policy
======================================================

DR-ns [1]_ was made for policies that learn. A policy that does not is the check of its
sanity: rejection sampling must lose to it for lack of rounds, the direct method for its
bias. This script repeats that check, the paper's Table 1, on handwritten digits; with
``--full`` 300 times on each of eight sets (those that do not come with scikit-learn are
read from the folder SKOPE_OPE_DATA). The file ``_trials.py`` beside it loads the sets.

.. [1] Dudik, M., Erhan, D., Langford, J., & Li, L. (2012). Sample-efficient
   nonstationary policy evaluation for contextual bandits. UAI.
"""

# %%
# What is run, and how often
# --------------------------

import argparse
import warnings

import numpy as np
from _trials import HEAD, cells, load, run, summarize
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import KFold
from sklearn.multiclass import OneVsRestClassifier
from sklearn.utils.parallel import delayed

from skope_ope import ActionRewardModel, DirectMethod, DRns, RejectionSampling
from skope_ope.datasets import make_logs_from_classification
from skope_ope.exceptions import OPEWarning

SETS = ["digits", "optdigits", "pendigits", "satimage", "letter"]
SETS += ["r8", "newsgroups", "tmc2007_500"]

parser = argparse.ArgumentParser()
parser.add_argument("--full", action="store_true", help="300 trials on every set")
parser.add_argument("--sets", nargs="+", choices=SETS, metavar="SET", help=f"of {SETS}")
parser.add_argument("--trials", type=int, help="trials on a set")
parser.add_argument("--halves", action="store_true", help="the paper's half logs")
parser.add_argument("--n-jobs", type=int, default=-1, help="processes, default: all")
args = parser.parse_args()
sets = args.sets or (SETS if args.full else ["digits"])
n_trials = args.trials or (300 if args.full else 200)

# %%
# One trial
# ---------
#
# The policy :math:`\pi_0` is epsilon-greedy (0.1) on a one-vs-all logistic regression
# that learned from a random tenth of the set, fully labelled. A trial draws half of the
# set from the rest and turns it into a log: with labels c of a row and scores s drawn
# from [0.1, 1],
#
# .. math:: \mu(a | x) = 0.3 \frac{s_a}{\sum_b s_b} + 0.7 \frac{1(a \in c)}{|c|}.
#
# The logger knows the label, the reward model does not: it sees every action mostly
# where that is right, and believes too much of it. The logged propensities repair that
# for those who use them.
#
# All evaluators but rejection sampling (RS) need a reward model, a logistic regression
# per action. The paper fits it to one half of the log and evaluates on the other, so
# RS has twice as many rows as its rivals. Here the model is cross-fitted and all have
# the same rows; ``--halves`` does as the paper did. WC is DR-ns with c fixed at the
# smallest propensity. The reward is 1 for a right label and 0 otherwise, one minus the
# paper's loss; the truth is the policy's mean reward on the drawn rows.

QS = (0, 0.01, 0.05, 0.1)
NAMES = ["DM", "RS", "WC", *(f"DR-ns({q:g})" for q in QS)]
logistic = LogisticRegression(solver="liblinear")  # the paper's, with its C = 1


def model_values(logs):
    """Return model values of rows that did not train the model, and those rows."""
    folds = KFold(2 if args.halves else 5).split(logs.reward)
    folds = list(folds)[1:] if args.halves else list(folds)
    q_hat = np.empty((len(logs), logs.n_actions))
    for learn, rows in folds:
        model = ActionRewardModel(logistic).fit(logs[learn])
        q_hat[rows] = model.predict(logs[rows].context)
    rows = np.concatenate([rows for _, rows in folds])
    return q_hat[rows], rows


def trial(X, labels, pi, random_state):
    """Return error, accepted rows and largest share of a row, for every evaluator."""
    warnings.simplefilter("ignore", OPEWarning)
    rng = np.random.RandomState(random_state)
    rows = rng.permutation(len(labels))[: round(len(labels) / 0.9 * 0.5)]
    pi = pi[rows]
    logs, rewards = make_logs_from_classification(
        X[rows], labels[rows], random_state=rng
    )
    truth = (pi * rewards).sum(axis=1).mean()
    rs = RejectionSampling(random_state=random_state).fit(logs).evaluate(pi)
    results = {"RS": (rs.value - truth, len(rs.accepted), np.nan)}

    q_hat, rows = model_values(logs)
    logs, pi = logs[rows], pi[rows]
    dm = DirectMethod(reward_model=q_hat).fit(logs).score(pi)
    results["DM"] = (dm - truth, np.nan, np.nan)

    weight = pi[np.arange(len(logs)), logs.action_index] / logs.propensity
    common = {"reward_model": q_hat, "random_state": random_state}
    evaluators = {"WC": DRns(acceptance="worst_case", **common)}
    evaluators |= {f"DR-ns({q:g})": DRns(q=q, **common) for q in QS}
    for name, evaluator in evaluators.items():
        value = evaluator.fit(logs).evaluate(pi)
        c = value.acceptance_ratios
        share = (c * weight).max() / c.sum()
        results[name] = (value.value - truth, len(value.accepted), share)
    return [results[name] for name in NAMES]


def experiment(name):
    """Return the results on a set, of shape (n_trials, n_evaluators, 3)."""
    X, labels = load(name)
    rows = np.random.RandomState(0).permutation(len(labels))
    learn, rest = np.split(rows, [len(rows) // 10])
    classifier = OneVsRestClassifier(logistic).fit(X[learn], labels[learn])
    greedy = classifier.predict_proba(X[rest]).argmax(axis=1)
    n_actions = labels.shape[1]
    pi = 0.9 * np.eye(n_actions)[greedy] + 0.1 / n_actions
    right = labels[rest][np.arange(len(rest)), greedy].mean()
    print(f"{name}: {len(labels):,} rows, {n_actions} labels; ", end="")
    print(f"the policy's classifier is right on {right:.0%}")
    jobs = [delayed(trial)(X[rest], labels[rest], pi, seed) for seed in range(n_trials)]
    return run(jobs, args.n_jobs, name)


# %%
# The table
# ---------
#
# *Rows* is how many rows the history accepted; *share* is the largest share that a
# single row had in a value, :math:`\max_k c_k w_k / \sum_k c_k` with its weight
# :math:`w_k = \pi(a_k | x_k) / p_k`, in the worst trial. On the right is what the paper
# found on rcv1 (4 labels, 40,000 documents), without two cells of DR-ns(0) that repeat
# those of RS and contradict the rmse beside them.

NOTHING = float("nan")
PAPER = {  # rmse, half its 95% interval, bias, standard deviation, rows
    "DM": (0.0151, 0.0002, 0.0150, 0.0017, NOTHING),
    "RS": (0.0191, 0.0021, 0.0032, 0.0189, 264),
    "WC": (0.0055, 0.0006, 0.0001, 0.0055, NOTHING),
    "DR-ns(0)": (0.0093, 0.0010, NOTHING, NOTHING, 523),
    "DR-ns(0.01)": (0.0057, 0.0006, 0.0021, 0.0053, 3375),
    "DR-ns(0.05)": (0.0055, 0.0006, 0.0022, 0.0051, 4279),
    "DR-ns(0.1)": (0.0058, 0.0006, 0.0017, 0.0055, 4375),
}


def print_table(table):
    """Print the results on a set beside the paper's."""
    print(f"{'':12}{HEAD}{'rows':>8}{'share':>8}   |{HEAD}{'rows':>8}  (paper)")
    for name, (*columns, rows, share) in table.items():
        *theirs, their_rows = PAPER[name]
        line = f"{name:12}{cells(*columns)}{rows:8,.0f}{share:8.1%}"
        line += f"   |{cells(*theirs)}{their_rows:8,.0f}"
        print(line.replace("nan%", "   -").replace("nan", "  -"))


results, tables = {}, {}
for name in sets:
    results[name] = experiment(name)
    tables[name] = {
        k: (*summarize(error), rows.mean(), share.max())
        for k, (error, rows, share) in zip(
            NAMES, results[name].transpose(1, 2, 0), strict=True
        )
    }
    print_table(tables[name])
    lost = np.isnan(results[name][:, NAMES.index("RS"), 0]).sum()
    if lost:
        print(f"RS accepted no row at all in {lost} of the trials; they are left out.")

# %%
# What the paper found, and what holds on every set:
#
# - Rejection sampling is unbiased and has few rows left: its error is variance.
# - The direct method hardly varies, and its error is bias.
# - DR-ns(0.05) has about half the error of rejection sampling or less, and the error of
#   WC. It accepts 25 to 300 times as many rows, which is no gain for a fixed policy; a
#   policy that learns lives on accepted rows.
#
# On half of the log (``--halves``) the error of DR-ns grows by the square root of two,
# and by more where the model misses the rows. The gain over rejection sampling is then
# smallest on letter: the classifier misses three labels in ten, and a miss that the log
# happens to show has a weight of eighty or so and a model value that is far too large.

for name, table in tables.items():
    print(f"{name}, rmse over that of DR-ns(0.05):", end=" ")
    print(", ".join(f"{k} {table[k][0] / table['DR-ns(0.05)'][0]:.2f}" for k in NAMES))

# %%
# What does not hold is DR-ns(0)'s place between rejection sampling and the others: on
# most sets it is worse than rejection sampling. At q = 0, c becomes the smallest ratio
# :math:`p_k / \pi(a_k | x_k)` so far, but only *after* the row that has it was counted
# with the c before. The first row with a small ratio, that is with a large weight, is
# counted with a c near 1, and all that come after it with a c that is smaller by that
# weight. Its share in the value, a few percent where c is constant, can then exceed the
# whole. In the limit that vanishes; below some ten thousand rows it decides. Hence the
# default of 0.05: such rows are rarer than that, and leave this quantile where it is.

for name, table in tables.items():
    rmse, _, bias, std, rows, _ = (
        dict(zip(NAMES, column, strict=True))
        for column in zip(*table.values(), strict=True)
    )
    if not args.halves:
        assert rmse["DR-ns(0.05)"] <= 0.6 * rmse["RS"], name
    assert rmse["DR-ns(0.05)"] <= 1.1 * rmse["WC"], name
    assert std["DM"] == min(std.values()), name
    assert abs(bias["DM"]) >= 0.85 * rmse["DM"], name
    assert rows["RS"] < rows["DR-ns(0)"] < rows["DR-ns(0.01)"], name
    assert rows["DR-ns(0.01)"] <= rows["DR-ns(0.05)"], name

# %%
# In pictures: the errors of single trials, and where the evaluators stand. In the
# paper the log has 20,000 rows, which is why its errors are smaller; the order is not
# different but for DR-ns(0).

import matplotlib.pyplot as plt

figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.5), layout="constrained")
name = sets[0]
error = results[name][:, :, 0]
left.boxplot([column[np.isfinite(column)] for column in error.T], sym=".")
left.axhline(0, color="black", linewidth=0.8)
left.set_yscale("symlog", linthresh=0.1)
left.set(title=f"{name}: error in {n_trials} trials", ylabel="value less truth")
for name, table in {**tables, "rcv1 (paper)": PAPER}.items():
    rmse, half_width = np.array([table[k][:2] for k in NAMES]).T
    style = "k--o" if table is PAPER else "-o"
    right.errorbar(np.arange(len(NAMES)) + 1, rmse, half_width, fmt=style, label=name)
right.set(title="root mean squared error and its 95% interval", yscale="log")
right.legend(fontsize="small")
for ax in (left, right):
    ax.set_xticks(np.arange(len(NAMES)) + 1, NAMES, rotation=45)
plt.show()
