# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""One pass over the rounds for any number of policies, models and evaluators.

Rows are taken in blocks that fit the cache. Nothing of shape (n_rounds, n_actions)
is made: of the policy and of the model only the logged action's entry and the row's
dot product are needed. A block holds a bounded number of entries, so that memory does
not grow with the number of actions either.
"""

from dataclasses import dataclass
from math import ceil, log2

import numpy as np
from joblib import effective_n_jobs

from skope_ope.evaluators.core._blocks import BLOCK
from skope_ope.evaluators.core._drowned import beyond_floats
from skope_ope.evaluators.core._functions import along_of, mean
from skope_ope.evaluators.core._predictors import Ahead, Blocks, Predictors
from skope_ope.evaluators.core._rounds import Rounds, known_shift

GROUPED_BLOCK = 100_000  # with groups: a block goes through the sums of all of them
BLOCK_ENTRIES = 1 << 20  # probabilities of a block: with many actions fewer rows
FAR = 5  # ranges that rewards are away from zero where they are shifted


@dataclass(eq=False)
class Job:
    """One evaluator on one policy with one model."""

    # What is added to all rewards is added to the value of some evaluators. They are
    # given rewards and model values less an offset, where rewards are far from zero:
    # the digits that tell them apart would otherwise be lost in the squares.

    evaluator: object  # gives the terms of a block of rounds
    target: object  # the policy
    source: object = None  # the model
    key: object = None  # whose the sums are: (evaluator, policy, outcome)
    sums: object = None  # where the terms go: `JointSums` or a `TermStore`
    extremes: object = None  # `Extremes` of weights and model values; None: not taken
    offset: float = 0.0  # what was subtracted from all rewards; set by `run`
    kept: object = None  # what the pass kept of the rounds
    weighted: object = None  # the job of its weighted rewards, where they are wanted
    pooled: object = None  # the `PooledDivergences` of all loggers, where they enter

    @property
    def design(self):
        """Weight, stratum and cluster of every round."""
        return self.sums.frame

    @property
    def outcome(self):
        """Name of the reward that enters; None: that of the logs."""
        return None if self.key is None else self.key[2]

    def take(self, block, rounds):
        """Put the terms of a block."""
        terms, how = self.evaluator.terms(rounds), along_of(self.evaluator)
        self.sums.put(self.key, terms, self.evaluator.shift_with, how)
        if self.extremes is not None:
            self.extremes.take(block, rounds, self.evaluator, self.design)
        if self.pooled is not None:
            self.pooled.add(block, rounds)


class Extract:
    """Stands in for an evaluator where per-round arrays themselves are wanted."""

    shift_with, combine = None, staticmethod(mean)  # rewards are as they are

    def __init__(self, pick):
        self.terms = pick


WEIGHTS = Extract(lambda rounds: (rounds.w,))
NOTHING = Extract(lambda rounds: ())  # observers alone look at the rounds


class TermStore:
    """Keeps the terms of all rounds, shape (n_terms, n_rounds)."""

    frame = terms = _put = None

    def __init__(self, n_rounds):
        self.n_rounds = n_rounds

    def put(self, key, terms, moves=None, along=()):
        """Take the terms of a block."""
        self._put = terms

    def add_rounds(self, block):
        """Store the terms of a block of rounds."""
        if self._put is None:
            return
        if self.terms is None:
            self.terms = np.empty((len(self._put), self.n_rounds))
        for row, term in zip(self.terms, self._put, strict=True):
            row[block.low : block.high] = term
        self._put = None


def run(
    logs,
    jobs,
    positive,
    observers=(),
    offset=None,
    tables=False,
    n_jobs=1,
    rows=None,
):
    """Hand every job the terms of its evaluator, block by block."""
    shift = known_shift(logs)
    moving = [job for job in jobs if job.evaluator.shift_with is not None]
    if offset is None and moving:
        offset = offset_of(logs.reward)
    for job in moving:
        job.offset = offset
    rows = (rows or BLOCK) if logs.group is None else GROUPED_BLOCK
    predictors = Predictors(logs, jobs, rows, BLOCK_ENTRIES, tables)
    blocks = Blocks(logs, predictors.block, positive, shift)
    said = predictors.walk()
    asked = any(one.needs_tables and not one.reads for one in observers)
    if predictors.slow and not (tables or asked):
        workers = effective_n_jobs(n_jobs)
        if workers > 1:
            readers = {id(one): one for one in observers if one.reads}
            said = Ahead(predictors, blocks, workers, readers)
    jobs_of, all_sums = {}, {one.sums for one in (*jobs, *observers)} - {None}
    for job in jobs:
        jobs_of.setdefault(id(job.target), []).append(job)
    with beyond_floats():
        for low in blocks.starts(0, len(logs)):
            block = blocks.at(low)
            _take_block(block, jobs_of, said, observers)
            for one in all_sums:
                one.add_rounds(block)


def _take_block(block, jobs_of, said, observers):
    """Show a block to the observers and hand its terms to the jobs."""
    for observer in observers:
        observer.begin(block)
    for key, jobs in jobs_of.items():
        target = said.target(key, block)
        for observer in observers:
            observer.see(key, target)
        made = {}
        for job in jobs:
            name = id(job.source), job.offset, job.outcome
            if name not in made:
                values = None
                if job.source is not None:
                    values = said.values(id(job.source), target)
                made[name] = Rounds.of_block(target, values, job.offset, job.outcome)
            job.take(block, made[name])


def offset_of(reward):
    """Return what is subtracted from rewards that lie far from zero, or 0."""
    # Parts of a log find the same number, as long as their rewards are alike: a
    # multiple of a power of two that is about as large as their range.
    low, high = float(reward[:BLOCK].min()), float(reward[:BLOCK].max())
    middle = low + (high - low) / 2
    if not abs(middle) > FAR * (high - low):
        return 0.0
    if not high > low:
        return middle
    step = 2.0 ** ceil(log2(high - low))
    return step * round(middle / step)


def terms_of(evaluator, logs, target, source, positive, observers=(), tables=False):
    """Return the terms of all rounds, ndarray of shape (n_terms, n_rounds)."""
    job = Job(evaluator, target, source, sums=TermStore(len(logs)))
    run(logs, [job], positive, observers, tables=tables)
    return job.sums.terms
