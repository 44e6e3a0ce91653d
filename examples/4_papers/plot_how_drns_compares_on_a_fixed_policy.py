# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""
How does DR-ns compare with its rivals? A fixed policy
======================================================

DR-ns [1]_ was made for policies that learn. A policy that does not is the check of its
sanity: rejection sampling must lose to it for lack of rounds, the direct method for its
bias. This script makes that check, in the form of the paper's Table 1, on handwritten
digits. That is a small set, on which rejection sampling accepts six rows, where the
paper's has 40,000 documents: compare orders, not numbers. ``--full`` runs 300 trials on
each of eight sets (those that do not come with scikit-learn are read from the folder
SKOPE_OPE_DATA), HOURS; ``--sets rcv1`` fetches the paper's own documents, if there is a
network. The file ``_trials.py`` beside it loads the sets.

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
PROTOCOLS = {"all rows": 5, "half the rows": 2}  # folds of the reward model

parser = argparse.ArgumentParser()
parser.add_argument("--full", action="store_true", help="300 trials on every set")
parser.add_argument(
    "--sets", nargs="+", choices=[*SETS, "rcv1"], metavar="SET", help=f"of {SETS}, rcv1"
)
parser.add_argument("--trials", type=int, help="trials on a set")
parser.add_argument("--halves", action="store_true", help="the paper's half logs alone")
parser.add_argument("--n-jobs", type=int, default=-1, help="processes, default: all")
args = parser.parse_args()
sets = args.sets or (SETS if args.full else ["digits"])
n_trials = args.trials or (300 if args.full else 120)
protocols = ["half the rows"] if args.halves else list(PROTOCOLS)

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
# per action. There are two protocols. *All rows*: the model is cross-fitted, and all
# evaluators have the same rows. *Half the rows* is the paper's: the model learns from one
# half of the log, and all but RS, which has all of it, evaluate on the other. WC is
# DR-ns with c fixed at the smallest propensity. The reward is 1 for a right label and 0 otherwise, one minus the
# paper's loss; the truth is the policy's mean reward on the drawn rows.

QS = (0, 0.01, 0.05, 0.1)
NAMES = ["DM", "RS", "WC", *(f"DR-ns({q:g})" for q in QS)]
logistic = LogisticRegression(solver="liblinear")  # the paper's, with its C = 1


def model_values(logs, protocol):
    """Return model values of rows that did not train the model, and those rows."""
    folds = list(KFold(PROTOCOLS[protocol]).split(logs.reward))
    folds = folds[1:] if protocol == "half the rows" else folds
    q_hat = np.empty((len(logs), logs.n_actions))
    for learn, rows in folds:
        model = ActionRewardModel(logistic).fit(logs[learn])
        q_hat[rows] = model.predict(logs[rows].context)
    rows = np.concatenate([rows for _, rows in folds])
    return q_hat[rows], rows


def trial(X, labels, pi, random_state):
    """Return error, accepted rows and largest share, by protocol and evaluator."""
    warnings.simplefilter("ignore", OPEWarning)
    rng = np.random.RandomState(random_state)
    rows = rng.permutation(len(labels))[: round(len(labels) / 0.9 * 0.5)]
    pi = pi[rows]
    logs, rewards = make_logs_from_classification(
        X[rows], labels[rows], random_state=rng
    )
    truth = (pi * rewards).sum(axis=1).mean()
    rs = RejectionSampling(random_state=random_state).fit(logs).evaluate(pi)
    rs = rs.value - truth, len(rs.accepted), np.nan
    return [
        others(logs, pi, truth, protocol, random_state) | {"RS": rs}
        for protocol in protocols
    ]


def others(logs, pi, truth, protocol, random_state):
    """Return the same of the evaluators that need a reward model."""
    q_hat, rows = model_values(logs, protocol)
    logs, pi = logs[rows], pi[rows]
    dm = DirectMethod(reward_model=q_hat).fit(logs).score(pi)
    results = {"DM": (dm - truth, np.nan, np.nan)}
    weight = pi[np.arange(len(logs)), logs.action_index] / logs.propensity
    common = {"reward_model": q_hat, "random_state": random_state}
    evaluators = {"WC": DRns(acceptance="worst_case", **common)}
    evaluators |= {f"DR-ns({q:g})": DRns(q=q, **common) for q in QS}
    for name, evaluator in evaluators.items():
        value = evaluator.fit(logs).evaluate(pi)
        c = value.acceptance_ratios
        share = (c * weight).max() / c.sum()
        results[name] = (value.value - truth, len(value.accepted), share)
    return results


def experiment(name):
    """Return the results on a set by protocol, each (n_trials, n_evaluators, 3)."""
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
    trials = run(jobs, args.n_jobs, name)
    return {
        protocol: np.array([[found[k][name] for name in NAMES] for found in trials])
        for k, protocol in enumerate(protocols)
    }


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
    for protocol, found in experiment(name).items():
        print(f"{name}, {protocol}")
        results[name, protocol] = found
        tables[name, protocol] = {
            k: (*summarize(error), rows.mean(), share.max())
            for k, (error, rows, share) in zip(
                NAMES, found.transpose(1, 2, 0), strict=True
            )
        }
        print_table(tables[name, protocol])
        lost = np.isnan(found[:, NAMES.index("RS"), 0]).sum()
        if lost:
            print(f"RS accepted no row in {lost} of the trials; they are left out.")

# %%
# What the paper found, and what holds on every set:
#
# - Rejection sampling is unbiased and has few rows left: its error is variance.
# - The direct method hardly varies, and its error is bias.
# - With the same rows for all, DR-ns(0.05) has at most six tenths of the error of
#   rejection sampling, and the error of WC. It accepts 25 to 300 times as many rows,
#   which is no gain for a fixed policy; a policy that learns lives on accepted rows.
#
# On half of the rows, the paper's protocol, the error of DR-ns grows by the square root
# of two, and by more where the model misses the rows; that of rejection sampling, which
# keeps all of them, does not. HALVES

for (name, protocol), table in tables.items():
    print(f"{name}, {protocol}: rmse over that of DR-ns(0.05)", end=" ")
    print(", ".join(f"{k} {table[k][0] / table['DR-ns(0.05)'][0]:.2f}" for k in NAMES))

# %%
# The order from the largest error to the smallest, beside the paper's:


def order(table):
    """Name the evaluators, the largest rmse first."""
    return " > ".join(sorted(NAMES, key=lambda k: -table[k][0]))


for (name, protocol), table in {**tables, ("rcv1", "paper"): PAPER}.items():
    print(f"{name + ', ' + protocol:28}{order(table)}")

# %%
# The paper's order does not hold everywhere. Which of rejection sampling and the direct
# method is worse depends on the model's bias and on the rows that are left: in the paper
# it is rejection sampling, here the direct method on ORDER. And DR-ns(0) has no place
# between rejection sampling and the others: on most sets it is worse than rejection
# sampling. At q = 0, c becomes the smallest ratio :math:`p_k / \pi(a_k | x_k)` so far,
# but only *after* the row that has it was counted with the c before. The first row with
# a small ratio, that is with a large weight, is counted with a c near 1, and all that
# come after it with a c that is smaller by that weight. Its share in the value, a few
# percent where c is constant, can then exceed the whole. In the limit that vanishes;
# below some ten thousand rows it decides. Hence the default of 0.05: such rows are rarer
# than that, and leave this quantile where it is.

for (name, protocol), table in tables.items():
    rmse, _, bias, std, rows, _ = (
        dict(zip(NAMES, column, strict=True))
        for column in zip(*table.values(), strict=True)
    )
    if protocol == "all rows":  # with half of them, the gain depends on the set
        assert rmse["DR-ns(0.05)"] <= 0.6 * rmse["RS"], name
    assert rmse["DR-ns(0.05)"] <= 1.1 * rmse["WC"], name
    assert std["DM"] == min(std.values()), name
    assert abs(bias["DM"]) >= 0.85 * rmse["DM"], name
    assert rows["RS"] < rows["DR-ns(0)"] < rows["DR-ns(0.01)"], name
    assert rows["DR-ns(0.01)"] <= rows["DR-ns(0.05)"], name

# %%
# In pictures: the errors of single trials, and where the evaluators stand. In the
# paper the log has 20,000 rows, which is why its errors are smaller.

import matplotlib.pyplot as plt

figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.5), layout="constrained")
(name, protocol), found = next(iter(results.items()))
error = found[:, :, 0]
left.boxplot([column[np.isfinite(column)] for column in error.T], sym=".")
left.axhline(0, color="black", linewidth=0.8)
left.set_yscale("symlog", linthresh=0.1)
left.set(title=f"{name}: error in {n_trials} trials", ylabel="value less truth")
for (name, protocol), table in {**tables, ("rcv1", "paper"): PAPER}.items():
    rmse, half_width = np.array([table[k][:2] for k in NAMES]).T
    style = "k--o" if table is PAPER else "-o"
    right.errorbar(np.arange(len(NAMES)) + 1, rmse, half_width, fmt=style, label=f"{name}, {protocol}")
right.set(title="root mean squared error and its 95% interval", yscale="log")
right.legend(fontsize="small")
for ax in (left, right):
    ax.set_xticks(np.arange(len(NAMES)) + 1, NAMES, rotation=45)
plt.show()
