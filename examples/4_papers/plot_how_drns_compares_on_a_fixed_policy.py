# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
# sphinx_gallery_thumbnail_number = -1
"""
How does DR-ns compare with its rivals? A fixed policy
======================================================

DR-ns [1]_ was made for policies that learn. The paper first checks it on a policy that
does not learn. There, rejection sampling should suffer from a lack of rows, and the
direct method from the bias of its model. This script repeats that check, the paper's
Table 1, on two sets: *drawn*, 40,000 rows with four labels, the size of the paper's set
of documents; and handwritten digits, a small real set that leaves rejection sampling
six rows. ``--full`` runs the paper's 300 trials on nine sets, in four minutes of one
core; seven of them are read from the folder SKOPE_OPE_DATA. ``--sets rcv1`` fetches the
paper's own documents, which needs a network. The file ``_trials.py`` beside this one
loads the sets.

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
from sklearn.multiclass import OneVsRestClassifier
from sklearn.utils.parallel import delayed

from skope_ope import ActionRewardModel, DirectMethod, DRns, RejectionSampling
from skope_ope.datasets import make_logs_from_classification
from skope_ope.exceptions import OPEWarning

SETS = ["drawn", "digits", "optdigits", "pendigits", "satimage", "letter"]
SETS += ["r8", "newsgroups", "tmc2007_500"]
PROTOCOLS = ["all rows", "half the rows"]

parser = argparse.ArgumentParser()
parser.add_argument("--full", action="store_true", help="300 trials on every set")
parser.add_argument(
    "--sets", nargs="+", choices=[*SETS, "rcv1"], metavar="SET", help=f"of {SETS}, rcv1"
)
parser.add_argument("--trials", type=int, help="trials on a set")
parser.add_argument("--halves", action="store_true", help="the paper's protocol alone")
parser.add_argument("--n-jobs", type=int, default=None, help="processes, default: one")
args = parser.parse_args()
sets = args.sets or (SETS if args.full else ["drawn", "digits"])
n_trials = args.trials or (300 if args.full else 30)
protocols = PROTOCOLS[1:] if args.halves else PROTOCOLS

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
# where that is right, and predicts too large a reward. The logged propensities repair
# that for the evaluators that use them.
#
# All evaluators but rejection sampling (RS) need a reward model, a logistic regression
# per action. It learns from one half of the log and predicts the other. There are two
# protocols. *Half the rows* is the paper's: all but RS evaluate on the second half
# only; RS has the whole log. *All rows* lets the halves swap roles (cross-fitting), so
# that all evaluators have the same rows. WC is DR-ns with c fixed at the smallest
# propensity. The reward is 1 for a right label and 0 otherwise, one minus the paper's
# loss. The truth is the policy's mean reward on the drawn rows.

QS = (0, 0.01, 0.05, 0.1)
NAMES = ["DM", "RS", "WC", *(f"DR-ns({q:g})" for q in QS)]
logistic = LogisticRegression(solver="liblinear")  # the paper's, with its C = 1


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

    first, second = np.array_split(np.arange(len(logs)), 2)
    q_hat = np.empty((len(logs), logs.n_actions))
    for learn, predict in ((first, second), (second, first)):
        model = ActionRewardModel(logistic).fit(logs[learn])
        q_hat[predict] = model.predict(logs[predict].context)
    used = {"all rows": slice(None), "half the rows": second}
    found = []
    for protocol in protocols:
        part = used[protocol]
        dm, *others = with_model(logs[part], pi[part], q_hat[part], truth, random_state)
        found.append([dm, rs, *others])
    return found


def with_model(logs, pi, q_hat, truth, random_state):
    """Return the same for the evaluators that need a reward model."""
    dm = DirectMethod(reward_model=q_hat).fit(logs).score(pi)
    found = [(dm - truth, np.nan, np.nan)]
    weight = pi[np.arange(len(logs)), logs.action_index] / logs.propensity
    common = {"reward_model": q_hat, "random_state": random_state}
    drns = [DRns(acceptance="worst_case", **common), *(DRns(q=q, **common) for q in QS)]
    for evaluator in drns:
        value = evaluator.fit(logs).evaluate(pi)
        c = value.acceptance_ratios
        share = (c * weight).max() / c.sum()
        found.append((value.value - truth, len(value.accepted), share))
    return found


def experiment(name):
    """Return the results on a set: (n_protocols, n_evaluators, 3, n_trials)."""
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
    return np.moveaxis(run(jobs, args.n_jobs, name), 0, -1)


# %%
# The table
# ---------
#
# *Rows* is how many rows the history accepted; *share* is the largest share that a
# single row had in a value, :math:`\max_k c_k w_k / \sum_k c_k` with its weight
# :math:`w_k = \pi(a_k | x_k) / p_k`, in the worst trial. On the right is what the paper
# found on rcv1 (4 labels, 40,000 documents). Two cells of DR-ns(0) are left out: they
# repeat those of RS and contradict the rmse beside them.

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
    for protocol, found in zip(protocols, experiment(name), strict=True):
        print(f"{name}, {protocol}, {n_trials} trials")
        results[name, protocol] = found
        tables[name, protocol] = {
            k: (*summarize(error), rows.mean(), share.max())
            for k, (error, rows, share) in zip(NAMES, found, strict=True)
        }
        print_table(tables[name, protocol])
        lost = np.isnan(found[NAMES.index("RS"), 0]).sum()
        if lost:
            print(f"RS accepted no row in {lost} of the trials; they are left out.")

# %%
# The errors in units of that of DR-ns(0.05), and the order from the largest error to
# the smallest, beside the paper's:

worse = dict.fromkeys(protocols, 0)
for (name, protocol), table in {**tables, ("rcv1", "paper"): PAPER}.items():
    ratios = {k: table[k][0] / table["DR-ns(0.05)"][0] for k in NAMES}
    print(f"{name}, {protocol}: ", end="")
    print(
        " > ".join(f"{k} {ratios[k]:.2f}" for k in sorted(NAMES, key=ratios.get)[::-1])
    )
    if protocol in worse:
        worse[protocol] += ratios["DM"] > ratios["RS"]
for protocol, count in worse.items():
    print(f"{protocol}: DM is worse than RS on {count} of {len(sets)} sets")

# %%
# What the paper found, and what holds on every set:
#
# - Rejection sampling is unbiased and has few rows left: its error is variance.
# - The direct method hardly varies, and its error is bias.
# - DR-ns(0.05) has the error of WC, and a smaller one than rejection sampling. It
#   accepts 13 to 280 times as many rows, which is no gain for a fixed policy; a policy
#   that learns lives on accepted rows.
#
# The numbers here and below are those of ``--full``. How much smaller the error is
# depends on the protocol. The paper's rejection sampling has 3.5 times the error of
# DR-ns(0.05). With all rows for all, ours has 2.2 to 3.9 times as much. In the paper's
# own protocol it has 1.4 to 2.7 times as much (1.7 on *tmc2007_500*): DR-ns gives half
# of its rows to the model, which costs it a factor of 1.4 to 1.5, the square root of
# two. Rejection sampling keeps all of its rows.
#
# The rest of the paper's order does not hold everywhere. Which of rejection sampling
# and the direct method is worse depends on the bias of the model and on the rows that
# are left. In the paper it is rejection sampling; here it is the direct method on five
# of the nine sets, with a tie on *newsgroups*.
#
# DR-ns(0) stands between the direct method and the others in the paper. In its
# protocol, it is worse than rejection sampling on all of our nine sets, though on
# *drawn* and *tmc2007_500* within chance. At q = 0, c becomes the smallest ratio
# :math:`p_k / \pi(a_k | x_k)` so far, but only *after* the row that has it was counted
# with the c before. A row with a small ratio has a large weight. The first such row is
# counted with a c near 1, and all that come after it with a c that is smaller by that
# weight. Its share in the value is at most 27% where c is constant. At q = 0 it exceeds
# the whole on six sets. The default q = 0.05 avoids that: rows with such ratios are
# rarer than 5%, and leave this quantile where it is.

for (name, protocol), table in tables.items():
    rmse, _, bias, std, rows, _ = (
        dict(zip(NAMES, column, strict=True))
        for column in zip(*table.values(), strict=True)
    )
    where = name, protocol
    limit = 0.6 if protocol == "all rows" else 0.8
    assert rmse["DR-ns(0.05)"] <= limit * rmse["RS"], where
    assert rmse["DR-ns(0.05)"] <= 1.1 * rmse["WC"], where
    assert std["DM"] == min(std.values()), where
    assert abs(bias["DM"]) >= 0.85 * rmse["DM"], where
    assert rows["RS"] < rows["DR-ns(0)"] < rows["DR-ns(0.01)"], where
    assert rows["DR-ns(0.01)"] <= rows["DR-ns(0.05)"], where

# %%
# In pictures: the errors of single trials, and where the evaluators stand.

import matplotlib.pyplot as plt

figure, (left, right) = plt.subplots(1, 2, figsize=(12, 4.5), layout="constrained")
(name, protocol), found = next(iter(results.items()))
left.boxplot([error[np.isfinite(error)] for error, _, _ in found], sym=".")
left.axhline(0, color="black", linewidth=0.8)
left.set(title=f"{name}, {protocol}: {n_trials} trials", ylabel="value less truth")
place = np.arange(len(NAMES)) + 1
for (name, protocol), table in {**tables, ("rcv1", "paper"): PAPER}.items():
    rmse, half_width = np.array([table[k][:2] for k in NAMES]).T
    style = "k--o" if table is PAPER else "-o"
    right.errorbar(place, rmse, half_width, fmt=style, label=f"{name}, {protocol}")
right.set(title="root mean squared error and its 95% interval", yscale="log")
right.legend(loc="upper left", bbox_to_anchor=(1, 1), fontsize="small")
for ax in (left, right):
    ax.set_xticks(place, NAMES, rotation=45)
plt.show()
