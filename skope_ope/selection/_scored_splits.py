# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Scores of candidates, split by split; what they share are local variables."""

from dataclasses import dataclass
from functools import partial
from itertools import groupby
from numbers import Integral
from time import perf_counter
from traceback import format_exc

import numpy as np
from joblib import effective_n_jobs
from scipy.stats import rankdata
from sklearn.exceptions import FitFailedWarning

from skope_ope._parallel import run_tasks
from skope_ope._progress import untold
from skope_ope._sklearn import fitted_part
from skope_ope.exceptions import OPEWarning, warn_user
from skope_ope.selection._candidates import fits_by_model, with_propensities
from skope_ope.selection._scorers import PolicyScorer


@dataclass
class SplitOutcome:
    """Scores and times of a candidate on a split."""

    score: float  # greater is better; `error_score` where something failed
    fit_time: float  # seconds. What candidates share is counted for the first of them
    # Seconds. What candidates share is counted for the first of them
    score_time: float = 0.0
    fit_error: str = ""  # traceback of what failed, or ""
    score_error: str = ""  # traceback of what failed, or ""
    warned: str = ""  # what was said of a score that is NaN, or ""

    @property
    def reason(self):
        """Why there is no score, in a sentence."""
        error = (self.fit_error or self.score_error).strip()
        return error.rpartition("\n")[2] or self.warned or "the scorer returned NaN."


@dataclass(frozen=True)
class Task:
    """Candidates that are scored on one split, one after the other."""

    split: int
    train: np.ndarray
    test: np.ndarray
    candidates: list


def scored(
    estimator, scorer, logs, plan, *, n_jobs, error_score, verbose=0, progress=untold
):
    """Score candidates on splits."""
    # In one process a split is one task, so that all candidates share the scorer's
    # work. So is it in a search over policies: the evaluator is fitted once a split.
    whole = effective_n_jobs(n_jobs) == 1 or isinstance(scorer, PolicyScorer)
    tasks = [
        Task(split, train, test, group)
        for candidates, splits in plan
        for split, (train, test) in enumerate(splits)
        for group in ([candidates] if whole else by_model(candidates))
    ]
    calls = [
        partial(scores_of, estimator, scorer, logs, task, error_score, verbose)
        for task in tasks
    ]
    name = "split" if whole else "model on a split"
    found = run_tasks(calls, n_jobs, progress=progress, name=name)
    n_splits = len(plan[0][1])
    n_candidates = sum(len(candidates) for candidates, _ in plan)
    outcomes = [[None] * n_splits for _ in range(n_candidates)]
    for task, of_task in zip(tasks, found, strict=True):
        for candidate, outcome in zip(by_key(task.candidates), of_task, strict=True):
            outcomes[candidate.number][task.split] = outcome
    return outcomes


def by_key(candidates):
    """Sort candidates, those with the same model one after the other."""
    first = {}
    for place, one in enumerate(candidates):
        first.setdefault(one.key, place)
    return sorted(candidates, key=lambda one: first[one.key])


def by_model(candidates):
    """Return the groups of candidates that have the same model."""
    return [list(group) for _, group in groupby(by_key(candidates), lambda c: c.key)]


def scores_of(estimator, scorer, logs, task, error_score, verbose=0):
    """Score the candidates of a task, in the order of `by_key`."""
    # A fitted model, its predictions, the policy's probabilities and the validator live
    # as long as this call.
    learned, held_out = logs[task.train], logs[task.test]
    several = len(task.candidates) > 1
    judge, outcomes = None, []
    for group in by_model(task.candidates):
        [fits] = fits_by_model(estimator, learned, group).values()
        part = None  # the held-out part, as the steps in front of the group make it
        for candidate in group:
            start = perf_counter()
            try:
                fitted = fits.fit(candidate.params)
            except Exception:
                if isinstance(error_score, str):
                    raise
                seconds = perf_counter() - start
                outcomes.append(
                    SplitOutcome(error_score, seconds, fit_error=format_exc())
                )
                continue
            middle = perf_counter()
            outcome = SplitOutcome(error_score, middle - start)
            try:
                if part is None:
                    last, pipeline = fitted_part(fitted)
                    part = with_propensities(held_out, pipeline)
                    rows = getattr(last, "logs_", learned) if several else None
                    if judge is None or not judge.serves(part, rows):
                        judge = judge_of(scorer, part, rows, held_out)
                outcome.score, outcome.warned = judged_score(judge, fitted)
            except Exception:
                if isinstance(error_score, str):
                    raise
                outcome.score_error = format_exc()
            outcome.score_time = perf_counter() - middle
            outcomes.append(outcome)
            if verbose > 1:
                _print_outcome(task.split, candidate.params, outcome)
    return outcomes


def judged_score(judge, fitted):
    """Return the score of a fitted candidate and why it is NaN; emit its warnings."""
    score, warned = judge.judged(fitted)
    warn_user(warned)
    return float(score), str(warned[0]) if warned and np.isnan(score) else ""


def judge_of(scorer, logs, learned, held_out):
    """Return what scores several candidates on one held-out part."""
    if hasattr(scorer, "on"):
        return scorer.on(logs, learned)
    return Judge(scorer, held_out)


class Judge:
    """Any scorer on one held-out part, with which nothing is shared."""

    def __init__(self, scorer, logs):
        self.scorer, self.logs = scorer, logs

    def serves(self, logs, learned):
        """Tell whether this is the part that it was made for."""
        return True

    def judged(self, estimator):
        """Return the score of a fitted estimator; it has said itself what it is."""
        return self.scorer(estimator, self.logs), []


def _print_outcome(split, params, outcome):
    seconds = outcome.fit_time + outcome.score_time
    settings = ", ".join(f"{name}={value!r}" for name, value in params.items())
    score = f"score={outcome.score:.4g}, {seconds:.2g} s"
    print(f"[split {split}] {settings}: {score}")  # noqa: T201


# -- the table of results of a search, in the form of scikit-learn's searches ----------


def cv_results(params, outcomes):
    """Return `cv_results_`."""
    results = {}
    for name in ("fit_time", "score_time"):
        seconds = np.array([[getattr(o, name) for o in row] for row in outcomes])
        results[f"mean_{name}"] = seconds.mean(axis=1)
        results[f"std_{name}"] = seconds.std(axis=1)
    results |= {**param_columns(params), "params": params}
    scores = np.array([[o.score for o in row] for row in outcomes])
    for split, column in enumerate(scores.T):
        results[f"split{split}_test_score"] = column.copy()
    with np.errstate(invalid="ignore"):  # an infinite error_score has no deviation
        results["mean_test_score"] = scores.mean(axis=1)
        results["std_test_score"] = scores.std(axis=1)
    results["rank_test_score"] = ranks(results["mean_test_score"])
    return results


def param_columns(params):
    """Return the masked columns `param_<name>` of a list of parameters."""
    columns = {}
    for name in sorted({name for one in params for name in one}):
        known = [k for k, one in enumerate(params) if name in one]
        values = [params[k][name] for k in known]
        column = np.ma.masked_all(len(params), dtype=_column_dtype(values, len(params)))
        for k, value in zip(known, values, strict=True):
            column[k] = value
        columns[f"param_{name}"] = column
    return columns


def _column_dtype(values, n_candidates):
    numbers = all(isinstance(value, (bool, int, float, np.number)) for value in values)
    if not numbers or len(values) < n_candidates:
        return object
    return np.array(values).dtype


def ranks(scores):
    """Rank scores, 1 for the greatest; those that are NaN come last, together."""
    worst = np.min(scores, where=~np.isnan(scores), initial=np.inf)
    worst = worst - 1 if np.isfinite(worst) else -np.inf
    filled = np.where(np.isnan(scores), worst, scores)
    return rankdata(-filled, method="min").astype(np.int32)


def chosen(refit, results):
    """Return the index of the best candidate, by rank or as a callable says."""
    if not callable(refit):
        return int(results["rank_test_score"].argmin())
    best = refit(results)
    if not isinstance(best, Integral):
        raise TypeError(
            f"refit must return the index of a candidate, got {type(best).__name__}."
        )
    if not 0 <= best < len(results["params"]):
        raise IndexError(
            f"refit must return the index of one of {len(results['params'])} "
            f"candidates, got {best}."
        )
    return int(best)


def check_any_score(results, outcomes):
    """Raise where no candidate has a score in all splits."""
    if np.isfinite(results["mean_test_score"]).any():
        return
    params, (split, first) = next(
        (params, found)
        for params, row in zip(results["params"], outcomes, strict=True)
        for found in enumerate(row)
        if not np.isfinite(found[1].score)
    )
    raise ValueError(
        f"none of {len(outcomes)} candidates has a score in all "
        f"{len(outcomes[0])} splits: there is nothing to choose from. The first "
        f"reason, of {params} in split {split}: {first.reason}"
    )


def report_failures(outcomes, error_score):
    """Warn of fits and scores that failed; raise where no candidate was fitted."""
    every = [one for row in outcomes for one in row]
    failed = [one.fit_error for one in every if one.fit_error]
    if failed:
        most = max(set(failed), key=failed.count)
        told = f"{len(failed)} fits failed out of a total of {len(every)}"
        if len(failed) == len(every):
            raise ValueError(
                f"all {told}: the candidates are misconfigured. Pass "
                f"error_score='raise' to stop at the first. The most frequent "
                f"error:\n{most}"
            )
        told = (
            f"{told}; the score of these is {error_score}. The most frequent "
            f"error:\n{most}"
        )
        warn_user([FitFailedWarning(told)])
    failed = [one.score_error for one in every if one.score_error]
    if failed:
        told = (
            f"{len(failed)} of {len(every)} scores failed and are {error_score}. "
            f"The most frequent error:\n{max(set(failed), key=failed.count)}"
        )
        warn_user([OPEWarning(told, len(failed))])
