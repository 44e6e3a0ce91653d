# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Scores of candidates, split by split; what they share are local variables."""

from dataclasses import dataclass
from functools import partial
from itertools import groupby
from time import perf_counter
from traceback import format_exc

import numpy as np
from joblib import effective_n_jobs

from skope_ope._inside import fitted_part
from skope_ope._parallel import run_tasks
from skope_ope._progress import untold
from skope_ope._user_line import warn_user
from skope_ope.selection._candidates import with_propensities
from skope_ope.selection._policy_scorer import PolicyScorer
from skope_ope.selection._shared_fits import fits_by_model


@dataclass
class Outcome:
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
    estimator,
    scorer,
    logs,
    plan,
    *,
    n_jobs,
    error_score,
    verbose=0,
    progress=untold,
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
                outcomes.append(Outcome(error_score, seconds, fit_error=format_exc()))
                continue
            middle = perf_counter()
            outcome = Outcome(error_score, middle - start)
            try:
                if part is None:
                    last, pipeline = fitted_part(fitted)
                    part = with_propensities(held_out, pipeline)
                    rows = getattr(last, "logs_", learned) if several else None
                    if judge is None or not judge.serves(part, rows):
                        judge = judge_of(scorer, part, rows, held_out)
                outcome.score, outcome.warned = told(judge, fitted)
            except Exception:
                if isinstance(error_score, str):
                    raise
                outcome.score_error = format_exc()
            outcome.score_time = perf_counter() - middle
            outcomes.append(outcome)
            if verbose > 1:
                _tell(task.split, candidate.params, outcome)
    return outcomes


def told(judge, fitted):
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


def _tell(split, params, outcome):
    seconds = outcome.fit_time + outcome.score_time
    settings = ", ".join(f"{name}={value!r}" for name, value in params.items())
    score = f"score={outcome.score:.4g}, {seconds:.2g} s"
    print(f"[split {split}] {settings}: {score}")  # noqa: T201
