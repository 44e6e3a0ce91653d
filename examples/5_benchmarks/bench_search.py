# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""
How much does a search cost beyond its work?
============================================

`GridSearchCV` over 24 candidates of `DRns` (six q, two cmax, two reward models) with
five folds, scored by `EvaluatorScorer`, against

- the ideal, written by hand: per fold one fit per distinct reward model, one table of
  the policy's probabilities, one validator, and 24 evaluations from these;
- the same search without what candidates share (``cache=False``).

The search and the ideal both refit the chosen candidate on all rounds. Times are CPU
time (user and system) in one thread. Run it as ::

    python examples/5_benchmarks/bench_search.py
"""

import os

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[variable] = "1"  # read once, when numpy is imported

import argparse
import warnings
from time import process_time

import numpy as np
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import GridSearchCV, KFold, ParameterGrid

from skope_ope import (
    BanditLogs,
    ClassifierPolicy,
    DoublyRobust,
    DRns,
    EvaluatorScorer,
    action_probabilities,
)

GRID = {
    "q": [0.0, 0.01, 0.02, 0.05, 0.1, 0.2],
    "cmax": [0.5, 1.0],
    "reward_model": [Ridge(alpha=1.0), Ridge(alpha=100.0)],
}


def make_problem(n_rounds, n_actions=10, n_features=20, seed=0):
    """Logs of a softmax logger, and a policy that was fitted to other contexts."""
    rng = np.random.default_rng(seed)
    theta = rng.normal(size=(n_features, n_actions)) / np.sqrt(n_features)

    def draw(n):
        X = rng.normal(size=(n, n_features))
        scores = X @ theta
        noise = rng.gumbel(size=scores.shape)
        best = (scores + noise).argmax(axis=1)
        mu = np.exp(scores)
        mu /= mu.sum(axis=1, keepdims=True)
        action = (np.log(mu) + rng.gumbel(size=mu.shape)).argmax(axis=1)
        return X, mu[np.arange(n), action], action, best

    X, propensity, action, best = draw(n_rounds)
    reward = (action == best).astype(float)
    logs = BanditLogs(X, action, reward, propensity, actions=np.arange(n_actions))
    X, _, _, best = draw(2_000)
    return logs, ClassifierPolicy(LogisticRegression(), epsilon=0.2).fit(X, best)


# %%
# The ideal
# ---------
# Nothing is computed twice, and nothing else is done.


def ideal(logs, policy, cv):
    """Mean losses of the candidates, and the best one fitted on all rounds."""
    candidates = list(ParameterGrid(GRID))
    losses = np.zeros((cv.get_n_splits(), len(candidates)))
    for fold, (train, test) in enumerate(cv.split(logs)):
        learned, held_out = logs[train], logs[test]
        pi = action_probabilities(policy, learned)
        validator = DoublyRobust().fit(held_out)
        truth = validator.score(action_probabilities(policy, held_out))
        fitted = [
            DRns(random_state=0, reward_model=model).fit(learned)
            for model in GRID["reward_model"]
        ]
        tables = [one.reward_source_.bind(learned)(learned, 0) for one in fitted]
        for k, parameters in enumerate(candidates):
            table = tables[GRID["reward_model"].index(parameters["reward_model"])]
            one = DRns(random_state=0).set_params(**parameters, cv=5)
            one.set_params(reward_model=table).fit(learned)
            losses[fold, k] = (one.score(pi) - truth) ** 2
    best = candidates[int(losses.mean(axis=0).argmin())]
    refitted = DRns(random_state=0).set_params(**clone(best, safe=False))
    return losses, refitted.fit(logs)


def searched(logs, policy, cv, cache):
    """Mean losses of the candidates by GridSearchCV."""
    search = GridSearchCV(
        DRns(random_state=0),
        GRID,
        cv=cv,
        scoring=EvaluatorScorer(policy, cache=cache),
        error_score="raise",
    ).fit(logs)
    scores = [
        search.cv_results_[f"split{k}_test_score"] for k in range(search.n_splits_)
    ]
    return -np.stack(scores), search.best_estimator_


def timed(call, *args):
    start = process_time()
    losses, _ = call(*args)
    return losses, process_time() - start


def main():
    parser = argparse.ArgumentParser(description="Time of a search over evaluators.")
    parser.add_argument("--n-rounds", type=int, default=100_000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--plain", action="store_true", help="also without the cache")
    options = parser.parse_args()
    warnings.simplefilter("ignore")  # of single evaluations
    logs, policy = make_problem(options.n_rounds)
    cv = KFold(5)
    calls = {"ideal": (ideal, logs, policy, cv)}
    calls["search"] = (searched, logs, policy, cv, True)
    if options.plain:
        calls["search, cache=False"] = (searched, logs, policy, cv, False)
    times, losses = {name: [] for name in calls}, {}
    for _ in range(options.repeats):
        for name, call in calls.items():
            losses[name], seconds = timed(*call)
            times[name].append(seconds)
    limit = min(times["ideal"])
    print(f"24 candidates, 5 folds, n = {len(logs):,}, K = {logs.n_actions}")
    for name, seconds in times.items():
        ratio = min(seconds) / limit
        print(f"  {name:22}{min(seconds):8.2f} s{ratio:8.2f} x the ideal")
    for name in list(calls)[1:]:
        gap = np.abs(losses[name] - losses["ideal"]).max()
        print(f"  {name}: losses differ from the ideal's by {gap:.1e}")
        assert gap < 1e-9


if __name__ == "__main__":
    main()
