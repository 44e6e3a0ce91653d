# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""One pass over the rounds for any number of policies, models and evaluators.

Rows are taken in blocks that fit the cache. Nothing of shape (n_rounds, n_actions)
is made: of the policy and of the model only the logged action's entry and the row's
dot product are needed. A block holds a bounded number of entries, so that memory does
not grow with the number of actions either.
"""

from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np
from joblib import effective_n_jobs

from skope_ope._parallel import run_tasks
from skope_ope.evaluators.core._blocks import Chunks
from skope_ope.evaluators.core._drowned import beyond_floats
from skope_ope.evaluators.core._rounds import Block, Rounds, TargetBlock
from skope_ope.evaluators.core._sums import Sums

BLOCK = 20_000  # rows: with fewer, calls take as long as what they do
GROUPED_BLOCK = 100_000  # with groups: a block goes through the sums of all of them
BLOCK_ENTRIES = 1 << 20  # probabilities of a block: with many actions fewer rows
MODEL_ENTRIES = 1 << 24  # predictions of models that are asked per action
PER_WORKER = 2  # chunks of a stretch: workers that are done early wait for the others
FAR = 5  # ranges that rewards are away from zero where they are shifted


@dataclass
class Job:
    """One evaluator on one policy with one model.

    What is added to all rewards is added to the value of some evaluators. They are
    given rewards and model values less an offset, where rewards are far from zero: the
    digits that tell them apart would otherwise be lost in the squares.

    Attributes
    ----------
    evaluator : StaticEvaluator or Extract
        Gives the terms of a block of rounds.
    target : Target
        The policy.
    source : reward source or None
        The model.
    design : Design, default=None
        Weight, stratum and cluster of every round; `None`: set by `begin`.
    sums : Sums or TermStore, default=None
        Where the terms go; `None`: made by `begin`.
    offset : float
        What was subtracted from all rewards; set by `run`.
    kept : KeptRounds, default=None
        What the pass kept of the rounds.
    """

    evaluator: object
    target: object
    source: object
    design: object = None
    sums: object = None
    offset: float = 0.0
    kept: object = None

    def begin(self, block, design):
        """Make what the terms are added to; called with the first block."""
        self.design = design
        if self.sums is None:
            about = self.evaluator._moves, self.evaluator._summed
            self.sums = Sums(design, self.offset, *about)

    def take(self, block, rounds):
        """Add the terms of a block."""
        self.sums.add(block.of(self.design), self.evaluator._terms(rounds))


class Extract:
    """Stands in for an evaluator where per-round arrays themselves are wanted.

    Parameters
    ----------
    pick : callable
        Takes `Rounds` and returns arrays.
    """

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


def run(logs, jobs, positive, observers=(), offset=None, tables=False, n_jobs=1):
    """Hand every job the terms of its evaluator, block by block.

    Parameters
    ----------
    logs : BanditLogs
        The rounds.
    jobs : list of Job
        What is wanted of them; their sums are filled.
    positive : PositiveRounds
        The rounds that enter, and their sample weights.
    observers : sequence, default=()
        They see every block, `begin(block)`, and what every policy does in it,
        `see(key, target)`, before the jobs do; a key stands for a target.
    offset : float, default=None
        What is subtracted from all rewards for the jobs whose terms follow. `None`:
        the middle of rewards that lie far from zero, otherwise 0.
    tables : bool, default=False
        Whether observers need the probabilities of all actions.
    n_jobs : int, default=1
        Chunks of rounds about which policies and models are asked at a time, in
        threads where the caller says nothing else. Terms are added in order, so sums
        do not depend on it.
    """
    predictors = Predictors(logs, jobs, tables, n_jobs)
    shift = known_shift(logs)
    if offset is None:
        offset = far_from_zero(logs.reward[:BLOCK])
    for job in jobs:
        job.offset = offset if job.evaluator._moves is not None else 0.0
    for low in range(0, len(logs), predictors.block):
        high = min(low + predictors.block, len(logs))
        predictors.look_ahead(low)
        block = Block(logs, low, high, positive, shift, predictors.offsets)
        with beyond_floats():
            _take_block(block, predictors, observers)


def _take_block(block, predictors, observers):
    """Show a block to the observers and hand its terms to the jobs."""
    for observer in observers:
        observer.begin(block)
    for key, jobs in predictors.jobs_of.items():
        target = predictors.target(key, block)
        for observer in observers:
            observer.see(key, target)
        made = {}
        for job in jobs:
            name = id(job.source), job.offset
            if name not in made:
                made[name] = Rounds(
                    target, predictors.model(job.source, block), job.offset
                )
            if job.design is None:
                job.begin(block, block.positive.design)
            job.take(block, made[name])


class Predictors:
    """The policies and models of some jobs, and the rounds that they are asked about.

    Policies are asked about a bounded number of entries at once. So are models that
    read a table; those that ask a scikit-learn model for every action have a bound of
    their own, for every call of it takes its time. What is asked at once does not
    depend on the number of workers.

    Parameters
    ----------
    logs : BanditLogs
        The rounds.
    jobs : list of Job
        Jobs with the same target, or source, share what it predicts.
    tables : bool, default=False
        Whether the probabilities of all actions are wanted in any case.
    n_jobs : int, default=1
        Chunks that are predicted at a time.
    """

    def __init__(self, logs, jobs, tables=False, n_jobs=1):
        self.logs, self.n_jobs = logs, n_jobs
        self.targets = {id(job.target): job.target for job in jobs}
        self.jobs_of = {
            key: [job for job in jobs if id(job.target) == key] for key in self.targets
        }
        sources = {id(j.source): j.source for j in jobs if j.source is not None}
        self.alone = {
            key
            for key, target in self.targets.items()
            if not tables
            and target.answers_alone(logs)
            and all(job.source is None for job in self.jobs_of[key])
        }
        n_actions = logs.n_actions
        wide = tables or bool(sources) or self._has_tables()
        rows = BLOCK if logs.group is None else GROUPED_BLOCK
        entries = BLOCK_ENTRIES // (n_actions if wide else 1)
        self.block = max(min(rows, entries, len(logs)), 1)
        self.offsets = np.arange(0, self.block * n_actions, n_actions)
        calls = max(entries, min(BLOCK, MODEL_ENTRIES // n_actions))
        self._slow = []  # what is worth a worker
        self._policies = {
            key: self._answers_of(key, target, self._whole_blocks(entries))
            for key, target in self.targets.items()
        }
        self._models = {
            key: self._values_of(source, entries, calls)
            for key, source in sources.items()
        }

    def _has_tables(self):
        """Whether something has an entry for every action of a round."""
        logged = (
            key in self.alone or target.logged_only
            for key, target in self.targets.items()
        )
        return self.logs.available is not None or not all(logged)

    def _whole_blocks(self, rows):
        return max(rows // self.block, 1) * self.block

    def _answers_of(self, key, target, size):
        """Return a function that gives what a policy does in consecutive rounds."""
        if target.array is not None:
            return partial(_rows_of, target.array)
        if key in self.alone:
            return Chunks(target.logged, self.logs, size).rows
        return self._asked(target.chunk, size)

    def _values_of(self, source, entries, calls):
        """Return a function that gives the values of a model in consecutive rounds."""
        if hasattr(source, "table_of"):
            return partial(_rows_of, source.table_of(self.logs))
        predict = source.bind(self.logs)
        if not getattr(source, "asks_models", True):
            return Chunks(predict, self.logs, self._whole_blocks(entries)).rows
        return self._asked(predict, self._whole_blocks(calls))

    def _asked(self, ask, size):
        chunks = Chunks(ask, self.logs, size)
        self._slow.append(chunks)
        return chunks.rows

    @cached_property
    def _stretch(self):
        """Rounds that workers predict before their blocks are taken; 0: there are none.

        The workers of a stretch are waited for, so all of them have several chunks.
        """
        workers = effective_n_jobs(self.n_jobs) if self._slow else 1
        most = max((chunks.size for chunks in self._slow), default=0)
        return most * workers * PER_WORKER if workers > 1 else 0

    def look_ahead(self, low):
        """Let workers predict the rounds of a stretch, where one begins at `low`."""
        if not self._stretch or low % self._stretch:
            return
        stop = low + self._stretch
        asked = [(chunks, chunks.tasks(low, stop)) for chunks in self._slow]
        tasks = [task for _, part in asked for task in part.values()]
        answers = iter(run_tasks(tasks, self.n_jobs, prefer="threads"))
        for chunks, part in asked:
            chunks.know({start: next(answers) for start in part})

    def target(self, key, block):
        """Return what a policy does in a block."""
        mass_on = None
        if key in self.alone:
            mass_on = partial(self._mass_on, self.targets[key].policy, block)
        return TargetBlock(block, self._policies[key](block.low, block.high), mass_on)

    def _mass_on(self, policy, block, codes):
        whole = block.high - block.low == len(self.logs)
        return policy.mass_on(self.logs if whole else self.logs[block.rows], codes)

    def model(self, source, block):
        """Return the values of a model in a block, or None."""
        if source is None:
            return None
        return self._models[id(source)](block.low, block.high)


def _rows_of(table, low, high):
    return table[low:high]


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
