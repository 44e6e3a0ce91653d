# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""One pass over the rounds for any number of policies, models and evaluators.

Rows are taken in blocks that fit the cache. Nothing of shape (n_rounds, n_actions)
is made: of the policy and of the model only the logged action's entry and the row's
dot product are needed. A block holds a bounded number of entries, so that memory does
not grow with the number of actions either.
"""

from dataclasses import dataclass

import numpy as np
from joblib import effective_n_jobs

from skope_ope.evaluators.core._blocks import BLOCK
from skope_ope.evaluators.core._drowned import beyond_floats
from skope_ope.evaluators.core._functions import along_of
from skope_ope.evaluators.core._predictors import Ahead, Blocks, Predictors
from skope_ope.evaluators.core._rounds import Rounds
from skope_ope.evaluators.core._sums import Sums

GROUPED_BLOCK = 100_000  # with groups: a block goes through the sums of all of them
BLOCK_ENTRIES = 1 << 20  # probabilities of a block: with many actions fewer rows
FAR = 5  # ranges that rewards are away from zero where they are shifted


@dataclass
class Job:
    """One evaluator on one policy with one model."""

    # What is added to all rewards is added to the value of some evaluators. They are
    # given rewards and model values less an offset, where rewards are far from zero:
    # the digits that tell them apart would otherwise be lost in the squares.

    evaluator: object  # gives the terms of a block of rounds
    target: object  # the policy
    source: object  # the model
    # Weight, stratum and cluster of every round; `None`: set by `begin`
    design: object = None
    sums: object = None  # where the terms go; `None`: made by `begin`
    offset: float = 0.0  # what was subtracted from all rewards; set by `run`
    kept: object = None  # what the pass kept of the rounds
    # Extremes of weights and model values; whether this job is the one to take them
    extremes: object = None
    takes_extremes: bool = False
    weighted: object = None  # the job of its weighted rewards, where they are wanted

    def begin(self, block, design):
        """Make what the terms are added to; called with the first block."""
        self.design = design
        if self.sums is None:
            about = self.evaluator._moves, self.evaluator._summed
            along = along_of(self.evaluator)
            weighted = getattr(self.evaluator, "_uses_weights", False)
            about = self.offset, *about
            self.sums = Sums(design, *about, along=along, halves=weighted)

    def take(self, block, rounds):
        """Add the terms of a block."""
        self.sums.add(block.of(self.design), self.evaluator._terms(rounds))
        self._take_extremes(block, rounds)

    def _take_extremes(self, block, rounds):
        if self.takes_extremes:
            self.extremes.take(block, rounds, self.evaluator, self.design)


class Extract:
    """Stands in for an evaluator where per-round arrays themselves are wanted."""

    _moves = None  # rewards are as they are
    _summed = None  # all terms are summed

    def __init__(self, pick):
        self._terms = pick


WEIGHTS = Extract(lambda rounds: (rounds.w,))


class TermStore:
    """Keeps the terms of all rounds, shape (n_terms, n_rounds)."""

    def __init__(self, n_rounds):
        self.n_rounds = n_rounds
        self.terms = None

    def add(self, block, terms):
        """Store the terms of a block."""
        if self.terms is None:
            self.terms = np.empty((len(terms), self.n_rounds))
        for row, term in zip(self.terms, terms, strict=True):
            row[block.low : block.high] = term


def run(
    logs, jobs, positive, observers=(), offset=None, tables=False, n_jobs=1, rows=None
):
    """Hand every job the terms of its evaluator, block by block."""
    shift = known_shift(logs)
    moving = [job for job in jobs if job.evaluator._moves is not None]
    if offset is None and moving:
        offset = far_from_zero(logs.reward[:BLOCK])
    for job in moving:
        job.offset = offset
    rows = (rows or BLOCK) if logs.group is None else GROUPED_BLOCK
    predictors = Predictors(logs, jobs, rows, BLOCK_ENTRIES, tables)
    blocks = Blocks(logs, predictors.block, positive, shift)
    said = predictors.walk()
    if predictors.slow and not (tables or _need_tables(observers)):
        workers = effective_n_jobs(n_jobs)
        if workers > 1:
            readers = {id(one): one for one in observers if hasattr(one, "read")}
            said = Ahead(predictors, blocks, workers, readers)
    jobs_of = {}
    for job in jobs:
        jobs_of.setdefault(id(job.target), []).append(job)
    for low in blocks.starts(0, len(logs)):
        block = blocks.at(low)
        with beyond_floats():
            _take_block(block, jobs_of, said, observers)


def _need_tables(observers):
    """Whether observers look at tables of the policies that workers do not keep."""
    # Those that can `read` a table there are handed what they read.
    return any(
        getattr(observer, "needs_tables", True) and not hasattr(observer, "read")
        for observer in observers
    )


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
            name = id(job.source), job.offset
            if name not in made:
                values = None
                if job.source is not None:
                    values = said.values(id(job.source), target)
                made[name] = Rounds(target, values, job.offset)
            if job.design is None:
                job.begin(block, block.positive.design)
            job.take(block, made[name])


def known_shift(logs):
    """Return the known lower bound of the rewards where it is negative, otherwise 0."""
    return min(logs.reward_range[0], 0.0) if logs.reward_range else 0.0


def far_from_zero(reward):
    """Return the middle of rewards that lie far from zero for their spread, or 0."""
    low, high = float(reward.min()), float(reward.max())
    middle = low + (high - low) / 2
    return middle if abs(middle) > FAR * (high - low) else 0.0


def terms_of(evaluator, logs, target, source, positive, observers=(), tables=False):
    """Return the terms of all rounds, ndarray of shape (n_terms, n_rounds)."""
    job = Job(evaluator, target, source, sums=TermStore(len(logs)))
    run(logs, [job], positive, observers, tables=tables)
    return job.sums.terms
