# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""
How much does a search cost beyond its work?
============================================

`OPESearchCV` against the ideal written by hand, in which per fold every distinct model
is fitted once, the policy's probabilities and the validator are computed once, and all
candidates are evaluated from these. Three cases:

- **A**: 24 candidates of `DRns` (six q, two cmax, two linear models), five folds;
- **B**: eight candidates of `DRns` around a boosted model, three folds;
- **C**: six policies valued by `DoublyRobust`, five folds.

The search and the ideal both refit the choice on all rounds. With ``--plain``
scikit-learn's `GridSearchCV` is measured, too: it shares nothing. Times are CPU time
(user and system) in one thread; ``--n-jobs 2`` measures wall time instead. Run it as ::

    python examples/5_benchmarks/bench_search.py
"""

import argparse
import warnings
from dataclasses import dataclass
from time import perf_counter, process_time

import numpy as np
from sklearn.base import clone
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import GridSearchCV, KFold, ParameterGrid

from skope_ope import (
    BanditLogs,
    ClassifierPolicy,
    DoublyRobust,
    DRns,
    EvaluatorScorer,
    OPESearchCV,
    PolicyScorer,
)
from skope_ope.policies import action_probabilities


@dataclass
class Case:
    """What is searched, and over how many rounds and folds."""

    estimator: object
    grid: dict
    n_rounds: int
    n_folds: int


CASES = {
    "A": Case(
        DRns(random_state=0),
        {
            "q": [0.0, 0.01, 0.02, 0.05, 0.1, 0.2],
            "cmax": [0.5, 1.0],
            "reward_model": [Ridge(alpha=1.0), Ridge(alpha=100.0)],
        },
        100_000,
        5,
    ),
    "B": Case(
        DRns(random_state=0),
        {
            "q": [0.0, 0.02, 0.05, 0.1],
            "cmax": [0.5, 1.0],
            "reward_model": [HistGradientBoostingRegressor(max_iter=30)],
        },
        50_000,
        3,
    ),
    "C": Case(
        ClassifierPolicy(LogisticRegression()),
        {"epsilon": [0.0, 0.2], "classifier__C": [0.01, 0.1, 1.0]},
        20_000,
        5,
    ),
}
MOST = 1.6  # times the ideal
VALUED_BY = DoublyRobust(reward_model=Ridge())


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


def ideal_evaluators(case, logs, policy, cv):
    """Scores of evaluators, and the best one fitted on all rounds."""
    candidates, models = list(ParameterGrid(case.grid)), case.grid["reward_model"]
    scores = np.zeros((cv.get_n_splits(), len(candidates)))
    for fold, (train, test) in enumerate(cv.split(logs)):
        learned, held_out = logs[train], logs[test]
        pi = action_probabilities(policy, learned)
        truth = DoublyRobust().fit(held_out).score(policy)
        tables = []
        for model in models:
            fitted = clone(case.estimator).set_params(reward_model=model).fit(learned)
            tables.append(fitted.reward_model_.bind(learned)(learned, 0))
        for k, parameters in enumerate(candidates):
            table = tables[models.index(parameters["reward_model"])]
            one = clone(case.estimator).set_params(**parameters)
            one.set_params(reward_model=table).fit(learned)
            scores[fold, k] = -((one.score(pi) - truth) ** 2)
    best = candidates[int(scores.mean(axis=0).argmax())]
    clone(case.estimator).set_params(**clone(best, safe=False)).fit(logs)
    return scores


def ideal_policies(case, logs, policy, cv):
    """Scores of policies, and the best one fitted on all rounds."""
    candidates = list(ParameterGrid(case.grid))
    scores = np.zeros((cv.get_n_splits(), len(candidates)))
    for fold, (train, test) in enumerate(cv.split(logs)):
        learned, held_out = logs[train], logs[test]
        fitted = clone(VALUED_BY).fit(held_out)
        table = fitted.reward_model_.bind(held_out)(held_out, 0)
        evaluator = DoublyRobust(reward_model=table).fit(held_out)
        for k, parameters in enumerate(candidates):
            one = clone(case.estimator).set_params(**parameters).fit(learned)
            scores[fold, k] = evaluator.score(one)
    best = candidates[int(scores.mean(axis=0).argmax())]
    clone(case.estimator).set_params(**best).fit(logs)
    return scores


def searched(case, logs, policy, cv, search, n_jobs=None):
    """Scores of the candidates by a search."""
    policies = isinstance(case.estimator, ClassifierPolicy)
    scorer = PolicyScorer(VALUED_BY) if policies else EvaluatorScorer(policy)
    options = {"scoring": scorer, "error_score": "raise", "n_jobs": n_jobs}
    found = search(case.estimator, case.grid, cv=cv, refit=True, **options).fit(logs)
    names = [f"split{k}_test_score" for k in range(found.n_splits_)]
    return np.stack([found.cv_results_[name] for name in names])


def measure(case, options):
    """Print the times of one case."""
    n_rounds = options.n_rounds or case.n_rounds
    logs, policy = make_problem(n_rounds)
    cv = KFold(case.n_folds)
    policies = isinstance(case.estimator, ClassifierPolicy)
    ideal = ideal_policies if policies else ideal_evaluators
    calls = {
        "ideal": lambda: ideal(case, logs, policy, cv),
        "search": lambda: searched(case, logs, policy, cv, OPESearchCV, options.n_jobs),
    }
    if options.plain:
        calls["GridSearchCV"] = lambda: searched(
            case, logs, policy, cv, GridSearchCV, options.n_jobs
        )
    clock = process_time if options.n_jobs is None else perf_counter
    times, scores = {name: [] for name in calls}, {}
    for _ in range(options.repeats):
        for name, call in calls.items():
            start = clock()
            scores[name] = call()
            times[name].append(clock() - start)
    for name, seconds in times.items():
        ratio = min(seconds) / min(times["ideal"])
        print(f"  {name:14}{ratio:8.2f} x the ideal")
        if name == "search" and n_rounds >= options.settled:
            assert ratio <= options.most, f"{ratio:.2f} times the ideal"
    for name in list(calls)[1:]:
        gap = np.abs(scores[name] - scores["ideal"]).max()
        print(f"  {name}: scores differ from the ideal's by {gap:.1e}")
        assert gap < 1e-9


def main():
    parser = argparse.ArgumentParser(description="Time of a search.")
    parser.add_argument("--cases", default="AC")
    parser.add_argument("--n-rounds", type=int, default=None)
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--n-jobs", type=int, default=None)
    parser.add_argument(
        "--settled", type=int, default=10_000, help="rounds that hide fixed costs"
    )
    parser.add_argument("--most", type=float, default=MOST, help="times the ideal")
    parser.add_argument("--plain", action="store_true", help="also GridSearchCV")
    options = parser.parse_args()
    warnings.simplefilter("ignore")  # of single evaluations
    for name in options.cases:
        case = CASES[name]
        n = options.n_rounds or case.n_rounds
        n_candidates = len(ParameterGrid(case.grid))
        print(f"{name}: {n_candidates} candidates, {case.n_folds} folds, n = {n:,}")
        measure(case, options)


if __name__ == "__main__":
    main()
