# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Passes over the rounds, from jobs to results and once more."""

from dataclasses import replace

from skope_ope.evaluators.core._drowned import beyond_floats
from skope_ope.evaluators.core._engine import TermStore, run


def evaluate_jobs(jobs, positive):
    """Return the results of several jobs, from one pass over the rounds."""
    observed = observers_of(jobs, positive)
    run(positive.all_logs, jobs, positive, observed.values())
    with beyond_floats():
        return [job.evaluator._policy_value(job, positive, observed) for job in jobs]


def observers_of(jobs, positive):
    """Return what watches the rounds for some jobs, by name."""
    makers = {}
    for job in jobs:
        makers |= job.evaluator._observers
    return {name: make(positive) for name, make in makers.items()}


def rerun(job, positive, offset, sums=None):
    """Return a job like another after a pass of its own.

    Parameters
    ----------
    job : Job
        What was done before.
    positive : PositiveRounds
        The rounds.
    offset : float
        What is subtracted from all rewards.
    sums : TermStore, default=None
        Where the terms go; `None`: into new sums.
    """
    again = replace(job, design=None, sums=sums)
    observed = observers_of([again], positive)
    run(positive.all_logs, [again], positive, observed.values(), offset)
    return again


def terms_of_job(job, positive, offset):
    """Return the terms of all rounds, of rewards less an offset."""
    store = TermStore(len(positive.all_logs))
    return rerun(job, positive, offset, store).sums.terms
