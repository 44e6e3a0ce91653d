# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
# sphinx_gallery_thumbnail_number = -1
"""
Can the reward model be tuned together with q?
==============================================

The reward model is a parameter of the evaluator, and it may be a whole Pipeline:
scaling, features, regression. So its parameters are parameters of the evaluator, too,
named with double underscores as in scikit-learn. One search tunes them together with
``q``, by the error of the *estimate*. The best prediction of the rewards may not give
the best estimate. In :class:`~skope_ope.DRns` and all doubly robust evaluators the
weights correct the model. A model is good enough if little is left to correct.
``--full`` takes about two and a half minutes of CPU.
"""

import argparse
import warnings

import matplotlib.pyplot as plt
import numpy as np
from scipy.special import softmax
from sklearn.base import clone
from sklearn.linear_model import Ridge
from sklearn.model_selection import ShuffleSplit
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures, StandardScaler

from skope_ope import (
    BanditLogs,
    DoublyRobust,
    DRns,
    EvaluatorScorer,
    FunctionPolicy,
    OPESearchCV,
    in_order,
    one_standard_error,
)
from skope_ope.exceptions import OPEWarning

parser = argparse.ArgumentParser(allow_abbrev=False)
parser.add_argument("--full", action="store_true", help="100 logs")
parser.add_argument("--repetitions", type=int, help="logs; default 12")
args = parser.parse_known_args()[0]
repetitions = args.repetitions or (100 if args.full else 12)

# %%
# Rewards that are not linear
# ---------------------------
#
# The reward of an action falls with the distance of the context from the action's
# place: a parabola. The logger prefers some actions everywhere. The policy takes the
# nearest one.

N_ROUNDS, N_ACTIONS, N_FEATURES = 2000, 4, 3
world = np.random.default_rng(0)
PLACES = world.normal(size=(N_ACTIONS, N_FEATURES))
TASTE = world.normal(size=N_ACTIONS)


def expected_rewards(X):
    """Return minus the squared distances from the places of the actions."""
    return -((X[:, None] - PLACES) ** 2).sum(axis=2)


policy = FunctionPolicy(lambda X: softmax(expected_rewards(np.asarray(X)), axis=1))


def draw(seed):
    """Return logs, and the true value of the policy on their contexts."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(N_ROUNDS, N_FEATURES))
    expected, rows = expected_rewards(X), np.arange(N_ROUNDS)
    logging = np.tile(0.8 * softmax(2 * TASTE) + 0.2 / N_ACTIONS, (N_ROUNDS, 1))
    action = rng.choice(N_ACTIONS, size=N_ROUNDS, p=logging[0])
    logs = BanditLogs(
        X,
        action,
        expected[rows, action] + rng.normal(size=N_ROUNDS),
        logging[rows, action],
        actions=np.arange(N_ACTIONS),
    )
    truth = (softmax(expected, axis=1) * expected).sum(axis=1).mean()
    return logs, truth


# %%
# One grid
# --------
#
# There are twelve candidates. The validator gets its own reward model, which should be
# good. Otherwise its noise hides small differences between candidates.

model = make_pipeline(StandardScaler(), PolynomialFeatures(), Ridge())
evaluator = DRns(reward_model=model, cv=2, random_state=0)
GRID = {
    "q": [0.0, 0.05, 0.2],
    "reward_model__polynomialfeatures__degree": [1, 2],
    "reward_model__ridge__alpha": [1.0, 1000.0],
}
validator = DoublyRobust(
    reward_model=make_pipeline(StandardScaler(), PolynomialFeatures(2), Ridge()), cv=2
)

# %%
# This is the choice on every log, and the error of every candidate.

chosen, errors = [], []
for seed in range(repetitions):
    logs, truth = draw(seed)
    search = OPESearchCV(
        evaluator,
        GRID,
        scoring=EvaluatorScorer(policy, validator),
        cv=in_order(ShuffleSplit(5, train_size=0.5, random_state=seed)),
        refit=one_standard_error,
    )
    with warnings.catch_warnings():
        # DRns accepts rounds of a wrong law where q > 0, and says so.
        warnings.simplefilter("ignore", OPEWarning)
        chosen.append(search.fit(logs).best_index_)
        candidates = search.cv_results_["params"]
        fitted = [clone(evaluator).set_params(**one).fit(logs) for one in candidates]
        errors.append([one.score(policy) - truth for one in fitted])

# %%
# What was chosen
# ---------------

errors, chosen = np.array(errors), np.array(chosen)
rmse = np.sqrt((errors**2).mean(axis=0))
counts = np.bincount(chosen, minlength=len(candidates))
print(f"{'q':>5}{'degree':>8}{'alpha':>8}{'bias':>9}{'rmse':>8}{'chosen':>8}")
for k, (q, degree, alpha) in enumerate(
    [one[name] for name in GRID] for one in candidates
):
    print(
        f"{q:5}{degree:8}{alpha:8.0f}{errors[:, k].mean():+9.4f}{rmse[k]:8.4f}"
        f"{counts[k]:8}"
    )
choice = np.sqrt((errors[np.arange(repetitions), chosen] ** 2).mean())
print(f"rmse of the choice {choice:.4f}, of the best {rmse.min():.4f}, ", end="")
print(f"of the worst {rmse.max():.4f}")

figure, ax = plt.subplots(figsize=(8, 4), layout="constrained")
for degree, marker in zip((1, 2), "os", strict=True):
    for alpha, style in zip((1.0, 1000.0), ("-", ":"), strict=True):
        rows = [
            k
            for k, one in enumerate(candidates)
            if one["reward_model__polynomialfeatures__degree"] == degree
            and one["reward_model__ridge__alpha"] == alpha
        ]
        name = f"degree {degree}, alpha {alpha:.0f}"
        ax.plot(GRID["q"], rmse[rows], marker + style, label=name)
ax.axhline(choice, color="black", label="chosen")
ax.set(xlabel="q", ylabel="rmse", ylim=(0, None))
ax.legend(loc="upper left", bbox_to_anchor=(1, 1))

# %%
# The right degree needs little regularisation, and helps at every ``q``. So you cannot
# choose one parameter without the other. The error of the choice is between those of
# the best and the worst candidate, nearer to the best. With half of 2000 rounds the
# validator cannot tell similar candidates apart.


def gain(worse, better):
    """Return the mean log ratio of squared errors, in its standard errors."""
    ratio = np.log(worse / better)
    return ratio.mean() / (ratio.std(ddof=1) / np.sqrt(repetitions))


good = [
    one["reward_model__polynomialfeatures__degree"] == 2
    and one["reward_model__ridge__alpha"] == 1
    for one in candidates
]
squares = errors**2
of_choice = squares[np.arange(repetitions), chosen]
others = squares[:, np.logical_not(good)]
assert gain(others.mean(axis=1), squares[:, good].mean(axis=1)) > 2
assert gain(squares.mean(axis=1), of_choice) > 2
