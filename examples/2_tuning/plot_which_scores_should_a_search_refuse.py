# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
# sphinx_gallery_thumbnail_number = -1
"""
Which scores should a search over policies refuse?
==================================================

The self-normalised pseudoinverse divides by the sum of its weights. Weights of slates
may be negative, so with few rounds the sum may be near zero. Then the value is far
beyond the range of the rewards. A search takes the greatest score, so it finds these
values. A refused score is NaN, and the search continues without the candidate.

Refusing too much is also bad. The values of the best policies are near the upper end of
the range, so noise takes them beyond it most often. So three rules are compared by
their *regret*: the value of the best candidate minus that of the choice. All of them
refuse weights whose sum is not positive.

- "all": nothing else is refused;
- "in range": values beyond the range are refused, and those of weights with a mean
  below 1/4;
- "quarter" (that of :class:`~skope_ope.PolicyScorer`): values that are beyond the range
  by more than a quarter of it are refused, and those of weights with a mean below 1/4.
  Nearer ones are moved to the end of the range.

``--full`` draws 1,000 worlds of each size, which takes about half a minute of CPU.
"""

import argparse
import warnings

import matplotlib.pyplot as plt
import numpy as np

from skope_ope import PolicyScorer, PseudoInverse, SlateLogs
from skope_ope.policies import EmpiricalSlatePolicy, ProductSlatePolicy

parser = argparse.ArgumentParser(allow_abbrev=False)
parser.add_argument("--full", action="store_true", help="1,000 worlds")
parser.add_argument("--n-worlds", type=int, help="default 300")
args = parser.parse_known_args()[0]
n_worlds = args.n_worlds or (1000 if args.full else 300)

# %%
# Worlds
# ------
#
# Three slots of six candidates, filled independently by a logger with favourites, in
# four contexts. The reward of a slate is 1 with a probability that is a sum over its
# slots. Of twenty policies some are close to the logger, some are good, some are both.

N_CONTEXTS, N_SLOTS, N_CANDIDATES, N_POLICIES = 4, 3, 6, 20
SLOTS = np.arange(N_SLOTS)


def draw(n_rounds, peak, rng):
    """Return rounds of a logger, the policies' slates by context, and their values."""
    shape = N_CONTEXTS, N_SLOTS, N_CANDIDATES
    phi = rng.random(shape) / N_SLOTS
    liking = peak * rng.normal(size=shape) + phi * N_SLOTS
    mu = np.exp(liking)
    mu /= mu.sum(axis=2, keepdims=True)
    context = rng.integers(N_CONTEXTS, size=n_rounds)
    slate = (rng.random((n_rounds, N_SLOTS, 1)) > mu[context].cumsum(2)).sum(2)
    slate = np.minimum(slate, N_CANDIDATES - 1)
    mean = phi[context[:, None], SLOTS, slate].sum(axis=1)
    reward = (rng.random(n_rounds) < mean).astype(float)
    near, good = rng.choice([0, 0.3, 1, 3], 20), rng.choice([0, 2, 6], 20)
    scores = rng.normal(size=(N_POLICIES, *shape))
    scores += near[:, None, None, None] * liking / peak
    scores += good[:, None, None, None] * phi * N_SLOTS
    policies = scores.argmax(axis=3)
    truth = phi[np.arange(N_CONTEXTS)[:, None], SLOTS, policies].sum(2).mean(1)
    return (context, slate, reward, mu), policies, truth


def weighted_means(rounds, policies, n_folds):
    """Return value, standard error, mean weight and effective size, fold by fold."""
    context, slate, reward, mu = rounds
    chance = mu[context[:, None], SLOTS, slate]
    weight = ((slate == policies[:, context]) / chance).sum(axis=2) - N_SLOTS + 1
    found = np.full((4, N_POLICIES, n_folds), np.nan)
    for fold, rows in enumerate(np.array_split(np.arange(len(reward)), n_folds)):
        w, r = weight[:, rows], reward[rows]
        total = w.sum(axis=1)
        known = total > 1e-9
        w, total = w[known], total[known]
        value = w @ r / total
        error = np.sqrt(((w * (r - value[:, None])) ** 2).sum(axis=1)) / total
        size = total**2 / (w**2).sum(axis=1)
        found[:, known, fold] = value, error, w.mean(axis=1), size
    return found


# %%
# Rules
# -----

RULES = ("all", "in range", "quarter")


def scores_of(rule, value, mean_weight):
    """Return the scores of values, NaN where they are refused."""
    if rule == "all":
        return value
    inside = np.clip(value, 0, 1)
    beyond = np.abs(value - inside)
    refused = (beyond > (0.25 if rule == "quarter" else 0)) | (mean_weight < 0.25)
    return np.where(refused, np.nan, inside)


def regrets(rounds, policies, truth, n_folds):
    """Return regret, and whether the best score is beyond the range, by rule."""
    value, error, mean_weight, size = weighted_means(rounds, policies, n_folds)
    found = {}
    for rule in RULES:
        split = scores_of(rule, value, mean_weight)
        score = split.mean(axis=1)
        spread = error[:, 0] if n_folds == 1 else split.std(1, ddof=1) / n_folds**0.5
        for less in (0, 1):
            ranked = score - less * spread
            if np.isnan(ranked).all():  # a search raises: the logger stays
                found[rule, less] = truth.max() - rounds[2].mean(), 0.0
                continue
            best = int(np.nanargmax(ranked))
            found[rule, less] = truth.max() - truth[best], not 0 <= score[best] <= 1
    return found, np.nanmedian(size)


# %%
# The third rule is that of the scorer. This is one world by both.

rounds, policies, _ = draw(300, 1.0, np.random.default_rng(0))
context, slate, reward, mu = rounds
alone = np.flatnonzero(context == 0)
logs = SlateLogs(
    context[alone, None],
    slate[alone],
    reward[alone],
    n_candidates=N_CANDIDATES,
    logging_policy=ProductSlatePolicy(mu[0]),
    reward_range=(0, 1),
)
scorer = PolicyScorer(PseudoInverse(self_normalized=True))
some = (context[alone], slate[alone], reward[alone], mu)
value, _, mean_weight, _ = weighted_means(some, policies, 1)
expected = scores_of("quarter", value, mean_weight)[:, 0]

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # the reasons
    scored = [scorer(EmpiricalSlatePolicy(one[[0]]), logs) for one in policies]
assert np.allclose(scored, expected, rtol=1e-9, equal_nan=True)

# %%
# Regret
# ------
#
# The effective size of a fold is the median over candidates and worlds. A score is the
# mean over the folds. "-1 se" ranks by the score minus one standard error. With one
# fold this is the error of the value. With five folds it comes from the spread of the
# folds, as in :func:`~skope_ope.one_standard_error`.

CASES = [
    (60, 1.0, 1),
    (100, 1.0, 1),
    (400, 1.0, 1),
    (5000, 2.0, 1),
    (300, 1.0, 5),
    (500, 1.0, 5),
    (2000, 1.0, 5),
    (10_000, 2.0, 5),
]
print("regret, +- one standard error of its difference from `all`; beyond: best_score_")
print("rounds folds   eff.  by     " + "".join(f"{rule:>25}" for rule in RULES))
table = {}
for n_rounds, peak, n_folds in CASES:
    rng = np.random.default_rng([n_rounds, n_folds])
    runs, sizes = zip(
        *(regrets(*draw(n_rounds, peak, rng), n_folds) for _ in range(n_worlds)),
        strict=True,
    )
    for less in (0, 1):
        line = f"{n_rounds:6} {n_folds:5} {np.median(sizes):6.1f}  "
        line += "value " if less == 0 else "-1 se "
        plain = np.array([run["all", 0][0] for run in runs])
        for rule in RULES:
            regret, beyond = np.array([run[rule, less] for run in runs]).T
            gain = regret - plain
            table[n_rounds, n_folds, rule, less] = gain
            error = gain.std(ddof=1) / n_worlds**0.5
            line += f"  {regret.mean():.3f} {gain.mean():+.3f}+-{error:.3f}"
            line += f" {beyond.mean():4.0%}"
        print(line)

# %%
# With five folds "in range" makes the choice worse. Each of five scores may be refused,
# and those of the best policies are refused most often. The rule of a quarter chooses
# as well as refusing nothing, or better. With both, the best score is within the range.
# With one fold the rules differ little.

five = [n_rounds for n_rounds, _, n_folds in CASES if n_folds == 5]
mean = {rule: [table[n, 5, rule, 0].mean() for n in five] for rule in RULES[1:]}
figure, ax = plt.subplots(figsize=(8, 4), layout="constrained")
for rule, gains in mean.items():
    ax.plot(five, gains, "o-", label=rule)
ax.axhline(0, color="black", ls=":", label="all")
ax.set(xscale="log", xlabel="rounds", ylabel="regret, minus that of refusing nothing")
ax.legend(loc="upper left", bbox_to_anchor=(1, 1))


def ratio(gain):
    """Return a mean in its standard errors."""
    return gain.mean() / (gain.std(ddof=1) / len(gain) ** 0.5)


pooled = {
    rule: np.concatenate([table[n, 5, rule, 0] for n in five]) for rule in RULES[1:]
}
apart = ratio(pooled["in range"] - pooled["quarter"])
print(f"in range minus quarter {apart:.1f} standard errors", end=", ")
print(f"quarter minus all {ratio(pooled['quarter']):.1f}")
assert apart > 2
assert ratio(pooled["quarter"]) < 2
