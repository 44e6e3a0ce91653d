# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
# sphinx_gallery_thumbnail_number = -1
"""
Which evaluator does a search choose, and is it a good one?
===========================================================

No evaluator is the best for all logs. If the logger is close to the policy, importance
weights work well. If it is far away, only a model of the rewards is left. Can the logs
themselves tell which evaluator to use, and with which parameters?

Three ways to choose are compared, by the error of the final estimate:

- always the same evaluator;
- cross-validation (OCV) [1]_: `OPESearchCV` with :class:`~skope_ope.EvaluatorScorer`,
  which compares the estimate on one half of the logs with that of a validator on the
  other half;
- SLOPE [2]_ [3]_: :class:`~skope_ope.SlopeSearch`, which takes the narrowest interval
  that still agrees with those of less biased candidates.

By default the sets come with scikit-learn. ``--full`` runs the nine UCI sets of the
folder ``SKOPE_OPE_DATA`` with 50 repetitions. That takes about three quarters of an
hour of CPU. With ``--keep values.npy`` it stores its results, and continues there when
you start it again.

.. [1] Cief, M., Kveton, B., & Kompan, M. (2025). Cross-validated off-policy evaluation.
   AAAI.
.. [2] Su, Y., Srinath, P., & Krishnamurthy, A. (2020). Adaptive estimator selection for
   off-policy evaluation. ICML.
.. [3] Tucker, G., & Lee, J. (2021). Improved estimator selection for off-policy
   evaluation. Workshop on Reinforcement Learning Theory, ICML.
"""

import argparse
import os
import warnings
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from scipy.special import softmax
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import ShuffleSplit, train_test_split
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler

from skope_ope import (
    IPS,
    SNDR,
    SNIPS,
    DirectMethod,
    DoublyRobust,
    DRos,
    EvaluatorScorer,
    OPESearchCV,
    SlopeSearch,
    SwitchDR,
    evaluate,
    one_standard_error,
)
from skope_ope.datasets import load_classification, make_logs_from_classification
from skope_ope.exceptions import OPEWarning

SHIPPED = ["digits", "wine"]
UCI = ["ecoli", "glass", "letter", "optdigits", "page_blocks", "pendigits", "satimage"]
UCI += ["vehicle", "yeast"]

parser = argparse.ArgumentParser(allow_abbrev=False)
parser.add_argument("--full", action="store_true", help="nine UCI sets, 50 repetitions")
parser.add_argument("--data-home", default=os.environ.get("SKOPE_OPE_DATA"))
parser.add_argument("--sets", nargs="+", help="names of sets, in place of the default")
parser.add_argument("--repetitions", type=int, help="default 3")
parser.add_argument("--splits", type=int, help="of a search; default 4, full 10")
parser.add_argument("--keep", type=Path, help="file for the values, to continue from")
args = parser.parse_known_args()[0]

if args.full and not args.data_home:
    parser.error("--full needs --data-home, the folder of the UCI sets")
sets = args.sets or (UCI if args.full else SHIPPED)
repetitions = args.repetitions or (50 if args.full else 3)
n_splits = args.splits or (10 if args.full else 4)

# %%
# Logs of known truth
# -------------------
#
# Half of a set trains a logistic regression. The other half becomes logs. An action is
# a class, and the reward is 1 for the right one. Loggers and policies are the softmax
# of the regression at several inverse temperatures. The loggers are mixed with 5% of
# uniform exploration. The first logger avoids what the policies prefer, the second one
# is uniform, and the last one is close to them. The two policies alternate over the
# repetitions.

LOGGERS = [-3 / 8, 0, 3 / 8, 7 / 8]
TARGETS = [3 / 8, 10 / 8]


def prepare(name):
    """Return contexts, labels, actions and the regression's log-odds."""
    X, y = load_classification(name, data_home=args.data_home, return_X_y=True)
    X_train, X_test, y_train, y_test = train_test_split(
        X, y, test_size=0.5, random_state=0, stratify=y
    )
    scaler = StandardScaler().fit(X_train)
    X_test = scaler.transform(X_test)
    classifier = LogisticRegression(max_iter=1000)
    classifier.fit(scaler.transform(X_train), y_train)
    log_proba = classifier.predict_log_proba(X_test)
    return X_test, y_test, classifier.classes_, log_proba


def draw(world, logger, target, seed):
    """Return logs that carry the policy's probabilities, and its true value."""
    X, y, actions, log_proba = world
    logging = 0.95 * softmax(logger * log_proba, axis=1) + 0.05 / len(actions)
    logs, _ = make_logs_from_classification(
        X, y, logging=logging, actions=actions, random_state=seed
    )
    pi = softmax(target * log_proba, axis=1)
    truth = pi[np.arange(len(y)), np.searchsorted(actions, y)].mean()
    return logs.with_columns(pi=pi), truth


# %%
# Candidates of different classes
# -------------------------------
#
# All use ridge regressions, cross-fitted in two folds. A search over different classes
# is a search over the last step of a Pipeline.
#
# The validator is `SNDR` with the same model. By default it is `DoublyRobust`, which is
# unbiased. But here half of a log may miss the few large weights that it needs. `SNDR`
# divides its correction by the observed weights. Both are compared.

MODEL = {"reward_model": Ridge(), "cv": 2}
CANDIDATES = {
    "DirectMethod": DirectMethod(**MODEL),
    "IPS": IPS(),
    "SNIPS": SNIPS(),
    "DoublyRobust": DoublyRobust(**MODEL),
    **{f"SwitchDR tau={x}": SwitchDR(tau=x, **MODEL) for x in (1, 3, 10, 30)},
    **{f"DRos lam={x}": DRos(lam=x, **MODEL) for x in (0.1, 1, 10, 100, 1000)},
    **{f"DR cmax={x}": DoublyRobust(cmax=x, **MODEL) for x in (1, 3, 10, 30)},
}
FIXED = list(CANDIDATES)
#: One family, from no bias to that of the model.
PATH = ["DoublyRobust", *(f"DR cmax={x}" for x in (30, 10, 3, 1)), "DirectMethod"]
#: They choose their parameter by an estimate of the mean squared error.
AUTOMATIC = {
    "SwitchDR tau=auto": SwitchDR(tau="auto", **MODEL),
    "DRos lam=auto": DRos(lam="auto", **MODEL),
    "DR cmax=auto": DoublyRobust(cmax="auto", **MODEL),
}
CHOICES = [
    "OCV, one standard error",
    "OCV, least mean",
    "OCV, DR validates",
    "SLOPE++, path",
    "SLOPE++, all",
]
METHODS = [*CHOICES, *AUTOMATIC, *FIXED]

any_evaluator = Pipeline([("evaluator", IPS())])


def cross_validation(seed, validator):
    """Return the search that holds half of the rounds against the other half."""
    return OPESearchCV(
        any_evaluator,
        {"evaluator": list(CANDIDATES.values())},
        scoring=EvaluatorScorer("pi", validator=validator),
        cv=ShuffleSplit(n_splits, train_size=0.5, random_state=seed),
        refit=one_standard_error,
    )


def slope(names, method):
    """Return the search along the intervals of some candidates."""
    grid = {"evaluator": [CANDIDATES[name] for name in names]}
    scorer = EvaluatorScorer("pi")
    return SlopeSearch(any_evaluator, grid, scoring=scorer, method=method)


def values_of(logs, seed):
    """Return the values of all methods on one log."""
    table = evaluate("pi", logs, evaluators={**CANDIDATES, **AUTOMATIC})
    fixed = {name: value.value for name, value in table.items()}
    search = cross_validation(seed, SNDR(**MODEL)).fit(logs)
    unbiased = cross_validation(seed, DoublyRobust(**MODEL)).fit(logs)
    chosen = [
        FIXED[search.best_index_],
        FIXED[np.nanargmax(search.cv_results_["mean_test_score"])],
        FIXED[unbiased.best_index_],
        PATH[slope(PATH, "slope++").fit(logs).best_index_],
        FIXED[slope(FIXED, "slope++").fit(logs).best_index_],
    ]
    return [fixed[name] for name in chosen] + [
        fixed[name] for name in [*AUTOMATIC, *FIXED]
    ]


# %%
# The runs, one repetition of everything after the other.

errors = np.full((repetitions, len(sets), len(LOGGERS), len(METHODS)), np.nan)
if args.keep and args.keep.exists():
    kept = np.load(args.keep)[:repetitions]
    errors[: len(kept)] = kept
worlds = [prepare(name) for name in sets]
for seed in range(repetitions):
    for world, rows in zip(worlds, errors[seed], strict=True):
        if not np.isnan(rows).any():
            continue
        for logger, row in zip(LOGGERS, rows, strict=True):
            logs, truth = draw(world, logger, TARGETS[seed % 2], seed)
            with warnings.catch_warnings():
                # Rare classes are missing from folds, far loggers have large weights.
                warnings.simplefilter("ignore", OPEWarning)
                row[:] = np.subtract(values_of(logs, seed), truth)
        if args.keep:
            np.save(args.keep, errors)

# %%
# Mean squared errors
# -------------------
#
# Errors are over all logs of a set. Their unit is the error of the best fixed candidate
# of the set, which nobody knows beforehand. The last columns are geometric means over
# the sets: relative to that best one, and to always choosing `DoublyRobust`.


def over_logs(errors):
    """Return mean squared errors by set and method."""
    return (errors**2).mean(axis=(0, 2))


def geometric_mean(ratio):
    """Return the geometric mean over the sets."""
    return np.exp(np.log(ratio).mean(axis=0))


mse = over_logs(errors)
best = mse[:, -len(FIXED) :].min(axis=1)
to_best = dict(zip(METHODS, (mse / best[:, None]).T, strict=True))
to_dr = {row: to_best[row] / to_best["DoublyRobust"] for row in METHODS}

print(f"{repetitions} repetitions, {len(LOGGERS)} loggers")
print(f"{'':24}" + "".join(f"{name[:9]:>10}" for name in sets) + "   to best     to DR")
for row in METHODS:
    print(
        f"{row:24}"
        + "".join(f"{ratio:10.2f}" for ratio in to_best[row])
        + f"{geometric_mean(to_best[row]):10.2f}{geometric_mean(to_dr[row]):10.2f}"
    )
best_names = [FIXED[k] for k in mse[:, -len(FIXED) :].argmin(axis=1)]
print("best fixed candidate: ", dict(zip(sets, best_names, strict=True)))

# %%
# This is the same by logger: geometric means over sets of the error, relative to that
# of the best fixed candidate of the set *and* logger.

by_logger = (errors**2).mean(axis=0)
unit = by_logger[..., -len(FIXED) :].min(axis=-1, keepdims=True)
means = geometric_mean(by_logger / unit)
print(f"{'inverse temperature':24}" + "".join(f"{b:10.3f}" for b in LOGGERS))
for row, line in zip(METHODS, means.T, strict=True):
    print(f"{row:24}" + "".join(f"{ratio:10.2f}" for ratio in line))

shown = [*CHOICES, "DoublyRobust", "SNIPS", "IPS", "DirectMethod"]
figure, ax = plt.subplots(figsize=(8, 4), layout="constrained")
for k, row in enumerate(shown):
    ax.scatter(to_best[row], np.full(len(sets), k), color="grey", s=15)
    ax.scatter(geometric_mean(to_best[row]), k, color="black", marker="|", s=300)
ax.axvline(1, color="black", ls=":")
ax.set_yticks(range(len(shown)), shown)
ax.invert_yaxis()
ax.set(xscale="log", xlabel="mean squared error / that of the best fixed candidate")

# %%
# Compared with the published result
# ----------------------------------
#
# [1]_ shows that cross-validation works for evaluators, although others believe that it
# cannot. It compares it with SLOPE on these nine sets, with IPS, DM and DR as
# candidates. The authors released a small run (*ecoli*, five repetitions). Its mean
# squared errors are 0.0006 for cross-validation with DR as the validator, and 0.0006
# for DR itself. SLOPE has 0.0044 and DM 0.0063. We find the same order, counted over
# sets:

CLAIMS = {
    "OCV better than SLOPE++ over all": ("OCV, one standard error", "SLOPE++, all"),
    "OCV better than SLOPE++ on the path": ("OCV, one standard error", "SLOPE++, path"),
    "OCV better than DoublyRobust": ("OCV, one standard error", "DoublyRobust"),
    "OCV better than DM": ("OCV, one standard error", "DirectMethod"),
    "DoublyRobust better than DM": ("DoublyRobust", "DirectMethod"),
}
for claim, (better, worse) in CLAIMS.items():
    count = int((to_best[better] < to_best[worse]).sum())
    print(f"{claim:38}{count:3} of {len(sets)}")

# %%
# The nine sets
# -------------
#
# With ``--full`` the geometric mean of cross-validation is 1.31 times the best fixed
# candidate and 0.39 times `DoublyRobust`. Validated by `DoublyRobust` it has 2.31 and
# 0.68. SLOPE++ has 3.3 and 0.97 over all candidates, 4.6 and 1.4 along the path. The
# first logger makes the difference, in logs with few rounds for the policy by chance.
# There the unbiased validator has the same error as the candidates that it should
# judge. By logger, from the farthest to the closest, cross-validation has 1.34, 1.35,
# 1.34 and 1.12 times the error of the best candidate. The full table is in the
# :ref:`User Guide <choices>`.

# On the sets that scikit-learn ships, of a few hundred rows, there are few logs by
# default. The typical log tells that cross-validation errs less than SLOPE++ and the
# direct method; whether it errs less than `DoublyRobust` is left to ``--full``.


def typical(method):
    """Return the mean log ratio of squared errors to those of OCV, in its errors."""
    ocv, other = (errors[..., METHODS.index(name)] for name in (OCV, method))
    ratio = np.log(other**2 / ocv**2).ravel()
    return ratio.mean() / (ratio.std(ddof=1) / np.sqrt(len(ratio)))


OCV = "OCV, one standard error"
WORSE = ("SLOPE++, path", "SLOPE++, all", "DirectMethod")
print("typical:", {method: round(typical(method), 1) for method in WORSE})
if sets in (UCI, SHIPPED):
    ratio = {row: geometric_mean(to_best[row]) for row in METHODS}
    many = repetitions >= 50
    assert all(typical(method) > 2 for method in WORSE)
    assert ratio[OCV] < 2 and (not many or ratio[OCV] < 0.9 * ratio["DoublyRobust"])
