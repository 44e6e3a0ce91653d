# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
# sphinx_gallery_thumbnail_number = -1
r"""
Does the pseudoinverse need less data? Figure 2 of the slate paper
==================================================================

Swaminathan et al. [1]_ log rankings of documents and ask what another ranker would have
earned. Inverse propensity scoring waits until the logger happens to show the other
ranker's whole slate; the pseudoinverse learns from every slate that shares a document
with it. They measure the error of either, and of regression models, as the logs grow.

Here the documents are the abstracts of the Cranfield collection (225 questions with 50
documents each) where ``SKOPE_OPE_DATA`` or ``--data`` names a folder with them, and
pairs of digits otherwise. The paper has 31,000 queries of web search, with up to 100
candidates.

By default the four panels of the upper row of figure 2 are run, and one more. Logs have
up to 100,000 slates where 5 of 10 documents are shown, and 10,000 where it is 10 of 50;
models learn from up to 10,000. ``--full`` runs 40 conditions, as the paper does, 25
times, with up to a million slates, and 100,000 for models: some hours, which
``--n-jobs`` divides. ``--full --runs 5 --model-runs 2 --largest 100000`` has all
conditions in two minutes.

.. [1] Swaminathan, A., et al. (2017). Off-policy evaluation for slate recommendation.
   NeurIPS 30.
.. [2] Vlassis, N., Chandrashekar, A., Amat, F., & Kallus, N. (2021). Control variates
   for slate off-policy evaluation. NeurIPS 34.
"""

# %%
# Loggers and targets
# -------------------
#
# A tree and a lasso learn the grades from what is known of the title, another tree and
# another lasso from the body of a document. The candidates A(x) of a query are the best
# m documents by the tree of the title. Loggers draw slates of l from them, uniformly or
# with weights :math:`2^{-\alpha \lfloor \log_2 rank \rfloor}` by the rank that a title
# model gives; the targets rank by the body models. The reward is NDCG, a sum over the
# slots, or ERR, which is none.

import argparse
import os
import warnings
from itertools import combinations, permutations, product

import matplotlib.pyplot as plt
import numpy as np
from _ranking_sets import (
    KINDS,
    METRICS,
    UNIFORM,
    RankingSetting,
    grade_models,
    graded_documents,
    weights,
)
from _trials import run, summarize
from sklearn.linear_model import LassoCV
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeRegressor
from sklearn.utils.parallel import delayed

from skope_ope import (
    PseudoInverse,
    SlateDirectMethod,
    SlateIPS,
    SlateLogs,
)
from skope_ope.exceptions import OPEWarning

parser = argparse.ArgumentParser(allow_abbrev=False)
parser.add_argument("--full", action="store_true", help="40 conditions, 25 runs")
parser.add_argument("--data", default=os.environ.get("SKOPE_OPE_DATA"))
parser.add_argument("--runs", type=int, help="runs of the weighted estimates")
parser.add_argument("--model-runs", type=int, help="runs of the models")
parser.add_argument("--largest", type=int, help="largest logs of 5 of 10 documents")
parser.add_argument("--n-jobs", type=int, default=1)
args = parser.parse_known_args()[0]
N_RUNS = args.runs or (25 if args.full else 10)
N_MODEL_RUNS = args.model_runs or (25 if args.full else 3)
LARGE, SMALL = (50, 10), (10, 5)  # m, l
LAST = args.largest or (10**6 if args.full else 10**5)
SIZES = {SMALL: [LAST // 100, LAST // 10, LAST], LARGE: [LAST // 100, LAST // 10]}
if args.full:
    SIZES[LARGE].append(LAST)
MODELS_UP_TO = LAST // 10
TREE, SHARP = ("tree", 1), ("tree", 2)  # model, alpha
PANELS = [  # the upper row of figure 2
    (LARGE, UNIFORM, "ndcg", "tree"),
    (LARGE, TREE, "ndcg", "tree"),
    (LARGE, UNIFORM, "err", "lasso"),
    (SMALL, UNIFORM, "err", "tree"),
]
ALPHA_2 = (LARGE, SHARP, "ndcg", "tree")
CONDITIONS = [*PANELS, ALPHA_2]
BOTH_TARGETS = (SMALL, UNIFORM), ALPHA_2[:2]  # more is said of them
if args.full:
    LOGGERS = [UNIFORM, *product(KINDS, (1, 2))]
    CONDITIONS = list(product(SIZES, LOGGERS, METRICS, KINDS))
METHODS = ("OnPolicy", "wIPS", "DM:tree", "DM:lasso", "wPI", "control")

# that few rounds match is what the figure is about
warnings.simplefilter("ignore", OPEWarning)
documents = graded_documents(args.data)
models = grade_models(documents)
print(f"{len(np.unique(documents[2]))} queries, {len(documents[0]):,} documents")


def setting_of(shape, logger):
    return RankingSetting(documents, models, shape, logger)


# %%
# How different the models are: the documents that two of them have in common among
# their best ten. The paper has fewer than 2.75 on average.

ranked = setting_of(LARGE, UNIFORM).ranked
tops = {" of the ".join(name): ranked(model) for name, model in models.items()}
for one, other in combinations(tops, 2):
    common = (tops[one][:, :, None] == tops[other][:, None]).any(axis=2).sum(axis=1)
    print(f"{one} and {other}: {common.mean():.2f} of ten in common")

# %%
# Weighted estimates
# ------------------
#
# One long log is cut into runs, and the estimates from the first rounds of a run are
# those of a shorter log. Whole slates often match in no round. Then wIPS is zero
# divided by zero: there is no estimate, and the table counts the runs without one. (The
# released code of the paper counts zero for it. Its error then is the value of the
# policy, which says nothing about the estimator.) "control" is the pseudoinverse with a
# control variate [2]_: :math:`\overline{W r} - \beta\, \overline{(W - 1)}`, with the
# slope of :math:`W r` on :math:`W - 1` for :math:`\beta`.


def weighted_runs(setting, pairs, n_rounds, seed):
    """Return rewards by metric and weights by method and target, (n_runs, n_rounds)."""
    metrics, kinds = map(dict.fromkeys, zip(*pairs, strict=True))
    found = {}
    pages = setting.world.stream(
        N_RUNS * n_rounds, setting.logger, batch_size=100_000, random_state=seed
    )
    for logs in pages:
        query = logs.context[:, 0].astype(int)
        for metric in metrics:
            reward = setting.worlds[metric].reward(query, logs.slate)
            found.setdefault(metric, []).append(reward)
        for kind in kinds:
            for name, evaluator in (("wPI", PseudoInverse()), ("wIPS", SlateIPS())):
                weight = weights(evaluator, logs, setting.slates[kind][query])
                found.setdefault((name, kind), []).append(weight)
    return {k: np.concatenate(v).reshape(N_RUNS, -1) for k, v in found.items()}


def ratio(weight, reward):
    """Weighted mean of the rewards of every run; NaN where no weight is left."""
    top, total = (weight * reward).sum(axis=1), weight.sum(axis=1)
    return np.divide(top, total, out=np.full(len(top), np.nan), where=total > 0)


def controlled(weight, reward):
    """Take off what the deviation of the mean weight from one explains."""
    gain, centred = weight * reward, weight - 1
    slope = (centred * gain).mean(axis=1) / (centred**2).mean(axis=1)
    return gain.mean(axis=1) - slope * centred.mean(axis=1)


def weighted_estimates(setting, runs, metric, kind, n):
    """Return estimates by method from the first n rounds of every run."""
    reward, wips, wpi = (
        runs[key][:, :n] for key in (metric, ("wIPS", kind), ("wPI", kind))
    )
    visits = np.random.RandomState(n).randint(setting.world.n_queries, size=wpi.shape)
    return {
        "OnPolicy": setting.rewards(metric, kind)[visits].mean(axis=1),
        "wIPS": ratio(wips, reward),
        "wPI": ratio(wpi, reward),
        "control": controlled(wpi, reward),
    }


# %%
# Direct methods
# --------------
#
# They learn the reward from the features of all slots on the first half of the rounds
# and predict that of the target's slates on the second half. Depth and penalty are
# chosen by threefold cross-validation in every run, as in the released code: trees with
# random splits of depth 3, 6, 9 or 12, and four penalties, each ten times the one
# before. (Theirs start at .01, here at .001: our features are standardized.)

TREE_MODEL = DecisionTreeRegressor(
    splitter="random", min_samples_leaf=4, random_state=0
)
MODELS = {
    "DM:tree": GridSearchCV(TREE_MODEL, {"max_depth": [3, 6, 9, 12]}, cv=3),
    "DM:lasso": make_pipeline(
        StandardScaler(), LassoCV(alphas=[1e-3, 1e-2, 1e-1, 1], cv=3, tol=1e-2)
    ),
}


def direct_estimates(setting, metric, n, seed):
    """Return estimates by method and target from one log."""
    world = setting.worlds[metric]
    logs = world.draw(n, setting.logger, random_state=1000 + seed)
    query = logs.context[:, 0].astype(int)
    logs = SlateLogs(
        np.empty((n, 0)),
        logs.slate,
        logs.reward,
        item_features=logs.item_features,
        item_id=logs.item_id,
        n_candidates=logs.n_candidates,
    )
    halves = np.array_split(np.arange(n), 2)
    found = {}
    for method, model in MODELS.items():
        evaluator = SlateDirectMethod(reward_model=model, cv=[halves]).fit(logs)
        for kind, slates in setting.slates.items():
            values = evaluator.evaluate(slates[query]).round_values
            found[method, kind] = values[halves[1]].mean()
    return found


# %%
# The runs
# --------
#
# Weights and models belong to a logger, whatever the target.


def errors_of(shape, name):
    """Errors of all runs by (metric, target, method, size)."""
    setting, sizes, found = setting_of(shape, name), SIZES[shape], {}
    pairs = [c[2:] for c in CONDITIONS if c[:2] == (shape, name)]
    modelled = dict(pairs) if args.full or (shape, name) != ALPHA_2[:2] else ()
    if (shape, name) in BOTH_TARGETS:
        pairs = dict.fromkeys([*pairs, *product(["ndcg"], KINDS)])
    truth = {pair: setting.rewards(*pair).mean() for pair in pairs}
    runs = weighted_runs(setting, pairs, sizes[-1], seed=0)
    for pair, n in product(pairs, sizes):
        for method, value in weighted_estimates(setting, runs, *pair, n).items():
            found[*pair, method, n] = value - truth[pair]
    for metric, n in product(METRICS, sizes):
        if n > MODELS_UP_TO or metric not in modelled:
            continue
        for seed in range(N_MODEL_RUNS):
            for (method, kind), value in direct_estimates(
                setting, metric, n, seed
            ).items():
                error = value - truth.get((metric, kind), np.nan)
                found.setdefault((metric, kind, method, n), []).append(error)
    return truth, {key: np.asarray(error) for key, error in found.items()}


def rmse_of(condition, method, n):
    """Return rmse, half its 95% interval, and the number of runs without estimate."""
    shape, name, metric, kind = condition
    error = RESULTS[shape, name][1].get((metric, kind, method, n))
    if error is None:
        return np.nan, np.nan, 0
    return *summarize(error)[:2], int(np.isnan(error).sum())


def cell(rmse, half_width, none):
    """Write an error; how many runs have no estimate stands in brackets."""
    text = "-" if np.isnan(rmse) else f"{rmse:.4f} ±{half_width:.4f}"
    return f"{text:>16} {f'({none})' if none else '':>5}"


settings = list(dict.fromkeys(condition[:2] for condition in CONDITIONS))
jobs = [delayed(errors_of)(*setting) for setting in settings]
RESULTS = dict(zip(settings, run(jobs, args.n_jobs, "loggers"), strict=True))
print(f"\nrmse of {N_RUNS} runs, of {N_MODEL_RUNS} for models; (runs without estimate)")
for condition in CONDITIONS:
    shape, name, metric, kind = condition
    truth = RESULTS[shape, name][0][metric, kind]
    logger = name if name == UNIFORM else f"{name[0]}, alpha={name[1]}"
    print(f"\n{metric} (m, l)={shape} logger: {logger}; target: {kind}, {truth:.3f}")
    print(f"{'':>8}" + "".join(f"{f'n={n:,}':>16}{'':6}" for n in SIZES[shape]))
    for method in METHODS:
        cells = (cell(*rmse_of(condition, method, n)) for n in SIZES[shape])
        print(f"{method:>8}" + "".join(cells))


def rmse(condition, method, n):
    return rmse_of(condition, method, n)[0]


def of_both_targets(shape, logger, metric, method):
    """Return rmse by n, over the runs of both targets."""
    found = RESULTS[shape, logger][1]
    errors = {n: [found[metric, k, method, n] for k in KINDS] for n in SIZES[shape]}
    return {n: np.sqrt(np.nanmean(np.square(part))) for n, part in errors.items()}


# %%
# The middle and lower rows of figure 2 count conditions: here, in how many of them a
# method errs least, leaving out the control variates that the paper does not have.

for shape, metric, n in product(SIZES, METRICS, SIZES[LARGE][:2]) if args.full else ():
    chosen = [c for c in CONDITIONS if (c[0], c[2]) == (shape, metric)]
    table = np.array([[rmse(c, m, n) for m in METHODS[1:5]] for c in chosen])
    best = np.bincount(np.nanargmin(table, axis=1), minlength=4)
    counts = zip(METHODS[1:5], best, strict=True)
    cells = ", ".join(f"{method} {count}" for method, count in counts)
    print(f"{metric} {shape}, n={n:,}: least error of {cells}")


# %%
# What the paper says, and what is found
# --------------------------------------
#
# The figure has no numbers to copy; what the text says of it is checked here. Numbers
# are those of Cranfield. wIPS "barely improves" with 10 of 100 documents: with 10 of 50
# no run has a single match. With 5 of 10 it errs 14 times as much as wPI at 100,000
# rounds. Over 40 conditions and all sizes up to 100,000 (five runs), wIPS has an
# estimate in 36 cells of the table, and errs more than wPI in all of them.

for panel in PANELS[:3]:
    assert rmse_of(panel, "wIPS", MODELS_UP_TO)[2] == N_RUNS
assert rmse(PANELS[3], "wIPS", LAST) > 2 * rmse(PANELS[3], "wPI", LAST)

# %%
# The error of wPI falls like one over the root of n, where the reward is a sum: over
# two targets and all sizes, the slope of its logarithm is near -1/2.

together = of_both_targets(SMALL, UNIFORM, "ndcg", "wPI")
slope = np.polyfit(np.log(list(together)), np.log(list(together.values())), 1)[0]
print(f"\nslope of log rmse of wPI over log n, {SMALL}, uniform, NDCG: {slope:.2f}")
assert -0.7 < slope < -0.3

# %%
# Models are best with few rounds: at 1,000, one of them errs least in 36 of the 40
# conditions. Then they reach their bias. With ten times the rounds the tree errs nearly
# as much as before, and wPI errs least in 22 of 40. With 100,000 rounds wPI errs less
# than models with 10,000 in 32; the other eight are 10 of 50 documents with alpha = 2.
#
# A model may be hard to beat: with ERR, a uniform logger and the lasso as a target (the
# third panel) tree and wPI do not differ beyond chance at 10,000 rounds. There the
# paper, too, finds a model ahead.

small, large = SIZES[LARGE][:2]
tree_errs = [rmse(PANELS[0], "DM:tree", n) for n in (small, large)]
assert tree_errs[1] > 0.7 * tree_errs[0]
assert rmse(PANELS[0], "wPI", large) < tree_errs[1]

# %%
# Rewards that are sums have no bias. With every slate of ten candidates logged once per
# query, the estimate is its own expectation under the uniform logger; ERR is no sum.


def enumerated_bias(setting, n_queries=10):
    """Return E[PI] - V by metric, over some queries and the tree as a target."""
    slates = np.array(list(permutations(range(SMALL[0]), SMALL[1])))
    bias = dict.fromkeys(METRICS, 0.0)
    for query, metric in product(range(n_queries), METRICS):
        number = np.full(len(slates), query)
        reward = setting.worlds[metric].reward(number, slates)
        logs = setting.world.queries[number].context, slates, reward
        logs = SlateLogs(*logs, n_candidates=SMALL[0], logging_policy=setting.logger)
        target = setting.slates["tree"][number]
        value = setting.rewards(metric, "tree")[query]
        bias[metric] += (PseudoInverse().fit(logs).score(target) - value) / n_queries
    return bias


setting = setting_of(SMALL, UNIFORM)
bias = enumerated_bias(setting)
print("E[PI] - V by enumeration:", {m: f"{b:.1e}" for m, b in bias.items()})
assert abs(bias["ndcg"]) < 1e-12
assert abs(bias["err"]) > 1e-4

# %%
# The estimates of this script are those of the package.

logs = setting.world.draw(1000, setting.logger, random_state=0)
slates = setting.slates["tree"][logs.context[:, 0].astype(int)]
weight, reward = weights(PseudoInverse(), logs, slates)[None], logs.reward[None]
for found, evaluator in (
    (ratio(weight, reward), PseudoInverse(self_normalized=True)),
    (controlled(weight, reward), PseudoInverse(control_variates="single")),
):
    assert np.isclose(found[0], evaluator.fit(logs).score(slates))

# %%
# Where it needs more: alpha = 2
# ------------------------------
#
# With alpha = 2 and 50 documents, the logger leaves out the document that it ranks
# first once in 100,000 slates. A target that leaves it out can be learned from these
# slates only. :math:`\sigma^2 = E[q^T \Gamma^+ q]`, which bounds n times the variance,
# is 16 times as large for these queries as for the others, and ten times as large as n.
# The weights then sum to anything: wPI errs by .98 in the table, and in one run of ten
# the sum is negative. (Zero for no estimate would make wIPS err by .52, and look
# better.) A control variate errs by .18.

setting = setting_of(LARGE, SHARP)
logs = setting.world.draw(2000, setting.logger, random_state=0)
query = logs.context[:, 0].astype(int)
shown = setting.logger.slot_marginals(setting.world.queries[:1])[0, :, 0].sum()
print(f"\nalpha=2: the first document is left out with probability {1 - shown:.1e}")
sigma2 = {}
for kind, slates in setting.slates.items():
    leaves_out = ~(slates == 0).any(axis=1)[query]
    for without in (True, False):
        some = leaves_out == without
        value = PseudoInverse().fit(logs[some]).evaluate(slates[query[some]])
        sigma2[kind, without] = value.diagnostics["sigma2"]
        text = "leaves it out" if without else "shows it"
        print(f"{kind}: sigma^2 is {sigma2[kind, without]:.3g} where the target {text}")
    assert sigma2[kind, True] > 10 * sigma2[kind, False]
for method in ("wPI", "control"):
    error = of_both_targets(LARGE, SHARP, "ndcg", method)[large]
    print(f"{method}: rmse {error:.2f} over both targets, n={large:,}")

# %%
# Figures
# -------


def draw(ax, condition):
    """Draw the errors against n; runs without an estimate are left out."""
    (m, n_slots), name, metric, kind = condition
    for method in METHODS:
        row = [rmse(condition, method, n) for n in SIZES[m, n_slots]]
        ax.loglog(SIZES[m, n_slots], row, marker="o", label=method)
    logger = name if name == UNIFORM else "{}, alpha={}".format(*name)
    ax.set(title=f"{metric.upper()}, {n_slots} of {m}\n{logger} to {kind}", xlabel="n")


fig, axes = plt.subplots(1, 5, figsize=(14, 3.2), sharey=True, layout="constrained")
for ax, condition in zip(axes, [*PANELS, ALPHA_2], strict=True):
    draw(ax, condition)
axes[0].set_ylabel("rmse")
axes[-1].legend(loc="upper left", bbox_to_anchor=(1, 1), fontsize="small")
