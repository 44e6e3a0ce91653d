# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""
Which interval for few clicks? Coverage and width of each method
================================================================

Student's interval needs about ten rewarded rounds that the policy would have chosen.
The other methods know the range of the rewards and the largest weight, and differ in
what they promise for it. This script draws logs with rare and with frequent clicks and
counts how often each interval covers the truth, and how wide it is.

``--repetitions 2000`` gives the table of the guide's page on intervals.
"""

import argparse
import warnings

import matplotlib.pyplot as plt
import numpy as np
from joblib import Parallel, delayed

from skope_ope import SNIPS, BanditLogs
from skope_ope.exceptions import OPEWarning

parser = argparse.ArgumentParser(allow_abbrev=False)
parser.add_argument("--repetitions", type=int, default=80)
parser.add_argument("--n-jobs", type=int, default=2)
args = parser.parse_known_args()[0]

# %%
# Two loggers, clicks of all frequencies
# --------------------------------------
#
# Five articles. The *uniform* logger shows each of them equally often, and the policy
# shows the second to everybody: all weights are 0 or 5, so that the value of SNIPS is a
# share and has an exact interval. The *uneven* logger has preferences that depend on
# the context, and the policy others: weights up to 6, of which the largest are rare.

N_ARTICLES, N_CONTEXTS = 5, 20
SIZES = [200, 2000]
CLICKS = [0.006, 0.05, 0.3]
METHODS = [
    "student",
    "gamma",
    "clopper_pearson",
    "betting",
    "empirical_likelihood",
    "cressie_read",
]
WORLD = np.random.default_rng(0)
APPEAL = WORLD.uniform(0.5, 1.5, (N_CONTEXTS, N_ARTICLES))
UNEVEN = 0.8 * WORLD.dirichlet(np.full(N_ARTICLES, 0.6), N_CONTEXTS) + 0.2 / N_ARTICLES
TASTE = WORLD.dirichlet(np.full(N_ARTICLES, 0.6), N_CONTEXTS)


def world_of(logger):
    """Return the probabilities of the logger and of the policy, by context."""
    if logger == "uneven":
        return UNEVEN, 0.5 * TASTE + 0.5 * UNEVEN
    second = np.tile(np.arange(N_ARTICLES) == 1, (N_CONTEXTS, 1)).astype(float)
    return np.full((N_CONTEXTS, N_ARTICLES), 1 / N_ARTICLES), second


def repeat(logger, clicks, n_rounds, seed):
    """Draw one log; return the ends of all intervals."""
    rng = np.random.default_rng(seed)
    proba, policy = world_of(logger)
    context = rng.integers(N_CONTEXTS, size=n_rounds)
    drawn = rng.random((n_rounds, 1)) > proba[context].cumsum(axis=1)
    action = np.minimum(drawn.sum(axis=1), N_ARTICLES - 1)
    reward = rng.random(n_rounds) < clicks * APPEAL[context, action]
    logs = BanditLogs(
        context[:, None],
        action,
        reward.astype(float),
        proba[context, action],
        actions=np.arange(N_ARTICLES),
        logging_proba=proba[context],
        reward_range=(0, 1),
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", OPEWarning)
        value = SNIPS().fit(logs).evaluate(policy[context])
        return [
            value.confidence_interval(method=method)
            if method != "clopper_pearson" or logger == "uniform"
            else (np.nan, np.nan)
            for method in METHODS
        ]


# %%
# How often, and how wide
# -----------------------
#
# The width is the median over the logs, in percentage points of the click rate.

coverage, width = {}, {}
with Parallel(n_jobs=args.n_jobs) as parallel:
    for logger in ("uniform", "uneven"):
        print(f"\n{logger} logger")
        print(f"  {'clicks':>6} {'n':>6}" + "".join(f"{m[:15]:>17}" for m in METHODS))
        for clicks in CLICKS:
            truth = clicks * (world_of(logger)[1] * APPEAL).sum(axis=1).mean()
            for n_rounds in SIZES:
                jobs = (
                    delayed(repeat)(logger, clicks, n_rounds, seed)
                    for seed in range(args.repetitions)
                )
                low, high = np.array(parallel(jobs)).transpose(2, 1, 0)
                cell = logger, clicks, n_rounds
                missing = np.isnan(low).all(axis=1)
                covers = ((low <= truth) & (truth <= high)).mean(axis=1)
                coverage[cell] = np.where(missing, np.nan, covers)
                width[cell] = 100 * np.median(high - low, axis=1)
                shown = zip(coverage[cell], width[cell], strict=True)
                entries = "".join(f"{c:9.3f} ({w:5.2f})" for c, w in shown)
                print(f"  {truth:6.4f} {n_rounds:6,}  {entries}")

error = np.sqrt(0.95 * 0.05 / args.repetitions)
print(f"\nstandard error of a coverage of 0.95: {error:.4f}")

# %%
# Coverage in all cells; the grey band is 0.95 with four standard errors.

figure, axes = plt.subplots(
    1, 2, figsize=(12, 5), sharex=True, sharey=True, layout="constrained"
)
for ax, logger in zip(axes, ("uniform", "uneven"), strict=True):
    cells = [cell for cell in coverage if cell[0] == logger]
    ax.axhspan(0.95 - 4 * error, min(0.95 + 4 * error, 1), color="0.9")
    for i, method in enumerate(METHODS):
        points = [coverage[cell][i] for cell in cells]
        ax.plot(np.arange(len(cells)) + 0.08 * i - 0.2, points, "o", label=method)
    ax.set_xticks(range(len(cells)), [f"{100 * c:g}%\nn={n:,}" for _, c, n in cells])
    ax.set(title=f"{logger} logger", xlabel="clicks", ylabel="coverage")
axes[0].legend(loc="lower right")

# %%
# What to take from it
# --------------------
#
# - Student's interval covers far less than it says where a log holds a handful of
#   clicks that the policy would have got. Many rounds do not help if clicks are rare.
# - "gamma", which ``method="auto"`` chooses here, covers in every cell and is about as
#   narrow as Student's where there are events enough.
# - "clopper_pearson" is exact for shares and needs nothing but the counts.
# - "betting" never covers less than it says, for any number of rounds and any world
#   within the bounds; that costs a quarter of the width for many events, and more
#   for few.
# - "empirical_likelihood" and "cressie_read" use that weights average one. The first is
#   as narrow as Student's, and covers too little where two or three events are to be
#   expected. The second held in all cells. Their promise is one for many rounds.
#
# What this script shows holds, or it would not run to its end.

at = {method: i for i, method in enumerate(METHODS)}
for cell, covers in coverage.items():
    assert covers[at["betting"]] > 0.95 - 4 * error
    assert covers[at["gamma"]] > 0.93 - 4 * error
    assert not covers[at["clopper_pearson"]] < 0.95 - 4 * error
    assert width[cell][at["betting"]] > width[cell][at["gamma"]]
assert coverage["uniform", 0.006, 200][at["student"]] < 0.95 - 4 * error
few = coverage["uniform", 0.006, 2000]
assert few[at["empirical_likelihood"]] < few[at["clopper_pearson"]]
for logger in ("uniform", "uneven"):
    assert coverage[logger, 0.3, 2000][at["student"]] > 0.95 - 4 * error
    narrow = width[logger, 0.3, 2000]
    assert narrow[at["gamma"]] < 1.1 * narrow[at["student"]]
    assert narrow[at["empirical_likelihood"]] < 1.1 * narrow[at["student"]]
