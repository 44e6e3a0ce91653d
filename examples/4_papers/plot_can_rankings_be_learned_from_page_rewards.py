# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""
Can rankings be learned from the rewards of pages? Table 1 of the slate paper
=============================================================================

A ranker usually learns from grades of single documents. Swaminathan et al. [1]_ learn
it from logged pages whose documents were drawn at random and of which nothing is known
but one reward each: the pseudoinverse imputes what every document was worth in every
slot, and any regressor learns these numbers. They compare it with the same regressor
learned from the grades.

Here the documents are those of the Cranfield collection where ``SKOPE_OPE_DATA`` or
``--data`` names a folder with them, and pairs of digits otherwise. ``--full`` logs two
million pages for each of the five folds.

.. [1] Swaminathan, A., et al. (2017). Off-policy evaluation for slate recommendation.
   NeurIPS 30.
"""

# %%
# Five folds of queries
# ---------------------
#
# A policy fills three slots from all documents of a query. The logger is uniform. Four
# fifths of the queries are learned from, the others are ranked.

import argparse
import os
import time

import matplotlib.pyplot as plt
import numpy as np
from _ranking_sets import graded_documents
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.model_selection import GroupKFold

from skope_ope import PseudoInverseRanker, RankingPolicy, UniformSlatePolicy
from skope_ope.datasets import RankingWorld

parser = argparse.ArgumentParser(allow_abbrev=False)
parser.add_argument("--full", action="store_true", help="two million pages a fold")
parser.add_argument("--data", default=os.environ.get("SKOPE_OPE_DATA"))
args = parser.parse_known_args()[0]
N_ROUNDS = 2_000_000 if args.full else 100_000
N_DRAWS = 1000 if args.full else 200
METRICS, METHODS = ("ndcg", "err"), ("random", "supervised", "PI-OPT")
# NDCG@3, ERR@3; on the web search data of the paper, from ten million pages
PAPER = {
    "random": (0.152, 0.096),
    "supervised": (0.438, 0.311),
    "PI-OPT": (0.421, 0.321),
}

X, y, qid, _ = graded_documents(args.data)
regressor = HistGradientBoostingRegressor(
    learning_rate=0.05, max_iter=150, max_leaf_nodes=15, min_samples_leaf=20
)


def world_of(rows, metric):
    """Return the queries of some documents."""
    return RankingWorld(
        X[rows], y[rows], qid[rows], n_slots=3, metric=metric, max_grade=4
    )


def values(world, policy):
    """Return the expected reward of every query."""
    every = np.arange(world.n_queries)
    slates = policy.deterministic_slates(world.queries)
    if slates is not None:
        return world.reward(every, slates)
    rng = np.random.RandomState(0)
    draws = [policy.sample(world.queries, rng) for _ in range(N_DRAWS)]
    return np.mean([world.reward(every, slates) for slates in draws], axis=0)


# %%
# Batches of logs go through the ranker one after the other: what it keeps is one table
# of three slots times fifty candidates per query.

found = {(metric, method): [] for metric in METRICS for method in METHODS}
started = time.perf_counter()
for fold, (train, test) in enumerate(GroupKFold(5).split(X, y, qid)):
    supervised = RankingPolicy(regressor, n_slots=3).fit(X[train], y[train])
    for metric in METRICS:
        pages = world_of(train, metric).stream(N_ROUNDS, random_state=fold)
        policies = {
            "random": UniformSlatePolicy(3),
            "supervised": supervised,
            "PI-OPT": PseudoInverseRanker(regressor).fit(pages),
        }
        held_out = world_of(test, metric)
        for method, policy in policies.items():
            found[metric, method].append(values(held_out, policy))
found = {key: np.concatenate(parts) for key, parts in found.items()}
print(f"{N_ROUNDS:,} pages a fold, {time.perf_counter() - started:.0f} s")

# %%
# The table
# ---------


def mean_and_error(values):
    """Return a mean over queries and its standard error."""
    return values.mean(), values.std(ddof=1) / np.sqrt(len(values))


def cell(values):
    mean, error = mean_and_error(values)
    return f"{mean:8.3f} ({error:.3f})"


print(f"\n{'':>24}{'NDCG@3':>16}{'ERR@3':>16}   the paper's")
for method in METHODS:
    cells = "".join(cell(found[metric, method]) for metric in METRICS)
    print(f"{method:>24}{cells}   {PAPER[method][0]:.3f}  {PAPER[method][1]:.3f}")
pairs = [("supervised", "random"), ("PI-OPT", "random"), ("PI-OPT", "supervised")]
for one, other in pairs:
    gains = {metric: found[metric, one] - found[metric, other] for metric in METRICS}
    name = f"{one} - {other}"
    print(f"{name:>24}{''.join(cell(gain) for gain in gains.values())}")
    if other == "random":
        for gain in gains.values():
            mean, error = mean_and_error(gain)
            assert mean > 5 * error, name

# %%
# Both are far above random. In brackets are standard errors over queries, of paired
# differences in the last rows.

fig, ax = plt.subplots(figsize=(5, 3))
for place, method in enumerate(METHODS):
    means, errors = zip(
        *(mean_and_error(found[metric, method]) for metric in METRICS), strict=True
    )
    ax.bar(np.arange(2) + 0.25 * place, means, 0.25, yerr=errors, label=method)
ax.set(xticks=np.arange(2) + 0.25, xticklabels=["NDCG@3", "ERR@3"])
ax.set_ylabel("mean over queries")
ax.legend()
fig.tight_layout()
