# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""
Does the pseudoinverse need less data? Figure 2 of the slate paper
==================================================================

Swaminathan et al. [1]_ log rankings of documents and ask what another ranker would have
earned. Inverse propensity scoring waits until the logger happens to show the other
ranker's whole slate; the pseudoinverse learns from every slate that shares a document
with it. They measure the error of either, and of regression models, as the logs grow.

Here the documents are the abstracts of the Cranfield collection (225 questions with 50
documents each) where ``SKOPE_OPE_DATA`` or ``--data`` names a folder with them, and
pairs of digits otherwise. ``python plot_does_the_pseudoinverse_need_less_data.py
--full`` takes 25 runs of up to a million slates, and four loggers; regression models
learn from up to 100,000 (``--models-up-to``).

.. [1] Swaminathan, A., et al. (2017). Off-policy evaluation for slate recommendation.
   NeurIPS 30.
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
from itertools import permutations, product

import matplotlib.pyplot as plt
import numpy as np
from _ranking_sets import graded_documents, on_columns
from _trials import run as run_all
from sklearn.linear_model import Lasso
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeRegressor
from sklearn.utils.parallel import delayed

from skope_ope import (
    PseudoInverse,
    RankingPolicy,
    SlateDirectMethod,
    SlateIPS,
    SlateLogs,
    UniformSlatePolicy,
)
from skope_ope.datasets import RankingWorld
from skope_ope.exceptions import OPEWarning

parser = argparse.ArgumentParser(allow_abbrev=False)
parser.add_argument("--full", action="store_true", help="25 runs of a million slates")
parser.add_argument("--data", default=os.environ.get("SKOPE_OPE_DATA"))
parser.add_argument("--models-up-to", type=int, help="largest logs of the models")
parser.add_argument("--n-jobs", type=int, default=1)
args = parser.parse_known_args()[0]
N_RUNS = 25 if args.full else 5
SHAPES = (10, 5), (50, 10)  # m, l
N_ROUNDS = dict.fromkeys(SHAPES, 10**6)
if not args.full:
    N_ROUNDS = {(10, 5): 10**5, (50, 10): 10**4}
MODELS_UP_TO = args.models_up_to or (10**5 if args.full else 10**4)
BATCH = 100_000
METRICS, TARGETS = ("ndcg", "err"), ("tree", "lasso")
LOGGERS = ["uniform", ("tree", 1.0), ("lasso", 1.0)]
LOGGERS += [("tree", 2.0)] if args.full else []
METHODS = ("OnPolicy", "wIPS", "DM:tree", "DM:lasso", "wPI")

X, y, qid, columns = graded_documents(args.data)
print(f"{len(np.unique(qid))} queries, {len(X):,} documents")


def model(kind, part):
    """Return a model of the grades from the columns of the title or of the body."""
    if kind == "lasso":
        return on_columns(columns[part], StandardScaler(), Lasso(0.01))
    tree = DecisionTreeRegressor(max_leaf_nodes=30, min_samples_leaf=20, random_state=0)
    return on_columns(columns[part], tree)


def ranker(kind, part, n_slots, alpha=None):
    """Return the policy that ranks by a model."""
    return RankingPolicy(model(kind, part), n_slots, alpha=alpha).fit(X, y)


class Condition:
    """Worlds of both metrics with m candidates and l slots, loggers and targets."""

    def __init__(self, m, n_slots):
        best = model("tree", "title").fit(X, y).predict(X)
        self.shape = m, n_slots
        self.worlds = {
            metric: RankingWorld(
                X,
                y,
                qid,
                n_slots=n_slots,
                n_candidates=m,
                scores=best,
                metric=metric,
                max_grade=4,
            )
            for metric in METRICS
        }
        self.queries = self.worlds["ndcg"].queries
        self.targets = {kind: ranker(kind, "body", n_slots) for kind in TARGETS}
        self.truth = {
            (metric, kind): self.worlds[metric].value(target)
            for metric, (kind, target) in product(METRICS, self.targets.items())
        }

    def logger(self, name):
        """Return a logger by its name."""
        if name == "uniform":
            return UniformSlatePolicy(self.shape[1])
        return ranker(name[0], "title", self.shape[1], alpha=name[1])

    def reward(self, logs):
        """Return the rewards of both metrics."""
        query = logs.context[:, 0]
        return {m: world.reward(query, logs.slate) for m, world in self.worlds.items()}


def logged(queries, number, slates, reward, logger, context=True):
    """Return logs with given slates for some of the queries."""
    rounds = queries[number]
    return SlateLogs(
        rounds.context if context else np.empty((len(rounds), 0)),
        slates,
        reward,
        n_candidates=rounds.n_candidates,
        item_id=rounds.item_id,
        item_features=rounds.item_features,
        logging_policy=logger,
        reward_range=(0, 1),
    )


# %%
# Weights of millions of slates
# -----------------------------
#
# For a query the pseudoinverse weight of a slate is a sum over its slots. So the
# evaluator is asked once, for few slates of every query that tell all terms of these
# sums: one slate, and what changes where slot j shows item a. Where `a` is in the slate
# already, an item from outside takes its place.


def round_values(evaluator, logs, target):
    """Weights of the rounds: what they add to the estimate where every reward is 1."""
    ones = logs.replace(reward=np.ones(len(logs)))
    return evaluator.fit(ones).evaluate(target).round_values


def weight_table(queries, logger, target):
    """Terms of the weights, (n_queries, n_slots, n_candidates)."""
    m, n_slots, n_queries = queries.max_candidates, queries.n_slots, len(queries)
    probes, cells = [np.arange(n_slots)], [(0, 0)]
    for slot, item in product(range(n_slots), range(m)):
        probe = np.arange(n_slots)
        if item == slot:
            continue
        if item < n_slots:
            probe[item] = m - 1
        probe[slot] = item
        probes.append(probe)
        cells.append((slot, item))
    number = np.repeat(np.arange(n_queries), len(probes))
    slates = np.tile(probes, (n_queries, 1))
    logs = logged(queries, number, slates, np.ones(len(number)), logger)
    weight = round_values(PseudoInverse(), logs, target).reshape(n_queries, -1)
    table = np.zeros((n_queries, n_slots, m))
    slots, items = np.array(cells[1:]).T
    table[:, slots, items] = weight[:, 1:] - weight[:, :1]
    inside = items < n_slots  # there two slots have changed
    table[:, slots[inside], items[inside]] -= table[:, items[inside], m - 1]
    table[:, 0] += weight[:, :1]
    return table


def cumulative(terms, sizes):
    """Sums over the first rounds."""
    return np.cumsum(terms)[np.asarray(sizes) - 1]


def run(condition, logger, tables, sizes, seed):
    """One log of every size: errors by (metric, target, method, size).

    An estimate without a match or with weights that sum to nothing is 0.
    """
    world, rng = condition.worlds["ndcg"], np.random.RandomState(10_000 + seed)
    slots = np.arange(world.n_slots)
    own = {
        k: t.deterministic_slates(world.queries) for k, t in condition.targets.items()
    }
    columns = {}

    def add(key, values):
        columns.setdefault(key, []).append(values)

    first = None
    for logs in world.stream(sizes[-1], logger, batch_size=BATCH, random_state=seed):
        first = logs if first is None else first
        query = logs.context[:, 0].astype(int)
        for metric, reward in condition.reward(logs).items():
            add(metric, reward)
        for kind in TARGETS:
            weight = tables[kind][query[:, None], slots, logs.slate].sum(axis=1)
            add(("wPI", kind), weight)
            match = (logs.slate == own[kind][query]).all(axis=1)
            add(("wIPS", kind), match / logs.propensity)
    columns = {key: np.concatenate(values) for key, values in columns.items()}
    found = np.full((len(METRICS), len(TARGETS), len(METHODS), len(sizes)), np.nan)
    for (i, metric), (j, kind) in product(enumerate(METRICS), enumerate(TARGETS)):
        visits = rng.randint(world.n_queries, size=sizes[-1])
        deployed = condition.worlds[metric].reward(
            np.arange(world.n_queries), own[kind]
        )
        found[i, j, 0] = cumulative(deployed[visits], sizes) / sizes
        for method in ("wIPS", "wPI"):
            weight = columns[method, kind]
            top = cumulative(weight * columns[metric], sizes)
            total = cumulative(weight, sizes)
            value = np.divide(top, total, out=np.zeros(len(sizes)), where=total > 0)
            found[i, j, METHODS.index(method)] = value
    for i, metric in enumerate(METRICS):
        reward = columns[metric]
        for k, size in enumerate(sizes):
            if size > MODELS_UP_TO:
                break
            logs = first[:size].replace(reward=reward[:size])
            for method, values in direct_methods(logs, condition).items():
                found[i, :, METHODS.index(method), k] = values
    return found


# %%
# Direct methods
# --------------
#
# They learn the reward from the features of all slots on the first half of the rounds
# and predict that of the target's slates on the second half.

MODELS = {
    "DM:tree": DecisionTreeRegressor(max_depth=8, min_samples_leaf=10, random_state=0),
    "DM:lasso": make_pipeline(StandardScaler(), Lasso(1e-3, tol=1e-2)),
}


def direct_methods(logs, condition):
    """Values of the targets by method."""
    logs = logged(logs, slice(None), logs.slate, logs.reward, None, context=False)
    halves = np.array_split(np.arange(len(logs)), 2)
    found = {}
    for method, regressor in MODELS.items():
        evaluator = SlateDirectMethod(reward_model=regressor, cv=[halves]).fit(logs)
        found[method] = [
            evaluator.evaluate(target).round_values[halves[1]].mean()
            for target in condition.targets.values()
        ]
    return found


# %%
# The runs
# --------


def all_runs(shape):
    """Errors and counts of zeros by (logger, metric, target, method, size)."""
    condition = Condition(*shape)
    sizes = [n for n in (10**3, 10**4, 10**5, 10**6) if n <= N_ROUNDS[shape]]
    truth = np.array([[condition.truth[m, k] for k in TARGETS] for m in METRICS])
    found = []
    for name in LOGGERS:
        logger = condition.logger(name)
        tables = {
            kind: weight_table(condition.queries, logger, target)
            for kind, target in condition.targets.items()
        }
        check_weights(condition, logger, tables)
        jobs = [
            delayed(run)(condition, logger, tables, sizes, seed)
            for seed in range(N_RUNS)
        ]
        found.append(run_all(jobs, args.n_jobs, f"{shape}, {name}"))
    found = np.array(found)  # (logger, run, metric, target, method, size)
    error = found - truth[:, :, None, None]
    rmse = np.sqrt((error**2).mean(axis=1))
    return sizes, rmse, (found == 0).sum(axis=1), truth


def check_weights(condition, logger, tables):
    """Compare the tables, and the weights of matches, with the evaluators'."""
    logs = condition.worlds["ndcg"].draw(1000, logger, random_state=99)
    query = logs.context[:, 0].astype(int)
    slots = np.arange(condition.shape[1])
    for kind, target in condition.targets.items():
        weight = tables[kind][query[:, None], slots, logs.slate].sum(axis=1)
        asked = round_values(PseudoInverse(), logs, target)
        np.testing.assert_allclose(weight, asked, rtol=1e-8, atol=1e-8)
        if weight.sum() > 0:
            value = PseudoInverse(self_normalized=True).fit(logs).score(target)
            np.testing.assert_allclose(weight @ logs.reward / weight.sum(), value)
        match = (logs.slate == target.deterministic_slates(logs)).all(axis=1)
        if match.any():  # otherwise there is no estimate
            asked = round_values(SlateIPS(), logs, target)
            np.testing.assert_allclose(match / logs.propensity, asked)


def loggers_name(name):
    return name if name == "uniform" else f"{name[0]}, alpha={name[1]:g}"


def main():
    """Run everything, print the tables, draw the figures and assert the orderings."""
    results = {}
    for shape in SHAPES:
        results[shape] = all_runs(shape)
        print_table(shape, *results[shape])
    check_orderings(results)
    draw_curves(results)
    draw_aggregates(results)


def print_table(shape, sizes, rmse, zeros, truth):
    """Print the errors at every size, and how often there was no estimate."""
    print(f"\n(m, l) = {shape}, {N_RUNS} runs: root mean square error")
    head = "".join(f"{f'n={n:,}':>18}" for n in sizes)
    print(
        f"{'logger':>14} {'metric':>6} {'target':>6} {'value':>6} {'method':>8}{head}"
    )
    for i, j, k in np.ndindex(rmse.shape[:3]):
        where = f"{loggers_name(LOGGERS[i]):>14} {METRICS[j]:>6} {TARGETS[k]:>6}"
        for m, method in enumerate(METHODS):
            cells = "".join(
                f"{error:12.4f}{f'({none})' if none else '':>6}"
                for error, none in zip(rmse[i, j, k, m], zeros[i, j, k, m], strict=True)
            )
            print(f"{where} {truth[j, k]:6.3f} {method:>8}{cells}")
    off_policy = rmse[:, :, :, 1:]
    known = ~np.isnan(off_policy).any(axis=(0, 1, 2, 3))
    rank = 1 + np.argsort(np.argsort(off_policy, axis=3), axis=3).mean(axis=(0, 2))
    for j, s in product(range(len(METRICS)), np.flatnonzero(known)):
        ranks = zip(METHODS[1:], rank[j, :, s], strict=True)
        cells = ", ".join(f"{method} {mean:.2f}" for method, mean in ranks)
        print(f"mean rank, {METRICS[j]}, n={sizes[s]:,}: {cells}")


# %%
# What must hold
# --------------
#
# The pseudoinverse errs less than matching whole slates, from ten thousand rounds on.
# The exception is alpha = 2 with fifty documents: the last has 1/1024 of the weight of
# the first, and few of a hundred thousand slates decide.


def slope(sizes, rmse):
    """Slope of log(rmse) over log(n), by least squares."""
    return np.polyfit(np.log(sizes), np.log(rmse), 1)[0]


def check_orderings(results):
    """Assert what the paper's figure shows."""
    wips, wpi = METHODS.index("wIPS"), METHODS.index("wPI")
    for shape, (sizes, rmse, _, _) in results.items():
        large = np.array(sizes) >= 10**4
        smaller = rmse[..., wpi, :] < rmse[..., wips, :]
        assert smaller[:3, ..., large].all(), shape  # alpha is at most 1
        if args.full:
            assert smaller[3, ..., large if shape == (10, 5) else -1].all(), shape
        if shape == (50, 10):
            fall = 1 - rmse[..., wips, -1] / rmse[..., wips, 0]
            print(f"\n{shape}: wIPS falls by {fall.max():.2%} at most")
            assert fall.max() < 0.1
        ndcg = rmse[:, 0, :, wpi].reshape(-1, len(sizes))
        if not args.full:  # few runs tell the slope of the mean of all conditions only
            if sizes[-1] < 10**5:
                continue
            ndcg, large = np.exp(np.log(ndcg).mean(axis=0, keepdims=True)), slice(None)
        slopes = [slope(np.array(sizes)[large], row[large]) for row in ndcg]
        print(f"{shape}: slopes of wPI for NDCG {np.round(slopes, 2)}")
        assert all(-0.7 <= found <= -0.3 for found in slopes), slopes


# %%
# No bias where the reward is a sum, by enumeration
# -------------------------------------------------
#
# With every slate of ten candidates logged once per query, the estimate is its own
# expectation under the uniform logger.


def enumerated_bias(n_queries):
    """Return E[PI] - V over some queries, by metric."""
    condition = Condition(10, 5)
    slates = np.array(list(permutations(range(10), 5)))
    logger, target = UniformSlatePolicy(5), condition.targets["tree"]
    total = dict.fromkeys(METRICS, 0.0)
    for query in range(n_queries):
        number = np.full(len(slates), query)
        for metric, world in condition.worlds.items():
            reward = world.reward(number, slates)
            logs = logged(world.queries, number, slates, reward, logger)
            own = target.deterministic_slates(world.queries[[query]])
            value = world.reward([query], own)[0]
            total[metric] += PseudoInverse().fit(logs).score(target) - value
    return {metric: sum_ / n_queries for metric, sum_ in total.items()}


# %%
# Figures
# -------


def draw_curves(results):
    """Draw the errors against n for four conditions, as in the top row of figure 2."""
    chosen = [
        ((50, 10), 0, 0, 0),
        ((50, 10), 1, 0, 0),
        ((50, 10), 0, 1, 1),
        ((10, 5), 0, 1, 0),
    ]
    fig, axes = plt.subplots(1, 4, figsize=(13, 3.4))
    for ax, (shape, i, j, k) in zip(axes, chosen, strict=True):
        sizes, rmse, zeros, _ = results[shape]
        for method, row, none in zip(
            METHODS, rmse[i, j, k], zeros[i, j, k], strict=True
        ):
            ax.loglog(sizes, row, marker="o", label=method)
            for n, r, z in zip(sizes, row, none, strict=True):
                if z:  # runs that gave no estimate
                    ax.annotate(
                        f"{z}", (n, r), xytext=(0, 4), textcoords="offset points"
                    )
        ax.set(
            title=f"{METRICS[j].upper()}, m={shape[0]}, l={shape[1]}\n"
            f"logging: {loggers_name(LOGGERS[i])}, target: {TARGETS[k]}",
            xlabel="n",
        )
    axes[0].set_ylabel(f"RMSE of {N_RUNS} runs")
    axes[0].legend(fontsize="small")
    fig.tight_layout()


def draw_aggregates(results):
    """Draw how many conditions have a normalised error below x, at the largest n."""
    panels = list(product(METRICS, results))
    fig, axes = plt.subplots(1, len(panels), figsize=(3.2 * len(panels), 3.2))
    for ax, (metric, shape) in zip(axes, panels, strict=True):
        sizes, rmse, _, _ = results[shape]
        last = max(s for s, n in enumerate(sizes) if n <= MODELS_UP_TO)
        error = rmse[:, METRICS.index(metric), :, 1:, last].reshape(-1, 4)
        low, high = error.min(axis=1, keepdims=True), error.max(axis=1, keepdims=True)
        scaled = 0.001 + 0.999 * (error - low) / (high - low)
        count = np.arange(1, len(scaled) + 1)
        for m, column in enumerate(scaled.T, start=1):
            ax.step(np.sort(column), count, f"C{m}", where="post", label=METHODS[m])
        ax.set(
            xscale="log",
            xlabel=f"normalised RMSE, n={sizes[last]:,}",
            title=f"{metric.upper()}, m={shape[0]}, l={shape[1]}",
        )
    axes[0].set_ylabel("number of conditions")
    axes[0].legend(fontsize="small")
    fig.tight_layout()


with warnings.catch_warnings():
    # that few rounds match is what the figure is about
    warnings.simplefilter("ignore", OPEWarning)
    bias = enumerated_bias(len(np.unique(qid)) if args.full else 20)
    print("E[PI] - V by enumeration:", {m: f"{b:.2e}" for m, b in bias.items()})
    assert abs(bias["ndcg"]) < 1e-12
    assert abs(bias["err"]) > 1e-3
    main()
