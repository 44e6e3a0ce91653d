# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""Values of several jobs on rounds in memory, from one pass; and their rounds."""

from dataclasses import dataclass

import numpy as np

from skope_ope.evaluators.core._blocks import blocks
from skope_ope.evaluators.core._drowned import beyond_floats
from skope_ope.evaluators.core._functions import along_of
from skope_ope.evaluators.core._halves import in_upper_half
from skope_ope.evaluators.core._kept_rounds import KeptRounds
from skope_ope.evaluators.core._largest_deviation import WeightedRounds
from skope_ope.evaluators.core._part_pass import PartPass
from skope_ope.evaluators.core._rows import Rows
from skope_ope.evaluators.core._sums import JointSums
from skope_ope.evaluators.core._tally import RoundCounts

MOST_POLICIES = 32  # of a pass: there are products of the terms of any two of them


def evaluate_jobs(jobs, positive, n_jobs=1, keep=False):
    """Return values: of (evaluator, policy, model), or those and an outcome, each."""
    targets, found = list(dict.fromkeys(id(target) for _, target, *_ in jobs)), {}
    for start in range(0, len(targets), MOST_POLICIES):
        some = set(targets[start : start + MOST_POLICIES])
        here = [k for k, (_, target, *_) in enumerate(jobs) if id(target) in some]
        whole = passed([jobs[k] for k in here], positive, n_jobs, keep)
        with beyond_floats():
            for k, job in zip(here, whole.jobs, strict=True):
                found[k] = job.evaluator._policy_value(job, whole)
        whole.release()
    return [found[k] for k in range(len(jobs))]


def passed(jobs, positive, n_jobs=1, keep=False):
    """Return the pass over rounds in memory that jobs share, with their `Job`."""
    n = positive.n
    whole = PartPass(positive, n_total=n, keeps_rounds=True)
    whole.jobs = [
        evaluator._add_to(
            whole, (number, id(target), *(outcome or [None])), target, source
        )
        for number, (evaluator, target, source, *outcome) in enumerate(jobs)
    ]
    whole.run(KeptRounds(whole.jobs, positive, keep), n_jobs)
    whole.counts, whole.overlaps = RoundCounts.of(positive), {}
    return whole


class BoundOfJob:
    """What the rounds of a job know of weights that were not logged, where asked."""

    def __init__(self, job):
        self.job = job

    def largest(self, spare):
        """Return the largest weight, 0 where it is not known."""
        return self.job.kept.bound(self.job).largest(spare)

    @property
    def source(self):
        """Where it comes from."""
        return self.job.kept.bound(self.job).source


def rows_of_job(job, offset=None):
    """Return the `Rows` of a job, of rewards less its own or another offset."""
    terms = JobTerms(job, job.offset if offset is None else offset)
    return Rows(job.design, terms, logs=job.kept.logs)


def weighted_rounds(job, sums):
    """Return the `WeightedRounds` of a job that has some sums."""
    return WeightedRounds(rows_of_job(job), sums, job.key)


@dataclass(frozen=True, eq=False)
class JobTerms:
    """The terms of all rounds, formed when they are called for."""

    job: object  # what was done before
    offset: float  # what is subtracted from all rewards

    def __call__(self):
        """Return the terms, ndarray of shape (n_terms, n_rounds)."""
        return self.job.kept.terms(self.job, self.offset)

    @property
    def numbers(self):
        """Arrays w, pi, q and v of the rounds; None for what there is not."""
        return self.job.kept.parts(self.job)

    def logged_proba(self, rows):
        """Return what the policy was seen to do, None where that is not known."""
        return self.job.kept.logged_proba(self.job, rows)

    def of(self, rows, offset=None):
        """Return the terms of some rounds, of rewards less this or another offset."""
        job, offset = self.job, self.offset if offset is None else offset
        return job.evaluator.terms(job.kept.rounds(job, offset, rows))

    @property
    def positive(self):
        """The rounds."""
        return self.job.kept.positive

    def sums(self, offset):
        """Return the sums of the terms of rewards less another offset."""
        job, design = self.job, self.job.design
        joint, upper = JointSums(design, offset), in_upper_half(self.positive.all_logs)
        for block in blocks(design.n_rounds):
            terms = self.of(block.rows, offset)
            joint.put(None, terms, job.evaluator.shift_with, along_of(job.evaluator))
            some = np.flatnonzero(upper[block.rows])
            joint.add(design.block(block.low, block.high, some))
        return joint.finished().of(None)


def run_together(sources, take, offset):
    """Hand on the terms of several jobs, block by block."""
    for block in blocks(len(sources[0].positive.all_logs)):
        with beyond_floats():
            terms = [one.of(block.rows, offset) for one in sources]
        take(block.low, block.high, terms)
