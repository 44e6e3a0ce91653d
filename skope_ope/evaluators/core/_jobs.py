# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Passes over the rounds, from jobs to results and once more."""

from dataclasses import dataclass, replace
from functools import cached_property

from skope_ope.evaluators.core._blocks import blocks
from skope_ope.evaluators.core._drowned import beyond_floats
from skope_ope.evaluators.core._engine import run
from skope_ope.evaluators.core._estimate import sums_of_rounds
from skope_ope.evaluators.core._extremes import Extremes
from skope_ope.evaluators.core._kept_rounds import KeptRounds
from skope_ope.evaluators.core._largest_deviation import (
    LargestDeviation,
    WeightedRewards,
)
from skope_ope.evaluators.core._rows import Rows
from skope_ope.logs._known_range import known_range


def evaluate_jobs(jobs, positive, n_jobs=1, keep=False):
    """Return the results of several jobs, from one pass over the rounds."""
    observed, kept = observers_of(jobs, positive), KeptRounds(jobs, positive, keep)
    observers = [*observed.values(), *kept.bounds_in_pass]
    weighted = _weighted_jobs(jobs)
    all_jobs = [*jobs, *weighted, *kept.in_pass]
    run(positive.all_logs, all_jobs, positive, observers, n_jobs=n_jobs)
    for job in [*jobs, *weighted]:
        job.kept = kept
    with beyond_floats():
        return [job.evaluator._policy_value(job, positive, observed) for job in jobs]


def _weighted_jobs(jobs):
    """Return jobs that sum weighted rewards and weights, which intervals need, too."""
    found, extremes = {}, {}
    for job in jobs:
        evaluator = job.evaluator
        key = id(job.target), evaluator._weight_kind, evaluator._strata_key
        of_model = *key, id(job.source)
        job.takes_extremes = of_model not in extremes
        job.extremes = extremes.setdefault(of_model, Extremes())
        if evaluator._uses_weights:
            if key not in found:
                found[key] = evaluator._job_like(job, WeightedRewards(evaluator))
            job.weighted = found[key]
    return list(found.values())


def largest_deviation(job, positive, lost, shift):
    """Return what finds how far a round may lie from the estimate of a job."""
    logs, weighted = positive.all_logs, job.weighted
    return LargestDeviation(
        job.evaluator,
        known_range(logs),
        job.extremes,
        shift,
        logs._reward_extremes,
        lost,
        None if weighted is None else _weighted_rounds(weighted, logs),
        BoundOfJob(job),
        len(logs),
    )


class BoundOfJob:
    """What the rounds of a job know of weights that were not logged, where asked."""

    def __init__(self, job):
        self.job = job

    def largest(self, spare):
        """Return the largest weight, 0 where it is not known."""
        return self.job.kept.bound(self.job).known(spare)

    @property
    def source(self):
        """Where it comes from."""
        return self.job.kept.bound(self.job).source


class WeightedRounds:
    """Weighted rewards and weights of rounds, and their sums."""

    def __init__(self, rows, offset, sums=None):
        self.rows, self.offset = rows, offset
        if sums is not None:
            self.sums = sums

    @cached_property
    def sums(self):
        """Their sums."""
        rows = self.rows
        return sums_of_rounds(rows.design, rows.terms, self.offset, rows.upper, moves=1)

    def value(self, like, estimate, find):
        """Return the value of these rounds that has an estimate."""
        return like._derived(estimate, self.rows, estimator="SNIPS", reach=find)

    def take(self, places):
        """Return those of some rounds."""
        return WeightedRounds(self.rows.take(places), self.offset)


def _weighted_rounds(job, logs):
    rows = Rows(job.design, JobTerms(job, job.offset), logs=logs)
    return WeightedRounds(rows, job.offset, job.sums)


def observers_of(jobs, positive):
    """Return what watches the rounds for some jobs, by name."""
    makers = {}
    for job in jobs:
        makers |= job.evaluator._observers
    return {name: make(positive) for name, make in makers.items()}


def rerun(job, positive, offset, sums=None):
    """Return a job like another after a pass of its own."""
    again = replace(job, design=None, sums=sums, takes_extremes=False)
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
