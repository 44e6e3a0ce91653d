# Authors: the skope_ope developers
# SPDX-License-Identifier: BSD-3-Clause
"""One pass over the rounds for any number of policies, models and evaluators.

Rows are taken in blocks that fit the cache. Nothing of shape (n_rounds, n_actions)
is made: of the policy and of the model only the logged action's entry and the row's
dot product are needed. A block holds a bounded number of entries, so that memory does
not grow with the number of actions either.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from skope_ope.evaluators.core._drowned import beyond_floats
from skope_ope.evaluators.core._rounds import Block, Rounds, TargetBlock
from skope_ope.evaluators.core._sums import Sums

BLOCK = 20_000  # rows: with fewer, calls take as long as what they do
GROUPED_BLOCK = 100_000  # with groups: a block goes through the sums of all of them
BLOCK_ENTRIES = 1 << 20  # probabilities of a block: with many actions fewer rows
MODEL_ENTRIES = 1 << 24  # predictions asked at once: a model is asked per action
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


def run(logs, jobs, positive, observers=(), offset=None, tables=False):
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
    """
    predictors = Predictors(logs, jobs, tables)
    shift = known_shift(logs)
    if offset is None:
        offset = far_from_zero(logs.reward[:BLOCK])
    for job in jobs:
        job.offset = offset if job.evaluator._moves is not None else 0.0
    for start, stop in predictors.chunks():
        predictions = predictors.predict(start, stop)
        for low in range(start, stop, predictors.block):
            high = min(low + predictors.block, stop)
            block = Block(logs, low, high, positive, shift, predictors.offsets)
            with beyond_floats():
                _take_block(block, predictions.of(block), predictors, observers)


def _take_block(block, predictions, predictors, observers):
    """Show a block to the observers and hand its terms to the jobs."""
    for observer in observers:
        observer.begin(block)
    for key, jobs in predictors.jobs_of.items():
        target = predictions.target(key)
        for observer in observers:
            observer.see(key, target)
        made = {}
        for job in jobs:
            name = id(job.source), job.offset
            if name not in made:
                made[name] = Rounds(
                    target, predictions.model(id(job.source)), job.offset
                )
            if job.design is None:
                job.begin(block, block.positive.design)
            job.take(block, made[name])


class Predictors:
    """The policies and models of some jobs, and the chunks in which they predict.

    Parameters
    ----------
    logs : BanditLogs
        The rounds.
    jobs : list of Job
        Jobs with the same target, or source, share what it predicts.
    tables : bool, default=False
        Whether the probabilities of all actions are wanted in any case.
    """

    def __init__(self, logs, jobs, tables=False):
        self.logs = logs
        self.targets = {id(job.target): job.target for job in jobs}
        self.jobs_of = {
            key: [job for job in jobs if id(job.target) == key] for key in self.targets
        }
        sources = {id(j.source): j.source for j in jobs if j.source is not None}
        self.models = {key: source.bind(logs) for key, source in sources.items()}
        self.alone = {
            key
            for key, target in self.targets.items()
            if not tables
            and target.answers_alone(logs)
            and all(job.source is None for job in self.jobs_of[key])
        }
        n_actions = logs.n_actions
        self.entries = n_actions if tables or self._has_tables() else 1
        rows = BLOCK if logs.group is None else GROUPED_BLOCK
        self.block = max(min(rows, BLOCK_ENTRIES // self.entries, len(logs)), 1)
        self.offsets = np.arange(0, self.block * n_actions, n_actions)

    def _has_tables(self):
        """Whether something has an entry for every action of a round."""
        logged = (
            key in self.alone or target.logged_only
            for key, target in self.targets.items()
        )
        return bool(self.models) or self.logs.available is not None or not all(logged)

    def chunks(self):
        """Yield (start, stop) of the rounds that are asked at once."""
        n, K, block = len(self.logs), self.entries, self.block
        whole = BLOCK_ENTRIES // K
        if self.models:
            whole = max(whole, min(BLOCK, MODEL_ENTRIES // K))
        chunk = max(whole // block, 1) * block
        for start in range(0, n, chunk):
            yield start, min(start + chunk, n)

    def predict(self, start, stop):
        """Let policies and models predict the rounds start..stop-1."""
        rounds = self.logs  # arrays need no cut of them
        asks = self.models or any(t.policy is not None for t in self.targets.values())
        if asks and stop - start < len(self.logs):
            rounds = self.logs[start:stop]
        values = {key: call(rounds, start) for key, call in self.models.items()}
        proba, mass = {}, {}
        for key, target in self.targets.items():
            if key in self.alone:
                proba[key] = target.policy.logged_proba(rounds)
                mass[key] = target.policy
            else:
                proba[key] = target.chunk(rounds, start, stop)
        return Predictions(start, rounds, proba, mass, values)


class Predictions:
    """What policies and models said of a chunk of rounds."""

    def __init__(self, start, rounds, proba, mass, values, rows=slice(None)):
        self.start, self.rounds, self.rows = start, rounds, rows
        self.proba, self.mass, self.values = proba, mass, values
        self.block = None

    def of(self, block):
        """Return the predictions on a block of the chunk."""
        rows = slice(block.low - self.start, block.high - self.start)
        out = Predictions(
            self.start, self.rounds, self.proba, self.mass, self.values, rows
        )
        out.block = block
        return out

    def target(self, key):
        """Return what a policy does in the block."""
        mass_on = None
        if key in self.mass:
            mass_on = self._mass_on(self.mass[key])
        return TargetBlock(self.block, self.proba[key][self.rows], mass_on)

    def _mass_on(self, policy):
        return lambda codes: policy.mass_on(self._part, codes)

    @cached_property
    def _part(self):
        whole = self.block.high - self.block.low == len(self.rounds)
        return self.rounds if whole else self.rounds[self.rows]

    def model(self, key):
        """Return the values of a model in the block, or None."""
        return self.values[key][self.rows] if key in self.values else None


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
