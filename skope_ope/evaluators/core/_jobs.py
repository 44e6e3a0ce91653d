# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Passes over the rounds, from jobs to results and once more."""

from dataclasses import dataclass, replace

from skope_ope.evaluators.core._blocks import blocks
from skope_ope.evaluators.core._drowned import beyond_floats
from skope_ope.evaluators.core._engine import run
from skope_ope.evaluators.core._kept_rounds import KeptRounds


def evaluate_jobs(jobs, positive, n_jobs=1, keep=False):
    """Return the results of several jobs, from one pass over the rounds."""
    observed, kept = observers_of(jobs, positive), KeptRounds(jobs, positive, keep)
    observers = [*observed.values(), *kept.bounds_in_pass]
    all_jobs = [*jobs, *kept.in_pass]
    run(positive.all_logs, all_jobs, positive, observers, n_jobs=n_jobs)
    for job in jobs:
        job.kept = kept
    with beyond_floats():
        return [job.evaluator._policy_value(job, positive, observed) for job in jobs]


def observers_of(jobs, positive):
    """Return what watches the rounds for some jobs, by name."""
    makers = {}
    for job in jobs:
        makers |= job.evaluator._observers
    return {name: make(positive) for name, make in makers.items()}


def rerun(job, positive, offset, sums=None):
    """Return a job like another after a pass of its own."""
    again = replace(job, design=None, sums=sums)
    observed = observers_of([again], positive)
    run(positive.all_logs, [again], positive, observed.values(), offset)
    return again


@dataclass(frozen=True, eq=False)
class JobTerms:
    """The terms of all rounds, formed when they are called for."""

    job: object  # what was done before
    offset: float  # what is subtracted from all rewards

    def __call__(self):
        """Return the terms, ndarray of shape (n_terms, n_rounds)."""
        return self.job.kept.terms(self.job, self.offset)

    def logged_proba(self, rows):
        """Return what the policy was seen to do, None where that is not known."""
        return self.job.kept.logged_proba(self.job, rows)

    def of(self, rows, offset=None):
        """Return the terms of some rounds, of rewards less this or another offset."""
        job, offset = self.job, self.offset if offset is None else offset
        return job.evaluator._terms(job.kept.rounds(job, offset, rows))

    @property
    def positive(self):
        """The rounds."""
        return self.job.kept.positive


def run_together(sources, take, offset):
    """Hand on the terms of several jobs, block by block."""
    for block in blocks(len(sources[0].positive.all_logs)):
        terms = [one.of(block.rows, offset) for one in sources]
        take(block.low, block.high, terms)
