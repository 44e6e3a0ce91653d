# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
# sphinx_gallery_thumbnail_number = -1
"""
Does the pseudoinverse stand rewards that are no sums? Figure 1 of the slate paper
==================================================================================

Swaminathan et al. [1]_ evaluate a ranker on the logs of a search engine by two measures
of satisfaction with the whole page: the time until a user found something (its
negative), and the balance of good and bad clicks. Neither is a sum over slots. The logs
are proprietary; their form is not: 77 queries with 8 results, of which pages show 5,
22,000 rows with rewards in [-1, 1], and a logger that is known by the pages it has
shown only. Simulated users stand here for the real ones.

The paper takes 50 runs; so do we, but for the models, which take 8. ``--full`` takes 50
of them, too, and half a minute.

.. [1] Swaminathan, A., et al. (2017). Off-policy evaluation for slate recommendation.
   NeurIPS 30. Section 4.3.
"""

# %%
# Pages and users
# ---------------
#
# A user looks at one result after the other, clicks on what looks good, and leaves when
# content or tired. Time to success counts what was looked at and read; the utility rate
# is the share of reading time that was well spent less the share that was not.

import argparse
import warnings

import matplotlib.pyplot as plt
import numpy as np
from _ranking_sets import weights as weights_of
from _trials import summarize
from sklearn.linear_model import LogisticRegression
from sklearn.tree import DecisionTreeRegressor

from skope_ope import (
    PlackettLuceSlatePolicy,
    PseudoInverse,
    SlateDirectMethod,
    SlateIPS,
    SlateLogs,
)
from skope_ope.exceptions import OPEWarning
from skope_ope.policies import EmpiricalSlatePolicy

parser = argparse.ArgumentParser(allow_abbrev=False)
parser.add_argument("--full", action="store_true", help="50 runs of the models")
parser.add_argument("--model-runs", type=int)
args = parser.parse_known_args()[0]
N_RUNS, N_MODEL_RUNS = 50, args.model_runs or (50 if args.full else 8)
N_QUERIES, M, L, N_LOGGED = 77, 8, 5, 22_000
SIZES = [1000, 3000, 10_000, 30_000]
METHODS = ("OnPolicy", "IPS", "DM:tree", "PI")
LONGEST = 16.0

rng = np.random.RandomState(0)
features = rng.normal(size=(N_QUERIES, M, 6))
appeal = features @ [1.0, 0.5, 0.5, 0, 0, 0] + 0.5 * rng.normal(size=(N_QUERIES, M))
worth = features @ [0.5, 1.0, 0, 0.5, 0, 0] + 0.5 * rng.normal(size=(N_QUERIES, M))
click_rate, content_rate = 1 / (1 + np.exp(0.5 - appeal)), 1 / (1 + np.exp(1 - worth))
traffic = 1 / np.arange(1, N_QUERIES + 1) ** 0.5
traffic /= traffic.sum()


def rounds(query, slates, reward, **fields):
    """Return logs of some queries."""
    context = query[:, None].astype(float)
    fields = {"n_candidates": M, "item_features": features[query], **fields}
    return SlateLogs(context, slates, reward, **fields).with_columns(query=query)


def visit(query, slates, random_state):
    """Return clicks, negative time to success and utility rate of users."""
    rng = np.random.RandomState(random_state)
    time, good, bad = np.zeros((3, len(query)))
    clicks, there = np.zeros(slates.shape), np.ones(len(query), dtype=bool)
    success = np.full(len(query), LONGEST)
    for slot, shown in enumerate(slates.T):
        time += there
        click = there & (rng.random_sample(len(query)) < click_rate[query, shown])
        content = click & (rng.random_sample(len(query)) < content_rate[query, shown])
        reading = click * (1 + 2 * rng.random_sample(len(query)))
        time += reading
        good += reading * content
        bad += reading * (click & ~content)
        success = np.where(content, np.minimum(success, time), success)
        clicks[:, slot] = click
        there &= ~(content & (rng.random_sample(len(query)) < 0.7))
        there &= rng.random_sample(len(query)) < 0.95
    utility = (good - bad) / np.maximum(good + bad, 1)
    return clicks, {"negative time to success": -success / LONGEST, "utility": utility}


# %%
# The logs. What is known of the logger are the pages that it has shown for a query.

query = rng.choice(N_QUERIES, size=N_LOGGED, p=traffic)
blank = np.full((N_LOGGED, L), -1)
production = PlackettLuceSlatePolicy(np.exp(1.5 * appeal)[query], L)
slates = production.sample(rounds(query, blank, np.zeros(N_LOGGED)), 1)
clicks, rewards = visit(query, slates, 2)
logged = rounds(query, slates, rewards["utility"])
# a run draws its pages alike, see below; these logs did not
seen = EmpiricalSlatePolicy.seen_in(logged, frequencies=False, by="query")
counts = np.array([len(pages) for pages in seen.slates.values()])
print(f"{N_LOGGED:,} rows, {np.mean(counts):.0f} distinct pages a query")
for name, reward in rewards.items():
    print(f"mean {name} of the logs: {reward.mean():.4f}")

# %%
# The target: a logistic regression of the clicks scores results, and every query gets
# the page of the largest discounted sum among those that were shown. So the mean reward
# of the page is known from the logs.

shown = features[query[:, None], slates]
classifier = LogisticRegression().fit(shown.reshape(-1, 6), clicks.ravel())
score = classifier.predict_proba(features.reshape(-1, 6))[:, 1].reshape(N_QUERIES, M)
discount = 1 / np.log2(np.arange(2, L + 2))
target = np.stack(
    [pages[(score[q][pages] @ discount).argmax()] for q, pages in seen.slates.items()]
)

# %%
# Every page of the logs is a list of the rewards it got. A run draws queries by their
# traffic (the paper uniformly), one of the query's pages uniformly, and one of the
# rewards of the page.

order = np.lexsort([*slates.T[::-1], query])
rows = np.column_stack([query, slates])[order]
starts = np.r_[True, (rows[1:] != rows[:-1]).any(axis=1)]
first = np.flatnonzero(starts)  # of every distinct page
repeats = np.diff(first, append=N_LOGGED)
page_query, pages = rows[first, 0], rows[first, 1:]
offset = np.searchsorted(page_query, np.arange(N_QUERIES))
share = np.bincount(query, minlength=N_QUERIES) / N_LOGGED
own_page = np.flatnonzero((pages == target[page_query]).all(axis=1))


# %%
# The logger draws a query's pages alike, so a page has the same weight for all users.
# The estimators are computed once for every distinct page. Their expectation and
# variance over all logs are then sums over pages, and need no runs.

warnings.simplefilter("ignore", OPEWarning)  # of the heavy weights of IPS
every_page = rounds(
    page_query, pages, np.zeros(len(pages)), logging_policy=seen, reward_range=(-1, 1)
)
WEIGHTS = {
    "IPS": weights_of(SlateIPS(), every_page, target[page_query]),
    "PI": weights_of(PseudoInverse(), every_page, target[page_query]),
}
page_proba = (share / counts)[page_query]


def page_means(reward):
    """Mean of the rewards that every page got."""
    return np.add.reduceat(reward[order], first) / repeats


def exact_errors(weight, reward, truth):
    """Return the bias, and the root mean squared error by n."""
    mean = page_proba @ (weight * page_means(reward))
    variance = page_proba @ (weight**2 * page_means(reward**2)) - mean**2
    bias = mean - truth
    return bias, np.sqrt(bias**2 + variance / SIZES)


# %%
# The runs
# --------
#
# The direct method is a regression tree over the features of all slots, which learns on
# one half of the rounds and predicts on the other.


def draw_reward(reward, page, rng):
    """One of the rewards that the pages got."""
    place = (rng.random_sample(len(page)) * repeats[page]).astype(int)
    return reward[order][first[page] + place]


def direct_method(logs, policy):
    """Value by a tree that learns from one half, on the other half."""
    halves = np.array_split(np.arange(len(logs)), 2)
    tree = DecisionTreeRegressor(max_depth=8, min_samples_leaf=20, random_state=0)
    model = SlateDirectMethod(reward_model=tree, cv=[halves]).fit(logs)
    return model.evaluate(policy).round_values[halves[1]].mean()


def estimates(seed):
    """Estimates of one run by (reward, method, size)."""
    rng = np.random.RandomState(seed)
    q = rng.choice(N_QUERIES, size=SIZES[-1], p=share)
    page = offset[q] + (rng.random_sample(len(q)) * counts[q]).astype(int)
    found = np.full((len(rewards), len(METHODS), len(SIZES)), np.nan)
    for values, reward in zip(found, rewards.values(), strict=True):
        drawn = draw_reward(reward, page, rng)
        terms = {method: weight[page] * drawn for method, weight in WEIGHTS.items()}
        terms["OnPolicy"] = draw_reward(reward, own_page[q], rng)
        for method, per_round in terms.items():
            # the mean over the first n rounds is the estimate from them
            values[METHODS.index(method)] = [per_round[:n].mean() for n in SIZES]
        for k, n in enumerate(SIZES if seed < N_MODEL_RUNS else ()):
            logs = rounds(q[:n], pages[page[:n]], drawn[:n], reward_range=(-1, 1))
            values[METHODS.index("DM:tree"), k] = direct_method(logs, target[q[:n]])
    return found


# %%
# The errors
# ----------
#
# "exact" are the errors over all logs; the others are those of the runs. IPS has no
# bias, and errs 2.6 times as much as the pseudoinverse at 1,000 rounds for the time to
# success, 2.7 times for the utility. PI pays for it by a bias, -.007 and -.046, which
# is most of its error of the utility at 30,000 rounds. So far it is the paper's figure.
#
# Its other finding does not come back: there PI errs less than the direct method, from
# moderate sizes on. Here it errs more at every size: in 50 runs, 3.3 and 2.1 times as
# much as the tree at 1,000 rounds, 1.9 times for either reward at 30,000. The simulated
# users follow 30 numbers that the tree sees, so that its bias is small; real users do
# not, and the paper's model has 20,000 features of a page to choose from. What a model
# can do is a matter of the data, and no log tells its bias.

fig, axes = plt.subplots(1, 2, figsize=(9, 3.4), layout="constrained")
runs = np.array([estimates(seed) for seed in range(N_RUNS)])
for i, (ax, (name, reward)) in enumerate(zip(axes, rewards.items(), strict=True)):
    truth = share @ page_means(reward)[own_page]
    print(f"\n{name}: true value {truth:.4f}; rmse and 95% interval")
    print(f"{'n':>10}" + "".join(f"{n:>18,}" for n in SIZES))
    errors = {}
    for m, method in enumerate(METHODS):
        table = np.array([summarize(error) for error in (runs[:, i, m] - truth).T])
        cells = "".join(f"{rmse:10.4f} ±{half:.4f}" for rmse, half, *_ in table)
        print(f"{method:>10}{cells}")
        ax.errorbar(SIZES, table[:, 0], table[:, 1], marker="o", label=method)
        errors[method] = table
    exact = {}
    for method, weight in WEIGHTS.items():
        bias, exact[method] = exact_errors(weight, reward, truth)
        errors[method, "bias"] = bias
        cells = "".join(f"{rmse:10.4f}{'':8}" for rmse in exact[method])
        print(f"{method + ' exact':>10}{cells} bias {bias:+.4f}")
    direct = errors["DM:tree"][:, 0]
    for one, other, ratio in (
        ("IPS", "PI", exact["IPS"] / exact["PI"]),
        ("PI", "DM:tree", exact["PI"] / direct),
    ):
        cells = ", ".join(f"{r:.1f}" for r in ratio)
        print(f"{one} errs {cells} times as much as {other}")
    assert abs(errors["IPS", "bias"]) < 1e-12
    assert abs(errors["PI", "bias"]) > 1e-3
    assert (exact["IPS"] > exact["PI"])[:3].all()
    room = 4 * errors["DM:tree"][0, 1] / 1.96
    assert direct[0] + room < exact["PI"][0]
    ax.set(title=name, xlabel="n", xscale="log", yscale="log")
axes[0].set_ylabel("rmse")
axes[-1].legend(loc="upper left", bbox_to_anchor=(1, 1))
