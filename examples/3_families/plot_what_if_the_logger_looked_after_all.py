# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
# sphinx_gallery_thumbnail_number = -1
"""
What if the logger used the context after all?
==============================================

A shop recommends one of three kinds of wine, drawn at random, and logs no propensities.
Scavenging needs none if the recommendation ignores the customer's taste [1]_. But in a
share of the rounds a clerk used the colour of the wine that the customer brought. How
wrong is the value then? Is there a warning? What corrects the value?

The wines are those of scikit-learn, and the kinds are their three classes. The reward
is 1 if the recommendation is the customer's kind. ``--full`` draws 100 logs of every
share, in about a minute.

.. [1] Langford, J., Strehl, A., & Wortman, J. (2008). Exploration scavenging. ICML.
"""

# %%
# The log
# -------
#
# The policy is a classifier of a few columns, learned from half of the wines. Customers
# bring wines of the other half. The clerk recommends the second kind for pale wines,
# and one of the two others for dark ones.

import argparse
import warnings
from dataclasses import replace

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_wine
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

from skope_ope import SNIPS, BanditLogs, ExplorationScavenging, PropensityEstimator
from skope_ope.exceptions import ExplorationWarning

parser = argparse.ArgumentParser(allow_abbrev=False)
parser.add_argument("--full", action="store_true", help="100 logs")
parser.add_argument("--n-logs", type=int, help="logs of every kind")
args = parser.parse_known_args()[0]
N_LOGS = args.n_logs or (100 if args.full else 25)
N_ROUNDS, SHARES = 900, (0.0, 0.1, 0.3, 0.6)

wines = load_wine()
columns = ["ash", "magnesium", "color_intensity", "hue"]
X = wines.data[:, [wines.feature_names.index(name) for name in columns]]
dark = (X[:, 2] > np.median(X[:, 2])).astype(int)
train, test = train_test_split(np.arange(len(X)), test_size=0.5, random_state=0)
policy = make_pipeline(StandardScaler(), LogisticRegression())
pi = np.eye(3)[policy.fit(X[train], wines.target[train]).predict(X)]
truth = pi[test, wines.target[test]].mean()
print(f"the policy is right for {truth:.4f} of the customers")

CLERK = np.array([[0, 1, 0], [0.5, 0, 0.5]])  # by pale and dark
print(f"the clerk for {CLERK[dark[test], wines.target[test]].mean():.4f}")


def draw(share, seed):
    """Log of a shop whose clerk acts in a share of the rounds."""
    rng = np.random.RandomState(seed)
    row = rng.choice(test, size=N_ROUNDS)
    clerk = rng.random_sample(N_ROUNDS) < share
    chance = np.where(clerk[:, None], CLERK[dark[row]], 1 / 3)
    action = (rng.random_sample((N_ROUNDS, 1)) > chance.cumsum(axis=1)).sum(axis=1)
    known = (1 - share) / 3 + share * CLERK[dark[row], action]
    return BanditLogs(
        X[row],
        action,
        (action == wines.target[row]).astype(float),
        actions=[0, 1, 2],
        reward_range=(0, 1),
    ).with_columns(pi=pi[row], dark=dark[row], clerk=clerk, known=known)


def scavenged(logs, strata=None):
    """Value by scavenging, and whether the evaluator tells that the logger looked."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        value = ExplorationScavenging(strata=strata).fit(logs).evaluate("pi")
    told = [w.message for w in caught if issubclass(w.category, ExplorationWarning)]
    return value, told


logs = draw(share=0.3, seed=0)
value, told = scavenged(logs)
print(f"\nthe clerk acts in 30% of the rounds: {value.value:.3f}", end=" ")
print(f"({value.standard_error:.3f})", *told, sep="\n")

# %%
# Four corrections
# ----------------
#
# The correction depends on what the log contains.
#
# - The log has the colour: `strata` compares pale wines with pale ones only.
# - The log says who acted, and that is independent of the customer. The rounds of the
#   clerk are left out.
# - The log has only the context, which contains what the clerk used. Propensities are
#   estimated, here by a small tree, for `SNIPS`.
# - The log has the propensities: `SNIPS` needs nothing else.

tree = DecisionTreeClassifier(max_leaf_nodes=8, min_samples_leaf=100, random_state=0)


def changed(logs, **fields):
    """Logs with other fields."""
    return replace(logs, **fields).with_columns(**logs.columns)


def values_of(logs):
    """Values of the policy by the four repairs."""
    estimated = PropensityEstimator(tree).fit_transform(logs)
    recorded = changed(logs, propensity=logs.columns["known"])
    return {
        "strata='dark'": scavenged(logs, "dark")[0],
        "without the clerk": scavenged(logs[~logs.columns["clerk"]])[0],
        "estimated propensities": SNIPS().fit(estimated).evaluate("pi"),
        "recorded propensities": SNIPS().fit(recorded).evaluate("pi"),
    }


errors, told = [], []
for share in SHARES:
    for seed in range(N_LOGS):
        logs = draw(share, seed)
        value, here = scavenged(logs)
        _, colourless = scavenged(changed(logs, context=logs.context[:, :2]))
        told.append((bool(here), bool(colourless)))
        values = {"scavenging": value} | values_of(logs)
        errors.append([value.value - truth for value in values.values()])

ways = list(values)
shape = len(SHARES), N_LOGS, -1
errors, told = np.reshape(errors, shape), np.reshape(told, shape).mean(axis=1)
bias, error = errors.mean(axis=1), errors.std(axis=1, ddof=1) / np.sqrt(N_LOGS)
rmse = np.sqrt((errors**2).mean(axis=1))

print(f"\nbias (rmse) by the share of the clerk, {N_LOGS} logs of {N_ROUNDS} rounds")
print(f"{'':24}" + "".join(f"{share:>15.0%}" for share in SHARES))
for way, b, e in zip(ways, bias.T, rmse.T, strict=True):
    cells = (f"{x:+.3f} ({y:.3f})" for x, y in zip(b, e, strict=True))
    print(f"{way:24}" + "".join(f"{cell:>15}" for cell in cells))
for name, shares in zip(("told", "told, colour not logged"), told.T, strict=True):
    print(f"{name:24}" + "".join(f"{s:>15.0%}" for s in shares))

# %%
# Scavenging is too high, because the clerk guesses well. The rounds of an action are
# those of customers who like it. If the clerk acts in a tenth of the rounds, the bias
# is about two standard errors of a log, and there is no warning. From three tenths on
# there nearly always is one.
#
# If the log does not have the colour, the warning needs more rounds of the clerk. The
# other columns are correlated with the colour, but less closely.

assert abs(bias[0, 0]) < 4 * error[0, 0]
assert (bias[1:, 0] > 4 * error[1:, 0]).all()
assert (told[0] == 0).all()
assert (told[-1] == 1).all()
assert told[2, 0] > told[2, 1] + 0.5

# %%
# Each correction works if the log has what it needs.

stratified, shortened, estimated, recorded = range(1, 5)
for way in (stratified, shortened, recorded):
    assert (np.abs(bias[:, way]) < 4 * error[:, way]).all(), ways[way]
assert (np.abs(bias[2:, estimated]) < bias[2:, 0] / 5).all()

fig, ax = plt.subplots(figsize=(7, 4), layout="constrained")
for way, b, e in zip(ways, bias.T, error.T, strict=True):
    ax.errorbar(SHARES, b, 2 * e, marker="o", capsize=3, label=way)
ax.axhline(0, color="black", lw=1)
ax.set(xlabel="share of the rounds in which the clerk acted", ylabel="bias")
ax.legend(loc="upper left", bbox_to_anchor=(1, 1))
plt.show()
