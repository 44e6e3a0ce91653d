# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""One pass over the rounds for any number of policies, models and evaluators.

Rows are taken in blocks that fit the cache. Nothing of shape (n_rounds, n_actions)
is made: of the policy and of the model only the logged action's entry and the row's
dot product are needed. A block holds a bounded number of entries, so that memory does
not grow with the number of actions either.
"""

from dataclasses import dataclass
from functools import partial
from math import ceil, log2

import numpy as np
from joblib import effective_n_jobs

from skope_ope._parallel import run_tasks
from skope_ope.evaluators.core._blocks import BLOCK, Chunks
from skope_ope.evaluators.core._drowned import beyond_floats
from skope_ope.evaluators.core._functions import along_of, mean
from skope_ope.evaluators.core._halves import middle_of_range
from skope_ope.evaluators.core._rounds import (
    Block,
    Rounds,
    TargetBlock,
    known_shift,
    model_values,
)
from skope_ope.logs._row_container import own

GROUPED_BLOCK = 100_000  # with groups: a block goes through the sums of all of them
BLOCK_ENTRIES = 1 << 20  # probabilities of a block: with many actions fewer rows
FAR_REWARDS = 5  # ranges that rewards are away from zero where they are shifted


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


EXTRACT_WEIGHTS = Extract(lambda rounds: (rounds.w,))
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
    if not abs(middle) > FAR_REWARDS * (high - low):
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


# -- what policies and models say -----------------------------------------------------
MODEL_ENTRIES = 1 << 24  # predictions of models that are asked per action
PER_WORKER = 4  # chunks of a stretch: workers that are done early wait for the others


class Blocks:
    """The blocks of a pass."""

    def __init__(self, logs, size, positive, shift):
        self.logs, self.size = logs, size
        self.positive, self.shift = positive, shift
        self._offsets = np.arange(0, size * logs.n_actions, logs.n_actions)
        self._middle = middle_of_range(logs.reward_range)

    def starts(self, low, high):
        """Return where the blocks of the rounds low..high-1 begin."""
        return range(low, min(high, len(self.logs)), self.size)

    def at(self, low):
        """Return the block that begins at a round."""
        high = min(low + self.size, len(self.logs))
        about = self.positive, self.shift, self._offsets, self._middle
        return Block(self.logs, low, high, *about)


class Predictors:
    """The policies and models of some jobs, and for how many rounds."""

    # Policies are asked about a bounded number of entries at once. So are models that
    # read a table; those that ask a scikit-learn model for every action have another
    # bound, because every call takes time.

    def __init__(self, logs, jobs, rows, entries, tables=False):
        self.logs = logs
        self.targets = {id(job.target): job.target for job in jobs}
        sources = {id(j.source): j.source for j in jobs if j.source is not None}
        self.models_of = {key: set() for key in self.targets}
        for job in jobs:
            if job.source is not None:
                self.models_of[id(job.target)].add(id(job.source))
        self.alone = {
            key
            for key, target in self.targets.items()
            if not tables and target.answers_alone(logs) and not self.models_of[key]
        }
        n_actions = logs.n_actions
        entries //= n_actions if tables or sources or self._has_tables() else 1
        self.block = max(min(rows, entries, len(logs)), 1)
        calls = max(entries, min(rows, MODEL_ENTRIES // n_actions))
        self._said = {}  # a table, or what is asked and about how many rounds
        self.chunk, self.slow = self.block, False
        for key, target in self.targets.items():
            if target.array is not None:
                self._said[key] = target.array
            elif key in self.alone:
                self._add(key, target.logged, entries)
            else:
                self._add(key, target.chunk, entries, slow=True)
        for key, source in sources.items():
            if hasattr(source, "table_of"):
                self._said[key] = source.table_of(logs)
            elif getattr(source, "asks_models", True):
                self._add(key, source.bind(logs), calls, slow=True)
            else:
                self._add(key, source.bind(logs), entries)

    def _has_tables(self):
        """Whether something has an entry for every action of a round."""
        logged = (
            key in self.alone or target.logged_only
            for key, target in self.targets.items()
        )
        return self.logs.available is not None or not all(logged)

    def _add(self, key, ask, rows, slow=False):
        size = max(rows // self.block, 1) * self.block
        self._said[key] = ask, size
        self.chunk, self.slow = max(size, self.chunk), self.slow or slow

    def walk(self):
        """Return what is said of block after block."""
        return Walk(self)

    def rows_of(self, key):
        """Return a function that gives what one says of the rounds low..high-1."""
        said = self._said[key]
        if isinstance(said, np.ndarray):
            return lambda low, high: said[low:high]
        return Chunks(said[0], self.logs, said[1]).rows

    def mass_on(self, key, block, codes):
        """Return the probability of some actions, of a policy that answers alone."""
        whole = block.high - block.low == len(self.logs)
        rounds = self.logs if whole else self.logs[block.rows]
        policy = self.targets[key].policy
        return policy.mass_on(own(rounds, policy), codes)


class Walk:
    """What policies and models say of blocks in order, asked when it is wanted."""

    def __init__(self, predictors):
        self._predictors, self._rows = predictors, {}

    def _of(self, key, block):
        if key not in self._rows:
            self._rows[key] = self._predictors.rows_of(key)
        return self._rows[key](block.low, block.high)

    def target(self, key, block):
        """Return what a policy does in a block."""
        mass_on = None
        if key in self._predictors.alone:
            mass_on = partial(self._predictors.mass_on, key, block)
        return TargetBlock(block, self._of(key, block), mass_on)

    def values(self, key, target):
        """Return the values of a model for a policy, and for the logged actions."""
        return model_values(target, self._of(key, target.block))


class Ahead:
    """The same from workers, who are asked about a stretch of many blocks at a time."""

    # They hand back a few numbers of every round, and no table. These do not depend on
    # who found them, and what follows adds them up in order.

    def __init__(self, predictors, blocks, workers, readers):
        self._predictors, self._workers = predictors, workers
        self._about = predictors, blocks, readers
        self._found, self._told = {}, set()

    def _of(self, key, block):
        if block.low not in self._found:
            self._found.clear()
            chunk = self._predictors.chunk
            stop = min(block.low + PER_WORKER * self._workers * chunk, block.n_rounds)
            tasks = [
                partial(_numbers, *self._about, low, low + chunk)
                for low in range(block.low, stop, chunk)
            ]
            for part in run_tasks(tasks, self._workers, self._told, prefer="threads"):
                self._found |= part
        return self._found[block.low][key]

    def target(self, key, block):
        """Return what a policy does in a block."""
        pi, missing, _, read = self._of(key, block)
        target = TargetBlock(block, pi)
        target.key, target.missing, target.read = key, missing, read
        return target

    def values(self, key, target):
        """Return the values of a model for a policy, and for the logged actions."""
        return self._of(target.key, target.block)[2][key]


def _numbers(predictors, blocks, readers, low, high):
    """Return what `Ahead` knows of the rounds low..high-1, by block and policy."""
    walk, found = predictors.walk(), {}
    for start in blocks.starts(low, high):
        block, of_block = blocks.at(start), {}
        with beyond_floats():
            for key, models in predictors.models_of.items():
                target = walk.target(key, block)
                values = {model: walk.values(model, target) for model in models}
                read = {name: one.read(key, target) for name, one in readers.items()}
                of_block[key] = target.pi, target.missing, values, read
        found[start] = of_block
    return found
