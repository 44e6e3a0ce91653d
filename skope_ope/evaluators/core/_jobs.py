# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Passes over the rounds, from jobs to results and once more."""

from dataclasses import dataclass, replace

from skope_ope.evaluators.core._drowned import beyond_floats
from skope_ope.evaluators.core._engine import TermStore, run


def evaluate_jobs(jobs, positive, n_jobs=1):
    """Return the results of several jobs, from one pass over the rounds."""
    observed = observers_of(jobs, positive)
    run(positive.all_logs, jobs, positive, observed.values(), n_jobs=n_jobs)
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


@dataclass(frozen=True, eq=False)
class JobTerms:
    """The terms of all rounds, from a pass of their own when they are called for.

    Attributes
    ----------
    job : Job
        What was done before.
    positive : PositiveRounds
        The rounds.
    offset : float
        What is subtracted from all rewards.
    """

    job: object
    positive: object
    offset: float

    def __call__(self):
        """Return the terms, ndarray of shape (n_terms, n_rounds)."""
        return terms_of_job(self.job, self.positive, self.offset)


class _Last:
    """Keeps the terms of the block that is at hand."""

    def __init__(self):
        self.block = self.terms = None

    def add(self, block, terms):
        """Keep the terms of a block."""
        self.block, self.terms = block, terms


class _Handing:
    """Observes the begin of blocks, and hands on the terms of the one before."""

    def __init__(self, kept, take):
        self.kept, self.take = kept, take

    def begin(self, block=None):
        """Hand on what all jobs gave for the last block, if there was one."""
        first = self.kept[0].block
        if first is not None:
            self.take(first.low, first.high, [one.terms for one in self.kept])

    def see(self, key, target):
        """Nothing is to be seen."""


def run_together(sources, take, offset):
    """Hand on the terms of several jobs, block by block.

    Parameters
    ----------
    sources : list of JobTerms
        Of the same rounds.
    take : callable
        `take(low, high, terms)` is given the terms of the rounds low..high-1, a tuple
        for every source.
    offset : float
        What is subtracted from all rewards.
    """
    positive = sources[0].positive
    kept = [_Last() for _ in sources]
    jobs = [
        replace(one.job, design=None, sums=last)
        for one, last in zip(sources, kept, strict=True)
    ]
    handing = _Handing(kept, take)
    observed = observers_of(jobs, positive).values()
    run(positive.all_logs, jobs, positive, [handing, *observed], offset)
    handing.begin()
